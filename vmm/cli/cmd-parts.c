/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt parts: whose each part of a trace is.
 */
#include "trace/input.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"
#include "trace/sidecar.h"
#include "common/say.h"
#include "common/bytes.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/progress.h"
#include "cli/commands.h"
#include "cli/guard.h"

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

struct parts_options {
    bool json;
    const char *map_path;
    bool no_sandbox;
    struct code_files *files;
    struct ptd_image *image;
    struct map map;
    struct ptd_part last; /* not yet printed; .end 0: none */
};

static const struct option_row options_of_parts[] = {
    {.name = "map",
     .value = "MAP",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parts_options, map_path),
     .help = "Names VMs and processes as this file says (docs/decoder.md)."},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parts_options, json),
     .help = "Prints one JSON object a line."},
    {.name = "no-sandbox",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parts_options, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

static void print_json(const struct ptd_part *part, const struct ptd_context *who)
{
    json_object *const object = json_object_new_object();

    json_add_number(object, "begin", part->begin);
    json_add_number(object, "end", part->end);
    if (part->known)
        json_object_object_add(object, "nr", json_object_new_boolean(part->nr));
    if (part->known && part->cr3 != PTD_ANY_CR3)
        json_add_number(object, "cr3", part->cr3);
    if (part->known && part->nr && part->vmcs != PTD_ANY_VMCS)
        json_add_number(object, "vmcs", part->vmcs);
    if (part->known && who->vm_name)
        json_object_object_add(object, "vm", json_object_new_string(who->vm_name));
    if (part->known && who->process)
        json_object_object_add(object, "process", json_object_new_string(who->process));
    json_print(object, JSON_C_TO_STRING_PLAIN);
}

static void print_text(const struct ptd_part *part, const struct ptd_context *who)
{
    struct escaped room;

    printf("%08" PRIx64 " %08" PRIx64, part->begin, part->end);
    if (!part->known) {
        puts("  not known");
        return;
    }
    printf("  %s", part->nr ? "guest" : "host ");
    if (part->nr && part->vmcs != PTD_ANY_VMCS)
        printf("  VMCS %#" PRIx64, part->vmcs);
    if (part->cr3 != PTD_ANY_CR3)
        printf("  CR3 %#" PRIx64, part->cr3);
    if (who->vm_name)
        printf("  VM %s", escaped(who->vm_name, &room));
    if (who->process)
        printf("  process %s", escaped(who->process, &room));
    putchar('\n');
}

static void print_last(struct parts_options *options)
{
    struct ptd_context who = {0};

    if (options->last.end == 0)
        return;
    if (options->map.contexts)
        ptd_contexts_find(options->map.contexts, options->last.space, 0, &who);
    if (options->json)
        print_json(&options->last, &who);
    else
        print_text(&options->last, &who);
}

static bool same(const struct ptd_part *a, const struct ptd_part *b)
{
    return a->known == b->known && a->nr == b->nr && a->cr3 == b->cr3 &&
           (!a->nr || a->vmcs == b->vmcs);
}

/* A PSB alone changes nothing. */
static int add_part(void *owner, const struct ptd_part *part)
{
    struct parts_options *const options = owner;

    progress_to(part->end);
    if (options->last.end != 0 && same(&options->last, part)) {
        options->last.end = part->end;
        return PTD_OK;
    }
    print_last(options);
    options->last = *part;
    return PTD_OK;
}

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct parts_options *options)
{
    const int code = options_parse(&command_parts, argc, argv, options);

    if (!code && optind + 1 != argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt parts takes one trace; see vpt parts --help");
    return code;
}

static int print_parts(struct parts_options *options, struct input *input)
{
    struct bytes trace = {0};
    const int error = input_take_all(input, &trace);
    struct ptd_packets packets;
    int code = EXIT_CODE_OK;

    if (error)
        return file_error(input->name, error);
    ptd_packets_init(&packets, trace.data, trace.len);
    if (ptd_packets_sync(&packets) != PTD_OK)
        code = complain(EXIT_CODE_FILE, "%s: %s", input->name, ptd_strerror(PTD_E_NOSYNC));
    else {
        progress_begin("looking for parts", trace.len, PROGRESS_BESIDE_LINES);
        (void)ptd_partition(trace.data, trace.len, options->image, add_part, options);
        progress_end();
    }
    print_last(options);
    bytes_free(&trace);
    return code;
}

static int refuse_rtit(const char *path)
{
    struct reason why;
    const int error = sidecar_refuse_rtit(path, "an RTIT trace, which tells of no guests", &why);

    return error ? complain(exit_code_of(error), "%s", why.text) : 0;
}

/* From here on, what somebody else wrote is parsed. A map names files anywhere. */
static int give_up_rights(const struct parts_options *options, const char *file)
{
    struct sandbox sandbox = {0};

    sandbox_allow(&sandbox, options->map_path ? "/" : NULL);
    guard_allow_sidecar(&sandbox, file);
    return guard_enter(&sandbox, options->no_sandbox);
}

static int load_map(struct parts_options *options)
{
    if (options->map_path &&
        map_load(options->map_path, options->files, options->image, &options->map) != 0)
        return complain(EXIT_CODE_FILE, "%s", options->map.why.text);
    return 0;
}

static int parts_of(struct parts_options *options, const char *file)
{
    struct input input;
    bool is_perf_data;
    int error, code;

    error = input_open(&input, file);
    if (!error)
        error = input_is_perf_data(&input, &is_perf_data);
    if (error)
        code = file_error(input.name, error);
    else if (is_perf_data)
        code = complain(EXIT_CODE_FILE, "%s: a perf.data, which is no raw trace", input.name);
    else
        code = give_up_rights(options, file);
    if (!error && !code)
        code = refuse_rtit(file);
    if (!error && !code)
        code = load_map(options);
    if (!error && !code)
        code = print_parts(options, &input);
    input_close(&input);
    return code;
}

static int run(int argc, char **argv)
{
    struct parts_options options = {.files = code_files_new(CODE_BYTES_MAX),
                                    .image = ptd_image_new()};
    int code = options.image && options.files ? parse(argc, argv, &options) : no_memory() + 1;

    code = code ? code - 1 : parts_of(&options, argv[optind]);
    ptd_image_free(options.image);
    map_free(&options.map);
    code_files_free(options.files);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file cannot be read, or the trace has no PSB."},
    {0},
};

const struct subcommand command_parts = {
    .name = "parts",
    .about = "say whose each part of a trace of a host and guests is",
    .synopsis = "[OPTION...] TRACE",
    .text = "Prints whose each part of a raw Intel PT trace of a host and its guests is: offsets, "
            "and what PIP, VMCS and CFE packets say. It needs no code. TRACE may be a pipe; - is "
            "standard input. The offsets are for reading the trace, not for cutting it: what lies "
            "between two PSBs holds packets of all who ran there, so no cut of the bytes is safe "
            "to give to one tenant.",
    .options = options_of_parts,
    .exits = exits,
    .run = run,
};
