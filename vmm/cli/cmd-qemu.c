/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt qemu: runs the QEMU of `make qemu` (docs/qemu.md) with a virtual Intel PT.
 */
#include "cli/commands.h"
#include "cli/own-qemu.h"
#include "common/data.h"
#include "common/escape.h"
#include "common/say.h"
#include "kvm/backend.h"
#include "vpt_caps.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_PROFILE "plain"
#define MAX_ARGUMENTS   256

/* Statuses of QEMU when the guest writes the exit port of vpt-port (qemu/glue/port.c). */
#define STATUS_PASSED 96
#define STATUS_FAILED 97
#define TEXT_BYTES    (2 * PATH_MAX)

struct qemu_options {
    const char *profile, *mem, *append, *trace_out, *image;
    bool dry_run;
    char **rest;
};

struct command {
    char *argv[MAX_ARGUMENTS + 1];
    size_t count;
    char program[PATH_MAX], cpu[128], port[TEXT_BYTES];
};

static const struct option_row options_of_qemu[] = {
    {.name = "profile",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct qemu_options, profile),
     .word = profile_word,
     .help = "The processor to model; vpt profiles lists them.",
     .fallback = DEFAULT_PROFILE},
    {.name = "mem",
     .value = "SIZE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct qemu_options, mem),
     .help = "Guest memory, as QEMU takes it.",
     .fallback = "64M; without an image 1G"},
    {.name = "append",
     .value = "WORDS",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct qemu_options, append),
     .help = "The guest's command line."},
    {.name = "trace-out",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct qemu_options, trace_out),
     .help = "Keeps the packets that the guest hands over in FILE, and what decodes them in "
             "FILE.json. It needs an image."},
    {.name = "dry-run",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct qemu_options, dry_run),
     .help = "Prints the command, and runs nothing."},
    {0},
};

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct qemu_options *options)
{
    const int code = options_parse(&command_qemu, argc, argv, options);

    if (code)
        return code;
    if (optind < argc && strcmp(argv[optind - 1], "--") != 0)
        options->image = argv[optind++];
    if (optind < argc && options->image && strcmp(argv[optind], "--") == 0)
        optind++;
    else if (optind < argc && options->image)
        return 1 + complain(EXIT_CODE_USAGE, "vpt qemu takes one image, then -- and arguments");
    options->rest = argv + optind;
    if (!options->image && !*options->rest)
        return 1 + complain(EXIT_CODE_USAGE, "neither an image nor arguments; see vpt qemu --help");
    if (options->trace_out && !options->image)
        return 1 + complain(EXIT_CODE_USAGE, "--trace-out needs an image");
    return 0;
}

static bool add(struct command *command, const char *argument)
{
    if (command->count == MAX_ARGUMENTS)
        return false;
    command->argv[command->count++] = (char *)argument;
    return true;
}

static bool add_all(struct command *command, const char *const *arguments)
{
    while (*arguments) {
        if (!add(command, *arguments++))
            return false;
    }
    return true;
}

/* A comma in a value of an option of QEMU is written twice. False: too long. */
static bool escape(const char *text, char *to, size_t bytes)
{
    for (; *text; text++) {
        if (bytes < 3)
            return false;
        if (*text == ',') {
            *to++ = ',';
            bytes--;
        }
        *to++ = *text;
        bytes--;
    }
    *to = '\0';
    return true;
}

static bool add_image(struct command *command, const struct qemu_options *options)
{
    const char *const guest[] = {"-display",  "none",        "-nodefaults", "-no-reboot",
                                 "-debugcon", "stdio",       "-kernel",     options->image,
                                 "-device",   command->port, NULL};
    char trace[PATH_MAX], image[PATH_MAX];

    if (!options->trace_out) {
        snprintf(command->port, sizeof(command->port), "vpt-port,exit=on");
        return add_all(command, guest);
    }
    if (!escape(options->trace_out, trace, sizeof(trace)) ||
        !escape(options->image, image, sizeof(image)) ||
        snprintf(command->port, sizeof(command->port), "vpt-port,exit=on,trace=%s,image=%s", trace,
                 image) >= (int)sizeof(command->port))
        return false;
    return add_all(command, guest);
}

static bool make_command(struct command *command, const struct qemu_options *options)
{
    const char *const mem = options->mem ? options->mem : options->image ? "64M" : "1G";
    const char *const machine[] = {command->program,
                                   "-L",
                                   "/usr/share/seabios",
                                   "-L",
                                   "/usr/share/qemu",
                                   "-L",
                                   "/usr/lib/ipxe/qemu", /* of the network card of a PC */
                                   "-machine",
                                   "q35",
                                   "-accel",
                                   "tcg",
                                   "-cpu",
                                   command->cpu,
                                   "-m",
                                   mem,
                                   NULL};

    own_qemu(command->program, sizeof(command->program));
    snprintf(command->cpu, sizeof(command->cpu), "max,vendor=GenuineIntel,vpt-profile=%s",
             options->profile);
    if (!add_all(command, machine) || (options->image && !add_image(command, options)))
        return false;
    if (options->append && !(add(command, "-append") && add(command, options->append)))
        return false;
    return add_all(command, (const char *const *)options->rest);
}

static void print_command(const struct command *command)
{
    for (size_t i = 0; i < command->count; i++) {
        if (i)
            putchar(' ');
        put_quoted(command->argv[i], stdout);
    }
    putchar('\n');
}

static int exit_code(int status, bool image)
{
    if (WIFSIGNALED(status))
        return complain(EXIT_CODE_CRASH, "QEMU was ended by signal %d", WTERMSIG(status));
    status = WEXITSTATUS(status);
    if (status == STATUS_PASSED)
        return EXIT_CODE_OK;
    if (status == STATUS_FAILED)
        return EXIT_CODE_GUEST_FAILED;
    if (status)
        return EXIT_CODE_HOST; /* QEMU has said why */
    if (image)
        return complain(EXIT_CODE_CRASH, "the guest ended without a status (a triple fault?)");
    return EXIT_CODE_OK;
}

static int run_qemu(struct command *command, bool image)
{
    const pid_t parent = getpid(), pid = fork();
    int status;

    if (pid < 0)
        return complain(EXIT_CODE_HOST, "QEMU cannot be started: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == parent)
            execv(command->program, command->argv);
        (void)complain(EXIT_CODE_HOST, "%s: %s", command->program, strerror(errno));
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return complain(EXIT_CODE_HOST, "waiting for QEMU: %s", strerror(errno));
    }
    return exit_code(status, image);
}

static int run(int argc, char **argv)
{
    struct qemu_options options = {.profile = DEFAULT_PROFILE};
    static struct command command;
    char guest[PATH_MAX];
    struct vpt_caps caps;
    char why[256];
    int code = parse(argc, argv, &options);

    if (code)
        return code - 1;
    if (!vpt_profile(options.profile, &caps))
        return no_such("profile", options.profile, profile_word, "vpt profiles");
    if (options.image)
        options.image = data_guest(options.image, guest, sizeof(guest));
    if (options.image && image_check(options.image, why, sizeof(why)) != 0)
        return complain(EXIT_CODE_FILE, "%s", why);
    if (!make_command(&command, &options))
        return complain(EXIT_CODE_USAGE, "too many arguments, or one that is too long");
    if (options.dry_run) {
        print_command(&command);
        return EXIT_CODE_OK;
    }
    if (access(command.program, X_OK) != 0)
        return no_own_qemu(command.program, errno);
    return run_qemu(&command, options.image != NULL);
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_GUEST_FAILED, "The guest's status was not 0."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "The image is bad."},
    {EXIT_CODE_HOST, "There is no QEMU, or it failed."},
    {EXIT_CODE_CRASH, "The guest or QEMU crashed."},
    {0},
};

const struct subcommand command_qemu = {
    .name = "qemu",
    .about = "run a guest, of any kind, under QEMU with a virtual Intel PT",
    .synopsis = "[OPTION...] [IMAGE.elf] [-- ARGUMENT...]",
    .text =
        "Runs QEMU under TCG with a virtual Intel PT ('make qemu' builds it). With an image, it "
        "runs a guest as vpt run takes it, and the exit code is its status. Without one, it "
        "runs whatever the arguments behind -- say, which are QEMU's own (docs/qemu.md).",
    .options = options_of_qemu,
    .exits = exits,
    .operand_ends_options = true,
    .run = run,
};
