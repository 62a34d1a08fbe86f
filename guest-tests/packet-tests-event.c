/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exceptions, software and external interrupts, IRET and far transfers in supervisor mode (Tables
 * 33-23 and 33-55), and the same with Event Trace (Tables 33-49 to 33-51 and 33-59).
 */
#include "packet-tests.h"
#include "trap.h"

BODY(ud_body);
BODY(pf_body);
BODY(gp_body);
BODY(soft_body);
BODY(break_body);
BODY(intr_body);
BODY(flags_body);
BODY(far_body);
LABEL(ud_insn);
LABEL(ud_next);
LABEL(ud_handler);
LABEL(ud_iret);
LABEL(pf_insn);
LABEL(pf_next);
LABEL(pf_handler);
LABEL(pf_iret);
LABEL(gp_insn);
LABEL(gp_next);
LABEL(gp_handler);
LABEL(soft_insn);
LABEL(soft_next);
LABEL(soft_handler);
LABEL(soft_iret);
LABEL(break_insn);
LABEL(break_next);
LABEL(intr_sti);
LABEL(intr_next);
LABEL(intr_cli);
LABEL(intr_handler);
LABEL(intr_iret);
LABEL(flags_sti);
LABEL(flags_cli);
LABEL(flags_popf);
LABEL(flags_last);
LABEL(far_ret_target);

#define SOFT_VECTOR 0x50
/* Lower half, and nothing is ever mapped there. */
#define UNMAPPED 0x600000123458ull

static void trace_at(unsigned vector, const char *handler, uint64_t ctl, trace_body *body,
                     uint64_t arg)
{
    trap_set_entry(vector, handler);
    trace_code(ctl, body, arg, 0);
    trap_set_entry(vector, NULL);
}

/* ---- Branch trace ------------------------------------------------------------------------- */

static void test_exceptions(void)
{
    trace_at(VECTOR_INVALID_OP, ud_handler, CTL_DEFAULT, ud_body, 0);
    EXPECT_BEGIN(ud_body);
    expect_bits("T");
    expect_fup(ud_insn);
    expect_tip(ud_handler);
    expect_tip(ud_next);
    EXPECT_END(ud_body);
    check_flow("#UD: TNT, FUP with its own address, TIP; IRET: TIP (Table 33-55 cases 13 and 8)");

    trace_at(VECTOR_PAGE_FAULT, pf_handler, CTL_DEFAULT, pf_body, UNMAPPED);
    EXPECT_BEGIN(pf_body);
    expect_fup(pf_insn);
    expect_tip(pf_handler);
    expect_tip(pf_next);
    EXPECT_END(pf_body);
    check_flow("#PF: FUP with the address of the access, TIP (Table 33-55 case 13)");

    trace_at(GP_VECTOR, gp_handler, CTL_DEFAULT, gp_body, 0);
    EXPECT_BEGIN(gp_body);
    expect_fup(gp_insn);
    expect_tip(gp_handler);
    expect_tip(gp_next);
    EXPECT_END(gp_body);
    check_flow("#GP of a WRMSR to IA32_RTIT_CTL: FUP, TIP, and tracing goes on (33.2.8.3)");
}

static void test_software_interrupts(void)
{
    trace_at(SOFT_VECTOR, soft_handler, CTL_DEFAULT, soft_body, 0);
    EXPECT_BEGIN(soft_body);
    expect_fup(soft_insn);
    expect_tip(soft_handler);
    expect_tip(soft_next);
    EXPECT_END(soft_body);
    check_flow("INT n: FUP with its own address, not the next one (Table 33-23)");

    trace_at(VECTOR_BREAKPOINT, soft_handler, CTL_DEFAULT, break_body, 0);
    EXPECT_BEGIN(break_body);
    expect_fup(break_insn);
    expect_tip(soft_handler);
    expect_tip(break_next);
    EXPECT_END(break_body);
    check_flow("INT3: FUP with its own address (Table 33-23)");
}

/* An interrupt that waits when the trace begins. False: there is none to be had. */
static bool trace_interrupt(uint64_t ctl, const char *what)
{
    if (!interrupt_pend()) {
        report_skip("the APIC timer does not fire", "%s", what);
        return false;
    }
    trace_at(VECTOR_TIMER, intr_handler, ctl, intr_body, 0);
    interrupt_done();
    return true;
}

static void test_interrupt(void)
{
    if (trace_interrupt(CTL_DEFAULT, "interrupt: FUP, TIP (Table 33-55 case 11)")) {
        EXPECT_BEGIN(intr_body);
        expect_fup(intr_next);
        expect_tip(intr_handler);
        expect_tip(intr_next);
        EXPECT_END(intr_body);
        check_flow("interrupt: FUP with the next address, TIP (Table 33-55 case 11)");
    }
}

static void test_far(void)
{
    trace_code(CTL_DEFAULT, far_body, 0, 0);
    EXPECT_BEGIN(far_body);
    expect_tip(far_ret_target);
    EXPECT_END(far_body);
    check_flow("far RET: TIP, no FUP (Table 33-55 case 8)");
    trace_code(CTL_DEFAULT, flags_body, 0, 0);
    EXPECT_BEGIN(flags_body);
    EXPECT_END(flags_body);
    check_flow("no packets for STI, CLI and POPF with EventEn = 0 (33.4.2.8)");
}

/* ---- Event Trace -------------------------------------------------------------------------- */

static void test_event_exceptions(void)
{
    const uint64_t ctl = CTL_DEFAULT | CTL_EVENTEN;

    trace_at(VECTOR_INVALID_OP, ud_handler, ctl, ud_body, 0);
    EXPECT_BEGIN(ud_body);
    expect_bits("T");
    expect_cfe(CFE_INTR, VECTOR_INVALID_OP, false);
    expect_fup(ud_insn);
    expect_tip(ud_handler);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(ud_iret);
    expect_tip(ud_next);
    EXPECT_END(ud_body);
    check_flow(
        "EventEn, #UD: CFE.INTR shares the FUP; CFE.IRET has its own (Table 33-59 cases 5 and 1)");

    trace_at(VECTOR_PAGE_FAULT, pf_handler, ctl, pf_body, UNMAPPED);
    EXPECT_BEGIN(pf_body);
    expect_evd(EVD_PFA, UNMAPPED);
    expect_cfe(CFE_INTR, VECTOR_PAGE_FAULT, false);
    expect_fup(pf_insn);
    expect_tip(pf_handler);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(pf_iret);
    expect_tip(pf_next);
    EXPECT_END(pf_body);
    check_flow("EventEn, #PF: EVD with CR2 before the CFE (Table 33-59 case 6)");

    trace_at(VECTOR_PAGE_FAULT, pf_handler, CTL_OS | CTL_EVENTEN, pf_body, UNMAPPED);
    expect_nothing();
    expect_evd(EVD_PFA, UNMAPPED);
    expect_cfe(CFE_INTR, VECTOR_PAGE_FAULT, true);
    expect_fup(pf_insn);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(pf_iret);
    check_flow("EventEn, #PF with BranchEn = 0: CFE.INTR with its own FUP (33.4.2.29)");

    trace_at(SOFT_VECTOR, soft_handler, ctl, soft_body, 0);
    EXPECT_BEGIN(soft_body);
    expect_cfe(CFE_INTR, SOFT_VECTOR, false);
    expect_fup(soft_insn);
    expect_tip(soft_handler);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(soft_iret);
    expect_tip(soft_next);
    EXPECT_END(soft_body);
    check_flow("EventEn, INT n: CFE.INTR with the vector (Table 33-59 case 5)");

    trace_at(VECTOR_PAGE_FAULT, pf_handler, CTL_USER | CTL_BRANCHEN | CTL_EVENTEN, pf_body,
             UNMAPPED);
    report_value(trace_count(PACKET_EVD) + trace_count(PACKET_CFE), 0,
                 "EventEn, #PF with ContextEn = 0: neither EVD nor CFE (Table 33-59 case 7)");
}

static void test_event_flags(void)
{
    trace_code(CTL_DEFAULT | CTL_EVENTEN, flags_body, 0, 0);
    EXPECT_BEGIN(flags_body);
    expect_mode_exec(true);
    expect_fup(flags_sti);
    expect_mode_exec(false);
    expect_fup(flags_cli);
    expect_mode_exec(true);
    expect_fup(flags_popf);
    expect_mode_exec(false);
    expect_fup(flags_last);
    EXPECT_END(flags_body);
    check_flow(
        "EventEn: MODE.Exec and FUP where STI, CLI and POPF change IF (Table 33-59 case 22)");
}

static void test_event_interrupt(void)
{
    if (!trace_interrupt(CTL_DEFAULT | CTL_EVENTEN, "EventEn, interrupt (Table 33-59 case 4)"))
        return;
    EXPECT_BEGIN(intr_body);
    expect_mode_exec(true);
    expect_fup(intr_sti);
    expect_cfe(CFE_INTR, VECTOR_TIMER, false);
    expect_fup(intr_next);
    expect_mode_exec(false);
    expect_tip(intr_handler);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(intr_iret);
    expect_mode_exec(true);
    expect_tip(intr_next);
    expect_mode_exec(false);
    expect_fup(intr_cli);
    EXPECT_END(intr_body);
    check_flow("EventEn, interrupt: CFE.INTR, and IF in MODE.Exec (Table 33-59 case 4, 33.4.2.8)");
}

void test_events(void)
{
    test_exceptions();
    test_software_interrupts();
    test_interrupt();
    test_far();
    if (!pt_caps()->event) {
        report_skip("no Event Trace", "CFE and EVD (33.2.4)");
        return;
    }
    test_event_exceptions();
    test_event_flags();
    test_event_interrupt();
}
