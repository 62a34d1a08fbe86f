/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT: what chapter 4 of "Real Time Instruction Trace Programming Reference" v1.05 says of packets
 * and no table does, Table 20, and the errata of appendix E.
 */
#include "rtit.h"

#include <string.h>

#define TRIGGER  (VPT_RTIT_CTL_TRACE_EN | VPT_RTIT_CTL_TRACE_ACTIVE)
#define OVERFLOW VPT_RTIT_STATUS_OVERFLOW
#define RUNNING  VPT_RTIT_STATUS_FILTEREN

/* The bytes since the mark, which must be these; then it is over. */
static void bytes(struct rtit_fake *fake, const char *want, size_t count)
{
    vpt_rtit_drain(&fake->cpu);
    CHECK(fake->tap_len - fake->mark == count && memcmp(fake->tap + fake->mark, want, count) == 0,
          "%zu bytes", fake->tap_len - fake->mark);
    rtit_close(fake);
}

/* ---- 4.2.1 to 4.2.4 ------------------------------------------------------------------------- */

static void psb_bytes(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    bytes(fake, "\xc0\0\0\0\0\0\0\0\0", 9);
}
static void psb_on_trigger(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_USER);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL);

    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_EN);
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    RTIT_EXPECT(fake, "PSB PGE(401000)", "TriggerEn becomes 1");
    rtit_mark(fake);
    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_USER);
    END_RTIT(fake, "");
}
static void psb_forgets(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x7f0000402000);
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    rtit_mark(fake);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x7f0000402000);
    bytes(fake, "\xb2\x00\x20\x40\x00\x00\x7f", 7);
}
static void tnt_forced(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_branch(fake, true);
    far_from(fake, 0x401000, 0x402000);
    rtit_branch(fake, true);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x403000);
    rtit_branch(fake, true);
    rtit_event_to(fake, VPT_RTIT_MOV_CR3, 0x401004, rtit_context(0));
    END_RTIT(fake, "TNT(T) FAR(401000) TIP(402000) TNT(T) TIP(403000) TNT(T) PIP(1000,1)");
}
static void tnt_not_forced(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_MTC_EN | VPT_RTIT_CTL_STS_EN);

    rtit_branch(fake, true);
    fake->clocks.tsc = 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    vpt_rtit_sync(&fake->cpu, 1, 1);
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    END_RTIT(fake, "MTC(0,1) STS(1,1,80) PSB");
}
static void compressed_ret_keeps_lip(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CMPRS_RET);

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x7f0000402000);
    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x403000);
    rtit_do(fake, VPT_RTIT_RET, 0x401004);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_LIP) == 0x17f000040, "LAST_LIP is of the TIP");
    rtit_close(fake);
}
static void innermost_call(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CMPRS_RET);
    struct vpt_rtit_event call = {
        .kind = VPT_RTIT_CALL_DIRECT, .nlip = 0xa, .target = 0x400, .after = rtit_context(0)};

    vpt_rtit_event(&fake->cpu, &call);
    call.nlip = 0x409;
    call.target = 0x500;
    vpt_rtit_event(&fake->cpu, &call);
    rtit_do(fake, VPT_RTIT_RET, 0x409);
    rtit_do(fake, VPT_RTIT_RET, 0xa);
    END_RTIT(fake, "TNT(T) TIP(a)");
}
static void which_calls(void)
{
    struct rtit_fake *fake = rtit_ranged(VPT_RTIT_CTL_CMPRS_RET, 0x401008, 0x402000);

    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x401010);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == 0, "PacketEn was 0");
    rtit_do(fake, VPT_RTIT_CALL_INDIRECT, 0x403000);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == (1ull << 48 | 0x401004),
          "it was 1, and becomes 0");
    rtit_close(fake);
    fake = rtit_start(0, VPT_RTIT_CTL_CMPRS_RET);
    far_from(fake, 0x401000, 0x402000);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == 0, "far CALLs do not");
    rtit_close(fake);
    fake = rtit_start(0, 0);
    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x401010);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == 0, "nor any without CMPRS_RET");
    rtit_close(fake);
}
static void ip_payloads(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_LAST_LIP, 0);
    rtit_mark(fake);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x123456789abc);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x123499999abc);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x123499991111);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x2222);
    bytes(fake, "\xb2\xbc\x9a\x78\x56\x34\x12\xb1\xbc\x9a\x99\x99\xb0\x11\x11\xb4\x22\x22", 18);
}

static const struct rule flow_packets[] = {
    {"4.2.1 PSB", "C0H and 8 bytes of 0", TEST(psb_bytes)},
    {"4.2.1 TriggerEn", "0 to 1 brings a PSB, other writes of RTIT_CTL do not",
     TEST(psb_on_trigger)},
    {"4.2.1 compression", "nothing behind a PSB is compressed against what was before",
     TEST(psb_forgets)},
    {"4.2.2 partial TNT", "FUP, TIP and PIP send it, first", TEST(tnt_forced)},
    {"4.2.2 others", "do not", TEST(tnt_not_forced)},
    {"4.2.3.1 payloads", "2, 4 or 6 bytes", TEST(ip_payloads)},
    {"4.2.3.2 compressed RET", "does not change LAST_LIP", TEST(compressed_ret_keeps_lip)},
    {"4.2.3.2 nested CALLs", "only the innermost one's RET is compressed", TEST(innermost_call)},
    {"4.2.3.2 CALLs that count", "near ones that start with PacketEn", TEST(which_calls)},
    {0},
};

/* ---- 4.2.5: buffer overflow ----------------------------------------------------------------- */

/* In an overflow, begun by a full buffer; the way to memory is still busy. */
static struct rtit_fake *overflowing(uint32_t errata, uint32_t ctl)
{
    struct rtit_fake *fake = rtit_start(errata, ctl);

    vpt_rtit_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 60 && !rtit_status(fake, OVERFLOW); i++)
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x7f0000000000 + i * 0x100010001ull);
    CHECK(rtit_status(fake, OVERFLOW), "Buffer_Overflow");
    return fake;
}
/* The words from the FUP.BuffOvf on. */
static void resolved(struct rtit_fake *fake, const char *pattern)
{
    const char *words = strstr(rtit_words(fake), "OVF");

    CHECK(words && words_match(pattern, words), "expected [%s], got [%s]", pattern,
          words ? words : "no OVF");
    rtit_close(fake);
}
/* The way is free; the next instruction starts at lip. */
static void go_on(struct rtit_fake *fake, uint64_t lip)
{
    vpt_rtit_stall(&fake->cpu, false);
    rtit_do(fake, VPT_RTIT_OTHER, lip);
}
static void ovf_nothing_sent(void)
{
    struct rtit_fake *fake = overflowing(0, VPT_RTIT_CTL_CMPRS_RET);
    const uint64_t count = rtit_read(fake, VPT_RTIT_PKT_CNT);
    const uint32_t held = fake->cpu.buf_len;

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x402000);
    far_from(fake, 0x401000, 0x402000);
    CHECK(fake->cpu.buf_len == held, "no packet");
    CHECK(rtit_read(fake, VPT_RTIT_PKT_CNT) == count, "Pkt_Cnt stays");
    CHECK(!(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) >> 48), "nor is a CALL remembered");
    go_on(fake, 0x401004);
    resolved(fake, "OVF(401004)");
}
static void ovf_tnt(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_branch(fake, true);
    rtit_branch(fake, false);
    rtit_write(fake, VPT_RTIT_STATUS, OVERFLOW | RUNNING);
    rtit_branch(fake, true);
    END_RTIT(fake, "TNT(TN) OVF(401020)");
}
static void ovf_enables(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x401000, 0x402000);

    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x401010);
    rtit_mark(fake);
    vpt_rtit_stall(&fake->cpu, true);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x401020); /* the buffer is not empty */
    rtit_write(fake, VPT_RTIT_STATUS, OVERFLOW | RUNNING);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500000);
    CHECK(!rtit_status(fake, RUNNING), "ranges are looked at");
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x401000);
    CHECK(rtit_status(fake, RUNNING), "again");
    go_on(fake, 0x401004);
    END_RTIT(fake, "TIP(401020) OVF(401004)");
}
static void ovf_cycles(void)
{
    struct rtit_fake *fake = overflowing(0, VPT_RTIT_CTL_CYCLE_ACC);

    fake->clocks.cycles += 0x200005;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 0x200005, "counts on, without FUP.PCC");
    go_on(fake, 0x401004);
    resolved(fake, "OVF(401004):2097157");
}
static void ovf_mtc(void)
{
    struct rtit_fake *fake = overflowing(0, VPT_RTIT_CTL_MTC_EN);

    fake->clocks.tsc = 0x100;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    go_on(fake, 0x401004);
    fake->clocks.tsc = 0x180;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    resolved(fake, "OVF(401004) MTC(0,3)");
}
static void ovf_until_drained(void)
{
    struct rtit_fake *fake = overflowing(0, 0);

    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    CHECK(rtit_status(fake, OVERFLOW), "the buffer is not empty");
    vpt_rtit_stall(&fake->cpu, false);
    CHECK(rtit_status(fake, OVERFLOW), "no instruction has started");
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    CHECK(!rtit_status(fake, OVERFLOW), "one has");
    rtit_close(fake);
}
static void ovf_context(void)
{
    struct rtit_fake *fake = overflowing(0, 0);

    vpt_rtit_stall(&fake->cpu, false);
    rtit_event_to(fake, VPT_RTIT_FAR, 0x402000, rtit_context(3));
    CHECK(rtit_status(fake, OVERFLOW), "ContextEn is 0");
    rtit_event_to(fake, VPT_RTIT_FAR, 0x403000, rtit_context(0));
    resolved(fake, "OVF(403000)");
}
static void ovf_full_ip(void)
{
    struct rtit_fake *fake = overflowing(0, VPT_RTIT_CTL_CMPRS_RET);

    vpt_rtit_stall(&fake->cpu, false);
    rtit_mark(fake);
    rtit_write(fake, VPT_RTIT_LAST_LIP, 0x17f000040);
    rtit_write(fake, VPT_RTIT_LAST_CALL_NLIP, 1ull << 48 | 0x401004);
    rtit_do(fake, VPT_RTIT_OTHER, 0x7f0000401004);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == 0, "LAST_CALL_NLIP is cleared");
    bytes(fake, "\x92\x04\x10\x40\x00\x00\x7f", 7);
}
static void ovf_stop(void)
{
    struct rtit_fake *fake = overflowing(0, 0);

    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    CHECK(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE, "it is held");
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x402000);
    go_on(fake, 0x401004);
    CHECK(!(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE), "then it acts");
    resolved(fake, "OVF(401004) STOP");
}
static void ovf_psb(void)
{
    struct rtit_fake *fake = overflowing(0, 0);

    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x7ff);
    go_on(fake, 0x401004);
    resolved(fake, "OVF(401004) PSB");
}
static void ovf_written(void)
{
    struct rtit_fake *fake = overflowing(0, 0);
    const uint64_t dropped = fake->cpu.packet_count;

    vpt_rtit_stall(&fake->cpu, false);
    rtit_mark(fake);
    rtit_write(fake, VPT_RTIT_STATUS, RUNNING);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    RTIT_EXPECT(fake, "", "clearing it is not natural");
    rtit_write(fake, VPT_RTIT_STATUS, OVERFLOW | RUNNING);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    CHECK(fake->cpu.packet_count == dropped + 1, "setting it lost the TIP");
    END_RTIT(fake, "OVF(402000)");
}
static void ovf_drain(void)
{
    struct rtit_fake *fake = overflowing(0, VPT_RTIT_CTL_USER);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL);

    vpt_rtit_stall(&fake->cpu, false);
    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_USER);
    CHECK(rtit_status(fake, OVERFLOW) && fake->cpu.buf_len == 0, "a drain does not end it");
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    resolved(fake, "OVF(401004)");
}

/* Branches alone fill the buffer: a full TNT begins the overflow. How many there were. */
static unsigned branches_overflow(struct rtit_fake *fake)
{
    unsigned branches = 0;

    vpt_rtit_stall(&fake->cpu, true);
    for (; branches < 4000 && !rtit_status(fake, OVERFLOW); branches++)
        rtit_branch(fake, true);
    CHECK(rtit_status(fake, OVERFLOW) && branches % 6 == 0, "the sixth one begins it");
    return branches;
}
static void ovf_full_tnt(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    unsigned told = branches_overflow(fake);
    const char *words;

    rtit_branch(fake, true); /* this one is lost */
    go_on(fake, 0x401004);
    words = rtit_words(fake);
    CHECK(strstr(words, "TNT(TTTTTT) OVF(401004)"), "before the overflow packet");
    while ((words = strstr(words, "TTTTTT"))) {
        told -= 6;
        words += 6;
    }
    CHECK(told == 0, "%u branches are lost", told);
    rtit_close(fake);
}
static void ovf_full_tnt_count(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);
    const char *words;

    branches_overflow(fake);
    fake->clocks.cycles += 77;
    go_on(fake, 0x401004);
    words = rtit_words(fake);
    CHECK(strstr(words, "TNT(TTTTTT):77 OVF(401004):0"), "the time of the drain");
    rtit_close(fake);
}
static void ovf_psb_by_write(void)
{
    struct rtit_fake *fake = overflowing(0, 0);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL), count = rtit_read(fake, VPT_RTIT_PKT_CNT);

    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_ACTIVE);
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    CHECK(rtit_status(fake, OVERFLOW) && rtit_read(fake, VPT_RTIT_PKT_CNT) == count,
          "nothing is sent");
    go_on(fake, 0x401004);
    resolved(fake, "OVF(401004) PSB");
}

static const struct rule overflows[] = {
    {"full buffer", "Buffer_Overflow is set; no packets, no bytes, no CALL",
     TEST(ovf_nothing_sent)},
    {"TNT", "no branch is added; what was there comes first", TEST(ovf_tnt)},
    {"enables", "change as ever, without FUP.PGE and FUP.PGD", TEST(ovf_enables)},
    {"cycles", "are counted; FUP.BuffOvf has the count, so no FUP.PCC", TEST(ovf_cycles)},
    {"MTC", "those that fall due are lost", TEST(ovf_mtc)},
    {"end", "when the buffer is empty and an instruction starts", TEST(ovf_until_drained)},
    {"end, ContextEn", "which must be 1", TEST(ovf_context)},
    {"FUP.BuffOvf", "has the next instruction, uncompressed; RET compression starts anew",
     TEST(ovf_full_ip)},
    {"full TNT", "the one that begins an overflow is not lost", TEST(ovf_full_tnt)},
    {"full TNT, count", "its cycles are those of the end; FUP.BuffOvf then has 0",
     TEST(ovf_full_tnt_count)},
    {"TraceStop", "is held until FUP.BuffOvf was sent", TEST(ovf_stop)},
    {"PSB", "may follow FUP.BuffOvf by its bytes", TEST(ovf_psb)},
    {"PSB by RTIT_CTL", "TriggerEn that becomes 1 again owes one", TEST(ovf_psb_by_write)},
    {"WRMSR", "clearing gives no packet; setting acts as a full buffer", TEST(ovf_written)},
    {"drain", "does not end it", TEST(ovf_drain)},
    {0},
};

/* ---- 4.2.6 to 4.2.11 ------------------------------------------------------------------------ */

static void pcc_when(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);

    fake->clocks.cycles += 0x1fffff;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    RTIT_EXPECT(fake, "", "the counter's MSB is 0");
    fake->clocks.cycles++;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 0, "sending it clears the counter");
    END_RTIT(fake, "PCC(401004):2097152");
    fake = rtit_start(0, 0);
    rtit_write(fake, VPT_RTIT_CNTP, 0x200000);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "");
}
static void pge_causes(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x401004, 0x402000);

    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "PGE(401004)");
    fake = rtit_ranged(0, 0x500000, 0x501000);
    rtit_branch(fake, true);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500004);
    END_RTIT(fake, "PGE(500004)");
    fake = rtit_start(0, 0);
    rtit_event_to(fake, VPT_RTIT_FAR, 0x402000, rtit_context(3));
    rtit_mark(fake);
    rtit_event_to(fake, VPT_RTIT_FAR, 0x403000, rtit_context(0));
    END_RTIT(fake, "PGE(403000)");
}
static void pge_by_status(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x500000, 0x501000);

    rtit_write(fake, VPT_RTIT_STATUS, RUNNING);
    rtit_branch(fake, true);
    END_RTIT(fake, "PGE(401000) TNT(T) PGD(401004)");
    fake = rtit_start(0, 0);
    rtit_write(fake, VPT_RTIT_STATUS, 0);
    END_RTIT(fake, "PGD(401000)");
}
static void pgd_causes(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_USER);
    struct vpt_rtit_context other = rtit_context(0);

    rtit_write(fake, VPT_RTIT_CR3_MATCH, 0x1000);
    rtit_write(fake, VPT_RTIT_CTL, rtit_read(fake, VPT_RTIT_CTL) | VPT_RTIT_CTL_CR3EN);
    other.cr3 = 0x2000;
    rtit_event_to(fake, VPT_RTIT_MOV_CR3, 0x401004, other);
    END_RTIT(fake, "PGD(401004)");
}
static void pgd_exception(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL);

    rtit_branch(fake, true);
    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_ACTIVE);
    RTIT_EXPECT(fake, "", "TriggerEn becomes 0: neither TNT nor FUP.PGD");
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    END_RTIT(fake, "PSB TNT(T) PGE(401000)");
}
static void far_or_pgd(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x401000, 0x402000);

    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x401010);
    rtit_mark(fake);
    far_from(fake, 0x401014, 0x401018);
    far_from(fake, 0x40101c, 0x500000);
    END_RTIT(fake, "FAR(401014) TIP(401018) PGD(40101c) TIP(500000)");
}
static void pip_when(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x500000, 0x501000);
    struct vpt_rtit_context after = rtit_context(0);

    after.cr3 = 0x123456789a000;
    rtit_event_to(fake, VPT_RTIT_MOV_CR3, 0x401004, after);
    RTIT_EXPECT(fake, "PIP(456789a000,1)", "FilterEn does not matter");
    after.cpl = 3;
    rtit_event_to(fake, VPT_RTIT_MOV_CR3, 0x401004, after);
    RTIT_EXPECT(fake, "PIP(456789a000,1)", "ContextEn does");
    after.cpl = 0;
    rtit_event_to(fake, VPT_RTIT_FAR, 0x401004, after);
    after.cr3 = 0x5000;
    rtit_event_to(fake, VPT_RTIT_FAR, 0x401004, after);
    END_RTIT(fake, "PIP(456789a000,1)"); /* a task switch has none */
}
static void pip_cr3en(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_STS_EN | VPT_RTIT_CTL_STS_ON_CR3);
    struct vpt_rtit_context off = rtit_context(0);

    rtit_write(fake, VPT_RTIT_CR3_MATCH, 0x1000);
    rtit_write(fake, VPT_RTIT_CTL, rtit_read(fake, VPT_RTIT_CTL) | VPT_RTIT_CTL_CR3EN);
    rtit_event_to(fake, VPT_RTIT_MOV_CR3, 0x401004, rtit_context(0));
    RTIT_EXPECT(fake, "STS(0,0,0)", "STS without PIP");
    off.paging = false;
    rtit_event_to(fake, VPT_RTIT_PAGING, 0x401004, off);
    END_RTIT(fake, "STS(0,0,0)");
}
static struct rtit_fake *stopping(uint32_t ctl)
{
    struct rtit_fake *fake = rtit_start(0, ctl);

    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    return fake;
}
static void stop_acts(void)
{
    struct rtit_fake *fake = stopping(0);

    rtit_branch(fake, true);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    CHECK(!(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE), "TraceActive");
    CHECK(!rtit_status(fake, RUNNING | VPT_RTIT_STATUS_TRIGGEREN), "FilterEn and TriggerEn");
    CHECK(rtit_read(fake, VPT_RTIT_TNT_BUFF) == 3, "TNT_BUFF is not drained");
    END_RTIT(fake, "STOP");
}
static void stop_context(void)
{
    struct rtit_fake *fake = stopping(0);

    rtit_event_to(fake, VPT_RTIT_FAR, 0x500010, rtit_context(3));
    CHECK(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE, "ContextEn is 0");
    END_RTIT(fake, "PGD(401000)");
}

static const struct rule events[] = {
    {"4.2.6 FUP.PCC", "in cycle-accurate mode, when bit 21 of the counter is set", TEST(pcc_when)},
    {"4.2.7 FUP.PGE", "walking in, jumping in, context; no TNT of the jump", TEST(pge_causes)},
    {"4.2.7 RTIT_STATUS", "FUP.PGE and FUP.PGD if FilterEn is written", TEST(pge_by_status)},
    {"4.2.8 FUP.PGD", "also by a MOV CR3 that ends the context", TEST(pgd_causes)},
    {"4.2.8 exception", "none if TriggerEn becomes 0; the TNT comes at the next FUP.PGE",
     TEST(pgd_exception)},
    {"4.2.9 FUP.FAR", "is replaced by FUP.PGD where PacketEn becomes 0", TEST(far_or_pgd)},
    {"4.2.10 PIP", "MOV CR3 with ContextEn after it; no task switch; CR3[39:0]", TEST(pip_when)},
    {"4.2.10 CR3En", "no PIP; STS_on_CR3 acts on MOV CR3, not on CR0.PG", TEST(pip_cr3en)},
    {"4.2.11 TraceStop", "clears TraceActive and FilterEn, leaves TNT_BUFF", TEST(stop_acts)},
    {"4.2.11 ContextEn", "must be 1", TEST(stop_context)},
    {0},
};

/* ---- 4.2.12 to 4.2.15 ----------------------------------------------------------------------- */

static void mtc_changes(void)
{
    for (unsigned range = 0; range < 4; range++) {
        const uint64_t tick = 1ull << (7 + 2 * range);
        struct rtit_fake *fake =
            rtit_start(0, VPT_RTIT_CTL_MTC_EN | range << VPT_RTIT_CTL_MTC_RANGE_SHR);

        fake->clocks.tsc = tick - 1;
        rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
        RTIT_EXPECT(fake, "", "not before it changes");
        fake->clocks.tsc = 0x1ff * tick;
        rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
        rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
        vpt_rtit_drain(&fake->cpu);
        CHECK(fake->tap_len - fake->mark == 2 && fake->tap[fake->mark] == (0xc4 | range) &&
                  fake->tap[fake->mark + 1] == 0xff,
              "range %u", range);
        rtit_close(fake);
    }
}
/* What the TSC did before TriggerEn became 1 is no change. */
static void mtc_first(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_MTC_EN);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL);

    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_ACTIVE);
    fake->clocks.tsc = 0x280;
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    rtit_mark(fake);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    RTIT_EXPECT(fake, "", "nothing has changed since then");
    fake->clocks.tsc = 0x300;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "MTC(0,6)");
}
static void sts_fields(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_STS_EN);

    fake->clocks.tsc = 0xfedcba9876543210;
    vpt_rtit_sync(&fake->cpu, 0x2d, 0x35);
    bytes(fake, "\xdb\x75\x10\x32\x54\x76\x98", 7);
}
static void ccp_sizes(void)
{
    static const struct {
        uint32_t cycles;
        const char *bytes;
        size_t count;
    } sizes[] = {{0, "\x01", 1},
                 {63, "\xfd", 1},
                 {64, "\x02\x01", 2},
                 {0x3fff, "\xfe\xff", 2},
                 {0x4000, "\x03\x00\x01", 3},
                 {0x1fffff, "\xff\xff\x7f", 3}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);

        fake->clocks.cycles += sizes[i].cycles;
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x2000);
        vpt_rtit_drain(&fake->cpu);
        fake->mark += 3;
        bytes(fake, sizes[i].bytes, sizes[i].count);
    }
}
static void counted(void)
{
    struct rtit_fake *fake =
        rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC | VPT_RTIT_CTL_MTC_EN | VPT_RTIT_CTL_STS_EN);

    for (unsigned i = 0; i < 6; i++) {
        fake->clocks.cycles += 2;
        rtit_branch(fake, true);
    }
    fake->clocks.cycles += 3;
    far_from(fake, 0x401004, 0x402000);
    fake->clocks.cycles += 4;
    rtit_event_to(fake, VPT_RTIT_MOV_CR3, 0x401004, rtit_context(0));
    fake->clocks.cycles += 5;
    fake->clocks.tsc += 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    fake->clocks.cycles += 6;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    vpt_rtit_sync(&fake->cpu, 1, 1);
    END_RTIT(fake, "TNT(TTTTTT):12 FAR(401004):3 TIP(402000):0 PIP(1000,1):4 MTC(0,1):5 "
                   "STS(1,1,80):6");
}
static void not_counted(void)
{
    struct rtit_fake *fake = stopping(VPT_RTIT_CTL_CYCLE_ACC);

    rtit_branch(fake, true);
    fake->clocks.cycles += 7;
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    RTIT_EXPECT(fake, "TNT(T) TIP(402000):7", "a partial TNT");
    rtit_mark(fake);
    fake->clocks.cycles += 7;
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 7, "the count is not reset");
    bytes(fake, "\xc0\0\0\0\0\0\0\0\0\xc1", 10);
}

static const struct rule timing[] = {
    {"4.2.12 MTC", "when the 8 bits of the range change; RNG and these bits", TEST(mtc_changes)},
    {"4.2.12 the first MTC", "is that of the first change with TriggerEn", TEST(mtc_first)},
    {"4.2.13 STS", "both ratios and TSC[39:0]", TEST(sts_fields)},
    {"4.2.14 cycle count", "1 to 3 bytes by the value", TEST(ccp_sizes)},
    {"4.2.15 packets with one", "full TNT, FUP, TIP, PIP, MTC, STS; 0 for the second of an event",
     TEST(counted)},
    {"4.2.15 packets without", "partial TNT, PSB, TraceStop; they leave the counter",
     TEST(not_counted)},
    {0},
};

/* ---- 4.3.2, Table 20 ------------------------------------------------------------------------ */

static void entering(void)
{
    struct rtit_fake *fake = rtit_ranged(VPT_RTIT_CTL_CMPRS_RET, 0x500000, 0x501000);

    rtit_write(fake, VPT_RTIT_LAST_CALL_NLIP, 1ull << 48 | 0x500000);
    rtit_do(fake, VPT_RTIT_RET, 0x500000);
    END_RTIT(fake, "PGE(500000)");
    fake = rtit_ranged(0, 0x401020, 0x402000);
    rtit_branch(fake, true);
    CHECK(rtit_read(fake, VPT_RTIT_TNT_BUFF) == 1, "no result of the branch that enters");
    END_RTIT(fake, "PGE(401020)");
}
static void leaving(void)
{
    struct rtit_fake *fake = rtit_ranged(VPT_RTIT_CTL_CMPRS_RET, 0x401000, 0x401004);

    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x401000);
    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x401000);
    rtit_mark(fake);
    rtit_do(fake, VPT_RTIT_RET, 0x401004);
    END_RTIT(fake, "TNT(T) PGD(401004)");
    fake = rtit_ranged(0, 0x401000, 0x401004);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x401000);
    rtit_mark(fake);
    rtit_branch(fake, true);
    END_RTIT(fake, "TNT(T) PGD(401004)");
}
static const struct rule regions[] = {
    {"4.3.2 entering", "the branch or RET that enters gives FUP.PGE alone", TEST(entering)},
    {"4.3.2 leaving", "one that leaves gives what it would, then FUP.PGD", TEST(leaving)},
    {0},
};
static const struct rule table_20[] = {
    {"PSB", "at the start, and to synchronise", TEST(psb_on_trigger)},
    {"FUP", "the cycle counter, entering, leaving", TEST(pcc_when)},
    {"TraceStop", "ends packet generation", TEST(stop_acts)},
    {"MTC", "a small clock", TEST(mtc_changes)},
    {"STS", "the big clock and the frequency", TEST(sts_fields)},
    {0},
};

/* ---- Appendix E ----------------------------------------------------------------------------- */

static void e1(void)
{
    static const char *const patterns[2][2] = {
        {"FAR(401004) TIP(402000)", "FAR(401004) TIP(402000)"},
        {"FAR(401004) TIP(402000)", "FAR(401003) TIP(402000)"}};

    for (unsigned has = 0; has < 2; has++)
        for (unsigned more = 0; more < 2; more++) {
            struct rtit_fake *fake = rtit_start(has ? VPT_RTIT_E1 : 0, 0);
            const struct vpt_rtit_event event = {.kind = VPT_RTIT_FAR,
                                                 .prefixes = more ? 4 : 3,
                                                 .nlip = 0x401004,
                                                 .from = 0x401004,
                                                 .target = 0x402000,
                                                 .after = rtit_context(0)};

            vpt_rtit_event(&fake->cpu, &event);
            END_RTIT(fake, patterns[has][more]);
        }
}
static void e2(void)
{
    for (unsigned has = 0; has < 2; has++) {
        struct rtit_fake *fake = rtit_open(has ? VPT_RTIT_E2 : 0);
        const struct vpt_rtit_context user = rtit_context(3);

        rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 0);
        rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
        rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
        vpt_rtit_set_context(&fake->cpu, &user);
        rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_EN);
        rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | TRIGGER);
        rtit_write(fake, VPT_RTIT_STATUS, RUNNING);
        rtit_mark(fake);
        rtit_event_to(fake, VPT_RTIT_FAR, 0x402000, rtit_context(0));
        END_RTIT(fake, has ? "PGD(401004)" : "");
    }
}
static void e3(void)
{
    for (unsigned has = 0; has < 2; has++) {
        struct rtit_fake *fake = rtit_start(has ? VPT_RTIT_E3 : 0, 0);

        rtit_write(fake, VPT_RTIT_PKT_CNT, 0x7fe);
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x2222);
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x3333);
        END_RTIT(fake, has ? "TIP(2222) TIP(3333) PSB" : "TIP(2222) PSB TIP(3333)");
    }
}
static void e4(void)
{
    struct rtit_fake *fake = overflowing(VPT_RTIT_E4, 0);

    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x402000);
    go_on(fake, 0x401004);
    CHECK(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE, "tracing goes on");
    resolved(fake, "OVF(401004)");
}
static void e5(void)
{
    struct rtit_fake *fake = overflowing(VPT_RTIT_E5, 0);

    go_on(fake, 0x401004);
    resolved(fake, "OVF(401004) TIP(401004)");
}
static void e6(void)
{
    static const char *const patterns[] = {"TIP(402000):0 TIP(403000):1 TIP(404000):9",
                                           "TIP(402000):0 TIP(403000):0 TIP(404000):8"};

    for (unsigned has = 0; has < 2; has++) {
        struct rtit_fake *fake = rtit_start(has ? VPT_RTIT_E6 : 0, VPT_RTIT_CTL_CYCLE_ACC);

        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
        fake->clocks.cycles++;
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x403000);
        fake->clocks.cycles += 9;
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x404000);
        END_RTIT(fake, patterns[has]);
    }
}
static void e7(void)
{
    for (unsigned has = 0; has < 2; has++) {
        struct rtit_fake *fake = rtit_start(has ? VPT_RTIT_E7 : 0, VPT_RTIT_CTL_MTC_EN);

        fake->clocks.tsc = 0x280;
        rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
        fake->clocks.tsc = 0x300;
        rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
        END_RTIT(fake, has ? "MTC(0,4) MTC(0,6)" : "MTC(0,5) MTC(0,6)");
    }
}
static void e8(void)
{
    for (unsigned has = 0; has < 2; has++) {
        struct rtit_fake *fake = rtit_start(has ? VPT_RTIT_E8 : 0, 0);

        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
        rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
        rtit_mark(fake);
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x3333);
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x4444);
        END_RTIT(fake, has ? "TIP(4444)" : "TIP(3333) TIP(4444)");
    }
}

static const struct rule errata[] = {
    {"E1", "FUP.FAR inside a transfer with more than 3 prefixes", TEST(e1)},
    {"E2", "a FUP.PGD where PacketEn was and stays 0", TEST(e2)},
    {"E3", "the PSB comes one packet late", TEST(e3)},
    {"E4", "TraceStop in an overflow is lost", TEST(e4)},
    {"E5", "a TIP to the same address behind FUP.BuffOvf", TEST(e5)},
    {"E6", "cycle counts other than 0 are one too small", TEST(e6)},
    {"E7", "the first MTC is wrong", TEST(e7)},
    {"E8", "the packet behind a PSB is dropped", TEST(e8)},
    {0},
};

const struct table rtit_ch4_tables[] = {
    {"RTIT 4.2.1", "PSB, TNT, TIP, FUP", 0, flow_packets},
    {"RTIT 4.2.5", "Buffer overflow", 0, overflows},
    {"RTIT 4.2.6", "FUP events, PIP, TraceStop", 0, events},
    {"RTIT 4.2.12", "MTC, STS, cycle counts", 0, timing},
    {"RTIT 4.3.2", "Entering and leaving", 0, regions},
    {"RTIT 20", "Asynchronous packets", 5, table_20},
    {"RTIT E", "Errata, as the model shows them if asked to", 0, errata},
    {0},
};
