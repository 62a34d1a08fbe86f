/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt names: who and what a Linux guest's memory names, as a map file for the other commands.
 */
#include "cli/commands.h"
#include "cli/guard.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/open.h"
#include "common/output.h"
#include "common/say.h"
#include "linux/guest.h"
#include "linux/names.h"

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct names_options {
    const char *out;
    bool json, no_sandbox;
};

static const struct option_row options_of_names[] = {
    {.name = "out",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .value = "FILE",
     .offset = offsetof(struct names_options, out),
     .help = "Writes FILE.map, FILE.kallsyms, FILE.symbols and FILE.vdso.",
     .fallback = "CORE"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct names_options, json),
     .help = "Prints what was found as a JSON object."},
    {.name = "no-sandbox",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct names_options, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

enum { MAP, KALLSYMS, VDSO, SYMBOLS, OUTPUTS };

static const char *const endings[OUTPUTS] = {".map", ".kallsyms", ".vdso", ".symbols"};

/* What is written, and what the map calls it. */
struct work {
    const struct names_options *options;
    struct output outputs[OUTPUTS];
    char *paths[OUTPUTS];
    char *core; /* as the map names it */
    struct names_sum sum;
};

/* ---- Files ---- */

static const char *last_part(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* All outputs are opened before the work begins. 0 or an exit code. */
static int open_outputs(struct work *work, const char *core)
{
    const char *const base = work->options->out ? work->options->out : core;
    struct reason why = {0};

    for (unsigned i = 0; i < OUTPUTS; i++) {
        int error;

        if (asprintf(&work->paths[i], "%s%s", base, endings[i]) < 0) {
            work->paths[i] = NULL;
            (void)no_memory();
            return EXIT_CODE_HOST;
        }
        error = output_open_beside(&work->outputs[i], work->paths[i], &why);
        if (error)
            return complain_of(error, &why);
    }
    /* A map names files beside it, or where they are. */
    work->core = work->options->out ? realpath(core, NULL) : strdup(last_part(core));
    return work->core ? 0 : no_memory();
}

/* A guest need not have a vDSO, nor files with symbols. 0 or an exit code. */
static int close_outputs(struct work *work)
{
    struct reason why = {0};
    int error = 0;

    if (work->sum.vdso_bytes == 0)
        output_drop(&work->outputs[VDSO]);
    if (work->sum.file_symbols == 0)
        output_drop(&work->outputs[SYMBOLS]);
    for (unsigned i = 0; !error && i < OUTPUTS; i++)
        if (work->outputs[i].is_open)
            error = output_close(&work->outputs[i], &why);
    return complain_of(error, &why);
}

static void free_work(struct work *work)
{
    for (unsigned i = 0; i < OUTPUTS; i++) {
        output_drop(&work->outputs[i]);
        free(work->paths[i]);
    }
    free(work->core);
}

/* From here on, what somebody else wrote is parsed. 0 or an exit code. */
static int give_up_rights(const struct work *work)
{
    struct sandbox sandbox = {0};

    for (unsigned i = 0; i < OUTPUTS; i++)
        if (work->outputs[i].rename_to)
            sandbox_allow_output(&sandbox, work->outputs[i].rename_to);
    return guard_enter(&sandbox, work->options->no_sandbox);
}

/* ---- What was found ---- */

static void print_text(const struct linux_guest *guest, const struct names_sum *sum)
{
    struct escaped room;

    printf("Linux %s\n", escaped(guest->info.release, &room));
    printf("kernel     %" PRIu64 " symbols\n", sum->symbols);
    printf("modules    %" PRIu64 ", %" PRIu64 " symbols\n", sum->modules, sum->module_symbols);
    printf("code made  %" PRIu64 " of BPF, %" PRIu64 " of ftrace\n", sum->bpf, sum->ftrace);
    printf("processes  %" PRIu64 ", %" PRIu64 " threads\n", sum->processes, sum->threads);
    printf("files      %" PRIu64 " mappings with code, %" PRIu64 " with a build id, %" PRIu64
           " symbols\n",
           sum->files, sum->build_ids, sum->file_symbols);
}

static void print_json(const struct linux_guest *guest, const struct names_sum *sum)
{
    json_object *const line = json_object_new_object();
    struct escaped room;

    (void)json_add(line, "release", json_object_new_string(escaped(guest->info.release, &room)));
    json_add_number(line, "symbols", sum->symbols);
    json_add_number(line, "modules", sum->modules);
    json_add_number(line, "module_symbols", sum->module_symbols);
    json_add_number(line, "bpf", sum->bpf);
    json_add_number(line, "ftrace", sum->ftrace);
    json_add_number(line, "processes", sum->processes);
    json_add_number(line, "threads", sum->threads);
    json_add_number(line, "files", sum->files);
    json_add_number(line, "build_ids", sum->build_ids);
    json_add_number(line, "file_symbols", sum->file_symbols);
    json_print(line, JSON_C_TO_STRING_PLAIN);
}

static int write_names(struct work *work, const struct linux_guest *guest)
{
    const struct names_files files = {work->core, last_part(work->paths[KALLSYMS]),
                                      last_part(work->paths[VDSO]),
                                      last_part(work->paths[SYMBOLS])};
    const struct names_outputs outputs = {&work->outputs[MAP], &work->outputs[VDSO],
                                          &work->outputs[SYMBOLS]};
    struct reason why = {0};
    int error, code;

    error = names_write_kallsyms(guest, &work->outputs[KALLSYMS], &work->sum, say_remark, &why);
    if (!error)
        error = names_write_map(guest, &files, &outputs, &work->sum, say_remark, &why);
    if (error)
        return complain_of(error, &why);
    code = close_outputs(work);
    if (code)
        return code;
    if (work->options->json)
        print_json(guest, &work->sum);
    else
        print_text(guest, &work->sum);
    return EXIT_CODE_OK;
}

static int names_of(struct work *work, const struct core *core, const char *name)
{
    struct linux_guest guest = {0};
    struct reason why = {0};
    const int error = guest_open(&guest, core, &why);
    int code;

    if (error)
        code = complain(exit_code_of(error), "%s: %s", name, why.text);
    else
        code = write_names(work, &guest);
    guest_close(&guest);
    return code;
}

static int names_in_file(struct work *work, const char *path)
{
    const struct file_name name = {.path = path, .by_user = true};
    struct core core = {0};
    struct reason why = {0};
    int fd = open_named(&name, &why), code, error;

    if (fd < 0)
        return complain_of(fd, &why);
    code = open_outputs(work, path);
    if (!code)
        code = give_up_rights(work);
    if (!code) {
        error = core_open(&core, fd, path, &why);
        code = error ? complain_of(error, &why) : names_of(work, &core, path);
    }
    core_close(&core);
    (void)close(fd);
    return code;
}

static int run(int argc, char **argv)
{
    struct names_options options = {0};
    struct work work = {.options = &options};
    int code = options_parse(&command_names, argc, argv, &options);

    if (code)
        return code - 1;
    if (optind + 1 != argc)
        return complain(EXIT_CODE_USAGE, "vpt names takes one core dump; see vpt names --help");
    code = names_in_file(&work, argv[optind]);
    free_work(&work);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "The dump cannot be read, has no Linux in it, or a file cannot be written."},
    {EXIT_CODE_HOST, "There is no memory."},
    {0},
};

const struct subcommand command_names = {
    .name = "names",
    .about = "name what ran in a Linux guest, from a dump of its memory",
    .synopsis = "[OPTION...] CORE",
    .text =
        "Reads an ELF core of a Linux guest, as QEMU's dump-guest-memory and 'virsh dump "
        "--memory-only' write it, and writes a map file for vpt decode and vpt parts: processes "
        "with their page tables, threads and mapped files, and beside it the names of the "
        "kernel and its modules, and the guest's vDSO. The guest needs no preparation, and no "
        "file of it is needed: all of it stands in its memory.",
    .document = "names",
    .options = options_of_names,
    .exits = exits,
    .run = run,
};
