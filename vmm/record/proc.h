/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of /proc and /sys, below a root that a test may choose. */
#ifndef VMM_RECORD_PROC_H
#define VMM_RECORD_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROC_TEXT_BYTES 4096u

/*
 * The text of ROOT followed by a path, cut off where it is too long; a newline at its end is left
 * out. How many bytes, or -errno.
 */
int proc_text(char *text, size_t text_bytes, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A file that is one number, decimal or with 0x; negative ones count modulo 2^64. 0 or -errno. */
int proc_number(uint64_t *value, const char *root, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether there is such a file. */
bool proc_exists(const char *root, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The names in a folder that begin with a digit, as numbers in order. */
struct proc_ids {
    uint32_t *list;
    size_t count;
};

/* 0 or -errno. */
int proc_ids(struct proc_ids *ids, const char *root, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void proc_ids_free(struct proc_ids *ids);
/* How many descriptors of a process are links to something of this name ("anon_inode:kvm-vm"). */
unsigned proc_descriptors(const char *root, uint32_t pid, const char *name);

#endif
