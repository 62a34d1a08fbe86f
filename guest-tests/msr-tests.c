/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases of CPUID, MSRs and output tables, one line each, each with the rule that it proves. What is
 * expected follows from CPUID, so that the same image serves every processor.
 *
 * On a processor without Intel PT the only rule left is that its MSRs do not exist.
 */
#include "msr-tests.h"
#include "boot.h"

static const struct {
    uint32_t msr;
    const char *name;
} trace_msrs[] = {
    {MSR_RTIT_OUTPUT_BASE, "IA32_RTIT_OUTPUT_BASE"},
    {MSR_RTIT_OUTPUT_MASK_PTRS, "IA32_RTIT_OUTPUT_MASK_PTRS"},
    {MSR_RTIT_CTL, "IA32_RTIT_CTL"},
    {MSR_RTIT_STATUS, "IA32_RTIT_STATUS"},
    {MSR_RTIT_CR3_MATCH, "IA32_RTIT_CR3_MATCH"},
    {MSR_RTIT_ADDR0_A, "IA32_RTIT_ADDR0_A"},
    {MSR_RTIT_ADDR0_A + 1, "IA32_RTIT_ADDR0_B"},
};

/* No processor has this one. */
#define MSR_NONEXISTENT 0x59fu

static void test_absent(void)
{
    uint64_t value;
    bool honest = rdmsr_safe(MSR_NONEXISTENT, &value) == GP_VECTOR;

    for (unsigned i = 0; i < sizeof(trace_msrs) / sizeof(trace_msrs[0]); i++) {
        const char *name = trace_msrs[i].name;

        if (!honest) {
            report_skip("the hypervisor does not raise #GP for unknown MSRs",
                        "%s does not exist without Intel PT (33.2.8.1)", name);
            continue;
        }
        report_vector(rdmsr_safe(trace_msrs[i].msr, &value), GP_VECTOR,
                      "RDMSR of %s without Intel PT (33.2.8.1)", name);
        report_vector(wrmsr_safe(trace_msrs[i].msr, 0), GP_VECTOR,
                      "WRMSR of %s without Intel PT (33.2.8.1)", name);
    }
}

void check_write(uint32_t msr, uint64_t value, bool legal, uint64_t want, const char *what)
{
    unsigned vector = wrmsr_safe(msr, value);
    uint64_t got = ~want;

    if (!legal || vector) {
        report_vector(vector, legal ? 0 : GP_VECTOR, "%s", what);
        return;
    }
    rdmsr_safe(msr, &got);
    report_value(got, want, "%s", what);
}

int guest_main(void)
{
    if (!pt_caps()->present) {
        printf("no Intel PT here (CPUID.7.0:EBX[25] is 0)\n");
        test_cpuid();
        test_absent();
        return report_summary();
    }
    trace_set_pmi(PMI_MASKED);
    trace_off();
    test_cpuid();
    test_ctl();
    test_registers();
    test_single_range();
    test_topa();
    test_enables();
    test_perf();
    trace_off();
    return report_summary();
}
