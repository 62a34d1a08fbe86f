/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damaged traces: the model traces a random program, then the trace is decoded with one bit
 * changed, and cut off. The decoder must come to its end, and find what the whole trace has
 * everywhere but between the PSB in front of the damage and the one behind it.
 *
 * usage: damage [FLIPS [CUTS [SEED]]] (2000, 500, 1). CUTS 0: at every byte.
 * Ends with 'N passed, N failed'; a failure names its place.
 */
#include "tests/harness.h"
#include "tests/program.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <inttypes.h>
#include "ptdec.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACE_BYTES  (64u << 10)
#define MAX_PSBS     256u
#define ITEMS_A_BYTE 64u /* of a decoding that never ends */

/* What ran, of an item: blocks, transfers, and where tracing begins and ends. */
struct step {
    uint64_t offset, ip, to, cr3;
    uint32_t insns;
    uint16_t type, mode; /* no padding: it is compared as bytes */
};

struct steps {
    struct step *step;
    size_t count, room;
    size_t psb_step[MAX_PSBS]; /* the first step behind a PSB */
    uint64_t psb[MAX_PSBS];
    unsigned psbs;
    bool endless;
};

static struct image user, kernel;
static struct ptd_image *code;
static uint8_t trace[TRACE_BYTES], damaged[TRACE_BYTES];
static unsigned passed, failed;
static unsigned flips = 2000, cuts = 500;
static uint64_t seed = 1;

/* ---- The trace ------------------------------------------------------------------------------ */

static void make_trace(void)
{
    const uint64_t ctl = VPT_CTL_TRACEEN | VPT_CTL_TOPA | VPT_CTL_BRANCHEN | VPT_CTL_OS |
                         VPT_CTL_USER | VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN;
    struct fake *fake = fake_open("skylake");
    struct random random = {seed * 2654435761u + 88172645463325252ull};
    struct walk walk;

    program_make(&user, &kernel, &random);
    walk_start(&walk, &user, &kernel, &random);
    walk.interrupts_per_1024 = 4;
    fake_output(fake);
    for (;;) {
        struct vpt_context ctx = walk_context(&walk);
        struct vpt_transfer transfer;

        vpt_clocks_from_tsc(&fake->caps, fake->clocks.tsc + draw(&random, 4), &fake->clocks);
        if (!vpt_trigger_en(&fake->cpu)) {
            vpt_set_context(&fake->cpu, &ctx);
            vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, ctl, walk_ip(&walk), walk_ip(&walk));
        }
        if (walk_interrupt(&walk, &transfer))
            vpt_transfer(&fake->cpu, &transfer);
        walk_step(&walk, &fake->cpu);
        if (fake->tap_len >= TRACE_BYTES)
            break;
    }
    memcpy(trace, fake->tap, TRACE_BYTES);
    fake_close(fake);
}

static void make_code(void)
{
    code = ptd_image_new();
    if (!code ||
        ptd_image_add_bytes(code, NULL, user.base, user.code, user.len_bytes, PTD_ANY_CR3) !=
            PTD_OK ||
        ptd_image_add_bytes(code, NULL, kernel.base, kernel.code, kernel.len_bytes, PTD_ANY_CR3) !=
            PTD_OK)
        abort();
}

/* ---- Decoding ------------------------------------------------------------------------------- */

static void add_step(struct steps *steps, const struct ptd_item *item)
{
    if (steps->count == steps->room) {
        steps->room = steps->room ? 2 * steps->room : 65536;
        steps->step = realloc(steps->step, steps->room * sizeof(*steps->step));
        if (!steps->step)
            abort();
    }
    steps->step[steps->count++] = (struct step){.offset = item->offset,
                                                .ip = item->ip,
                                                .to = item->to,
                                                .cr3 = item->cr3,
                                                .insns = item->insns,
                                                .type = item->type,
                                                .mode = item->mode};
}

static void add_psb(struct steps *steps, uint64_t offset)
{
    if (steps->psbs == MAX_PSBS)
        abort();
    steps->psb[steps->psbs] = offset;
    steps->psb_step[steps->psbs++] = steps->count;
}

static void decode(const uint8_t *bytes, size_t len_bytes, struct steps *steps)
{
    struct ptd_flow *flow = ptd_flow_new(bytes, len_bytes, code, NULL);
    struct ptd_item item;

    if (!flow)
        abort();
    steps->count = steps->psbs = 0;
    steps->endless = false;
    while (!steps->endless && ptd_flow_next(flow, &item) == PTD_OK) {
        switch ((enum ptd_item_type)item.type) {
        case PTD_ITEM_PSB:
            add_psb(steps, item.offset);
            break;
        case PTD_ITEM_BLOCK:
        case PTD_ITEM_ENABLED:
        case PTD_ITEM_DISABLED:
        case PTD_ITEM_ASYNC:
            add_step(steps, &item);
            break;
        default: /* state, time, errors */
            break;
        }
        steps->endless = steps->count > (size_t)TRACE_BYTES * ITEMS_A_BYTE;
    }
    ptd_flow_free(flow);
}

/* ---- The verdict ---------------------------------------------------------------------------- */

static void judge(bool good, const char *what, size_t at, const char *problem)
{
    passed += good;
    failed += !good;
    if (!good)
        printf("FAILED: %s at %zu: %s\n", what, at, problem);
}

/* The last PSB at or in front of a byte; the first behind it. */
static unsigned psb_before(const struct steps *steps, size_t at)
{
    unsigned psb = 0;

    while (psb + 1 < steps->psbs && steps->psb[psb + 1] <= at)
        psb++;
    return psb;
}

static bool same_steps(const struct steps *a, size_t from_a, const struct steps *b, size_t from_b,
                       size_t count)
{
    return count == 0 ||
           (from_a + count <= a->count && from_b + count <= b->count &&
            memcmp(a->step + from_a, b->step + from_b, count * sizeof(*a->step)) == 0);
}

/* Steps in front of a PSB but for the last ones, which only the FUP of its PSB+ tells. */
static size_t steps_before(const struct steps *steps, unsigned psb)
{
    size_t count = steps->psb_step[psb];

    while (count > 0 && steps->step[count - 1].offset >= steps->psb[psb])
        count--;
    return count;
}

/* What is wrong with a trace that is damaged at a byte; NULL: nothing. */
static const char *compare(const struct steps *whole, const struct steps *part, size_t at, bool cut)
{
    const unsigned before = psb_before(whole, at), behind = before + 1;

    if (part->endless)
        return "it has no end";
    if (!same_steps(whole, 0, part, 0, steps_before(whole, before)))
        return "the part in front of the damage differs";
    if (cut || behind == whole->psbs)
        return NULL;
    for (unsigned i = 0; i < part->psbs; i++) {
        const size_t rest = whole->count - whole->psb_step[behind];

        if (part->psb[i] != whole->psb[behind])
            continue;
        return part->count - part->psb_step[i] == rest &&
                       same_steps(whole, whole->psb_step[behind], part, part->psb_step[i], rest)
                   ? NULL
                   : "the part behind the next PSB differs";
    }
    return "the next PSB was not found";
}

static void test_flip(const struct steps *whole, struct steps *part, struct random *random)
{
    const size_t at = (size_t)draw(random, TRACE_BYTES);

    memcpy(damaged, trace, TRACE_BYTES);
    damaged[at] ^= (uint8_t)(1 + draw(random, 255));
    decode(damaged, TRACE_BYTES, part);
    const char *const problem = compare(whole, part, at, false);
    judge(!problem, "a byte changed", at, problem);
}

static void test_cut(const struct steps *whole, struct steps *part, size_t at)
{
    decode(trace, at, part);
    const char *const problem = at > whole->psb[0] ? compare(whole, part, at - 1, true) : NULL;
    judge(!problem, "cut off", at, problem);
}

static void progress(unsigned done, unsigned all)
{
    if (isatty(STDERR_FILENO) && done % 100 == 0)
        fprintf(stderr, "\r%u of %u ", done, all);
}

/* All of it: the model's harness wants to run inside a test. */
static void test_damage(void)
{
    const unsigned every = cuts ? cuts : TRACE_BYTES;
    struct random random = {seed * 6364136223846793005ull + 1442695040888963407ull};
    struct steps whole = {0}, part = {0};

    make_trace();
    make_code();
    decode(trace, TRACE_BYTES, &whole);
    printf("%u bytes, %u PSBs, %zu steps\n", TRACE_BYTES, whole.psbs, whole.count);
    for (unsigned i = 0; i < flips; i++, progress(i, flips))
        test_flip(&whole, &part, &random);
    for (unsigned i = 0; i < every; i++, progress(i, every))
        test_cut(&whole, &part, cuts ? draw(&random, TRACE_BYTES) : i);
    ptd_image_free(code);
    free(whole.step);
    free(part.step);
}

int main(int argc, char **argv)
{
    CU_pSuite suite;

    if (argc > 4) {
        fprintf(stderr, "usage: damage [FLIPS [CUTS [SEED]]]\n");
        return 2;
    }
    flips = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : flips;
    cuts = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : cuts;
    seed = argc > 3 ? strtoull(argv[3], NULL, 0) : seed;
    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    suite = CU_add_suite("damage", NULL, NULL);
    CU_add_test(suite, "damage", test_damage);
    CU_run_suite(suite);
    failed += CU_get_number_of_failures();
    CU_cleanup_registry();
    printf("%u passed, %u failed\n", passed, failed);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
