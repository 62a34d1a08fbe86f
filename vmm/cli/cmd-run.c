/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt run: runs a guest image on the KVM of this machine, or in the lab where that falls short.
 */
#include "cli/commands.h"
#include "common/file.h"
#include "common/number.h"
#include "common/say.h"
#include "kvm/backend.h"
#include "lab/lab.h"
#include "run/record.h"
#include "run/files.h"
#include "run/report.h"
#include "run/run.h"
#include "trace/rtit-trace.h"
#include "vpt.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PROFILE "icelake-server"
#define DEFAULT_MEM     (64ull << 20)
#define MIN_MEM         (2ull << 20)
#define MAX_MEM         (3ull << 30)
#define LOW_MEM         (64ull << 10) /* where the VMM's own structures are */
#define DEFAULT_TIMEOUT 300
#define MIN_TSC_KHZ     1000
#define MAX_TSC_KHZ     20000000

#define DEFAULT_SAVE_AFTER 100000

static void usage(FILE *to)
{
    fputs(
        "usage: vpt run [OPTION...] IMAGE.elf\n"
        "\n"
        "Runs a 64-bit guest image (docs/guests.md) with a virtual Intel PT. Where /dev/kvm is\n"
        "missing or cannot do what is needed, the run moves itself into the lab (QEMU, TCG).\n"
        "\n"
        "  --profile NAME    the processor to model (vpt profiles; default " DEFAULT_PROFILE ")\n"
        "  --mem SIZE        guest memory, with suffix K, M or G (default 64M)\n"
        "  --cpus N          processors, 1 to 8 (default 1)\n"
        "  --absent GPA:SIZE memory that is made present when it is first touched\n"
        "  --tsc-khz N       frequency of the guest's TSC, if KVM can scale it (default: the "
        "host's)\n"
        "  --append WORDS    the guest's command line\n"
        "  --trace-out FILE  keep the packets in FILE and what decodes them in FILE.json; of "
        "further\n"
        "                    processors in FILE.1, FILE.2, ...\n"
        "  --path-out FILE   keep the executed path in FILE (with --trace-out: FILE.path)\n"
        "  --verify          compare the decoded path with the executed one\n"
        "  --save-to FILE    stop the guest while it traces, and leave it in FILE\n"
        "  --save-after N    after so many traced instructions (default 100000)\n"
        "  --restore FILE    go on with the guest in FILE; profile, memory and processors are its "
        "own\n"
        "  --rtit-errata N,.. errata E1 to E8 that a processor with RTIT shows (default none)\n"
        "  --timeout S       seconds the guest may take (default 300; 0: no limit)\n"
        "  --lab             use the lab even where /dev/kvm would do\n"
        "  --json            print one JSON object; the guest's console goes to standard error\n"
        "  --help\n"
        "\n"
        "Exit codes: 0 success, 1 the guest's status was not 0, 2 usage, 3 a file is bad, 4 the "
        "host\n"
        "lacks something, 5 the guest crashed, 6 time-out, 7 --verify found a difference.\n",
        to);
}

enum option_id {
    OPT_PROFILE = 256,
    OPT_MEM,
    OPT_CPUS,
    OPT_ABSENT,
    OPT_TSC_KHZ,
    OPT_APPEND,
    OPT_TRACE_OUT,
    OPT_PATH_OUT,
    OPT_VERIFY,
    OPT_NO_VERIFY,
    OPT_TIMEOUT,
    OPT_SAVE_TO,
    OPT_SAVE_AFTER,
    OPT_RESTORE,
    OPT_RTIT_ERRATA,
    OPT_LAB,
    OPT_JSON,
    OPT_RECORD_TO,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"profile", required_argument, NULL, OPT_PROFILE},
    {"mem", required_argument, NULL, OPT_MEM},
    {"cpus", required_argument, NULL, OPT_CPUS},
    {"absent", required_argument, NULL, OPT_ABSENT},
    {"tsc-khz", required_argument, NULL, OPT_TSC_KHZ},
    {"append", required_argument, NULL, OPT_APPEND},
    {"trace-out", required_argument, NULL, OPT_TRACE_OUT},
    {"path-out", required_argument, NULL, OPT_PATH_OUT},
    {"verify", no_argument, NULL, OPT_VERIFY},
    {"no-verify", no_argument, NULL, OPT_NO_VERIFY},
    {"save-to", required_argument, NULL, OPT_SAVE_TO},
    {"save-after", required_argument, NULL, OPT_SAVE_AFTER},
    {"restore", required_argument, NULL, OPT_RESTORE},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"rtit-errata", required_argument, NULL, OPT_RTIT_ERRATA},
    {"lab", no_argument, NULL, OPT_LAB},
    {"json", no_argument, NULL, OPT_JSON},
    {"record-to", required_argument, NULL, OPT_RECORD_TO}, /* how the lab calls us */
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

static bool parse_size(const char *text, uint64_t *size)
{
    const char *end;

    if (!parse_bytes(text, 10, MAX_MEM, &end, size) || *end)
        return false;
    *size &= ~4095ull;
    return *size >= MIN_MEM;
}

static bool parse_absent(const char *text, uint64_t *gpa, uint64_t *bytes)
{
    const char *end;

    return parse_bytes(text, 0, MAX_MEM, &end, gpa) && *end == ':' &&
           parse_bytes(end + 1, 0, MAX_MEM, &end, bytes) && !*end && *bytes && *gpa >= LOW_MEM &&
           *gpa % 4096 == 0 && *bytes % 4096 == 0;
}

static bool parse_timeout(const char *text, unsigned *seconds)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    *seconds = (unsigned)value;
    return !errno && end != text && !*end && *text != '-' && value <= 1000000;
}

static bool parse_count(const char *text, uint64_t *count)
{
    char *end;

    errno = 0;
    *count = strtoull(text, &end, 10);
    return !errno && end != text && !*end && *text != '-';
}

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct run_options *options)
{
    uint64_t count;
    int option;

    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        switch (option) {
        case OPT_PROFILE:
            options->profile = optarg;
            break;
        case OPT_MEM:
            if (!parse_size(optarg, &options->mem_bytes))
                return 1 + complain(EXIT_CODE_USAGE, "--mem takes 2M to 3G, not '%s'", optarg);
            break;
        case OPT_CPUS:
            if (!parse_count(optarg, &count) || count < 1 || count > MAX_CPUS)
                return 1 + complain(EXIT_CODE_USAGE, "--cpus takes 1 to %d, not '%s'", MAX_CPUS,
                                    optarg);
            options->cpus = (unsigned)count;
            break;
        case OPT_ABSENT:
            if (!parse_absent(optarg, &options->absent_gpa, &options->absent_bytes))
                return 1 + complain(EXIT_CODE_USAGE,
                                    "--absent takes GPA:SIZE, whole pages above 64K, not '%s'",
                                    optarg);
            break;
        case OPT_TSC_KHZ:
            if (!parse_count(optarg, &count) || count < MIN_TSC_KHZ || count > MAX_TSC_KHZ)
                return 1 + complain(EXIT_CODE_USAGE, "--tsc-khz takes %d to %d, not '%s'",
                                    MIN_TSC_KHZ, MAX_TSC_KHZ, optarg);
            options->tsc_khz = (uint32_t)count;
            break;
        case OPT_APPEND:
            options->append = optarg;
            break;
        case OPT_TRACE_OUT:
            options->trace_out = optarg;
            break;
        case OPT_PATH_OUT:
            options->path_out = optarg;
            break;
        case OPT_VERIFY:
            options->verify = true;
            break;
        case OPT_NO_VERIFY:
            options->verify = false;
            break;
        case OPT_TIMEOUT:
            if (!parse_timeout(optarg, &options->timeout_s))
                return 1 + complain(EXIT_CODE_USAGE, "--timeout takes seconds, not '%s'", optarg);
            break;
        case OPT_SAVE_TO:
            options->save_to = optarg;
            break;
        case OPT_SAVE_AFTER:
            if (!parse_count(optarg, &options->save_after))
                return 1 +
                       complain(EXIT_CODE_USAGE, "--save-after takes a number, not '%s'", optarg);
            break;
        case OPT_RESTORE:
            options->restore = optarg;
            break;
        case OPT_RTIT_ERRATA:
            if (!rtit_errata_parse(optarg, &options->rtit_errata))
                return 1 + complain(EXIT_CODE_USAGE,
                                    "--rtit-errata takes none or numbers 1 to 8, not '%s'", optarg);
            break;
        case OPT_LAB:
            options->lab = true;
            break;
        case OPT_JSON:
            options->json = true;
            break;
        case OPT_RECORD_TO:
            options->record_to = optarg;
            break;
        case OPT_HELP:
            usage(stdout);
            return 1 + EXIT_CODE_OK;
        default:
            return 1 + bad_option(option, argv);
        }
    }
    if (optind + 1 != argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt run takes one image; see vpt run --help");
    options->image = argv[optind];
    /* Whoever restores the guest may want to verify. */
    options->keep_path = options->verify || options->path_out || options->save_to;
    return 0;
}

/* NULL: the local KVM will do, as far as can be told before; else why not. */
static const char *why_lab(const struct run_options *options, const struct probe *probe)
{
    if (options->lab)
        return "--lab was given";
    if (!probe->kvm)
        return probe->why;
    if (!probe->msr_exits || !probe->gp_injection)
        return "this KVM cannot hand out MSR accesses";
    if (!probe->step_supervisor)
        return "this KVM cannot single-step";
    return NULL;
}

static void run_in_lab(struct run_options *options, struct run_result *result, const char *why)
{
    run_result_free(result);
    *result = (struct run_result){0};
    if (!options->json)
        printf("vpt: running in the lab: %s\n", why);
    lab_run(options, result);
    snprintf(result->backend, sizeof(result->backend), "lab (QEMU TCG, kvm-amd): %.200s", why);
}

static void choose_and_run(struct run_options *options, const struct vpt_caps *caps,
                           struct run_result *result)
{
    struct probe probe = {0};
    const char *why;

    if (!options->lab)
        kvm_probe(&probe);
    why = why_lab(options, &probe);
    if (!why) {
        options->step_user = probe.step_user;
        options->steps_per_s = probe.steps_per_s;
        if (!options->json && !options->record_to)
            printf("vpt: running on /dev/kvm\n");
        kvm_run(options, caps, result);
        snprintf(result->backend, sizeof(result->backend), "/dev/kvm%s",
                 probe.step_user == STEP_USER_NATIVE       ? ""
                 : probe.step_user == STEP_USER_BY_HANDLER ? ", user mode stepped by breakpoints"
                                                           : ", without stepping in user mode");
        if (!result->needs_lab || options->record_to)
            return;
        why = "the guest traces user mode, which this KVM cannot step";
    }
    if (options->record_to) {
        result->code = EXIT_CODE_HOST;
        snprintf(result->why, sizeof(result->why), "in the lab: %.200s", why);
        return;
    }
    run_in_lab(options, result, why);
}

static int paths_write(const char *name, const struct run_result *result)
{
    char path[PATH_MAX];
    int error = 0;

    for (unsigned i = 0; i < result->cpu_count && !error; i++) {
        cpu_file(name, i, path, sizeof(path));
        error = write_file(path, result->cpus[i].path.data, result->cpus[i].path.len);
    }
    return error;
}

/* What is left to do with a result: files, the report, the exit code. */
static int conclude(const struct run_options *options, const struct vpt_caps *caps,
                    const struct run_result *result)
{
    int error, code;

    if (options->record_to) {
        error = record_write(options->record_to, result);
        return error ? complain(EXIT_CODE_HOST, "%s: %s", options->record_to, strerror(-error))
                     : EXIT_CODE_OK;
    }
    if (options->trace_out) {
        error = trace_files_write(options->trace_out, options, caps, result);
        if (error)
            return file_error(options->trace_out, error);
    } else if (options->path_out) {
        error = paths_write(options->path_out, result);
        if (error)
            return file_error(options->path_out, error);
    }
    if (result->code != EXIT_CODE_OK && result->code != EXIT_CODE_GUEST_FAILED)
        return complain(result->code, "%s", result->why);
    if (result->saved) {
        if (!options->json)
            printf("vpt: saved to %s after %llu traced instructions\n", options->save_to,
                   (unsigned long long)result->steps);
        return EXIT_CODE_OK;
    }
    if (options->verify || options->trace_out || options->json) {
        code = report(options, result);
        if (code)
            return code;
    }
    if (result->code == EXIT_CODE_GUEST_FAILED)
        return complain(result->code, "the guest ended with status %u", result->guest_status);
    return EXIT_CODE_OK;
}

/* CPUID.15H then tells that frequency. */
static uint32_t crystal_of(const struct vpt_caps *caps, uint32_t tsc_khz)
{
    return (uint32_t)(tsc_khz * UINT64_C(1000) * caps->tsc_den / caps->tsc_num);
}

int cmd_run(int argc, char **argv)
{
    struct run_options options = {
        .profile = DEFAULT_PROFILE,
        .mem_bytes = DEFAULT_MEM,
        .cpus = 1,
        .timeout_s = DEFAULT_TIMEOUT,
        .save_after = DEFAULT_SAVE_AFTER,
    };
    struct saved_guest saved;
    struct run_result result = {0};
    struct vpt_caps caps;
    char why[256];
    int code = parse(argc, argv, &options);

    if (code)
        return code - 1;
    if (options.restore) {
        if (migrate_peek(options.restore, &saved, why, sizeof(why)) != 0)
            return complain(EXIT_CODE_FILE, "%s", why);
        options.profile = saved.profile;
        options.mem_bytes = saved.mem_bytes;
        options.cpus = saved.cpus;
    }
    if (!vpt_profile(options.profile, &caps))
        return complain(EXIT_CODE_USAGE, "there is no profile '%s'; see vpt profiles",
                        options.profile);
    if (options.tsc_khz && (options.save_to || options.restore))
        return complain(EXIT_CODE_USAGE, "a saved guest has the host's TSC: no --tsc-khz");
    if (caps.rtit && options.save_to)
        return complain(EXIT_CODE_USAGE, "a processor with RTIT cannot be saved");
    if (options.rtit_errata && !caps.rtit)
        return complain(EXIT_CODE_USAGE, "profile '%s' has no RTIT", options.profile);
    if (image_check(options.image, why, sizeof(why)) != 0)
        return complain(EXIT_CODE_FILE, "%s", why);
    if (options.absent_gpa > options.mem_bytes ||
        options.absent_bytes > options.mem_bytes - options.absent_gpa)
        return complain(EXIT_CODE_USAGE, "--absent lies outside of the guest's memory");
    if (options.tsc_khz && caps.crystal_hz)
        caps.crystal_hz = crystal_of(&caps, options.tsc_khz);
    choose_and_run(&options, &caps, &result);
    code = conclude(&options, &caps, &result);
    run_result_free(&result);
    return code;
}
