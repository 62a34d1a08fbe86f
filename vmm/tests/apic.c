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
#define LVT_TIMER  0x320
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

    apic_reset(&apic);
    apic_write(&apic, SVR, ENABLED, 0);
    return apic;
}

static void test_reset(void)
{
    struct apic apic;

    apic_reset(&apic);
    CU_ASSERT_EQUAL(apic_read(&apic, LVT_PC, 0), MASKED);
    CU_ASSERT_EQUAL(apic_read(&apic, LVT_TIMER, 0), MASKED);
    CU_ASSERT_EQUAL(apic_read(&apic, SVR, 0), 0xff);
    CU_ASSERT_EQUAL(apic_read(&apic, 0x30, 0) & 0xff, 0x14);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1);
    /* Disabled by SVR: nothing is accepted. */
    apic_write(&apic, ICR, TO_SELF | 0x40, 0);
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
    apic_write(&apic, ICR, 0x40, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* no shorthand */
    apic_write(&apic, ICR, 3u << 18 | 0x40, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* all but self */
    apic_write(&apic, ICR, TO_SELF | 0x0f, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* an illegal vector */
    apic_write(&apic, ICR, 2u << 18 | 0x40, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x40); /* all */
    apic_accept(&apic, 0x40);
    apic_write(&apic, EOI, 0, 0);
    apic_write(&apic, ICR, TO_SELF | 0xff, 0);
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

    apic_write(&apic, ICR, TO_SELF | 0x40, 0);
    apic_write(&apic, ICR, TO_SELF | 0x85, 0);
    CU_ASSERT_EQUAL(apic_read(&apic, IRR + 0x20, 0), 1);
    CU_ASSERT_EQUAL(apic_read(&apic, IRR + 0x40, 0), 1u << 5);
    CU_ASSERT_EQUAL(apic_pending(&apic), 0x85);
    apic_accept(&apic, 0x85);
    CU_ASSERT_EQUAL(apic_read(&apic, ISR + 0x40, 0), 1u << 5);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* 40H waits for the EOI */
    apic_write(&apic, ICR, TO_SELF | 0x86, 0);
    CU_ASSERT_EQUAL(apic_pending(&apic), -1); /* the same class */
    apic_write(&apic, ICR, TO_SELF | 0x90, 0);
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

    apic_write(&apic, ICR, DELIVER_NMI, 0); /* no shorthand: to another processor */
    CU_ASSERT_FALSE(apic.nmi_pending);
    apic_write(&apic, ICR, TO_SELF | DELIVER_NMI, 0);
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
}
