/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of hardware, repeated by the model: decoded to their path, told to a fresh model that is
 * configured as the processor was, and compared packet by packet. docs/replay.md says how to record
 * a trace, and what the table means.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "options.h"
#include "perf.h"
#include "ptdec_perf.h"

#define TRIAL_BYTES (256u << 10)
#define MTC_PERIODS (0xffffu << 16)
#define PERIODS     0xffffffffu
#define PSB_SELDOM  ((uint64_t)15 << VPT_CTL_PSBFREQ_SHR)

static unsigned passed, failed;

/* ---- The processor ---- */

/* Processors that send packets as one does that there is a profile for. */
static const struct {
    uint8_t model, like;
} alike[] = {
    {0x3d, 79},  {0x47, 79},  {0x56, 79},              /* Broadwell */
    {0x4e, 94},  {0x8e, 94},  {0x9e, 94},  {0xa5, 94}, /* Skylake to Comet Lake */
    {0xa6, 94},  {0x7d, 126},                          /* Ice Lake */
    {0x8c, 126}, {0x8d, 126}, {0xa7, 126},             /* Tiger and Rocket Lake */
};

static const char *profile_of_model(unsigned model)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        const char *const name = vpt_profile_name(i);
        struct vpt_caps caps;

        if (vpt_profile(name, &caps) && caps.choices.family == 6 && caps.choices.model == model)
            return name;
    }
    return NULL;
}

static const char *profile_of(const struct options *options)
{
    const char *name;

    if (options->profile)
        return options->profile;
    if (!options->has_cpu || options->family != 6)
        return "plain";
    name = profile_of_model(options->model);
    for (size_t i = 0; !name && i < sizeof(alike) / sizeof(alike[0]); i++)
        if (alike[i].model == options->model)
            name = profile_of_model(alike[i].like);
    return name ? name : "plain";
}

/*
 * What the trace shows that the processor can do, it can do. PSBs come only where the hardware's
 * are: the model's own would come after 64 MiB.
 */
static bool fill_caps(const char *name, const struct survey *survey, struct vpt_caps *caps)
{
    if (!vpt_profile(name, caps))
        return false;
    caps->leaf14_0_ebx |= VPT_CAP_CR3FILTER | VPT_CAP_PSB_CYC | VPT_CAP_IPFILTER | VPT_CAP_MTC;
    if (survey->counts[PTD_PTW] > 0)
        caps->leaf14_0_ebx |= VPT_CAP_PTWRITE;
    caps->leaf14_0_ecx |= VPT_CAP_TOPA | VPT_CAP_MENTRY;
    caps->leaf14_1_eax = MTC_PERIODS | VPT_MAX_RANGES;
    caps->leaf14_1_ebx = PERIODS;
    caps->topa_pmi_early_bytes = 0;
    caps->supported = true;
    caps->vmx_misc_pt = true;
    caps->tsx = survey->counts[PTD_MODE_TSX] > 0;
    caps->long_tnt = survey->long_tnt;
    if (survey->ip_64)
        caps->linear_bits = 57;
    return true;
}

/* RTIT_CTL as the packets show it. */
static uint64_t ctl_of(const struct options *options, const struct survey *survey, bool user_only)
{
    const int freq = options->mtc_freq >= 0 ? options->mtc_freq : survey->mtc_freq;
    uint64_t ctl = VPT_CTL_BRANCHEN | VPT_CTL_DISRETC | PSB_SELDOM;

    ctl |= user_only ? VPT_CTL_USER : VPT_CTL_OS | (options->kernel_only ? 0 : VPT_CTL_USER);
    if (survey->counts[PTD_TSC] > 0)
        ctl |= VPT_CTL_TSCEN;
    if (survey->counts[PTD_MTC] > 0)
        ctl |= VPT_CTL_MTCEN | (uint64_t)(freq >= 0 ? freq : 0) << VPT_CTL_MTCFREQ_SHR;
    if (survey->counts[PTD_CYC] > 0)
        ctl |= VPT_CTL_CYCEN;
    if (survey->counts[PTD_PTW] > 0)
        ctl |= VPT_CTL_PTWEN | (survey->ptw_ip ? VPT_CTL_FUPONPTW : 0);
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

/* Whether RETs were compressed: the answer that more packets agree with. */
static bool try_retc(const struct replay *replay)
{
    struct replay trial = *replay;
    uint64_t equal[2] = {0, 0};

    if (trial.len_bytes > TRIAL_BYTES)
        trial.len_bytes = TRIAL_BYTES;
    for (unsigned on = 0; on < 2; on++) {
        struct replay_result result;

        trial.rig.ctl = on ? replay->rig.ctl & ~VPT_CTL_DISRETC : replay->rig.ctl;
        if (replay_run(&trial, &result) == PTD_OK)
            equal[on] = result.tally.equal;
        tally_close(&result.tally);
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

static void print_result(const char *trace, const char *profile, const struct replay *replay,
                         const struct survey *survey, const struct replay_result *result)
{
    const uint64_t all = packet_count(survey);

    printf("%s: %zu bytes, profile %s, RTIT_CTL %#" PRIx64 ", %s\n", trace, replay->len_bytes,
           profile, replay->rig.ctl & ~PSB_SELDOM,
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

static void judge(const char *trace, const struct replay *replay,
                  const struct replay_result *result)
{
    const struct tally *const tally = &result->tally;
    const uint8_t layout = replay->rig.caps.choices.layout;

    report(tally->packets > 0 && tally->equal == tally->packets && tally->extra == 0, trace,
           "packets");
    report(tally->psbs > 0 && tally->psbs_equal == tally->psbs, trace, "contents of PSB+");
    if (layout == VPT_LAYOUT_DENSE || (replay->rig.ctl & VPT_CTL_CYCEN))
        printf("not judged: %s: PADs, whose rules are not known %s\n", trace,
               layout == VPT_LAYOUT_DENSE ? "of this profile" : "where there are CYC packets");
    else
        report(tally->places == tally->places_equal, trace, "PADs");
}

/* NULL, and *replay is filled in; or what is wrong. */
static const char *configure(const struct options *options, const char *profile,
                             const struct survey *survey, struct replay *replay)
{
    if (survey->counts[PTD_PSB] == 0)
        return "no PSB packet: this is no trace, or it was cut too short";
    if (survey->pgd_ip && options->filters + options->stops == 0)
        return "it was filtered by addresses: tell the ranges with --filter";
    if (!fill_caps(profile, survey, &replay->rig.caps))
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

static void run(const char *trace, const struct options *options, const uint8_t *bytes,
                size_t len_bytes, uint64_t base)
{
    struct replay replay = {
        .bytes = bytes, .len_bytes = len_bytes, .base = base, .image = options->image};
    const char *const profile = profile_of(options);
    struct replay_result result;
    struct survey survey;
    const char *wrong;
    int status;

    /* The PSB+ of an enabling may say on any processor that PacketEn is 1. */
    replay.flow.errata = ptd_errata(options->family, options->model) | PTD_BDM70;
    survey_trace(bytes, len_bytes, replay.flow.errata, &survey);
    wrong = configure(options, profile, &survey, &replay);
    if (wrong) {
        report(false, trace, wrong);
        return;
    }
    if (options->retc == RETC_ON || (options->retc == RETC_TRY && try_retc(&replay)))
        replay.rig.ctl &= ~VPT_CTL_DISRETC;
    status = replay_run(&replay, &result);
    if (status == PTD_OK) {
        print_result(trace, profile, &replay, &survey, &result);
        judge(trace, &replay, &result);
    } else {
        report(false, trace,
               status == PTD_E_ARG ? "the model does not take its configuration"
                                   : ptd_strerror(status));
    }
    tally_close(&result.tally);
}

static void run_file(const char *path, const struct options *options)
{
    struct mapped file;
    const int status = code_map(path, &file);
    const char *wrong = NULL;

    if (status != PTD_OK)
        wrong = ptd_strerror(status);
    else if (ptd_perf_detect(file.bytes, file.len_bytes))
        wrong = perf_each_trace(path, file.bytes, file.len_bytes, options, run);
    else if (options->has_image)
        run(path, options, file.bytes, file.len_bytes, 0);
    else
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
        for (int i = options.traces; i < argc; i++)
            run_file(argv[i], &options);
        printf("%u passed, %u failed\n", passed, failed);
        exit_code = failed ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    options_free(&options);
    return exit_code;
}
