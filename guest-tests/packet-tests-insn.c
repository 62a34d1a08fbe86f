/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instructions that make packets of their own: PTWRITE (33.2.2, 33.4.2.21), transactions
 * (33.2.9.1), HLT and MWAIT (33.2.3). And OUT to the port of SMIs (33.2.9.3).
 */
#include "packet-tests.h"
#include "boot.h"
#include "trap.h"

BODY(ptw_body);
BODY(tx_body);
BODY(hlt_body);
BODY(mwait_body);
BODY(smi_body);
LABEL(ptw_32);
LABEL(ptw_64);
LABEL(ptw_mem32);
LABEL(ptw_mem64);
LABEL(tx_begin);
LABEL(tx_abort);
LABEL(tx_end);
LABEL(tx_fallback);
LABEL(hlt_insn);
LABEL(hlt_next);
LABEL(mwait_insn);
LABEL(mwait_next);
LABEL(smi_behind_out);
LABEL(smi_next);
LABEL(intr_handler);
extern uint32_t tx_status;

#define RAX_PATTERN 0x1122334455667788ull

/* ---- PTWRITE ------------------------------------------------------------------------------ */

/* The #UD of a PTWRITE that does not work, although CPUID has it. */
static unsigned undefined;

static bool skip_ptwrite(struct frame *frame)
{
    const uint8_t *code = (const uint8_t *)frame->rip;
    unsigned len = 0;

    /* F3, REX.W or not, 0F AE /4 with a register or with an address by RIP */
    while (code[len] != 0x0f)
        len++;
    undefined++;
    frame->rip += len + 3 + (code[len + 2] >> 6 == 3 ? 0 : 4);
    return true;
}

static void trace_ptw(uint64_t ctl)
{
    undefined = 0;
    trap_set_handler(VECTOR_INVALID_OP, skip_ptwrite);
    trace_code(ctl, ptw_body, 0, 0);
    trap_set_handler(VECTOR_INVALID_OP, NULL);
}

bool ptwrite_works(void)
{
    trace_ptw(CTL_DEFAULT | CTL_PTWEN);
    return undefined == 0;
}

static void expect_ptws(bool fup)
{
    static const struct {
        const char *at;
        unsigned size_bytes;
    } writes[] = {{ptw_32, 4}, {ptw_64, 8}, {ptw_mem32, 4}, {ptw_mem64, 8}};

    for (unsigned i = 0; i < 4; i++) {
        expect_ptw(writes[i].size_bytes == 8 ? RAX_PATTERN : (uint32_t)RAX_PATTERN,
                   writes[i].size_bytes, fup);
        if (fup)
            expect_fup(writes[i].at);
    }
}

static void test_ptwrite(void)
{
    if (!pt_caps()->ptwrite) {
        report_skip("no PTWRITE", "PTW (33.2.2)");
        return;
    }
    report(ptwrite_works(),
           "PTWRITE: the instruction is there as CPUID says (Table 33-11, EBX[4])");
    if (!ptwrite_works()) {
        report_skip("PTWRITE is #UD", "PTW (33.2.2)");
        return;
    }
    trace_ptw(CTL_DEFAULT | CTL_PTWEN);
    EXPECT_BEGIN(ptw_body);
    expect_ptws(false);
    EXPECT_END(ptw_body);
    check_flow("PTWRITE of registers and memory, 4 and 8 bytes (Table 33-57 cases 2 and 3)");

    trace_ptw(CTL_DEFAULT | CTL_PTWEN | CTL_FUPONPTW);
    EXPECT_BEGIN(ptw_body);
    expect_ptws(true);
    EXPECT_END(ptw_body);
    check_flow("FUPonPTW: a FUP with the address of the PTWRITE, PTW.IP = 1 (33.4.2.21)");

    trace_ptw(CTL_OS | CTL_PTWEN | CTL_FUPONPTW);
    expect_nothing();
    expect_ptws(true);
    check_flow("PTWRITE does not need BranchEn, nor does its FUP (33.4.2.21)");

    trace_ptw(CTL_DEFAULT);
    report_value(trace_count(PACKET_PTW), 0, "PTWEn = 0: no PTW (33.4.2.21)");
    trace_ptw(CTL_USER | CTL_BRANCHEN | CTL_PTWEN);
    report_value(trace_count(PACKET_PTW), 0,
                 "PTWRITE with ContextEn = 0: no PTW (Table 33-57 case 1)");
    if (!pt_caps()->ip_filter)
        return;
    wrmsr(MSR_RTIT_ADDR0_A, (uint64_t)hlt_insn);
    wrmsr(MSR_RTIT_ADDR0_A + 1, (uint64_t)hlt_next);
    trace_ptw(CTL_DEFAULT | CTL_PTWEN | ADDR_CFG_FILTER << CTL_ADDR_CFG_SHIFT);
    report_value(trace_count(PACKET_PTW), 0,
                 "PTWRITE with FilterEn = 0: no PTW (Table 33-57 case 1)");
    wrmsr(MSR_RTIT_ADDR0_A, 0);
    wrmsr(MSR_RTIT_ADDR0_A + 1, 0);
}

/* ---- Transactions ------------------------------------------------------------------------- */

#define LEAF_7_EBX_RTM (1u << 11)
#define TX_COMMITTED   0u /* RAX as it was */
#define ABORT_XABORT   1u

static void test_transactions(void)
{
    if (!(cpuid_checked(7, 0).ebx & LEAF_7_EBX_RTM) || !pt_caps()->enumerated) {
        report_skip("no RTM in CPUID.7", "MODE.TSX (Table 33-10)");
        return;
    }
    for (uint64_t abort = 0; abort < 2; abort++) {
        bool committed;

        trace_code(CTL_DEFAULT, tx_body, abort, 0);
        committed = tx_status >> 24 == 0 && !(tx_status & 0xff);
        EXPECT_BEGIN(tx_body);
        expect_mode_tsx(true, false);
        expect_fup(tx_begin);
        expect_bit(!abort);
        expect_mode_tsx(false, !committed || abort);
        expect_fup(abort ? tx_abort : tx_end);
        if (abort)
            expect_tip(tx_fallback);
        EXPECT_END(tx_body);
        if (!abort && !committed)
            report_skip("it was aborted by something else",
                        "XBEGIN, XEND: MODE.TSX, FUP (Table 33-10)");
        else if (abort && !(tx_status & ABORT_XABORT))
            report_skip("it was aborted by something else",
                        "XABORT: MODE.TSX, FUP, TIP (Table 33-10)");
        else
            check_flow("%s (Table 33-10)",
                       abort ? "XABORT: MODE.TSX, FUP, TIP" : "XBEGIN, XEND: MODE.TSX, FUP");
    }
}

/* ---- HLT and MWAIT ------------------------------------------------------------------------ */

static bool trace_sleep(trace_body *body, uint64_t ctl, const char *what)
{
    if (!interrupt_pend()) {
        report_skip("the APIC timer does not fire", "%s", what);
        return false;
    }
    trap_set_entry(VECTOR_TIMER, intr_handler);
    trace_code(ctl, body, 0, 0);
    trap_set_entry(VECTOR_TIMER, NULL);
    interrupt_done();
    return true;
}

static void test_hlt(void)
{
    if (trace_sleep(hlt_body, CTL_DEFAULT, "HLT: the interrupt that ends it (Table 33-23)")) {
        EXPECT_BEGIN(hlt_body);
        expect_fup(hlt_next);
        expect_tip(intr_handler);
        expect_tip(hlt_next);
        EXPECT_END(hlt_body);
        check_flow("HLT: the interrupt that ends it: FUP behind HLT, TIP (Table 33-23)");
    }
    if (!pt_caps()->power) {
        report_skip("no Power Event Trace", "EXSTOP, PWRE, PWRX (33.2.3)");
        return;
    }
    if (!trace_sleep(hlt_body, CTL_DEFAULT | CTL_PWREVTEN, "EXSTOP, PWRE, PWRX (33.2.3)"))
        return;
    if (!trace_count(PACKET_PWRE) && !trace_count(PACKET_EXSTOP)) {
        report_skip("HLT stops nothing here", "EXSTOP, PWRE, PWRX (33.2.3)");
        return;
    }
    EXPECT_BEGIN(hlt_body);
    expect_fup(hlt_insn); /* of EXSTOP */
    expect_fup(hlt_next);
    expect_tip(intr_handler);
    expect_tip(hlt_next);
    EXPECT_END(hlt_body);
    check_flow("HLT with PwrEvtEn: EXSTOP's FUP with its own address (Table 33-58 case 5)");
    report(trace_count(PACKET_PWRE) == 1 && trace_count(PACKET_EXSTOP) == 1 &&
               trace_count(PACKET_PWRX) == 1,
           "HLT with PwrEvtEn: PWRE, EXSTOP, PWRX (Table 33-58 cases 5 and 7)");
}

#define LEAF_1_ECX_MONITOR (1u << 3)

/* A processor need not stop, as with HLT; if it does, it says so. */
static void test_mwait(void)
{
    if (!(cpuid_checked(1, 0).ecx & LEAF_1_ECX_MONITOR)) {
        report_skip("no MONITOR", "MWAIT (33.2.3)");
        return;
    }
    if (!trace_sleep(mwait_body, CTL_DEFAULT | (pt_caps()->power ? CTL_PWREVTEN : 0),
                     "MWAIT (33.2.3)"))
        return;
    EXPECT_BEGIN(mwait_body);
    if (trace_count(PACKET_EXSTOP))
        expect_fup(mwait_insn);
    expect_fup(mwait_next);
    expect_tip(intr_handler);
    expect_tip(mwait_next);
    EXPECT_END(mwait_body);
    check_flow("MWAIT: EXSTOP's FUP, FUP behind MWAIT, TIP (Table 33-58)");
    report(trace_count(PACKET_PWRE) == trace_count(PACKET_EXSTOP) &&
               trace_count(PACKET_PWRX) == trace_count(PACKET_EXSTOP),
           "MWAIT: PWRE, EXSTOP and PWRX belong together (33.2.3)");
}

/* ---- SMI ---------------------------------------------------------------------------------- */

/* The SMI comes behind OUT, or behind the branch after it: not both, and nowhere else. */
static const char *smi_place(void)
{
    for (unsigned i = 0; i < trace.count; i++) {
        if (trace.packets[i].kind == PACKET_FUP && trace.packets[i].ip == (uintptr_t)smi_behind_out)
            return smi_behind_out;
    }
    return smi_next;
}

/* Tracing is off in SMM: it ends before the SMI's handler, and RSM begins it anew. */
static void test_smi(void)
{
    if (!boot_word("smi")) {
        report_skip("no word smi: the machine may have no SMI at port B2H", "SMI, RSM (33.2.9.3)");
        return;
    }
    trace_code(CTL_DEFAULT, smi_body, 0, 0);
    EXPECT_BEGIN(smi_body);
    expect_fup(smi_place());
    expect_pgd_without_ip();
    expect_pge(smi_place());
    EXPECT_END(smi_body);
    check_flow("SMI: FUP, TIP.PGD; RSM: TIP.PGE (33.2.9.3)");
    if (!pt_caps()->event)
        return;
    trace_code(CTL_DEFAULT | CTL_EVENTEN, smi_body, 0, 0);
    EXPECT_BEGIN(smi_body);
    expect_cfe(CFE_SMI, 0, false);
    expect_fup(smi_place());
    expect_pgd_without_ip();
    expect_cfe(CFE_RSM, 0, false);
    expect_pge(smi_place());
    EXPECT_END(smi_body);
    check_flow("EventEn: CFE.SMI with the FUP of BranchEn, CFE.RSM (33.4.2.29)");
    trace_code(CTL_OS | CTL_EVENTEN, smi_body, 0, 0);
    expect_nothing();
    expect_cfe(CFE_SMI, 0, true);
    expect_fup(smi_place());
    expect_cfe(CFE_RSM, 0, false);
    check_flow("EventEn without BranchEn: CFE.SMI, FUP, CFE.RSM (Table 33-59 cases 10 and 11)");
}

void test_instructions(void)
{
    test_ptwrite();
    test_transactions();
    test_hlt();
    test_mwait();
    test_smi();
}
