/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three processes: one that waits, the pager, and one that goes on and may give up its rights, the
 * right to wait for a child among them. Whoever leaves the pager ends what writes to it by SIGPIPE,
 * which is no failure.
 */
#include "cli/pager.h"
#include "common/say.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define USUAL_PAGER "less"
/* Leave at once what fits, keep colours, and do not clear the screen. */
#define LESS_OPTIONS "FRX"

/* What the user wants; NULL: none. */
static const char *wanted_pager(void)
{
    const char *pager = getenv("VPT_PAGER");

    if (!pager)
        pager = getenv("PAGER");
    if (!pager)
        return USUAL_PAGER;
    return *pager && strcmp(pager, "cat") != 0 ? pager : NULL;
}

/* In place of a pager that is not there. */
static void pass_on(void)
{
    char bytes[4096];
    ssize_t len;

    while ((len = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0) {
        for (ssize_t done = 0, written; done < len; done += written) {
            written = write(STDOUT_FILENO, bytes + done, (size_t)(len - done));
            if (written < 0)
                _exit(1);
        }
    }
    _exit(0);
}

/* Nothing appears of a pager as long as there is nothing to show, and nothing if there never is. */
static void become_pager(const char *pager, const int ends[2])
{
    struct pollfd input = {.fd = ends[0], .events = POLLIN};

    (void)close(ends[1]);
    while (poll(&input, 1, -1) < 0 && errno == EINTR)
        ;
    if (!(input.revents & POLLIN))
        _exit(0);
    (void)dup2(ends[0], STDIN_FILENO);
    (void)close(ends[0]);
    (void)setenv("LESS", LESS_OPTIONS, 0);
    if (strcmp(pager, USUAL_PAGER) == 0)
        (void)execlp(pager, pager, (char *)NULL);
    else
        (void)execl("/bin/sh", "sh", "-c", pager, (char *)NULL);
    pass_on();
}

/* Its output goes there, line by line as on a terminal, and so do its remarks. */
static void go_on(const int ends[2])
{
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (isatty(STDERR_FILENO))
        (void)dup2(ends[1], STDERR_FILENO);
    (void)dup2(ends[1], STDOUT_FILENO);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
}

static int wait_for(pid_t child)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* The shell, which has said why, did not come to the user's pager. */
static bool was_not_there(int status)
{
    return WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127);
}

/* Keys that end a program are for the pager to understand. */
static void wait_for_both(pid_t pager, pid_t writer)
{
    int status, of_pager;

    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    of_pager = wait_for(pager);
    status = wait_for(writer);
    if (was_not_there(of_pager))
        _exit(complain(EXIT_CODE_FILE, "the pager cannot be started; --no-pager does without"));
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    _exit(WTERMSIG(status) == SIGPIPE ? EXIT_CODE_OK : 128 + WTERMSIG(status));
}

void pager_begin(void)
{
    const char *const pager = wanted_pager();
    pid_t reader, writer;
    int ends[2];

    if (!pager || !isatty(STDOUT_FILENO) || pipe(ends) != 0)
        return;
    reader = fork();
    if (reader == 0)
        become_pager(pager, ends);
    writer = reader < 0 ? -1 : fork();
    if (writer == 0) {
        go_on(ends);
        return;
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    if (writer > 0)
        wait_for_both(reader, writer);
    if (reader > 0)
        (void)wait_for(reader);
}
