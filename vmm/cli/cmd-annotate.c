/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt annotate: how often each instruction of a function ran, and where its branches went.
 */
#include "cli/commands.h"
#include "cli/decode.h"
#include "cli/pager.h"
#include "cli/suggest.h"
#include "cli/values.h"
#include "common/escape.h"
#include "common/say.h"
#include "report/annotate-show.h"
#include "report/annotator.h"

#include <getopt.h>

/* What is parsed; first what the shared table of options fills in. */
struct annotate_request {
    struct parsed parsed;
    struct report_options who; /* who counts */
    bool json;
};

/* ---- Options ---- */

static const struct option_row options_of_annotate[] = {
    {.name = "lines",
     .group = "What is shown",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct annotate_request, parsed.options.lines),
     .help = "Prints the source line behind each instruction, and then how much each line ran, "
             "where debug information tells it."},
    {.name = "inline",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct annotate_request, parsed.options.inlined),
     .help = "Prints which functions were compiled into FUNCTION there, the innermost first."},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct annotate_request, json),
     .help = "Prints one JSON object."},
    {.name = "threads",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct annotate_request, parsed.options.threads),
     .min = 1,
     .max = THREADS_MAX,
     .help = "Decodes on so many threads.",
     .fallback = "one for each processor"},
    {.next = options_of_who},
};

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct annotate_request *request)
{
    int code = options_parse(&command_annotate, argc, argv, request);

    if (code)
        return code;
    if (optind + 1 >= argc)
        return 1 + complain(EXIT_CODE_USAGE,
                            "vpt annotate takes a function and a trace; see vpt annotate --help");
    request->who.filter = request->parsed.filter;
    if (check_window(&request->parsed.options.window) != 0)
        return 1 + EXIT_CODE_USAGE;
    code = parsed_check_sources(&request->parsed);
    return code ? 1 + code : 0;
}

/* ---- What came of it ---- */

/* Nothing of the function ran. An exit code. */
static int complain_of_none(const struct annotate *lines)
{
    struct suggestion near;
    struct escaped rooms[2];

    suggest_begin(&near, lines->name);
    for (size_t i = 0; i < lines->seen.count; i++)
        suggest_try(&near, lines->seen.list[i]);
    if (near.best)
        return complain(EXIT_CODE_FILE, "no function '%s' ran; '%s' did",
                        escaped(lines->name, &rooms[0]), escaped(near.best, &rooms[1]));
    return complain(EXIT_CODE_FILE, "no function '%s' ran, of %zu that did",
                    escaped(lines->name, &rooms[0]), lines->seen.count);
}

static bool any_counted(const struct annotate *lines)
{
    for (size_t i = 0; i < lines->lines.count; i++) {
        if (lines->lines.sums[i].count > 0)
            return true;
    }
    return false;
}

/* An exit code. */
static int show(const struct annotator *annotator, const struct annotate_request *request)
{
    const struct decode_options *const options = &request->parsed.options;
    const struct frames_look look = {options->lines, options->inlined, options->names};
    const struct annotate *const lines = &annotator->lines;
    struct escaped room;

    if (lines->function_count == 0)
        return complain_of_none(lines);
    if (!any_counted(lines))
        return complain(EXIT_CODE_FILE, "function '%s' ran, but not in what the options choose",
                        escaped(lines->name, &room));
    if (annotate_show(lines, annotator->insns, &look, request->json) != 0)
        return no_memory();
    if (lines->is_cut)
        say_remark("there is more of this function than is counted: what is shown is not all");
    return EXIT_CODE_OK;
}

/* A trace with errors has counts as well. */
static int annotate_files(struct annotate_request *request, const char *function, char **files,
                          size_t count)
{
    struct annotator annotator;
    int code, shown;

    if (!annotator_begin(&annotator, function, &request->who))
        return no_memory();
    request->parsed.options.format = &report_format;
    request->parsed.options.out = &annotator.report;
    annotator.lines.frames_owner = &request->parsed.options;
    if (request->parsed.options.lines || request->parsed.options.inlined)
        annotator.lines.frames_of = parsed_frames;
    if (!request->json && !request->parsed.no_pager)
        pager_begin();
    code = parsed_decode(&request->parsed, files, count);
    if (code == EXIT_CODE_OK || request->parsed.options.errors > 0) {
        shown = show(&annotator, request);
        code = shown ? shown : code;
    }
    annotator_free(&annotator);
    return code;
}

static int run(int argc, char **argv)
{
    struct annotate_request request = {0};
    int code = parsed_begin(&request.parsed);

    if (code)
        return code;
    code = parse(argc, argv, &request);
    code = code ? code - 1
                : annotate_files(&request, argv[optind], argv + optind + 1,
                                 (size_t)(argc - optind - 1));
    parsed_free(&request.parsed);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file cannot be read, no function of this name ran, or the trace holds "
                     "errors: then what could be decoded is counted."},
    {0},
};

const struct subcommand command_annotate = {
    .name = "annotate",
    .about = "count the instructions of a function, and where its branches went",
    .synopsis = "[OPTION...] FUNCTION TRACE...",
    .text = "Prints the instructions of the functions that are called FUNCTION: how often each "
            "ran, its share of what the function ran, and how often its branch was taken and not "
            "taken. Instructions that never ran have no number. Traces and their code are named "
            "as for vpt decode.",
    .options = options_of_annotate,
    .exits = exits,
    .run = run,
};
