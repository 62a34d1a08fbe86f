/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel PT of a guest alone (33.5.2.2): VM entry begins the trace and VM exit ends it, by the
 * controls of IA32_RTIT_CTL or by MSR areas.
 *
 * Checks of VM entry: volume 3, "Checks on VMX Controls", "Checks on Guest Control Registers, Debug
 * Registers, and MSRs".
 */
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "packets.h"
#include "pt-guest.h"
#include "pt.h"
#include "tests.h"
#include "tracing.h"
#include "vm.h"

SNIPPET_BEHIND(pt_jumps,
               "1: lea pt_jumps_target(%rip), %rax; jmp *%rax; pt_jumps_target: dec %rcx; jnz 1b",
               "cpuid");
const struct code guest_jumps = CODE(pt_jumps);

#define LONGEST_PACKET 16u
#define CTL_RESERVED   (1ull << 63)
#define CONCEALED                                                                                  \
    .proc2 = PROC2_CONCEAL, .exit = EXIT_CONCEAL | EXIT_CLEAR_RTIT_CTL,                            \
    .entry = ENTRY_CONCEAL | ENTRY_LOAD_RTIT_CTL

/* ---- What comes --------------------------------------------------------------------------- */

struct guest_seen guest_seen;

static void see(const struct packet *packet)
{
    guest_seen.psb += packet->kind == PACKET_PSB;
    guest_seen.overflows += packet->kind == PACKET_OVF;
    guest_seen.vmcs += packet->kind == PACKET_VMCS;
    guest_seen.nr += packet->kind == PACKET_PIP && packet->flag;
    guest_seen.ends += packet->kind == PACKET_TIP_PGD;
    if (packet->kind == PACKET_TIP_PGE) {
        guest_seen.begins++;
        guest_seen.enters |= packet->ip == (uint64_t)guest_jumps.begin;
    }
    if (packet->kind == PACKET_FUP && !packet->in_psb)
        guest_seen.exits |= packet->ip == (uint64_t)guest_jumps.insn;
    if (packet->kind == PACKET_TIP) {
        guest_seen.jumps += packet->ip == (uint64_t)pt_jumps_target;
        guest_seen.host |= packet->ip == (uint64_t)vmx_exit;
    }
}

void guest_look(uint64_t phys, uint64_t len_bytes, bool cut)
{
    struct packet_reader reader = {.bytes = phys_to_virt(phys), .len_bytes = len_bytes};
    struct packet packet;

    guest_seen = (struct guest_seen){0};
    while (packet_next(&reader, &packet))
        see(&packet);
    report(!reader.damaged || (cut && reader.at + LONGEST_PACKET > len_bytes),
           "PT of a guest: the bytes are packets");
    if (!cut)
        note_trace(phys, len_bytes);
}

/* In the default buffer, up to where output has got to. */
static void look(void)
{
    guest_look(virt_to_phys(trace_default_buffer()), pt_position().offset, false);
}

/* ---- Setting up --------------------------------------------------------------------------- */

bool guest_begin(const struct controls *on, uint64_t count, const char *name)
{
    static const struct controls off = {0};
    struct trace_setup setup = {0};
    struct lacking lacking;

    vm_reset(&guest_jumps);
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
    look();
    report(guest_seen.enters && guest_seen.begins == 1,
           "PT, %s: TIP.PGE of the entry (Table 33-56)", name);
    report(guest_seen.exits && guest_seen.ends == 1,
           "PT, %s: FUP and TIP.PGD of the exit (Table 33-56)", name);
    report(!guest_seen.host, "PT, %s: nothing of the host (33.5.2.2)", name);
    report_value(guest_seen.jumps, count, "PT, %s: the jumps of the guest", name);
}

static void test_controls(void)
{
    static const struct controls shown = {BY_CONTROLS}, concealed = {CONCEALED};
    const char *name = "load and clear IA32_RTIT_CTL";

    if (guest_begin(&shown, FEW, name)) {
        report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
        check_guest_only(FEW, name);
        report_value(get(VMCS_GUEST_RTIT_CTL), scheme() | CTL_GUEST,
                     "PT, %s: an exit saves it in its field", name);
        report(guest_seen.nr > 0, "PT, %s: PIPs of the guest have NR (Table 33-52)", name);
    }
    name = "load and clear IA32_RTIT_CTL, concealed";
    if (guest_begin(&concealed, FEW, name)) {
        report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
        check_guest_only(FEW, name);
        report(guest_seen.nr == 0 && guest_seen.vmcs == 0, "PT, %s: nothing of VMX (33.5.2.2)",
               name);
    }
}

/* Bit by bit, VM entry takes what WRMSR takes. ToPA stays: the table is no buffer. */
static void test_reserved_bits(void)
{
    static const struct controls load = {BY_CONTROLS};
    const uint64_t good = scheme() | CTL_GUEST;

    for (unsigned bit = 0; bit < 64; bit++) {
        const uint64_t value = good ^ 1ull << bit;
        unsigned vector;
        bool entered;

        if (1ull << bit == CTL_TOPA)
            continue;
        if (!guest_begin(&load, FEW, "bits of the guest's IA32_RTIT_CTL"))
            return;
        vector = wrmsr_safe(MSR_RTIT_CTL, value);
        trace_off();
        guest_begin(&load, FEW, "bits of the guest's IA32_RTIT_CTL");
        put(VMCS_GUEST_RTIT_CTL, value);
        entered = vm_launch().reason == REASON_CPUID;
        trace_off();
        report(entered == (vector == 0), "PT, guest's IA32_RTIT_CTL, bit %u: %s (33.2.8.2)", bit,
               vector ? "VM entry fails" : "VM entry takes it");
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
        if (guest_begin(&rows[i].on, FEW, rows[i].name))
            report_value(vm_launch().error, ERROR_CONTROLS, "PT, %s", rows[i].name);
    if (guest_begin(&load, FEW, "reserved bit of the guest's IA32_RTIT_CTL")) {
        put(VMCS_GUEST_RTIT_CTL, scheme() | CTL_GUEST | CTL_RESERVED);
        wrmsr(MSR_RTIT_CTL, CTL_OS);
        report_value(vm_launch().reason, REASON_ENTRY_FAILED | REASON_GUEST_STATE,
                     "PT, reserved bit of the guest's IA32_RTIT_CTL");
        report_value(rdmsr(MSR_RTIT_CTL), 0, "PT, a late failure clears IA32_RTIT_CTL, too");
    }
    if (guest_begin(&load, FEW, "load IA32_RTIT_CTL while TraceEn is 1")) {
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

/* The one way at the entry, and the other at the exit. */
static void test_mixed(void)
{
    static const struct controls load = {.entry = ENTRY_LOAD_RTIT_CTL},
                                 clear = {.exit = EXIT_CLEAR_RTIT_CTL};
    const char *name = "load by the control, clear by the MSR area";

    if (guest_begin(&load, FEW, name)) {
        put_areas(0, 0);
        put(VMCS_ENTRY_LOAD_COUNT, 0);
        report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
        check_guest_only(FEW, name);
    }
    name = "load by the MSR area, clear by the control";
    if (guest_begin(&clear, FEW, name)) {
        put_areas(scheme() | CTL_GUEST, 0);
        put(VMCS_EXIT_LOAD_COUNT, 0);
        report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
        check_guest_only(FEW, name);
    }
}

/* MSRs are stored before the exit clears or loads any. */
static void test_stored(const struct controls *on, const char *name)
{
    struct msr_entry *area = phys_to_virt(vm_pages.msr_area);
    const uint64_t value = scheme() | CTL_GUEST;

    if (!guest_begin(on, FEW, name))
        return;
    put_areas(value, 0);
    area[2] = (struct msr_entry){MSR_RTIT_CTL, 0, 0};
    put(VMCS_EXIT_MSR_STORE, vm_pages.msr_area + 2 * sizeof(*area));
    put(VMCS_EXIT_STORE_COUNT, 1);
    if (on->entry & ENTRY_LOAD_RTIT_CTL)
        put(VMCS_ENTRY_LOAD_COUNT, 0);
    report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
    report_value(area[2].value, value, "PT, %s: the guest's value", name);
    check_guest_only(FEW, name);
}

static void test_areas(void)
{
    static const struct controls plain = {0};
    const char *name = "IA32_RTIT_CTL in MSR areas";

    if (!guest_begin(&plain, FEW, name))
        return;
    put_areas(scheme() | CTL_GUEST, 0);
    report_value(vm_launch().reason, REASON_CPUID, "PT, %s", name);
    check_guest_only(FEW, name);

    guest_begin(&plain, FEW, name);
    put_areas(scheme() | CTL_GUEST | CTL_RESERVED, 0);
    report_value(vm_launch().reason, REASON_ENTRY_FAILED | REASON_MSR_LOADING,
                 "PT, %s: a reserved bit (33.2.8.1)", name);
    report_value(get(VMCS_QUALIFICATION), 1, "PT, %s: a reserved bit: number of the entry", name);
    report_value(rdmsr(MSR_RTIT_CTL), 0, "PT, %s: a reserved bit: nothing is traced", name);
}

void test_pt_guest(void)
{
    static const struct controls plain = {0}, controls = {BY_CONTROLS};

    if (!pt_caps()->present || !pt_memory_output(pt_caps()) || !(vmx_misc() & MISC_PT)) {
        report_skip("no Intel PT in VMX operation", "traces of guests alone");
        return;
    }
    test_controls();
    test_checks();
    test_reserved_bits();
    test_areas();
    test_mixed();
    test_stored(&plain, "IA32_RTIT_CTL in all MSR areas");
    test_stored(&controls, "IA32_RTIT_CTL stored, loaded and cleared by controls");
    trace_off();
}
