/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replay: random programs on random processors are traced by the model, and the traces repeated as
 * those of hardware are. All that differs is a mistake of the replay: it has told something else
 * than what happened, or at another place.
 *
 * Where packets do not tell what happened, nothing is drawn: TraceEn that changes while an IP
 * filter hides where the processor is, a filter on processors that have none and send PSB+ twice,
 * and an overflow between a CYC packet and its TNT.
 */
#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roundtrip/replay/source.h"
#include "suites.h"
#include "tests/program.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RUNS         60u
#define INSTRUCTIONS 20000u
#define PSB_SELDOM   ((uint64_t)15 << VPT_CTL_PSBFREQ_SHR)

/* By name, so that runs stay the same when there are more. */
static const char *const profiles[] = {"plain",          "broadwell",     "skylake",
                                       "cascade-lake",   "goldmont-plus", "icelake-client",
                                       "icelake-server", "gracemont",     "sapphire-rapids"};

struct run {
    struct random random;
    struct image user, kernel;
    struct walk walk;
    struct rig rig;
    struct replay replay;
    bool toggles, overflows;
};

static bool one_in(struct run *run, uint32_t count)
{
    return draw(&run->random, count) == 0;
}

static uint64_t draw_ctl(struct run *run)
{
    static const uint64_t cpls[] = {VPT_CTL_OS | VPT_CTL_USER, VPT_CTL_OS, VPT_CTL_USER};
    uint64_t ctl = VPT_CTL_BRANCHEN | cpls[draw(&run->random, 3)];

    if (one_in(run, 2))
        ctl |= VPT_CTL_DISRETC;
    if (one_in(run, 2))
        ctl |= VPT_CTL_TSCEN;
    if (one_in(run, 2))
        ctl |= VPT_CTL_MTCEN | (uint64_t)draw(&run->random, 4) << VPT_CTL_MTCFREQ_SHR;
    if (one_in(run, 2))
        ctl |= VPT_CTL_CYCEN;
    return ctl;
}

/* Half of an image, in whole functions. */
static void choose_range(struct run *run, unsigned n, const struct image *image)
{
    const uint32_t half = (uint32_t)image->functions / 2;
    const uint32_t first = draw(&run->random, (uint32_t)image->functions - half);
    const struct insn *const begin = &image->insn[image->function[first]];
    const struct insn *const last = &image->insn[image->function[first + half] - 1];

    run->replay.flow.filter[n].first = run->replay.rig.range[n][0] = image->base + begin->offset;
    run->replay.flow.filter[n].last = run->replay.rig.range[n][1] = image->base + last->offset;
    run->replay.flow.filters++;
    run->replay.rig.ctl |= (uint64_t)VPT_ADDR_CFG_FILTER << (VPT_CTL_ADDR_CFG_SHR + 4 * n);
}

/* Every setting that is drawn is possible. */
static void allow_all(struct vpt_caps *caps)
{
    caps->leaf14_0_ebx |= VPT_CAP_CR3FILTER | VPT_CAP_PSB_CYC | VPT_CAP_IPFILTER | VPT_CAP_MTC;
    caps->leaf14_0_ecx |= VPT_CAP_TOPA | VPT_CAP_MENTRY;
    caps->leaf14_1_eax = 0xffffu << 16 | VPT_MAX_RANGES;
    caps->leaf14_1_ebx = 0xffffffffu;
    caps->topa_pmi_early_bytes = 0;
    caps->deferred_tips = false;
}

static void draw_run(struct run *run, uint64_t seed)
{
    struct vpt_caps *const caps = &run->replay.rig.caps;

    run->random.state = seed * 2654435761u + 88172645463325252ull;
    CU_ASSERT_TRUE(vpt_profile(profiles[draw(&run->random, COUNT(profiles))], caps));
    allow_all(caps);
    program_make(&run->user, &run->kernel, &run->random);
    walk_start(&run->walk, &run->user, &run->kernel, &run->random);
    run->walk.interrupts_per_1024 = draw(&run->random, 8);
    run->replay.rig.ctl = draw_ctl(run);
    run->replay.user_only = !(run->replay.rig.ctl & VPT_CTL_OS);
    run->replay.kernel_only = !(run->replay.rig.ctl & VPT_CTL_USER);
    run->replay.flow.mode = PTD_MODE_64;
    run->replay.flow.errata = PTD_BDM70;
    run->overflows = !(run->replay.rig.ctl & VPT_CTL_CYCEN) && one_in(run, 2);
    if (!caps->choices.psb_twice && one_in(run, 3))
        choose_range(run, 0, &run->user);
    if (run->replay.flow.filters && one_in(run, 2))
        choose_range(run, 1, &run->kernel);
    run->toggles = !run->replay.flow.filters && !caps->choices.psb_twice && one_in(run, 2);
}

static void set_tracing(struct run *run, bool on)
{
    const struct vpt_context context = walk_context(&run->walk);

    vpt_set_context(&run->rig.cpu, &context);
    CU_ASSERT_EQUAL(vpt_wrmsr(&run->rig.cpu, VPT_MSR_CTL,
                              on ? run->rig.ctl | VPT_CTL_TRACEEN : run->rig.ctl,
                              walk_ip(&run->walk), walk_ip(&run->walk)),
                    VPT_OK);
}

/* What happens between instructions, besides interrupts. */
static void aside(struct run *run)
{
    struct vpt_cpu *const cpu = &run->rig.cpu;

    switch (draw(&run->random, 1024)) {
    case 0:
        vpt_set_core_ratio(cpu, (uint8_t)(10 + draw(&run->random, 20)));
        break;
    case 1:
        vpt_maintenance(cpu, draw(&run->random, 1000));
        break;
    case 2:
        vpt_psb(cpu, walk_ip(&run->walk));
        break;
    case 3:
        if (run->overflows)
            vpt_overflow(cpu);
        break;
    case 4:
        if (run->toggles)
            set_tracing(run, !vpt_trigger_en(cpu));
        break;
    default:
        break;
    }
}

static void tick(struct run *run)
{
    const uint64_t tsc = run->rig.clocks.tsc + draw(&run->random, 4);

    vpt_clocks_from_tsc(&run->replay.rig.caps, tsc, &run->rig.clocks);
}

static void execute(struct run *run)
{
    struct vpt_transfer transfer;

    set_tracing(run, true);
    for (unsigned i = 0; i < INSTRUCTIONS; i++) {
        tick(run);
        aside(run);
        if (walk_interrupt(&run->walk, &transfer))
            vpt_transfer(&run->rig.cpu, &transfer);
        walk_step(&run->walk, &run->rig.cpu);
    }
    if (vpt_trigger_en(&run->rig.cpu))
        set_tracing(run, false);
}

static void repeat(struct run *run, uint64_t seed)
{
    struct replay_result result;
    const struct tally *const tally = &result.tally;

    run->replay.bytes = rig_take(&run->rig, &run->replay.len_bytes);
    run->replay.rig.ctl |= PSB_SELDOM;
    CU_ASSERT_EQUAL(replay_run(&run->replay, &result), PTD_OK);

    const bool equal = result.gaps == 0 && tally->packets > 0 && tally->equal == tally->packets &&
                       tally->extra == 0 && tally->psbs_equal == tally->psbs &&
                       tally->places_equal == tally->places;

    CU_ASSERT_TRUE(equal);
    if (!equal) {
        printf("\nseed %" PRIu64 ", RTIT_CTL %#" PRIx64 ", %u filters, %" PRIu64 " gaps %s\n", seed,
               (uint64_t)run->rig.ctl, run->replay.flow.filters, result.gaps, result.first_gap);
        tally_print(tally, stdout);
    }
    tally_close(&result.tally);
}

static void one_run(uint64_t seed)
{
    struct run *const run = calloc(1, sizeof(*run));
    struct ptd_image *const image = ptd_image_new();

    if (!run || !image) {
        CU_FAIL("out of memory");
        ptd_image_free(image);
        free(run);
        return;
    }
    draw_run(run, seed);
    (void)ptd_image_add_bytes(image, NULL, run->user.base, run->user.code, run->user.len_bytes,
                              PTD_ANY_CR3);
    (void)ptd_image_add_bytes(image, NULL, run->kernel.base, run->kernel.code,
                              run->kernel.len_bytes, PTD_ANY_CR3);
    run->replay.image = image;
    if (rig_open(&run->rig, &run->replay.rig, 0)) {
        execute(run);
        repeat(run, seed);
    } else {
        CU_FAIL("the model does not take the configuration");
    }
    rig_close(&run->rig);
    ptd_image_free(image);
    free(run);
}

/* ---- A host, a guest, transactions ---- */

#define HOST       0x1000u
#define AFTER_EXIT (HOST + 3)
#define GUEST      0x2000u
#define ROUNDS     100u

static const uint8_t host_code[] = {
    0x0f, 0x01, 0xc3, /* vmresume */
    0x90,             /* nop: VM exits lead here */
    0xeb, 0xfa,       /* jmp to vmresume */
};
static const uint8_t guest_code[] = {
    0x74, 0x00, /* jz to what follows */
    0xeb, 0xfc, /* jmp to jz */
};

/* From VMRESUME to VMRESUME. */
static void one_round(struct run *run, unsigned round)
{
    const struct vpt_context host = {.cr3 = 0x5000, .exec_mode = VPT_EXEC_64, .pae = true};
    const struct vpt_context guest = {.cr3 = 0x6000, .exec_mode = VPT_EXEC_64, .pae = true};
    const struct vpt_vm_entry entry = {
        .ip = HOST, .next_ip = AFTER_EXIT, .guest_ip = GUEST, .guest = guest};
    const struct vpt_vm_exit exit = {.ip = GUEST, .host_ip = AFTER_EXIT, .host = host};
    struct vpt_cpu *const cpu = &run->rig.cpu;

    CU_ASSERT_EQUAL(vpt_vm_entry(cpu, &entry), VPT_ENTRY_SUCCEEDS);
    for (unsigned i = 0; i < round % 9; i++) {
        vpt_cond_branch(cpu, GUEST + 2, i & 1);
        vpt_jmp_direct(cpu, GUEST);
    }
    CU_ASSERT_TRUE(vpt_vm_exit(cpu, &exit));
    if (round % 4 == 1)
        vpt_tx_begin(cpu, AFTER_EXIT);
    if (round % 8 == 1)
        vpt_tx_abort(cpu, AFTER_EXIT + 1, AFTER_EXIT);
    else if (round % 4 == 1)
        vpt_tx_commit(cpu, AFTER_EXIT + 1);
    vpt_jmp_direct(cpu, HOST);
}

static void host_and_guest(void)
{
    struct run *const run = calloc(1, sizeof(*run));
    struct ptd_image *const image = ptd_image_new();
    const struct vpt_context host = {.cr3 = 0x5000, .exec_mode = VPT_EXEC_64, .pae = true};

    if (!run || !image) {
        CU_FAIL("out of memory");
        ptd_image_free(image);
        free(run);
        return;
    }
    draw_run(run, 1);
    (void)vpt_profile("skylake", &run->replay.rig.caps);
    allow_all(&run->replay.rig.caps);
    run->replay.rig.ctl = VPT_CTL_BRANCHEN | VPT_CTL_OS | VPT_CTL_USER;
    run->replay.flow.filters = 0;
    run->replay.user_only = run->replay.kernel_only = false;
    run->replay.image = image;
    memset(run->replay.rig.range, 0, sizeof(run->replay.rig.range));
    (void)ptd_image_add_bytes(image, NULL, HOST, host_code, sizeof(host_code), PTD_ANY_CR3);
    (void)ptd_image_add_bytes(image, NULL, GUEST, guest_code, sizeof(guest_code), PTD_ANY_CR3);
    CU_ASSERT_TRUE_FATAL(rig_open(&run->rig, &run->replay.rig, 0));
    rig_set_vmx(&run->rig, false, true, 0x7000, &host);
    rig_enable(&run->rig, &host, HOST, true);
    for (unsigned round = 0; round < ROUNDS; round++)
        one_round(run, round);
    repeat(run, 0);
    rig_close(&run->rig);
    ptd_image_free(image);
    free(run);
}

static void own_traces(void)
{
    for (uint64_t seed = 1; seed <= RUNS; seed++)
        one_run(seed);
}

void add_replay_suite(void)
{
    CU_pSuite const suite = CU_add_suite("replay", NULL, NULL);

    CU_add_test(suite, "traces of the model, repeated", own_traces);
    CU_add_test(suite, "a host, a guest, transactions", host_and_guest);
}
