/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of conditions: what the processor under the test itself does with the same flags is
 * right. */
#include "suites.h"
#include "kvm/condition.h"

#include <CUnit/CUnit.h>

/* SETcc with these flags. The stack below RSP may be in use (red zone). */
#define NATIVE(cc)                                                                                 \
    static bool native_##cc(uint64_t flags)                                                        \
    {                                                                                              \
        bool result;                                                                               \
                                                                                                   \
        __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"                                             \
                         "pushq %1\n\t"                                                            \
                         "popfq\n\t"                                                               \
                         "set" #cc " %0\n\t"                                                       \
                         "leaq 128(%%rsp), %%rsp"                                                  \
                         : "=q"(result)                                                            \
                         : "r"(flags)                                                              \
                         : "cc", "memory");                                                        \
        return result;                                                                             \
    }

NATIVE(o)
NATIVE(no)
NATIVE(b)
NATIVE(ae)
NATIVE(e)
NATIVE(ne)
NATIVE(be)
NATIVE(a)
NATIVE(s)
NATIVE(ns)
NATIVE(p)
NATIVE(np)
NATIVE(l)
NATIVE(ge)
NATIVE(le)
NATIVE(g)

/* In the order of their codes. */
static bool (*const native[16])(uint64_t flags) = {
    native_o, native_no, native_b, native_ae, native_e, native_ne, native_be, native_a,
    native_s, native_ns, native_p, native_np, native_l, native_ge, native_le, native_g,
};

/* CF, PF, ZF, SF and OF, as the bits of n have them. */
static uint64_t flags_of(unsigned n)
{
    return 2 | (n & 1) | (n & 2) << 1 | (n & 4) << 4 | (n & 8) << 4 | (n & 16) << 7;
}

static void test_jcc(void)
{
    for (unsigned cc = 0; cc < 16; cc++) {
        const uint8_t near[] = {0x0f, (uint8_t)(0x80 + cc), 0, 0, 0, 0};
        const uint8_t prefixed[] = {0xf2, (uint8_t)(0x70 + cc), 0};

        for (unsigned n = 0; n < 32; n++) {
            const struct kvm_regs regs = {.rflags = flags_of(n)};
            const bool want = native[cc](flags_of(n));

            CU_ASSERT_EQUAL(condition_held(&regs, prefixed + 1, 2), want);
            CU_ASSERT_EQUAL(condition_held(&regs, prefixed, sizeof(prefixed)), want);
            CU_ASSERT_EQUAL(condition_held(&regs, near, sizeof(near)), want);
        }
    }
}

/* RCX is what the instruction left. */
static const struct loop_case {
    uint64_t rcx;
    uint8_t code[3], len_bytes;
    bool zf, held;
} loop_cases[] = {
    {1, {0xe2, 0}, 2, false, true},
    {0, {0xe2, 0}, 2, false, false},
    {1ull << 32, {0xe2, 0}, 2, false, true},
    {1ull << 32, {0x67, 0xe2, 0}, 3, false, false},
    {1, {0xe1, 0}, 2, true, true},
    {1, {0xe1, 0}, 2, false, false},
    {0, {0xe1, 0}, 2, true, false},
    {1, {0xe0, 0}, 2, false, true},
    {1, {0xe0, 0}, 2, true, false},
    {0, {0xe0, 0}, 2, false, false},
    {0, {0xe3, 0}, 2, false, true},
    {1ull << 32, {0xe3, 0}, 2, false, false},
    {1ull << 32, {0x67, 0xe3, 0}, 3, false, true},
};

static void test_loop(void)
{
    for (size_t i = 0; i < sizeof(loop_cases) / sizeof(loop_cases[0]); i++) {
        const struct loop_case *c = &loop_cases[i];
        const struct kvm_regs regs = {.rcx = c->rcx, .rflags = c->zf ? 0x42 : 2};

        CU_ASSERT_EQUAL(condition_held(&regs, c->code, c->len_bytes), c->held);
    }
}

void add_condition_suite(void)
{
    CU_pSuite suite = CU_add_suite("conditions", NULL, NULL);

    CU_add_test(suite, "Jcc, as the processor has it", test_jcc);
    CU_add_test(suite, "LOOP and JRCXZ by what they left in RCX", test_loop);
}
