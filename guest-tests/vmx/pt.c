/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel PT of a VMM that traces itself and its guests (33.5.1): the packets of an entry, of a
 * guest's MOV to CR3 and of an exit, in each setting of the three conceal controls (Tables 33-52
 * and 33-53). On a processor that does not trace in VMX operation, that it does not (33.2.8.2).
 */
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "packets.h"
#include "pt.h"
#include "tests.h"
#include "tracing.h"
#include "vm.h"

SNIPPET_BEHIND(pt_guest, "mov %cr3, %rax; mov %rax, %cr3", "cpuid");
static const struct code guest = CODE(pt_guest);

/* ---- What comes --------------------------------------------------------------------------- */

#define MAX_PIPS    8
#define CFE_VMENTRY 7
#define CFE_VMEXIT  8
#define EVD_QUALIFY 1
#define EVD_REASON  2
#define TSC_OFFSET  (1ull << 50)

/* Outside of PSB+: the NR bits of PIPs in their order, and where the trace went. */
static struct seen {
    unsigned pips, vmcs;
    unsigned entries, exits; /* CFEs */
    unsigned wrong_times; /* TSC packets with the guest's offset elsewhere, or without it there */
    uint64_t reason, qualification, pointer;
    bool nr[MAX_PIPS];
    bool entry, exit, host; /* TIP to the guest, FUP of its exit, TIP to the host */
    bool next;              /* TIP behind a VMLAUNCH that failed */
} seen;

static bool in_guest(void)
{
    return seen.pips > 0 && seen.pips <= MAX_PIPS && seen.nr[seen.pips - 1];
}

static void see(const struct packet *packet)
{
    switch (packet->kind) {
    case PACKET_PIP:
        if (seen.pips < MAX_PIPS)
            seen.nr[seen.pips] = packet->flag;
        seen.pips++;
        break;
    case PACKET_TSC:
        seen.wrong_times += in_guest() != !!(packet->value & TSC_OFFSET);
        break;
    case PACKET_VMCS:
        seen.vmcs++;
        seen.pointer = packet->value << 12;
        break;
    case PACKET_CFE:
        seen.entries += packet->sub == CFE_VMENTRY;
        seen.exits += packet->sub == CFE_VMEXIT;
        break;
    case PACKET_EVD:
        if (packet->sub == EVD_REASON)
            seen.reason = packet->value;
        else if (packet->sub == EVD_QUALIFY)
            seen.qualification = packet->value;
        break;
    case PACKET_FUP:
        seen.exit |= packet->ip == (uint64_t)guest.insn;
        break;
    case PACKET_TIP:
        seen.entry |= packet->ip == (uint64_t)guest.begin;
        seen.host |= packet->ip == (uint64_t)vmx_exit;
        seen.next |= packet->ip == (uint64_t)vmlaunch_next;
        break;
    default:
        break;
    }
}

static struct outcome outcome;

static void enter_once(void)
{
    outcome = vm_launch();
}

static void trace_once(uint64_t ctl, void (*body)(void))
{
    struct trace_setup setup = {.ctl = CTL_DEFAULT | ctl, .body = body};
    struct packet_reader reader = {0};
    struct trace_result result;
    struct packet packet;

    seen = (struct seen){0};
    trace_default_output(&setup);
    result = trace_run(&setup);
    reader.bytes = trace_default_bytes(&result, &reader.len_bytes);
    while (packet_next(&reader, &packet))
        if (!packet.in_psb)
            see(&packet);
    note_trace(virt_to_phys(trace_default_buffer()), reader.len_bytes);
}

/* ---- The conceal controls ----------------------------------------------------------------- */

static void check_pips(const struct controls *on, const char *name)
{
    bool want[MAX_PIPS];
    unsigned count = 0;
    bool same;

    if (!(on->entry & ENTRY_CONCEAL))
        want[count++] = true;
    want[count++] = !(on->proc2 & PROC2_CONCEAL);
    if (!(on->exit & EXIT_CONCEAL))
        want[count++] = false;
    same = seen.pips == count;
    for (unsigned i = 0; same && i < count; i++)
        same = seen.nr[i] == want[i];
    report(same, "PT, %s: PIPs and their NR bits (Table 33-52)", name);
}

static const struct {
    const char *name;
    struct controls on;
} settings[] = {
    {"nothing concealed", {0}},
    {"execution concealed", {.proc2 = PROC2_CONCEAL}},
    {"exits concealed", {.exit = EXIT_CONCEAL}},
    {"execution and exits concealed", {.proc2 = PROC2_CONCEAL, .exit = EXIT_CONCEAL}},
    {"entries concealed", {.entry = ENTRY_CONCEAL}},
    {"execution and entries concealed", {.proc2 = PROC2_CONCEAL, .entry = ENTRY_CONCEAL}},
    {"exits and entries concealed", {.exit = EXIT_CONCEAL, .entry = ENTRY_CONCEAL}},
    {"everything concealed",
     {.proc2 = PROC2_CONCEAL, .exit = EXIT_CONCEAL, .entry = ENTRY_CONCEAL}},
};

static void test_setting(const struct controls *on, const char *name)
{
    static const struct controls off = {.proc = PROC_CR3_LOAD | PROC_CR3_STORE};
    struct lacking lacking;

    vm_reset(&guest);
    if (!vm_controls(on, &off, &lacking)) {
        skip_lacking(&lacking, name);
        return;
    }
    trace_once(0, enter_once);
    report_value(outcome.reason, REASON_CPUID, "PT, %s: the guest runs", name);
    report(seen.entry && seen.exit && seen.host,
           "PT, %s: TIP of the entry, FUP and TIP of the exit (Table 33-53)", name);
    check_pips(on, name);
    report_value(seen.vmcs, 0, "PT, %s: a VMCS packet is VMPTRLD's alone (33.5.1)", name);
}

/* ---- Events ------------------------------------------------------------------------------- */

static void test_events_of(const struct controls *on, const char *name)
{
    static const struct controls off = {.proc = PROC_CR3_LOAD | PROC_CR3_STORE};
    const bool exits = !(on->exit & EXIT_CONCEAL);
    struct lacking lacking;

    vm_reset(&guest);
    if (!vm_controls(on, &off, &lacking)) {
        skip_lacking(&lacking, name);
        return;
    }
    trace_once(CTL_EVENTEN, enter_once);
    report_value(seen.entries, !(on->entry & ENTRY_CONCEAL), "PT, %s: CFE.VMENTRY (Table 33-59)",
                 name);
    report_value(seen.exits, exits, "PT, %s: CFE.VMEXIT (Table 33-59)", name);
    report(seen.reason == (exits ? REASON_CPUID : 0) && seen.qualification == 0,
           "PT, %s: EVDs of reason and qualification (Table 33-53)", name);
}

/* ---- Time --------------------------------------------------------------------------------- */

/* So long that the packets of the exit begin with time. */
SNIPPET(pt_long, "rep stosb");

#define LONG_BYTES 4096u

/* TSC packets in the guest have its offset, others have none (33.5.2.3). */
static void test_tsc(void)
{
    static const struct code code = CODE(pt_long);
    static const struct controls on = {.proc = PROC_TSC_OFFSETTING}, off;
    struct lacking lacking;

    vm_reset(&code);
    if (!pt_caps()->mtc || !vm_controls(&on, &off, &lacking)) {
        report_skip("no MTC packets, or no TSC offset", "PT, TSC packets of guest and host");
        return;
    }
    put(VMCS_TSC_OFFSET, TSC_OFFSET);
    vm_registers.rdi = (uint64_t)vm_data();
    vm_registers.rcx = LONG_BYTES;
    trace_once(CTL_TSCEN | CTL_MTCEN, enter_once);
    report_value(outcome.reason, REASON_VMCALL, "PT, TSC packets: the guest runs");
    report_value(seen.wrong_times, 0, "PT, TSC packets of guest and host (33.5.2.3)");
}

/* ---- VMPTRLD and failures ----------------------------------------------------------------- */

static void load_other(void)
{
    vmptrld(&vm_pages.vmxon); /* fails: no packet */
    vmptrld(&vm_pages.other_vmcs);
}

static void test_vmptrld(void)
{
    vm_reset(&guest);
    vmclear(&vm_pages.other_vmcs);
    trace_once(0, load_other);
    report_value(seen.vmcs, 1, "PT, a VMCS packet of a VMPTRLD that succeeds (33.5.1)");
    report_value(seen.pointer, vm_pages.other_vmcs, "PT, a VMCS packet: its pointer (33.4.2.15)");
}

/* An early failure goes on behind the VMLAUNCH, and there is no guest (Table 33-54). */
static void test_early_failure(void)
{
    vm_reset(&guest);
    put(VMCS_HOST_CS, 0);
    trace_once(0, enter_once);
    report_value(outcome.error, ERROR_HOST_STATE, "PT, a VM entry that fails early");
    report(seen.next && !seen.entry && !seen.host && seen.pips == 0,
           "PT, a VM entry that fails early: TIP of the next IP alone (Table 33-54)");
}

/* A late one goes to the host as an exit does, with NR = 0 in the end. */
static void test_late_failure(void)
{
    vm_reset(&guest);
    put(VMCS_GUEST_RFLAGS, 0);
    trace_once(0, enter_once);
    report_value(outcome.reason, REASON_ENTRY_FAILED | REASON_GUEST_STATE,
                 "PT, a VM entry that fails late");
    report(seen.host && !seen.entry && (seen.pips == 0 || !seen.nr[seen.pips - 1]),
           "PT, a VM entry that fails late: TIP of the host's IP (Table 33-54)");
}

/* ---- Without tracing in VMX operation ----------------------------------------------------- */

static void test_no_tracing(void)
{
    report_value(rdmsr(MSR_RTIT_CTL) & CTL_TRACEEN, 0,
                 "PT, IA32_VMX_MISC[14] = 0: TraceEn is 0 in VMX operation (33.2.8.2)");
    report_vector(wrmsr_safe(MSR_RTIT_CTL, CTL_OS), GP_VECTOR,
                  "PT, IA32_VMX_MISC[14] = 0: WRMSR of IA32_RTIT_CTL is #GP (33.2.8.2)");
}

void test_pt(void)
{
    if (!pt_caps()->present || !pt_memory_output(pt_caps())) {
        report_skip("no Intel PT", "packets of VM entries and exits");
        return;
    }
    if (!(vmx_misc() & MISC_PT)) {
        test_no_tracing();
        return;
    }
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        test_setting(&settings[i].on, settings[i].name);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (pt_caps()->event)
            test_events_of(&settings[i].on, settings[i].name);
        else
            report_skip("no Event Trace", "PT, %s: CFE and EVD", settings[i].name);
    }
    test_tsc();
    test_vmptrld();
    test_early_failure();
    test_late_failure();
}
