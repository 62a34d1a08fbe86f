/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A perf record that runs for us. It is told to begin by its --control, so that the time in which
 * it looks at all processes and copies the kernel's code is not recorded. If this program is
 * killed, the kernel ends it by the signal of Ctrl-C, and what it had recorded is complete.
 */
#include "record/recorder.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOLD_FD    3
#define ANSWERS_FD 4
#define NOT_FOUND  127
#define SPARE_FD   10 /* descriptors from here on are in nobody's way */

/* In the child. */
static void become(char *const *words, const char *log, int told, int answers, pid_t parent)
{
    const int output = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int far_told = fcntl(told, F_DUPFD_CLOEXEC, SPARE_FD);
    const int far_answers = fcntl(answers, F_DUPFD_CLOEXEC, SPARE_FD);

    (void)prctl(PR_SET_PDEATHSIG, SIGINT);
    if (getppid() != parent)
        _exit(0);
    (void)setpgid(0, 0); /* Ctrl-C on the terminal is for vpt, which ends it */
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGUSR2, SIG_DFL);
    if (output < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 ||
        dup2(output, 2) < 0 || dup2(far_told, TOLD_FD) < 0 || dup2(far_answers, ANSWERS_FD) < 0)
        _exit(NOT_FOUND);
    (void)execvp(words[0], words);
    (void)fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
    _exit(NOT_FOUND);
}

int recorder_start(struct recorder *recorder, char *const *words, const char *log,
                   struct reason *why)
{
    const pid_t self = getpid();
    int told[2] = {-1, -1}, answers[2] = {-1, -1};

    *recorder = (struct recorder){.control = -1, .answers = -1, .log = log};
    if (pipe2(told, O_CLOEXEC) == 0 && pipe2(answers, O_CLOEXEC) == 0) {
        (void)fflush(NULL);
        recorder->pid = fork();
        if (recorder->pid == 0)
            become(words, log, told[0], answers[1], self);
    } else {
        recorder->pid = -1;
    }
    if (told[0] >= 0)
        (void)close(told[0]);
    if (answers[1] >= 0)
        (void)close(answers[1]);
    recorder->control = told[1];
    recorder->answers = answers[0];
    if (recorder->pid > 0)
        return 0;
    recorder->pid = 0;
    return reason_set(why, -errno, "cannot run %s: %s", words[0], strerror(errno));
}

/* ---- Its end ---- */

static void has_ended(struct recorder *recorder, int status)
{
    recorder->status = status;
    recorder->pid = 0;
    (void)close(recorder->control);
    (void)close(recorder->answers);
}

bool recorder_runs(struct recorder *recorder)
{
    int status;

    if (recorder->pid && waitpid(recorder->pid, &status, WNOHANG) == recorder->pid)
        has_ended(recorder, status);
    return recorder->pid != 0;
}

/* What perf said last. */
static void last_words(const char *log, char *line, size_t line_bytes)
{
    const int fd = open(log, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || !last_line(fd, line, line_bytes))
        (void)snprintf(line, line_bytes, "it says nothing");
    if (fd >= 0)
        (void)close(fd);
}

static int judge(const struct recorder *recorder, struct reason *why)
{
    char line[300];

    if (WIFEXITED(recorder->status) && WEXITSTATUS(recorder->status) == 0)
        return 0;
    if (WIFSIGNALED(recorder->status) && WTERMSIG(recorder->status) == SIGINT)
        return 0; /* perf ends itself by the signal that ended it */
    last_words(recorder->log, line, sizeof(line));
    if (WIFSIGNALED(recorder->status))
        return reason_set(why, -EBADMSG, "perf record was ended by signal %d: %s",
                          WTERMSIG(recorder->status), line);
    return reason_set(why, -EBADMSG, "perf record failed: %s", line);
}

int recorder_stop(struct recorder *recorder, struct reason *why)
{
    int status;

    if (recorder->pid && recorder_runs(recorder)) {
        (void)kill(recorder->pid, SIGINT);
        while (waitpid(recorder->pid, &status, 0) < 0 && errno == EINTR)
            ;
        has_ended(recorder, status);
    }
    return judge(recorder, why);
}

/* ---- What it is told ---- */

/* Reads up to the end of its answer. 0 or -errno. */
static int await_answer(const struct recorder *recorder, int timeout_ms)
{
    char byte = 0;

    do {
        struct pollfd poll_of = {.fd = recorder->answers, .events = POLLIN};
        const int n = poll(&poll_of, 1, timeout_ms);

        if (n == 0)
            return -ETIMEDOUT;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0 && read(recorder->answers, &byte, 1) <= 0)
            return -EPIPE;
    } while (byte != '\n');
    return 0;
}

int recorder_tell(struct recorder *recorder, const char *word, int timeout_ms, struct reason *why)
{
    char line[32];
    const int len = snprintf(line, sizeof(line), "%s\n", word);
    int error = 0;

    if (!recorder_runs(recorder) || write(recorder->control, line, (size_t)len) != len)
        error = -EPIPE;
    if (!error)
        error = await_answer(recorder, timeout_ms);
    if (error == -EPIPE) /* it has ended, or is about to */
        return recorder_stop(recorder, why)
                   ? -EBADMSG
                   : reason_set(why, -EBADMSG, "perf record ended before it began");
    return error ? reason_set(why, error, "perf record does not answer: %s", strerror(-error)) : 0;
}
