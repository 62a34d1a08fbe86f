/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replay: random programs on random processors are traced by the model, and the traces repeated as
 * those of hardware are. All that differs is a mistake of the replay: it has told something else
 * than what happened, or at another place.
 *
 * Where packets do not tell what happened, nothing is drawn: TraceEn that changes without a PSB+
 * while an IP filter hides where the processor is, Event Trace with such a filter, a filter on
 * processors that have none and send PSB+ twice, and an overflow between a CYC packet and its TNT.
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
#define VARIANT_RUNS 12u
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
    bool events;     /* Event Trace and power events are on */
    bool cr3_filter; /* only one process is traced */
    bool restarts;   /* a VMM traces a guest, and each VM entry begins with a PSB+ */
};

/* What is drawn on top of all else. */
enum variant { PLAIN, EVENTS, CR3_FILTER, RESTARTS, PARTS };

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
    caps->vmx_misc_pt = true;
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

static void drop_filters(struct run *run)
{
    run->replay.flow.filters = 0;
    run->replay.rig.ctl &= (1ull << VPT_CTL_ADDR_CFG_SHR) - 1;
}

/* On top of what was drawn: a processor and settings that tell events. */
static void draw_events(struct run *run)
{
    struct vpt_caps *const caps = &run->replay.rig.caps;

    run->events = true;
    drop_filters(run);
    caps->choices.psb_twice = false;
    caps->leaf14_0_ebx |= VPT_CAP_EVENT | VPT_CAP_POWER;
    caps->pebs = caps->triggers = caps->fred = true;
    run->replay.rig.ctl |= VPT_CTL_EVENTEN | VPT_CTL_PWREVTEN;
    run->walk.interrupts_per_1024 = 1 + draw(&run->random, 32);
}

/* As fuzzers of VMs do it: one CR3, an IP filter, and TraceEn is 1 in the guest only. */
static void draw_restarts(struct run *run)
{
    run->restarts = true;
    run->toggles = !run->replay.rig.caps.choices.psb_twice;
    if (run->replay.flow.filters == 0 && run->toggles)
        choose_range(run, 0, one_in(run, 2) ? &run->user : &run->kernel);
}

static void draw_variant(struct run *run, enum variant variant)
{
    if (variant == EVENTS)
        draw_events(run);
    run->cr3_filter = variant == CR3_FILTER || (variant == RESTARTS && one_in(run, 2));
    if (variant == RESTARTS)
        draw_restarts(run);
}

/* The hardware has a CR3 filter, which the replay learns nothing of. */
static void filter_cr3(struct run *run)
{
    run->rig.ctl |= VPT_CTL_CR3FILTER;
    CU_ASSERT_EQUAL(vpt_wrmsr(&run->rig.cpu, VPT_MSR_CR3_MATCH, walk_cr3(0), 0, 0), VPT_OK);
}

static void set_tracing(struct run *run, bool on)
{
    const struct vpt_context context = walk_context(&run->walk);

    if (run->restarts && on)
        CU_ASSERT_EQUAL(vpt_wrmsr(&run->rig.cpu, VPT_MSR_STATUS, 0, 0, 0), VPT_OK);
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

static void sleep_and_wake(struct run *run)
{
    const struct vpt_power_entry entry = {.ip = walk_ip(&run->walk),
                                          .mwait = one_in(run, 2),
                                          .hints = (uint8_t)draw(&run->random, 256),
                                          .ext = 1,
                                          .hw = one_in(run, 4),
                                          .state = (uint8_t)draw(&run->random, 256)};
    const struct vpt_power_entry deeper = {
        .ip = entry.ip, .hw = true, .state = (uint8_t)draw(&run->random, 256)};
    const struct vpt_power_exit wake = {
        .last_core_state = (uint8_t)draw(&run->random, 16),
        .deepest_core_state = 6,
        .reason = VPT_WAKE_TIMER,
        .core_ratio = (uint8_t)(one_in(run, 2) ? 10 + draw(&run->random, 20) : 0)};

    vpt_power_entry(&run->rig.cpu, &entry);
    if (one_in(run, 3))
        vpt_power_entry(&run->rig.cpu, &deeper);
    run->rig.clocks.tsc += draw(&run->random, 100000);
    tick(run);
    vpt_power_exit(&run->rig.cpu, &wake);
}

static void record_pebs(struct run *run)
{
    const struct vpt_block_item items[] = {{0, walk_ip(&run->walk)}, {3, 0x1234567890}, {31, 7}};
    const struct vpt_block blocks[] = {{.type = 4, .count = 2, .items = items},
                                       {.type = 1, .four_byte_items = true, .count = 0},
                                       {.type = 16, .four_byte_items = true, .count = 3, items}};

    vpt_pebs(&run->rig.cpu, blocks, 1 + draw(&run->random, 3), walk_ip(&run->walk));
}

/* What only .events allows. */
static void aside_more(struct run *run)
{
    const struct vpt_trigger trigger = {.fired = (uint8_t)draw(&run->random, 256),
                                        .more = one_in(run, 2)};

    switch (draw(&run->random, 256)) {
    case 0:
        sleep_and_wake(run);
        break;
    case 1:
        record_pebs(run);
        break;
    case 2:
        vpt_interrupt_flag(&run->rig.cpu, one_in(run, 2), walk_ip(&run->walk));
        break;
    case 3:
        vpt_exec_stop(&run->rig.cpu, walk_ip(&run->walk));
        break;
    case 4:
        vpt_trigger(&run->rig.cpu, &trigger);
        break;
    default:
        break;
    }
}

/* An event of its own vector, in one case of three a page fault. */
static void name_event(struct run *run, struct vpt_transfer *transfer)
{
    transfer->vector = (uint8_t)draw(&run->random, 256);
    if (transfer->type == VPT_FAULT && one_in(run, 3)) {
        transfer->vector = 14;
        transfer->cr2 = (uint64_t)draw(&run->random, 1u << 31) << 12;
    }
}

static void execute(struct run *run)
{
    const struct vpt_context context = walk_context(&run->walk);
    struct vpt_transfer transfer;

    if (run->cr3_filter)
        filter_cr3(run);
    if (run->restarts)
        rig_set_vmx(&run->rig, true, true, 0x7000, &context);
    set_tracing(run, true);
    for (unsigned i = 0; i < INSTRUCTIONS; i++) {
        tick(run);
        aside(run);
        if (run->events)
            aside_more(run);
        if (walk_interrupt(&run->walk, &transfer)) {
            if (run->events)
                name_event(run, &transfer);
            vpt_transfer(&run->rig.cpu, &transfer);
        }
        walk_step(&run->walk, &run->rig.cpu);
    }
    if (vpt_trigger_en(&run->rig.cpu))
        set_tracing(run, false);
}

/* All that can be compared is equal; of a part, that may be nothing. */
static void compare(struct run *run, uint64_t seed, bool is_part)
{
    struct replay_result result;
    const struct tally *const tally = &result.tally;

    CU_ASSERT_EQUAL(replay_run(&run->replay, &result), PTD_OK);

    const bool equal = (is_part || (result.gaps == 0 && tally->packets > 0)) &&
                       tally->equal == tally->packets && tally->extra == 0 &&
                       tally->psbs_equal == tally->psbs && tally->places_equal == tally->places;

    CU_ASSERT_TRUE(equal);
    if (!equal) {
        printf("\nseed %" PRIu64 ", RTIT_CTL %#" PRIx64 ", %u filters, %" PRIu64 " gaps %s\n", seed,
               (uint64_t)run->rig.ctl, run->replay.flow.filters, result.gaps, result.first_gap);
        tally_print(tally, stdout);
    }
    tally_close(&result.tally);
}

static void repeat(struct run *run, uint64_t seed)
{
    run->replay.bytes = rig_take(&run->rig, &run->replay.len_bytes);
    run->replay.rig.ctl |= PSB_SELDOM;
    compare(run, seed, false);
}

/* Begun and ended anywhere, as a buffer is that goes round; and code that is not all there. */
static void repeat_parts(struct run *run, uint64_t seed)
{
    const struct replay whole = run->replay;
    struct ptd_image *const half = ptd_image_new();

    for (unsigned i = 0; i < 4 && whole.len_bytes > 1; i++) {
        const uint32_t cut = draw(&run->random, (uint32_t)whole.len_bytes);

        run->replay.bytes = whole.bytes + cut;
        run->replay.len_bytes = whole.len_bytes - cut;
        compare(run, seed, true);
        run->replay.bytes = whole.bytes;
        run->replay.len_bytes = cut;
        compare(run, seed, true);
    }
    run->replay = whole;
    if (half) {
        (void)ptd_image_add_bytes(half, NULL, run->user.base, run->user.code,
                                  run->user.len_bytes / 2, PTD_ANY_CR3);
        (void)ptd_image_add_bytes(half, NULL, run->kernel.base, run->kernel.code,
                                  run->kernel.len_bytes, PTD_ANY_CR3);
        run->replay.image = half;
        compare(run, seed, true);
    }
    run->replay = whole;
    ptd_image_free(half);
}

static void one_run(uint64_t seed, enum variant variant)
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
    draw_variant(run, variant);
    (void)ptd_image_add_bytes(image, NULL, run->user.base, run->user.code, run->user.len_bytes,
                              PTD_ANY_CR3);
    (void)ptd_image_add_bytes(image, NULL, run->kernel.base, run->kernel.code,
                              run->kernel.len_bytes, PTD_ANY_CR3);
    run->replay.image = image;
    if (rig_open(&run->rig, &run->replay.rig, 0)) {
        execute(run);
        repeat(run, seed);
        if (variant == PARTS)
            repeat_parts(run, seed);
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

static void runs(enum variant variant)
{
    for (uint64_t seed = 1; seed <= (variant == PLAIN ? RUNS : VARIANT_RUNS); seed++)
        one_run(seed, variant);
}

static void own_traces(void)
{
    runs(PLAIN);
}

static void events_too(void)
{
    runs(EVENTS);
}

static void one_process(void)
{
    runs(CR3_FILTER);
}

static void guest_only(void)
{
    runs(RESTARTS);
}

static void parts(void)
{
    runs(PARTS);
}

void add_replay_suite(void)
{
    CU_pSuite const suite = CU_add_suite("replay", NULL, NULL);

    CU_add_test(suite, "traces of the model, repeated", own_traces);
    CU_add_test(suite, "the same with Event Trace, power events and PEBS", events_too);
    CU_add_test(suite, "with a CR3 filter", one_process);
    CU_add_test(suite, "a guest that is traced from VM entry to VM exit", guest_only);
    CU_add_test(suite, "parts, and code that is missing", parts);
    CU_add_test(suite, "a host, a guest, transactions", host_and_guest);
}
