/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt run: runs a guest image on the KVM of this machine, or in the lab where that falls short.
 */
#include "cli/commands.h"
#include "cli/own-qemu.h"
#include "common/data.h"
#include "common/file.h"
#include "common/escape.h"
#include "common/number.h"
#include "common/progress.h"
#include "common/say.h"
#include "kvm/backend.h"
#include "lab/lab.h"
#include "run/record.h"
#include "run/files.h"
#include "run/report.h"
#include "run/run.h"
#include "trace/rtit-trace.h"
#include "vpt_caps.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PROFILE "plain"
#define DEFAULT_MEM     (64ull << 20)
#define MIN_MEM         (2ull << 20)
#define MAX_MEM         (3ull << 30)
#define LOW_MEM         (64ull << 10) /* where the VMM's own structures are */
#define DEFAULT_TIMEOUT 300
#define MAX_TIMEOUT     1000000 /* seconds */
#define MIN_TSC_KHZ     1000
#define MAX_TSC_KHZ     20000000

#define DEFAULT_SAVE_AFTER 100000
/* What guests are told that they may have followed in a second, whatever the host is. */
#define HOST_PT_STEPS_PER_S 1000000

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

static int take_mem(void *options, const char *value)
{
    if (parse_size(value, &((struct run_options *)options)->mem_bytes))
        return 0;
    return complain(EXIT_CODE_USAGE, "--mem takes 2M to 3G, not '%s'", value);
}

static int take_absent(void *options, const char *value)
{
    struct run_options *const run = options;

    if (parse_absent(value, &run->absent_gpa, &run->absent_bytes))
        return 0;
    return complain(EXIT_CODE_USAGE, "--absent takes GPA:SIZE, whole pages above 64K, not '%s'",
                    value);
}

static int take_errata(void *options, const char *value)
{
    if (rtit_errata_parse(value, &((struct run_options *)options)->rtit_errata))
        return 0;
    return complain(EXIT_CODE_USAGE, "--rtit-errata takes none or numbers 1 to 8, not '%s'", value);
}

static const char *source_word(size_t index)
{
    static const char *const words[] = {"step", "host-pt", NULL};

    return words[index];
}

static const char *behind_word(size_t index)
{
    static const char *const words[] = {"wait", "overflow", NULL};

    return words[index];
}

/* One of two words: whether it is the second. 0 or an exit code. */
static int take_word(const char *option, const char *value, const char *(*word)(size_t index),
                     bool *second)
{
    *second = strcmp(value, word(1)) == 0;
    if (*second || strcmp(value, word(0)) == 0)
        return 0;
    return complain(EXIT_CODE_USAGE, "--%s takes %s or %s, not '%s'", option, word(0), word(1),
                    value);
}

static int take_source(void *options, const char *value)
{
    return take_word("source", value, source_word, &((struct run_options *)options)->host_pt);
}

static int take_behind(void *options, const char *value)
{
    return take_word("behind", value, behind_word,
                     &((struct run_options *)options)->overflow_behind);
}

static int take_no_verify(void *options, const char *value)
{
    (void)value;
    ((struct run_options *)options)->verify = false;
    return 0;
}

static const struct option_row options_of_run[] = {
    {.name = "profile",
     .value = "NAME",
     .group = "The machine",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct run_options, profile),
     .word = profile_word,
     .help = "The processor to model; vpt profiles lists them.",
     .fallback = DEFAULT_PROFILE},
    {.name = "mem",
     .value = "SIZE",
     .kind = OPTION_CALL,
     .take = take_mem,
     .help = "Guest memory, 2M to 3G.",
     .fallback = "64M"},
    {.name = "cpus",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct run_options, cpus),
     .min = 1,
     .max = MAX_CPUS,
     .help = "Processors. Files of those after the first are called FILE.1, FILE.2, and so on.",
     .fallback = "1"},
    {.name = "absent",
     .value = "GPA:SIZE",
     .kind = OPTION_CALL,
     .take = take_absent,
     .help = "Memory that is made present when it is first touched (docs/guests.md)."},
    {.name = "tsc-khz",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct run_options, tsc_khz),
     .min = MIN_TSC_KHZ,
     .max = MAX_TSC_KHZ,
     .help = "The frequency of the guest's TSC, by KVM's scaling, and in CPUID.15H if the profile "
             "tells one; not of guests that are saved. The lab's KVM cannot scale it.",
     .fallback = "the host's"},
    {.name = "append",
     .value = "WORDS",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct run_options, append),
     .help = "The guest's command line."},
    {.name = "rtit-errata",
     .value = "N,...",
     .kind = OPTION_CALL,
     .take = take_errata,
     .help = "Errata E1 to E8 that a processor with RTIT (--profile silvermont) shows.",
     .fallback = "none"},
    {.name = "source",
     .value = "SOURCE",
     .kind = OPTION_CALL,
     .take = take_source,
     .word = source_word,
     .help = "What tells of the guest while it traces: step, KVM's single-step; or host-pt, the "
             "Intel PT of this host, with which the guest runs at nearly full speed "
             "(docs/host-pt.md).",
     .fallback = "step"},
    {.name = "recorder",
     .value = "SOCKET",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct run_options, recorder),
     .help =
         "Of --source host-pt: vpt record --guests, which records the host meanwhile, and lends "
         "what it traces at FOLDER/guests."},
    {.name = "behind",
     .value = "WHAT",
     .kind = OPTION_CALL,
     .take = take_behind,
     .word = behind_word,
     .help = "Of --source host-pt: where the host's trace takes longer to follow than 10 ms, the "
             "guest may wait, or its trace may have an overflow.",
     .fallback = "wait"},
    {.name = "timeout",
     .value = "S",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct run_options, timeout_s),
     .max = MAX_TIMEOUT,
     .help = "Seconds that the guest may take; 0 is no limit.",
     .fallback = "300"},
    {.name = "lab",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct run_options, lab),
     .help = "Uses the lab even where /dev/kvm would do."},
    {.name = "lab-vmx",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct run_options, lab_vmx),
     .help = "Uses the lab's second machine: VMX and kvm_intel, on the QEMU of make qemu."},
    {.name = "verify",
     .group = "What is made of it",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct run_options, verify),
     .help = "Compares the decoded path with the executed one, instruction by instruction."},
    {.name = "no-verify", .kind = OPTION_CALL, .take = take_no_verify},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct run_options, json),
     .help = "Prints one JSON object; the guest's console goes to standard error."},
    {.name = "trace-out",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct run_options, trace_out),
     .help =
         "Keeps the packets in FILE, and what decodes them in FILE.json (docs/trace-files.md)."},
    {.name = "path-out",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct run_options, path_out),
     .help = "Keeps the executed path in FILE. With --trace-out and --verify it is kept in "
             "FILE.path in any case."},
    {.name = "save-to",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct run_options, save_to),
     .help = "Stops the guest while it traces, and leaves it in FILE (docs/migration.md)."},
    {.name = "save-after",
     .value = "N",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct run_options, save_after),
     .help = "Of --save-to: after so many traced instructions.",
     .fallback = "100000"},
    {.name = "restore",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct run_options, restore),
     .help = "Goes on with the guest in FILE; profile, memory and processors are its own."},
    /* How the lab calls us. */
    {.name = "record-to",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct run_options, record_to)},
    {0},
};

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct run_options *options)
{
    const int code = options_parse(&command_run, argc, argv, options);

    if (code)
        return code;
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
    if (options->lab_vmx)
        return "--lab-vmx was given";
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
    progress_clear();
    if (!options->json)
        printf("vpt: running in the lab: %s\n", why);
    lab_run(options, result);
    snprintf(result->backend, sizeof(result->backend), "lab (QEMU TCG, %s): %.200s",
             options->lab_vmx ? "kvm_intel" : "kvm-amd", why);
}

/* Nothing has to be probed: the guest runs as any guest does. */
static void run_traced_by_host(struct run_options *options, const struct vpt_caps *caps,
                               struct run_result *result)
{
    options->steps_per_s = HOST_PT_STEPS_PER_S;
    if (!options->json)
        printf("vpt: running on /dev/kvm, traced by the host's Intel PT\n");
    kvm_run(options, caps, result);
    snprintf(result->backend, sizeof(result->backend), "/dev/kvm, traced by the host's Intel PT");
}

static void choose_and_run(struct run_options *options, const struct vpt_caps *caps,
                           struct run_result *result)
{
    struct probe probe = {0};
    const char *why;

    if (options->host_pt) {
        run_traced_by_host(options, caps, result);
        return;
    }
    if (!options->lab && !options->lab_vmx)
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
        result->end = RUN_HOST;
        snprintf(result->why, sizeof(result->why), "in the lab: %.200s", why);
        return;
    }
    run_in_lab(options, result, why);
}

/* A run that did not begin, or that the host ended, leaves nothing. */
static bool leaves_files(const struct run_result *result)
{
    return result->cpu_count > 0 && result->end != RUN_BAD_FILE && result->end != RUN_HOST;
}

static enum exit_code code_of(enum run_end end)
{
    switch (end) {
    case RUN_DONE:
        return EXIT_CODE_OK;
    case RUN_BAD_FILE:
        return EXIT_CODE_FILE;
    case RUN_CRASHED:
        return EXIT_CODE_CRASH;
    case RUN_TIMED_OUT:
        return EXIT_CODE_TIMEOUT;
    case RUN_HOST:
        break;
    }
    return EXIT_CODE_HOST;
}

/* What is left to do with a result: files, the report, the exit code. */
static int conclude(const struct run_options *options, const struct vpt_caps *caps,
                    const struct run_result *result, struct run_files *files)
{
    struct reason why = {0};
    int error, status;

    if (options->record_to) {
        error = record_write(options->record_to, result);
        return error ? complain(EXIT_CODE_HOST, "%s: %s", options->record_to, strerror(-error))
                     : EXIT_CODE_OK;
    }
    if (leaves_files(result)) {
        error = run_files_write(files, options, caps, result, &why);
        if (error)
            return complain(EXIT_CODE_FILE, "%s", why.text);
    }
    if (result->end != RUN_DONE)
        return complain(code_of(result->end), "%s", result->why);
    if (result->saved) {
        struct escaped room;

        if (!options->json)
            printf("vpt: saved to %s after %llu traced instructions\n",
                   escaped(options->save_to, &room), (unsigned long long)result->steps);
        return EXIT_CODE_OK;
    }
    if (options->verify || options->trace_out || options->json) {
        status = report(options, result, &why);
        if (status)
            return status < 0 ? complain_of(status, &why) : EXIT_CODE_MISMATCH;
    }
    if (result->guest_status != 0)
        return complain(EXIT_CODE_GUEST_FAILED, "the guest ended with status %u",
                        result->guest_status);
    return EXIT_CODE_OK;
}

/* CPUID.15H then tells that frequency. */
static uint32_t crystal_of(const struct vpt_caps *caps, uint32_t tsc_khz)
{
    return (uint32_t)(tsc_khz * UINT64_C(1000) * caps->tsc_den / caps->tsc_num);
}

/* A guest that was saved says itself what it needs. 0 or an exit code. */
static int take_saved(struct run_options *options, struct saved_guest *saved)
{
    char why[256];

    if (!options->restore)
        return 0;
    if (migrate_peek(options->restore, saved, why, sizeof(why)) != 0)
        return complain(EXIT_CODE_FILE, "%s", why);
    options->profile = saved->profile;
    options->mem_bytes = saved->mem_bytes;
    options->cpus = saved->cpus;
    return 0;
}

/* What the host's Intel PT cannot do. 0 or an exit code. */
static int check_host_pt(const struct run_options *options, struct vpt_caps *caps)
{
    struct reason why = {0};
    const char *cannot = NULL;
    int error;

    if (!options->host_pt)
        return options->overflow_behind || options->recorder
                   ? complain(EXIT_CODE_USAGE, "--%s is of --source host-pt",
                              options->recorder ? "recorder" : "behind")
                   : 0;
    if (options->keep_path)
        cannot = "tells no executed path: no --verify, --path-out or --save-to";
    else if (options->restore)
        cannot = "cannot go on with a saved guest";
    else if (options->lab || options->lab_vmx)
        cannot = "is of this host, not of the lab";
    else if (options->tsc_khz)
        cannot = "needs a guest with the host's TSC frequency";
    else if (options->absent_bytes)
        cannot = "needs a guest whose memory is all there: no --absent";
    else if (caps->rtit)
        cannot = "has no RTIT";
    if (cannot)
        return complain(EXIT_CODE_USAGE, "--source host-pt %s", cannot);
    error = host_pt_limit(caps, &why);
    return error ? complain(EXIT_CODE_HOST, "%s", why.text) : 0;
}

/* What can be told to be wrong before the run. 0 or an exit code. */
static int check_options(const struct run_options *options, struct vpt_caps *caps)
{
    char why[256];

    if (!vpt_profile(options->profile, caps))
        return no_such("profile", options->profile, profile_word, "vpt profiles");
    if (options->tsc_khz && (options->save_to || options->restore))
        return complain(EXIT_CODE_USAGE, "a saved guest has the host's TSC: no --tsc-khz");
    if (caps->rtit && options->save_to)
        return complain(EXIT_CODE_USAGE, "a processor with RTIT cannot be saved");
    if (options->rtit_errata && !caps->rtit)
        return complain(EXIT_CODE_USAGE, "profile '%s' has no RTIT", options->profile);
    if (image_check(options->image, why, sizeof(why)) != 0)
        return complain(EXIT_CODE_FILE, "%s", why);
    if (options->absent_gpa > options->mem_bytes ||
        options->absent_bytes > options->mem_bytes - options->absent_gpa)
        return complain(EXIT_CODE_USAGE, "--absent lies outside of the guest's memory");
    return check_host_pt(options, caps);
}

static int run_guest(struct run_options *options, struct vpt_caps *caps)
{
    struct run_result result = {0};
    struct run_files files = {0};
    struct reason why = {0};
    int code;

    if (options->tsc_khz && caps->crystal_hz)
        caps->crystal_hz = crystal_of(caps, options->tsc_khz);
    if (run_files_open(&files, options, &why) != 0)
        return complain(EXIT_CODE_FILE, "%s", why.text);
    choose_and_run(options, caps, &result);
    progress_clear();
    code = conclude(options, caps, &result, &files);
    run_files_drop(&files);
    run_result_free(&result);
    return code;
}

static int run(int argc, char **argv)
{
    struct run_options options = {
        .profile = DEFAULT_PROFILE,
        .mem_bytes = DEFAULT_MEM,
        .cpus = 1,
        .timeout_s = DEFAULT_TIMEOUT,
        .save_after = DEFAULT_SAVE_AFTER,
    };
    struct saved_guest saved;
    struct vpt_caps caps;
    char guest[PATH_MAX], qemu[PATH_MAX];
    int code = parse(argc, argv, &options);

    if (code)
        return code - 1;
    own_qemu(qemu, sizeof(qemu));
    options.lab_qemu = qemu;
    if (options.lab_vmx && access(qemu, X_OK) != 0)
        return no_own_qemu(qemu, errno);
    options.image = data_guest(options.image, guest, sizeof(guest));
    code = take_saved(&options, &saved);
    if (!code)
        code = check_options(&options, &caps);
    return code ? code : run_guest(&options, &caps);
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_GUEST_FAILED, "The guest's status was not 0."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file is missing or bad, or cannot be written."},
    {EXIT_CODE_HOST, "The host lacks something."},
    {EXIT_CODE_CRASH, "The guest crashed."},
    {EXIT_CODE_TIMEOUT, "The guest did not end within --timeout."},
    {EXIT_CODE_MISMATCH, "--verify found a difference."},
    {0},
};

const struct subcommand command_run = {
    .name = "run",
    .about = "run a guest image that may trace itself",
    .synopsis = "[OPTION...] IMAGE.elf",
    .text = "Runs a 64-bit guest image (docs/guests.md) with a virtual Intel PT. Where /dev/kvm is "
            "missing or cannot do what is needed, the run moves itself into the lab (QEMU, TCG).",
    .options = options_of_run,
    .exits = exits,
    .run = run,
};
