/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace MSRs besides IA32_RTIT_CTL, while TraceEn is 0: which ones exist, and each of their
 * bits (33.2.8.1, 33.2.8.4 to 33.2.8.8).
 */
#include "msr-tests.h"

#define FIRST_TRACE_MSR 0x560u
#define LAST_TRACE_MSR  0x59fu

/* ---- Which exist -------------------------------------------------------------------------- */

static bool msr_exists(uint32_t msr)
{
    const struct pt_caps *c = pt_caps();

    switch (msr) {
    case MSR_RTIT_OUTPUT_BASE:
    case MSR_RTIT_OUTPUT_MASK_PTRS:
        return pt_memory_output(c);
    case MSR_RTIT_CTL:
    case MSR_RTIT_STATUS:
        return true;
    case MSR_RTIT_CR3_MATCH:
        return c->cr3_filter;
    default:
        return msr >= MSR_RTIT_ADDR0_A && msr < MSR_RTIT_ADDR0_A + 2 * c->ranges;
    }
}

static void test_existence(void)
{
    for (uint32_t msr = FIRST_TRACE_MSR; msr <= LAST_TRACE_MSR; msr++) {
        bool exists = msr_exists(msr);
        uint64_t value = 0;

        report_vector(rdmsr_safe(msr, &value), exists ? 0 : GP_VECTOR, "MSR %xH: RDMSR %s (33.2.8)",
                      msr, exists ? "reads" : "raises #GP");
        report_vector(wrmsr_safe(msr, value), exists ? 0 : GP_VECTOR,
                      "MSR %xH: WRMSR of %s (33.2.8)", msr,
                      exists ? "what it holds" : "0 raises #GP");
    }
}

/* ---- IA32_RTIT_STATUS (Table 33-7) -------------------------------------------------------- */

static void test_status(void)
{
    const struct pt_caps *c = pt_caps();
    uint64_t writable = STATUS_ERROR | STATUS_STOPPED, enables;

    if (c->preserve)
        writable |= STATUS_PENDPSB | STATUS_PENDTOPAPMI;
    if (c->psb_cyc)
        writable |= STATUS_BYTECNT;
    wrmsr(MSR_RTIT_STATUS, 0);
    enables = rdmsr(MSR_RTIT_STATUS) & STATUS_ENABLES;
    report_value(enables & STATUS_TRIGGEREN, 0,
                 "IA32_RTIT_STATUS.TriggerEn is 0 while TraceEn is 0 (33.2.6.2)");
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t value = 1ull << bit;
        bool ignored = value & STATUS_ENABLES, legal = ignored || (value & writable);
        unsigned vector = wrmsr_safe(MSR_RTIT_STATUS, value);
        uint64_t got = rdmsr(MSR_RTIT_STATUS);

        if (vector != (legal ? 0 : GP_VECTOR))
            report_vector(vector, legal ? 0 : GP_VECTOR, "IA32_RTIT_STATUS[%u] (Table 33-7)", bit);
        else
            report_value(got, (value & writable) | enables, "IA32_RTIT_STATUS[%u] %s (Table 33-7)",
                         bit,
                         ignored ? "ignores writes"
                         : legal ? "is taken"
                                 : "raises #GP");
        wrmsr(MSR_RTIT_STATUS, 0);
    }
    check_write(MSR_RTIT_STATUS, writable | STATUS_ENABLES, true, writable | enables,
                "IA32_RTIT_STATUS: all writable bits together (Table 33-7)");
    check_write(MSR_RTIT_STATUS, ~0ull, false, 0, "IA32_RTIT_STATUS: all bits (Table 33-7)");
    wrmsr(MSR_RTIT_STATUS, 0);
}

/* ---- Registers whose bits are just there or reserved -------------------------------------- */

/* Each bit of msr alone: those of `writable` are taken, those of `forced` always read as 1. */
static void test_each_bit(uint32_t msr, const char *name, uint64_t writable, uint64_t forced,
                          const char *rule)
{
    wrmsr(msr, 0);
    report_value(rdmsr(msr), forced, "%s: 0 is taken (%s)", name, rule);
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t value = 1ull << bit;
        bool legal = value & (writable | forced);
        unsigned vector = wrmsr_safe(msr, value);
        uint64_t got = rdmsr(msr);

        if (vector != (legal ? 0 : GP_VECTOR))
            report_vector(vector, legal ? 0 : GP_VECTOR, "%s[%u] (%s)", name, bit, rule);
        else
            report_value(got, legal ? value | forced : forced, "%s[%u] %s (%s)", name, bit,
                         value & forced ? "is always 1"
                         : legal        ? "is taken"
                                        : "raises #GP",
                         rule);
        wrmsr(msr, 0);
    }
    wrmsr_safe(msr, writable);
    report_value(rdmsr(msr), writable | forced, "%s: all writable bits together (%s)", name, rule);
    wrmsr(msr, 0);
}

static void test_cr3_match(void)
{
    if (!pt_caps()->cr3_filter) {
        report_skip("no CR3 filtering", "IA32_RTIT_CR3_MATCH bits (33.2.8.6)");
        return;
    }
    test_each_bit(MSR_RTIT_CR3_MATCH, "IA32_RTIT_CR3_MATCH", ~0x1full, 0, "33.2.8.6");
}

static void test_output_registers(void)
{
    const struct pt_caps *c = pt_caps();

    if (!pt_memory_output(c)) {
        report_skip("no output to memory", "IA32_RTIT_OUTPUT_BASE bits (Table 33-8)");
        report_skip("no output to memory", "IA32_RTIT_OUTPUT_MASK_PTRS bits (Table 33-9)");
        return;
    }
    test_each_bit(MSR_RTIT_OUTPUT_BASE, "IA32_RTIT_OUTPUT_BASE",
                  ((1ull << c->phys_bits) - 1) & ~0x7full, 0, "Table 33-8");
    test_each_bit(MSR_RTIT_OUTPUT_MASK_PTRS, "IA32_RTIT_OUTPUT_MASK_PTRS", ~MASK_PTRS_FORCED,
                  MASK_PTRS_FORCED, "Table 33-9");
    wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, MASK_PTRS_FORCED);
}

/* ---- IA32_RTIT_ADDRn_A and _B (33.2.8.5) -------------------------------------------------- */

static bool is_canonical(uint64_t addr, unsigned bits)
{
    uint64_t upper = addr >> (bits - 1);

    return upper == 0 || upper == UINT64_MAX >> (bits - 1);
}

static void test_ranges(void)
{
    static const uint64_t addresses[] = {
        0,
        1,
        0x00000000ffffffff,
        0x00007fffffffffff,
        0x0000800000000000,
        0x0000ffffffffffff,
        0x00ffffffffffffff,
        0x0100000000000000,
        0x7fffffffffffffff,
        0x8000000000000000,
        0xfeffffffffffffff,
        0xff00000000000000,
        0xffff7fffffffffff,
        0xffff800000000000,
        0xffffffff80000000,
        0xffffffffffffffff,
    };
    const struct pt_caps *c = pt_caps();

    for (unsigned i = 0; i < 2 * c->ranges; i++) {
        uint32_t msr = MSR_RTIT_ADDR0_A + i;

        for (unsigned k = 0; k < sizeof(addresses) / sizeof(addresses[0]); k++) {
            bool legal = is_canonical(addresses[k], c->linear_bits);
            uint64_t before = rdmsr(msr);
            unsigned vector = wrmsr_safe(msr, addresses[k]);

            if (vector != (legal ? 0 : GP_VECTOR))
                report_vector(vector, legal ? 0 : GP_VECTOR,
                              "IA32_RTIT_ADDR%u_%c = 0x%lx (33.2.8.5)", i / 2, 'A' + i % 2,
                              addresses[k]);
            else
                report_value(rdmsr(msr), legal ? addresses[k] : before,
                             "IA32_RTIT_ADDR%u_%c = 0x%lx %s (33.2.8.5)", i / 2, 'A' + i % 2,
                             addresses[k], legal ? "is taken" : "is not canonical: #GP");
        }
        wrmsr(msr, 0);
    }
    if (c->ranges == 0)
        report_skip("no address ranges", "IA32_RTIT_ADDRn_A and _B (33.2.8.5)");
}

void test_registers(void)
{
    trace_off();
    test_existence();
    test_status();
    test_cr3_match();
    test_output_registers();
    test_ranges();
}
