/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of hardware, repeated by the model: decoded to their path, told to a fresh model that is
 * configured as the processor was, and compared packet by packet. docs/replay.md says how to record
 * a trace, and what the table means.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bundle.h"
#include "code.h"
#include "models.h"
#include "options.h"
#include "perf.h"
#include "ptdec_perf.h"

#define TRIAL_BYTES ((size_t)256 << 10)
#define TRIAL_MAX   ((size_t)64 << 20)
#define PATH_BYTES  4096u
#define MTC_PERIODS (0xffffu << 16)
#define PERIODS     0xffffffffu
#define PSB_SELDOM  ((uint64_t)15 << VPT_CTL_PSBFREQ_SHR)

static unsigned passed, failed;

/* ---- The processor ---- */

/* Which profile a trace is compared with, and why. */
struct choice {
    const char *profile, *why;
    bool is_near; /* not known by a trace of this processor */
};

static struct choice choose(const struct options *options)
{
    struct model_profile of_model;

    if (options->profile)
        return (struct choice){options->profile, "", false};
    if (!options->has_cpu)
        return (struct choice){"plain", " (neither --cpu nor --profile was given)", true};
    of_model = model_profile(options->family, options->model);
    if (!of_model.name)
        return (struct choice){"plain", " (the processor is not known)", true};
    return (struct choice){of_model.name, of_model.is_near ? " (the nearest)" : "",
                           of_model.is_near};
}

/*
 * What the trace shows that the processor can do, it can do. PSBs come only where the hardware's
 * are: the model's own would come after 64 MiB.
 */
static bool fill_caps(const struct choice *choice, const struct survey *survey,
                      struct vpt_caps *caps)
{
    if (!vpt_profile(choice->profile, caps))
        return false;
    caps->leaf14_0_ebx |= VPT_CAP_CR3FILTER | VPT_CAP_PSB_CYC | VPT_CAP_IPFILTER | VPT_CAP_MTC;
    if (survey->counts[PTD_PTW] > 0)
        caps->leaf14_0_ebx |= VPT_CAP_PTWRITE;
    if (survey->cfe || survey->interrupts)
        caps->leaf14_0_ebx |= VPT_CAP_EVENT;
    if (survey->power)
        caps->leaf14_0_ebx |= VPT_CAP_POWER;
    caps->leaf14_0_ecx |= VPT_CAP_TOPA | VPT_CAP_MENTRY;
    caps->leaf14_1_eax = MTC_PERIODS | VPT_MAX_RANGES;
    caps->leaf14_1_ebx = PERIODS;
    caps->topa_pmi_early_bytes = 0;
    caps->supported = true;
    caps->vmx_misc_pt = true;
    caps->tsx = survey->counts[PTD_MODE_TSX] > 0;
    caps->long_tnt = survey->long_tnt;
    caps->pebs = survey->counts[PTD_BBP] > 0;
    caps->triggers = survey->counts[PTD_TRIG] > 0;
    caps->fred = survey->fred;
    if (survey->ip_64)
        caps->linear_bits = 57;
    if (choice->is_near)
        caps->choices.ip_full_64 = survey->ip_64; /* one look decides it */
    return true;
}

/* RTIT_CTL as the packets show it. */
static uint64_t ctl_of(const struct options *options, const struct survey *survey, bool user_only)
{
    const int freq = options->mtc_freq >= 0 ? options->mtc_freq : survey->mtc_freq;
    uint64_t ctl = VPT_CTL_BRANCHEN | VPT_CTL_DISRETC | PSB_SELDOM;

    ctl |= user_only ? VPT_CTL_USER : VPT_CTL_OS | (options->kernel_only ? 0 : VPT_CTL_USER);
    if (2 * survey->counts[PTD_TSC] >= survey->counts[PTD_PSB]) /* each PSB+ has one, or none */
        ctl |= VPT_CTL_TSCEN;
    if (survey->counts[PTD_MTC] > 0)
        ctl |= VPT_CTL_MTCEN | (uint64_t)(freq >= 0 ? freq : 0) << VPT_CTL_MTCFREQ_SHR;
    if (survey->counts[PTD_CYC] > 0)
        ctl |= VPT_CTL_CYCEN;
    if (survey->counts[PTD_PTW] > 0)
        ctl |= VPT_CTL_PTWEN | (survey->ptw_ip ? VPT_CTL_FUPONPTW : 0);
    ctl |= survey->cfe ? VPT_CTL_EVENTEN : 0;
    ctl |= survey->power ? VPT_CTL_PWREVTEN : 0;
    for (unsigned n = 0; n < options->filters; n++)
        ctl |= (uint64_t)VPT_ADDR_CFG_FILTER << (VPT_CTL_ADDR_CFG_SHR + 4 * n);
    for (unsigned n = 0; n < options->stops; n++)
        ctl |= (uint64_t)VPT_ADDR_CFG_TRACESTOP
               << (VPT_CTL_ADDR_CFG_SHR + 4 * (options->filters + n));
    return ctl;
}

static void fill_ranges(const struct options *options, struct replay *replay)
{
    replay->flow.filters = (uint8_t)options->filters;
    for (unsigned n = 0; n < options->filters; n++) {
        replay->flow.filter[n].first = replay->rig.range[n][0] = options->filter[n].first;
        replay->flow.filter[n].last = replay->rig.range[n][1] = options->filter[n].last;
    }
    for (unsigned n = 0; n < options->stops; n++) {
        replay->rig.range[options->filters + n][0] = options->stop[n].first;
        replay->rig.range[options->filters + n][1] = options->stop[n].last;
    }
}

/* ---- A trace ---- */

static void report(bool ok, const char *trace, const char *what)
{
    printf("%s: %s: %s\n", ok ? "ok" : "FAILED", trace, what);
    if (ok)
        passed++;
    else
        failed++;
}

/* How many packets agree if RETs are compressed, and how many if not. */
static void compare_retc(struct replay *trial, uint64_t *equal)
{
    const uint64_t ctl = trial->rig.ctl;

    for (unsigned on = 0; on < 2; on++) {
        struct replay_result result;

        trial->rig.ctl = on ? ctl & ~VPT_CTL_DISRETC : ctl;
        equal[on] = replay_run(trial, &result) == PTD_OK ? result.tally.equal : 0;
        tally_close(&result.tally);
    }
    trial->rig.ctl = ctl;
}

/*
 * Whether RETs were compressed: the answer that more packets agree with. The beginning tells, but
 * for traces of which that is PADs or unknown code.
 */
static bool try_retc(const struct replay *replay)
{
    uint64_t equal[2] = {0, 0};

    for (size_t bytes = TRIAL_BYTES; equal[0] == equal[1]; bytes *= 16) {
        struct replay trial = *replay;

        if (trial.len_bytes > bytes)
            trial.len_bytes = bytes;
        compare_retc(&trial, equal);
        if (bytes >= replay->len_bytes || bytes >= TRIAL_MAX)
            break;
    }
    return equal[1] > equal[0];
}

static uint64_t packet_count(const struct survey *survey)
{
    uint64_t count = 0;

    for (unsigned type = 0; type < PTD_PACKET_TYPES; type++)
        count += type == PTD_PAD ? 0 : survey->counts[type];
    return count;
}

static void print_result(const char *trace, const struct choice *choice,
                         const struct replay *replay, const struct survey *survey,
                         const struct replay_result *result)
{
    const uint64_t all = packet_count(survey);

    printf("%s: %zu bytes, profile %s%s, RTIT_CTL %#" PRIx64 ", %s\n", trace, replay->len_bytes,
           choice->profile, choice->why, replay->rig.ctl & ~PSB_SELDOM,
           replay->rig.ctl & VPT_CTL_DISRETC ? "no RET is compressed" : "RETs are compressed");
    printf("  %" PRIu64 " instructions; %" PRIu64 " pieces, %" PRIu64 " gaps of %" PRIu64
           " bytes%s%s\n",
           result->insns, result->pieces, result->gaps, result->lost_bytes,
           result->gaps ? ", the first " : "", result->first_gap);
    tally_print(&result->tally, stdout);
    if (result->tally.packets < all)
        printf("  %" PRIu64 " packets were not compared: in gaps, in front of the first PSB, or "
               "behind the last whole event\n",
               all - result->tally.packets);
}

/* PADs that differ are a mistake of the model only where it is known where they stand. */
static void judge_pads(const char *trace, const char *profile, const struct replay *replay,
                       const struct tally *tally)
{
    const bool cycles = replay->rig.ctl & VPT_CTL_CYCEN;
    const bool equal = tally->places == tally->places_equal;

    if (replay->rig.caps.choices.layout != VPT_LAYOUT_DENSE &&
        (equal || (model_knows_pads(profile) && !cycles)))
        report(equal, trace, "PADs");
    else
        printf("not judged: %s: PADs, whose rules are not known %s\n", trace,
               cycles ? "where there are CYC packets" : "well enough of this processor");
}

static void judge(const char *trace, const char *profile, const struct replay *replay,
                  const struct tally *tally)
{
    report(tally->packets > 0 && tally->equal == tally->packets && tally->extra == 0, trace,
           "packets");
    report(tally->psbs > 0 && tally->psbs_equal == tally->psbs, trace, "contents of PSB+");
    judge_pads(trace, profile, replay, tally);
}

/* Nothing of a trace could be compared. That is no fault of one of many that a file holds. */
static void nothing_compared(const char *trace, const struct options *options, const char *why)
{
    if (options->is_part)
        printf("not compared: %s: %s\n", trace, why);
    else
        report(false, trace, why);
}

/* NULL, and *replay is filled in; or what is wrong. */
static const char *configure(const struct options *options, const struct choice *choice,
                             const struct survey *survey, struct replay *replay)
{
    if (!fill_caps(choice, survey, &replay->rig.caps))
        return "there is no such profile; `vpt profiles` lists them";
    replay->user_only =
        options->user_only || (survey->counts[PTD_PIP] == 0 && !options->kernel_only);
    replay->kernel_only = options->kernel_only;
    replay->nonroot = options->nonroot;
    replay->flow.mode = options->mode;
    replay->flow.cr3 = options->cr3;
    replay->rig.ctl = ctl_of(options, survey, replay->user_only);
    fill_ranges(options, replay);
    return vpt_caps_check(&replay->rig.caps);
}

/* One that was decoded, at least as far as it could be. */
static void conclude(const char *trace, const struct options *options, const struct choice *choice,
                     const struct replay *replay, const struct survey *survey,
                     const struct replay_result *result)
{
    char why[64 + EXAMPLE_BYTES];

    if (result->tally.packets == 0 || (result->insns == 0 && result->gaps > 0)) {
        (void)snprintf(why, sizeof(why), "nothing of it could be replayed; the first gap %s",
                       result->gaps ? result->first_gap : "is the whole trace");
        nothing_compared(trace, options, why);
        return;
    }
    print_result(trace, choice, replay, survey, result);
    judge(trace, choice->profile, replay, &result->tally);
}

static void run(const char *trace, const struct options *options, const uint8_t *bytes,
                size_t len_bytes, uint64_t base)
{
    struct replay replay = {
        .bytes = bytes, .len_bytes = len_bytes, .base = base, .image = options->image};
    const struct choice choice = choose(options);
    struct replay_result result;
    struct survey survey;
    const char *wrong;
    int status;

    /* The PSB+ of an enabling may say on any processor that PacketEn is 1. */
    replay.flow.errata = ptd_errata(options->family, options->model) | PTD_BDM70;
    survey_trace(bytes, len_bytes, replay.flow.errata, &survey);
    if (survey.counts[PTD_PSB] == 0) {
        nothing_compared(trace, options,
                         "no PSB packet: this is no trace, or it was cut too short");
        return;
    }
    if (survey.pgd_ip && options->filters + options->stops == 0)
        printf("%s: it may have been filtered by addresses: tell the ranges with --filter\n",
               trace);
    wrong = configure(options, &choice, &survey, &replay);
    if (wrong) {
        report(false, trace, wrong);
        return;
    }
    if (options->retc == RETC_ON || (options->retc == RETC_TRY && try_retc(&replay)))
        replay.rig.ctl &= ~VPT_CTL_DISRETC;
    status = replay_run(&replay, &result);
    if (status == PTD_OK)
        conclude(trace, options, &choice, &replay, &survey, &result);
    else
        report(false, trace,
               status == PTD_E_ARG ? "the model does not take its configuration"
                                   : ptd_strerror(status));
    tally_close(&result.tally);
}

/* A file that says itself what it holds. NULL, or what is wrong with it. */
static const char *run_container(const char *path, const struct options *options,
                                 const struct mapped *file)
{
    const unsigned before = passed + failed;
    struct options own = *options;
    const char *wrong;

    own.is_part = true;
    wrong = ptd_perf_detect(file->bytes, file->len_bytes)
                ? perf_each_trace(path, file->bytes, file->len_bytes, &own, run)
                : bundle_each_trace(path, file->bytes, file->len_bytes, &own, run);
    if (!wrong && passed + failed == before)
        wrong = "none of its traces could be compared";
    return wrong;
}

/*
 * A folder that `perf record --kcore` made: the trace in it, and the kernel's code. *path becomes
 * that of the trace.
 */
static const char *enter_folder(const char **path, char *inside, const struct options *options)
{
    struct stat status;

    if (stat(*path, &status) != 0 || !S_ISDIR(status.st_mode))
        return NULL;
    if (snprintf(inside, PATH_BYTES, "%s/kcore_dir/kcore", *path) >= (int)PATH_BYTES)
        return "its name is too long";
    if (ptd_image_add_elf(options->image, inside, 0, PTD_ANY_CR3) != PTD_OK)
        printf("there is no code of %s\n", inside);
    (void)snprintf(inside, PATH_BYTES, "%s/data", *path);
    *path = inside;
    return NULL;
}

static void run_file(const char *path, const struct options *options)
{
    char inside[PATH_BYTES];
    struct mapped file = {NULL, 0};
    const char *wrong = enter_folder(&path, inside, options);
    int status = PTD_OK;

    if (!wrong)
        status = code_map(path, &file);
    if (status != PTD_OK)
        wrong = status == PTD_E_FORMAT ? "it is empty, or no file" : ptd_strerror(status);
    else if (!wrong && (ptd_perf_detect(file.bytes, file.len_bytes) ||
                        bundle_detect(file.bytes, file.len_bytes)))
        wrong = run_container(path, options, &file);
    else if (!wrong && options->has_image)
        run(path, options, file.bytes, file.len_bytes, 0);
    else if (!wrong)
        wrong = "no code is given: see --elf, --raw and --pages";
    if (wrong)
        report(false, path, wrong);
    code_unmap(&file);
}

int main(int argc, char **argv)
{
    struct options options;
    int exit_code;

    if (options_read(&options, argc, argv, &exit_code)) {
        for (int i = 0; i < options.traces; i++)
            run_file(argv[1 + i], &options);
        printf("%u passed, %u failed\n", passed, failed);
        exit_code = failed ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    options_free(&options);
    return exit_code;
}
