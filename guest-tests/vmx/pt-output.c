/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel PT of a guest whose output has guest-physical addresses: EPT translates them ahead of need,
 * and what it does not give is a VM exit between instructions ("Trace-Address Pre-Translation" in
 * volume 3).
 */
#include "console.h"
#include "cpu.h"
#include "ept-tables.h"
#include "memory.h"
#include "pt-guest.h"
#include "tests.h"

/* ---- Guest-physical addresses ------------------------------------------------------------- */

#define TABLE_GPA     0x40000000ull /* where the machine has nothing */
#define BUFFER_GPA    0x40010000ull
#define BUFFER_PAGES  (BUFFER_BYTES / PAGE_BYTES)
#define BY_READ       (1u << 0)
#define BY_WRITE      (1u << 1)
#define ASYNCHRONOUS  (1u << 16)
#define REGION_OF_64K 4
#define PAGE_OF(gpa)  ((gpa) & ~(uint64_t)(PAGE_BYTES - 1))

static uint64_t table_phys, buffer_phys, eptp;

static void map_gpa(uint64_t gpa, uint64_t phys)
{
    *ept_entry(eptp, gpa, 1) = phys | EPT_ALL | EPT_TYPE_WB;
    invept(2, (const uint64_t[2]){0});
}

static void unmap_gpa(uint64_t gpa)
{
    *ept_entry(eptp, gpa, 1) = 0;
    invept(2, (const uint64_t[2]){0});
}

static void map_buffer(uint64_t gpa)
{
    map_gpa(gpa, buffer_phys + (gpa - BUFFER_GPA));
}

/* A table and a buffer that have other addresses for the guest; all of them are mapped. */
static bool begin_by_ept(uint64_t count, const char *name)
{
    static const struct controls on = {.proc2 = PROC2_EPT | PROC2_PT_USES_GPA, BY_CONTROLS};
    uint64_t *table;

    if (!pt_caps()->topa) {
        report_skip("no ToPA", "PT, %s", name);
        return false;
    }
    if (!guest_begin(&on, count, name))
        return false;
    if (!table_phys) {
        table_phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
        buffer_phys = phys_alloc(BUFFER_BYTES, BUFFER_BYTES);
    }
    eptp = get(VMCS_EPTP);
    table = phys_to_virt(table_phys);
    table[0] = topa_entry(BUFFER_GPA, REGION_OF_64K, 0);
    table[1] = TABLE_GPA | TOPA_END;
    map_gpa(TABLE_GPA, table_phys);
    for (uint64_t i = 0; i < BUFFER_PAGES; i++)
        map_buffer(BUFFER_GPA + i * PAGE_BYTES);
    wrmsr(MSR_RTIT_OUTPUT_BASE, TABLE_GPA);
    wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, topa_pointers(0, 0));
    put(VMCS_GUEST_RTIT_CTL, CTL_TOPA | CTL_GUEST);
    return true;
}

static void check_violation(const struct outcome *outcome, uint64_t page, uint32_t access,
                            const char *name)
{
    report_value(outcome->reason, REASON_EPT_VIOLATION, "PT, %s: EPT violation", name);
    report_value(outcome->qualification & (BY_READ | BY_WRITE | ASYNCHRONOUS),
                 access | ASYNCHRONOUS, "PT, %s: the access, asynchronous", name);
    report_value(PAGE_OF(get(VMCS_GUEST_PHYSICAL)), page, "PT, %s: guest-physical address", name);
}

static void test_by_ept(void)
{
    const char *name = "guest-physical addresses";

    if (!begin_by_ept(FEW, name))
        return;
    report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
    guest_look(buffer_phys, pt_position().offset, false);
    report(guest_seen.enters && guest_seen.exits && guest_seen.jumps == FEW,
           "PT, %s: the trace is where EPT says", name);
}

/* VM entry begins the trace, so that no instruction runs before the table and the first page are
 * there. */
static void test_first_pages(void)
{
    const char *name = "a table that EPT does not map";
    struct outcome outcome;

    if (!begin_by_ept(FEW, name))
        return;
    unmap_gpa(TABLE_GPA);
    unmap_gpa(BUFFER_GPA);
    outcome = vm_launch();
    check_violation(&outcome, TABLE_GPA, BY_READ, name);
    report_value(outcome.rip, (uint64_t)guest_jumps.begin, "PT, %s: before the first instruction",
                 name);
    map_gpa(TABLE_GPA, table_phys);
    name = "a first page that EPT does not map";
    outcome = vm_resume();
    check_violation(&outcome, BUFFER_GPA, BY_WRITE, name);
    report_value(outcome.rip, (uint64_t)guest_jumps.begin, "PT, %s: before the first instruction",
                 name);
    map_buffer(BUFFER_GPA);
    report_value(vm_resume().reason, REASON_CPUID, "PT, %s: the guest goes on", name);
    guest_look(buffer_phys, pt_position().offset, false);
    report(guest_seen.enters && guest_seen.exits && guest_seen.jumps == FEW &&
               guest_seen.begins == 1,
           "PT, %s: the trace begins once", name);
}

/* A page may come to be needed anywhere; that page and those before it are mapped then. */
static void test_later_pages(void)
{
    const char *name = "later pages that EPT does not map";
    struct outcome outcome;
    uint64_t violations = 0, last;

    if (!begin_by_ept(MANY, name))
        return;
    for (uint64_t i = 1; i < BUFFER_PAGES; i++)
        unmap_gpa(BUFFER_GPA + i * PAGE_BYTES);
    outcome = vm_launch();
    while (outcome.reason == REASON_EPT_VIOLATION && violations < BUFFER_PAGES) {
        violations++;
        check_violation(&outcome, BUFFER_GPA + violations * PAGE_BYTES, BY_WRITE, name);
        map_buffer(BUFFER_GPA + violations * PAGE_BYTES);
        outcome = vm_resume();
    }
    report_value(outcome.reason, REASON_CPUID, "PT, %s: the guest comes to its end", name);
    /* How far ahead is the processor's choice. */
    last = pt_position().offset / PAGE_BYTES;
    report(last > 1 && (violations == last || violations == last + 1),
           "PT, %s: a violation for each", name);
    guest_look(buffer_phys, pt_position().offset, false);
    report_value(guest_seen.overflows, 0, "PT, %s: no packet is lost", name);
    report_value(guest_seen.jumps, MANY, "PT, %s: the jumps of the guest", name);
    report_value(guest_seen.begins, violations + 1, "PT, %s: the trace goes on at each entry",
                 name);
}

/* ---- Each kind of access ------------------------------------------------------------------- */

/*
 * Regions of a page that follow each other: FIRST of the table, then END to another table with the
 * rest, which ends where it begins.
 */
#define TABLE2_GPA (TABLE_GPA + PAGE_BYTES)
#define FIRST      2u
#define PAGE(n)    (BUFFER_GPA + (n)*PAGE_BYTES)

/* The page that is not there, how output comes to need it, and what comes of it in the end. */
static const struct access {
    const char *name;
    uint64_t gpa;
    uint64_t flags; /* of the second region */
    uint32_t access;
    bool single, unneeded;
} accesses[] = {
    {.name = "the table, read", .gpa = TABLE_GPA, .access = BY_READ},
    {.name = "the first region, written", .gpa = PAGE(0), .access = BY_WRITE},
    {.name = "the next region", .gpa = PAGE(1), .access = BY_WRITE},
    {.name = "the table behind END, read", .gpa = TABLE2_GPA, .access = BY_READ},
    {.name = "the region behind END", .gpa = PAGE(FIRST), .access = BY_WRITE},
    {.name = "a region with INT", .gpa = PAGE(1), .flags = TOPA_INT, .access = BY_WRITE},
    {.name = "the table behind INT", .gpa = TABLE2_GPA, .flags = TOPA_INT, .access = BY_READ},
    {.name = "a region with STOP", .gpa = PAGE(1), .flags = TOPA_STOP, .access = BY_WRITE},
    {.name = "the table behind STOP",
     .gpa = TABLE2_GPA,
     .flags = TOPA_STOP,
     .access = BY_READ,
     .unneeded = true},
    {.name = "a single range, its first page", .gpa = PAGE(0), .access = BY_WRITE, .single = true},
    {.name = "a single range, its next page", .gpa = PAGE(1), .access = BY_WRITE, .single = true},
};

static uint64_t table2_phys;

static uint64_t phys_of(uint64_t gpa)
{
    return gpa == TABLE_GPA    ? table_phys
           : gpa == TABLE2_GPA ? table2_phys
                               : buffer_phys + (gpa - BUFFER_GPA);
}

static void fill_tables(uint64_t flags)
{
    uint64_t *table = phys_to_virt(table_phys), *second;

    if (!table2_phys)
        table2_phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    second = phys_to_virt(table2_phys);
    table[0] = topa_entry(PAGE(0), 0, 0);
    table[1] = topa_entry(PAGE(1), 0, flags);
    table[FIRST] = TABLE2_GPA | TOPA_END;
    for (unsigned i = FIRST; i < BUFFER_PAGES; i++)
        second[i - FIRST] = topa_entry(PAGE(i), 0, 0);
    second[BUFFER_PAGES - FIRST] = TABLE_GPA | TOPA_END;
    map_gpa(TABLE2_GPA, table2_phys);
}

/* How far output has got, from the beginning of the buffer. */
static uint64_t written(const struct access *of)
{
    const struct pt_position end = pt_position();
    const unsigned before = end.base == TABLE2_GPA ? FIRST : 0;

    if (of->flags & TOPA_STOP)
        return FIRST * PAGE_BYTES;
    return of->single ? end.offset : (before + end.index) * PAGE_BYTES + end.offset;
}

static void check_end(const struct access *of, unsigned exits, const char *name)
{
    const uint64_t status = rdmsr(MSR_RTIT_STATUS);
    const bool stops = of->flags & TOPA_STOP;

    guest_look(buffer_phys, written(of), stops);
    report(guest_seen.enters && guest_seen.overflows == 0, "PT, %s, %s: no packet is lost", name,
           of->name);
    /* A trace that needs the page to begin with need not begin before the page is there. */
    if (!stops)
        report(guest_seen.jumps == MANY && guest_seen.begins == guest_seen.ends &&
                   guest_seen.begins > 0 && guest_seen.begins <= exits + 1,
               "PT, %s, %s: the jumps of the guest", name, of->name);
    report_value(status & (STATUS_STOPPED | STATUS_ERROR), stops ? STATUS_STOPPED : 0,
                 "PT, %s, %s: Stopped (33.2.7.2)", name, of->name);
    if (pt_caps()->perf_version >= 2)
        report_value(rdmsr(MSR_PERF_GLOBAL_STATUS) & PERF_TOPA_PMI,
                     of->flags & TOPA_INT ? PERF_TOPA_PMI : 0, "PT, %s, %s: the PMI (33.2.7.2)",
                     name, of->name);
}

static bool begin_access(const struct access *of, const char *name)
{
    if (of->single ? !pt_caps()->single_range : !pt_caps()->multi_entry) {
        report_skip("no such output", "PT, %s, %s", name, of->name);
        return false;
    }
    if (!begin_by_ept(MANY, name))
        return false;
    fill_tables(of->flags);
    if (of->single) {
        wrmsr(MSR_RTIT_OUTPUT_BASE, BUFFER_GPA);
        wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, BUFFER_BYTES - 1);
        put(VMCS_GUEST_RTIT_CTL, CTL_GUEST);
    }
    if (pt_caps()->perf_version >= 2)
        wrmsr(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
    return true;
}

static void test_access(const struct access *of, uint64_t bad, const char *name)
{
    struct outcome outcome;
    unsigned exits = 0;

    if (!begin_access(of, name))
        return;
    *ept_entry(eptp, of->gpa, 1) = bad ? phys_of(of->gpa) | bad : 0;
    invept(2, (const uint64_t[2]){0});
    outcome = vm_launch();
    if (outcome.reason == REASON_EPT_VIOLATION || outcome.reason == REASON_EPT_MISCONFIG) {
        exits++;
        report(outcome.reason == (bad ? REASON_EPT_MISCONFIG : REASON_EPT_VIOLATION) &&
                   outcome.qualification == (bad ? 0 : of->access | ASYNCHRONOUS) &&
                   PAGE_OF(get(VMCS_GUEST_PHYSICAL)) == of->gpa && outcome.event == 0 &&
                   outcome.vectoring == 0,
               "PT, %s, %s: reason, qualification and address", name, of->name);
        map_gpa(of->gpa, phys_of(of->gpa));
        outcome = vm_resume();
    }
    report_value(outcome.reason, REASON_CPUID, "PT, %s, %s: the guest comes to its end", name,
                 of->name);
    /* How far ahead the processor translates is its choice, but it needs nothing behind STOP. */
    report_value(exits, !of->unneeded, "PT, %s, %s: one exit for it", name, of->name);
    check_end(of, exits, name);
}

static void test_accesses(void)
{
    for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
        test_access(&accesses[i], 0, "EPT violation of output");
        test_access(&accesses[i], EPT_WRITE, "EPT misconfiguration of output");
    }
}

void test_pt_output(void)
{
    if (!pt_caps()->present || !pt_memory_output(pt_caps()) || !(vmx_misc() & MISC_PT)) {
        report_skip("no Intel PT in VMX operation", "output at guest-physical addresses");
        return;
    }
    test_by_ept();
    test_first_pages();
    test_later_pages();
    test_accesses();
    trace_off();
}
