/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program `vpt`: finds the subcommand.
 */
#include "cli/commands.h"
#include "cli/help.h"
#include "common/sandbox.h"
#include "common/say.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *command_name(size_t index)
{
    size_t count = 0;

    while (commands[count])
        count++;
    return index < count ? commands[index]->name : index == count ? "help" : NULL;
}

static int no_such_command(const char *name)
{
    return no_such("command", name, command_name, "vpt --help");
}

/* How the build asks for what is made from the tables: a form, and a command or none. */
static int print_form(int argc, char **argv)
{
    const struct subcommand *const command = argc > 2 ? find_command(argv[2]) : NULL;

    if (argc > 3 || (argc > 2 && !command))
        return complain(EXIT_CODE_USAGE, "vpt help %s takes a command", argv[1]);
    if (strcmp(argv[1], "--man") == 0)
        manual_print(command);
    else if (strcmp(argv[1], "--bash") == 0 && !command)
        completion_print();
    else if (strcmp(argv[1], "--markdown") == 0 && command)
        markdown_print(command);
    else
        return complain(EXIT_CODE_USAGE, "vpt help takes no %s", argv[1]);
    return EXIT_CODE_OK;
}

static int help(int argc, char **argv)
{
    const struct subcommand *command;

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help_print_all(stdout);
        return EXIT_CODE_OK;
    }
    if (argv[1][0] == '-')
        return print_form(argc, argv);
    if (argc > 2)
        return complain(EXIT_CODE_USAGE, "vpt help takes one command");
    command = find_command(argv[1]);
    return command ? help_print(command) : no_such_command(argv[1]);
}

static void print_version(void)
{
    char sandbox[64];

    printf("vpt %s\nsandbox: %s\n", VPT_VERSION, sandbox_about(sandbox, sizeof(sandbox)));
}

static int run(int argc, char **argv)
{
    const struct subcommand *command;

    if (argc < 2) {
        help_print_all(stderr);
        return EXIT_CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help_print_all(stdout);
        return EXIT_CODE_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return EXIT_CODE_OK;
    }
    if (strcmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1);
    command = find_command(argv[1]);
    return command ? command->run(argc - 1, argv + 1) : no_such_command(argv[1]);
}

int main(int argc, char **argv)
{
    int code = run(argc, argv);
    const bool failed = ferror(stdout);

    if (fflush(stdout) != 0 || failed)
        code = complain(code ? code : EXIT_CODE_FILE, "standard output cannot be written");
    return code;
}
