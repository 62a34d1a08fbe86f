/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces as the user names them, from their options to the output: one raw trace, several of them,
 * or a perf.data.
 */
#include "view/decode.h"
#include "view/raw.h"
#include "common/say.h"
#include "common/bytes.h"
#include "common/file.h"
#include "common/number.h"
#include "common/open.h"
#include "common/progress.h"
#include "cli/decode.h"
#include "cli/guard.h"
#include "cli/pager.h"
#include "cli/shards.h"
#include "cli/values.h"
#include "trace/code-files.h"
#include "trace/cpu.h"
#include "trace/sidecar.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Options ---- */

static int add_source(struct decode_options *options, struct code_source source)
{
    struct code_sources *const sources = &options->sources;
    struct code_source *const grown =
        reallocarray(sources->list, sources->count + 1, sizeof(*grown));

    if (!grown)
        return no_memory();
    sources->list = grown;
    grown[sources->count++] = source;
    options->have_images = true;
    return 0;
}

static int load_image(struct decode_options *options, const struct code_source *source)
{
    uint64_t bias;
    char *const path = split_bias(source->value, &bias);
    const struct file_name name = {.path = path, .by_user = true};
    struct reason why;
    int error;

    if (!path)
        return no_memory();
    error = code_files_add_elf(options->code.files, &name, bias, source->cr3, options->image, &why);
    free(path);
    return error ? complain(exit_code_of(error), "%s", why.text) : 0;
}

static int load_map(struct decode_options *options, const char *path)
{
    return map_load(path, options->code.files, options->image, &options->map)
               ? complain(EXIT_CODE_FILE, "%s", options->map.why.text)
               : 0;
}

/* A map that a trace came with: nobody vouches for it. */
static int load_map_of_trace(struct decode_options *options, const char *path)
{
    int code;

    options->map.is_of_trace = true;
    code = load_map(options, path);
    options->map.is_of_trace = false;
    return code;
}

/* The names of a capture: a map that TRACE.json of all traces names. 0 or an exit code. */
static int load_map_of(struct decode_options *options, const struct input *inputs, size_t count)
{
    char path[PATH_MAX] = "", other[PATH_MAX] = "";
    const struct file_name name = {.path = path};
    struct reason why;
    int fd;

    for (size_t i = 0; i < count; i++) {
        if (!sidecar_map(options->like ? options->like : inputs[i].name, other))
            return 0;
        if (i == 0)
            memcpy(path, other, sizeof(path));
        if (strcmp(path, other) != 0) {
            remark(say_remark, "the traces name several maps, and none is taken; see --map");
            return 0;
        }
    }
    if (count == 0)
        return 0;
    fd = open_named(&name, &why);
    if (fd < 0) {
        remark(say_remark, "there are no names: %s", why.text);
        return 0;
    }
    (void)close(fd);
    return load_map_of_trace(options, path);
}

/* What --image and --map name, each in its turn, else what the traces do. 0 or an exit code. */
static int load_sources(struct decode_options *options, const struct input *inputs, size_t count)
{
    int code = 0;

    if (options->sources.count == 0 && options->folder_map)
        return load_map_of_trace(options, options->folder_map);
    if (options->sources.count == 0)
        return load_map_of(options, inputs, count);

    for (size_t i = 0; !code && i < options->sources.count; i++) {
        const struct code_source *const source = &options->sources.list[i];

        code = source->is_map ? load_map(options, source->value) : load_image(options, source);
    }
    return code;
}

static int parse_mode(const char *text, struct decode_options *options)
{
    if (strcmp(text, "16") == 0)
        options->config.mode = PTD_MODE_16;
    else if (strcmp(text, "32") == 0)
        options->config.mode = PTD_MODE_32;
    else if (strcmp(text, "64") == 0)
        options->config.mode = PTD_MODE_64;
    else
        return complain(EXIT_CODE_USAGE, "--mode takes 16, 32 or 64, not '%s'", text);
    return 0;
}

static unsigned processors(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count < 1 ? 1 : count > (long)THREADS_MAX ? THREADS_MAX : (unsigned)count;
}

/* ---- The trace ---- */

/* RTIT is not decoded piece by piece. 0 or -errno. */
static int decode_rtit(struct decode_options *options, struct stream *stream)
{
    struct input *const input = stream->input;
    int error = input_take_all(input, &stream->packets);

    if (error)
        return reason_of_file(stream->why, error, input->name);
    stream->input = NULL;
    error = stream_decode(options, stream);
    bytes_free(&stream->packets);
    return error;
}

/* What options want of a trace that is another kind. 0 or an exit code. */
static int check_kind(const struct decode_options *options)
{
    if (!options->is_rtit)
        return 0;
    if (options->config.has_ip)
        return complain(EXIT_CODE_USAGE, "--start-ip: an RTIT trace says it by itself");
    if (options->have_resync)
        return complain(EXIT_CODE_USAGE, "--resync is of a PT trace, this is one of RTIT");
    if (options->view == VIEW_SUMMARY)
        return complain(EXIT_CODE_USAGE, "--summary is of a PT trace, this is one of RTIT");
    return 0;
}

/* A piece of it is nothing, and vpt merge decodes all of it. 0. */
static int cannot_cut(struct decode_options *options)
{
    options->shards->is_whole = true;
    output_drop(&options->shards->piece);
    if (!options->shards->word)
        options->shards = NULL;
    return 0;
}

/* name: where the trace's name stands for TRACE.json. */
static int decode_with_sidecar(struct decode_options *options, const char *name,
                               struct input *input)
{
    struct reason why = {0};
    struct raw raw;
    int code = complain_of(raw_open(options, name, input, &raw, &why), &why);

    if (!code)
        code = check_kind(options);
    if (!code && options->shards && !shards_can_cut(options, input))
        code = cannot_cut(options);
    else if (!code && options->shards)
        code = shards_check(options->shards);
    if (code || (options->shards && options->shards->is_whole))
        ;
    else if (options->view == VIEW_SUMMARY)
        code = complain_of(decode_summary(options, &raw.stream), &why);
    else if (options->is_rtit)
        code = complain_of(decode_rtit(options, &raw.stream), &why);
    else
        code = complain_of(stream_decode(options, &raw.stream), &why);
    raw_close(&raw);
    return code;
}

/* An option that a perf.data has no use for; NULL: none was given. */
static const char *raw_option(const struct decode_options *options)
{
    return options->config.has_ip          ? "--start-ip"
           : options->view == VIEW_SUMMARY ? "--summary"
           : options->is_rtit              ? "--rtit"
           : options->like                 ? "--like"
                                           : NULL;
}

const char *parsed_perf_option(const struct decode_options *options)
{
    return options->code.symfs      ? "--symfs"
           : options->code.vmlinux  ? "--vmlinux"
           : options->code.cache    ? "--buildid-dir"
           : options->code.jit_maps ? "--jit-maps"
           : options->code.raw      ? "--raw-code"
                                    : NULL;
}

static int decode_perf_data(struct decode_options *options, struct input *input)
{
    const char *const raw = raw_option(options);
    struct bytes bytes = {0};
    struct reason why = {0};
    int error;

    if (raw)
        return complain(EXIT_CODE_USAGE, "%s is for a raw trace, not for a perf.data", raw);
    if (options->shards && !shards_can_cut(options, NULL))
        (void)cannot_cut(options);
    if (options->shards)
        return 0;
    error = scratch_see(options->scratch, input, &bytes);
    if (error)
        return file_error(input->name, error);
    error = decode_perf(options, input->name, &bytes, &why);
    return complain_of(error, &why);
}

void parsed_allow_perf_data(const struct decode_options *options, struct sandbox *sandbox)
{
    const struct code_options *const code = &options->code;
    const struct debug_places *const debug = &options->debug;
    char folder[PATH_MAX];

    sandbox_allow(sandbox, code->symfs ? code->symfs : "/");
    sandbox_allow(sandbox, code->vmlinux);
    sandbox_allow(sandbox, code->kcore);
    sandbox_allow(sandbox, code->cache);
    sandbox_allow(sandbox, code->jit_maps);
    sandbox_allow(sandbox, debug->folder ? debug->folder : DEBUG_FOLDER);
    sandbox_allow(sandbox, debug->cache);
    if (!options->folder_map) /* and what it names beside it */
        return;
    beside(options->folder_map, ".", folder, sizeof(folder));
    sandbox_allow(sandbox, folder);
}

/* Servers are asked by a process that keeps its rights. 0 or an exit code. */
static int start_debuginfod(struct decode_options *options)
{
    const char *const urls = options->debuginfod ? options->debuginfod : getenv("DEBUGINFOD_URLS");
    struct reason why;
    int error = 0;

    if (urls && urls[0])
        error = debuginfod_start(urls, &options->debug.server, &why);
    return error ? complain(exit_code_of(error), "%s", why.text) : 0;
}

/*
 * From here on, files that somebody else wrote are parsed. TRACE.json and a map name files
 * anywhere. 0 or an exit code.
 */
static int give_up_rights(struct decode_options *options, bool is_perf_data)
{
    struct sandbox sandbox = {0};
    const int code = start_debuginfod(options);

    if (code)
        return code;

    if (is_perf_data)
        parsed_allow_perf_data(options, &sandbox);
    else
        sandbox_allow(&sandbox, "/");
    if (options->shards && options->shards->word)
        sandbox_allow_folder(&sandbox, options->shards->folder);
    else if (options->shards)
        sandbox_allow(&sandbox, options->shards->folder);
    for (size_t i = 0; i < options->sources.count; i++) {
        const struct code_source *const source = &options->sources.list[i];
        uint64_t bias;
        char *const path = source->is_map ? strdup("/") : split_bias(source->value, &bias);

        sandbox_allow(&sandbox, path);
        free(path);
    }
    sandbox_allow(&sandbox, options->source_root);
    if (options->output)
        sandbox_allow_output(&sandbox, options->output);
    return guard_enter(&sandbox, options->no_sandbox);
}

static int decode_either(struct decode_options *options, const char *file, struct input *input,
                         bool is_perf_data)
{
    int code;

    if (!is_perf_data && parsed_perf_option(options))
        return complain(EXIT_CODE_USAGE, "%s is for a perf.data, not for a raw trace",
                        parsed_perf_option(options));
    options->scratch = is_perf_data ? scratch_new() : NULL;
    code = give_up_rights(options, is_perf_data);
    if (!code)
        code = load_sources(options, input, is_perf_data ? 0 : 1);
    if (!code)
        code = is_perf_data
                   ? decode_perf_data(options, input)
                   : decode_with_sidecar(options, options->like ? options->like : file, input);
    scratch_free(options->scratch);
    options->scratch = NULL;
    return code;
}

/* Errors of the trace are in the piece, and vpt merge says them. */
static bool is_piece(const struct decode_options *options)
{
    return options->shards && options->shards->word;
}

/* A format whose object is not there already. */
static bool needs_output(const struct decode_options *options)
{
    return options->format && !options->out;
}

static int decode_input(struct decode_options *options, const char *file)
{
    struct input input;
    bool is_perf_data;
    int error = input_open(&input, file), code;

    if (!error)
        progress_begin("decoding", input_size(&input),
                       options->view == VIEW_SUMMARY ? PROGRESS_ALONE : PROGRESS_BESIDE_LINES);
    if (!error)
        error = input_is_perf_data(&input, &is_perf_data);
    if (!error && needs_output(options) && !(options->out = options->format->open(stdout)))
        error = -ENOMEM;
    if (error)
        code = file_error(input.name, error);
    else
        code = decode_either(options, file, &input, is_perf_data);
    progress_end();
    if (options->format && options->out && !options->format->close(options->out) && !code)
        code = no_memory();
    if (!code && !is_piece(options))
        note_window(&options->window, options->is_reached, input.name);
    if (!code && options->errors && !is_piece(options))
        code = complain(EXIT_CODE_FILE, "%s: %" PRIu64 " errors", input.name, options->errors);
    input_close(&input);
    return code;
}

int parsed_locate(struct decode_options *options, const char *file,
                  int (*then)(void *owner, const char *file), void *owner)
{
    struct perf_data_place place;
    struct reason why;
    int code = perf_data_locate(file, &place, &why);

    if (code)
        return complain(exit_code_of(code), "%s", why.text);
    options->code.kcore = place.kcore;
    if (!options->code.cache)
        options->code.cache = place.files;
    options->folder_map = place.map;
    code = then(owner, place.file);
    options->code.kcore = options->folder_map = NULL;
    perf_data_place_free(&place);
    return code;
}

static int decode_located(void *owner, const char *file)
{
    return decode_input(owner, file);
}

static int decode_file(struct decode_options *options, const char *file)
{
    return parsed_locate(options, file, decode_located, options);
}

/* ---- Several traces ---- */

/* Options that are of one trace. 0 or an exit code. */
static int check_several(const struct decode_options *options)
{
    const char *const one = options->view == VIEW_SUMMARY ? "--summary"
                            : options->like               ? "--like"
                            : options->is_rtit            ? "--rtit"
                            : options->config.has_ip      ? "--start-ip"
                                                          : NULL;

    if (one)
        return complain(EXIT_CODE_USAGE, "%s is of one trace", one);
    if (options->window.from.kind == BOUND_OFFSET || options->window.to.kind == BOUND_OFFSET)
        return complain(EXIT_CODE_USAGE, "an offset is of one trace; take tsc:TICKS");
    if (parsed_perf_option(options))
        return complain(EXIT_CODE_USAGE, "%s is for a perf.data", parsed_perf_option(options));
    return 0;
}

/* How many were opened, all of them if *code is 0. */
static size_t open_several(struct input *inputs, char **files, size_t count, int *code)
{
    size_t opened = 0;

    *code = 0;
    for (; !*code && opened < count; opened++) {
        struct input *const input = &inputs[opened];
        bool is_perf_data = false;
        int error = input_open(input, files[opened]);

        if (!error)
            error = input_is_perf_data(input, &is_perf_data);
        if (strcmp(files[opened], "-") == 0)
            *code = complain(EXIT_CODE_USAGE, "standard input has no TRACE.json, and is alone");
        else if (error)
            *code = file_error(input->name, error);
        else if (is_perf_data)
            *code = complain(EXIT_CODE_USAGE, "%s: a perf.data has all processors, and is alone",
                             input->name);
    }
    return opened;
}

static int decode_inputs(struct decode_options *options, struct input *inputs, size_t count)
{
    struct reason why = {0};
    uint64_t bytes = 0;
    int code = give_up_rights(options, false);

    if (!code)
        code = load_sources(options, inputs, count);
    for (size_t i = 0; i < count; i++)
        bytes += input_size(&inputs[i]);
    progress_begin("decoding", bytes, PROGRESS_BESIDE_LINES);
    if (!code && needs_output(options) && !options->format->merges &&
        !(options->out = options->format->open(stdout)))
        code = no_memory();
    if (!code)
        code = complain_of(decode_raws(options, inputs, count, &why), &why);
    progress_end();
    if (options->out && !options->format->close(options->out) && !code)
        code = no_memory();
    if (!code)
        note_window(&options->window, options->is_reached, inputs[0].name);
    if (!code && options->errors)
        code = complain(EXIT_CODE_FILE, "%" PRIu64 " errors in %zu traces", options->errors, count);
    return code;
}

static int decode_several(struct decode_options *options, char **files, size_t count)
{
    struct input *const inputs = calloc(count, sizeof(*inputs));
    int code = check_several(options);
    size_t opened = 0;

    if (!inputs)
        return no_memory();
    if (!code)
        opened = open_several(inputs, files, count, &code);
    if (!code)
        code = decode_inputs(options, inputs, count);
    while (opened > 0)
        input_close(&inputs[--opened]);
    free(inputs);
    return code;
}

/* ---- The tables ---- */

static int take_image(void *parsed, const char *value)
{
    struct parsed *const all = parsed;

    return add_source(&all->options, (struct code_source){.value = value, .cr3 = all->cr3});
}

static int take_map(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    return add_source(options, (struct code_source){.value = value, .is_map = true});
}

static int take_mode(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    options->have_mode = true;
    return parse_mode(value, options);
}

static int take_no_sync(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    (void)value;
    options->config.at_start = true;
    return 0;
}

static int take_cpu(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    options->have_cpu = true;
    return parse_cpu(value, '/', &options->config)
               ? 0
               : complain(EXIT_CODE_USAGE, "--cpu takes FAMILY/MODEL, not '%s'", value);
}

static const char *resync_word(size_t index)
{
    static const char *const words[] = {[PTD_RESYNC_PSB] = "psb", [PTD_RESYNC_IP] = "ip"};

    return index < sizeof(words) / sizeof(words[0]) ? words[index] : NULL;
}

static int take_resync(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    options->have_resync = true;
    for (uint8_t i = 0; resync_word(i); i++) {
        options->resync = i;
        if (strcmp(value, resync_word(i)) == 0)
            return 0;
    }
    return complain(EXIT_CODE_USAGE, "--resync takes psb or ip, not '%s'", value);
}

static int take_start_ip(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    const int code = option_number("--start-ip", value, &options->config.ip);

    options->config.at_start = options->config.has_ip = true;
    options->config.last_ip = options->config.ip;
    return code;
}

static int take_start_cr3(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    return option_number("--start-cr3", value, &options->config.cr3);
}

static int take_start_vmcs(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    options->config.nr = true;
    return option_number("--start-vmcs", value, &options->config.vmcs);
}

static int take_from(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    return option_bound("--from", value, &options->window.from);
}

static int take_to(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;

    return option_bound("--to", value, &options->window.to);
}

static int take_max_code(void *parsed, const char *value)
{
    struct decode_options *const options = &((struct parsed *)parsed)->options;
    const char *end;

    if (parse_bytes(value, 10, UINT64_MAX, &end, &options->max_code) && !*end)
        return 0;
    return complain(EXIT_CODE_USAGE,
                    "--max-code takes a number of bytes, or K, M or G of them, "
                    "not '%s'",
                    value);
}

const struct option_row options_of_perf_data[] = {
    {.name = "symfs",
     .value = "DIR",
     .group = "Code of a perf.data",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, options.code.symfs),
     .help = "The folder that holds the files which the perf.data names.",
     .fallback = "/"},
    {.name = "vmlinux",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, options.code.vmlinux),
     .help = "The kernel that ran, with its code."},
    {.name = "buildid-dir",
     .value = "DIR",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, options.code.cache),
     .help = "perf's copies of files.",
     .fallback = "~/.debug"},
    {.name = "raw-code",
     .value = "PATH",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, options.code.raw),
     .help = "A mapped file with this name, or beneath this folder, is code byte for byte if it is "
             "no ELF file. Without it, only ELF files are code: a perf.data may name any file."},
    {.name = "no-sandbox",
     .group = "Safety",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parsed, options.no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

const struct option_row options_of_traces[] = {
    {.name = "from",
     .value = "WHERE",
     .group = "Which part",
     .kind = OPTION_CALL,
     .take = take_from,
     .help = "Leaves out what comes before. WHERE is an offset in bytes, tsc:TICKS, or of a "
             "perf.data time:SECONDS as perf prints them."},
    {.name = "to",
     .value = "WHERE",
     .kind = OPTION_CALL,
     .take = take_to,
     .help = "Stops in front of it."},
    {.name = "no-sync",
     .kind = OPTION_CALL,
     .take = take_no_sync,
     .help = "Begins at the first byte instead of the first PSB."},
    {.name = "start-ip",
     .value = "IP",
     .kind = OPTION_CALL,
     .take = take_start_ip,
     .help = "Begins at the first byte, in the middle of the flow: the next instruction is at IP."},
    {.name = "start-cr3",
     .value = "CR3",
     .kind = OPTION_CALL,
     .take = take_start_cr3,
     .help = "The address space at the begin."},
    {.name = "start-vmcs",
     .value = "VMCS",
     .kind = OPTION_CALL,
     .take = take_start_vmcs,
     .help = "A guest runs at the begin, with this VMCS."},
    {.name = "mode",
     .value = "16|32|64",
     .kind = OPTION_CALL,
     .take = take_mode,
     .help = "The width of code until the trace says otherwise.",
     .fallback = "as TRACE.json says, else 64"},
    {.name = "image",
     .value = "ELF[@BIAS]",
     .group = "Code and clocks",
     .kind = OPTION_CALL,
     .take = take_image,
     .help = "Adds code and symbols, for the address space of the last --cr3. BIAS is how far "
             "above the addresses that it was linked for the code ran.",
     .fallback = "as TRACE.json says"},
    {.name = "cr3",
     .value = "VALUE",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct parsed, cr3),
     .help = "The CR3 of the --image options that follow.",
     .fallback = "all"},
    {.name = "like",
     .value = "TRACE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, options.like),
     .help = "Takes code and clocks from TRACE.json of another trace."},
    {.name = "map",
     .value = "MAP",
     .kind = OPTION_CALL,
     .take = take_map,
     .help = "Takes code and names of a host and its guests from this file (docs/decoder.md)."},
    {.name = "max-code",
     .value = "SIZE",
     .kind = OPTION_CALL,
     .take = take_max_code,
     .help = "Keeps at most SIZE bytes of code and names in memory.",
     .fallback = "1G"},
    {.name = "cpu",
     .value = "FAMILY/MODEL",
     .kind = OPTION_CALL,
     .take = take_cpu,
     .help = "Tolerates that processor's errata.",
     .fallback = "as TRACE.json or the perf.data says"},
    {.name = "resync",
     .value = "psb|ip",
     .kind = OPTION_CALL,
     .take = take_resync,
     .word = resync_word,
     .help = "Goes on at the next PSB after code that is missing, or at the next packet that says "
             "an IP. Between the two, ip tells what psb loses, but it is wrong if the processor "
             "defers TIPs.",
     .fallback = "ip if TRACE.json, the perf.data or --cpu names a processor that is known not to "
                 "defer them, else psb"},
    {.name = "rtit",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parsed, options.is_rtit),
     .help = "The trace is one of RTIT, the trace of Silvermont.",
     .fallback = "as TRACE.json says"},
    {.name = "cycle-acc",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parsed, options.rtit.cycle_acc),
     .help = "Of RTIT: RTIT_CTL.Cycle_Acc was 1, so cycle counts stand behind packets.",
     .fallback = "as TRACE.json says"},
    {.name = "debug-dir",
     .value = "DIR",
     .group = "Names of functions",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, options.debug.folder),
     .help = "The folder with debug files, by build id or by the name in .gnu_debuglink.",
     .fallback = DEBUG_FOLDER},
    {.name = "debuginfod",
     .value = "URLS",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, options.debuginfod),
     .help =
         "Asks these servers for debug files that are not here, by debuginfod-find of elfutils; "
         "'' asks none.",
     .fallback = "as the variable DEBUGINFOD_URLS says"},
    {.name = "no-demangle",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parsed, options.no_demangle),
     .help = "Shows names of C++ and Rust as linkers know them."},
    {.name = "jit-maps",
     .value = "DIR",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, options.code.jit_maps),
     .help = "Takes names of code that processes made from DIR/perf-PID.map."},
    {.name = "no-pager",
     .group = "Terminal",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parsed, no_pager),
     .help = NO_PAGER_HELP,
     .fallback = "less, if it is there"},
    {.next = options_of_perf_data},
};

/* A number of a process or a processor. */
static int take_small(const char *option, const char *value, bool *has, uint64_t *number)
{
    const int code = option_number(option, value, number);

    *has = true;
    return !code && *number > INT32_MAX
               ? complain(EXIT_CODE_USAGE, "%s takes a number below 2^31, not '%s'", option, value)
               : code;
}

static int take_pid(void *parsed, const char *value)
{
    struct filter *const filter = &((struct parsed *)parsed)->filter;
    uint64_t number = 0;
    const int code = take_small("--pid", value, &filter->has_pid, &number);

    filter->pid = (uint32_t)number;
    return code;
}

static int take_processor(void *parsed, const char *value)
{
    struct filter *const filter = &((struct parsed *)parsed)->filter;
    uint64_t number = 0;
    const int code = take_small("--processor", value, &filter->has_cpu, &number);

    filter->cpu = (int)number;
    return code;
}

const struct option_row options_of_who[] = {
    {.name = "vm",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, filter.vm),
     .help = "Only what ran in VMs of this name, which may have * and ? in it; host is the host."},
    {.name = "process",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, filter.process),
     .help = "Only processes of this name, in the same way."},
    {.name = "pid",
     .value = "PID",
     .kind = OPTION_CALL,
     .take = take_pid,
     .help = "Only this process."},
    {.name = "processor",
     .value = "N",
     .kind = OPTION_CALL,
     .take = take_processor,
     .help = "Only what ran on this processor."},
    {.next = options_of_traces},
};

const struct option_row options_of_filters[] = {
    {.name = "symbol",
     .value = "NAME",
     .group = "Who and what",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, filter.symbol),
     .help = "Only functions of this name, which may have * and ? in it."},
    {.next = options_of_who},
};

const struct option_row options_of_shards[] = {
    {.name = "shard",
     .value = "I/N",
     .group = "Many machines",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, shards.word),
     .help = "Decodes piece I of N of a raw trace into a file, which vpt merge puts together with "
             "the others (docs/shards.md)."},
    {.name = "shards",
     .value = "FOLDER",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parsed, shards.folder),
     .help = "Where the pieces are.",
     .fallback = "TRACE.shards"},
    /* What vpt merge adds. */
    {.name = "join", .kind = OPTION_FLAG, .offset = offsetof(struct parsed, joins)},
    {.name = "repeat", .kind = OPTION_FLAG, .offset = offsetof(struct parsed, shards.repeats)},
    {.next = options_of_filters},
};

int parsed_begin(struct parsed *parsed)
{
    *parsed = (struct parsed){.options = {.config.mode = PTD_MODE_64,
                                          .image = ptd_image_new(),
                                          .code.remark = say_remark,
                                          .max_code = CODE_BYTES_MAX},
                              .cr3 = PTD_ANY_CR3};
    return parsed->options.image ? 0 : no_memory();
}

bool parsed_find_copies(struct parsed *parsed)
{
    struct decode_options *const options = &parsed->options;
    const char *const home = getenv("HOME");

    if (!options->code.cache && home && asprintf(&parsed->cache, "%s/.debug", home) < 0)
        return false;
    options->debug.cache = options->code.cache ? options->code.cache : parsed->cache;
    return true;
}

/* Where names are looked for, and how they are shown. False: no memory. */
static bool prepare_names(struct parsed *parsed)
{
    struct decode_options *const options = &parsed->options;

    if (!parsed_find_copies(parsed))
        return false;
    options->debug.remark = say_remark;
    options->names = options->no_demangle ? NULL : shown_names_new();
    return options->names || options->no_demangle;
}

int parsed_check_sources(const struct parsed *parsed)
{
    const struct decode_options *const options = &parsed->options;

    if ((options->lines || options->inlined) && !dwarf_is_there())
        return complain(EXIT_CODE_HOST, "--lines, --inline: this vpt was built without libdw");
    return 0;
}

size_t parsed_frames(void *owner, const struct ptd_image *image, uint64_t cr3, uint64_t ip,
                     struct source_frame frames[FRAMES_MAX])
{
    const struct decode_options *const options = owner;

    return code_files_sources(options->code.files, image, cr3, ip, frames);
}

int parsed_decode(struct parsed *parsed, char **files, size_t count)
{
    struct decode_options *const options = &parsed->options;
    int code = shards_begin(parsed, files[0]);

    if (code)
        return code;
    if (options->shards && count > 1 && !shards_can_cut(options, NULL))
        (void)cannot_cut(options);
    if (is_piece(options) && count > 1)
        return 0;
    if (!options->threads)
        options->threads = processors();
    options->code.files = code_files_new(options->max_code);
    if (!options->code.files || !prepare_names(parsed))
        return no_memory();
    code_files_complete(options->code.files, &options->debug);
    if ((options->lines || options->inlined) && !code_files_keep_sources(options->code.files))
        return no_memory();
    code = count < 2 ? decode_file(options, files[0]) : decode_several(options, files, count);
    return is_piece(options) ? shards_end(&parsed->shards, code) : code;
}

void parsed_free(struct parsed *parsed)
{
    shown_names_free(parsed->options.names);
    ptd_image_free(parsed->options.image);
    map_free(&parsed->options.map);
    code_files_free(parsed->options.code.files);
    debuginfod_stop(parsed->options.debug.server);
    output_drop(&parsed->shards.piece);
    free(parsed->shards.command);
    free(parsed->shards_folder);
    free(parsed->cache);
    free(parsed->options.sources.list);
}
