/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the watch for exceptions: what it does to handlers, and what it sees. */
#include "suites.h"
#include "kvm/watch.h"

#include <CUnit/CUnit.h>

#define ALL     7ull
#define IDT     0x31000ull
#define HANDLER 0x50000ull /* of vector v: v pages above */
#define STACK   0x8000ull
#define CODE    0x20000ull
#define TF      (1ull << 8)
#define BYTE    0x5a /* what a handler begins with */

static uint64_t handler_of(unsigned vector)
{
    return HANDLER + vector * PAGE_BYTES;
}

static void put_gate(struct fake *fake, unsigned vector, uint64_t handler)
{
    fake_put(fake, IDT + 16 * vector,
             (handler & 0xffff) | (handler >> 16 & 0xffff) << 48 | 0x10ull << 16 | 0x8eull << 40);
    fake_put(fake, IDT + 16 * vector + 8, handler >> 32);
}

/* A machine with a handler for each of vectors 0 to 31, stopped before an instruction. */
static struct fake *set_up(void)
{
    struct fake *fake = fake_new();

    fake_identity_map(fake, ALL);
    for (unsigned vector = 0; vector < 32; vector++) {
        put_gate(fake, vector, handler_of(vector));
        fake->ram[handler_of(vector)] = BYTE;
    }
    vcpu_sregs(fake->cpu)->idt.base = IDT;
    vcpu_sregs(fake->cpu)->idt.limit = 32 * 16 - 1;
    vcpu_regs(fake->cpu)->rip = CODE;
    vcpu_regs(fake->cpu)->rsp = STACK;
    fake->run.exit_reason = KVM_EXIT_DEBUG;
    return fake;
}

static bool all_restored(const struct fake *fake)
{
    for (unsigned vector = 0; vector < 32; vector++) {
        if (fake->ram[handler_of(vector)] != BYTE)
            return false;
    }
    return true;
}

static void test_nothing_happens(void)
{
    struct fake *fake = set_up();
    struct watch watch;

    watch_begin(fake->cpu, false, 0, &watch);
    CU_ASSERT_EQUAL(watch.count, 4);
    CU_ASSERT_NOT_EQUAL(fake->ram[handler_of(13)], BYTE);
    CU_ASSERT_NOT_EQUAL(fake->ram[handler_of(6)], BYTE);
    CU_ASSERT_NOT_EQUAL(fake->ram[handler_of(14)], BYTE);
    CU_ASSERT_NOT_EQUAL(fake->ram[handler_of(0)], BYTE);
    CU_ASSERT_EQUAL(fake->ram[handler_of(1)], BYTE);
    vcpu_regs(fake->cpu)->rip = CODE + 3;
    CU_ASSERT_EQUAL(watch_end(fake->cpu, &watch), -1);
    CU_ASSERT_TRUE(all_restored(fake));
    CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rip, CODE + 3);
    fake_free(fake);
}

/* The frame of an exception that the watched instruction raised; where its RFLAGS are. */
static uint64_t put_frame(struct fake *fake, bool error_code)
{
    const uint64_t at = STACK + (error_code ? 8 : 0);

    fake_put(fake, at, CODE);
    fake_put(fake, at + 16, 2 | TF);
    fake->run.exit_reason = KVM_EXIT_INTR;
    return at + 16;
}

/* Each vector, with RIP at the handler or behind the byte that was put there. */
static void test_exceptions(void)
{
    static const struct {
        unsigned vector, other;
        bool debug, error_code;
    } cases[] = {{13, 0, false, true},   {6, 0, false, false},  {14, 0, false, true},
                 {1, 0, true, false},    {0, 0, false, false},  {12, 12, false, true},
                 {16, 16, false, false}, {19, 19, false, false}};

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const unsigned vector = cases[i / 2].vector;
        struct fake *fake = set_up();
        struct watch watch;
        uint64_t flags;

        watch_begin(fake->cpu, cases[i / 2].debug, cases[i / 2].other, &watch);
        flags = put_frame(fake, cases[i / 2].error_code);
        vcpu_regs(fake->cpu)->rip = handler_of(vector) + i % 2;
        CU_ASSERT_EQUAL(watch_end(fake->cpu, &watch), (int)vector);
        if (vector == 1) { /* the guest stays in its #DB handler, to go on with TF */
            CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rip, handler_of(vector) + i % 2);
            CU_ASSERT_EQUAL(fake_get(fake, flags), 2 | TF);
        } else {
            CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rip, handler_of(vector));
            CU_ASSERT_EQUAL(fake_get(fake, flags), 2); /* the guest never sees TF */
        }
        CU_ASSERT_TRUE(all_restored(fake));
        fake_free(fake);
    }
}

/* A jump to a handler is no exception: there is no frame. */
static void test_jump_to_handler(void)
{
    struct fake *fake = set_up();
    struct watch watch;

    watch_begin(fake->cpu, false, 0, &watch);
    fake_put(fake, STACK + 16, 2);
    fake_put(fake, STACK + 24, 2);
    vcpu_regs(fake->cpu)->rip = handler_of(6);
    CU_ASSERT_EQUAL(watch_end(fake->cpu, &watch), -1);
    CU_ASSERT_TRUE(all_restored(fake));
    fake_free(fake);
}

static void test_shared_handler(void)
{
    struct fake *fake = set_up();
    struct watch watch;

    put_gate(fake, 6, handler_of(13));
    put_gate(fake, 0, handler_of(13));
    put_gate(fake, 14, handler_of(13));
    watch_begin(fake->cpu, false, 0, &watch);
    CU_ASSERT_EQUAL(watch_end(fake->cpu, &watch), -1);
    CU_ASSERT_TRUE(all_restored(fake));
    fake_free(fake);
}

/* Without SSE switched on, its instructions raise #NM. */
static void test_device_not_available(void)
{
    struct fake *fake = set_up();
    struct watch watch;

    vcpu_sregs(fake->cpu)->cr0 |= 1u << 3;
    watch_begin(fake->cpu, false, 19, &watch);
    put_frame(fake, false);
    vcpu_regs(fake->cpu)->rip = handler_of(7);
    CU_ASSERT_EQUAL(watch_end(fake->cpu, &watch), 7);
    CU_ASSERT_TRUE(all_restored(fake));
    fake_free(fake);
}

/* No IDT, handlers that are not mapped, outside memory, or the very instruction. */
static void test_nothing_to_watch(void)
{
    static const uint64_t handlers[] = {FAKE_RAM_BYTES, 0x40000000, 1ull << 47, UINT64_MAX, CODE};

    for (size_t i = 0; i <= sizeof(handlers) / sizeof(handlers[0]); i++) {
        struct fake *fake = set_up();
        struct watch watch;

        fake_put(fake, 0x4000 + 8 * 0xff, 0x7fff0000 | ALL); /* mapped, and not to memory */
        for (unsigned vector = 0; vector < 32; vector++)
            put_gate(fake, vector, i ? handlers[i - 1] : 0xff000);
        watch_begin(fake->cpu, true, 0, &watch);
        CU_ASSERT_EQUAL(watch.count, 0);
        CU_ASSERT_EQUAL(watch_end(fake->cpu, &watch), -1);
        vcpu_sregs(fake->cpu)->idt.limit = 0;
        watch_begin(fake->cpu, true, 0, &watch);
        CU_ASSERT_EQUAL(watch.count, 0);
        CU_ASSERT_EQUAL(watch_end(fake->cpu, &watch), -1);
        fake_free(fake);
    }
}

void add_watch_suite(void)
{
    CU_pSuite suite = CU_add_suite("exceptions watched", NULL, NULL);

    CU_add_test(suite, "nothing happens", test_nothing_happens);
    CU_add_test(suite, "exceptions", test_exceptions);
    CU_add_test(suite, "a jump to a handler", test_jump_to_handler);
    CU_add_test(suite, "one handler for several", test_shared_handler);
    CU_add_test(suite, "#NM instead of #XM", test_device_not_available);
    CU_add_test(suite, "nothing to watch", test_nothing_to_watch);
}
