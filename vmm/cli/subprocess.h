/* SPDX-License-Identifier: BSD-3-Clause */
/* A subcommand in a process of its own, for one that needs what another one does. */
#ifndef VMM_CLI_SUBPROCESS_H
#define VMM_CLI_SUBPROCESS_H

#include "cli/options.h"

#include <sys/types.h>

/*
 * Starts it with these words, of which the first is its name and NULL is the last. It gets no
 * signals of the terminal, and has these as its standard output and error. Ends by SIGTERM if this
 * process does. Its pid; negative: it cannot be started, which was said.
 */
pid_t subprocess_start(const struct subcommand *command, char **words, int out, int err);
/* Its exit code, once it has ended. */
int subprocess_wait(pid_t pid);

#endif
