/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PSB+: what it begins with, what stands in it by the enables, that it cuts compression
 * (33.3.7, 33.4.2.17), and its period (Table 33-6).
 */
#include "packet-tests.h"

BODY(nothing_body);
BODY(chain_body);
BODY(psb_ret_body);
LABEL(chain_link);
LABEL(chain_link_end);
LABEL(chain_end);
LABEL(psb_ret_next);
LABEL(psb_ret_back);

#define PSB_BYTES        16
#define MODE_EXEC_64     1
#define MODE_LEAF(value) ((value) >> 5)
#define LEAF_TSX         1

/* ---- One PSB+ ----------------------------------------------------------------------------- */

/* What stands between a PSB and its PSBEND. */
struct psb_plus {
    unsigned of[PACKET_KINDS];
    unsigned mode_exec, mode_tsx;
    bool ended, foreign, tma_behind_tsc;
    const struct packet *pip, *fup, *exec, *tsx;
};

/* The PSB+ that begins at packet `at`, a PSB. */
static struct psb_plus psb_plus(unsigned at)
{
    struct psb_plus plus = {.tma_behind_tsc = true};

    for (unsigned i = at + 1; i < trace.count && !plus.ended; i++) {
        const struct packet *p = &trace.packets[i];

        plus.of[p->kind]++;
        switch (p->kind) {
        case PACKET_PSBEND:
            plus.ended = true;
            break;
        case PACKET_MODE:
            if (MODE_LEAF(p->value) == LEAF_TSX)
                plus.tsx = p;
            else
                plus.exec = p;
            plus.mode_tsx += MODE_LEAF(p->value) == LEAF_TSX;
            plus.mode_exec += MODE_LEAF(p->value) == 0;
            break;
        case PACKET_PIP:
            plus.pip = p;
            break;
        case PACKET_FUP:
            plus.fup = p;
            break;
        case PACKET_TMA:
            plus.tma_behind_tsc &= p[-1].kind == PACKET_TSC;
            break;
        case PACKET_TSC:
        case PACKET_CBR:
        case PACKET_MTC:
        case PACKET_CYC:
        case PACKET_VMCS:
            break;
        default:
            plus.foreign = true;
            break;
        }
    }
    return plus;
}

/* The index of the n-th PSB; trace.count: there are fewer. */
static unsigned nth_psb(unsigned n)
{
    unsigned i = 0;

    for (; i < trace.count; i++)
        if (trace.packets[i].kind == PACKET_PSB && n-- == 0)
            break;
    return i;
}

/* ---- At the beginning of a trace ---------------------------------------------------------- */

static void test_first(void)
{
    struct psb_plus plus;

    trace_code(CTL_DEFAULT, nothing_body, 0, 0);
    report(trace.count > 0 && trace.packets[0].kind == PACKET_PSB &&
               trace.packets[0].len_bytes == PSB_BYTES,
           "PSB: the first packet of a trace with PacketByteCnt = 0 (33.2.8.3, Table 33-36)");
    plus = psb_plus(0);
    report(plus.ended, "PSB+: ends with PSBEND (33.4.2.18)");
    report(!plus.foreign, "PSB+: only packets of status in it (33.3.7)");
    report_value(trace.damaged, 0, "nothing but packets in the buffer (33.4.2)");
}

/* What the enables put into the first PSB+ (33.3.7). */
static void test_contents(uint64_t ctl, const char *enables)
{
    struct psb_plus plus;
    bool os = ctl & CTL_OS, tsc = ctl & CTL_TSCEN, mtc = ctl & CTL_MTCEN,
         branch = ctl & CTL_BRANCHEN;

    trace_code(ctl, nothing_body, 0, 0);
    plus = psb_plus(nth_psb(0));
    report_value(plus.of[PACKET_TSC], tsc, "PSB+, %s: TSC if TSCEn (33.3.7)", enables);
    report_value(plus.of[PACKET_TMA], tsc && mtc, "PSB+, %s: TMA if TSCEn and MTCEn (33.3.7)",
                 enables);
    if (plus.of[PACKET_TMA])
        report(plus.tma_behind_tsc, "PSB+, %s: TMA right behind TSC (33.4.2.13)", enables);
    report_value(plus.of[PACKET_CBR], 1, "PSB+, %s: CBR (33.3.7)", enables);
    report_value(plus.of[PACKET_PIP], os, "PSB+, %s: PIP if ContextEn and OS (33.3.7)", enables);
    if (plus.pip) {
        report_value(plus.pip->value, read_cr3() & ~0xfffull, "PSB+, %s: PIP holds CR3 (33.4.2.7)",
                     enables);
        report(!plus.pip->flag, "PSB+, %s: PIP.NR is 0, nothing of VMX is shown (33.5.1)", enables);
    }
    report(plus.mode_tsx <= (os && branch),
           "PSB+, %s: MODE.TSX only if ContextEn and BranchEn (33.3.7)", enables);
    if (plus.tsx)
        report_value(plus.tsx->value & 3, 0, "PSB+, %s: MODE.TSX: no transaction (33.4.2.8)",
                     enables);
    /* The WRMSR that sets TraceEn may find PacketEn already 1, or not yet. */
    report(plus.mode_exec <= (os && branch) && plus.of[PACKET_FUP] <= (os && branch),
           "PSB+, %s: MODE.Exec and FUP only if PacketEn (33.3.7)", enables);
    report_value(plus.of[PACKET_VMCS], 0, "PSB+, %s: no VMCS outside of VMX operation (33.3.7)",
                 enables);
}

static void test_enables(void)
{
    static const struct {
        uint64_t ctl;
        const char *text;
    } sets[] = {
        {CTL_OS | CTL_BRANCHEN, "OS BranchEn"},
        {CTL_OS, "OS"},
        {CTL_USER | CTL_BRANCHEN, "User BranchEn at CPL 0"},
        {CTL_OS | CTL_BRANCHEN | CTL_TSCEN, "OS BranchEn TSCEn"},
        {CTL_OS | CTL_BRANCHEN | CTL_MTCEN, "OS BranchEn MTCEn"},
        {CTL_OS | CTL_BRANCHEN | CTL_TSCEN | CTL_MTCEN, "OS BranchEn TSCEn MTCEn"},
        {CTL_USER | CTL_TSCEN | CTL_MTCEN, "User TSCEn MTCEn at CPL 0"},
    };

    for (unsigned i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        if (sets[i].ctl & CTL_MTCEN && !pt_caps()->mtc)
            report_skip("no MTC packets", "PSB+, %s (33.3.7)", sets[i].text);
        else
            test_contents(sets[i].ctl | (sets[i].ctl & CTL_MTCEN ? ctl_mtc(MTC_SLOWEST) : 0),
                          sets[i].text);
    }
}

/* ---- Timing at the beginning without a PSB+ (33.2.8.3) ------------------------------------ */

static void test_without_psb(void)
{
    const struct pt_caps *caps = pt_caps();
    struct trace_setup setup = {.ctl = CTL_DEFAULT | CTL_TSCEN,
                                .status = 256ull << STATUS_BYTECNT_SHIFT};

    if (!caps->psb_cyc) {
        report_skip("PacketByteCnt cannot be written", "TSC and CBR without PSB+ (33.2.8.3)");
        return;
    }
    trace_default_output(&setup);
    trace_code_to(&setup, nothing_body, 0, 0);
    trace_read(trace_default_buffer(), trace.end.offset);
    EXPECT_BEGIN(nothing_body);
    EXPECT_END(nothing_body);
    check_flow("a trace that begins without PSB+: TIP.PGE all the same (33.2.8.3)");
    report(trace_count(PACKET_TSC) >= 1 && trace_count(PACKET_CBR) >= 1,
           "a trace that begins without PSB+: TSC and CBR (33.2.8.3, Table 33-56 case 2)");
}

/* ---- In the middle of a trace ------------------------------------------------------------- */

/* Whether ip is where the chain's code stands, in one of its two mappings. */
static bool in_chain(uint64_t ip)
{
    uint64_t offset = virt_to_phys((const void *)ip) - virt_to_phys(chain_link);

    return offset < (uint64_t)(chain_link_end - chain_link) || ip == (uint64_t)chain_end;
}

#define MIDDLE_BYTES 14000 /* several periods of PSBFreq 0 */

static void test_middle(void)
{
    const unsigned links = chain_links_of(MIDDLE_BYTES);
    const uint64_t *chain = chain_make(links, chain_end);
    unsigned psbs, bad_exec = 0, bad_fup = 0, bad_pip = 0, bad_end = 0, compressed = 0;

    trace_code(CTL_DEFAULT, chain_body, (uint64_t)chain, 0);
    psbs = trace_count(PACKET_PSB);
    report(psbs > 1, "PSB: more of them in a long trace (33.4.2.17)");
    for (unsigned n = 1; n < psbs; n++) {
        const struct psb_plus plus = psb_plus(nth_psb(n));

        bad_exec += plus.mode_exec != 1 || !plus.exec || (plus.exec->value & 3) != MODE_EXEC_64;
        bad_fup += plus.of[PACKET_FUP] != 1 || !plus.fup || !in_chain(plus.fup->ip);
        compressed += plus.fup && plus.fup->sub != 3 && plus.fup->sub != 6;
        bad_pip +=
            plus.of[PACKET_PIP] != 1 || !plus.pip || plus.pip->value != (read_cr3() & ~0xfffull);
        bad_end += !plus.ended || plus.foreign || plus.of[PACKET_CBR] != 1;
    }
    report_value(bad_end, 0, "PSB+ while PacketEn = 1: CBR, only status, PSBEND (33.3.7)");
    report_value(bad_pip, 0, "PSB+ while PacketEn = 1: PIP with CR3 (33.3.7)");
    report_value(bad_exec, 0, "PSB+ while PacketEn = 1: MODE.Exec says 64-bit (33.3.7)");
    report_value(bad_fup, 0, "PSB+ while PacketEn = 1: FUP with the current IP (Table 33-23)");
    report_value(compressed, 0,
                 "PSB+: its FUP is not compressed against what came before (33.4.2.2)");
    EXPECT_BEGIN(chain_body);
    expect_chain();
    EXPECT_END(chain_body);
    check_flow("PSB: %u TIPs read right across it, last IP is 0 there (33.4.2.2)", links + 1);
}

static void test_ret_across(void)
{
    const uint64_t *chain = chain_make(chain_links_of(MIDDLE_BYTES / 2), psb_ret_back);

    trace_code(CTL_DEFAULT, psb_ret_body, (uint64_t)chain, 0);
    report(trace_count(PACKET_PSB) > 1, "PSB: between a CALL and its RET (33.4.2.17)");
    EXPECT_BEGIN(psb_ret_body);
    expect_chain();
    expect_tip(psb_ret_next);
    EXPECT_END(psb_ret_body);
    check_flow("PSB: a RET whose CALL came before it has a TIP (33.4.2.2)");
}

/* ---- Period ------------------------------------------------------------------------------- */

#define PERIODS     4
#define MOST_TRACED 28000 /* bytes: more than one of the longest periods that are tried */

static void test_period(void)
{
    const struct pt_caps *caps = pt_caps();

    for (uint64_t code = 0; code < 4; code++) {
        const uint64_t period = 2048u << code;
        const uint64_t traced = PERIODS * period;
        const uint64_t *chain;
        unsigned psbs;
        uint64_t mean;

        if (code > 0 && !(caps->psb_cyc && (caps->psb_map >> code & 1))) {
            report_skip("encoding not supported", "PSBFreq = %lu (Table 33-6)", code);
            continue;
        }
        chain = chain_make(chain_links_of(traced < MOST_TRACED ? traced : MOST_TRACED), chain_end);
        trace_code(CTL_DEFAULT | code << CTL_PSBFREQ_SHIFT, chain_body, (uint64_t)chain, 0);
        psbs = trace_count(PACKET_PSB);
        mean = psbs > 1 ? trace.packets[nth_psb(psbs - 1)].at / (psbs - 1) : 0;
        /* Not precise by definition. */
        report(mean > period / 2 && mean < period * 2,
               "PSBFreq = %lu: a PSB about every %lu bytes (Table 33-6)", code, period);
    }
}

void test_psb(void)
{
    test_first();
    test_enables();
    test_without_psb();
    test_middle();
    test_ret_across();
    test_period();
}
