/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of --help, for a terminal of 80 columns. */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS    80u
#define TITLE_MAX  24u /* columns of an option; what is longer has a line of its own */
#define TITLE_MORE 4u  /* columns in front of a title, and behind it at least */

const struct exit_row all_exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_GUEST_FAILED, "The guest ended with a status other than 0."},
    {EXIT_CODE_USAGE, "Usage: a command, an option or a value is unknown."},
    {EXIT_CODE_FILE, "An image or a file is missing, is not what it should be, or cannot be "
                     "written; or a trace holds errors."},
    {EXIT_CODE_HOST, "The host lacks something: KVM, QEMU, the lab's files, memory."},
    {EXIT_CODE_CRASH, "The guest crashed, or the source of events lost track of it."},
    {EXIT_CODE_TIMEOUT, "The guest did not end in time."},
    {EXIT_CODE_MISMATCH, "The decoded path is not the executed one."},
    {0},
};

void option_title(const struct option_row *row, char *title, size_t bytes)
{
    char letter[8] = "";

    if (row->letter)
        snprintf(letter, sizeof(letter), "-%c, ", row->letter);
    snprintf(title, bytes, "%s--%s%s%s", letter, row->name, row->value ? " " : "",
             row->value ? row->value : "");
}

/* Words from this column on, wrapped, each line behind `indent` columns; the last one ends. */
static void print_wrapped(FILE *to, const char *text, size_t column, size_t indent)
{
    bool begins = true; /* a line */

    while (*text) {
        const size_t len = strcspn(text, " \n");

        if (!begins && column + 1 + len > COLUMNS) {
            fprintf(to, "\n%*s", (int)indent, "");
            column = indent;
            begins = true;
        }
        fprintf(to, "%s%.*s", begins ? "" : " ", (int)len, text);
        column += len + !begins;
        begins = false;
        text += len;
        if (*text == '\n') {
            fprintf(to, "\n\n%*s", (int)indent, "");
            column = indent;
            begins = true;
        }
        text += *text != 0;
    }
    fputc('\n', to);
}

static size_t title_columns(const struct subcommand *command)
{
    size_t columns = 0;
    char title[128];

    for (const struct option_row *row = NULL; (row = option_next(command, row));) {
        option_title(row, title, sizeof(title));
        if (row->help && strlen(title) > columns && strlen(title) <= TITLE_MAX)
            columns = strlen(title);
    }
    return columns < strlen("-h, --help") ? strlen("-h, --help") : columns;
}

static void print_row(const struct option_row *row, size_t columns)
{
    const size_t indent = columns + TITLE_MORE;
    char title[128], text[1024];

    if (!row->help)
        return;
    option_title(row, title, sizeof(title));
    snprintf(text, sizeof(text), "%s%s%s%s", row->help, row->fallback ? " (default: " : "",
             row->fallback ? row->fallback : "", row->fallback ? ")" : "");
    printf("  %-*s", (int)columns + 2, title);
    if (strlen(title) > columns)
        printf("\n%*s", (int)indent, "");
    print_wrapped(stdout, text, indent, indent);
}

static bool has_long_code(const struct exit_row *row)
{
    bool is_long = false;

    for (; row && row->text; row++)
        is_long = is_long || row->code > 9;
    return is_long;
}

static void print_exits(const struct exit_row *row)
{
    const int columns = has_long_code(row) ? 3 : 1;

    puts("\nExit codes:");
    for (; row && row->text; row++) {
        printf("  %*d  ", columns, row->code);
        print_wrapped(stdout, row->text, (size_t)columns + 4, (size_t)columns + 4);
    }
}

int help_print(const struct subcommand *command)
{
    const size_t columns = title_columns(command);
    const struct option_row *row = option_next(command, NULL);

    printf("usage: vpt %s ", command->name);
    print_wrapped(stdout, command->synopsis, 12 + strlen(command->name), 8);
    putchar('\n');
    print_wrapped(stdout, command->text, 0, 0);
    if (!row || !row->group)
        puts("\nOptions:");
    for (; row; row = option_next(command, row)) {
        if (row->group)
            printf("\n%s:\n", row->group);
        print_row(row, columns);
    }
    if (command->options && command->options->group)
        putchar('\n');
    print_row(&option_help, columns);
    print_exits(command->exits);
    return EXIT_CODE_OK;
}

static int name_columns(void)
{
    size_t columns = 0;

    for (size_t i = 0; commands[i]; i++) {
        if (strlen(commands[i]->name) > columns)
            columns = strlen(commands[i]->name);
    }
    return (int)columns;
}

void help_print_all(FILE *to)
{
    const int columns = name_columns();

    fputs("usage: vpt COMMAND [OPTION...]\n\nIntel Processor Trace for virtual machines.\n\n", to);
    for (size_t i = 0; commands[i]; i++)
        fprintf(to, "  %-*s  %s\n", columns, commands[i]->name, commands[i]->about);
    fprintf(to, "  %-*s  say more about a command\n", columns, "help");
    fputs("\n'vpt help COMMAND' or 'vpt COMMAND --help' says more; 'vpt --version'.\n"
          "\nExit codes:\n",
          to);
    for (const struct exit_row *row = all_exits; row->text; row++) {
        fprintf(to, "  %d  ", row->code);
        print_wrapped(to, row->text, 5, 5);
    }
}
