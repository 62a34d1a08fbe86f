/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is made from the tables of options: texts for a terminal, manual pages, tables for a
 * document, and completion for bash. All print to standard output.
 */
#ifndef VMM_HELP_H
#define VMM_HELP_H

#include "cli/options.h"
#include "common/version.h"

#include <stdio.h>

/* The text of --help. An exit code: success. */
int help_print(const struct subcommand *command);
/* That of the program, which lists the commands. */
void help_print_all(FILE *to);
/* Exit codes of the program, for all commands together. */
extern const struct exit_row all_exits[];

/* The manual page of a command; NULL: of the program. */
void manual_print(const struct subcommand *command);
/* The options as Markdown tables. */
void markdown_print(const struct subcommand *command);
/* A script for bash that completes words of vpt. */
void completion_print(void);

/* "--name VALUE", with the letter if there is one. */
void option_title(const struct option_row *row, char *title, size_t bytes);

#endif
