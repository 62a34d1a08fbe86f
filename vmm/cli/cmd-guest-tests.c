/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt guest-tests: the guest images on somebody's hypervisor (docs/test-a-hypervisor.md).
 */
#include "cli/commands.h"
#include "common/data.h"
#include "common/output.h"
#include "common/say.h"
#include "kit/launch.h"
#include "kit/out.h"
#include "kit/rules.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SECONDS 600u
#define MAX_SECONDS     86400u
#define MAX_CPUS        8u
#define SMP_CPUS        2u

struct suite_row {
    const char *name; /* of the image, without .elf */
    unsigned cpus;
    const char *about;
};

static const struct suite_row suites[] = {
    {"msr-tests", 1, "CPUID, each MSR of the trace bit by bit, ToPA, PMIs"},
    {"packet-tests", 1, "each packet that known code must leave"},
    {"hostile-tests", 1, "output and tables that point where none should"},
    {"smp-tests", SMP_CPUS, "several processors, each with its own trace"},
    {"vmx-tests", 1, "VMX: instructions, checks, exits, and traces of VMs"},
    {"svm-tests", 1, "virtual machines by SVM in a trace (our QEMU only)"},
    {"rtit-tests", 1, "RTIT, the ancestor of Intel PT"},
};
#define SUITES (sizeof(suites) / sizeof(suites[0]))

struct kit_options {
    const char *with, *console, *append, *output;
    unsigned cpus, timeout;
    enum kit_format format;
    bool all, list, rules;
};

static const char *format_word(size_t index)
{
    return index < KIT_FORMATS ? kit_format_names[index] : NULL;
}

static const char *suite_word(size_t index)
{
    return index < SUITES ? suites[index].name : NULL;
}

static int take_format(void *options, const char *value)
{
    struct kit_options *const o = options;

    for (unsigned i = 0; i < KIT_FORMATS; i++) {
        if (strcmp(value, kit_format_names[i]) == 0) {
            o->format = (enum kit_format)i;
            return 0;
        }
    }
    return no_such("format", value, format_word, "vpt guest-tests --help");
}

static int take_json(void *options, const char *value)
{
    (void)value;
    ((struct kit_options *)options)->format = KIT_JSON;
    return 0;
}

static const struct option_row options_of_kit[] = {
    {.name = "with",
     .value = "COMMAND",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct kit_options, with),
     .help = "A command of the shell that starts one virtual machine and prints its console. In "
             "it {image} is the path of the guest image, {append} its command line, and {cpus} "
             "the number of processors."},
    {.name = "console",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct kit_options, console),
     .help = "Runs nothing, and judges what one suite printed elsewhere, as on a bare machine."},
    {.name = "append",
     .value = "WORDS",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct kit_options, append),
     .help = "The images' command line, such as console=serial (guest-tests/README.md)."},
    {.name = "cpus",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct kit_options, cpus),
     .min = 2,
     .max = MAX_CPUS,
     .help = "How many processors smp-tests get.",
     .fallback = "2"},
    {.name = "timeout",
     .value = "SECONDS",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct kit_options, timeout),
     .min = 1,
     .max = MAX_SECONDS,
     .help = "How long each suite may take.",
     .fallback = "600"},
    {.name = "format",
     .value = "FORMAT",
     .kind = OPTION_CALL,
     .take = take_format,
     .word = format_word,
     .help = "text, tap (version 13), junit, or json.",
     .fallback = "text"},
    {.name = "json", .kind = OPTION_CALL, .take = take_json, .help = "The same as --format json."},
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct kit_options, output),
     .help = "Writes to FILE.",
     .fallback = "to standard output"},
    {.name = "all",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct kit_options, all),
     .help = "The text names each case, not only those that failed."},
    {.name = "list",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct kit_options, list),
     .help = "Prints the suites, and runs nothing."},
    {.name = "rules",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct kit_options, rules),
     .help = "Prints the rules that cases name, and runs nothing."},
    {0},
};

static int list_suites(void)
{
    for (size_t i = 0; i < SUITES; i++)
        printf("%-14s  %s\n", suites[i].name, suites[i].about);
    return EXIT_CODE_OK;
}

static int list_rules(void)
{
    const struct kit_rule *rule;

    for (size_t i = 0; (rule = kit_rule(i)); i++)
        printf("%s: %s\n", rule->name, rule->text);
    return EXIT_CODE_OK;
}

static const struct suite_row *find_suite(const char *name)
{
    for (size_t i = 0; i < SUITES; i++) {
        const size_t len = strlen(suites[i].name);

        if (strncmp(name, suites[i].name, len) == 0 &&
            (!name[len] || strcmp(name + len, ".elf") == 0))
            return &suites[i];
    }
    return NULL;
}

/* The image of a suite, as vpt run finds it. 0, or an exit code that was said. */
static int find_image(const struct suite_row *row, char *image, size_t bytes)
{
    char name[64];

    snprintf(name, sizeof(name), "%s.elf", row->name);
    if (data_image(name, image, bytes))
        return 0;
    return complain(EXIT_CODE_FILE, "there is no image of %s; to build it, run: make", row->name);
}

/* One suite, from the machine to the output. 0, or an exit code that was said. */
static int run_suite(const struct kit_options *options, const struct suite_row *row,
                     struct kit_out *out)
{
    struct kit_machine machine = {.append = options->append ? options->append : "",
                                  .cpus = row->cpus > 1 ? options->cpus : 1};
    struct reason why = {""};
    struct kit_suite suite;
    char image[PATH_MAX];
    char *command;
    int error;

    kit_suite_begin(&suite, row->name);
    if (options->console) {
        error = kit_read_console(options->console, &suite, &why);
    } else {
        const int code = find_image(row, image, sizeof(image));

        if (code)
            return code;
        machine.image = image;
        command = kit_command(options->with, &machine, &why);
        if (!command)
            return complain(EXIT_CODE_USAGE, "%s", why.text);
        error = kit_launch(command, options->timeout, &suite, &why);
        free(command);
    }
    if (!error)
        kit_out_suite(out, &suite);
    kit_suite_free(&suite);
    if (error == -EINTR)
        return complain(EXIT_CODE_HOST, "%s was interrupted; its machine has ended", row->name);
    if (error == -ENOEXEC)
        return complain(EXIT_CODE_HOST, "%s", why.text);
    return complain_of(error, &why);
}

static int run_suites(const struct kit_options *options, char **names, FILE *to)
{
    struct kit_out out;
    int code = 0, error;

    kit_out_begin(&out, to, options->format, options->all);
    for (size_t i = 0; !*names && !code && i < SUITES; i++)
        code = run_suite(options, &suites[i], &out);
    for (; !code && *names; names++)
        code = run_suite(options, find_suite(*names), &out);
    error = kit_out_end(&out);
    if (code)
        return code;
    if (error)
        return error == -ENOMEM ? no_memory() : file_error("standard output", error);
    return out.counts[KIT_FAIL] ? EXIT_CODE_GUEST_FAILED : EXIT_CODE_OK;
}

static int check(const struct kit_options *options, char **names, int count)
{
    if (!options->with == !options->console)
        return complain(EXIT_CODE_USAGE, "vpt guest-tests takes --with COMMAND or --console FILE");
    if (options->console && count != 1)
        return complain(EXIT_CODE_USAGE, "--console is of one suite, which has to be named");
    if (options->console && options->append)
        return complain(EXIT_CODE_USAGE, "--append is for --with");
    for (int i = 0; i < count; i++) {
        if (!find_suite(names[i]))
            return no_such("suite", names[i], suite_word, "vpt guest-tests --list");
    }
    return 0;
}

/* The same into a file, which is opened before anything runs. */
static int run_to_file(const struct kit_options *options, char **names)
{
    struct output output = {0};
    struct reason why = {""};
    char *text = NULL;
    size_t bytes = 0;
    int code, error = output_open_beside(&output, options->output, &why);
    FILE *to;

    if (error)
        return complain_of(error, &why);
    to = open_memstream(&text, &bytes);
    if (!to) {
        output_drop(&output);
        return no_memory();
    }
    code = run_suites(options, names, to);
    error = fclose(to) != 0 ? reason_no_memory(&why) : output_write(&output, text, bytes, &why);
    free(text);
    if (!error)
        error = output_close(&output, &why);
    else
        output_drop(&output);
    return error ? complain_of(error, &why) : code;
}

static int run(int argc, char **argv)
{
    struct kit_options options = {.cpus = SMP_CPUS, .timeout = DEFAULT_SECONDS};
    int code = options_parse(&command_guest_tests, argc, argv, &options);

    if (code)
        return code - 1;
    if (options.list)
        return list_suites();
    if (options.rules)
        return list_rules();
    code = check(&options, argv + optind, argc - optind);
    if (code)
        return code;
    return options.output ? run_to_file(&options, argv + optind)
                          : run_suites(&options, argv + optind, stdout);
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "No case failed."},
    {EXIT_CODE_GUEST_FAILED, "A case failed, or a suite did not come to its end."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "An image is missing, or a file cannot be read or written."},
    {EXIT_CODE_HOST, "The command cannot be run, or a signal ended the run."},
    {0},
};

const struct subcommand command_guest_tests = {
    .name = "guest-tests",
    .about = "run the guest tests on any hypervisor, and explain what fails",
    .synopsis = "[OPTION...] [SUITE...]",
    .text = "Runs guest images that ask a hypervisor whether its Intel PT, RTIT and VMX do what "
            "the specification says, and prints which cases failed, each with its rule. COMMAND "
            "starts one virtual machine; all suites run, one after the other, unless some are "
            "named.",
    .document = "test-a-hypervisor",
    .options = options_of_kit,
    .exits = exits,
    .run = run,
};
