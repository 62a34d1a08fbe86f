/* SPDX-License-Identifier: BSD-3-Clause */
/* A perf record that runs for us: started, told what to do, and ended. */
#ifndef VMM_RECORD_RECORDER_H
#define VMM_RECORD_RECORDER_H

#include "common/reason.h"

#include <stdbool.h>
#include <sys/types.h>

struct recorder {
    pid_t pid;            /* 0: it has ended */
    int control, answers; /* perf's --control */
    const char *log;      /* the file with what it prints */
    int status;           /* as waitpid() tells it */
};

/*
 * Runs a command whose words --control=fd:3,4 belong to: descriptor 3 is what it is told, 4 what it
 * answers. What it prints goes to log. It ends when this process does, whatever ends it. 0, or
 * -errno and the reason.
 */
int recorder_start(struct recorder *recorder, char *const *words, const char *log,
                   struct reason *why);
/* Tells it one of perf's words, and waits for its answer so long. 0, or -errno and the reason. */
int recorder_tell(struct recorder *recorder, const char *word, int timeout_ms, struct reason *why);
/* Whether it still runs. */
bool recorder_runs(struct recorder *recorder);
/*
 * Ends it as Ctrl-C does, so that it finishes its file, and waits for that. 0; -EBADMSG and the
 * reason: it failed, and the reason is the last line that it printed.
 */
int recorder_stop(struct recorder *recorder, struct reason *why);

#endif
