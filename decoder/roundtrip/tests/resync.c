/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of random programs, of which some functions are missing: how much is told behind a gap,
 * and whether it is right, with TIPs that are deferred (SDM 33.4.2.3) and with those that are not.
 */
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/referee.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roundtrip/gaps.h"
#include "ptdec.h"
#include "suites.h"

#define INSNS 30000u
#define SEEDS 6u

struct recording {
    struct image user, kernel;
    struct ptd_image *whole, *part;
    uint8_t *trace;
    size_t len_bytes;
};

/* How it was traced. */
struct setting {
    bool deferred_tips, no_ret_compression;
};

/* What is left of an image: functions, of which about one in eight is missing. */
static void add_left(struct ptd_image *part, const struct image *image, struct random *random)
{
    for (size_t i = 0; i < image->functions; i++) {
        const struct insn *const first = &image->insn[image->function[i]];
        const size_t end = i + 1 < image->functions ? image->insn[image->function[i + 1]].offset
                                                    : image->len_bytes;

        if (draw(random, 8) == 0)
            continue;
        CU_ASSERT_EQUAL(ptd_image_add_bytes(part, NULL, image->base + first->offset,
                                            image->code + first->offset, end - first->offset,
                                            PTD_ANY_CR3),
                        PTD_OK);
    }
}

static void add_all(struct ptd_image *whole, const struct image *image)
{
    CU_ASSERT_EQUAL(
        ptd_image_add_bytes(whole, NULL, image->base, image->code, image->len_bytes, PTD_ANY_CR3),
        PTD_OK);
}

static void run(struct fake *fake, struct walk *walk, struct random *random, uint64_t ctl)
{
    for (unsigned i = 0; i < INSNS; i++) {
        struct vpt_context ctx = walk_context(walk);
        struct vpt_transfer transfer;

        if (i == 0 || draw(random, 2000) == 0) {
            const uint64_t next = vpt_trigger_en(&fake->cpu) ? ctl & ~VPT_CTL_TRACEEN : ctl;

            vpt_set_context(&fake->cpu, &ctx);
            vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, next, walk_ip(walk), walk_ip(walk));
        }
        if (draw(random, 1500) == 0)
            vpt_exec_stop(&fake->cpu, walk_ip(walk));
        if (walk_interrupt(walk, &transfer))
            vpt_transfer(&fake->cpu, &transfer);
        walk_step(walk, &fake->cpu);
    }
    vpt_flush(&fake->cpu);
}

static void record(struct recording *recording, uint64_t seed, const struct setting *setting)
{
    struct random random = {seed * 2654435761u + 88172645463325252ull};
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;
    struct walk walk;

    caps.deferred_tips = setting->deferred_tips;
    fake = fake_open_caps(&caps);
    program_make(&recording->user, &recording->kernel, &random);
    walk_start(&walk, &recording->user, &recording->kernel, &random);
    walk.interrupts_per_1024 = 4;
    fake_output(fake);
    run(fake, &walk, &random,
        VPT_CTL_TRACEEN | VPT_CTL_TOPA | VPT_CTL_BRANCHEN | VPT_CTL_OS | VPT_CTL_USER |
            VPT_CTL_PWREVTEN | (setting->no_ret_compression ? VPT_CTL_DISRETC : 0));
    recording->len_bytes = fake->tap_len;
    recording->trace = malloc(fake->tap_len);
    memcpy(recording->trace, fake->tap, fake->tap_len);
    fake_close(fake);
    recording->whole = ptd_image_new();
    recording->part = ptd_image_new();
    add_all(recording->whole, &recording->user);
    add_all(recording->whole, &recording->kernel);
    add_left(recording->part, &recording->user, &random);
    add_left(recording->part, &recording->kernel, &random);
}

static void forget(struct recording *recording)
{
    ptd_image_free(recording->whole);
    ptd_image_free(recording->part);
    free(recording->trace);
}

/* All ways to decode tell the same of it. */
static void check_ways(const struct recording *recording, const struct ptd_flow_config *config)
{
    for (unsigned timing = 0; timing < 3; timing++) {
        const struct referee_trace trace = {.bytes = recording->trace,
                                            .len_bytes = recording->len_bytes,
                                            .image = recording->part,
                                            .config = config,
                                            .timing = (enum ptd_timing)timing};

        CU_ASSERT_TRUE(referee_run(&trace, 4096).same);
        CU_ASSERT_TRUE(referee_parallel(&trace, 2, 1024).same);
        CU_ASSERT_TRUE(referee_stream(&trace, timing + 1, 300, NULL).same);
    }
}

static struct gaps_verdict check(const struct recording *recording, enum ptd_resync resync)
{
    const struct gaps_trace trace = {
        .bytes = recording->trace,
        .len_bytes = recording->len_bytes,
        .whole = recording->whole,
        .part = recording->part,
        .config = {.mode = PTD_MODE_64, .resync = (uint8_t)resync},
    };

    check_ways(recording, &trace.config);
    return gaps_check(&trace);
}

static void add(struct gaps_verdict *sum, const struct gaps_verdict *one)
{
    sum->known += one->known;
    sum->told += one->told;
    sum->gaps += one->gaps;
    sum->lost_bytes += one->lost_bytes;
    if (one->wrong > 0 && sum->wrong == 0)
        memcpy(sum->difference, one->difference, sizeof(sum->difference));
    sum->wrong += one->wrong;
}

/* Sums over some programs: [PTD_RESYNC_PSB], [PTD_RESYNC_IP]. */
static void try(const struct setting *setting, struct gaps_verdict sums[2])
{
    static struct recording recording;

    memset(sums, 0, 2 * sizeof(*sums));
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        record(&recording, seed, setting);
        for (unsigned resync = 0; resync < 2; resync++) {
            const struct gaps_verdict verdict = check(&recording, (enum ptd_resync)resync);

            add(&sums[resync], &verdict);
        }
        forget(&recording);
    }
    for (unsigned resync = 0; resync < 2; resync++) {
        if (sums[resync].wrong && !(setting->deferred_tips && resync == PTD_RESYNC_IP))
            printf("\nat the next %s: %s\n", resync == PTD_RESYNC_IP ? "IP" : "PSB",
                   sums[resync].difference);
    }
}

/* At least percent of what ran in code that is there. */
static bool is_told(const struct gaps_verdict *sum, unsigned percent)
{
    return sum->told * 100 >= sum->known * percent;
}

/* RTIT_CTL.DisRETC is 1, as in every trace of hardware that was seen. */
static void without_ret_compression(void)
{
    struct gaps_verdict sums[2];

    try(&(struct setting){.no_ret_compression = true}, sums);
    CU_ASSERT_TRUE(sums[PTD_RESYNC_PSB].gaps > SEEDS);
    CU_ASSERT_EQUAL(sums[PTD_RESYNC_PSB].wrong, 0);
    CU_ASSERT_EQUAL(sums[PTD_RESYNC_IP].wrong, 0);
    CU_ASSERT_TRUE(is_told(&sums[PTD_RESYNC_IP], 95));
    CU_ASSERT_FALSE(is_told(&sums[PTD_RESYNC_PSB], 50));
}

/* Who returns where, nobody knows behind a gap. */
static void ret_compression(void)
{
    struct gaps_verdict sums[2];

    try(&(struct setting){0}, sums);
    CU_ASSERT_EQUAL(sums[PTD_RESYNC_PSB].wrong, 0);
    CU_ASSERT_EQUAL(sums[PTD_RESYNC_IP].wrong, 0);
    CU_ASSERT_TRUE(sums[PTD_RESYNC_IP].told > 2 * sums[PTD_RESYNC_PSB].told);
}

/* Why the next IP must not be taken without being asked for. */
static void deferred_tips(void)
{
    struct gaps_verdict sums[2];

    try(&(struct setting){.deferred_tips = true}, sums);
    CU_ASSERT_EQUAL(sums[PTD_RESYNC_PSB].wrong, 0);
    CU_ASSERT_TRUE(sums[PTD_RESYNC_PSB].told > 0);
    CU_ASSERT_NOT_EQUAL(sums[PTD_RESYNC_IP].wrong, 0);
}

void add_resync_suite(void)
{
    CU_pSuite const suite = CU_add_suite("missing code", NULL, NULL);

    CU_add_test(suite, "without RET compression", without_ret_compression);
    CU_add_test(suite, "with RET compression", ret_compression);
    CU_add_test(suite, "with deferred TIPs", deferred_tips);
}
