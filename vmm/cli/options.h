/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Subcommands and their options as tables. The parser, the text of --help, the manual pages, the
 * completion for bash and the tables of docs/vpt.md all come from the rows that stand here.
 */
#ifndef VMM_OPTIONS_H
#define VMM_OPTIONS_H

#include "common/say.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an option does with its value. The member of the command's options is at .offset. */
enum option_kind {
    OPTION_FLAG,     /* takes none: a bool becomes true */
    OPTION_TEXT,     /* a const char * */
    OPTION_UNSIGNED, /* an unsigned, decimal, from .min to .max */
    OPTION_NUMBER,   /* a uint64_t as C writes it, from .min to .max (0: no bounds) */
    OPTION_CALL,     /* .take does it */
};

struct option_row {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *value;    /* the value's name; NULL: it takes none */
    const char *group;    /* a heading over this row and those that follow; NULL: none of its own */
    const char *help;     /* what it does; docs/NAME.md names a document; NULL: is not shown */
    const char *fallback; /* what holds without it; NULL: nothing to say */
    size_t offset;
    uint64_t min, max;
    /* value is NULL if it takes none. 0, or an exit code: then the reason was said. */
    int (*take)(void *options, const char *value);
    const char *(*word)(size_t index); /* the values that there are, to a NULL; NULL: any */
    /* Of the row that ends a table: one that commands share, which goes on behind it; or NULL. */
    const struct option_row *next;
};

struct exit_row {
    enum exit_code code;
    const char *text; /* NULL ends a table */
};

struct subcommand {
    const char *name;
    const char *about;    /* what it does, in a few words, as the list of commands says it */
    const char *synopsis; /* what stands behind its name */
    const char *text;     /* paragraphs, one a line */
    const char *document; /* docs/NAME.md that says more; NULL: docs/vpt.md alone */
    const struct option_row *options;
    const struct exit_row *exits;
    bool operand_ends_options; /* what follows is another program's */
    int (*run)(int argc, char **argv);
};

/* The row behind a row of a command, with NULL its first; NULL: there is none. */
const struct option_row *option_next(const struct subcommand *command,
                                     const struct option_row *row);

/* All of them, ended by NULL. */
extern const struct subcommand *const commands[];
/* NULL: there is none of that name. */
const struct subcommand *find_command(const char *name);

/*
 * Takes the options of argv, whose first is the command's name, and moves what is none to its end:
 * from optind on. 0 to go on, or an exit code + 1: --help was asked for, or something is wrong.
 */
int options_parse(const struct subcommand *command, int argc, char **argv, void *options);

/* The option that every command has: the row behind the last of each table. */
extern const struct option_row option_help;

/* "there is no THING 'WORD'", and which one may have been meant among names (to a NULL). */
int no_such(const char *thing, const char *word, const char *(*name)(size_t index),
            const char *else_see);
const char *profile_word(size_t index);

#endif
