/* SPDX-License-Identifier: BSD-3-Clause */
/* A command of vpt, run by a test in a process of its own: it may give up its rights. */
#ifndef VMM_DEMUX_TESTS_COMMAND_H
#define VMM_DEMUX_TESTS_COMMAND_H

#include "cli/commands.h"

/*
 * argv ends with NULL. What it prints goes to these files; out NULL: as the test's own. Its exit
 * code, or -1.
 */
int run_command(const struct subcommand *command, char **argv, const char *out, const char *err);

#endif
