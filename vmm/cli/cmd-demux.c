/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt demux: from a trace of a host and its guests to one trace a virtual processor.
 */
#include "cli/commands.h"
#include "cli/decode.h"
#include "cli/demux-perf.h"
#include "cli/guard.h"
#include "cli/values.h"
#include "common/file.h"
#include "common/json.h"
#include "common/progress.h"
#include "common/say.h"
#include "demux/files.h"
#include "trace/code-files.h"
#include "trace/input.h"
#include "trace/mapfile.h"
#include "trace/sidecar.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_TOLD    UINT64_MAX
#define STEPS_A_RUN 4096u

/* What the program decides by itself, or what no trace of a host can tell. */
#define CTL_OURS                                                                                   \
    (VPT_CTL_TRACEEN | VPT_CTL_TOPA | VPT_CTL_FABRICEN | VPT_CTL_PWREVTEN | VPT_CTL_EVENTEN |      \
     VPT_CTL_CYCEN | VPT_CTL_INJECT_PSB_PMI | VPT_CTL_CR3FILTER)
#define CTL_TIME    (VPT_CTL_TSCEN | VPT_CTL_MTCEN)
#define CTL_DEFAULT (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

struct demux_options {
    struct parsed parsed; /* first, for its options; the code, the map */
    const char *map_path, *out, *vm, *profile;
    uint64_t ctl, cr3_filter;
    bool user_only, kernel_only, no_time, hide_cr3, json;
    unsigned ranges;
    struct tenant_config config;
    struct ptd_time_config clocks;
    struct demux_files outputs;
};

static int take_range(struct demux_options *options, const char *value, uint64_t kind)
{
    uint64_t *const range = options->config.range[options->ranges % VPT_MAX_RANGES];
    char *end;

    if (options->ranges == VPT_MAX_RANGES)
        return complain(EXIT_CODE_USAGE, "a processor has at most %u ranges", VPT_MAX_RANGES);
    errno = 0;
    range[0] = strtoull(value, &end, 0);
    if (end == value || *end != '-' || errno)
        return complain(EXIT_CODE_USAGE, "a range is FIRST-LAST, not '%s'", value);
    value = end + 1;
    range[1] = strtoull(value, &end, 0);
    if (end == value || *end || errno || range[1] < range[0])
        return complain(EXIT_CODE_USAGE, "a range is FIRST-LAST, and does not end at '%s'", value);
    options->config.ctl |= kind << (VPT_CTL_ADDR_CFG_SHR + 4 * options->ranges);
    options->ranges++;
    return 0;
}

static int take_filter(void *options, const char *value)
{
    return take_range(options, value, VPT_ADDR_CFG_FILTER);
}

static int take_stop(void *options, const char *value)
{
    return take_range(options, value, VPT_ADDR_CFG_TRACESTOP);
}

static const struct option_row options_of_demux[] = {
    {.name = "out",
     .letter = 'o',
     .value = "FOLDER",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct demux_options, out),
     .help = "Writes FOLDER/V.C for the virtual processor C of VM V, with V.C.json and V.C.code "
             "beside it. The folder is made if it is not there."},
    {.name = "map",
     .value = "MAP",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct demux_options, map_path),
     .help = "Takes code, VMs and their clocks from this file (docs/decoder.md).",
     .fallback = "as TRACE.json or the folder of vpt record says"},
    {.name = "like",
     .value = "TRACE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct demux_options, parsed.options.like),
     .help = "Takes code and clocks from TRACE.json of another trace."},
    {.name = "vm",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct demux_options, vm),
     .help = "Only the VM that the map calls so.",
     .fallback = "all"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct demux_options, json),
     .help =
         "Prints one JSON object: a member of \"traces\" for each trace that was made, and what "
         "is in none."},
    {.name = "profile",
     .value = "NAME",
     .group = "How the guest traces itself",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct demux_options, profile),
     .word = profile_word,
     .help = "The processor of the guest; see vpt profiles.",
     .fallback = "plain"},
    {.name = "ctl",
     .value = "VALUE",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct demux_options, ctl),
     .help = "IA32_RTIT_CTL. TraceEn, the output and the ranges are set as needed.",
     .fallback = "OS, User, BranchEn, and TSCEn where the guest's TSC is known"},
    {.name = "no-time",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct demux_options, no_time),
     .help = "Clears TSCEn and MTCEn."},
    {.name = "user",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct demux_options, user_only),
     .help = "Clears OS: only user code. CPL is told by addresses, as the map knows the kernel's."},
    {.name = "kernel",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct demux_options, kernel_only),
     .help = "Clears User: only the kernel."},
    {.name = "cr3",
     .value = "VALUE",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct demux_options, cr3_filter),
     .help = "Only this address space of the guest: CR3Filter and CR3_MATCH."},
    {.name = "filter",
     .value = "FIRST-LAST",
     .kind = OPTION_CALL,
     .take = take_filter,
     .help = "Only these addresses, up to four times with --stop."},
    {.name = "stop",
     .value = "FIRST-LAST",
     .kind = OPTION_CALL,
     .take = take_stop,
     .help = "A TraceStop range: the trace ends where it is entered."},
    {.name = "hide-cr3",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct demux_options, hide_cr3),
     .help = "Tells CR3 as 0. It is needed where the host runs the guest without EPT, since CR3 is "
             "the host's there."},
    {.next = options_of_perf_data},
};

/* ---- What is asked for ---- */

static int check_ctl(struct demux_options *options)
{
    uint64_t ctl = options->ctl == NOT_TOLD ? CTL_DEFAULT | VPT_CTL_TSCEN : options->ctl;

    if (options->ctl != NOT_TOLD && (ctl & CTL_OURS & ~(VPT_CTL_TRACEEN | VPT_CTL_TOPA)))
        return complain(EXIT_CODE_USAGE,
                        "--ctl %#" PRIx64 ": CYCEn, PwrEvtEn, FabricEn, EventEn and InjectPsbPmi "
                        "are not possible, and CR3Filter is --cr3",
                        ctl);
    if (options->user_only && options->kernel_only)
        return complain(EXIT_CODE_USAGE, "--user and --kernel leave nothing");
    if (options->ctl != NOT_TOLD && (ctl >> VPT_CTL_ADDR_CFG_SHR & 0xffff))
        return complain(EXIT_CODE_USAGE, "--ctl: ranges are --filter and --stop");
    if (options->user_only)
        ctl &= ~VPT_CTL_OS;
    if (options->kernel_only)
        ctl &= ~VPT_CTL_USER;
    if (options->no_time)
        ctl &= ~CTL_TIME;
    if (options->cr3_filter != NOT_TOLD)
        ctl |= VPT_CTL_CR3FILTER;
    if (options->cr3_filter != NOT_TOLD && options->hide_cr3)
        return complain(EXIT_CODE_USAGE, "--cr3 needs a CR3 that --hide-cr3 leaves out");
    options->config.ctl |= ctl & ~(VPT_CTL_TRACEEN | VPT_CTL_TOPA);
    options->config.cr3_match = options->cr3_filter == NOT_TOLD ? 0 : options->cr3_filter;
    options->config.hides_cr3 = options->hide_cr3;
    return 0;
}

static int check_profile(struct demux_options *options)
{
    const char *wrong;

    if (!options->profile)
        options->profile = "plain";
    if (!vpt_profile(options->profile, &options->config.caps))
        return no_such("profile", options->profile, profile_word, "vpt profiles");
    options->config.caps.vmx_misc_pt = true; /* as every processor that traces its guests has it */
    wrong = vpt_caps_check(&options->config.caps);
    return wrong ? complain(EXIT_CODE_USAGE, "--profile %s: %s", options->profile, wrong) : 0;
}

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct demux_options *options)
{
    int code = options_parse(&command_demux, argc, argv, options);

    if (code)
        return code;
    if (optind + 1 != argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt demux takes one trace; see vpt demux --help");
    if (!options->out)
        return 1 + complain(EXIT_CODE_USAGE, "vpt demux needs --out FOLDER");
    code = check_ctl(options);
    if (!code)
        code = check_profile(options);
    return code ? code + 1 : 0;
}

/* ---- What the trace is of ---- */

static int give_up_rights(const struct demux_options *options, const char *file)
{
    struct sandbox sandbox = {0};

    sandbox_allow(&sandbox, "/"); /* TRACE.json and a map name files anywhere */
    sandbox_allow_folder(&sandbox, options->out);
    guard_allow_sidecar(&sandbox, file);
    return guard_enter(&sandbox, options->parsed.options.no_sandbox);
}

static int load_map(struct demux_options *options, const char *path)
{
    struct decode_options *const decode = &options->parsed.options;

    return map_load(path, decode->code.files, decode->image, &decode->map) == 0
               ? 0
               : complain(EXIT_CODE_FILE, "%s", decode->map.why.text);
}

/* The user's, or else that which came with the trace, if it is there (NULL: it is not). */
static int load_either_map(struct demux_options *options, const char *of_trace)
{
    if (options->map_path)
        return load_map(options, options->map_path);
    options->parsed.options.map.is_of_trace = true;
    return of_trace ? load_map(options, of_trace) : 0;
}

/* Code and clocks. 0 or an exit code. */
static int load_sidecar(struct demux_options *options, const char *file)
{
    struct decode_options *const decode = &options->parsed.options;
    struct sidecar sidecar;
    int error = sidecar_open(&sidecar, file), code = 0;

    if (!error && sidecar.is_rtit)
        error =
            reason_set(&sidecar.why, -EINVAL, "%s: an RTIT trace, which tells of no guests", file);
    if (!error)
        error = options->map_path
                    ? sidecar_add_code_log(&sidecar, decode->code.files, decode->image)
                    : sidecar_add_images(&sidecar, decode->code.files, decode->image);
    if (error)
        code = complain(exit_code_of(error), "%s%s", sidecar.why.text,
                        options->map_path || sidecar.is_there ? "" : " (and no --map was given)");
    options->clocks = sidecar.clocks;
    decode->config = (struct ptd_flow_config){
        .mode = sidecar.mode, .errata = sidecar.errata, .resync = (uint8_t)sidecar.resync};
    sidecar_close(&sidecar);
    return code;
}

/* The guest's clocks are the host's, but for offset and multiplier. */
static int set_clocks(struct demux_options *options)
{
    const struct decode_options *const decode = &options->parsed.options;
    struct vpt_caps *const caps = &options->config.caps;
    const char *wrong;

    if (ptd_time_check(&options->clocks) != PTD_OK)
        options->clocks = (struct ptd_time_config){0};
    options->clocks.errata = decode->config.errata;
    if (decode->map.contexts)
        options->clocks.vms =
            ptd_contexts_time_vms(decode->map.contexts, &options->clocks.vm_count);
    if (options->clocks.tsc_den) {
        caps->tsc_den = options->clocks.tsc_den;
        caps->tsc_num = options->clocks.tsc_num;
    }
    if (options->clocks.max_nonturbo_ratio)
        caps->max_nonturbo_ratio = options->clocks.max_nonturbo_ratio;
    wrong = vpt_caps_check(caps);
    return wrong ? complain(EXIT_CODE_FILE, "the clocks of the trace: %s", wrong) : 0;
}

/* The number of the VM that is wanted, by its name. 0 or an exit code. */
static int find_vm(struct demux_options *options)
{
    const struct ptd_contexts *const contexts = options->parsed.options.map.contexts;
    struct ptd_context context = {0};

    if (!options->vm)
        return 0;
    for (unsigned vm = 1; contexts && vm < PTD_VM_UNKNOWN; vm++) {
        ptd_contexts_find(contexts, ptd_space(vm, 0), 0, &context);
        if (context.vm != vm || !context.vm_name)
            break;
        if (strcmp(context.vm_name, options->vm) == 0) {
            options->outputs.vm = vm;
            return 0;
        }
    }
    return complain(EXIT_CODE_USAGE, "there is no VM '%s' in the map", options->vm);
}

/* ---- The trace ---- */

/* The next run of steps. PTD_OK, PTD_END; else -errno is in *error and why says it. */
static int take(struct ptd_stream *stream, struct input *input, struct ptd_run *run,
                struct ptd_time_point *point, int *error, struct reason *why)
{
    const uint8_t *bytes;
    int status, n;

    while ((status = ptd_stream_run(stream, run, point)) == PTD_MORE) {
        n = input_take(input, &bytes);
        if (n < 0)
            *error = reason_of_file(why, n, input->name);
        else if (n == 0)
            ptd_stream_end(stream);
        else if (ptd_stream_feed(stream, bytes, (size_t)n) != PTD_OK)
            *error = reason_no_memory(why);
        if (*error)
            return PTD_END;
        progress_add(n > 0 ? (uint64_t)n : 0);
    }
    if (status != PTD_OK && status != PTD_END)
        *error = reason_no_memory(why);
    return status;
}

/* All of it. 0, or -errno and the reason. */
static int demux_stream(struct demux_cpu *cpu, struct ptd_stream *stream, struct input *input,
                        bool has_time, struct reason *why)
{
    static uint32_t steps[STEPS_A_RUN];
    struct ptd_run run = {.steps = steps, .room = STEPS_A_RUN};
    struct ptd_time_point point;
    int error = 0;

    run.timing = has_time ? PTD_TIMING_ITEMS : PTD_TIMING_NONE;
    while (!error && take(stream, input, &run, &point, &error, why) == PTD_OK)
        error = demux_take_run(cpu, ptd_stream_flow(stream), &run, has_time ? &point : NULL);
    return error;
}

/* ---- What came of it ---- */

static const char *vm_name(const struct demux_options *options, unsigned vm)
{
    const struct ptd_contexts *const contexts = options->parsed.options.map.contexts;
    struct ptd_context context = {0};

    if (contexts && vm)
        ptd_contexts_find(contexts, ptd_space(vm, 0), 0, &context);
    return context.vm_name;
}

static void print_text(const struct demux_options *options, const struct demux_sums *sums)
{
    for (size_t i = 0; i < options->outputs.count; i++) {
        const struct demux_file *const file = options->outputs.all[i];

        printf("%s: %" PRIu64 " instructions ran, %" PRIu64 " bytes, %" PRIu64 " entries, %" PRIu64
               " gaps\n",
               file->path, file->tenant.insns, file->tenant.bytes, file->tenant.entries,
               file->tenant.gaps);
    }
    if (sums->losses)
        printf("%" PRIu64 " places where a part of the host's trace is missing, or its code\n",
               sums->losses);
    if (sums->unknown_insns)
        printf("%" PRIu64 " instructions of guests are nobody's: nothing tells whose\n",
               sums->unknown_insns);
}

static json_object *describe(const struct demux_options *options, const struct demux_file *file)
{
    const char *const name = vm_name(options, file->vm);
    json_object *const object = json_object_new_object();

    json_add(object, "file", json_object_new_string(file->path));
    json_add_number(object, "vm", file->vm);
    if (name)
        json_add(object, "name", json_object_new_string(name));
    json_add_number(object, "processor", file->index);
    json_add_number(object, "instructions", file->tenant.insns);
    json_add_number(object, "bytes", file->tenant.bytes);
    json_add_number(object, "entries", file->tenant.entries);
    json_add_number(object, "gaps", file->tenant.gaps);
    return object;
}

static void print_json(const struct demux_options *options, const struct demux_sums *sums)
{
    json_object *const object = json_object_new_object(), *const traces = json_object_new_array();

    for (size_t i = 0; traces && i < options->outputs.count; i++)
        json_object_array_add(traces, describe(options, options->outputs.all[i]));
    json_add(object, "traces", traces);
    json_add_number(object, "missing_places", sums->losses);
    json_add_number(object, "unknown_instructions", sums->unknown_insns);
    json_print(object, JSON_C_TO_STRING_PLAIN);
}

/* Writes the files, unless there was an error. An exit code. */
static int finish(struct demux_options *options, const char *name, const struct demux_sums *sums,
                  int error)
{
    if (!error)
        error = demux_files_write(&options->outputs);
    if (error == -ENOMEM)
        return no_memory();
    if (error)
        return complain_of(error, &options->outputs.why);
    (options->json ? print_json : print_text)(options, sums);
    return options->outputs.count
               ? EXIT_CODE_OK
               : complain(EXIT_CODE_FILE, "%s: no guest runs in it%s", name,
                          sums->unknown_insns ? " of which it is known which one it is" : "");
}

/* ---- Either kind ---- */

static int demux_input(struct demux_options *options, struct input *input)
{
    struct decode_options *const decode = &options->parsed.options;
    const bool has_time = options->config.ctl & CTL_TIME;
    const struct demux_config config = {
        .contexts = decode->map.contexts, .found = demux_files_found, .owner = &options->outputs};
    struct demux *const demux = demux_new(&config);
    struct demux_cpu *const cpu = demux ? demux_cpu_new(demux, 0) : NULL;
    struct ptd_stream *const stream =
        ptd_stream_new(decode->image, &decode->config, has_time ? &options->clocks : NULL);
    struct demux_sums sums = {0};
    int error = cpu && stream ? 0 : -ENOMEM;

    options->outputs.times = options->clocks.vms;
    options->outputs.time_count = has_time ? options->clocks.vm_count : 0;
    progress_begin("taking apart", input_size(input), PROGRESS_ALONE);
    if (!error) {
        demux_cpu_begin(cpu, decode->image, has_time);
        error = demux_stream(cpu, stream, input, has_time, &options->outputs.why);
    }
    progress_end();
    if (!error) {
        demux_cpu_end(cpu);
        sums = *demux_sums(demux);
    }
    ptd_stream_free(stream);
    demux_cpu_free(cpu);
    demux_free(demux);
    return finish(options, input->name, &sums, error);
}

/* What the outputs are made by. 0 or an exit code. */
static int prepare(struct demux_options *options)
{
    int code = set_clocks(options);

    if (!code)
        code = find_vm(options);
    options->outputs.config = options->config;
    options->outputs.profile = options->profile;
    options->outputs.out = options->out;
    return code;
}

static int demux_raw(struct demux_options *options, const char *file, struct input *input)
{
    const char *const like = options->parsed.options.like ? options->parsed.options.like : file;
    char of_trace[PATH_MAX];
    int code = give_up_rights(options, like);

    if (!code)
        code = load_either_map(options, sidecar_map(like, of_trace) ? of_trace : NULL);
    if (!code)
        code = load_sidecar(options, like);
    if (!code)
        code = prepare(options);
    return code ? code : demux_input(options, input);
}

/* ---- A perf.data ---- */

static int give_up_rights_for_perf(const struct demux_options *options, const char *file)
{
    struct sandbox sandbox = {0};

    parsed_allow_perf_data(&options->parsed.options, &sandbox);
    if (options->map_path)
        sandbox_allow(&sandbox, "/"); /* it names files anywhere */
    sandbox_allow_folder(&sandbox, options->out);
    guard_allow_sidecar(&sandbox, file);
    return guard_enter(&sandbox, options->parsed.options.no_sandbox);
}

static int demux_job(struct demux_options *options, const char *name, struct perf_job *job)
{
    struct demux_sums sums = {0};
    int code, error;

    ptd_perf_clocks(perf_job_session(job), &options->clocks);
    code = prepare(options);
    if (code)
        return code;
    error = demux_perf(job, &options->parsed.options, options->config.ctl & CTL_TIME,
                       &options->outputs, &sums);
    return finish(options, name, &sums, error);
}

static int demux_session(struct demux_options *options, struct input *input)
{
    struct decode_options *const decode = &options->parsed.options;
    struct reason *const why = &options->outputs.why;
    struct bytes bytes = {0};
    struct perf_job *job;
    int error = scratch_see(decode->scratch, input, &bytes), code;

    if (error)
        return file_error(input->name, error);
    error = perf_job_open(decode, input->name, &bytes, &job, why);
    if (error)
        return complain_of(error, why);
    code = demux_job(options, input->name, job);
    error = perf_job_close(job, 0);
    return code ? code : complain_of(error, why); /* that its records end early was remarked */
}

static int demux_perf_data(struct demux_options *options, struct input *input)
{
    struct decode_options *const decode = &options->parsed.options;
    int code;

    if (!options->map_path && !decode->folder_map)
        return complain(EXIT_CODE_FILE,
                        "%s: which VMs there are is in no perf.data; --map names "
                        "a map, and the folder of vpt record has one",
                        input->name);
    if (!parsed_find_copies(&options->parsed))
        return no_memory();
    decode->scratch = scratch_new();
    code = give_up_rights_for_perf(options, input->name);
    if (!code)
        code = load_either_map(options, decode->folder_map);
    if (!code)
        code = demux_session(options, input);
    scratch_free(decode->scratch);
    decode->scratch = NULL;
    return code;
}

/* ---- The command ---- */

static int make_out(const struct demux_options *options)
{
    const char *const folder = options->out ? options->out : "."; /* parse() wants one */
    const int error = ensure_folder(folder);

    return error ? file_error(folder, error) : 0;
}

/* Options that are of the other kind. 0 or an exit code. */
static int check_kind(const struct demux_options *options, bool is_perf_data)
{
    const char *const of_perf = parsed_perf_option(&options->parsed.options);

    if (!is_perf_data && of_perf)
        return complain(EXIT_CODE_USAGE, "%s is for a perf.data, not for a raw trace", of_perf);
    if (is_perf_data && options->parsed.options.like)
        return complain(EXIT_CODE_USAGE, "--like is for a raw trace, not for a perf.data");
    return 0;
}

static int demux_either(void *owner, const char *file)
{
    struct demux_options *const options = owner;
    struct input input;
    bool is_perf_data = false;
    int code, error = input_open(&input, file);

    if (!error)
        error = input_is_perf_data(&input, &is_perf_data);
    code = error ? file_error(input.name, error) : check_kind(options, is_perf_data);
    if (!code)
        code = make_out(options);
    if (!code)
        code = is_perf_data ? demux_perf_data(options, &input) : demux_raw(options, file, &input);
    input_close(&input);
    return code;
}

static int run(int argc, char **argv)
{
    struct demux_options *const options = calloc(1, sizeof(*options));
    int code;

    if (!options)
        return no_memory();
    options->ctl = options->cr3_filter = NOT_TOLD;
    code = parsed_begin(&options->parsed);
    if (code) {
        free(options);
        return code;
    }
    options->parsed.options.code.files = code_files_new(CODE_BYTES_MAX);
    code = options->parsed.options.code.files ? parse(argc, argv, options) : no_memory() + 1;
    code = code ? code - 1
                : parsed_locate(&options->parsed.options, argv[optind], demux_either, options);
    demux_files_free(&options->outputs);
    parsed_free(&options->parsed);
    free(options);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file cannot be read or written, or no guest runs in the trace."},
    {EXIT_CODE_HOST, "There is not enough memory."},
    {0},
};

const struct subcommand command_demux = {
    .name = "demux",
    .about = "make one trace a virtual processor of a trace of a host and guests",
    .synopsis = "[OPTION...] TRACE",
    .text = "Makes a trace for each virtual processor of an Intel PT trace of a host and its "
            "guests, as if that guest had traced itself: the flow is decoded, told to the model "
            "as events of this guest alone, and encoded anew. Nothing of the host or of another "
            "guest is in it. It is the only way to hand a trace to a tenant. TRACE is raw, or a "
            "perf.data, or a folder of vpt record, in which a virtual processor may move from one "
            "processor to another; it may be a pipe (- is standard input). Code has to be known, "
            "of the host too.",
    .document = "demux",
    .options = options_of_demux,
    .exits = exits,
    .run = run,
};
