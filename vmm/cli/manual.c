/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of options as documents: manual pages in roff, and Markdown for docs/vpt.md.
 */
#include "cli/help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define DOCS "docs/"

/* ---- roff ---- */

/* Text in which nothing is a request, and dashes are those that one types. */
static void put_roff(const char *text)
{
    bool begins = true; /* a line */

    for (; *text; text++) {
        if (*text == '\n')
            fputs("\n.PP", stdout);
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        begins = *text == '\n';
    }
}

static void put_upper(const char *text)
{
    for (; *text; text++)
        putchar(toupper((unsigned char)*text));
}

static void put_heading(const char *name, const char *about)
{
    fputs(".\\\" Written by the program: vpt help --man\n.TH VPT", stdout);
    if (*name) {
        fputs("\\-", stdout);
        put_upper(name);
    }
    printf(" 1 \"\" \"vpt " VPT_VERSION "\" \"User Commands\"\n.SH NAME\nvpt%s%s \\- ",
           *name ? "\\-" : "", name);
    put_roff(about);
    putchar('\n');
}

static void put_option(const struct option_row *row)
{
    if (!row->help)
        return;
    fputs(".TP\n", stdout);
    if (row->letter)
        printf("\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", stdout);
    put_roff(row->name);
    fputs("\\fR", stdout);
    if (row->value) {
        fputs(" \\fI", stdout);
        put_roff(row->value);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put_roff(row->help);
    if (row->fallback) {
        fputs("\nDefault: ", stdout);
        put_roff(row->fallback);
        putchar('.');
    }
    putchar('\n');
}

static void put_exits(const struct exit_row *row)
{
    puts(".SH EXIT STATUS");
    for (; row->text; row++) {
        printf(".TP\n.B %d\n", row->code);
        put_roff(row->text);
        putchar('\n');
    }
}

static void print_program(void)
{
    put_heading("", "Intel Processor Trace for virtual machines");
    puts(
        ".SH SYNOPSIS\n.B vpt\n.I COMMAND\n.RI [ OPTION ...]\n.SH DESCRIPTION\n"
        "The program models Intel Processor Trace for guests that trace themselves, traces guests\n"
        "from outside, and decodes what was traced. Each command has a page of its own.\n"
        ".SH COMMANDS");
    for (size_t i = 0; commands[i]; i++) {
        printf(".TP\n.BR vpt\\-%s (1)\n", commands[i]->name);
        put_roff(commands[i]->about);
        putchar('\n');
    }
    puts(".SH OPTIONS");
    put_option(&option_help);
    puts(".TP\n\\fB\\-\\-version\\fR\nPrints the version.");
    put_exits(all_exits);
}

void manual_print(const struct subcommand *command)
{
    if (!command) {
        print_program();
        return;
    }
    put_heading(command->name, command->about);
    printf(".SH SYNOPSIS\n.B vpt %s\n", command->name);
    put_roff(command->synopsis);
    puts("\n.SH DESCRIPTION");
    put_roff(command->text);
    puts("\n.SH OPTIONS");
    for (const struct option_row *row = NULL; (row = option_next(command, row));) {
        if (row->group) {
            fputs(".SS ", stdout);
            put_roff(row->group);
            putchar('\n');
        }
        put_option(row);
    }
    put_option(&option_help);
    put_exits(command->exits);
    puts(".SH SEE ALSO\n.BR vpt (1)");
}

/* ---- Markdown ---- */

/* The text of a cell: what names a document leads to it. */
static void put_cell(const char *text)
{
    while (*text) {
        size_t len;

        if (strncmp(text, DOCS, strlen(DOCS)) == 0) {
            text += strlen(DOCS);
            len = strcspn(text, " ,;:)");
            len -= text[len - 1] == '.';
            printf("[%.*s](%.*s)", (int)len, text, (int)len, text);
            text += len;
            continue;
        }
        if (*text == '|' || *text == '*' || *text == '<')
            putchar('\\');
        putchar(*text++);
    }
}

/* A title as code, in which a bar would end the cell all the same. */
static void put_title(const struct option_row *row)
{
    char title[128];

    option_title(row, title, sizeof(title));
    putchar('`');
    for (const char *c = title; *c; c++)
        printf("%s%c", *c == '|' ? "\\" : "", *c);
    putchar('`');
}

void markdown_print(const struct subcommand *command)
{
    const struct option_row *row = option_next(command, NULL);

    for (bool begins = true; row; row = option_next(command, row)) {
        if (!row->help)
            continue;
        if (row->group)
            printf("%s%s:\n", begins ? "" : "\n", row->group);
        if (row->group || begins)
            printf("%s| option | meaning | default |\n| --- | --- | --- |\n",
                   row->group ? "\n" : "");
        fputs("| ", stdout);
        put_title(row);
        fputs(" | ", stdout);
        put_cell(row->help);
        fputs(" | ", stdout);
        put_cell(row->fallback ? row->fallback : "");
        puts(row->fallback ? " |" : "|");
        begins = false;
    }
}
