/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Context: user mode and supervisor mode with either, both or neither traced (33.2.5.1), SYSCALL,
 * exceptions and interrupts between them (Table 33-56), MOV CR3 and CR3 filtering
 * (33.2.5.2, 33.4.2.7).
 */
#include "packet-tests.h"
#include "string.h"
#include "trap.h"

BODY(user_body);
BODY(sysret_body);
BODY(cr3_body);
LABEL(user_iret);
LABEL(user_back);
LABEL(sysret_back);
LABEL(user_code);
LABEL(user_code_end);
LABEL(user_branches);
LABEL(user_jmp_target);
LABEL(user_ud);
LABEL(user_ud_insn);
LABEL(user_ud_next);
LABEL(user_ud_handler);
LABEL(user_ud_iret);
LABEL(user_pf);
LABEL(user_pf_insn);
LABEL(user_pf_next);
LABEL(user_pf_handler);
LABEL(user_pf_iret);
LABEL(user_ptw);
LABEL(user_ptw_insn);
LABEL(intr_handler);
LABEL(intr_iret);
LABEL(cr3_between);
LABEL(cr3_back);
extern uint64_t user_rflags;

#define USER_CODE  0x400000ull
#define USER_STACK 0x7ff000ull /* its page lies below */
#define RFLAGS_ONE 2ull
/* packet-tests-user.S */
#define USER_PATTERN 0x55aa1234

static uint64_t user_cr3, other_cr3, kernel_cr3;
static _Alignas(16) uint8_t kernel_stack[8192];

static void make_address_spaces(void)
{
    uint64_t code = phys_alloc(PAGE_BYTES, PAGE_BYTES);

    kernel_cr3 = read_cr3();
    user_cr3 = address_space_new();
    other_cr3 = address_space_new();
    memcpy(phys_to_virt(code), user_code, (size_t)(user_code_end - user_code));
    map_page(user_cr3, USER_CODE, code, PTE_USER);
    map_page(user_cr3, USER_STACK - PAGE_BYTES, phys_alloc(PAGE_BYTES, PAGE_BYTES),
             PTE_USER | PTE_WRITE);
    trap_set_kernel_stack((uint64_t)kernel_stack + sizeof(kernel_stack));
}

/* Where user code with this label runs. */
static const void *user(const char *label)
{
    return (const void *)(USER_CODE + (uint64_t)(label - user_code));
}

static void trace_user_by(trace_body *body, const char *back, uint64_t ctl, const char *begin)
{
    trap_set_syscall_entry(back);
    write_cr3(user_cr3);
    trace_code(ctl | CTL_BRANCHEN, body, (uint64_t)user(begin), USER_STACK);
    write_cr3(kernel_cr3);
    trap_set_syscall_entry(NULL);
}

static void trace_user(uint64_t ctl, const char *begin)
{
    trace_user_by(user_body, user_back, ctl, begin);
}

static void trace_user_at(unsigned vector, const char *handler, uint64_t ctl, const char *begin)
{
    trap_set_entry(vector, handler);
    trace_user(ctl, begin);
    trap_set_entry(vector, NULL);
}

/* ---- IRET and SYSCALL --------------------------------------------------------------------- */

static void expect_user_branches(void)
{
    expect_bits("TN");
    expect_tip(user(user_jmp_target));
    expect_bits("T");
}

static void test_both(void)
{
    trace_user(CTL_OS | CTL_USER, user_branches);
    EXPECT_BEGIN(user_body);
    expect_tip(user(user_branches));
    expect_user_branches();
    expect_tip(user_back);
    EXPECT_END(user_body);
    check_flow(
        "OS = User = 1: IRET and SYSCALL: a TIP each, user code between (Table 33-55 case 8)");

    trace_user_at(VECTOR_INVALID_OP, user_ud_handler, CTL_OS | CTL_USER, user_ud);
    EXPECT_BEGIN(user_body);
    expect_tip(user(user_ud));
    expect_fup(user(user_ud_insn));
    expect_tip(user_ud_handler);
    expect_tip(user(user_ud_next));
    expect_tip(user_back);
    EXPECT_END(user_body);
    check_flow("OS = User = 1: #UD in user code: FUP, TIP, and back (Table 33-55 case 13)");
}

static void test_user_only(void)
{
    trace_user(CTL_USER, user_branches);
    expect_nothing();
    expect_pge(user(user_branches));
    expect_user_branches();
    expect_pgd_without_ip();
    check_flow(
        "User only: TIP.PGE at IRET, TIP.PGD without IP at SYSCALL (33.2.5.1, Table 33-56 case 6)");

    trace_user_at(VECTOR_INVALID_OP, user_ud_handler, CTL_USER, user_ud);
    expect_nothing();
    expect_pge(user(user_ud));
    expect_fup(user(user_ud_insn));
    expect_pgd_without_ip();
    expect_pge(user(user_ud_next));
    expect_pgd_without_ip();
    check_flow("User only: #UD: FUP, TIP.PGD without IP, TIP.PGE behind it (Table 33-56 case 8)");

    trace_user_at(VECTOR_PAGE_FAULT, user_pf_handler, CTL_USER, user_pf);
    expect_nothing();
    expect_pge(user(user_pf));
    expect_fup(user(user_pf_insn));
    expect_pgd_without_ip();
    expect_pge(user(user_pf_next));
    expect_pgd_without_ip();
    check_flow("User only: #PF: FUP, TIP.PGD without IP, TIP.PGE behind it (Table 33-56 case 8)");
    report_value(trace_count(PACKET_PIP), 0, "User only: no PIP, in PSB+ neither (33.4.2.7)");
}

static void test_supervisor_only(void)
{
    trace_user(CTL_OS, user_branches);
    EXPECT_BEGIN(user_body);
    expect_pgd_without_ip();
    expect_pge(user_back);
    EXPECT_END(user_body);
    check_flow("OS only: TIP.PGD without IP at IRET, TIP.PGE at SYSCALL (33.2.5.1, Table 33-56)");

    trace_user_at(VECTOR_INVALID_OP, user_ud_handler, CTL_OS, user_ud);
    EXPECT_BEGIN(user_body);
    expect_pgd_without_ip();
    expect_pge(user_ud_handler);
    expect_pgd_without_ip();
    expect_pge(user_back);
    EXPECT_END(user_body);
    check_flow("OS only: #UD in user code: TIP.PGE at the handler, no FUP (Table 33-56)");
}

static void test_sysret(void)
{
    trace_user_by(sysret_body, sysret_back, CTL_OS | CTL_USER, user_branches);
    EXPECT_BEGIN(sysret_body);
    expect_tip(user(user_branches));
    expect_user_branches();
    expect_tip(sysret_back);
    EXPECT_END(sysret_body);
    check_flow("OS = User = 1: SYSRET: TIP (Table 33-55 case 8)");

    trace_user_by(sysret_body, sysret_back, CTL_USER | (pt_caps()->event ? CTL_EVENTEN : 0),
                  user_branches);
    expect_nothing();
    expect_pge(user(user_branches));
    expect_user_branches();
    expect_pgd_without_ip();
    check_flow("User only: SYSRET: TIP.PGE, and no event of it (Tables 33-50 and 33-56)");
}

static void test_neither(void)
{
    trace_user(0, user_branches);
    report_value(trace_count(PACKET_TNT) + trace_count(PACKET_TIP) + trace_count(PACKET_TIP_PGE) +
                     trace_count(PACKET_TIP_PGD) + trace_count(PACKET_FUP) +
                     trace_count(PACKET_MODE) + trace_count(PACKET_PIP),
                 0, "OS = User = 0: no control flow (33.2.6.3)");
}

/* An interrupt waits, and user code begins with IF = 1: nothing of it runs before the interrupt. */
static void test_interrupt(void)
{
    static const struct {
        uint64_t ctl;
        const char *text;
    } cases[] = {
        {CTL_USER, "User only: interrupt: FUP, TIP.PGD without IP (Table 33-56 case 7)"},
        {CTL_OS | CTL_USER,
         "OS = User = 1: interrupt in user code: FUP, TIP (Table 33-55 case 11)"},
    };

    for (unsigned i = 0; i < 2; i++) {
        if (!interrupt_pend()) {
            report_skip("the APIC timer does not fire", "%s", cases[i].text);
            continue;
        }
        user_rflags = RFLAGS_ONE | RFLAGS_IF;
        trace_user_at(VECTOR_TIMER, intr_handler, cases[i].ctl, user_branches);
        user_rflags = RFLAGS_ONE;
        interrupt_done();
        if (cases[i].ctl & CTL_OS) {
            EXPECT_BEGIN(user_body);
            expect_tip(user(user_branches));
            expect_fup(user(user_branches));
            expect_tip(intr_handler);
            expect_tip(user(user_branches));
            expect_user_branches();
            expect_tip(user_back);
            EXPECT_END(user_body);
        } else {
            expect_nothing();
            expect_pge(user(user_branches));
            expect_fup(user(user_branches));
            expect_pgd_without_ip();
            expect_pge(user(user_branches));
            expect_user_branches();
            expect_pgd_without_ip();
        }
        check_flow("%s", cases[i].text);
    }
}

static void test_ptwrite(void)
{
    if (!pt_caps()->ptwrite || !ptwrite_works()) {
        report_skip(pt_caps()->ptwrite ? "PTWRITE is #UD" : "no PTWRITE",
                    "PTWRITE in user code (33.2.2)");
        return;
    }
    trace_user(CTL_USER | CTL_PTWEN | CTL_FUPONPTW, user_ptw);
    expect_nothing();
    expect_pge(user(user_ptw));
    expect_ptw(USER_PATTERN, 4, true);
    expect_fup(user(user_ptw_insn));
    expect_pgd_without_ip();
    check_flow("User only: PTWRITE in user code: PTW, FUP (33.2.2, 33.4.2.21)");
    trace_user(CTL_OS | CTL_PTWEN, user_ptw);
    report_value(trace_count(PACKET_PTW), 0, "OS only: PTWRITE in user code: no PTW (33.4.2.21)");
}

static void test_event_trace(void)
{
    if (!pt_caps()->event) {
        report_skip("no Event Trace", "CFE between user and supervisor mode (33.2.4)");
        return;
    }
    trace_user_at(VECTOR_INVALID_OP, user_ud_handler, CTL_USER | CTL_EVENTEN, user_ud);
    expect_nothing();
    expect_cfe(CFE_IRET, 0, false);
    expect_pge(user(user_ud));
    expect_cfe(CFE_INTR, VECTOR_INVALID_OP, false);
    expect_fup(user(user_ud_insn));
    expect_pgd_without_ip();
    expect_cfe(CFE_IRET, 0, false);
    expect_pge(user(user_ud_next));
    expect_pgd_without_ip();
    check_flow(
        "EventEn, User only: CFE.IRET without IP when ContextEn becomes 1 (Table 33-59 case 2)");

    trace_user_at(VECTOR_INVALID_OP, user_ud_handler, CTL_OS | CTL_EVENTEN, user_ud);
    EXPECT_BEGIN(user_body);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(user_iret);
    expect_pgd_without_ip();
    expect_cfe(CFE_INTR, VECTOR_INVALID_OP, false);
    expect_pge(user_ud_handler);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(user_ud_iret);
    expect_pgd_without_ip();
    expect_pge(user_back);
    EXPECT_END(user_body);
    check_flow("EventEn, OS only: CFE.INTR without IP when ContextEn becomes 1 (Table 33-49)");

    trace_user_at(VECTOR_PAGE_FAULT, user_pf_handler, CTL_OS | CTL_EVENTEN, user_pf);
    EXPECT_BEGIN(user_body);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(user_iret);
    expect_pgd_without_ip();
    expect_pge(user_pf_handler);
    expect_cfe(CFE_IRET, 0, true);
    expect_fup(user_pf_iret);
    expect_pgd_without_ip();
    expect_pge(user_back);
    EXPECT_END(user_body);
    check_flow("EventEn, OS only: neither EVD nor CFE for #PF of user code (Table 33-59 case 7)");
}

/* ---- CR3 ---------------------------------------------------------------------------------- */

static void test_mov_cr3(void)
{
    unsigned nonroot = 0;

    trace_code(CTL_DEFAULT, cr3_body, other_cr3, kernel_cr3);
    EXPECT_BEGIN(cr3_body);
    expect_pip(other_cr3);
    expect_bits("T");
    expect_pip(kernel_cr3);
    EXPECT_END(cr3_body);
    for (unsigned i = 0; i < trace.count; i++)
        nonroot += trace.packets[i].kind == PACKET_PIP && trace.packets[i].flag;
    report_value(nonroot, 0, "PIP: NR is 0, nothing of VMX is shown (33.5.1)");
    check_flow("PIP: MOV CR3: the new CR3, TNT before it (33.4.2.7, Table 33-55 case 14)");
}

/* MOV CR3 makes ContextEn 1 where a TraceStop range is. CR3_MATCH: other_cr3. */
static void test_stop_at_cr3(uint64_t ctl)
{
    if (!pt_caps()->ip_filter) {
        report_skip("no IP filtering", "TraceStop by MOV CR3 (Table 33-28)");
        return;
    }
    wrmsr(MSR_RTIT_ADDR0_A, (uint64_t)cr3_between);
    wrmsr(MSR_RTIT_ADDR0_A + 1, (uint64_t)cr3_back);
    trace_code(ctl | ADDR_CFG_TRACESTOP << CTL_ADDR_CFG_SHIFT, cr3_body, other_cr3, kernel_cr3);
    wrmsr(MSR_RTIT_ADDR0_A, 0);
    wrmsr(MSR_RTIT_ADDR0_A + 1, 0);
    expect_nothing();
    expect_trace_stop();
    ignore_packets(PACKET_PIP);
    check_flow("TraceStop: MOV CR3 that sets ContextEn in it (Table 33-28)");
    report_value(trace.status & (STATUS_STOPPED | STATUS_ERROR), STATUS_STOPPED,
                 "TraceStop: STATUS.Stopped by MOV CR3 (33.2.5.3)");
}

static void test_cr3_filter(void)
{
    const uint64_t ctl = CTL_DEFAULT | CTL_CR3FILTER;

    if (!pt_caps()->cr3_filter) {
        report_skip("no CR3 filtering", "CR3Filter (33.2.5.2)");
        return;
    }
    wrmsr(MSR_RTIT_CR3_MATCH, kernel_cr3);
    trace_code(ctl, cr3_body, other_cr3, kernel_cr3);
    EXPECT_BEGIN(cr3_body);
    expect_pgd_without_ip();
    expect_pip(kernel_cr3);
    expect_pge(cr3_back);
    EXPECT_END(cr3_body);
    ignore_other_pips(kernel_cr3); /* they may still be seen (33.2.5.2) */
    check_flow(
        "CR3Filter: leaving the CR3: TIP.PGD without IP; coming back: PIP, TIP.PGE (33.2.5.2)");

    wrmsr(MSR_RTIT_CR3_MATCH, other_cr3);
    trace_code(ctl, cr3_body, other_cr3, kernel_cr3);
    expect_nothing();
    expect_pip(other_cr3);
    expect_pge(cr3_between);
    expect_bits("T");
    expect_pgd_without_ip();
    ignore_other_pips(other_cr3);
    check_flow("CR3Filter: PIP and TIP.PGE behind the MOV CR3 that matches (33.2.5.2, 33.4.2.4)");

    test_stop_at_cr3(ctl);

    wrmsr(MSR_RTIT_CR3_MATCH, other_cr3 ^ user_cr3 ^ kernel_cr3);
    trace_code(ctl, cr3_body, other_cr3, kernel_cr3);
    report_value(trace_count(PACKET_TNT) + trace_count(PACKET_TIP) + trace_count(PACKET_TIP_PGE) +
                     trace_count(PACKET_TIP_PGD) + trace_count(PACKET_FUP) +
                     trace_count(PACKET_MODE),
                 0, "CR3Filter: no control flow where no CR3 matches (33.2.5.2)");

    wrmsr(MSR_RTIT_CR3_MATCH, user_cr3);
    trace_user(CTL_USER | CTL_CR3FILTER, user_branches);
    expect_nothing();
    expect_pge(user(user_branches));
    expect_user_branches();
    expect_pgd_without_ip();
    check_flow("CR3Filter, User only: one process, as perf record of one (33.2.5.2)");
    wrmsr(MSR_RTIT_CR3_MATCH, 0);
}

void test_contexts(void)
{
    make_address_spaces();
    test_both();
    test_user_only();
    test_supervisor_only();
    test_sysret();
    test_neither();
    test_interrupt();
    test_ptwrite();
    test_event_trace();
    test_mov_cr3();
    test_cr3_filter();
}
