/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the local APIC: timer, priorities, the performance-monitoring entry. */
#include "suites.h"

#include <CUnit/CUnit.h>

#define TPR        0x80
#define EOI        0xb0
#define SVR        0xf0
#define ISR        0x100
#define IRR        0x200
#define ICR        0x300
#define ICR_HIGH   0x310
#define LVT_TIMER  0x320
#define LVT_LINT0  0x350
#define LDR        0xd0
#define DFR        0xe0
#define LVT_PC     0x340
#define TIMER_INIT 0x380
#define TIMER_NOW  0x390
#define TIMER_DIV  0x3e0

#define ENABLED     0x1ff
#define MASKED      (1u << 16)
#define PERIODIC    (1u << 17)
#define DELIVER_NMI (4u << 8)
#define TO_SELF     (1u << 18)
#define DIVIDE_BY_1 0xbu

static struct apic fresh(void)
{
    struct apic apic;

    apic_reset(&apic, 0);
    apic_write(&apic, SVR, ENABLED, 0);
    return apic;
}

/* To itself or nobody: there is no other. */
static void send(struct apic *apic, uint32_t icr)
{
    apic_write(apic, ICR, icr, 0);
    apic_receive(apic, apic);
}

static void test_reset(void)
{
    struct apic apic;

    apic_reset(&apic, 0);
    CU_ASSERT_EQUAL(apic_read(&apic, LVT_PC, 0), MASKED);
    CU_ASSERT_EQUAL(apic_read(&apic, LVT_TIMER, 0), MASKED);
    CU_ASSERT_EQUAL(apic_read(&apic, SVR, 0), 0xff);
    CU_ASSERT_EQUAL(apic_read(&apic, 0x30, 0) & 0xff, 0x14);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
    /* Disabled by SVR: nothing is accepted. */
    send(&apic, TO_SELF | 0x40);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
}

static void test_one_shot(void)
{
    struct apic apic = fresh();

    apic_write(&apic, TIMER_DIV, DIVIDE_BY_1, 0);
    apic_write(&apic, LVT_TIMER, 0x40, 0);
    apic_write(&apic, TIMER_INIT, 100, 1000);
    CU_ASSERT_EQUAL(apic_read(&apic, TIMER_NOW, 1040), 60);
    apic_tick(&apic, 1099);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
    apic_tick(&apic, 1100);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x40);
    CU_ASSERT_EQUAL(apic_read(&apic, TIMER_NOW, 1100), 0);
    apic_accept(&apic, 0x40);
    apic_write(&apic, EOI, 0, 0);
    apic_tick(&apic, 5000);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* once */
    apic_write(&apic, TIMER_INIT, 100, 6000);
    apic_write(&apic, TIMER_INIT, 0, 6000); /* stops it */
    apic_tick(&apic, 9000);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
}

static void test_periodic_and_divider(void)
{
    struct apic apic = fresh();

    apic_write(&apic, TIMER_DIV, 1, 0); /* by 4 */
    apic_write(&apic, LVT_TIMER, PERIODIC | 0x41, 0);
    apic_write(&apic, TIMER_INIT, 10, 0);
    for (uint64_t now = 40; now <= 400; now += 40) {
        apic_tick(&apic, now - 1);
        CU_ASSERT_EQUAL(apic_pending(&apic), -1);
        apic_tick(&apic, now);
        CU_ASSERT_EQUAL(apic_pending(&apic), 0x41);
        apic_accept(&apic, 0x41);
        apic_write(&apic, EOI, 0, now);
    }
    apic_write(&apic, LVT_TIMER, MASKED | PERIODIC | 0x41, 400);
    apic_tick(&apic, 10000);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
}

static void test_every_divider(void)
{
    static const unsigned by[] = {2, 4, 8, 16, 32, 64, 128, 1};

    for (unsigned code = 0; code < 8; code++) {
        struct apic apic = fresh();

        apic_write(&apic, TIMER_DIV, (code & 3) | (code & 4) << 1, 0);
        apic_write(&apic, LVT_TIMER, 0x40, 0);
        apic_write(&apic, TIMER_INIT, 3, 0);
        apic_tick(&apic, 3 * by[code] - 1);
        CU_ASSERT_EQUAL(apic_pending(&apic), -1);
        apic_tick(&apic, 3 * by[code]);
        CU_ASSERT_EQUAL(apic_pending(&apic), 0x40);
    }
}

static void test_rebase(void)
{
    struct apic apic = fresh();

    apic_write(&apic, TIMER_DIV, DIVIDE_BY_1, 0);
    apic_write(&apic, LVT_TIMER, 0x40, 0);
    apic_write(&apic, TIMER_INIT, 100, 5000);
    apic_rebase(&apic, 5060, 7); /* 40 to go */
    apic_tick(&apic, 46);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
    apic_tick(&apic, 47);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x40);
}

static void test_rebase_corners(void)
{
    struct apic apic = fresh();

    apic_rebase(&apic, 5000, 7); /* not armed */
    apic_tick(&apic, UINT64_MAX);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);

    apic_write(&apic, TIMER_DIV, DIVIDE_BY_1, 0);
    apic_write(&apic, LVT_TIMER, PERIODIC | 0x40, 0);
    apic_write(&apic, TIMER_INIT, 100, 0);
    apic_rebase(&apic, 500, 0); /* due already: at once, and then each period */
    apic_tick(&apic, 1);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x40);
    apic_accept(&apic, 0x40);
    apic_write(&apic, EOI, 0, 1);
    apic_tick(&apic, 100);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
    apic_tick(&apic, 101);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x40);
}

/* The longest the timer can be set to is not cut to 32 bits. */
static void test_long_timer(void)
{
    struct apic apic = fresh();
    const uint64_t ticks = UINT32_MAX * 128ull;

    apic_write(&apic, TIMER_DIV, 0xa, 0); /* by 128 */
    apic_write(&apic, LVT_TIMER, 0x40, 0);
    apic_write(&apic, TIMER_INIT, UINT32_MAX, 0);
    CU_ASSERT_EQUAL(apic_read(&apic, TIMER_NOW, 0), UINT32_MAX);
    apic_tick(&apic, ticks - 1);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
    apic_tick(&apic, ticks);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x40);
}

static void test_self_ipi(void)
{
    struct apic apic = fresh();

    apic_write(&apic, EOI, 0, 0); /* nothing is in service */
    apic_write(&apic, ICR_HIGH, 1u << 24, 0);
    send(&apic, 0x40);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* no shorthand: to another processor */
    send(&apic, 3u << 18 | 0x40);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* all but self */
    send(&apic, TO_SELF | 0x0f);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* an illegal vector */
    send(&apic, 2u << 18 | 0x40);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x40); /* all */
    apic_accept(&apic, 0x40);
    apic_write(&apic, EOI, 0, 0);
    send(&apic, TO_SELF | 0xff);
    apic_write(&apic, TPR, 0xff, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* above every vector */
    apic_write(&apic, TPR, 0xef, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0xff);
}

static void test_read_only_registers(void)
{
    struct apic apic = fresh();
    static const uint32_t offsets[] = {0x30, ISR, 0x180, IRR, IRR + 0x70, TIMER_NOW, 0x3f0};

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        const uint32_t before = apic_read(&apic, offsets[i], 0);

        apic_write(&apic, offsets[i], ~before, 0);
        CU_ASSERT_EQUAL(apic_read(&apic, offsets[i], 0), before);
    }
    CU_ASSERT_EQUAL(apic_read(&apic, 0x81, 0), 0); /* not on a boundary */
    CU_ASSERT_EQUAL(apic_read(&apic, 0x400, 0), 0);
    CU_ASSERT_EQUAL(apic_read(&apic, UINT32_MAX, 0), 0);
}

static void test_priorities(void)
{
    struct apic apic = fresh();

    send(&apic, TO_SELF | 0x40);
    send(&apic, TO_SELF | 0x85);
    CU_ASSERT_EQUAL(apic_read(&apic, IRR + 0x20, 0), 1);
    CU_ASSERT_EQUAL(apic_read(&apic, IRR + 0x40, 0), 1u << 5);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x85);
    apic_accept(&apic, 0x85);
    CU_ASSERT_EQUAL(apic_read(&apic, ISR + 0x40, 0), 1u << 5);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* 40H waits for the EOI */
    send(&apic, TO_SELF | 0x86);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* the same class */
    send(&apic, TO_SELF | 0x90);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x90); /* a higher one */
    apic_accept(&apic, 0x90);
    apic_write(&apic, EOI, 0, 0);
    apic_write(&apic, EOI, 0, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x86);
    apic_accept(&apic, 0x86);
    apic_write(&apic, EOI, 0, 0);
    apic_write(&apic, TPR, 0x40, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
    apic_write(&apic, TPR, 0x3f, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x40);
}

static void test_pmi(void)
{
    struct apic apic = fresh();

    apic_pmi(&apic); /* masked after reset */
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
    CU_ASSERT_FALSE(apic.nmi_pending);

    apic_write(&apic, LVT_PC, 0x50, 0);
    apic_pmi(&apic);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x50);
    CU_ASSERT_EQUAL(apic_read(&apic, LVT_PC, 0), MASKED | 0x50);

    apic_write(&apic, LVT_PC, DELIVER_NMI, 0);
    apic_pmi(&apic);
    CU_ASSERT_TRUE(apic.nmi_pending);
    CU_ASSERT_EQUAL(apic_read(&apic, LVT_PC, 0), MASKED | DELIVER_NMI);
}

static void test_self_nmi(void)
{
    struct apic apic = fresh();

    apic_write(&apic, ICR_HIGH, 1u << 24, 0);
    send(&apic, DELIVER_NMI); /* no shorthand: to another processor */
    CU_ASSERT_FALSE(apic.nmi_pending);
    send(&apic, TO_SELF | DELIVER_NMI);
    CU_ASSERT_TRUE(apic.nmi_pending);
}

/* Whatever a guest writes, wherever it writes: nothing breaks, no illegal vector comes out. */
static void test_hostile_registers(void)
{
    uint64_t random = 0x9e3779b97f4a7c15ull, now = 0;
    struct apic apic = fresh();

    for (unsigned i = 0; i < 200000; i++) {
        int vector;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        now += random >> 60;
        apic_write(&apic, (uint32_t)(random >> 8) & 0xfff, (uint32_t)(random >> 24), now);
        (void)apic_read(&apic, (uint32_t)(random >> 20) & 0xfff, now);
        apic_tick(&apic, now);
        apic_pmi(&apic);
        vector = apic_pending(&apic);
        if (vector >= 0) {
            CU_ASSERT_FATAL(vector >= 16 && vector <= 255);
            apic_accept(&apic, vector);
        }
    }
}

/* ---- Several of them ---- */

#define COUNT      4
#define LOGICAL    (1u << 11)
#define ASSERT     (1u << 14)
#define LOWEST     (1u << 8)
#define INIT       (5u << 8)
#define SIPI       (6u << 8)
#define ALL        (2u << 18)
#define OTHERS     (3u << 18)
#define CLUSTERS   0x0fffffffu
#define ICR_VECTOR 0x40u

/* Enabled, with the IDs 0 to 3 and the logical IDs 1, 2, 4, 8. */
static void fresh_all(struct apic apics[COUNT])
{
    for (unsigned i = 0; i < COUNT; i++) {
        apic_reset(&apics[i], (uint8_t)i);
        apic_write(&apics[i], SVR, ENABLED, 0);
        apic_write(&apics[i], LDR, 1u << (24 + i), 0);
    }
}

/* A mask of those that accepted. */
static unsigned send_from(struct apic apics[COUNT], unsigned from, uint8_t to, uint32_t icr)
{
    unsigned accepted = 0;

    apic_write(&apics[from], ICR_HIGH, (uint32_t)to << 24, 0);
    apic_write(&apics[from], ICR, icr, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        if (apic_receive(&apics[i], &apics[from]))
            break;
    }
    for (unsigned i = 0; i < COUNT; i++) {
        if (apic_pending(&apics[i]) == (int)(icr & 0xff))
            accepted |= 1u << i;
    }
    return accepted;
}

static void test_destinations(void)
{
    static const struct {
        uint8_t to;
        uint32_t icr, dfr;
        unsigned accepted;
    } cases[] = {
        {0, 0, UINT32_MAX, 1},
        {2, 0, UINT32_MAX, 4},
        {7, 0, UINT32_MAX, 0},
        {0xff, 0, UINT32_MAX, 0xf},  /* broadcast */
        {2, TO_SELF, UINT32_MAX, 2}, /* a shorthand counts, not the destination */
        {2, ALL, UINT32_MAX, 0xf},
        {2, OTHERS, UINT32_MAX, 0xd},
        {5, LOGICAL, UINT32_MAX, 5}, /* flat: a mask */
        {0xff, LOGICAL, UINT32_MAX, 0xf},
        {0, LOGICAL, UINT32_MAX, 0},
        {5, LOGICAL, CLUSTERS, 5},    /* cluster 0, a mask in it */
        {0x15, LOGICAL, CLUSTERS, 0}, /* another cluster */
        {0xff, LOGICAL, CLUSTERS, 0xf},
        {6, LOGICAL | LOWEST, UINT32_MAX, 2}, /* one of them */
        {0xff, LOWEST, UINT32_MAX, 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct apic apics[COUNT];

        fresh_all(apics);
        for (unsigned k = 0; k < COUNT; k++)
            apic_write(&apics[k], DFR, cases[i].dfr, 0);
        CU_ASSERT_EQUAL(send_from(apics, 1, cases[i].to, cases[i].icr | ICR_VECTOR),
                        cases[i].accepted);
    }
}

/* An APIC that software has disabled takes INIT, SIPI and NMI, but no vector (11.4.7.2). */
static void test_disabled(void)
{
    struct apic apics[COUNT];

    fresh_all(apics);
    apic_write(&apics[2], LVT_PC, 0x50, 0);
    apic_write(&apics[2], SVR, 0xff, 0);
    CU_ASSERT_EQUAL(apic_read(&apics[2], LVT_PC, 0), MASKED | 0x50);
    apic_write(&apics[2], LVT_LINT0, 0x51, 0); /* the mask bits stay */
    CU_ASSERT_EQUAL(apic_read(&apics[2], LVT_LINT0, 0), MASKED | 0x51);
    CU_ASSERT_EQUAL(send_from(apics, 0, 2, ICR_VECTOR), 0);
    CU_ASSERT_EQUAL(send_from(apics, 0, 0xff, LOGICAL | LOWEST | ICR_VECTOR), 1);
    send_from(apics, 0, 2, DELIVER_NMI);
    CU_ASSERT_TRUE(apics[2].nmi_pending);
    CU_ASSERT_FALSE(apics[1].nmi_pending);
}

static void test_init_and_sipi(void)
{
    struct apic apics[COUNT];

    fresh_all(apics);
    send_from(apics, 0, 1, INIT); /* de-assertion */
    CU_ASSERT_FALSE(apics[1].init_pending);
    send_from(apics, 0, 0, INIT | ASSERT | OTHERS);
    CU_ASSERT_FALSE(apics[0].init_pending);
    for (unsigned i = 1; i < COUNT; i++)
        CU_ASSERT_TRUE(apics[i].init_pending);
    send_from(apics, 0, 3, SIPI | 0x70);
    CU_ASSERT_FALSE(apics[1].sipi_pending);
    CU_ASSERT_TRUE(apics[3].sipi_pending);
    CU_ASSERT_EQUAL(apics[3].sipi_vector, 0x70);
    send_from(apics, 0, 3, INIT | ASSERT); /* an earlier SIPI is no answer to it */
    CU_ASSERT_FALSE(apics[3].sipi_pending);
}

void add_apic_suite(void)
{
    CU_pSuite suite = CU_add_suite("local APIC", NULL, NULL);

    CU_add_test(suite, "after reset", test_reset);
    CU_add_test(suite, "one-shot timer", test_one_shot);
    CU_add_test(suite, "periodic timer", test_periodic_and_divider);
    CU_add_test(suite, "every divider", test_every_divider);
    CU_add_test(suite, "a clock that changes", test_rebase);
    CU_add_test(suite, "a clock that changes: corners", test_rebase_corners);
    CU_add_test(suite, "the longest timer", test_long_timer);
    CU_add_test(suite, "interrupt to itself", test_self_ipi);
    CU_add_test(suite, "read-only registers", test_read_only_registers);
    CU_add_test(suite, "priorities", test_priorities);
    CU_add_test(suite, "PMI", test_pmi);
    CU_add_test(suite, "NMI to itself", test_self_nmi);
    CU_add_test(suite, "hostile registers", test_hostile_registers);
    CU_add_test(suite, "destinations of IPIs", test_destinations);
    CU_add_test(suite, "disabled by software", test_disabled);
    CU_add_test(suite, "INIT and SIPI", test_init_and_sipi);
}
