/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt demux: from a trace of a host and its guests to one trace a virtual processor.
 */
#include "cli/commands.h"
#include "cli/guard.h"
#include "cli/values.h"
#include "common/open.h"
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
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NOT_TOLD    UINT64_MAX
#define STEPS_A_RUN 4096u

/* What the program decides by itself, or what no trace of a host can tell. */
#define CTL_OURS                                                                                   \
    (VPT_CTL_TRACEEN | VPT_CTL_TOPA | VPT_CTL_FABRICEN | VPT_CTL_PWREVTEN | VPT_CTL_EVENTEN |      \
     VPT_CTL_CYCEN | VPT_CTL_INJECT_PSB_PMI | VPT_CTL_CR3FILTER)
#define CTL_TIME    (VPT_CTL_TSCEN | VPT_CTL_MTCEN)
#define CTL_DEFAULT (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

struct demux_options {
    const char *map_path, *like, *out, *vm, *profile;
    uint64_t ctl, cr3_filter;
    bool user_only, kernel_only, no_time, hide_cr3, no_sandbox;
    unsigned ranges;
    struct tenant_config config;
    struct code_files *files;
    struct ptd_image *image;
    struct map map;
    struct ptd_time_config clocks;
    struct ptd_flow_config flow;
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
     .fallback = "as TRACE.json says"},
    {.name = "like",
     .value = "TRACE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct demux_options, like),
     .help = "Takes code and clocks from TRACE.json of another trace."},
    {.name = "vm",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct demux_options, vm),
     .help = "Only the VM that the map calls so.",
     .fallback = "all"},
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
    {.name = "no-sandbox",
     .group = "Safety",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct demux_options, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
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
    return guard_enter(&sandbox, options->no_sandbox);
}

/* The user's, or else that of the trace, if it is there. */
static int load_map(struct demux_options *options, const char *file)
{
    char of_trace[PATH_MAX];
    const char *path = options->map_path;

    if (!path && sidecar_map(file, of_trace)) {
        path = of_trace;
        options->map.is_of_trace = true;
    }
    if (path && map_load(path, options->files, options->image, &options->map) != 0)
        return complain(EXIT_CODE_FILE, "%s", options->map.why.text);
    return 0;
}

/* Code and clocks. 0 or an exit code. */
static int load_sidecar(struct demux_options *options, const char *file)
{
    struct sidecar sidecar;
    int error = sidecar_open(&sidecar, file), code = 0;

    if (!error && sidecar.is_rtit)
        error =
            reason_set(&sidecar.why, -EINVAL, "%s: an RTIT trace, which tells of no guests", file);
    if (!error)
        error = options->map_path ? sidecar_add_code_log(&sidecar, options->files, options->image)
                                  : sidecar_add_images(&sidecar, options->files, options->image);
    if (error)
        code = complain(exit_code_of(error), "%s%s", sidecar.why.text,
                        options->map_path || sidecar.is_there ? "" : " (and no --map was given)");
    options->clocks = sidecar.clocks;
    options->flow = (struct ptd_flow_config){
        .mode = sidecar.mode, .errata = sidecar.errata, .resync = (uint8_t)sidecar.resync};
    sidecar_close(&sidecar);
    return code;
}

/* The guest's clocks are the host's, but for offset and multiplier. */
static int set_clocks(struct demux_options *options)
{
    struct vpt_caps *const caps = &options->config.caps;
    const char *wrong;

    if (ptd_time_check(&options->clocks) != PTD_OK)
        options->clocks = (struct ptd_time_config){0};
    options->clocks.errata = options->flow.errata;
    if (options->map.contexts)
        options->clocks.vms =
            ptd_contexts_time_vms(options->map.contexts, &options->clocks.vm_count);
    if (options->clocks.tsc_den) {
        caps->tsc_den = options->clocks.tsc_den;
        caps->tsc_num = options->clocks.tsc_num;
    }
    if (options->clocks.max_nonturbo_ratio)
        caps->max_nonturbo_ratio = options->clocks.max_nonturbo_ratio;
    wrong = vpt_caps_check(caps);
    return wrong ? complain(EXIT_CODE_FILE, "the clocks of TRACE.json: %s", wrong) : 0;
}

/* The number of the VM that is wanted, by its name. 0 or an exit code. */
static int find_vm(struct demux_options *options)
{
    struct ptd_context context = {0};

    if (!options->vm)
        return 0;
    for (unsigned vm = 1; options->map.contexts && vm < PTD_VM_UNKNOWN; vm++) {
        ptd_contexts_find(options->map.contexts, ptd_space(vm, 0), 0, &context);
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

static void print_sums(const struct demux_options *options, const struct demux_sums *sums)
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
        printf("%" PRIu64 " instructions of guests are nobody's: no packet tells whose\n",
               sums->unknown_insns);
}

static int demux_input(struct demux_options *options, struct input *input)
{
    const bool has_time = options->config.ctl & CTL_TIME;
    const struct demux_config config = {
        .contexts = options->map.contexts, .found = demux_files_found, .owner = &options->outputs};
    struct demux *const demux = demux_new(&config);
    struct demux_cpu *const cpu = demux ? demux_cpu_new(demux) : NULL;
    struct ptd_stream *const stream =
        ptd_stream_new(options->image, &options->flow, has_time ? &options->clocks : NULL);
    struct reason *const why = &options->outputs.why;
    int error = cpu && stream ? 0 : reason_no_memory(why);

    options->outputs.times = options->clocks.vms;
    options->outputs.time_count = has_time ? options->clocks.vm_count : 0;
    progress_begin("taking apart", input_size(input), PROGRESS_ALONE);
    if (!error) {
        demux_cpu_begin(cpu, options->image);
        error = demux_stream(cpu, stream, input, has_time, why);
    }
    progress_end();
    if (!error) {
        demux_cpu_end(cpu);
        error = demux_files_write(&options->outputs);
    }
    if (!error)
        print_sums(options, demux_sums(demux));
    ptd_stream_free(stream);
    demux_cpu_free(cpu);
    demux_free(demux);
    if (error)
        return complain_of(error, why);
    return options->outputs.count
               ? EXIT_CODE_OK
               : complain(EXIT_CODE_FILE, "%s: no guest runs in it", input->name);
}

static int make_folder(const struct demux_options *options)
{
    const char *const folder = options->out ? options->out : "."; /* parse() wants one */

    return mkdir(folder, 0700) == 0 || errno == EEXIST ? 0 : file_error(folder, -errno);
}

static int demux_file(struct demux_options *options, const char *file)
{
    const char *const like = options->like ? options->like : file;
    struct input input;
    bool is_perf_data;
    int code = 0, error = input_open(&input, file);

    if (!error)
        error = input_is_perf_data(&input, &is_perf_data);
    if (error)
        code = file_error(input.name, error);
    else if (is_perf_data)
        code = complain(EXIT_CODE_FILE, "%s: a perf.data, which is no raw trace", input.name);
    if (!code)
        code = make_folder(options);
    if (!code)
        code = give_up_rights(options, like);
    if (!code)
        code = load_map(options, like);
    if (!code)
        code = load_sidecar(options, like);
    if (!code)
        code = set_clocks(options);
    if (!code)
        code = find_vm(options);
    options->outputs.config = options->config;
    options->outputs.profile = options->profile;
    options->outputs.out = options->out;
    if (!code)
        code = demux_input(options, &input);
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
    options->files = code_files_new(CODE_BYTES_MAX);
    options->image = ptd_image_new();
    code = options->files && options->image ? parse(argc, argv, options) : no_memory() + 1;
    code = code ? code - 1 : demux_file(options, argv[optind]);
    demux_files_free(&options->outputs);
    ptd_image_free(options->image);
    map_free(&options->map);
    code_files_free(options->files);
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
    .text = "Makes a trace for each virtual processor of a raw Intel PT trace of a host and its "
            "guests, as if that guest had traced itself: the flow is decoded, told to the model "
            "as events of this guest alone, and encoded anew. Nothing of the host or of another "
            "guest is in it. It is the only way to hand a trace to a tenant. TRACE may be a pipe; "
            "- is standard input. Code has to be known, of the host too.",
    .document = "demux",
    .options = options_of_demux,
    .exits = exits,
    .run = run,
};
