/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why something failed, in one line, for whoever asked: functions below the subcommands return
 * -errno, and leave the words here. Only a subcommand prints them and chooses an exit code.
 */
#ifndef VMM_REASON_H
#define VMM_REASON_H

struct reason {
    char text[512]; /* "" as long as nothing failed */
};

/* Writes the line, cut off where it is too long, and returns error. */
int reason_set(struct reason *why, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same of a file: its name, and what -errno means. */
int reason_of_file(struct reason *why, int error, const char *name);
/* There is no memory: -ENOMEM. */
int reason_no_memory(struct reason *why);

/* Is told, in one line, what is strange but no failure. */
typedef void (*remark_fn)(const char *line);
/* Tells it to somebody; to nobody if tell is NULL. */
void remark(remark_fn tell, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
