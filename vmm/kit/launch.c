/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a hypervisor and reads its console: see launch.h. */
#include "kit/launch.h"
#include "common/escape.h"
#include "common/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS      100
#define LINGER_MS    2000 /* for a machine that has said all, and for one that was asked to end */
#define NOT_FOUND    127  /* exit codes of a shell */
#define NOT_RUNNABLE 126

/* ---- The command -------------------------------------------------------------------------- */

/* One word in braces at `at`; how long it is there, or 0: it is none of ours. */
static size_t put_word(const char *at, const struct kit_machine *machine, FILE *to)
{
    char cpus[16];
    const struct {
        const char *name, *value;
    } words[] = {{"{image}", machine->image}, {"{append}", machine->append}, {"{cpus}", cpus}};

    snprintf(cpus, sizeof(cpus), "%u", machine->cpus);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const size_t len = strlen(words[i].name);

        if (strncmp(at, words[i].name, len) == 0) {
            put_quoted(words[i].value, to);
            return len;
        }
    }
    return 0;
}

char *kit_command(const char *command, const struct kit_machine *machine, struct reason *why)
{
    char *text = NULL;
    size_t bytes, len;
    FILE *to;

    if (!strstr(command, "{image}")) {
        (void)reason_set(why, -EINVAL, "the command has no {image}, so it would not run one");
        return NULL;
    }
    to = open_memstream(&text, &bytes);
    for (const char *at = command; to && *at; at += len) {
        len = *at == '{' ? put_word(at, machine, to) : 0;
        if (!len) {
            fputc(*at, to);
            len = 1;
        }
    }
    if (!to || fclose(to) != 0) {
        free(text);
        (void)reason_no_memory(why);
        return NULL;
    }
    return text;
}

/* ---- The machine -------------------------------------------------------------------------- */

static volatile sig_atomic_t asked_to_end;

static void on_signal(int number)
{
    asked_to_end = number;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

_Noreturn static void run_shell(const char *command, int out, pid_t parent)
{
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || in < 0 || dup2(in, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
        _exit(NOT_FOUND);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(NOT_FOUND);
}

/* The command's process, in a group of its own; *console is what it prints. -errno. */
static pid_t start(const char *command, int *console)
{
    const pid_t parent = getpid();
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        run_shell(command, ends[1], parent);
    close(ends[1]);
    *console = ends[0];
    if (pid < 0) {
        const int error = -errno;

        close(ends[0]);
        return error;
    }
    setpgid(pid, pid); /* whichever of both is first */
    return pid;
}

/* Waits so long for the process. Whether it is gone; then *status is what waitpid() says. */
static bool gone(pid_t pid, uint64_t ms, int *status)
{
    const uint64_t until = now_ms() + ms;

    for (;;) {
        const pid_t got = waitpid(pid, status, WNOHANG);

        if (got == pid || (got < 0 && errno != EINTR))
            return true;
        if (now_ms() >= until)
            return false;
        poll(NULL, 0, POLL_MS / 5);
    }
}

/* The process and all that it started. */
static int end_all(pid_t pid, uint64_t linger_ms)
{
    int status = 0;

    if (!gone(pid, linger_ms, &status)) {
        kill(-pid, SIGTERM);
        if (!gone(pid, LINGER_MS, &status)) {
            kill(-pid, SIGKILL);
            (void)gone(pid, LINGER_MS, &status);
        }
    }
    kill(-pid, SIGKILL);
    return status;
}

/* What it prints, to its end. 0, -ETIME, -EINTR, or another -errno. */
static int read_console(int console, uint64_t until, struct kit_suite *suite)
{
    struct pollfd one = {.fd = console, .events = POLLIN};
    char bytes[4096];

    while (!kit_suite_at_end(suite)) {
        ssize_t count;
        int error;

        if (asked_to_end)
            return -EINTR;
        if (now_ms() >= until)
            return -ETIME;
        progress_say("%s: %zu passed, %zu failed, %zu skipped", suite->name,
                     suite->counts[KIT_PASS], suite->counts[KIT_FAIL], suite->counts[KIT_SKIP]);
        if (poll(&one, 1, POLL_MS) <= 0)
            continue;
        count = read(console, bytes, sizeof(bytes));
        if (count < 0 && errno != EINTR)
            return -errno;
        if (count == 0)
            return 0;
        error = count > 0 ? kit_suite_read(suite, bytes, (size_t)count) : 0;
        if (error)
            return error;
    }
    return 0;
}

static int finish(int error, int status, unsigned seconds, struct kit_suite *suite,
                  struct reason *why)
{
    char text[64];

    if (error == -EINTR)
        return error;
    if (error && error != -ETIME)
        return reason_set(why, error, "its console cannot be read: %s", strerror(-error));
    if (WIFEXITED(status) && !suite->count && !kit_suite_at_end(suite) &&
        (WEXITSTATUS(status) == NOT_FOUND || WEXITSTATUS(status) == NOT_RUNNABLE))
        return reason_set(why, -ENOEXEC, "the command cannot be run: %s", suite->last);
    if (error == -ETIME)
        snprintf(text, sizeof(text), "it did not come to its end in %u s", seconds);
    else if (WIFSIGNALED(status))
        snprintf(text, sizeof(text), "the command was ended by signal %d", WTERMSIG(status));
    else
        snprintf(text, sizeof(text), "the command ended with status %d", WEXITSTATUS(status));
    error = kit_suite_end(suite, text);
    return error ? reason_no_memory(why) : 0;
}

int kit_launch(const char *command, unsigned seconds, struct kit_suite *suite, struct reason *why)
{
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction ours = {.sa_handler = on_signal};
    const uint64_t began = now_ms();
    struct sigaction theirs[3];
    int error, status, console = -1;
    pid_t pid;

    for (size_t i = 0; i < 3; i++)
        sigaction(signals[i], &ours, &theirs[i]);
    pid = start(command, &console);
    error = pid < 0 ? (int)pid : read_console(console, began + 1000ull * seconds, suite);
    if (console >= 0)
        close(console);
    status = pid < 0 ? 0 : end_all(pid, error ? 0 : LINGER_MS);
    suite->seconds = (double)(now_ms() - began) / 1000;
    progress_end();
    for (size_t i = 0; i < 3; i++)
        sigaction(signals[i], &theirs[i], NULL);
    return finish(error, status, seconds, suite, why);
}

int kit_read_console(const char *path, struct kit_suite *suite, struct reason *why)
{
    FILE *const from = fopen(path, "re");
    char bytes[4096];
    int error = 0;
    size_t count;

    if (!from)
        return reason_of_file(why, -errno, path);
    errno = 0;
    while (!error && (count = fread(bytes, 1, sizeof(bytes), from)) > 0)
        error = kit_suite_read(suite, bytes, count);
    if (!error && ferror(from))
        error = errno ? -errno : -EIO;
    fclose(from);
    if (error && error != -ENOMEM)
        return reason_of_file(why, error, path);
    error = error ? error : kit_suite_end(suite, NULL);
    return error ? reason_no_memory(why) : 0;
}
