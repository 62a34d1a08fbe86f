/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel PT of a guest alone (33.5.2.2): VM entry begins the trace and VM exit ends it, by the
 * controls of IA32_RTIT_CTL or by MSR areas; and output at guest-physical addresses, which EPT
 * translates ahead of need.
 *
 * Checks of VM entry: volume 3, "Checks on VMX Controls", "Checks on Guest Control Registers, Debug
 * Registers, and MSRs". The violations of output are those of "Trace-Address Pre-Translation".
 */
#include "console.h"
#include "cpu.h"
#include "ept-tables.h"
#include "memory.h"
#include "packets.h"
#include "pt.h"
#include "string.h"
#include "tests.h"
#include "tracing.h"
#include "vm.h"

/* RCX indirect jumps. */
extern const uint8_t pt_jumps_target[];
SNIPPET_BEHIND(pt_jumps,
               "1: lea pt_jumps_target(%rip), %rax; jmp *%rax; pt_jumps_target: dec %rcx; jnz 1b",
               "cpuid");
static const struct code jumps = CODE(pt_jumps);

#define CTL_GUEST    (CTL_DEFAULT | CTL_TRACEEN)
#define CTL_RESERVED (1ull << 63)
#define FEW          3u
#define MANY         4000u /* jumps, whose packets fill more than a page */
#define BY_CONTROLS  .exit = EXIT_CLEAR_RTIT_CTL, .entry = ENTRY_LOAD_RTIT_CTL
#define CONCEALED                                                                                  \
    .proc2 = PROC2_CONCEAL, .exit = EXIT_CONCEAL | EXIT_CLEAR_RTIT_CTL,                            \
    .entry = ENTRY_CONCEAL | ENTRY_LOAD_RTIT_CTL

/* ---- What comes --------------------------------------------------------------------------- */

static struct seen {
    unsigned psb, begins, ends, jumps, overflows;
    unsigned vmcs, nr; /* what a guest that is to see nothing must not see */
    bool enters, exits, host;
} seen;

static void see(const struct packet *packet)
{
    seen.psb += packet->kind == PACKET_PSB;
    seen.overflows += packet->kind == PACKET_OVF;
    seen.vmcs += packet->kind == PACKET_VMCS;
    seen.nr += packet->kind == PACKET_PIP && packet->flag;
    seen.ends += packet->kind == PACKET_TIP_PGD;
    if (packet->kind == PACKET_TIP_PGE) {
        seen.begins++;
        seen.enters |= packet->ip == (uint64_t)jumps.begin;
    }
    if (packet->kind == PACKET_FUP && !packet->in_psb)
        seen.exits |= packet->ip == (uint64_t)jumps.insn;
    if (packet->kind == PACKET_TIP) {
        seen.jumps += packet->ip == (uint64_t)pt_jumps_target;
        seen.host |= packet->ip == (uint64_t)vmx_exit;
    }
}

/* The trace that stands in memory up to where output has got to. */
static void look(const uint8_t *bytes)
{
    struct packet_reader reader = {.bytes = bytes, .len_bytes = pt_position().offset};
    struct packet packet;

    seen = (struct seen){0};
    while (packet_next(&reader, &packet))
        see(&packet);
    report(!reader.damaged, "PT of a guest: the bytes are packets");
}

/* ---- Setting up --------------------------------------------------------------------------- */

/* A guest of so many jumps, and output into the default buffer. */
static bool begin(const struct controls *on, uint64_t count, const char *name)
{
    static const struct controls off = {0};
    struct trace_setup setup = {0};
    struct lacking lacking;

    vm_reset(&jumps);
    if (!vm_controls(on, &off, &lacking)) {
        skip_lacking(&lacking, name);
        return false;
    }
    vm_registers.rcx = count;
    trace_default_output(&setup);
    trace_prepare(&setup);
    if (field_exists(VMCS_GUEST_RTIT_CTL))
        put(VMCS_GUEST_RTIT_CTL, setup.ctl | CTL_GUEST);
    return true;
}

static uint64_t scheme(void)
{
    struct trace_setup setup = {0};

    trace_default_output(&setup);
    return setup.ctl;
}

/* ---- By controls -------------------------------------------------------------------------- */

static void check_guest_only(unsigned count, const char *name)
{
    report_value(rdmsr(MSR_RTIT_CTL), 0, "PT, %s: IA32_RTIT_CTL behind the exit", name);
    look(trace_default_buffer());
    report(seen.enters && seen.begins == 1, "PT, %s: TIP.PGE of the entry (Table 33-56)", name);
    report(seen.exits && seen.ends == 1, "PT, %s: FUP and TIP.PGD of the exit (Table 33-56)", name);
    report(!seen.host, "PT, %s: nothing of the host (33.5.2.2)", name);
    report_value(seen.jumps, count, "PT, %s: the jumps of the guest", name);
}

static void test_controls(void)
{
    static const struct controls shown = {BY_CONTROLS}, concealed = {CONCEALED};
    const char *name = "load and clear IA32_RTIT_CTL";

    if (begin(&shown, FEW, name)) {
        report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
        check_guest_only(FEW, name);
        report_value(get(VMCS_GUEST_RTIT_CTL), scheme() | CTL_GUEST,
                     "PT, %s: an exit saves it in its field", name);
        report(seen.nr > 0, "PT, %s: PIPs of the guest have NR (Table 33-52)", name);
    }
    name = "load and clear IA32_RTIT_CTL, concealed";
    if (begin(&concealed, FEW, name)) {
        report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
        check_guest_only(FEW, name);
        report(seen.nr == 0 && seen.vmcs == 0, "PT, %s: nothing of VMX (33.5.2.2)", name);
    }
}

static void enter_traced(void)
{
    report_value(vm_launch().error, ERROR_CONTROLS,
                 "PT, load IA32_RTIT_CTL while TraceEn is 1 (33.2.8.1)");
}

static void test_checks(void)
{
    static const struct {
        struct controls on;
        const char *name;
    } rows[] = {
        {{.proc2 = PROC2_PT_USES_GPA, BY_CONTROLS}, "guest-physical addresses without EPT"},
        {{.proc2 = PROC2_EPT | PROC2_PT_USES_GPA, .exit = EXIT_CLEAR_RTIT_CTL},
         "guest-physical addresses without load IA32_RTIT_CTL"},
        {{.proc2 = PROC2_EPT | PROC2_PT_USES_GPA, .entry = ENTRY_LOAD_RTIT_CTL},
         "guest-physical addresses without clear IA32_RTIT_CTL"},
    };
    static const struct controls load = {BY_CONTROLS};
    struct trace_setup setup = {.ctl = CTL_DEFAULT, .body = enter_traced};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (begin(&rows[i].on, FEW, rows[i].name))
            report_value(vm_launch().error, ERROR_CONTROLS, "PT, %s", rows[i].name);
    if (begin(&load, FEW, "reserved bit of the guest's IA32_RTIT_CTL")) {
        put(VMCS_GUEST_RTIT_CTL, scheme() | CTL_GUEST | CTL_RESERVED);
        wrmsr(MSR_RTIT_CTL, CTL_OS);
        report_value(vm_launch().reason, REASON_ENTRY_FAILED | REASON_GUEST_STATE,
                     "PT, reserved bit of the guest's IA32_RTIT_CTL");
        report_value(rdmsr(MSR_RTIT_CTL), 0, "PT, a late failure clears IA32_RTIT_CTL, too");
    }
    if (begin(&load, FEW, "load IA32_RTIT_CTL while TraceEn is 1")) {
        trace_default_output(&setup);
        trace_run(&setup);
    }
}

/* ---- By MSR areas ------------------------------------------------------------------------- */

struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
};

/* One entry for each transition; the good VM has both areas in the same page. */
static void put_areas(uint64_t entry_value, uint64_t exit_value)
{
    struct msr_entry *area = phys_to_virt(vm_pages.msr_area);

    area[0] = (struct msr_entry){MSR_RTIT_CTL, 0, entry_value};
    area[1] = (struct msr_entry){MSR_RTIT_CTL, 0, exit_value};
    put(VMCS_EXIT_MSR_LOAD, vm_pages.msr_area + sizeof(*area));
    put(VMCS_ENTRY_LOAD_COUNT, 1);
    put(VMCS_EXIT_LOAD_COUNT, 1);
}

static void test_areas(void)
{
    static const struct controls plain = {0};
    const char *name = "IA32_RTIT_CTL in MSR areas";

    if (!begin(&plain, FEW, name))
        return;
    put_areas(scheme() | CTL_GUEST, 0);
    report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
    check_guest_only(FEW, name);

    begin(&plain, FEW, name);
    put_areas(scheme() | CTL_GUEST | CTL_RESERVED, 0);
    report_value(vm_launch().reason, REASON_ENTRY_FAILED | REASON_MSR_LOADING,
                 "PT, %s: a reserved bit (33.2.8.1)", name);
    report_value(get(VMCS_QUALIFICATION), 1, "PT, %s: a reserved bit: number of the entry", name);
    report_value(rdmsr(MSR_RTIT_CTL), 0, "PT, %s: a reserved bit: nothing is traced", name);
}

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
    if (!begin(&on, count, name))
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
    look(phys_to_virt(buffer_phys));
    report(seen.enters && seen.exits && seen.jumps == FEW, "PT, %s: the trace is where EPT says",
           name);
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
    report_value(outcome.rip, (uint64_t)jumps.begin, "PT, %s: before the first instruction", name);
    map_gpa(TABLE_GPA, table_phys);
    name = "a first page that EPT does not map";
    outcome = vm_resume();
    check_violation(&outcome, BUFFER_GPA, BY_WRITE, name);
    report_value(outcome.rip, (uint64_t)jumps.begin, "PT, %s: before the first instruction", name);
    map_buffer(BUFFER_GPA);
    report_value(vm_resume().reason, REASON_CPUID, "PT, %s: the guest goes on", name);
    look(phys_to_virt(buffer_phys));
    report(seen.enters && seen.exits && seen.jumps == FEW && seen.begins == 1,
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
    look(phys_to_virt(buffer_phys));
    report_value(seen.overflows, 0, "PT, %s: no packet is lost", name);
    report_value(seen.jumps, MANY, "PT, %s: the jumps of the guest", name);
    report_value(seen.begins, violations + 1, "PT, %s: the trace goes on at each entry", name);
}

void test_pt_guest(void)
{
    if (!pt_caps()->present || !pt_memory_output(pt_caps()) || !(vmx_misc() & MISC_PT)) {
        report_skip("no Intel PT in VMX operation", "traces of guests alone");
        return;
    }
    test_controls();
    test_checks();
    test_areas();
    test_by_ept();
    test_first_pages();
    test_later_pages();
    trace_off();
}
