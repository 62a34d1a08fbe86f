/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near branches: TNT and TIP (33.4.2.1, 33.4.2.2), compression of IPs (Table 33-18) and of RETs,
 * BranchEn (33.2.6.4) and DisTNT (33.3.9).
 */
#include "packet-tests.h"
#include "string.h"

BODY(nothing_body);
BODY(jcc_body);
BODY(loop_body);
BODY(jcc_next_body);
BODY(direct_body);
BODY(indirect_body);
BODY(mixed_body);
BODY(chain_body);
BODY(ret_body);
BODY(zero_call_body);
BODY(ret_wrong_body);
BODY(ret_old_body);
BODY(deep_body);
BODY(cr3_body);
LABEL(indirect_jmp_target);
LABEL(indirect_call_target);
LABEL(mixed_first);
LABEL(mixed_second);
LABEL(chain_end);
LABEL(chain_link);
LABEL(chain_link_end);
LABEL(ret_next);
LABEL(ret_inner_next);
LABEL(zero_call_next);
LABEL(ret_wrong_target);
LABEL(ret_old_next);
LABEL(deep_next);
LABEL(deep_last_next);

/* ---- The beginning ------------------------------------------------------------------------ */

#define MODE_LEAF_SHIFT 5
#define MODE_EXEC_64    1u
#define MODE_EXEC_IF    4u

/*
 * The MODE.Exec packet right before the first TIP.PGE but for timing, or in the PSB+ that stands
 * there: some processors tell it by that alone (erratum BDM70). NULL: there is none.
 */
static const struct packet *mode_before_pge(void)
{
    unsigned i = 0;
    bool in_psb = false;

    while (i < trace.count && trace.packets[i].kind != PACKET_TIP_PGE)
        i++;
    while (i < trace.count && i-- > 0) {
        const struct packet *p = &trace.packets[i];

        if (p->kind == PACKET_MODE && p->value >> MODE_LEAF_SHIFT == 0)
            return p;
        in_psb |= p->kind == PACKET_PSBEND;
        if (p->kind == PACKET_PSB || (!in_psb && p->kind != PACKET_CYC && p->kind != PACKET_MTC))
            return NULL;
    }
    return NULL;
}

static void test_mode_exec(void)
{
    const struct packet *mode;

    trace_code(CTL_DEFAULT, nothing_body, 0, 0);
    mode = mode_before_pge();
    report(mode, "MODE.Exec: right before the first TIP.PGE (Table 33-56 case 2)");
    report_value(mode ? mode->value : 0, MODE_EXEC_64,
                 "MODE.Exec: 64-bit mode, IF = 0 (Table 33-26)");
    interrupts_on();
    trace_code(CTL_DEFAULT, nothing_body, 0, 0);
    interrupts_off();
    mode = mode_before_pge();
    report_value(mode ? mode->value : 0, MODE_EXEC_64 | (pt_caps()->event ? MODE_EXEC_IF : 0),
                 "MODE.Exec: RFLAGS.IF where there is Event Trace (33.4.2.8)");
}

/* ---- TNT and TIP -------------------------------------------------------------------------- */

static void expect_jcc(uint64_t pattern, unsigned bits)
{
    for (unsigned i = 0; i < bits; i++) {
        expect_bit(pattern >> i & 1);
        expect_bit(i + 1 < bits);
    }
}

static void test_tnt(void)
{
    static const uint64_t patterns[] = {0, ~0ull, 0x5555, 0xb38f0fa5c3e17264};

    for (unsigned i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        trace_code(CTL_DEFAULT, jcc_body, patterns[i], 64);
        EXPECT_BEGIN(jcc_body);
        expect_jcc(patterns[i], 64);
        EXPECT_END(jcc_body);
        check_flow("TNT: the results of 128 Jcc, pattern %lx, oldest first (33.4.2.1)",
                   patterns[i]);
    }
    for (unsigned bits = 1; bits <= 7; bits++) {
        trace_code(CTL_DEFAULT, jcc_body, 0x2d, bits);
        EXPECT_BEGIN(jcc_body);
        expect_jcc(0x2d, bits);
        EXPECT_END(jcc_body);
        check_flow("TNT: %u Jcc and the stop bit above them (Table 33-16)", 2 * bits);
    }
    trace_code(CTL_DEFAULT, loop_body, 0, 0);
    EXPECT_BEGIN(loop_body);
    expect_bits("TTN"
                "T"
                "N");
    EXPECT_END(loop_body);
    check_flow("TNT: LOOP and JRCXZ are conditional branches (Table 33-1)");
}

static void test_to_next(void)
{
    trace_code(CTL_DEFAULT, jcc_next_body, 0, 0);
    EXPECT_BEGIN(jcc_next_body);
    expect_bits("TNTNNT");
    EXPECT_END(jcc_next_body);
    check_flow("TNT: taken is taken, if to the next instruction (33.4.2.1)");
}

static void test_direct_and_indirect(void)
{
    trace_code(CTL_DEFAULT, direct_body, 0, 0);
    EXPECT_BEGIN(direct_body);
    EXPECT_END(direct_body);
    check_flow("no packets for direct JMP and CALL (33.2.1.1, Table 33-55 case 5)");

    trace_code(CTL_DEFAULT, indirect_body, 0, 0);
    EXPECT_BEGIN(indirect_body);
    expect_tip(indirect_jmp_target);
    expect_tip(indirect_call_target);
    EXPECT_END(indirect_body);
    check_flow("TIP: targets of indirect JMP and CALL (33.4.2.2, Table 33-55 case 4)");

    trace_code(CTL_DEFAULT, mixed_body, 0, 0);
    EXPECT_BEGIN(mixed_body);
    expect_bits("N");
    expect_tip(mixed_first);
    expect_bits("TN");
    expect_tip(mixed_second);
    expect_bits("T");
    EXPECT_END(mixed_body);
    check_flow("TNT and TIP in the order of the branches (33.4.2.1, 33.4.2.3)");
}

/* ---- IP compression (Table 33-18) --------------------------------------------------------- */

/*
 * The least payload from which a decoder that knows last can tell ip. `whole` is that of an IP
 * whose upper bits differ: whether bits 63:48 are sent where they are a sign only, a processor may
 * choose.
 */
static unsigned least_payload_bytes(uint64_t ip, uint64_t last, unsigned whole)
{
    uint64_t differs = ip ^ last;

    if (differs >> 16 == 0)
        return 2;
    return differs >> 32 == 0 ? 4 : whole;
}

/* The n-th TIP of the trace; NULL: there are fewer. */
static const struct packet *nth_tip(unsigned n)
{
    for (unsigned i = 0; i < trace.count; i++)
        if (trace.packets[i].kind == PACKET_TIP && n-- == 0)
            return &trace.packets[i];
    return NULL;
}

/* A copy of the link that can run at offset of the memory at phys. */
static uint64_t copy_link(uint64_t phys, uint64_t offset)
{
    char *to = phys_to_virt(phys + offset);

    memcpy(to, chain_link, (size_t)(chain_link_end - chain_link));
    return (uint64_t)to;
}

/* The payload of the first TIP.PGE, in front of which no IP is known: 6 bytes or 8. */
static unsigned whole_payload_bytes(void)
{
    unsigned bytes = 0;

    for (unsigned i = 0; i < trace.count && !bytes; i++)
        if (trace.packets[i].kind == PACKET_TIP_PGE)
            bytes = packet_ip_payload_bytes(trace.packets[i].sub);
    report(bytes == 6 || bytes == 8,
           "TIP.PGE: an IP that is not compressed has 6 bytes or 8 (Table 33-18)");
    return bytes;
}

static void check_payload(const uint64_t *chain, unsigned n, unsigned whole, const char *what)
{
    const struct packet *tip = nth_tip(n);

    if (tip)
        report_value(packet_ip_payload_bytes(tip->sub),
                     least_payload_bytes(chain[n], chain[n - 1], whole),
                     "TIP: bytes of payload for %s (Table 33-18)", what);
    else
        report(false, "TIP: bytes of payload for %s (no such TIP) (Table 33-18)", what);
}

static void test_ip_compression(void)
{
    uint64_t phys = phys_alloc(0x40000, 0x40000);
    uint64_t near = copy_link(phys, 0x100), nearer = copy_link(phys, 0xfe00),
             far = copy_link(phys, 0x10200);
    uint64_t chain[] = {
        (uint64_t)chain_link, near, nearer, far, far, near, (uint64_t)chain_link,
        (uint64_t)chain_end,
    };
    const unsigned count = sizeof(chain) / sizeof(chain[0]);
    unsigned whole;

    trace_code(CTL_DEFAULT, chain_body, (uint64_t)chain, 0);
    EXPECT_BEGIN(chain_body);
    for (unsigned i = 0; i < count; i++)
        expect_tip((const void *)chain[i]);
    EXPECT_END(chain_body);
    check_flow("TIP: IPs rebuilt from what came before (Table 33-18)");
    whole = whole_payload_bytes();
    check_payload(chain, 1, whole, "a target in the other half of the kernel");
    check_payload(chain, 2, whole, "a target whose bits 63:16 are the last IP's");
    check_payload(chain, 3, whole, "a target whose bits 63:32 are the last IP's");
    check_payload(chain, 4, whole, "the last IP itself");
    check_payload(chain, 5, whole, "a target whose bits 63:32 are the last IP's, backwards");
    check_payload(chain, 6, whole, "a target back in the image");
}

/* ---- RET (33.4.2.2, 33.2.1.2) ------------------------------------------------------------- */

#define RET_STACK 64
#define DEEP      70

/* The RETs of deep_body: all but the last one return to deep_next. */
static void expect_deep(unsigned uncompressed)
{
    for (unsigned i = 0; i + 1 < DEEP; i++)
        expect_bit(false);
    expect_bit(true);
    for (unsigned i = 0; i + uncompressed < DEEP; i++)
        expect_bit(true);
    for (unsigned i = DEEP - uncompressed; i < DEEP; i++)
        expect_tip(i + 1 < DEEP ? deep_next : deep_last_next);
}

static void test_ret_compression(void)
{
    trace_code(CTL_DEFAULT, ret_body, 0, 0);
    EXPECT_BEGIN(ret_body);
    expect_bits("TT");
    EXPECT_END(ret_body);
    check_flow("RET: a taken bit where the CALL is known (33.4.2.2)");

    trace_code(CTL_DEFAULT, zero_call_body, 0, 0);
    EXPECT_BEGIN(zero_call_body);
    expect_bits("T");
    EXPECT_END(zero_call_body);
    check_flow("RET: a CALL to the next instruction does not count (33.4.2.2)");

    trace_code(CTL_DEFAULT, ret_wrong_body, 0, 0);
    EXPECT_BEGIN(ret_wrong_body);
    expect_tip(ret_wrong_target);
    EXPECT_END(ret_wrong_body);
    check_flow("RET: a TIP where it does not return to its CALL (33.4.2.2)");

    trace_code(CTL_DEFAULT, ret_old_body, 0, 0);
    EXPECT_BEGIN(ret_old_body);
    expect_tip(ret_old_next);
    EXPECT_END(ret_old_body);
    check_flow("RET: a TIP where the CALL came while PacketEn was 0 (33.4.2.2)");

    trace_code(CTL_DEFAULT, deep_body, DEEP, 0);
    EXPECT_BEGIN(deep_body);
    expect_deep(DEEP - RET_STACK);
    EXPECT_END(deep_body);
    check_flow("RET: no more than %u CALLs are remembered (33.4.2.2)", RET_STACK);
}

static void test_dis_retc(void)
{
    trace_code(CTL_DEFAULT | CTL_DISRETC, ret_body, 0, 0);
    EXPECT_BEGIN(ret_body);
    expect_tip(ret_inner_next);
    expect_tip(ret_next);
    EXPECT_END(ret_body);
    check_flow("DisRETC = 1: a TIP for each RET (33.2.1.2)");

    trace_code(CTL_DEFAULT | CTL_DISRETC, deep_body, DEEP, 0);
    EXPECT_BEGIN(deep_body);
    expect_deep(DEEP);
    EXPECT_END(deep_body);
    check_flow("DisRETC = 1: Jcc still in the TNT (33.2.1.2)");
}

/* ---- What is left out --------------------------------------------------------------------- */

static void test_no_branches(void)
{
    uint64_t cr3 = read_cr3();

    trace_code(CTL_OS, cr3_body, cr3, cr3);
    expect_nothing();
    expect_pip(cr3);
    expect_pip(cr3);
    check_flow("BranchEn = 0: PIPs, and nothing of branches (33.2.6.4)");
    trace_code(CTL_OS, jcc_body, 0x1234, 16);
    report_value(
        trace_count(PACKET_TNT) + trace_count(PACKET_TIP_PGE) + trace_count(PACKET_TIP_PGD) +
            trace_count(PACKET_FUP) + trace_count(PACKET_MODE),
        0, "BranchEn = 0: no TNT, TIP.PGE, TIP.PGD, FUP or MODE, in PSB+ neither (33.2.6.4)");
    report(trace_count(PACKET_PSB) && trace_count(PACKET_CBR),
           "BranchEn = 0: PSB and CBR all the same (33.2.6.4)");
}

static void test_dis_tnt(void)
{
    if (!pt_caps()->dis_tnt) {
        report_skip("no TNT disable", "DisTNT (33.3.9)");
        return;
    }
    trace_code(CTL_DEFAULT | CTL_DISTNT, mixed_body, 0, 0);
    EXPECT_BEGIN(mixed_body);
    expect_tip(mixed_first);
    expect_tip(mixed_second);
    EXPECT_END(mixed_body);
    check_flow("DisTNT = 1: no results of Jcc, all TIPs (33.3.9)");

    trace_code(CTL_DEFAULT | CTL_DISTNT, ret_body, 0, 0);
    EXPECT_BEGIN(ret_body);
    EXPECT_END(ret_body);
    check_flow("DisTNT = 1: compressed RETs are lost (33.3.9)");

    trace_code(CTL_DEFAULT | CTL_DISTNT | CTL_DISRETC, ret_body, 0, 0);
    EXPECT_BEGIN(ret_body);
    expect_tip(ret_inner_next);
    expect_tip(ret_next);
    EXPECT_END(ret_body);
    check_flow("DisTNT = DisRETC = 1: a TIP for each RET (33.3.9)");
}

void test_branches(void)
{
    trace_code(CTL_DEFAULT, nothing_body, 0, 0);
    EXPECT_BEGIN(nothing_body);
    EXPECT_END(nothing_body);
    check_flow(
        "TIP.PGE behind the WRMSR that sets TraceEn, FUP and TIP.PGD at the one that clears it "
        "(Table 33-56 cases 2 and 3)");
    test_mode_exec();
    test_tnt();
    test_to_next();
    test_direct_and_indirect();
    test_ip_compression();
    test_ret_compression();
    test_dis_retc();
    test_no_branches();
    test_dis_tnt();
}
