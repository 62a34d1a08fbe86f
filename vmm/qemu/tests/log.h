/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of execlog.c, read: what compare.c and ran.c share.
 */
#ifndef QEMU_TESTS_LOG_H
#define QEMU_TESTS_LOG_H

#include "common/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An instruction of the table, as its bytes were: of execlog.c's option "code". */
struct log_code {
    uint8_t len, bytes[15];
};

struct log {
    struct bytes words; /* of addresses; or, with a table, of blocks */
    struct bytes table;
    struct bytes code;  /* struct log_code, in the table's order; empty if it was not logged */
    struct bytes times; /* of addresses; empty if they were not logged */
    bool has_pages;     /* words have them: to be set before log_open() */
    size_t *blocks;     /* where in the table each one is */
    size_t block_count;
    size_t next; /* in words: what was not unfolded yet */
    /* From number begin to end: of any log, two of a log of addresses, and of one of blocks. */
    uint64_t *ips;
    uint16_t *pages;
    uint64_t *tscs;
    uint32_t *codes; /* numbers of what is in code */
    size_t begin, end, room;
};

/* table: NULL if path is a log of addresses. 0 or -errno. */
int log_open(struct log *log, const char *path, const char *table);
/* The code that a log of blocks ran, after log_open(). 0 or -errno. */
int log_open_code(struct log *log, const char *path);
void log_close(struct log *log);
/* Whether there are so many addresses; if so, they are in ips. */
bool log_has(struct log *log, size_t end);
/* Forgets what is in front of an address that is there, but one. */
void log_forget(struct log *log, size_t pos);
/* The address number pos, which is there. */
uint64_t log_ip(const struct log *log, size_t pos);
/* Its TSC, if there are times. */
uint64_t log_tsc(const struct log *log, size_t pos);

#endif
