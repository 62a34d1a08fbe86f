/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt coverage: how often each source line ran, for lcov and genhtml, or which blocks did (drcov).
 */
#include "cli/commands.h"
#include "cli/decode.h"
#include "cli/values.h"
#include "common/say.h"
#include "report/annotator.h"
#include "report/drcov.h"
#include "report/lcov.h"
#include "trace/code-files.h"

#include <getopt.h>
#include <stdio.h>

/* What is parsed; first what the shared table of options fills in. */
struct coverage_request {
    struct parsed parsed;
    struct report_options who; /* who counts */
    const char *drcov;         /* where it goes; NULL: lines are written */
};

static const struct option_row options_of_coverage[] = {
    {.name = "drcov",
     .value = "FILE",
     .group = "What is written",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct coverage_request, drcov),
     .help = "Writes which blocks of code ran, by module, as a drcov file, and prints nothing. It "
             "needs no debug information."},
    {.name = "threads",
     .value = "N",
     .group = "How it is done",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct coverage_request, parsed.options.threads),
     .min = 1,
     .max = THREADS_MAX,
     .help = "Decodes on so many threads.",
     .fallback = "one for each processor"},
    {.next = options_of_who},
};

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct coverage_request *request)
{
    const int code = options_parse(&command_coverage, argc, argv, request);

    if (code)
        return code;
    if (optind >= argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt coverage takes a trace; see vpt coverage --help");
    if (check_window(&request->parsed.options.window) != 0)
        return 1 + EXIT_CODE_USAGE;
    if (!request->drcov && !dwarf_is_there())
        return 1 + complain(EXIT_CODE_HOST, "vpt coverage: this vpt was built without libdw");
    request->who.filter = request->parsed.filter;
    request->parsed.options.lines = !request->drcov;
    return 0;
}

/* An exit code. */
static int write_out(const struct annotate *counts)
{
    size_t lines;

    if (lcov_write(counts, &lines) != 0)
        return no_memory();
    if (fflush(stdout) != 0)
        return complain(EXIT_CODE_FILE, "standard output cannot be written");
    if (lines == 0)
        return complain(EXIT_CODE_FILE, "no debug information tells the lines of what ran");
    if (counts->is_cut)
        say_remark("more code ran than is counted: what is written is not all");
    return EXIT_CODE_OK;
}

/* A trace with errors has coverage as well. */
static int cover_files(struct coverage_request *request, char **files, size_t count)
{
    struct annotator annotator;
    int code, written;

    if (!annotator_begin(&annotator, NULL, &request->who))
        return no_memory();
    request->parsed.options.format = &report_format;
    request->parsed.options.out = &annotator.report;
    annotator.lines.frames_owner = &request->parsed.options;
    annotator.lines.frames_of = parsed_frames;
    code = parsed_decode(&request->parsed, files, count);
    if (code == EXIT_CODE_OK || request->parsed.options.errors > 0) {
        written = write_out(&annotator.lines);
        code = written ? written : code;
    }
    annotator_free(&annotator);
    return code;
}

/* ---- drcov ---- */

#define REGION_BYTES (UINT64_C(1) << 31) /* of code that is in no file: offsets have 32 bits */

/* Code of no file here is a module by what it is called, and a region of addresses. */
static bool module_of(void *owner, const struct ptd_image *image, uint64_t cr3, uint64_t ip,
                      struct drcov_module *module)
{
    const struct decode_options *const options = owner;
    struct code_module file;
    const char *name;

    if (code_files_module_at(options->code.files, image, cr3, ip, &file) &&
        ip - file.base < UINT32_MAX - REGION_BYTES) {
        *module = (struct drcov_module){file.path, file.base, file.end};
        return true;
    }
    name = code_files_file_at(options->code.files, image, cr3, ip);
    *module = (struct drcov_module){name ? name : "[unknown]", ip & ~(REGION_BYTES - 1), 0};
    return true;
}

/* An exit code. */
static int write_drcov(const struct drcov *drcov, struct output *output)
{
    struct reason why = {0};
    size_t count;
    int error = drcov_write(drcov, output, &count, &why);

    if (!error)
        error = output_close(output, &why);
    if (error)
        return complain_of(error, &why);
    if (count == 0)
        return complain(EXIT_CODE_FILE, "nothing ran that counts");
    if (drcov->is_cut)
        say_remark("more code ran than is counted: what is written is not all");
    return EXIT_CODE_OK;
}

static int cover_blocks(struct coverage_request *request, struct output *output, char **files,
                        size_t count)
{
    struct decode_options *const options = &request->parsed.options;
    struct drcov blocks = {.module_of = module_of, .owner = options};
    struct annotator annotator;
    int code, written;

    if (!annotator_begin(&annotator, NULL, &request->who))
        return no_memory();
    annotator.blocks = &blocks;
    options->output = output->rename_to;
    options->format = &report_format;
    options->out = &annotator.report;
    code = parsed_decode(&request->parsed, files, count);
    if (code == EXIT_CODE_OK || options->errors > 0) {
        written = write_drcov(&blocks, output);
        code = written ? written : code;
    }
    annotator_free(&annotator);
    drcov_free(&blocks);
    return code;
}

static int blocks_of_files(struct coverage_request *request, char **files, size_t count)
{
    struct output output = {0};
    struct reason why = {0};
    int code = complain_of(output_open_beside(&output, request->drcov, &why), &why);

    if (!code)
        code = cover_blocks(request, &output, files, count);
    output_drop(&output);
    return code;
}

static int run(int argc, char **argv)
{
    struct coverage_request request = {0};
    int code = parsed_begin(&request.parsed);

    if (code)
        return code;
    code = parse(argc, argv, &request);
    code = code ? code - 1
                : (request.drcov ? blocks_of_files : cover_files)(&request, argv + optind,
                                                                  (size_t)(argc - optind));
    parsed_free(&request.parsed);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file cannot be read or written, no debug information tells a line, nothing "
                     "ran, or the trace holds errors: then what could be decoded is counted."},
    {0},
};

const struct subcommand command_coverage = {
    .name = "coverage",
    .about = "count how often each source line ran, for lcov, or which blocks, for drcov",
    .synopsis = "[OPTION...] TRACE...",
    .text = "Writes how often each source line and each function ran to standard output, as lcov "
            "and genhtml read it. Lines come from debug information (DWARF). The program that was "
            "traced needs no other compiler options. Functions of which nothing ran are left out. "
            "With --drcov, writes a drcov file instead, of blocks of code by module. "
            "Traces and their code are named as for vpt decode.",
    .options = options_of_coverage,
    .exits = exits,
    .run = run,
};
