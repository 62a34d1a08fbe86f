/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parser of a command's options: its table, made into what getopt_long() takes.
 */
#include "cli/options.h"
#include "cli/help.h"
#include "cli/suggest.h"
#include "common/number.h"
#include "common/say.h"
#include "vpt_caps.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 48u
#define FIRST_ID 256 /* of rows: behind all letters */

const struct option_row option_help = {
    .name = "help", .letter = 'h', .help = "Prints this text.", .kind = OPTION_FLAG};

const struct option_row *option_next(const struct subcommand *command, const struct option_row *row)
{
    const struct option_row *next = row ? row + 1 : command->options;

    while (next && !next->name)
        next = next->next;
    return next;
}

/* A table as getopt_long() takes it. */
struct getopt_table {
    const struct option_row *rows[ROWS_MAX + 1];
    size_t count;
    struct option options[ROWS_MAX + 2];
    char letters[3 * ROWS_MAX + 8];
};

static void add_row(struct getopt_table *table, const struct option_row *row)
{
    const size_t len = strlen(table->letters);

    table->rows[table->count] = row;
    table->options[table->count] =
        (struct option){.name = row->name,
                        .has_arg = row->value ? required_argument : no_argument,
                        .val = FIRST_ID + (int)table->count};
    table->count++;
    if (row->letter)
        snprintf(table->letters + len, sizeof(table->letters) - len, "%c%s", row->letter,
                 row->value ? ":" : "");
}

static void make_table(struct getopt_table *table, const struct subcommand *command)
{
    const struct option_row *row = option_next(command, NULL);

    *table = (struct getopt_table){0};
    snprintf(table->letters, sizeof(table->letters),
             "%s:", command->operand_ends_options ? "+" : "");
    for (; row && table->count < ROWS_MAX; row = option_next(command, row))
        add_row(table, row);
    add_row(table, &option_help);
}

/* The row that getopt_long() found, by id or by letter; NULL: none. */
static const struct option_row *row_of(const struct getopt_table *table, int option)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct option_row *const row = table->rows[i];

        if (row && (option == FIRST_ID + (int)i || (option && option == row->letter)))
            return row;
    }
    return NULL;
}

/* ---- What is wrong ---- */

static int no_such_option(const struct subcommand *command, const char *word)
{
    char name[80];
    struct suggestion suggestion;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    suggest_begin(&suggestion, name);
    for (const struct option_row *row = NULL; (row = option_next(command, row));) {
        if (row->help)
            suggest_try(&suggestion, row->name);
    }
    suggest_try(&suggestion, option_help.name);
    if (suggestion.best)
        return complain(EXIT_CODE_USAGE, "unknown option --%s; did you mean '--%s'?", name,
                        suggestion.best);
    return complain(EXIT_CODE_USAGE, "unknown option --%s; see vpt %s --help", name, command->name);
}

static int bad_option(const struct subcommand *command, const struct getopt_table *table,
                      int option, char *const *argv)
{
    const struct option_row *const row = row_of(table, optopt);

    if (option == ':')
        return complain(EXIT_CODE_USAGE, "%s needs a value", argv[optind - 1]);
    if (row && !row->value)
        return complain(EXIT_CODE_USAGE, "--%s takes no value", row->name);
    if (optopt)
        return complain(EXIT_CODE_USAGE, "unknown option -%c; see vpt %s --help", optopt,
                        command->name);
    return no_such_option(command, argv[optind - 1]);
}

int no_such(const char *thing, const char *word, const char *(*name)(size_t index),
            const char *else_see)
{
    struct suggestion suggestion;

    suggest_begin(&suggestion, word);
    for (size_t i = 0; name(i); i++)
        suggest_try(&suggestion, name(i));
    if (suggestion.best)
        return complain(EXIT_CODE_USAGE, "there is no %s '%s'; did you mean '%s'?", thing, word,
                        suggestion.best);
    return complain(EXIT_CODE_USAGE, "there is no %s '%s'; see %s", thing, word, else_see);
}

const char *profile_word(size_t index)
{
    return index < vpt_profile_count() ? vpt_profile_name(index) : NULL;
}

/* ---- Values ---- */

static int out_of_bounds(const struct option_row *row, const char *text)
{
    if (!row->max)
        return complain(EXIT_CODE_USAGE, "--%s takes a number, not '%s'", row->name, text);
    return complain(EXIT_CODE_USAGE, "--%s takes %llu to %llu, not '%s'", row->name,
                    (unsigned long long)row->min, (unsigned long long)row->max, text);
}

static bool parse_decimal(const char *text, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    return !errno && end != text && !*end && *text != '-';
}

static int take_number(const struct option_row *row, const char *text, void *member)
{
    const uint64_t max = row->max ? row->max : UINT64_MAX;
    const bool is_unsigned = row->kind == OPTION_UNSIGNED;
    uint64_t value = 0;

    if (!(is_unsigned ? parse_decimal : parse_number)(text, &value) || value < row->min ||
        value > max || (is_unsigned && value > UINT_MAX))
        return out_of_bounds(row, text);
    if (is_unsigned)
        *(unsigned *)member = (unsigned)value;
    else
        *(uint64_t *)member = value;
    return 0;
}

static int take_value(const struct option_row *row, const char *value, void *options)
{
    char *const member = (char *)options + row->offset;

    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)(void *)member = value;
        return 0;
    case OPTION_UNSIGNED:
    case OPTION_NUMBER:
        return take_number(row, value, member);
    default:
        return row->take(options, value);
    }
}

int options_parse(const struct subcommand *command, int argc, char **argv, void *options)
{
    struct getopt_table table;
    int option, code = 0;

    make_table(&table, command);
    optind = 0; /* as if for the first time: a table before may have had other rules */
    opterr = 0;
    while (!code && (option = getopt_long(argc, argv, table.letters, table.options, NULL)) != -1) {
        const struct option_row *const row =
            option == '?' || option == ':' ? NULL : row_of(&table, option);

        if (!row)
            code = bad_option(command, &table, option, argv);
        else if (row == &option_help)
            return 1 + help_print(command);
        else
            code = take_value(row, optarg, options);
    }
    return code ? 1 + code : 0;
}
