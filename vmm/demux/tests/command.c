/* SPDX-License-Identifier: BSD-3-Clause */
#include "demux/tests/command.h"

#include <getopt.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int run_command(const struct subcommand *command, char **argv, const char *out, const char *err)
{
    int argc = 0, status = -1;
    pid_t child;

    while (argv[argc])
        argc++;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        optind = 1;
        if ((out && !freopen(out, "w", stdout)) || !freopen(err, "w", stderr))
            _exit(100);
        status = command->run(argc, argv);
        fflush(NULL);
        _exit(status);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}
