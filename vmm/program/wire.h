/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `vpt trace` and the first process of its guest (agent/) tell each other, over one port of
 * virtio-serial: frames of a head and so many bytes, in the byte order of x86.
 *
 *   guest: HELLO, with the words of its processor's features
 *   host:  JOB, records of one letter (enum wire_record) and a text each, each text with its NUL
 *   guest: READY, as soon as the program may begin, or FAILED
 *   host:  GO
 *   both:  STDIN, of which one is on its way at a time, and TAKEN for it; STDOUT, STDERR; CLOSED;
 *          SIGNAL
 *   guest: ENDED, or FAILED; behind ENDED, if perf recorded, PERF_DATA in pieces, the last one
 * empty
 *
 * A guest is not trusted: the host checks what comes, and it can say nothing but this.
 */
#ifndef VMM_PROGRAM_WIRE_H
#define VMM_PROGRAM_WIRE_H

#include <stdint.h>

#define WIRE_PORT      "vpt" /* the port's name */
#define WIRE_MAX_BYTES (64u << 10)
#define WIRE_JOB_BYTES (8u << 20) /* of a JOB, which is longer */

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_JOB,
    WIRE_READY,
    WIRE_GO,
    WIRE_STDIN, /* no bytes: the end of it */
    WIRE_TAKEN,
    WIRE_STDOUT,
    WIRE_STDERR,
    WIRE_CLOSED,    /* nobody reads the stream any more: a byte, 1 or 2 */
    WIRE_SIGNAL,    /* for the program: its number, a byte */
    WIRE_PERF_DATA, /* a piece of the file */
    WIRE_ENDED,     /* struct wire_end */
    WIRE_FAILED,    /* struct wire_failure and what failed, a text */
};

struct wire_head {
    uint32_t type, len;
};

struct wire_end {
    uint32_t status; /* of waitpid() */
};

struct wire_failure {
    uint32_t error;   /* an errno */
    uint32_t is_exec; /* the program could not be executed */
};

enum wire_record {
    RECORD_ARGUMENT = 'a',
    RECORD_VARIABLE = 'e', /* of the environment */
    RECORD_FOLDER = 'd',   /* where the program runs */
    RECORD_USER = 'u',
    RECORD_GROUP = 'g',
    RECORD_GROUPS = 'G', /* more of them, each a record */
    RECORD_UMASK = 'm',
    RECORD_HOST = 'h',    /* the name of the machine */
    RECORD_ONE_OUT = 'o', /* standard error is where standard output is */
    RECORD_NETWORK = 'n', /* there is one */
    RECORD_PERF = 'p',    /* perf records: its path */
    RECORD_EVENT = 'P',   /* and its event */
};

#endif
