/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/subprocess.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void run_here(const struct subcommand *command, char **words, int out, int err, pid_t parent)
{
    sigset_t none;
    int count = 0, code;

    (void)setpgid(0, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        _exit(EXIT_CODE_HOST);
    while (words[count])
        count++;
    code = command->run(count, words);
    _exit(fflush(stdout) == 0 ? code : EXIT_CODE_FILE);
}

pid_t subprocess_start(const struct subcommand *command, char **words, int out, int err)
{
    const pid_t parent = getpid();
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    if (pid == 0)
        run_here(command, words, out, err, parent);
    if (pid < 0)
        (void)complain(EXIT_CODE_HOST, "vpt %s cannot be started: %s", command->name,
                       strerror(errno));
    return pid;
}

int subprocess_wait(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return EXIT_CODE_HOST;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_CODE_CRASH;
}
