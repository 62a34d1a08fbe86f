/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt report: who ran in traces, in which functions, and what happened meanwhile.
 */
#include "cli/commands.h"
#include "cli/decode.h"
#include "cli/pager.h"
#include "cli/shards.h"
#include "cli/values.h"
#include "common/escape.h"
#include "common/say.h"
#include "report/between.h"
#include "report/page.h"
#include "report/report.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is parsed; first what the shared table of options fills in. */
struct report_request {
    struct parsed parsed;
    struct report_options report;
    const char *between; /* FROM,TO */
    const char *page;    /* where it goes; NULL: nowhere */
    struct page_sources sources;
};

#define TOP_OF_PAGE 5000u

#define USUAL_TOP 20u

/* ---- Options ---- */

static int take_by(void *request, const char *value)
{
    struct report_options *const options = &((struct report_request *)request)->report;
    char *const copy = strdup(value);
    char *rest = copy;
    int code = copy ? 0 : no_memory();

    options->by_count = 0;
    for (char *word; !code && (word = strsep(&rest, ","));) {
        size_t by = 0;

        while (report_by_word(by) && strcmp(word, report_by_word(by)) != 0)
            by++;
        for (size_t i = 0; i < options->by_count; i++) {
            if (options->by[i] == by)
                code = complain(EXIT_CODE_USAGE, "--by has '%s' twice", word);
        }
        if (!report_by_word(by))
            code = no_such("key", word, report_by_word, "vpt report --help");
        else if (!code)
            options->by[options->by_count++] = (enum report_by)by;
    }
    free(copy);
    return code;
}

static const char *const orders[] = {"time", "instructions", NULL};

static const char *order_word(size_t index)
{
    return orders[index];
}

static int take_sort(void *request, const char *value)
{
    struct report_options *const options = &((struct report_request *)request)->report;

    options->by_insns = strcmp(value, orders[1]) == 0;
    return options->by_insns || strcmp(value, orders[0]) == 0
               ? 0
               : no_such("order", value, order_word, "vpt report --help");
}

static int take_json(void *request, const char *value)
{
    (void)value;
    ((struct report_request *)request)->report.form = FORM_JSON;
    return 0;
}

static int take_csv(void *request, const char *value)
{
    (void)value;
    ((struct report_request *)request)->report.form = FORM_CSV;
    return 0;
}

static const char *const halves[] = {
    [FILTER_USER - 1] = "user", [FILTER_KERNEL - 1] = "kernel", NULL};

static const char *half_word(size_t index)
{
    return halves[index];
}

static int take_only(void *request, const char *value)
{
    struct report_options *const options = &((struct report_request *)request)->report;
    size_t half = 0;

    while (halves[half] && strcmp(value, halves[half]) != 0)
        half++;
    if (!halves[half])
        return no_such("half", value, half_word, "vpt report --help");
    options->filter.half = (enum filter_half)(half + 1);
    return 0;
}

static const struct option_row options_of_report[] = {
    {.name = "by",
     .value = "KEY,...",
     .group = "What is shown",
     .kind = OPTION_CALL,
     .take = take_by,
     .word = report_by_word,
     .help = "Prints one table, with a row for each of these together: vm, process, name (of a "
             "process, whatever its pid), thread, cpu, mode (kernel or user), function, file (that "
             "the function is in).",
     .fallback = "a summary in sections"},
    {.name = "between",
     .value = "FROM,TO",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct report_request, between),
     .help = "Says how often TO was come to from FROM, how long that took, and in which functions. "
             "Each is an address, or the name of a function, which is where it begins."},
    {.name = "only",
     .value = "user|kernel",
     .kind = OPTION_CALL,
     .take = take_only,
     .word = half_word,
     .help = "Sums up code of user mode alone, or of the kernel alone.",
     .fallback = "both"},
    {.name = "sort",
     .value = "ORDER",
     .kind = OPTION_CALL,
     .take = take_sort,
     .word = order_word,
     .help = "What comes first: the most time, or the most instructions.",
     .fallback = "time, if the trace tells it"},
    {.name = "top",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct report_request, report.top),
     .max = 1u << 30,
     .help = "Prints so many rows of each table; 0: all of them.",
     .fallback = "20 in text, else all"},
    {.name = "json", .kind = OPTION_CALL, .take = take_json, .help = "Prints one JSON object."},
    {.name = "csv",
     .kind = OPTION_CALL,
     .take = take_csv,
     .help = "Prints one table with commas between columns: that of --by, else of vm, process, "
             "function and file."},
    {.name = "html",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct report_request, page),
     .help = "Writes a page for a browser, which needs no network: a time line, a flame graph, the "
             "tree of calls, functions, VM exits and how long they took. Prints nothing."},
    {.name = "lines",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct report_request, parsed.options.lines),
     .help = "Of --html: says how much each source line of the hottest functions ran, where debug "
             "information tells it."},
    {.name = "sources",
     .value = "FOLDER",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct report_request, sources.root),
     .help = "Of --html: the same, with the text of the lines. Sources are read beneath FOLDER, by "
             "the names that debug information has for them; / is those of this machine."},
    {.name = "threads",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct report_request, parsed.options.threads),
     .min = 1,
     .max = THREADS_MAX,
     .help = "Decodes on so many threads.",
     .fallback = "one for each processor"},
    {.next = options_of_shards},
};

/* Sources are shown by the page alone. 0 or an exit code. */
static int check_sources(struct report_request *request)
{
    struct decode_options *const options = &request->parsed.options;

    options->lines |= request->sources.root != NULL;
    options->source_root = request->sources.root;
    if (!options->lines)
        return 0;
    if (!request->page)
        return complain(EXIT_CODE_USAGE, "--lines and --sources are of --html; see vpt annotate");
    request->sources.frames_of = parsed_frames;
    request->sources.owner = options;
    return parsed_check_sources(&request->parsed);
}

/* 0 or an exit code. */
static int check_page(const struct report_request *request)
{
    if (request->between || request->report.by_count > 0 || request->report.form != FORM_TEXT)
        return complain(EXIT_CODE_USAGE, "--html has none of --between, --by, --json and --csv");
    if (request->parsed.shards.word || request->parsed.joins)
        return complain(EXIT_CODE_USAGE, "--html is made by one process: it has no pieces");
    return page_is_there()
               ? 0
               : complain(EXIT_CODE_HOST, "there is no --html: this vpt was built without npm");
}

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct report_request *request)
{
    int code;

    request->report.top = UINT32_MAX;
    code = options_parse(&command_report, argc, argv, request);
    if (code)
        return code;
    if (optind >= argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt report takes a trace; see vpt report --help");
    if (check_window(&request->parsed.options.window) != 0)
        return 1 + EXIT_CODE_USAGE;
    if (request->between && (request->report.by_count > 0 || request->report.form == FORM_CSV))
        return 1 + complain(EXIT_CODE_USAGE, "--between has neither --by nor --csv");
    if (request->report.filter.half != FILTER_BOTH && (request->between || request->page))
        return 1 + complain(EXIT_CODE_USAGE, "--only is for sums: neither --between nor --html");
    code = check_sources(request);
    if (!code && request->page)
        code = check_page(request);
    if (code)
        return 1 + code;
    request->parsed.filter.half = request->report.filter.half;
    request->report.filter = request->parsed.filter;
    if (request->report.top == UINT32_MAX)
        request->report.top = request->page                       ? TOP_OF_PAGE
                              : request->report.form == FORM_TEXT ? USUAL_TOP
                                                                  : 0;
    return 0;
}

/* ---- The report ---- */

static bool is_coloured(const struct report_options *options)
{
    const char *const no_color = getenv("NO_COLOR");

    return options->form == FORM_TEXT && isatty(STDOUT_FILENO) && !(no_color && *no_color);
}

/* A trace with errors has a report as well. */
static int report_files(struct report_request *request, char **files, size_t count)
{
    struct report report;
    struct reason why = {0};
    int code, error;

    if (!report_begin(&report))
        return no_memory();
    report_shows(&report, &request->report);
    request->parsed.options.format = &report_format;
    request->parsed.options.out = &report;
    request->report.is_coloured = is_coloured(&request->report);
    if (request->report.form == FORM_TEXT && !request->parsed.no_pager &&
        !request->parsed.shards.word)
        pager_begin();
    code = parsed_decode(&request->parsed, files, count);
    if ((code == EXIT_CODE_OK || request->parsed.options.errors > 0) &&
        !request->parsed.shards.word) {
        error = report_print(&report, &request->report, &why);
        code = error ? complain_of(error, &why) : code;
    }
    report_free(&report);
    return code;
}

/* ---- Between two points ---- */

static int show_between(const struct between *between, const struct report_options *options)
{
    const struct between_point *const missing = !between->from.is_seen ? &between->from
                                                : !between->to.is_seen ? &between->to
                                                                       : NULL;
    struct escaped room;

    if (missing)
        return complain(EXIT_CODE_FILE, "nothing ran at '%s'", escaped(missing->text, &room));
    return between_print(between, options) ? no_memory() : EXIT_CODE_OK;
}

static int decode_between(struct report_request *request, struct between *between, char **files,
                          size_t count)
{
    struct decode_options *const options = &request->parsed.options;
    int code, shown;

    options->format = &between_format;
    options->out = between;
    if (filter_is_set(&request->parsed.filter))
        options->filter = &request->parsed.filter;
    if (request->report.form == FORM_TEXT && !request->parsed.no_pager &&
        !request->parsed.shards.word)
        pager_begin();
    code = parsed_decode(&request->parsed, files, count);
    if (code != EXIT_CODE_OK && options->errors == 0)
        return code;
    shown = show_between(between, &request->report);
    return shown ? shown : code;
}

static int between_files(struct report_request *request, char **files, size_t count)
{
    struct between *const between = calloc(1, sizeof(*between));
    char *const points = strdup(request->between);
    int code = 0;

    if (!between || !points) {
        free(between);
        free(points);
        return no_memory();
    }
    if (!between_points(between, points))
        code = complain(EXIT_CODE_USAGE,
                        "--between takes two functions or addresses, FROM,TO, not '%s'",
                        request->between);
    if (!code)
        code = decode_between(request, between, files, count);
    between_free(between);
    free(between);
    free(points);
    return code;
}

/* ---- The page ---- */

static int decode_to_page(struct report_request *request, struct page *page, struct output *output,
                          char **files, size_t count)
{
    struct decode_options *const options = &request->parsed.options;
    struct reason why = {0};
    int code, error;

    options->output = output->rename_to;
    options->format = &page_format;
    options->out = page;
    if (filter_is_set(&request->parsed.filter))
        options->filter = &request->parsed.filter;
    code = parsed_decode(&request->parsed, files, count);
    if (code != EXIT_CODE_OK && options->errors == 0)
        return code;
    error = page_write(page, &request->report, output, &why);
    if (!error)
        error = output_close(output, &why);
    return error ? complain_of(error, &why) : code;
}

static int page_files(struct report_request *request, char **files, size_t count)
{
    struct page *const page = page_new(&request->report, &request->sources);
    struct output output = {0};
    struct reason why = {0};
    int code = page ? 0 : no_memory();

    if (!code)
        code = complain_of(output_open_beside(&output, request->page, &why), &why);
    if (!code)
        code = decode_to_page(request, page, &output, files, count);
    output_drop(&output);
    if (page)
        page_free(page);
    return code;
}

static int run(int argc, char **argv)
{
    struct report_request request = {0};
    int code = parsed_begin(&request.parsed);

    if (code)
        return code;
    code = shards_take_command(&request.parsed.shards, argc, argv) ? parse(argc, argv, &request)
                                                                   : 1 + no_memory();
    if (code)
        code--;
    else
        code = (request.page      ? page_files
                : request.between ? between_files
                                  : report_files)(&request, argv + optind, (size_t)(argc - optind));
    parsed_free(&request.parsed);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE,
     "A file cannot be read or written, nothing ran at a point of --between, or the trace "
     "holds errors: the report says which, and counts what could be decoded."},
    {EXIT_CODE_HOST, "This program was built without the page of --html; no memory."},
    {0},
};

const struct subcommand command_report = {
    .name = "report",
    .about = "say who ran in traces, in which functions, and for how long",
    .synopsis = "[OPTION...] TRACE...",
    .text = "Sums up traces: who ran (host, VM, process, thread), functions by instructions and "
            "by time, interrupts and exceptions, system calls, VM exits and what they cost, and "
            "what was lost. With --between, what ran between two points of the code. Traces and "
            "their code are named as for vpt decode: a raw Intel PT trace, several of them, or a "
            "perf.data.",
    .document = "report",
    .options = options_of_report,
    .exits = exits,
    .run = run,
};
