/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt index: the PSBs of a raw trace, and what their PSB+ say; places for --from and --to.
 */
#include "trace/sidecar.h"
#include "trace/window.h"
#include "common/say.h"
#include "common/json.h"
#include "common/progress.h"
#include "cli/commands.h"
#include "cli/guard.h"

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

struct index_options {
    bool json, no_sandbox;
};

static const struct option_row options_of_index[] = {
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct index_options, json),
     .help = "Prints one JSON object a line."},
    {.name = "no-sandbox",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct index_options, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

static void print_text(const struct ptd_sync_point *point)
{
    const char *const who = !point->has_cr3 ? "?" : point->nr ? "guest" : "host";

    printf("%08" PRIx64 "  %-5s", point->offset, who);
    if (point->has_tsc)
        printf("  tsc:%" PRIu64, point->tsc);
    if (point->has_cr3)
        printf("  CR3 %#" PRIx64, point->cr3);
    if (point->has_vmcs)
        printf("  VMCS %#" PRIx64, point->vmcs);
    if (point->has_mode)
        printf("  %u-bit", 16u << point->mode);
    if (point->has_ip)
        printf("  at %#" PRIx64, point->ip);
    printf("%s\n", point->is_complete ? "" : "  no PSBEND");
}

static void print_json(const struct ptd_sync_point *point)
{
    json_object *const line = json_object_new_object();

    json_add_number(line, "offset", point->offset);
    if (point->has_tsc)
        json_add_number(line, "tsc", point->tsc);
    if (point->has_cr3) {
        json_object_object_add(line, "nr", json_object_new_boolean(point->nr));
        json_add_number(line, "cr3", point->cr3);
    }
    if (point->has_vmcs)
        json_add_number(line, "vmcs", point->vmcs);
    if (point->has_mode)
        json_add_number(line, "mode", 16u << point->mode);
    if (point->has_ip)
        json_add_number(line, "ip", point->ip);
    json_object_object_add(line, "complete", json_object_new_boolean(point->is_complete));
    json_print(line, JSON_C_TO_STRING_PLAIN);
}

static int print_index(const struct input *input, bool json)
{
    struct ptd_sync_point *points;
    size_t count;
    int error;

    progress_begin("looking for PSBs", input_size(input), PROGRESS_ALONE);
    error = index_file(input, &points, &count);
    progress_end();
    if (error)
        return file_error(input->name, error);
    for (size_t i = 0; i < count; i++) {
        if (json)
            print_json(&points[i]);
        else
            print_text(&points[i]);
    }
    free(points);
    if (count == 0)
        return complain(EXIT_CODE_FILE, "%s: %s", input->name, ptd_strerror(PTD_E_NOSYNC));
    return EXIT_CODE_OK;
}

static int refuse_rtit(const char *path)
{
    struct reason why;
    const int error = sidecar_refuse_rtit(path, "RTIT has no index", &why);

    return error ? complain(exit_code_of(error), "%s", why.text) : 0;
}

/* From here on, what somebody else wrote is parsed. 0 or an exit code. */
static int give_up_rights(const char *path, bool no_sandbox)
{
    struct sandbox sandbox = {0};

    guard_allow_sidecar(&sandbox, path);
    return guard_enter(&sandbox, no_sandbox);
}

static int index_path(const char *path, const struct index_options *options)
{
    struct input input;
    bool is_perf_data = false;
    int error = input_open(&input, path), code;

    if (!error && input.is_file)
        error = input_is_perf_data(&input, &is_perf_data);
    if (error)
        code = file_error(input.name, error);
    else if (!input.is_file)
        code = complain(EXIT_CODE_FILE, "%s: an index needs a file", input.name);
    else if (is_perf_data)
        code = complain(EXIT_CODE_FILE, "%s: a perf.data, which is no raw trace", input.name);
    else
        code = give_up_rights(path, options->no_sandbox);
    if (!error && !code)
        code = refuse_rtit(path);
    if (!error && !code)
        code = print_index(&input, options->json);
    input_close(&input);
    return code;
}

static int run(int argc, char **argv)
{
    struct index_options options = {0};
    const int code = options_parse(&command_index, argc, argv, &options);

    if (code)
        return code - 1;
    if (optind + 1 != argc)
        return complain(EXIT_CODE_USAGE, "vpt index takes one trace; see vpt index --help");
    return index_path(argv[optind], &options);
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "The file cannot be read, or has no PSB."},
    {0},
};

const struct subcommand command_index = {
    .name = "index",
    .about = "list the places from which a trace can be decoded",
    .synopsis = "[OPTION...] TRACE",
    .text =
        "Lists the PSBs of a raw Intel PT trace, and what each says: its offset, TSC, whether a "
        "guest ran, CR3, VMCS, mode, and the next instruction (none: PacketEn was 0). A trace "
        "can be decoded from any of them: see --from and --to of vpt decode.",
    .options = options_of_index,
    .exits = exits,
    .run = run,
};
