/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt shard: where the pieces of a trace begin, and what the PSB+ in front of each says.
 */
#include "cli/commands.h"
#include "cli/guard.h"
#include "common/json.h"
#include "common/say.h"
#include "trace/input.h"
#include "trace/sidecar.h"
#include "view/piece.h"
#include "ptdec.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define PSB_PLUS_MAX 4096u /* bytes: more than a PSB+ has */

struct shard_options {
    unsigned count;
    bool json, no_sandbox;
};

static const struct option_row options_of_shard[] = {
    {.name = "pieces",
     .letter = 'n',
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct shard_options, count),
     .min = 1,
     .max = SHARDS_MAX,
     .help = "Cuts the trace into so many pieces."},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct shard_options, json),
     .help = "Prints one JSON object a line."},
    {.name = "no-sandbox",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct shard_options, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

/* A piece as it is planned; .state is of the PSB+ from which its state comes. */
struct plan {
    uint64_t begin, end, warm;
    bool has_state;
    struct ptd_sync_point state;
};

static int plan_piece(const struct bytes *trace, unsigned number, unsigned count, struct plan *plan)
{
    struct ptd_sync_point *points = NULL;
    size_t found = 0, len;

    plan->begin = shard_begin(trace->data, trace->len, number, count);
    plan->end = shard_begin(trace->data, trace->len, number + 1, count);
    plan->warm = number == 1 ? 0 : shard_warm(trace->data, trace->len, plan->begin);
    plan->has_state = false;
    if (plan->warm == 0)
        return 0;
    len = trace->len - plan->warm;
    if (ptd_index(trace->data + plan->warm, len < PSB_PLUS_MAX ? len : PSB_PLUS_MAX, &points,
                  &found) != PTD_OK)
        return no_memory();
    plan->has_state = found > 0;
    if (found > 0)
        plan->state = points[0];
    free(points);
    return 0;
}

static void print_text(unsigned number, const struct plan *plan)
{
    const struct ptd_sync_point *const state = &plan->state;

    printf("%5u  %08" PRIx64 "..%08" PRIx64, number, plan->begin, plan->end);
    if (!plan->has_state) {
        puts(plan->begin == plan->end ? "  empty" : "  from the begin of the trace");
        return;
    }
    printf("  from %08" PRIx64, plan->warm);
    if (state->has_tsc)
        printf("  tsc:%" PRIu64, state->tsc);
    if (state->has_cr3)
        printf("  %s, CR3 %#" PRIx64, state->nr ? "guest" : "host", state->cr3);
    if (state->has_vmcs)
        printf("  VMCS %#" PRIx64, state->vmcs);
    if (state->has_mode)
        printf("  %u-bit", 16u << state->mode);
    if (state->has_ip)
        printf("  at %#" PRIx64, state->ip);
    putchar('\n');
}

static void print_json(unsigned number, const struct plan *plan)
{
    const struct ptd_sync_point *const state = &plan->state;
    json_object *const line = json_object_new_object();

    json_add_number(line, "piece", number);
    json_add_number(line, "begin", plan->begin);
    json_add_number(line, "end", plan->end);
    json_add_number(line, "from", plan->warm);
    if (plan->has_state && state->has_tsc)
        json_add_number(line, "tsc", state->tsc);
    if (plan->has_state && state->has_cr3) {
        (void)json_add(line, "nr", json_object_new_boolean(state->nr));
        json_add_number(line, "cr3", state->cr3);
    }
    if (plan->has_state && state->has_vmcs)
        json_add_number(line, "vmcs", state->vmcs);
    if (plan->has_state && state->has_mode)
        json_add_number(line, "mode", 16u << state->mode);
    if (plan->has_state && state->has_ip)
        json_add_number(line, "ip", state->ip);
    json_print(line, JSON_C_TO_STRING_PLAIN);
}

static int plan_all(const struct bytes *trace, const struct shard_options *options)
{
    int code = 0;

    for (unsigned i = 1; !code && i <= options->count; i++) {
        struct plan plan;

        code = plan_piece(trace, i, options->count, &plan);
        if (!code)
            (options->json ? print_json : print_text)(i, &plan);
    }
    return code;
}

static int shard_input(struct input *input, const struct shard_options *options)
{
    struct sandbox sandbox = {0};
    struct bytes trace = {0};
    struct reason why = {0};
    bool is_perf_data;
    int error = input_is_perf_data(input, &is_perf_data), code = 0;

    if (error)
        return file_error(input->name, error);
    if (is_perf_data)
        return complain(EXIT_CODE_FILE, "%s: a perf.data is not cut; vpt merge decodes all of it",
                        input->name);
    guard_allow_sidecar(&sandbox, input->name);
    code = guard_enter(&sandbox, options->no_sandbox);
    if (!code)
        code = complain_of(sidecar_refuse_rtit(input->name, "RTIT is not cut", &why), &why);
    if (!code && (error = input_take_all(input, &trace)) != 0)
        code = file_error(input->name, error);
    if (!code)
        code = plan_all(&trace, options);
    bytes_free(&trace);
    return code;
}

static int run(int argc, char **argv)
{
    struct shard_options options = {0};
    struct input input;
    int code = options_parse(&command_shard, argc, argv, &options), error;

    if (code)
        return code - 1;
    if (optind + 1 != argc || options.count == 0)
        return complain(EXIT_CODE_USAGE, "vpt shard takes -n N and a trace; see vpt shard --help");
    error = input_open(&input, argv[optind]);
    code = error ? file_error(input.name, error) : shard_input(&input, &options);
    input_close(&input);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "The file cannot be read, or is no raw trace."},
    {0},
};

const struct subcommand command_shard = {
    .name = "shard",
    .about = "say where a trace is cut for many machines",
    .synopsis = "-n N [OPTION...] TRACE",
    .text = "Lists the pieces of a raw Intel PT trace: where each begins and ends, from which PSB "
            "on it is decoded to know what holds there, and what that PSB+ says. vpt decode and "
            "vpt report decode one with --shard I/N, and vpt merge puts them together.",
    .document = "shards",
    .options = options_of_shard,
    .exits = exits,
    .run = run,
};
