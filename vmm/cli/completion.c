/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion for bash, made from the tables of options: a function that knows the commands, their
 * options, and what stands behind an option.
 */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

/* How the value of an option is completed. */
enum completes { BY_NOTHING, BY_WORDS, BY_FILES, BY_FOLDERS };

static enum completes completes(const struct option_row *row)
{
    static const char *const files[] = {"FILE", "TRACE", "MAP", "ELF", "SOCKET"};

    if (row->word || strchr(row->value, '|'))
        return BY_WORDS;
    if (strcmp(row->value, "DIR") == 0)
        return BY_FOLDERS;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (strncmp(row->value, files[i], strlen(files[i])) == 0)
            return BY_FILES;
    }
    return BY_NOTHING;
}

static void print_words(const struct option_row *row)
{
    if (!row->word) {
        for (const char *c = row->value; *c; c++)
            putchar(*c == '|' ? ' ' : *c);
        return;
    }
    for (size_t i = 0; row->word(i); i++)
        printf("%s%s", i ? " " : "", row->word(i));
}

static void print_value(const struct subcommand *command, const struct option_row *row)
{
    printf("    %s:--%s) ", command->name, row->name);
    switch (completes(row)) {
    case BY_WORDS:
        fputs("_vpt_words \"$word\" '", stdout);
        print_words(row);
        puts("' ;;");
        break;
    case BY_FILES:
        puts("_vpt_files \"$word\" -f ;;");
        break;
    case BY_FOLDERS:
        puts("_vpt_files \"$word\" -d ;;");
        break;
    default:
        puts("COMPREPLY=() ;;");
        break;
    }
}

static void print_options(const struct subcommand *command)
{
    printf("    %s) _vpt_words \"$word\" '", command->name);
    for (const struct option_row *row = NULL; (row = option_next(command, row));) {
        if (row->help)
            printf("--%s ", row->name);
    }
    puts("--help' ;;");
}

static void print_commands(void)
{
    for (size_t i = 0; commands[i]; i++)
        printf("%s ", commands[i]->name);
}

void completion_print(void)
{
    puts("# Completion of vpt for bash. Written by the program: vpt help --bash\n"
         "# shellcheck shell=bash\n"
         "\n"
         "_vpt_words() { mapfile -t COMPREPLY < <(compgen -W \"$2\" -- \"$1\"); }\n"
         "_vpt_files() { mapfile -t COMPREPLY < <(compgen \"$2\" -- \"$1\"); }\n"
         "\n"
         "_vpt() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "    COMPREPLY=()\n"
         "    # Readline takes --option=value for three words.\n"
         "    if [ \"$word\" = = ]; then\n"
         "        word=\n"
         "    elif [ \"$before\" = = ]; then\n"
         "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "    fi\n"
         "    if [ \"$COMP_CWORD\" = 1 ]; then");
    fputs("        _vpt_words \"$word\" '", stdout);
    print_commands();
    puts("help --help --version'\n        return\n    fi\n    case ${COMP_WORDS[1]}:$before in");
    fputs("    help:help) _vpt_words \"$word\" '", stdout);
    print_commands();
    puts("' ;;");
    for (size_t i = 0; commands[i]; i++) {
        for (const struct option_row *row = NULL; (row = option_next(commands[i], row));) {
            if (row->help && row->value)
                print_value(commands[i], row);
        }
    }
    puts("    *) _vpt_other \"$word\" \"${COMP_WORDS[1]}\" ;;\n    esac\n}\n"
         "\n"
         "# An option of a command, or a file.\n"
         "_vpt_other() {\n"
         "    local word=$1\n"
         "    if [[ $word != -* ]]; then\n"
         "        _vpt_files \"$word\" -f\n"
         "        return\n"
         "    fi\n"
         "    case $2 in");
    for (size_t i = 0; commands[i]; i++)
        print_options(commands[i]);
    puts("    esac\n}\n\ncomplete -o filenames -F _vpt vpt");
}
