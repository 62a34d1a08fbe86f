/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of guests: injection, IDT-vectoring information, windows, interruptibility, interrupts and
 * NMIs that arrive, activity states, the preemption timer, the monitor trap flag and pending debug
 * exceptions (volume 3, "Event Injection", "Information for VM Exits That Occur During Event
 * Delivery", "Other Causes of VM Exits").
 *
 * Sections: injection, faults of a delivery, windows, timer and traps, debug exceptions that wait,
 * what arrives.
 */
#include "apic.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "tests.h"
#include "trap.h"
#include "vm.h"

#define VEC_DB        1u
#define VEC_NMI       2u
#define VEC_BP        3u
#define VEC_UD        6u
#define VEC_GP        13u
#define VEC_PF        14u
#define VEC_INTERRUPT 0x51u
#define RFLAGS_TF     (1u << 8)
#define UNMAPPED      0x0000400000001230ull

#define INJECT(event)                                                                              \
    {                                                                                              \
        PUT, VMCS_ENTRY_EVENT, EVENT_VALID | (event)                                               \
    }
#define LENGTH(bytes)                                                                              \
    {                                                                                              \
        PUT, VMCS_ENTRY_LENGTH, bytes                                                              \
    }
#define INTERRUPTS                                                                                 \
    {                                                                                              \
        SET, VMCS_GUEST_RFLAGS, RFLAGS_IF                                                          \
    }
#define BLOCKED(by)                                                                                \
    {                                                                                              \
        PUT, VMCS_INTERRUPTIBILITY, by                                                             \
    }
#define EXCEPTION(v) (EVENT_VALID | EVENT_EXCEPTION | (v))

/* ---- Injection ---------------------------------------------------------------------------- */

static const struct vm_row injection[] = {
    {"an injected interrupt arrives",
     .changes = {INJECT(EVENT_INTERRUPT | VEC_INTERRUPT), INTERRUPTS}, VECTORED(VEC_INTERRUPT)},
    {"an injected NMI arrives", .changes = {INJECT(EVENT_NMI | VEC_NMI)}, VECTORED(VEC_NMI)},
    {"an injected #UD arrives behind STI",
     .changes = {INJECT(EVENT_EXCEPTION | VEC_UD), INTERRUPTS, BLOCKED(BLOCKING_STI)},
     VECTORED(VEC_UD)},
    {"an injected #UD arrives", .changes = {INJECT(EVENT_EXCEPTION | VEC_UD)}, VECTORED(VEC_UD)},
    {"an injected #UD arrives although it is in the exception bitmap",
     .changes = {INJECT(EVENT_EXCEPTION | VEC_UD), {PUT, VMCS_EXCEPTION_BITMAP, UINT32_MAX}},
     VECTORED(VEC_UD)},
    {"an injected #GP arrives", .changes = {INJECT(EVENT_EXCEPTION | EVENT_ERROR_CODE | VEC_GP)},
     VECTORED(VEC_GP)},
    {"an injected software interrupt arrives",
     .changes = {INJECT(EVENT_SOFTWARE | VEC_INTERRUPT), LENGTH(2)}, VECTORED(VEC_INTERRUPT)},
    {"an injected INT1 arrives", .changes = {INJECT(EVENT_PRIVILEGED | VEC_DB), LENGTH(1)},
     VECTORED(VEC_DB)},
    {"an injected INT3 arrives", .changes = {INJECT(EVENT_SOFT_EXCEPTION | VEC_BP), LENGTH(1)},
     VECTORED(VEC_BP)},
    {"an injected NMI ends HLT", .need_misc = MISC_ACTIVITY_HLT,
     .changes = {INJECT(EVENT_NMI | VEC_NMI), {PUT, VMCS_ACTIVITY, ACTIVITY_HLT}},
     VECTORED(VEC_NMI)},
    {"an injected interrupt ends HLT", .need_misc = MISC_ACTIVITY_HLT,
     .changes = {INJECT(EVENT_INTERRUPT | VEC_INTERRUPT),
                 INTERRUPTS,
                 {PUT, VMCS_ACTIVITY, ACTIVITY_HLT}},
     VECTORED(VEC_INTERRUPT)},
    {"without the valid bit nothing is injected",
     .changes = {{PUT, VMCS_ENTRY_EVENT, EVENT_EXCEPTION | VEC_UD}}, DONE},
};

/* What a delivery leaves on the stack: with an error code, it is below RIP. */
static const uint64_t *guest_stack(void)
{
    return (const uint64_t *)get(VMCS_GUEST_RSP);
}

static void inject(uint32_t event, uint32_t length, uint32_t error_code)
{
    vm_reset(&nop_code);
    put(VMCS_ENTRY_EVENT, EVENT_VALID | event);
    put(VMCS_ENTRY_LENGTH, length);
    put(VMCS_ENTRY_ERROR_CODE, error_code);
    vm_launch();
}

static void test_frames(void)
{
    const uint64_t rip = (uint64_t)nop_code.begin;

    inject(EVENT_EXCEPTION | EVENT_ERROR_CODE | VEC_GP, 0, 0x1234);
    report_value(guest_stack()[0], 0x1234, "an injected #GP: its error code");
    report_value(guest_stack()[1], rip, "an injected #GP: the return address");
    report(!(get(VMCS_ENTRY_EVENT) & EVENT_VALID), "an exit clears the injection's valid bit");
    inject(EVENT_EXCEPTION | VEC_UD, 3, 0);
    report_value(guest_stack()[0], rip, "an injected #UD: the return address");
    inject(EVENT_SOFTWARE | VEC_INTERRUPT, 2, 0);
    report_value(guest_stack()[0], rip + 2, "an injected INT: the return address is behind it");
    inject(EVENT_SOFT_EXCEPTION | VEC_BP, 1, 0);
    report_value(guest_stack()[0], rip + 1, "an injected INT3: the return address is behind it");
    inject(EVENT_PRIVILEGED | VEC_DB, 1, 0);
    report_value(guest_stack()[0], rip + 1, "an injected INT1: the return address is behind it");
    inject(EVENT_NMI | VEC_NMI, 0, 0);
    report_value(guest_stack()[0], rip, "an injected NMI: the return address");
    report(get(VMCS_INTERRUPTIBILITY) & BLOCKING_NMI, "an injected NMI blocks NMIs");
}

/* ---- Faults of a delivery ----------------------------------------------------------------- */

SNIPPET(guest_int, "int $0x51");
SNIPPET(guest_breakpoint, "int3");

/* No gate is within the limit: #GP for the gate, with EXT unless software asked for the event. */
#define NO_IDT                                                                                     \
    {PUT, VMCS_GUEST_IDTR_LIMIT, 0},                                                               \
    {                                                                                              \
        PUT, VMCS_EXCEPTION_BITMAP, 1u << VEC_GP                                                   \
    }
#define GATE(v)          ((v)*8u + 2)
#define EXT              1u
#define FAULTS           .reason = REASON_EXCEPTION, .event = EXCEPTION(VEC_GP) | EVENT_ERROR_CODE
#define VECTORING(event) .vectoring = (EVENT_VALID | (event))

static const struct vm_row faults[] = {
    {"#GP while an injected interrupt is delivered",
     .changes = {NO_IDT, INJECT(EVENT_INTERRUPT | VEC_INTERRUPT), INTERRUPTS}, FAULTS,
     .error_code = GATE(VEC_INTERRUPT) | EXT, VECTORING(EVENT_INTERRUPT | VEC_INTERRUPT)},
    {"#GP while an injected NMI is delivered", .changes = {NO_IDT, INJECT(EVENT_NMI | VEC_NMI)},
     FAULTS, .error_code = GATE(VEC_NMI) | EXT, VECTORING(EVENT_NMI | VEC_NMI)},
    {"#GP while an injected #UD is delivered",
     .changes = {NO_IDT, INJECT(EVENT_EXCEPTION | VEC_UD)}, FAULTS,
     .error_code = GATE(VEC_UD) | EXT, VECTORING(EVENT_EXCEPTION | VEC_UD)},
    {"#GP while an injected INT is delivered",
     .changes = {NO_IDT, INJECT(EVENT_SOFTWARE | VEC_INTERRUPT), LENGTH(2)}, FAULTS,
     .error_code = GATE(VEC_INTERRUPT), VECTORING(EVENT_SOFTWARE | VEC_INTERRUPT)},
    {"#GP while an injected INT3 is delivered",
     .changes = {NO_IDT, INJECT(EVENT_SOFT_EXCEPTION | VEC_BP), LENGTH(1)}, FAULTS,
     .error_code = GATE(VEC_BP), VECTORING(EVENT_SOFT_EXCEPTION | VEC_BP)},
    {"#GP while an injected INT1 is delivered",
     .changes = {NO_IDT, INJECT(EVENT_PRIVILEGED | VEC_DB), LENGTH(1)}, FAULTS,
     .error_code = GATE(VEC_DB) | EXT, VECTORING(EVENT_PRIVILEGED | VEC_DB)},
    {"#GP while the guest's INT is delivered", CODE(guest_int), .changes = {NO_IDT}, FAULTS,
     .error_code = GATE(VEC_INTERRUPT), VECTORING(EVENT_SOFTWARE | VEC_INTERRUPT)},
    {"#GP while the guest's INT3 is delivered", CODE(guest_breakpoint), .changes = {NO_IDT}, FAULTS,
     .error_code = GATE(VEC_BP), VECTORING(EVENT_SOFT_EXCEPTION | VEC_BP)},
};

/* Instructions that asked for an event leave their length, as injected ones do. */
static void test_vectoring_length(void)
{
    const struct code code = CODE(guest_int);

    vm_reset(&code);
    put(VMCS_GUEST_IDTR_LIMIT, 0);
    put(VMCS_EXCEPTION_BITMAP, 1u << VEC_GP);
    report_value(vm_launch().length, 2, "#GP while INT is delivered: instruction length");
}

/* ---- Windows ------------------------------------------------------------------------------ */

SNIPPET_BEHIND(guest_sti, "sti", "nop");
SNIPPET_BEHIND(guest_iret,
               "mov %rsp, %rcx; pushq $0x10; push %rcx; pushq $2; pushq $8; "
               "lea 1f(%rip), %rdx; push %rdx; iretq; 1:",
               "nop");

#define WINDOW     .on.proc = PROC_INTERRUPT_WINDOW
#define NMI_WINDOW .on = {.pin = PIN_NMI | PIN_VIRTUAL_NMIS, .proc = PROC_NMI_WINDOW}

static const struct vm_row windows[] = {
    {"interrupt window that is open at entry", WINDOW, .changes = {INTERRUPTS},
     .reason = REASON_INTERRUPT_WINDOW},
    {"interrupt window that is closed", WINDOW, DONE},
    {"interrupt window behind blocking by STI", WINDOW,
     .changes = {INTERRUPTS, BLOCKED(BLOCKING_STI)}, .reason = REASON_INTERRUPT_WINDOW,
     .at = AT_END},
    {"interrupt window behind blocking by MOV SS", WINDOW,
     .changes = {INTERRUPTS, BLOCKED(BLOCKING_MOV_SS)}, .reason = REASON_INTERRUPT_WINDOW,
     .at = AT_END},
    {"interrupt window that STI opens", CODE(guest_sti), WINDOW, .reason = REASON_INTERRUPT_WINDOW,
     .at = AT_END},
    {"interrupt window ends HLT", WINDOW, .need_misc = MISC_ACTIVITY_HLT,
     .changes = {INTERRUPTS, {PUT, VMCS_ACTIVITY, ACTIVITY_HLT}},
     .reason = REASON_INTERRUPT_WINDOW},
    {"interrupt window in the handler of an injected interrupt", WINDOW,
     .changes = {INTERRUPTS, INJECT(EVENT_INTERRUPT | VEC_INTERRUPT)}, VECTORED(VEC_INTERRUPT)},
    {"NMI window that is open at entry", NMI_WINDOW, .reason = REASON_NMI_WINDOW},
    {"NMI window that is closed", NMI_WINDOW, .changes = {BLOCKED(BLOCKING_NMI)}, DONE},
    {"NMI window behind blocking by MOV SS", NMI_WINDOW, .changes = {BLOCKED(BLOCKING_MOV_SS)},
     .reason = REASON_NMI_WINDOW, .at = AT_END},
    {"NMI window that IRET opens", CODE(guest_iret), NMI_WINDOW, .changes = {BLOCKED(BLOCKING_NMI)},
     .reason = REASON_NMI_WINDOW},
    {"NMI window ends HLT", NMI_WINDOW, .need_misc = MISC_ACTIVITY_HLT,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_HLT}}, .reason = REASON_NMI_WINDOW},
};

/* ---- Timer and traps ---------------------------------------------------------------------- */

#define TIMER .on.pin = PIN_PREEMPTION_TIMER
#define TICKS(n)                                                                                   \
    {                                                                                              \
        PUT, VMCS_PREEMPTION_TIMER, n                                                              \
    }
#define DR6_B0      1u
#define DR6_BS      (1u << 14)
#define DR6_ENABLED (1u << 12)
#define PENDING(n)                                                                                 \
    {                                                                                              \
        PUT, VMCS_PENDING_DEBUG, n                                                                 \
    }
#define ALL_EVENTS                                                                                 \
    {                                                                                              \
        PUT, VMCS_EXCEPTION_BITMAP, UINT32_MAX                                                     \
    }

SNIPPET(guest_loop, "jmp guest_loop");

static const struct vm_row timer[] = {
    {"preemption timer of 0 exits before any instruction", TIMER, .changes = {TICKS(0)},
     .reason = REASON_PREEMPTION_TIMER},
    {"preemption timer ends a loop", CODE(guest_loop), TIMER, .changes = {TICKS(1)},
     .reason = REASON_PREEMPTION_TIMER},
    {"preemption timer in HLT", TIMER, .need_misc = MISC_ACTIVITY_HLT,
     .changes = {TICKS(1), {PUT, VMCS_ACTIVITY, ACTIVITY_HLT}}, .reason = REASON_PREEMPTION_TIMER},
    {"preemption timer in shutdown", TIMER, .need_misc = MISC_ACTIVITY_SHUTDOWN,
     .changes = {TICKS(1), {PUT, VMCS_ACTIVITY, ACTIVITY_SHUTDOWN}},
     .reason = REASON_PREEMPTION_TIMER},
    {"preemption timer of 0 with an injected event: behind its delivery", TIMER,
     .changes = {TICKS(0), INJECT(EVENT_EXCEPTION | VEC_UD)}, .reason = REASON_PREEMPTION_TIMER,
     .at = AT_VECTOR + VEC_UD},
    {"monitor trap flag: behind one instruction", .on.proc = PROC_MTF, .reason = REASON_MTF,
     .at = AT_END},
    {"monitor trap flag with an injected event: behind its delivery", .on.proc = PROC_MTF,
     .changes = {INJECT(EVENT_EXCEPTION | VEC_UD)}, .reason = REASON_MTF, .at = AT_VECTOR + VEC_UD},
    {"monitor trap flag with an event of the guest: behind its delivery", CODE(guest_int),
     .on.proc = PROC_MTF, .reason = REASON_MTF, .at = AT_VECTOR + VEC_INTERRUPT},
    {"an injected MTF exit", .on.proc = PROC_MTF, .changes = {INJECT(EVENT_OTHER)},
     .reason = REASON_MTF},
    {"pending debug exception: BS", .changes = {ALL_EVENTS, PENDING(DR6_BS)},
     .reason = REASON_EXCEPTION, .qualification = DR6_BS, .event = EXCEPTION(VEC_DB)},
    {"pending debug exception: enabled breakpoint 0",
     .changes = {ALL_EVENTS, PENDING(DR6_B0 | DR6_ENABLED)}, .reason = REASON_EXCEPTION,
     .qualification = DR6_B0, .event = EXCEPTION(VEC_DB)},
    {"pending debug exception: breakpoint 0 that is not enabled",
     .changes = {ALL_EVENTS, PENDING(DR6_B0)}, DONE},
    {"pending debug exception behind an injected #UD is lost",
     .changes = {ALL_EVENTS, PENDING(DR6_BS), INJECT(EVENT_EXCEPTION | VEC_UD)}, VECTORED(VEC_UD)},
    {"pending debug exception in the guest", .changes = {PENDING(DR6_BS)}, VECTORED(VEC_DB)},
};

/* The row that begins in HLT is in HLT behind its exit. */
static void test_halted(void)
{
    const struct controls on = {.pin = PIN_PREEMPTION_TIMER}, off = {0};
    struct lacking lacking;

    vm_reset(&nop_code);
    if (!(vmx_misc() & MISC_ACTIVITY_HLT) || !vm_controls(&on, &off, &lacking)) {
        report_skip("no timer or no HLT state", "HLT is saved by an exit");
        return;
    }
    put(VMCS_PREEMPTION_TIMER, 1);
    put(VMCS_ACTIVITY, ACTIVITY_HLT);
    vm_launch();
    report_value(get(VMCS_ACTIVITY), ACTIVITY_HLT, "HLT is saved by an exit");
}

/* ---- Debug exceptions that wait ------------------------------------------------------------- */

#define DR6_NONE 0xffff0ff0ull

SNIPPET_BEHIND(guest_bad_iret, "push $0; push $0; push $0; push $0; push $0", "iretq");
SNIPPET(guest_astray, "jmp *%rbx");
static const struct vm_row unblocking[] = {
    {"#GP of an IRET that unblocks NMIs", CODE(guest_bad_iret),
     .on.pin = PIN_NMI | PIN_VIRTUAL_NMIS, .changes = {ALL_EVENTS, BLOCKED(BLOCKING_NMI)},
     .reason = REASON_EXCEPTION,
     .event = EVENT_VALID | EVENT_EXCEPTION | EVENT_ERROR_CODE | EVENT_NMI_UNBLOCKING | VEC_GP},
    {"#GP of an IRET while NMIs are not virtual", CODE(guest_bad_iret), .on.pin = PIN_NMI,
     .changes = {ALL_EVENTS, BLOCKED(BLOCKING_NMI)}, .reason = REASON_EXCEPTION,
     .event = EVENT_VALID | EVENT_EXCEPTION | EVENT_ERROR_CODE | VEC_GP},
    {"#PF of a fetch is not of an IRET", CODE(guest_astray), .on.pin = PIN_NMI | PIN_VIRTUAL_NMIS,
     .changes = {ALL_EVENTS, BLOCKED(BLOCKING_NMI)}, .registers.rbx = UNMAPPED,
     .reason = REASON_EXCEPTION, .at = AT_ANY, .qualification = UNMAPPED,
     .event = EVENT_VALID | EVENT_EXCEPTION | EVENT_ERROR_CODE | VEC_PF},
};

/* An IRET that faults has unblocked NMIs even if its guest takes the fault. */
static void test_unblocked(void)
{
    static const struct code code = CODE(guest_bad_iret);
    static const struct controls on = {.pin = PIN_NMI | PIN_VIRTUAL_NMIS}, off;
    const char *name = "#GP of an IRET in its guest";
    struct lacking lacking;

    vm_reset(&code);
    if (!vm_controls(&on, &off, &lacking)) {
        skip_lacking(&lacking, name);
        return;
    }
    put(VMCS_INTERRUPTIBILITY, BLOCKING_NMI);
    report_value(vm_launch().rip, place(&code, AT_VECTOR + VEC_GP), "%s", name);
    report_value(get(VMCS_INTERRUPTIBILITY) & BLOCKING_NMI, 0, "%s: NMIs are not blocked", name);
}

SNIPPET(guest_cpuid, "cpuid");
static const struct code cpuid_code = CODE(guest_cpuid);
SNIPPET(guest_sti_alone, "sti");
static const struct code sti_code = CODE(guest_sti_alone);

static uint64_t read_dr6(void)
{
    uint64_t value;

    __asm__ volatile("mov %%dr6, %0" : "=r"(value));
    return value;
}

/* A guest that steps, whose debug exceptions exit. */
static bool begin_stepped(const struct code *code, uint32_t proc, const char *name)
{
    const struct controls on = {.proc = proc}, off = {0};
    struct lacking lacking;

    vm_reset(code);
    if (!vm_controls(&on, &off, &lacking)) {
        skip_lacking(&lacking, name);
        return false;
    }
    put(VMCS_GUEST_RFLAGS, get(VMCS_GUEST_RFLAGS) | RFLAGS_TF);
    put(VMCS_EXCEPTION_BITMAP, 1u << VEC_DB);
    __asm__ volatile("mov %0, %%dr6" : : "r"(DR6_NONE));
    return true;
}

static void test_stepped(void)
{
    const char *name = "monitor trap flag with RFLAGS.TF";

    if (begin_stepped(&nop_code, 0, "a #DB that exits")) {
        report_value(vm_launch().reason, REASON_EXCEPTION, "#DB of RFLAGS.TF exits");
        report_value(read_dr6(), DR6_NONE, "a #DB that exits leaves DR6 as it is");
    }
    if (begin_stepped(&nop_code, PROC_MTF, name)) {
        report_value(vm_launch().reason, REASON_MTF, "%s: it comes first", name);
        report_value(get(VMCS_PENDING_DEBUG), DR6_BS, "%s: the debug exception is pending", name);
        report_value(vm_resume().reason, REASON_EXCEPTION, "%s: and comes behind the entry", name);
    }
    name = "STI with RFLAGS.TF";
    if (begin_stepped(&sti_code, 0, name)) {
        struct outcome outcome = vm_launch();

        report_value(outcome.reason, REASON_EXCEPTION, "%s: its #DB exits", name);
        report_value(outcome.rip, place(&sti_code, AT_END), "%s: behind STI itself", name);
        put(VMCS_INTERRUPTIBILITY, 0);
        report_value(get(VMCS_PENDING_DEBUG), 0, "%s: no other is pending", name);
        report_value(vm_resume().reason, REASON_VMCALL, "%s: none comes before VMCALL", name);
    }
    name = "an exit behind MOV SS with RFLAGS.TF";
    if (begin_stepped(&cpuid_code, 0, name)) {
        put(VMCS_INTERRUPTIBILITY, BLOCKING_MOV_SS);
        put(VMCS_PENDING_DEBUG, DR6_BS);
        report_value(vm_launch().reason, REASON_CPUID, "%s", name);
        report_value(get(VMCS_PENDING_DEBUG), DR6_BS, "%s: BS is pending still", name);
        report_value(vm_resume().reason, REASON_CPUID, "%s: what it saved can be entered", name);
    }
}

/* ---- What arrives ------------------------------------------------------------------------- */

SNIPPET_BEHIND(guest_send, "mov %ecx, (%rbx)", "jmp guest_send_insn");

static bool take_interrupt(struct frame *frame)
{
    (void)frame;
    apic_eoi();
    return true;
}

/* Ends what a case left pending. */
static void drain(void)
{
    trap_set_handler(VEC_INTERRUPT, take_interrupt);
    interrupts_on();
    __asm__ volatile("nop");
    interrupts_off();
}

/* A VM that begins with an interrupt pending in the APIC. */
static struct outcome enter_pending(const struct controls *on, uint64_t rflags)
{
    const struct controls off = {0};
    struct lacking lacking;

    vm_reset(&nop_code);
    vm_controls(on, &off, &lacking);
    put(VMCS_GUEST_RFLAGS, get(VMCS_GUEST_RFLAGS) | rflags);
    apic_send(0, ICR_SELF | ICR_ASSERT | VEC_INTERRUPT);
    while (!apic_pending(VEC_INTERRUPT))
        ;
    return vm_launch();
}

static void test_interrupts(void)
{
    static const struct controls none,
        exiting = {.pin = PIN_EXTERNAL_INTERRUPT},
        both = {.pin = PIN_EXTERNAL_INTERRUPT, .exit = EXIT_ACKNOWLEDGE};
    struct outcome outcome = enter_pending(&exiting, RFLAGS_IF);

    report_value(outcome.reason, REASON_EXTERNAL_INTERRUPT, "an interrupt exits");
    report(!(outcome.event & EVENT_VALID) && apic_pending(VEC_INTERRUPT),
           "an interrupt that is not acknowledged stays pending");
    drain();
    report_value(enter_pending(&exiting, 0).reason, REASON_EXTERNAL_INTERRUPT,
                 "an interrupt exits with RFLAGS.IF = 0");
    drain();
    outcome = enter_pending(&both, RFLAGS_IF);
    report_value(outcome.event, EVENT_VALID | EVENT_INTERRUPT | VEC_INTERRUPT,
                 "an interrupt that is acknowledged: its vector");
    report(!apic_pending(VEC_INTERRUPT), "an interrupt that is acknowledged is not pending");
    apic_eoi();
    outcome = enter_pending(&none, RFLAGS_IF);
    report_value(outcome.rip, place(&nop_code, AT_VECTOR + VEC_INTERRUPT),
                 "an interrupt without exiting arrives in the guest");
    apic_eoi();
    outcome = enter_pending(&none, 0);
    report(outcome.rip == place(&nop_code, AT_END) && apic_pending(VEC_INTERRUPT),
           "an interrupt without exiting waits for RFLAGS.IF");
    drain();
}

/* The guest sends itself an NMI, since one that comes in root operation would be taken there. */
static struct outcome send_nmi(const struct controls *on)
{
    const struct code code = CODE(guest_send);
    const struct controls off = {0};
    struct lacking lacking;

    vm_reset(&code);
    vm_controls(on, &off, &lacking);
    vm_registers.rbx = (uint64_t)apic_icr(apic_id());
    vm_registers.rcx = ICR_ASSERT | ICR_NMI; /* not "self", which is for fixed interrupts */
    return vm_launch();
}

static void test_nmis(void)
{
    static const struct controls none, exiting = {.pin = PIN_NMI};
    struct outcome outcome = send_nmi(&exiting);

    report_value(outcome.reason, REASON_EXCEPTION, "an NMI exits");
    report_value(outcome.event, EVENT_VALID | EVENT_NMI | VEC_NMI, "an NMI exits: its information");
    unblock_nmis();
    outcome = send_nmi(&none);
    report_value(outcome.reason, REASON_VMCALL, "an NMI without exiting does not exit");
    report_value(outcome.rip, place(&nop_code, AT_VECTOR + VEC_NMI),
                 "an NMI without exiting arrives in the guest");
    report(get(VMCS_INTERRUPTIBILITY) & BLOCKING_NMI, "and blocks NMIs there");
    unblock_nmis();
}

/* INIT is blocked in root operation: it waits for the guest, which exits before its first
 * instruction. */
static void test_init(void)
{
    struct outcome outcome;

    vm_reset(&nop_code);
    apic_send(apic_id(), ICR_ASSERT | ICR_INIT);
    while (*apic_icr(apic_id()) & ICR_BUSY)
        ;
    outcome = vm_launch();
    report_value(outcome.reason, REASON_INIT,
                 "INIT in root operation waits for a guest, and exits");
    report_value(outcome.rip, place(&nop_code, AT_INSN), "INIT exits before the guest's first");
    report_value(outcome.event, 0, "INIT exits without interruption information");
    report_value(vm_resume().reason, REASON_VMCALL, "INIT is gone with its exit");
}

void test_events(void)
{
    RUN_ROWS(injection);
    test_frames();
    RUN_ROWS(faults);
    test_vectoring_length();
    RUN_ROWS(windows);
    RUN_ROWS(timer);
    test_halted();
    RUN_ROWS(unblocking);
    test_unblocked();
    test_stepped();
    test_interrupts();
    test_nmis();
    test_init();
}
