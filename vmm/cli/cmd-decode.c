/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt decode: what ran, from a trace and the code that it ran through.
 */
#include "cli/commands.h"
#include "cli/decode.h"
#include "cli/pager.h"
#include "cli/shards.h"
#include "cli/values.h"
#include "common/say.h"
#include "symbols/dwarf-file.h"
#include "view/out.h"

#include <getopt.h>
#include <string.h>
#include <unistd.h>

#define JSON_LINES "jsonl" /* a format that is --json */

/* ---- Options ---- */

static const struct out_format *const formats[] = {&out_perf,   &out_branches, &out_folded,
                                                   &out_chrome, &out_perfetto, &out_callgrind};

static const char *format_word(size_t index)
{
    static const size_t count = sizeof(formats) / sizeof(formats[0]);

    return index < count ? formats[index]->name : index == count ? JSON_LINES : NULL;
}

static int parse_format(const char *text, struct decode_options *options)
{
    options->json = strcmp(text, JSON_LINES) == 0;
    options->format = NULL;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(text, formats[i]->name) == 0)
            options->format = formats[i];
    }
    if (!options->json && !options->format)
        return no_such("format", text, format_word, "vpt decode --help");
    if (options->format && options->format->lacks)
        return complain(EXIT_CODE_HOST, "--format %s: this vpt was built without %s", text,
                        options->format->lacks);
    return 0;
}

static int take_insns(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    (void)value;
    options->view = VIEW_INSNS;
    return 0;
}

static int take_blocks(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    (void)value;
    options->view = VIEW_BLOCKS;
    return 0;
}

static int take_calls(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    (void)value;
    options->view = VIEW_CALLS;
    return 0;
}

static int take_summary(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    (void)value;
    options->view = VIEW_SUMMARY;
    return 0;
}

static int take_json(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    (void)value;
    options->json = true;
    options->format = NULL;
    return 0;
}

static int take_format(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    return parse_format(value, options);
}

static int take_clock(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    options->count_insns = strcmp(value, "insns") == 0;
    return options->count_insns ? 0
                                : complain(EXIT_CODE_USAGE, "--clock takes insns, not '%s'", value);
}

static const char *clock_word(size_t index)
{
    return index == 0 ? "insns" : NULL;
}

static const struct option_row options_of_decode[] = {
    {.name = "insns",
     .group = "What is shown",
     .kind = OPTION_CALL,
     .take = take_insns,
     .help = "Prints one line an instruction, disassembled. This is the default."},
    {.name = "blocks",
     .kind = OPTION_CALL,
     .take = take_blocks,
     .help = "Prints one line a run of instructions without a change of flow."},
    {.name = "calls",
     .kind = OPTION_CALL,
     .take = take_calls,
     .help = "Prints functions as they are entered and left, indented, with times."},
    {.name = "summary",
     .kind = OPTION_CALL,
     .take = take_summary,
     .help = "Prints how much ran, and in which functions; only of a raw trace."},
    {.name = "threads",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct parsed, options.threads),
     .min = 1,
     .max = THREADS_MAX,
     .help = "Of --summary: decodes on so many threads.",
     .fallback = "one for each processor"},
    {.name = "json",
     .kind = OPTION_CALL,
     .take = take_json,
     .help = "Prints one JSON object a line; of --summary, one object. Of --format and --json, the "
             "last one counts."},
    {.name = "format",
     .value = "FORMAT",
     .kind = OPTION_CALL,
     .take = take_format,
     .word = format_word,
     .help = "Prints another form: perf and perf-branches are as perf script prints; jsonl is "
             "--json; folded has stacks for flame graphs; chrome has trace events, also for "
             "Perfetto; perfetto is its own form, which tells VMs apart; callgrind is for "
             "callgrind_annotate and KCachegrind."},
    {.name = "clock",
     .value = "insns",
     .kind = OPTION_CALL,
     .take = take_clock,
     .word = clock_word,
     .help = "Costs and times of --calls and of a --format are instructions.",
     .fallback = "TSC ticks, if the trace has TSC packets that differ"},
    {.name = "lines",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parsed, options.lines),
     .help = "Prints the source line behind each instruction or block, where debug information "
             "tells it."},
    {.name = "inline",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parsed, options.inlined),
     .help = "Prints which functions were compiled into others there, the innermost first."},
    {.next = options_of_shards},
};

/* Options that do not go together, or have no effect. 0 or an exit code. */
static int check_options(const struct decode_options *options)
{
    if (options->view == VIEW_SUMMARY &&
        (options->format || options->window.from.kind || options->window.to.kind))
        return complain(EXIT_CODE_USAGE, "--summary is of a whole trace, and has no --format");
    if (options->view == VIEW_SUMMARY && options->filter)
        return complain(EXIT_CODE_USAGE,
                        "--summary is of all that ran; vpt report sums up what filters choose");
    if (check_window(&options->window) != 0)
        return EXIT_CODE_USAGE;
    if (options->count_insns && window_has_time(&options->window))
        return complain(EXIT_CODE_USAGE, "--clock insns has no times for --from and --to");
    if (options->format && options->format->is_binary && isatty(STDOUT_FILENO))
        return complain(EXIT_CODE_USAGE, "--format %s is nothing for a terminal; send it to a file",
                        options->format->name);
    if (options->count_insns && !options->format)
        return complain(EXIT_CODE_USAGE,
                        "--clock is for --calls, and for a --format that has times");
    if ((options->lines || options->inlined) && (options->format || options->view > VIEW_BLOCKS))
        return complain(EXIT_CODE_USAGE, "--lines and --inline are for --insns and --blocks");
    if (options->threads && options->view != VIEW_SUMMARY)
        return complain(EXIT_CODE_USAGE, "--threads is for --summary");
    return 0;
}

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct parsed *parsed)
{
    int code = options_parse(&command_decode, argc, argv, parsed);

    if (code)
        return code;
    if (optind >= argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt decode takes a trace; see vpt decode --help");
    if (parsed->options.view == VIEW_CALLS && !parsed->options.json && !parsed->options.format)
        parsed->options.format = &out_calls;
    if (filter_is_set(&parsed->filter))
        parsed->options.filter = &parsed->filter;
    code = check_options(&parsed->options);
    if (!code)
        code = parsed_check_sources(parsed);
    return code ? 1 + code : 0;
}

/* Whether what is printed is meant for people, and comes line by line. */
static bool is_text(const struct decode_options *options)
{
    return !options->json && (!options->format || options->format->is_view) &&
           options->view != VIEW_SUMMARY;
}

static int run(int argc, char **argv)
{
    struct parsed parsed;
    int code = parsed_begin(&parsed);

    if (code)
        return code;
    code = shards_take_command(&parsed.shards, argc, argv) ? parse(argc, argv, &parsed)
                                                           : 1 + no_memory();
    if (!code && is_text(&parsed.options) && !parsed.no_pager && !parsed.shards.word)
        pager_begin();
    code = code ? code - 1 : parsed_decode(&parsed, argv + optind, (size_t)(argc - optind));
    parsed_free(&parsed);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file cannot be read, or the trace holds errors: they are printed, and "
                     "decoding goes on behind them."},
    {0},
};

const struct subcommand command_decode = {
    .name = "decode",
    .about = "print the instructions, blocks or calls of a trace",
    .synopsis = "[OPTION...] TRACE...",
    .text = "Prints the path of execution that a raw Intel PT trace holds. The code comes from "
            "TRACE.json (docs/trace-files.md), or from --image options. TRACE may also be a "
            "perf.data (docs/perf-data.md); its code comes from the files that it names.\n"
            "TRACE may be a pipe; - is standard input. What a pipe brings is shown as it comes.\n"
            "Several raw traces, those of the processors of one machine, are shown on one time "
            "line.",
    .options = options_of_decode,
    .exits = exits,
    .run = run,
};
