/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ToPA PMI: the INT bit of an entry, IA32_PERF_GLOBAL_STATUS[55] and its reset, delivery by the
 * APIC, and its preservation (33.2.7.2, 33.3.3).
 */
#include "msr-tests.h"
#include "string.h"

#define FEW_BRANCHES 8
#define REGION_BYTES 0x1000u
#define A_LITTLE     0x100u /* bytes */
#define CANARY       0xa5
#define NOT_FULL     0x200u /* bytes: room for the PSB+ of a region, and to stay empty */

static uint64_t table_phys, region_phys[2];
/* Branches that fill a region and a little. */
static uint64_t fill_one;

static void make_table(uint64_t flags)
{
    uint64_t *table = phys_to_virt(table_phys);

    table[0] = topa_entry(region_phys[0], 0, flags);
    table[1] = table_phys | TOPA_END;
    if (pt_caps()->multi_entry) {
        table[1] = topa_entry(region_phys[1], 0, 0);
        table[2] = table_phys | TOPA_END;
    }
}

static struct trace_result run(uint64_t ctl, uint64_t status, uint64_t branches)
{
    struct trace_setup setup = {.ctl = CTL_DEFAULT | CTL_TOPA | ctl,
                                .base = table_phys,
                                .mask_ptrs = topa_pointers(0, 0),
                                .status = status,
                                .branches = branches};

    return trace_run(&setup);
}

static bool pmi_is_flagged(void)
{
    return rdmsr(MSR_PERF_GLOBAL_STATUS) & PERF_TOPA_PMI;
}

/* ---- The registers ------------------------------------------------------------------------ */

static void test_global_registers(void)
{
    const struct pt_caps *c = pt_caps();
    uint64_t counters = ((1ull << c->perf_counters) - 1) | ((1ull << c->perf_fixed) - 1) << 32;

    report_vector(wrmsr_safe(MSR_PERF_GLOBAL_STATUS, PERF_TOPA_PMI), GP_VECTOR,
                  "IA32_PERF_GLOBAL_STATUS is read-only");
    check_write(MSR_PERF_GLOBAL_CTRL, counters, true, counters,
                "IA32_PERF_GLOBAL_CTRL enables each counter of CPUID.0AH");
    check_write(MSR_PERF_GLOBAL_CTRL, 0, true, 0, "IA32_PERF_GLOBAL_CTRL takes 0");
    check_write(MSR_PERF_GLOBAL_CTRL, 1ull << c->perf_counters, false, 0,
                "IA32_PERF_GLOBAL_CTRL: a counter that CPUID.0AH does not have raises #GP");
    check_write(MSR_PERF_GLOBAL_CTRL, PERF_TOPA_PMI, false, 0,
                "IA32_PERF_GLOBAL_CTRL[55] raises #GP");
    report_vector(wrmsr_safe(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI), c->topa ? 0 : GP_VECTOR,
                  "IA32_PERF_GLOBAL_STATUS_RESET[55] %s (33.2.7.2)",
                  c->topa ? "is taken" : "raises #GP without ToPA");
    report_vector(wrmsr_safe(MSR_PERF_GLOBAL_RESET, 0), 0, "IA32_PERF_GLOBAL_STATUS_RESET takes 0");
    report_value(rdmsr(MSR_PERF_GLOBAL_STATUS) & PERF_TOPA_PMI, 0,
                 "IA32_PERF_GLOBAL_STATUS[55] is 0 after its reset (33.2.7.2)");
}

/* ---- INT ---------------------------------------------------------------------------------- */

static void test_flag(void)
{
    struct trace_result r;

    trace_set_pmi(PMI_MASKED);
    make_table(0);
    run(0, 0, fill_one);
    report(!pmi_is_flagged(), "ToPA PMI: a full region without INT sets nothing (Table 33-3)");

    make_table(TOPA_INT);
    run(0, 0, FEW_BRANCHES);
    report(!pmi_is_flagged(), "ToPA PMI: nothing before the region is full (33.2.7.2)");
    r = run(0, 0, fill_one);
    report(pmi_is_flagged(), "ToPA PMI: GLOBAL_STATUS[55] when the region is full (33.2.7.2)");
    report_value(r.pmis, 0, "ToPA PMI: a masked LVTPC delivers nothing");
    report(!(r.status & (STATUS_STOPPED | STATUS_ERROR)),
           "ToPA PMI: tracing goes on after it (33.2.7.2)");
    wrmsr(MSR_PERF_GLOBAL_RESET, 1);
    report(pmi_is_flagged(), "ToPA PMI: resetting another bit leaves GLOBAL_STATUS[55]");
    wrmsr(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
    report(!pmi_is_flagged(),
           "ToPA PMI: writing 1 to 390H[55] clears GLOBAL_STATUS[55] (33.2.7.2)");

    make_table(TOPA_INT | TOPA_STOP);
    r = run(0, 0, fill_one);
    report(pmi_is_flagged(), "ToPA PMI: INT and STOP: GLOBAL_STATUS[55] (Table 33-3)");
    report_value(r.status & STATUS_STOPPED, STATUS_STOPPED,
                 "ToPA PMI: INT and STOP: Stopped (Table 33-3)");
}

/* Of one region: the trace ends in its last part, whose last bytes nobody has written. */
static void test_early_pmi(void)
{
    uint8_t *last = (uint8_t *)phys_to_virt(region_phys[0]) + REGION_BYTES - 1;
    struct trace_result r;

    make_table(TOPA_INT);
    trace_set_pmi(PMI_MASKED);
    *last = CANARY;
    r = run(0, 0, trace_branches(REGION_BYTES - NOT_FULL));
    report(r.end.offset >= REGION_BYTES - NOT_FULL && *last == CANARY,
           "ToPA PMI: a trace that almost fills a region (33.2.7.2)");
    report(pmi_is_flagged(),
           "ToPA PMI: a single-entry processor signals before the region is full (33.2.7.2)");
}

static void test_delivery(void)
{
    struct trace_result r;

    make_table(TOPA_INT);
    trace_set_pmi(PMI_NMI);
    r = run(0, 0, fill_one);
    report_value(r.pmis, 1, "ToPA PMI: one NMI for one region (33.2.7.2)");
    report(apic_pmi_masked(), "ToPA PMI: the APIC masks LVTPC when it delivers an NMI");
    r = run(0, 0, FEW_BRANCHES);
    report_value(r.pmis, 0, "ToPA PMI: no NMI without a full region (33.2.7.2)");

    trace_set_pmi(PMI_VECTOR);
    r = run(0, 0, fill_one);
    report_value(r.pmis, 1, "ToPA PMI: one interrupt for one region (33.2.7.2)");
    report(apic_pmi_masked(), "ToPA PMI: the APIC masks LVTPC when it delivers an interrupt");
    make_table(TOPA_INT | TOPA_STOP);
    r = run(0, 0, fill_one);
    report_value(r.pmis, 1, "ToPA PMI: one interrupt for INT with STOP (Table 33-3)");

    if (!pt_caps()->multi_entry)
        test_early_pmi();
    trace_set_pmi(PMI_MASKED);
}

/* ---- Preservation (33.2.7.2, Table 33-7) -------------------------------------------------- */

static void test_preservation(void)
{
    struct trace_result r;

    if (!pt_caps()->preserve) {
        report_skip("no PMI preservation", "PendTopaPMI (Table 33-7)");
        return;
    }
    trace_set_pmi(PMI_MASKED);
    make_table(TOPA_INT);
    r = run(0, 0, fill_one);
    report_value(r.status & STATUS_PENDTOPAPMI, 0,
                 "PendTopaPMI stays 0 without InjectPsbPmiOnEnable (Table 33-7)");
    r = run(CTL_INJECT_PSB_PMI, 0, fill_one);
    report_value(r.status & STATUS_PENDTOPAPMI, STATUS_PENDTOPAPMI,
                 "PendTopaPMI is set by a full INT region (Table 33-7)");
    trace_set_pmi(PMI_NMI);
    r = run(CTL_INJECT_PSB_PMI, STATUS_PENDTOPAPMI, FEW_BRANCHES);
    report_value(r.pmis, 1, "PendTopaPMI = 1 when tracing is enabled pends a PMI (Table 33-7)");
    r = run(0, STATUS_PENDTOPAPMI, FEW_BRANCHES);
    report_value(r.pmis, 0, "PendTopaPMI is ignored without InjectPsbPmiOnEnable (Table 33-6)");
    trace_set_pmi(PMI_MASKED);
}

void test_perf(void)
{
    if (pt_caps()->perf_version < 2) {
        report_skip("no IA32_PERF_GLOBAL_STATUS", "ToPA PMI (33.2.7.2)");
        return;
    }
    test_global_registers();
    if (!pt_caps()->topa) {
        report_skip("no ToPA", "ToPA PMI (33.2.7.2)");
        return;
    }
    table_phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    region_phys[0] = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    region_phys[1] = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    fill_one = trace_branches(REGION_BYTES + A_LITTLE);
    test_flag();
    test_delivery();
    test_preservation();
    trace_off();
    wrmsr(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
}
