/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program `vpt`: finds the subcommand.
 */
#include "cli/commands.h"
#include "common/say.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifndef VPT_VERSION /* the build says it */
#define VPT_VERSION "unknown"
#endif

static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "run a guest image that may trace itself", cmd_run},
    {"qemu", "run a guest, of any kind, under QEMU with a virtual Intel PT", cmd_qemu},
    {"capture", "trace a guest that runs on our QEMU, or in libvirt, from outside", cmd_capture},
    {"check", "say what the KVM of this machine can do", cmd_check},
    {"dump", "print the packets of a trace", cmd_dump},
    {"decode", "print the instructions, blocks or calls of a trace", cmd_decode},
    {"index", "list the places from which a trace can be decoded", cmd_index},
    {"parts", "say whose each part of a trace of a host and guests is", cmd_parts},
    {"convert", "write a trace as a perf.data", cmd_convert},
    {"profiles", "list the processors that can be modelled", cmd_profiles},
};

static void usage(FILE *to)
{
    fputs("usage: vpt COMMAND [OPTION...]\n\nIntel Processor Trace for virtual machines.\n\n", to);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].about);
    fputs("\n'vpt COMMAND --help' says more; 'vpt --version'.\n\n"
          "Exit codes: 0 success, 1 the guest failed, 2 usage, 3 a file is missing or bad,\n"
          "4 the host lacks something, 5 the guest crashed, 6 time-out, 7 the decoded path "
          "differs.\n",
          to);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return EXIT_CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return EXIT_CODE_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("vpt " VPT_VERSION);
        return EXIT_CODE_OK;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    return complain(EXIT_CODE_USAGE, "there is no command '%s'; see vpt --help", argv[1]);
}

int main(int argc, char **argv)
{
    int code = run(argc, argv);
    const bool failed = ferror(stdout);

    if (fflush(stdout) != 0 || failed)
        code = complain(code ? code : EXIT_CODE_FILE, "standard output cannot be written");
    return code;
}
