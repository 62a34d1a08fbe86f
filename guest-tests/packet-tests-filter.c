/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IP filtering and TraceStop: the packets at the edges of a range (33.2.5.3, 33.4.2.5, 33.4.2.9,
 * Tables 33-2 and 33-56).
 */
#include "packet-tests.h"
#include "trap.h"

BODY(range_body);
BODY(range_ret_body);
BODY(stop_body);
BODY(ud_body);
LABEL(ud_insn);
LABEL(ud_next);
LABEL(ud_handler);
BODY(nothing_body);
LABEL(range_base);
LABEL(range_limit);
LABEL(range_out_direct);
LABEL(range_indirect_in);
LABEL(range_out_indirect);
LABEL(range_cond_in);
LABEL(range_call_in);
LABEL(range_call_next);
LABEL(range_call_base);
LABEL(range_call_limit);
LABEL(range_ret_outside);
LABEL(range_ret_inside);
LABEL(range_ret_next);
LABEL(range_ret_done);
LABEL(stop_base);
LABEL(stop_limit);

static void set_range(unsigned n, uint64_t first, uint64_t last)
{
    wrmsr(MSR_RTIT_ADDR0_A + 2 * n, first);
    wrmsr(MSR_RTIT_ADDR0_A + 2 * n + 1, last);
}

static uint64_t range_ctl(unsigned n, uint64_t cfg)
{
    return CTL_DEFAULT | cfg << (CTL_ADDR_CFG_SHIFT + 4 * n);
}

/* ---- FilterEn ----------------------------------------------------------------------------- */

static void expect_range(void)
{
    expect_nothing();
    expect_pge(range_base);
    expect_bits("N");
    expect_pgd(range_out_direct);
    expect_pge(range_indirect_in);
    expect_pgd(range_out_indirect);
    expect_pge(range_cond_in);
    expect_pgd_without_ip();
    expect_pge(range_call_in);
    expect_pgd(range_call_next);
}

static void test_filter(unsigned n)
{
    set_range(n, (uint64_t)range_base, (uint64_t)range_limit);
    trace_code(range_ctl(n, ADDR_CFG_FILTER), range_body, 0, 0);
    expect_range();
    check_flow(
        "ADDR%u filter: TIP.PGE into it, TIP.PGD out by JMP, indirect JMP, RET with the target, by "
        "Jcc without (Tables 33-2 and 33-21)",
        n);

    /* The limit is the first byte of the last instruction (33.2.5.3): here, it is outside. */
    set_range(n, (uint64_t)range_base, (uint64_t)range_limit - 1);
    trace_code(range_ctl(n, ADDR_CFG_FILTER), range_body, 0, 0);
    report_value(trace_count(PACKET_TIP_PGE), 4, "ADDR%u filter: four ways in (33.2.5.3)", n);
    set_range(n, (uint64_t)range_base + 1, (uint64_t)range_limit);
    trace_code(range_ctl(n, ADDR_CFG_FILTER), range_body, 0, 0);
    report_value(trace_count(PACKET_TIP_PGE), 3,
                 "ADDR%u filter: the base is its first byte (33.2.5.3)", n);
    set_range(n, (uint64_t)range_base, (uint64_t)range_base);
    trace_code(range_ctl(n, ADDR_CFG_FILTER), range_body, 0, 0);
    report_value(trace_count(PACKET_TIP_PGE), 1,
                 "ADDR%u filter: base = limit is one byte (33.2.5.3)", n);
    set_range(n, (uint64_t)nothing_body_on, (uint64_t)nothing_body_off);
    trace_code(range_ctl(n, ADDR_CFG_FILTER), range_body, 0, 0);
    report_value(trace_count(PACKET_TNT) + trace_count(PACKET_TIP) + trace_count(PACKET_TIP_PGE) +
                     trace_count(PACKET_TIP_PGD) + trace_count(PACKET_FUP),
                 0, "ADDR%u filter elsewhere: no control flow (33.2.6.5)", n);
    report(trace_count(PACKET_PSB) >= 1 && trace_count(PACKET_PIP) >= 1,
           "ADDR%u filter elsewhere: PSB and PIP all the same (33.2.6.5)", n);
    set_range(n, 0, 0);
}

static void test_ret_across(void)
{
    set_range(0, (uint64_t)range_call_base, (uint64_t)range_call_limit);
    trace_code(range_ctl(0, ADDR_CFG_FILTER), range_ret_body, 0, 0);
    expect_nothing();
    expect_pge(range_call_base);
    expect_pgd(range_ret_outside);
    expect_pge(range_ret_inside);
    expect_tip(range_ret_next);
    expect_pgd(range_ret_done);
    check_flow("ADDR0 filter: a RET whose CALL came before PacketEn was 0 has a TIP (33.4.2.2)");
    set_range(0, 0, 0);
}

/* The handler stands outside of the range, what it comes back to inside. */
static void test_exception(void)
{
    set_range(0, (uint64_t)ud_insn, (uint64_t)ud_body_off);
    trap_set_entry(VECTOR_INVALID_OP, ud_handler);
    trace_code(range_ctl(0, ADDR_CFG_FILTER), ud_body, 0, 0);
    trap_set_entry(VECTOR_INVALID_OP, NULL);
    expect_nothing();
    expect_pge(ud_insn);
    expect_fup(ud_insn);
    expect_pgd(ud_handler);
    expect_pge(ud_next);
    EXPECT_END(ud_body);
    check_flow("ADDR0 filter: an exception out of it: FUP, TIP.PGD with the handler; IRET: TIP.PGE "
               "(Tables "
               "33-21 and 33-56)");
    set_range(0, 0, 0);
}

/* ---- TraceStop ---------------------------------------------------------------------------- */

enum { STOP_DIRECT, STOP_INDIRECT, STOP_COND };

static void check_stopped(unsigned n)
{
    report_value(trace.status & (STATUS_STOPPED | STATUS_ERROR), STATUS_STOPPED,
                 "ADDR%u TraceStop: STATUS.Stopped (33.2.5.3)", n);
}

static void test_trace_stop(unsigned n)
{
    const uint64_t ctl = range_ctl(n, ADDR_CFG_TRACESTOP);

    set_range(n, (uint64_t)stop_base, (uint64_t)stop_limit);
    trace_code(ctl, stop_body, STOP_DIRECT, 0);
    EXPECT_BEGIN(stop_body);
    expect_bits("NT");
    expect_pgd(stop_base);
    expect_trace_stop();
    check_flow("ADDR%u TraceStop: JMP into it: TIP.PGD, TraceStop, nothing more (33.4.2.9)", n);
    check_stopped(n);

    trace_code(ctl, stop_body, STOP_INDIRECT, 0);
    EXPECT_BEGIN(stop_body);
    expect_bits("NN");
    expect_pgd(stop_base);
    expect_trace_stop();
    check_flow("ADDR%u TraceStop: indirect JMP: TIP.PGD in place of the TIP (33.4.2.5)", n);

    trace_code(ctl, stop_body, STOP_COND, 0);
    EXPECT_BEGIN(stop_body);
    expect_bits("T");
    expect_pgd_without_ip();
    expect_trace_stop();
    check_flow("ADDR%u TraceStop: Jcc: TIP.PGD without IP in place of its result (33.4.2.5)", n);

    trace_code((ctl & ~CTL_OS) | CTL_USER, stop_body, STOP_DIRECT, 0);
    report_value(trace_count(PACKET_TRACESTOP) | (trace.status & STATUS_STOPPED), 0,
                 "ADDR%u TraceStop: not with ContextEn = 0 (33.2.5.3)", n);

    set_range(n, (uint64_t)nothing_body_on, (uint64_t)nothing_body_off);
    trace_code(ctl, nothing_body, 0, 0);
    report_value(trace_count(PACKET_TRACESTOP), 1,
                 "ADDR%u TraceStop: WRMSR sets TraceEn inside of it (Table 33-28)", n);
    check_stopped(n);
    trace_code(ctl, stop_body, STOP_DIRECT, 0);
    report_value(trace_count(PACKET_TRACESTOP), 0, "ADDR%u TraceStop elsewhere: none (33.2.5.3)",
                 n);
    set_range(n, 0, 0);
}

/* A TraceStop range inside of a filter (33.2.5.3). */
static void test_overlap(void)
{
    if (pt_caps()->ranges < 2) {
        report_skip("one address range", "TraceStop inside of a filter (33.2.5.3)");
        return;
    }
    set_range(0, (uint64_t)range_base, (uint64_t)range_limit);
    set_range(1, (uint64_t)range_cond_in, (uint64_t)range_limit);
    trace_code(range_ctl(0, ADDR_CFG_FILTER) | range_ctl(1, ADDR_CFG_TRACESTOP), range_body, 0, 0);
    expect_nothing();
    expect_pge(range_base);
    expect_bits("N");
    expect_pgd(range_out_direct);
    expect_pge(range_indirect_in);
    expect_pgd(range_out_indirect);
    expect_trace_stop();
    check_flow("TraceStop inside of a filter: stops where both match (33.2.5.3)");

    set_range(0, (uint64_t)range_base, (uint64_t)range_indirect_in - 1);
    set_range(1, (uint64_t)range_indirect_in, (uint64_t)range_limit);
    trace_code(range_ctl(0, ADDR_CFG_FILTER) | range_ctl(1, ADDR_CFG_FILTER), range_body, 0, 0);
    expect_range();
    check_flow("two filters: inside of either one (33.2.5.3)");
    set_range(0, 0, 0);
    set_range(1, 0, 0);
}

void test_ip_filters(void)
{
    if (!pt_caps()->ip_filter) {
        report_skip("no IP filtering", "IP filters and TraceStop (33.2.5.3)");
        return;
    }
    for (unsigned n = 0; n < pt_caps()->ranges; n++) {
        test_filter(n);
        test_trace_stop(n);
    }
    test_ret_across();
    test_exception();
    test_overlap();
}
