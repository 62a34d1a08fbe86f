/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs on random processors with random settings of RTIT_CTL: the model traces what
 * "runs", and two decoders that know nothing of it, libipt and libptdec, must find exactly the
 * instructions that ran while PacketEn was 1.
 *
 * usage: streams [EVENTS [SEED]]: so many events in all (10,000,000), from this seed (1).
 * Ends with 'N passed, N failed'; a run that fails names its seed.
 */
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/referee.h"
#include "roundtrip/gaps.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <intel-pt.h>
#include <inttypes.h>
#include "ptdec.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_INSTRUCTIONS 200000u

/* One run: what was drawn for it, what ran, and what the decoders need. */
struct run {
    uint64_t seed, ctl, events;
    struct vpt_caps caps;
    struct random random;
    struct image user, kernel;
    struct walk walk;
    struct fake *fake;
    struct list ran, seen;
    unsigned ranges;
    bool toggle, libipt_knows;
};

static struct run run;                  /* large, and one at a time */
static uint64_t next_seed, compared[2]; /* by libipt, by libptdec */
static uint64_t in_steps;               /* blocks that libptdec found in bulk */
static unsigned passed, failed;

/* ---- What is drawn -------------------------------------------------------------------------- */

static uint64_t some(uint64_t bit, unsigned one_in)
{
    return draw(&run.random, one_in) == 0 ? bit : 0;
}

/* An encoding that the bitmap allows, below most; 0 if there is none. */
static uint64_t encoding(uint32_t bitmap, unsigned most)
{
    for (unsigned i = 0; i < 32; i++) {
        const unsigned value = draw(&run.random, most);

        if (bitmap >> value & 1)
            return value;
    }
    return 0;
}

static uint64_t draw_timing(const struct vpt_caps *caps)
{
    uint64_t ctl = some(VPT_CTL_TSCEN, 2);

    if (caps->leaf14_0_ebx & VPT_CAP_MTC && draw(&run.random, 2))
        ctl |= VPT_CTL_MTCEN | encoding(caps->leaf14_1_eax >> 16, 16) << VPT_CTL_MTCFREQ_SHR;
    if (!(caps->leaf14_0_ebx & VPT_CAP_PSB_CYC))
        return ctl;
    ctl |= encoding(caps->leaf14_1_ebx >> 16, 4) << VPT_CTL_PSBFREQ_SHR;
    if (draw(&run.random, 2))
        ctl |= VPT_CTL_CYCEN | encoding(caps->leaf14_1_ebx & 0xffff, 16) << VPT_CTL_CYCTHRESH_SHR;
    return ctl;
}

static uint64_t draw_ctl(const struct vpt_caps *caps)
{
    static const uint64_t cpls[] = {VPT_CTL_OS | VPT_CTL_USER, VPT_CTL_OS | VPT_CTL_USER,
                                    VPT_CTL_OS, VPT_CTL_USER};
    uint64_t ctl = VPT_CTL_TRACEEN | VPT_CTL_TOPA | VPT_CTL_BRANCHEN | cpls[draw(&run.random, 4)] |
                   draw_timing(caps) | some(VPT_CTL_DISRETC, 4);

    if (caps->leaf14_0_ebx & VPT_CAP_CR3FILTER)
        ctl |= some(VPT_CTL_CR3FILTER, 4);
    if (caps->leaf14_0_ebx & VPT_CAP_POWER)
        ctl |= some(VPT_CTL_PWREVTEN, 2);
    if (caps->leaf14_0_ebx & VPT_CAP_EVENT)
        ctl |= some(VPT_CTL_EVENTEN, 3);
    if (caps->leaf14_0_ebx & VPT_CAP_PRESERVE)
        ctl |= some(VPT_CTL_INJECT_PSB_PMI, 3);
    return ctl;
}

/*
 * A third of an image, in whole functions: libipt does not take a TIP.PGD without payload for the
 * end of a conditional branch, and those stay within their function.
 */
static void choose_range(unsigned n, const struct image *image)
{
    const uint32_t third = (uint32_t)image->functions / 3;
    const uint32_t first = draw(&run.random, (uint32_t)image->functions - third);
    const struct insn *insn = &image->insn[image->function[first]];
    const struct insn *last = &image->insn[image->function[first + third] - 1];

    fake_write(run.fake, VPT_MSR_ADDR0_A + 2 * n, image->base + insn->offset);
    fake_write(run.fake, VPT_MSR_ADDR0_A + 2 * n + 1, image->base + last->offset);
    run.ctl |= (uint64_t)VPT_ADDR_CFG_FILTER << (VPT_CTL_ADDR_CFG_SHR + 4 * n);
}

/* Those of the profile, none, or any. */
static void draw_choices(void)
{
    struct vpt_choices *const choices = &run.caps.choices;
    const unsigned kind = draw(&run.random, 3);

    if (kind == 0)
        return;
    *choices = (struct vpt_choices){0};
    if (kind == 1)
        return;
    choices->fup_full = draw(&run.random, 2);
    choices->psb_ip_apart = draw(&run.random, 2);
    choices->ip_full_64 = draw(&run.random, 2);
    choices->psb_at_enable = draw(&run.random, 2);
    choices->psb_twice = draw(&run.random, 2);
    choices->layout = (uint8_t)draw(&run.random, VPT_LAYOUT_WHOLE + 1);
    choices->psb_early_bytes = (uint16_t)draw(&run.random, 2048);
    run.caps.psb_align_bytes = (uint8_t)(1 << draw(&run.random, 4));
    for (unsigned i = 0; i < VPT_PSB_PARTS; i++) { /* a permutation */
        const unsigned j = draw(&run.random, i + 1);

        choices->psb_order[i] = choices->psb_order[j];
        choices->psb_order[j] = (uint8_t)(VPT_PSB_TSC + i);
    }
}

/* What decoders have to tolerate. */
static uint32_t errata(void)
{
    return run.caps.choices.psb_at_enable ? PTD_BDM70 : 0;
}

static void draw_run(void)
{
    const size_t profiles = vpt_profile_count();

    run.random.state = run.seed * 2654435761u + 88172645463325252ull;
    do {
        vpt_profile(vpt_profile_name(draw(&run.random, (uint32_t)profiles)), &run.caps);
    } while (!run.caps.supported);
    run.caps.long_tnt = draw(&run.random, 2);
    draw_choices();
    run.caps.deferred_tips = run.caps.choices.layout == VPT_LAYOUT_DENSE && draw(&run.random, 2);
    run.caps.choices.tips_wait = draw(&run.random, 2);
    run.ctl = draw_ctl(&run.caps);
    run.toggle = draw(&run.random, 3) == 0;
    run.libipt_knows = !(run.ctl & VPT_CTL_EVENTEN); /* not CFE and EVD */
    run.ranges = run.caps.leaf14_1_eax & 7 ? draw(&run.random, 3) : 0;
    run.fake = fake_open_caps(&run.caps);
    program_make(&run.user, &run.kernel, &run.random);
    walk_start(&run.walk, &run.user, &run.kernel, &run.random);
    run.walk.interrupts_per_1024 = draw(&run.random, 4) ? draw(&run.random, 8) : 60;
    fake_output(run.fake);
    if (run.ctl & VPT_CTL_CR3FILTER)
        fake_write(run.fake, VPT_MSR_CR3_MATCH, walk_cr3(1));
    if (run.ranges > 0)
        choose_range(0, &run.user);
    if (run.ranges > 1)
        choose_range(1, &run.kernel);
}

/* ---- What runs ------------------------------------------------------------------------------ */

static void set_tracing(uint64_t ctl)
{
    struct vpt_context ctx = walk_context(&run.walk);

    vpt_set_context(&run.fake->cpu, &ctx);
    CHECK(vpt_wrmsr(&run.fake->cpu, VPT_MSR_CTL, ctl, walk_ip(&run.walk), walk_ip(&run.walk)) ==
              VPT_OK,
          "CTL := %" PRIx64, ctl);
}

static void tick(void)
{
    const uint64_t tsc =
        run.fake->clocks.tsc + draw(&run.random, 4) + (draw(&run.random, 1000) == 0 ? 300 : 0);

    vpt_clocks_from_tsc(&run.caps, tsc, &run.fake->clocks);
}

/* What happens between instructions, besides interrupts. */
static void aside(void)
{
    struct vpt_cpu *cpu = &run.fake->cpu;

    switch (draw(&run.random, 2048)) {
    case 0:
        vpt_set_core_ratio(cpu, (uint8_t)(10 + draw(&run.random, 20)));
        break;
    case 1:
        vpt_exec_stop(cpu, walk_ip(&run.walk));
        break;
    case 2:
        vpt_maintenance(cpu, draw(&run.random, 1000));
        break;
    case 3:
        vpt_time(cpu);
        break;
    case 4:
        vpt_flush(cpu);
        break;
    default:
        return;
    }
    run.events++;
}

static void execute(void)
{
    struct vpt_cpu *cpu = &run.fake->cpu;

    set_tracing(run.ctl);
    for (unsigned i = 0; i < RUN_INSTRUCTIONS; i++) {
        struct vpt_transfer transfer;

        tick();
        if (run.toggle && draw(&run.random, 500) == 0)
            set_tracing(vpt_trigger_en(cpu) ? run.ctl & ~VPT_CTL_TRACEEN : run.ctl);
        aside();
        if (walk_interrupt(&run.walk, &transfer)) {
            vpt_transfer(cpu, &transfer);
            run.events++;
        }
        /* A FUP with the address of INT3 comes before it (Table 33-23): no decoder lists it. */
        if (vpt_packet_en(cpu) && walk_kind(&run.walk) != INSN_INT3)
            list_add(&run.ran, walk_ip(&run.walk));
        run.events += walk_kind(&run.walk) != INSN_NOP;
        walk_step(&run.walk, cpu);
    }
    if (cpu->ctl & VPT_CTL_TRACEEN)
        set_tracing(run.ctl & ~VPT_CTL_TRACEEN);
}

/* ---- libipt --------------------------------------------------------------------------------- */

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
                     void *context)
{
    const struct image *const images[] = {&run.user, &run.kernel};

    (void)asid;
    (void)context;
    for (size_t i = 0; i < 2; i++) {
        const uint64_t offset = ip - images[i]->base;

        if (offset >= images[i]->len_bytes)
            continue;
        if (size > images[i]->len_bytes - offset)
            size = images[i]->len_bytes - offset;
        memcpy(buffer, images[i]->code + offset, size);
        return (int)size;
    }
    return -pte_nomap;
}

static struct pt_insn_decoder *libipt_decoder(void)
{
    struct pt_config config;
    struct pt_insn_decoder *decoder;

    pt_config_init(&config);
    config.begin = run.fake->tap;
    config.end = run.fake->tap + run.fake->tap_len;
    config.errata.bdm70 = (errata() & PTD_BDM70) != 0;
    config.mtc_freq = (uint8_t)(run.ctl >> VPT_CTL_MTCFREQ_SHR & 15);
    config.nom_freq = run.caps.max_nonturbo_ratio;
    config.cpuid_0x15_eax = run.caps.tsc_den;
    config.cpuid_0x15_ebx = run.caps.tsc_num;
    if (run.ranges > 0) {
        config.addr_filter.config.ctl.addr0_cfg = VPT_ADDR_CFG_FILTER;
        config.addr_filter.addr0_a = fake_read(run.fake, VPT_MSR_ADDR0_A);
        config.addr_filter.addr0_b = fake_read(run.fake, VPT_MSR_ADDR0_A + 1);
    }
    if (run.ranges > 1) {
        config.addr_filter.config.ctl.addr1_cfg = VPT_ADDR_CFG_FILTER;
        config.addr_filter.addr1_a = fake_read(run.fake, VPT_MSR_ADDR0_A + 2);
        config.addr_filter.addr1_b = fake_read(run.fake, VPT_MSR_ADDR0_A + 3);
    }
    decoder = pt_insn_alloc_decoder(&config);
    if (!decoder)
        abort();
    pt_image_set_callback(pt_insn_get_image(decoder), read_code, NULL);
    return decoder;
}

/* Fills run.seen. The error, and where. */
static const char *by_libipt(uint64_t *offset)
{
    struct pt_insn_decoder *decoder = libipt_decoder();
    int status = pt_insn_sync_forward(decoder);

    while (status >= 0 && !(status & pts_eos)) {
        struct pt_insn insn = {.iclass = ptic_error};

        while (status >= 0 && status & pts_event_pending) {
            struct pt_event event;

            status = pt_insn_event(decoder, &event, sizeof(event));
        }
        if (status < 0 || status & pts_eos)
            break;
        status = pt_insn_next(decoder, &insn, sizeof(insn));
        if (insn.iclass != ptic_error)
            list_add(&run.seen, insn.ip);
    }
    *offset = 0;
    pt_insn_get_offset(decoder, offset);
    pt_insn_free_decoder(decoder);
    return status >= 0 || status == -pte_eos ? NULL : pt_errstr(pt_errcode(status));
}

/* ---- libptdec ------------------------------------------------------------------------------- */

static struct ptd_image *new_image(void)
{
    struct ptd_image *const image = ptd_image_new();

    if (!image ||
        ptd_image_add_bytes(image, NULL, run.user.base, run.user.code, run.user.len_bytes,
                            PTD_ANY_CR3) != PTD_OK ||
        ptd_image_add_bytes(image, NULL, run.kernel.base, run.kernel.code, run.kernel.len_bytes,
                            PTD_ANY_CR3) != PTD_OK)
        abort();
    return image;
}

/* Its fast ways must find the same, item by item. */
static void compare_fast_ways(const struct ptd_image *image, const struct ptd_flow_config *config)
{
    const struct referee_trace trace = {
        .bytes = run.fake->tap,
        .len_bytes = run.fake->tap_len,
        .image = image,
        .config = config,
        .timing = (enum ptd_timing)(run.seed % 3),
    };
    static const char *const ways[] = {"in bulk", "on threads", "in bulk, with stops"};
    const struct referee_verdict verdicts[] = {
        referee_run(&trace, 4096), referee_parallel(&trace, 2, 8192),
        referee_run_before(&trace, 4096, 1 + run.seed % 500)};

    for (size_t i = 0; i < 3; i++)
        CHECK(verdicts[i].same, "seed %" PRIu64 ", CTL %" PRIx64 ": %s: %s", run.seed, run.ctl,
              ways[i], verdicts[i].difference);
    in_steps += verdicts[0].in_steps;
}

/* The functions of an image, but for about one in eight. */
static void add_some(struct ptd_image *part, const struct image *image, struct random *random)
{
    for (size_t i = 0; i < image->functions; i++) {
        const uint32_t begin = image->insn[image->function[i]].offset;
        const size_t end = i + 1 < image->functions ? image->insn[image->function[i + 1]].offset
                                                    : image->len_bytes;

        if (draw(random, 8) > 0 &&
            ptd_image_add_bytes(part, NULL, image->base + begin, image->code + begin, end - begin,
                                PTD_ANY_CR3) != PTD_OK)
            abort();
    }
}

/* Where code is missing, too, and what they find must be right. */
static void compare_with_gaps(const struct ptd_image *whole)
{
    struct random random = {run.seed * 6364136223846793005u + 1442695040888963407u};
    struct ptd_image *const part = ptd_image_new();
    const struct gaps_trace trace = {
        .bytes = run.fake->tap,
        .len_bytes = run.fake->tap_len,
        .whole = whole,
        .part = part,
        .config = {.mode = PTD_MODE_64,
                   .errata = errata(),
                   .resync = run.caps.deferred_tips ? PTD_RESYNC_PSB : PTD_RESYNC_IP},
    };
    struct gaps_verdict verdict;

    if (!part)
        abort();
    add_some(part, &run.user, &random);
    add_some(part, &run.kernel, &random);
    compare_fast_ways(part, &trace.config);
    verdict = gaps_check(&trace);
    CHECK(verdict.wrong == 0, "seed %" PRIu64 ", CTL %" PRIx64 ": behind %" PRIu64 " gaps: %s",
          run.seed, run.ctl, verdict.gaps, verdict.difference);
    ptd_image_free(part);
}

static const char *by_ptdec(uint64_t *offset)
{
    struct ptd_image *const image = new_image();
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .errata = errata()};
    struct ptd_flow *flow;
    struct ptd_item item;
    const char *error = NULL;

    flow = ptd_flow_new(run.fake->tap, run.fake->tap_len, image, &config);
    if (!flow)
        abort();
    while (!error && ptd_flow_next(flow, &item) == PTD_OK) {
        uint64_t ip = item.ip;
        struct ptd_insn insn;

        *offset = item.offset;
        if (item.type == PTD_ITEM_ERROR)
            error = ptd_strerror(item.error);
        if (item.type != PTD_ITEM_BLOCK)
            continue;
        while (ptd_block_insn(image, &item, &ip, &insn) == PTD_OK)
            list_add(&run.seen, insn.ip);
    }
    ptd_flow_free(flow);
    ptd_image_free(image);
    return error;
}

/* ---- The verdict ---------------------------------------------------------------------------- */

static void compare(const char *name, const char *(*decode)(uint64_t *offset))
{
    uint64_t offset = 0;
    size_t same = 0;
    const char *error;

    run.seen.count = 0;
    error = decode(&offset);
    while (same < run.seen.count && same < run.ran.count && run.seen.ip[same] == run.ran.ip[same])
        same++;
    CHECK(!error && same == run.ran.count && same == run.seen.count,
          "seed %" PRIu64 ", CTL %" PRIx64 ": %zu ran, %s found %zu; the first difference is "
          "number %zu: %" PRIx64 " ran, %" PRIx64 " found (byte %" PRIu64 "; %s)",
          run.seed, run.ctl, run.ran.count, name, run.seen.count, same,
          same < run.ran.count ? run.ran.ip[same] : 0,
          same < run.seen.count ? run.seen.ip[same] : 0, offset, error ? error : "no error");
}

static void test_run(void)
{
    struct ptd_flow_config config = {.mode = PTD_MODE_64};
    struct ptd_image *whole;

    run.seed = next_seed++;
    run.ran.count = 0;
    draw_run();
    execute();
    if (run.libipt_knows) {
        compare("libipt", by_libipt);
        compared[0] += run.ran.count;
    }
    compare("libptdec", by_ptdec);
    config.errata = errata();
    whole = new_image();
    compare_fast_ways(whole, &config);
    compare_with_gaps(whole);
    ptd_image_free(whole);
    compared[1] += run.ran.count;
    fake_close(run.fake);
}

static void after_test(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord first)
{
    (void)test;
    (void)suite;
    for (const CU_FailureRecord *f = first; f; f = f->pNext)
        printf("FAILED %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
    passed += !first;
    failed += first != NULL;
}

int main(int argc, char **argv)
{
    const uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 0) : 10000000;
    CU_pSuite suite;

    if (argc > 3 || events == 0) {
        fprintf(stderr, "usage: streams [EVENTS [SEED]]\n");
        return 2;
    }
    next_seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    CU_set_test_complete_handler(after_test);
    suite = CU_add_suite("streams", NULL, NULL);
    CU_add_test(suite, "a run", test_run);
    while (run.events < events) {
        CU_run_suite(suite);
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " events ", run.events, events);
    }
    CU_cleanup_registry();
    free(run.ran.ip);
    free(run.seen.ip);
    printf("%" PRIu64 " events in %u runs; instructions compared: %" PRIu64 " with libipt, %" PRIu64
           " with libptdec; %" PRIu64 " blocks in steps\n",
           run.events, passed + failed, compared[0], compared[1], in_steps);
    printf("%u passed, %u failed\n", passed, failed);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
