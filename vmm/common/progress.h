/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far long work has come: a line on a terminal that changes in place, and is gone at the end.
 * There is none if standard error is no terminal. One piece of work at a time has one.
 */
#ifndef VMM_PROGRESS_H
#define VMM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum progress_beside {
    PROGRESS_ALONE, /* nothing is printed until the end */
    /* Standard output is: only into a file or /dev/null, since what reads a pipe may print too. */
    PROGRESS_BESIDE_LINES,
};

/* Private: whether there is a line, and where the work has to be for the next look at the clock. */
struct progress_state {
    bool is_on;
    uint64_t done, next;
};
extern struct progress_state progress_state;

/* The work begins, of so many bytes; 0: nobody knows how many. */
void progress_begin(const char *what, uint64_t total_bytes, enum progress_beside beside);
void progress_update(void);
void progress_end(void);

/* The work has come to this byte; never back. Cheap: may be said of each packet. */
static inline void progress_to(uint64_t done_bytes)
{
    progress_state.done = done_bytes;
    if (progress_state.is_on && done_bytes >= progress_state.next)
        progress_update();
}

static inline void progress_add(uint64_t bytes)
{
    progress_to(progress_state.done + bytes);
}

/* A line of other words, shown as it is. Not often: each is shown. */
void progress_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Takes the line away for others that follow; the next progress brings it back. */
void progress_clear(void);
/* The guest prints: on a terminal, no line is shown in the middle of one of the guest's. */
void progress_guest(FILE *to, char printed);

#endif
