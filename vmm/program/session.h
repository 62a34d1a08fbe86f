/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of this machine in the guest: the host's end of the wire. Its streams are this
 * process's own; signals that ask this process to end are for the program.
 */
#ifndef VMM_PROGRAM_SESSION_H
#define VMM_PROGRAM_SESSION_H

#include "common/bytes.h"
#include "common/reason.h"
#include "program/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct session_job {
    char *const *arguments; /* to a NULL; the first is the program */
    char *const *environment;
    const char *folder;       /* absolute */
    const char *perf, *event; /* perf records; or NULL */
    /* Takes the next piece of its file. 0, or -errno and why. */
    int (*keep)(void *owner, const void *bytes, size_t len, struct reason *why);
    void *owner;
    bool has_network;
};

struct session {
    int wire, signals;
    struct bytes out; /* for the guest, and not sent yet */
    size_t sent;
    /* The frame that comes. */
    struct wire_head head;
    size_t head_len, body_len;
    uint8_t body[WIRE_MAX_BYTES];
    char features[8192]; /* the guest's, as of /proc/cpuinfo */
    bool stdin_ended, stdin_under_way, interrupted;
    bool is_closed[2]; /* standard output, error */
    bool has_ended, has_perf_data;
    const struct session_job *job;
    int status; /* of waitpid(), once it has ended */
};

/* Before processes are started: signals wait from now on. -errno. */
int session_catch_signals(struct session *session, struct reason *why);
/*
 * Tells the guest what to run, as soon as it has booted, and waits until only the program is left
 * to begin. 0; -EINTR: a signal came; -EPIPE: the guest went away; -EBADMSG: it is no guest of
 * this program; else what the guest said. limit_ms: of the whole.
 */
int session_prepare(struct session *session, int wire, const struct session_job *job,
                    int64_t limit_ms, struct reason *why);
/*
 * Runs it. 0, and its status; -ETIMEDOUT: it was not done within limit_ms (0: no limit); -ENOEXEC:
 * it cannot be executed, and why's text is the reason; -ENOENT: there is none; else as above. With
 * perf, -EIO may stand beside a status: then its file did not come.
 */
int session_run(struct session *session, int64_t limit_ms, struct reason *why);
void session_end(struct session *session);

#endif
