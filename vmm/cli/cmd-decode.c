/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt decode: what ran, from a trace and the code that it ran through.
 */
#include "view/decode.h"
#include "common/say.h"
#include "common/bytes.h"
#include "common/number.h"
#include "cli/commands.h"
#include "view/out.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMATS     5u
#define THREADS_MAX 256u

static void usage(FILE *to)
{
    fputs(
        "usage: vpt decode [OPTION...] TRACE\n"
        "\n"
        "Prints the path of execution that a raw Intel PT trace holds. The code comes from\n"
        "TRACE.json (docs/trace-files.md), or from --image options. TRACE may also be a perf.data\n"
        "(docs/perf-data.md); its code comes from the files that it names. TRACE may be a pipe; -\n"
        "is standard input. What a pipe brings is shown as it comes.\n"
        "\n"
        "  --insns              one line an instruction, disassembled (default)\n"
        "  --blocks             one line a run of instructions without a change of flow\n"
        "  --calls              calls and returns by name\n"
        "  --summary            how much ran, and in which functions; only of a raw trace\n"
        "  --threads N          for --summary (default: one for each processor)\n"
        "  --image ELF[@BIAS]   code and symbols; for the address space of the last --cr3\n"
        "  --cr3 VALUE          the CR3 of the --image options that follow\n"
        "  --like TRACE         code and clocks as TRACE.json of another trace says\n"
        "  --map MAP            code and names of a host and its guests (docs/decoder.md)\n"
        "  --from WHERE         leave out what comes before; WHERE is an offset in bytes, "
        "tsc:TICKS,\n"
        "                       or of a perf.data time:SECONDS as perf prints them\n"
        "  --to WHERE           stop in front of it\n"
        "  --mode 16|32|64      until the trace says otherwise (default: as TRACE.json says, or "
        "64)\n"
        "  --no-sync            begin at the first byte instead of the first PSB\n"
        "  --start-ip IP        begin at the first byte, in the middle: the next instruction is at "
        "IP\n"
        "  --start-cr3 CR3      the address space at the begin\n"
        "  --start-vmcs VMCS    a guest runs at the begin, with this VMCS\n"
        "  --rtit               RTIT, the trace of Silvermont; TRACE.json says so by itself\n"
        "  --cycle-acc          of RTIT: RTIT_CTL.Cycle_Acc was 1\n"
        "  --json               one JSON object a line\n"
        "  --format FORMAT      perf, perf-branches: as perf script prints; jsonl: --json; "
        "folded:\n"
        "                       stacks for flame graphs; chrome: trace events, also for Perfetto;\n"
        "                       callgrind: for callgrind_annotate and KCachegrind\n"
        "  --clock insns        costs and times are instructions, even if the trace has TSC "
        "packets\n"
        "  --cpu FAMILY/MODEL   tolerate this processor's errata; TRACE.json and perf.data say it\n"
        "                       themselves\n"
        "  --symfs DIR          of a perf.data: its files are in DIR\n"
        "  --vmlinux FILE       of a perf.data: the kernel that ran\n"
        "  --buildid-dir DIR    of a perf.data: perf's copies of files (default ~/.debug)\n"
        "  --help\n"
        "\n"
        "Exit codes: 0 success, 2 usage, 3 a file cannot be read, or the trace holds errors (they\n"
        "are printed, and decoding goes on at the next PSB).\n",
        to);
}

/* ---- Options ---- */

static int add_image(struct decode_options *options, const char *argument, uint64_t cr3)
{
    uint64_t bias;
    char *path = split_bias(argument, &bias);
    int error;

    error = path ? ptd_image_add_elf(options->image, path, bias, cr3) : PTD_E_NOMEM;
    free(path);
    if (error)
        return complain(EXIT_CODE_FILE, "%s: %s", argument, ptd_strerror(error));
    options->have_images = true;
    return 0;
}

static int add_map(struct decode_options *options, const char *path)
{
    if (map_load(path, options->image, &options->map) != 0)
        return complain(EXIT_CODE_FILE, "%s", options->map.why);
    options->have_images = true;
    return 0;
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

/* "6/85" to the errata of that processor; between the numbers stands separator. */
bool parse_cpu(const char *text, char separator, uint32_t *errata)
{
    char *end;
    const unsigned long family = strtoul(text, &end, 0);
    unsigned long model;

    if (end == text || *end != separator)
        return false;
    text = end + 1;
    model = strtoul(text, &end, 0);
    if (end == text || (*end && *end != separator) || family > UINT8_MAX || model > UINT8_MAX)
        return false;
    *errata = ptd_errata((unsigned)family, (unsigned)model);
    return true;
}

static int parse_format(const char *text, struct decode_options *options)
{
    static const struct out_format *const formats[FORMATS] = {&out_perf, &out_branches, &out_folded,
                                                              &out_chrome, &out_callgrind};

    options->json = strcmp(text, "jsonl") == 0;
    options->format = NULL;
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(text, formats[i]->name) == 0)
            options->format = formats[i];
    }
    if (!options->json && !options->format)
        return complain(EXIT_CODE_USAGE, "there is no format '%s'; see vpt decode --help", text);
    return 0;
}

static int parse_threads(const char *text, unsigned *threads)
{
    uint64_t value;

    if (!parse_number(text, &value) || value == 0 || value > THREADS_MAX)
        return complain(EXIT_CODE_USAGE, "--threads takes 1 to %u, not '%s'", THREADS_MAX, text);
    *threads = (unsigned)value;
    return 0;
}

static unsigned processors(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count < 1 ? 1 : count > (long)THREADS_MAX ? THREADS_MAX : (unsigned)count;
}

/* Options that do not go together, or have no effect. 0 or an exit code. */
static int check_options(const struct decode_options *options)
{
    if (options->view == VIEW_SUMMARY &&
        (options->format || options->window.from.kind || options->window.to.kind))
        return complain(EXIT_CODE_USAGE, "--summary is of a whole trace, and has no --format");
    if (window_check(&options->window) != 0)
        return EXIT_CODE_USAGE;
    if (options->count_insns && window_has_time(&options->window))
        return complain(EXIT_CODE_USAGE, "--clock insns has no times for --from and --to");
    if (options->count_insns && !options->format)
        return complain(EXIT_CODE_USAGE, "--clock is for a --format that has times");
    if (options->threads && options->view != VIEW_SUMMARY)
        return complain(EXIT_CODE_USAGE, "--threads is for --summary");
    return 0;
}

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct decode_options *options)
{
    static const struct option long_options[] = {{"insns", no_argument, NULL, 'i'},
                                                 {"blocks", no_argument, NULL, 'b'},
                                                 {"calls", no_argument, NULL, 'c'},
                                                 {"image", required_argument, NULL, 'I'},
                                                 {"cr3", required_argument, NULL, 'C'},
                                                 {"map", required_argument, NULL, 'M'},
                                                 {"mode", required_argument, NULL, 'm'},
                                                 {"no-sync", no_argument, NULL, 'n'},
                                                 {"json", no_argument, NULL, 'j'},
                                                 {"rtit", no_argument, NULL, 'r'},
                                                 {"cycle-acc", no_argument, NULL, 'a'},
                                                 {"format", required_argument, NULL, 'f'},
                                                 {"clock", required_argument, NULL, 'k'},
                                                 {"symfs", required_argument, NULL, 's'},
                                                 {"vmlinux", required_argument, NULL, 'v'},
                                                 {"buildid-dir", required_argument, NULL, 'd'},
                                                 {"cpu", required_argument, NULL, 'p'},
                                                 {"like", required_argument, NULL, 'l'},
                                                 {"summary", no_argument, NULL, 'u'},
                                                 {"threads", required_argument, NULL, 't'},
                                                 {"start-ip", required_argument, NULL, 'S'},
                                                 {"start-cr3", required_argument, NULL, 'A'},
                                                 {"start-vmcs", required_argument, NULL, 'V'},
                                                 {"from", required_argument, NULL, 'F'},
                                                 {"to", required_argument, NULL, 'T'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {0}};
    uint64_t cr3 = PTD_ANY_CR3;
    int option, error = 0;

    optind = 1;
    opterr = 0;
    while (!error && (option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        switch (option) {
        case 'i':
            options->view = VIEW_INSNS;
            break;
        case 'b':
            options->view = VIEW_BLOCKS;
            break;
        case 'c':
            options->view = VIEW_CALLS;
            break;
        case 'I':
            error = add_image(options, optarg, cr3);
            break;
        case 'C':
            error = option_number("--cr3", optarg, &cr3);
            break;
        case 'M':
            error = add_map(options, optarg);
            break;
        case 'm':
            error = parse_mode(optarg, options);
            options->have_mode = true;
            break;
        case 'n':
            options->config.at_start = true;
            break;
        case 'j':
            options->json = true;
            options->format = NULL;
            break;
        case 'a':
            options->rtit.cycle_acc = true;
            break;
        case 'r':
            options->is_rtit = true;
            break;
        case 'f':
            error = parse_format(optarg, options);
            break;
        case 'k':
            options->count_insns = strcmp(optarg, "insns") == 0;
            if (!options->count_insns)
                error = complain(EXIT_CODE_USAGE, "--clock takes insns, not '%s'", optarg);
            break;
        case 'p':
            if (!parse_cpu(optarg, '/', &options->config.errata))
                error = complain(EXIT_CODE_USAGE, "--cpu takes FAMILY/MODEL, not '%s'", optarg);
            options->have_cpu = true;
            break;
        case 'l':
            options->like = optarg;
            break;
        case 'u':
            options->view = VIEW_SUMMARY;
            break;
        case 't':
            error = parse_threads(optarg, &options->threads);
            break;
        case 'S':
            options->config.at_start = options->config.has_ip = true;
            error = option_number("--start-ip", optarg, &options->config.ip);
            options->config.last_ip = options->config.ip;
            break;
        case 'A':
            error = option_number("--start-cr3", optarg, &options->config.cr3);
            break;
        case 'V':
            options->config.nr = true;
            error = option_number("--start-vmcs", optarg, &options->config.vmcs);
            break;
        case 'F':
            error = bound_parse("--from", optarg, &options->window.from);
            break;
        case 'T':
            error = bound_parse("--to", optarg, &options->window.to);
            break;
        case 's':
            options->code.symfs = optarg;
            break;
        case 'v':
            options->code.vmlinux = optarg;
            break;
        case 'd':
            options->code.cache = optarg;
            break;
        case 'h':
            usage(stdout);
            return 1 + EXIT_CODE_OK;
        default:
            error = bad_option(option, argv);
            break;
        }
    }
    if (error)
        return 1 + error;
    if (optind + 1 != argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt decode takes one trace; see vpt decode --help");
    error = check_options(options);
    if (error)
        return 1 + error;
    if (!options->threads)
        options->threads = processors();
    return 0;
}

/* RTIT is not decoded piece by piece. */
static int decode_rtit(struct decode_options *options, struct stream *stream)
{
    struct input *const input = stream->input;
    const int error = input_take_all(input, &stream->packets);
    int code;

    if (error)
        return file_error(input->name, error);
    stream->input = NULL;
    code = stream_decode(options, stream);
    bytes_free(&stream->packets);
    return code;
}

/* Code and settings, where no option says otherwise. 0 or an exit code. */
static int take_sidecar(struct decode_options *options, struct sidecar *sidecar)
{
    if (!options->have_images && sidecar_add_images(sidecar, options->image) != PTD_OK)
        return complain(EXIT_CODE_FILE, "%s%s", sidecar->why,
                        sidecar->images ? "" : " (and no --image was given)");
    if (options->have_images && sidecar_add_code_log(sidecar, options->image) != PTD_OK)
        return complain(EXIT_CODE_FILE, "%s", sidecar->why);
    if (sidecar->is_rtit) {
        options->is_rtit = true;
        options->rtit = sidecar->rtit;
    }
    if (!options->have_cpu)
        options->config.errata = sidecar->errata;
    if (!options->have_mode)
        options->config.mode = sidecar->mode;
    return 0;
}

static int decode_raw(struct decode_options *options, const struct sidecar *sidecar,
                      struct input *input)
{
    struct stream stream = {
        .input = input,
        .image = options->image,
        .clocks = sidecar->clocks,
        .thread = {.comm = "vpt", .pid = 1, .tid = 1, .cpu = -1},
        .out = options->out,
    };

    if (options->is_rtit && options->config.has_ip)
        return complain(EXIT_CODE_USAGE, "--start-ip: an RTIT trace says it by itself");
    if (options->map.contexts)
        stream.clocks.vms = ptd_contexts_time_vms(options->map.contexts, &stream.clocks.vm_count);
    if (options->view == VIEW_SUMMARY)
        return options->is_rtit
                   ? complain(EXIT_CODE_USAGE, "--summary is of a PT trace, this is one of RTIT")
                   : decode_summary(options, input);
    return options->is_rtit ? decode_rtit(options, &stream) : stream_decode(options, &stream);
}

/* name: where the trace's name stands for TRACE.json. */
static int decode_with_sidecar(struct decode_options *options, const char *name,
                               struct input *input)
{
    struct sidecar sidecar;
    int code;

    if (sidecar_open(&sidecar, name) != 0)
        code = complain(EXIT_CODE_FILE, "%s", sidecar.why);
    else
        code = take_sidecar(options, &sidecar);
    if (!code)
        code = decode_raw(options, &sidecar, input);
    sidecar_close(&sidecar);
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

/* The same of a raw trace. */
static const char *perf_option(const struct decode_options *options)
{
    return options->code.symfs     ? "--symfs"
           : options->code.vmlinux ? "--vmlinux"
           : options->code.cache   ? "--buildid-dir"
                                   : NULL;
}

static int decode_perf_data(struct decode_options *options, struct input *input)
{
    const char *const raw = raw_option(options);
    struct bytes bytes = {0};
    int error, code;

    if (raw)
        return complain(EXIT_CODE_USAGE, "%s is for a raw trace, not for a perf.data", raw);
    error = input_take_all(input, &bytes);
    if (error)
        return file_error(input->name, error);
    code = decode_perf(options, input->name, &bytes);
    bytes_free(&bytes);
    return code;
}

static int decode_input(struct decode_options *options, const char *file)
{
    struct input input;
    bool is_perf_data;
    int error = input_open(&input, file), code;

    if (!error)
        error = input_is_perf_data(&input, &is_perf_data);
    if (!error && options->format && !(options->out = options->format->open(stdout)))
        error = -ENOMEM;
    if (error)
        code = file_error(input.name, error);
    else if (is_perf_data)
        code = decode_perf_data(options, &input);
    else if (perf_option(options))
        code = complain(EXIT_CODE_USAGE, "%s is for a perf.data, not for a raw trace",
                        perf_option(options));
    else
        code = decode_with_sidecar(options, options->like ? options->like : file, &input);
    if (options->format && options->out && !options->format->close(options->out) && !code)
        code = no_memory();
    if (!code)
        window_note(&options->window, options->is_reached, input.name);
    if (!code && options->errors)
        code = complain(EXIT_CODE_FILE, "%s: %" PRIu64 " errors", input.name, options->errors);
    input_close(&input);
    return code;
}

static int decode_file(struct decode_options *options, const char *file)
{
    char *const path = perf_data_locate(file, &options->code);
    const int code = path ? decode_input(options, path) : EXIT_CODE_FILE;

    free(path);
    free(options->code.kcore);
    return code;
}

int cmd_decode(int argc, char **argv)
{
    struct decode_options options = {.config.mode = PTD_MODE_64, .image = ptd_image_new()};
    int code;

    if (!options.image)
        return no_memory();
    code = parse(argc, argv, &options);
    code = code ? code - 1 : decode_file(&options, argv[optind]);
    ptd_image_free(options.image);
    map_free(&options.map);
    return code;
}
