/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What CPUID enumerates must not contradict itself: leaves 0, 7, 0AH, 0DH, 14H, 15H
 * (33.3.1, 33.8.3).
 */
#include "msr-tests.h"

static bool zero_regs(const struct cpuid *r)
{
    return !(r->eax | r->ebx | r->ecx | r->edx);
}

static void test_leaf_14(void)
{
    const struct pt_caps *c = pt_caps();
    struct cpuid main = cpuid(0x14, 0), sub = cpuid(0x14, 1);
    bool sub_needed = c->mtc || c->psb_cyc || c->ip_filter;
    struct cpuid beyond = cpuid(0x14, main.eax + 1);

    report(main.eax >= 1 || !sub_needed,
           "CPUID.14H.0:EAX has sub-leaf 1 for what it describes (Table 33-11)");
    report_value(main.ebx & ~0x1ffu, 0, "CPUID.14H.0:EBX[31:9] are reserved (Table 33-11)");
    report_value(main.ecx & 0x7ffffff0u, 0, "CPUID.14H.0:ECX[30:4] are reserved (Table 33-11)");
    report_value(main.edx, 0, "CPUID.14H.0:EDX is reserved (Table 33-11)");
    report(zero_regs(&beyond), "CPUID.14H has nothing beyond its last sub-leaf");
    report(c->topa || c->single_range || c->fabric,
           "CPUID.14H.0:ECX has an output scheme (33.2.7)");
    report(c->topa || !c->multi_entry,
           "CPUID.14H.0:ECX[1] ToPA of many entries comes with ToPA (Table 33-11)");
    if (main.eax == 0)
        return;
    report_value(sub.eax & 0xfff8u, 0, "CPUID.14H.1:EAX[15:3] are reserved (Table 33-12)");
    report_value(sub.ecx, 0, "CPUID.14H.1:ECX is reserved (Table 33-12)");
    report_value(sub.edx, 0, "CPUID.14H.1:EDX is reserved (Table 33-12)");
    report(c->ranges <= 4, "CPUID.14H.1:EAX[2:0] has at most 4 ranges (Table 33-12)");
    report_value(c->ranges != 0, c->ip_filter,
                 "CPUID.14H.1:EAX[2:0] has ranges if there is IP filtering (Table 33-11)");
    report_value(c->mtc_map != 0, c->mtc,
                 "CPUID.14H.1:EAX[31:16] has periods if there are MTCs (Table 33-12)");
    report_value(c->cyc_map != 0, c->psb_cyc,
                 "CPUID.14H.1:EBX[15:0] has thresholds if there are CYCs (Table 33-12)");
    report_value(c->psb_map != 0, c->psb_cyc,
                 "CPUID.14H.1:EBX[31:16] has periods if PSBFreq is there (Table 33-12)");
    report(!c->mtc || (c->mtc_map & 1), "MTCFreq 0 is supported, as IA32_RTIT_CTL = 0 needs it");
    report(!c->psb_cyc || (c->cyc_map & 1),
           "CycThresh 0 is supported, as IA32_RTIT_CTL = 0 needs it");
    report(!c->psb_cyc || (c->psb_map & 1),
           "PSBFreq 0 is supported, as IA32_RTIT_CTL = 0 needs it");
}

static void test_leaf_15(void)
{
    const struct pt_caps *c = pt_caps();
    struct cpuid r = cpuid_checked(0x15, 0);

    if (!c->mtc && !r.eax) {
        report_skip("no MTC, no leaf 15H", "CPUID.15H relates crystal and TSC (33.8.3.1)");
        return;
    }
    report(r.eax != 0 && r.ebx != 0, "CPUID.15H relates crystal and TSC (33.8.3.1)");
    report(r.ebx >= r.eax, "CPUID.15H: the TSC is not slower than the crystal");
    report_value(r.edx, 0, "CPUID.15H:EDX is reserved");
}

static void test_leaf_0d(void)
{
    struct cpuid features = cpuid_checked(0x0d, 1), state = cpuid_checked(0x0d, 8);

    if (!(features.ecx & 1u << 8)) {
        report(zero_regs(&state), "CPUID.0DH.8 is 0 if IA32_XSS[8] is not supported (33.3.5.2)");
        return;
    }
    report(features.eax & 1u << 3, "CPUID.0DH.1:EAX[3] XSAVES comes with IA32_XSS[8] (33.3.5.2)");
    report(state.eax >= 0x48, "CPUID.0DH.8:EAX holds the nine MSRs (33.3.5.2)");
    report_value(state.ebx, 0, "CPUID.0DH.8:EBX is 0 for a supervisor state (33.3.5.2)");
    report_value(state.ecx & 1, 1, "CPUID.0DH.8:ECX[0] says supervisor state (33.3.5.2)");
}

static void test_leaf_0a(void)
{
    const struct pt_caps *c = pt_caps();

    if (c->perf_version == 0) {
        report_skip("no performance monitoring", "CPUID.0AH version is 2 or more");
        return;
    }
    report(c->perf_version >= 2, "CPUID.0AH version has IA32_PERF_GLOBAL_STATUS for ToPA PMIs");
    report(c->perf_counters >= 1, "CPUID.0AH has counters");
    report(cpuid(1, 0).edx & 1u << 9, "CPUID.1:EDX[9] has the APIC that takes ToPA PMIs");
}

void test_cpuid(void)
{
    const struct pt_caps *c = pt_caps();
    uint32_t max_leaf = cpuid(0, 0).eax;

    report(max_leaf >= 7, "CPUID.0:EAX reaches leaf 7 (33.3.1)");
    report(c->phys_bits >= 32 && c->phys_bits <= 52, "CPUID.80000008H:EAX[7:0] is a MAXPHYADDR");
    report(c->linear_bits == 48 || c->linear_bits == 57,
           "CPUID.80000008H:EAX[15:8] is 48 or 57 bits");
    if (!c->present) {
        struct cpuid r = cpuid_checked(0x14, 0);

        report(zero_regs(&r), "CPUID.14H is 0 without Intel PT (33.3.1)");
        return;
    }
    if (c->enumerated)
        report(true, "CPUID.7.0:EBX[25] says that there is Intel PT (33.3.1)");
    else
        report_skip("the hypervisor answers leaf 7 as it likes",
                    "CPUID.7.0:EBX[25] says that there is Intel PT (33.3.1)");
    report(max_leaf >= 0x14, "CPUID.0:EAX reaches leaf 14H (33.3.1)");
    if (max_leaf < 0x14)
        return;
    test_leaf_14();
    test_leaf_15();
    test_leaf_0d();
    test_leaf_0a();
}
