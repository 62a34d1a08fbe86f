/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that is to run, as a JOB of the wire says it, and its process. */
#ifndef VMM_PROGRAM_AGENT_JOB_H
#define VMM_PROGRAM_AGENT_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct job {
    char **arguments, **environment; /* to a NULL; they stand in the bytes of the JOB */
    gid_t *groups;
    size_t group_count;
    const char *folder, *host, *perf, *event;
    uid_t user;
    gid_t group;
    mode_t mask;
    bool one_out, has_network;
};

/* A process that waits to become the program. */
struct child {
    pid_t pid;
    int in, out, err; /* our ends of its streams; -1: closed */
    int go;           /* a byte lets it begin */
    int failed;       /* says an errno if it cannot become the program, else nothing */
};

/* From a JOB that ends with a NUL. Fails by port_fail(). */
void job_parse(char *bytes, size_t len, struct job *job);
/* Starts the process, up to the point where only the program is left to begin. */
void child_prepare(const struct job *job, struct child *child);
/*
 * Lets it begin. 0, or the errno for which the program cannot be executed. If perf is to record it,
 * it stops in front of the program's first instruction.
 */
int child_begin(struct child *child);

#endif
