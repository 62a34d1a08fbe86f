/* SPDX-License-Identifier: BSD-3-Clause */
/* RTIT: the tables about MSRs of "Real Time Instruction Trace Programming Reference" v1.05. */
#include "rtit.h"

#include <stdio.h>
#include <string.h>

/* ---- MSRs: Tables 4 to 16 ------------------------------------------------------------------- */

/* Exactly these bits can be 1. */
static void writable(uint32_t msr, uint64_t bits)
{
    struct rtit_fake *fake = rtit_open(0);

    for (unsigned bit = 0; bit < 64; bit++)
        CHECK(rtit_takes(fake, msr, 1ull << bit) == !!(bits >> bit & 1), "bit %u", bit);
    rtit_close(fake);
}
static void ctl_bits(void)
{
    writable(VPT_RTIT_CTL, 0xff9f);
}
static void t4_traceen(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_ACTIVE);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    END_RTIT(fake, "");
}
static void t4_cycle(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);

    fake->clocks.cycles += 70;
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x403000);
    END_RTIT(fake, "TIP(402000):70 TIP(403000):0");
}
static void t4_os(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_USER);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL);

    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_OS);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    END_RTIT(fake, "PGD(401000)");
}
static void t4_user(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_USER);
    struct vpt_rtit_event event = {
        .kind = VPT_RTIT_FAR, .from = 0x401004, .target = 0x402000, .after = rtit_context(3)};

    vpt_rtit_event(&fake->cpu, &event);
    END_RTIT(fake, "FAR(401004) TIP(402000)");
    fake = rtit_start(0, 0);
    vpt_rtit_event(&fake->cpu, &event);
    END_RTIT(fake, "PGD(401004)");
}

static void mov_cr3(struct rtit_fake *fake, uint64_t cr3)
{
    struct vpt_rtit_event event = {
        .kind = VPT_RTIT_MOV_CR3, .nlip = 0x401003, .target = 0x401003, .after = rtit_context(0)};

    event.after.cr3 = cr3;
    vpt_rtit_event(&fake->cpu, &event);
}
static void t4_sts_on_cr3(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_STS_ON_CR3 | VPT_RTIT_CTL_STS_EN);

    fake->clocks.tsc = 0x1234567890;
    mov_cr3(fake, 0x5000);
    END_RTIT(fake, "PIP(5000,1) STS(0,0,1234567890)");
    fake = rtit_start(0, VPT_RTIT_CTL_STS_EN);
    mov_cr3(fake, 0x5000);
    END_RTIT(fake, "PIP(5000,1)");
}
static void t4_reserved(void)
{
    struct rtit_fake *fake = rtit_open(0);

    CHECK(!rtit_takes(fake, VPT_RTIT_CTL, 1 << 5) && !rtit_takes(fake, VPT_RTIT_CTL, 1 << 6),
          "6:5");
    rtit_close(fake);
}
static void t4_cr3en(void)
{
    struct rtit_fake *fake = rtit_open(0);

    rtit_close(fake);
    fake = rtit_start(0, 0);
    rtit_write(fake, VPT_RTIT_CR3_MATCH, 0x5000);
    rtit_write(fake, VPT_RTIT_CTL, rtit_read(fake, VPT_RTIT_CTL) | VPT_RTIT_CTL_CR3EN);
    mov_cr3(fake, 0x6000);
    mov_cr3(fake, 0x5000);
    END_RTIT(fake, "PGD(401000) PGE(401003)");
}
static void stop_at(uint32_t ctl, uint64_t address)
{
    struct rtit_fake *fake = rtit_open(0);
    const struct vpt_rtit_context ctx = rtit_context(0);

    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    rtit_write(fake, VPT_RTIT_LIP0, 0x402000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x403000);
    vpt_rtit_set_context(&fake->cpu, &ctx);
    ctl |= VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_EN;
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    rtit_write(fake, VPT_RTIT_CTL, ctl | VPT_RTIT_CTL_TRACE_ACTIVE);
    rtit_mark(fake);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402010);
    CHECK(fake->last_gpa == address, "TraceStop at %llx", (unsigned long long)fake->last_gpa);
    END_RTIT(fake, "TIP(402010) STOP");
}
static void t4_dest(void)
{
    stop_at(0, RTIT_BASE + 0xc0);
    stop_at(VPT_RTIT_CTL_DEST, RTIT_BASE + 9 + 5 + 3);
}
static void t4_mtc(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_MTC_EN);

    fake->clocks.tsc = 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "MTC(0,1)");
    fake = rtit_start(0, 0);
    fake->clocks.tsc = 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "");
}
static void t4_sts(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_STS_EN);

    fake->clocks.tsc = 0x123;
    vpt_rtit_sync(&fake->cpu, 0x2d, 0x15);
    END_RTIT(fake, "STS(45,21,123)");
    fake = rtit_start(0, 0);
    vpt_rtit_sync(&fake->cpu, 0x2d, 0x15);
    END_RTIT(fake, "");
}
static void t4_cmprs_ret(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CMPRS_RET);

    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_RET, 0x401004);
    rtit_do(fake, VPT_RTIT_RET, 0x409000);
    END_RTIT(fake, "TNT(T) TIP(409000)");
    fake = rtit_start(0, 0);
    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_RET, 0x401004);
    END_RTIT(fake, "TIP(401004)");
}
static void t4_less(void)
{
    struct rtit_fake *fake = rtit_ranged(VPT_RTIT_CTL_MTC_EN | VPT_RTIT_CTL_LESS_PKTS, 1, 2);

    fake->clocks.tsc = 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "");
    fake = rtit_ranged(VPT_RTIT_CTL_MTC_EN, 1, 2);
    fake->clocks.tsc = 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "MTC(0,1)");
}
static void t4_active(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL);

    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_ACTIVE);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    RTIT_EXPECT(fake, "", "no TraceStop packet by WRMSR");
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    END_RTIT(fake, "PSB PGE(401000)");
}
static void t4_range(void)
{
    for (unsigned range = 0; range < 4; range++) {
        struct rtit_fake *fake =
            rtit_start(0, VPT_RTIT_CTL_MTC_EN | range << VPT_RTIT_CTL_MTC_RANGE_SHR);
        char pattern[32];

        fake->clocks.tsc = 0x5aull << (7 + 2 * range);
        rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
        snprintf(pattern, sizeof(pattern), "MTC(%u,5a)", range);
        END_RTIT(fake, pattern);
    }
}

static const struct rule table_4[] = {
    {"0 Trace_En", "0: nothing", TEST(t4_traceen)},
    {"1 Cycle_Acc", "a cycle count behind packets", TEST(t4_cycle)},
    {"2 OS", "0: nothing at CPL 0", TEST(t4_os)},
    {"3 User", "0: nothing at CPL above 0", TEST(t4_user)},
    {"4 STS_on_CR3", "STS behind the PIP of MOV CR3", TEST(t4_sts_on_cr3)},
    {"6:5", "#GP if set", TEST(t4_reserved)},
    {"7 CR3En", "only where CR3 matches; then no PIP", TEST(t4_cr3en)},
    {"8 Dest", "0: the TraceStop packet goes to offset C0H", TEST(t4_dest)},
    {"9 MTC_En", "enables MTC", TEST(t4_mtc)},
    {"10 STS_En", "enables STS", TEST(t4_sts)},
    {"11 Cmprs_Ret", "a RET to the last CALL's NLIP is a TNT bit", TEST(t4_cmprs_ret)},
    {"12 Less_Pkts", "1: MTC only while PacketEn is 1", TEST(t4_less)},
    {"13 TraceActive", "0: nothing, and no TraceStop packet; 0 to 1: PSB", TEST(t4_active)},
    {"15:14 MTC_Range", "TSC[14:7], [16:9], [18:11], [20:13]", TEST(t4_range)},
    {"31:16", "#GP if set", TEST(ctl_bits)},
    {0},
};

static void t5_cntp(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);

    fake->clocks.cycles += 5;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 5, "it counts");
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 0, "a count resets it");
    END_RTIT(fake, "TIP(402000):5");
}
static void t5_reserved(void)
{
    writable(VPT_RTIT_CNTP, 0x3fffff);
}
static const struct rule table_5[] = {
    {"21:0 CNTP", "core cycles since the last count", TEST(t5_cntp)},
    {"31:22", "#GP if set", TEST(t5_reserved)},
    {0},
};

static void t6_filter(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x401000, 0x402000);

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x409000);
    END_RTIT(fake, "TIP(409000) PGD(401004)");
}
void t6_stop(void)
{
    stop_at(VPT_RTIT_CTL_DEST, RTIT_BASE + 17);
}
static void t6_reserved(void)
{
    writable(VPT_RTIT_EVENTS, 0x3f);
}
static const struct rule table_6[] = {
    {"2:0 Filter_Event_ID", "controls FilterEn", TEST(t6_filter)},
    {"5:3 TraceStop_Event_ID", "stops", TEST(t6_stop)},
    {"31:6", "#GP if set", TEST(t6_reserved)},
    {0},
};

/* Whether each event ID traces 500010H (RANGE0), 600010H (RANGE1) and 700010H. */
static void event_id(unsigned id, bool first, bool second, bool neither)
{
    const uint64_t targets[] = {0x500010, 0x600010, 0x700010};
    const bool traced[] = {first, second, neither};

    for (unsigned i = 0; i < 3; i++) {
        struct rtit_fake *fake = rtit_ranged(0, 0x500000, 0x501000);

        rtit_write(fake, VPT_RTIT_LIP0 + 1, 0x600000);
        rtit_write(fake, VPT_RTIT_LIP0 + 3, 0x601000);
        rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | id);
        rtit_do(fake, VPT_RTIT_JMP_DIRECT, targets[i]);
        CHECK((rtit_read(fake, VPT_RTIT_STATUS) & VPT_RTIT_STATUS_FILTEREN) == (uint64_t)traced[i],
              "event %u at %llx", id, (unsigned long long)targets[i]);
        rtit_close(fake);
    }
}
static void t7_0(void)
{
    event_id(0, true, false, false);
}
static void t7_1(void)
{
    event_id(1, false, true, false);
}
static void t7_2(void)
{
    event_id(2, true, true, false);
}
static void t7_reserved(void)
{
    event_id(3, false, false, false);
    event_id(4, false, false, false);
    event_id(5, false, false, false);
}
static void t7_off(void)
{
    event_id(6, false, false, false);
}
static void t7_on(void)
{
    event_id(7, true, true, true);
}
static const struct rule table_7[] = {
    {"000", "RANGE0", TEST(t7_0)},
    {"001", "RANGE1", TEST(t7_1)},
    {"010", "either", TEST(t7_2)},
    {"011", "reserved: nothing is traced", TEST(t7_reserved)},
    {"100", "reserved: nothing is traced", TEST(t7_reserved)},
    {"101", "reserved: nothing is traced", TEST(t7_reserved)},
    {"110", "always off", TEST(t7_off)},
    {"111", "always on", TEST(t7_on)},
    {0},
};

static void t8_address(void)
{
    struct rtit_fake *fake = rtit_open(0);

    for (uint32_t n = 0; n < 4; n++) {
        rtit_write(fake, VPT_RTIT_LIP0 + n, 0x123456789abc + n);
        CHECK(rtit_read(fake, VPT_RTIT_LIP0 + n) == 0x123456789abcull + n, "LIP%u", n);
    }
    rtit_close(fake);
}
static void t8_sign(void)
{
    struct rtit_fake *fake = rtit_open(0);

    rtit_write(fake, VPT_RTIT_LIP0, 0x1234800000000000);
    CHECK(rtit_read(fake, VPT_RTIT_LIP0) == 0xffff800000000000, "sign extension");
    rtit_write(fake, VPT_RTIT_LIP0, 0xffff000000000001);
    CHECK(rtit_read(fake, VPT_RTIT_LIP0) == 1, "a write has no effect");
    rtit_close(fake);
}
static const struct rule table_8[] = {
    {"47:0", "the address", TEST(t8_address)},
    {"63:48", "reads repeat bit 47, writes are ignored", TEST(t8_sign)},
    {0},
};

static void last_lip(uint64_t lip, uint64_t want)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, lip);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_LIP) == want, "%llx",
          (unsigned long long)rtit_read(fake, VPT_RTIT_LAST_LIP));
    rtit_close(fake);
}
static void t9_low(void)
{
    last_lip(0x123456789abc, 0x112345678);
}
static void t9_high(void)
{
    last_lip(0x7fff00000001, 0x17fff0000);
}
static void t9_valid(void)
{
    struct rtit_fake *fake = rtit_open(0);

    CHECK(rtit_read(fake, VPT_RTIT_LAST_LIP) == 0, "at reset");
    rtit_close(fake);
    last_lip(0x1234, 0x100000000);
}
static void t9_reserved(void)
{
    writable(VPT_RTIT_LAST_LIP, 0x1ffffffff);
}
static const struct rule table_9[] = {
    {"15:0", "LIP[31:16] of the last packet", TEST(t9_low)},
    {"31:16", "LIP[47:32] of the last packet", TEST(t9_high)},
    {"32", "valid", TEST(t9_valid)},
    {"63:33", "#GP if set", TEST(t9_reserved)},
    {0},
};

static void t10(void)
{
    writable(VPT_RTIT_CR3_MATCH, 0xfffffffe0);
}
static const struct rule table_10[] = {
    {"63:36", "#GP if set", TEST(t10)},
    {"35:5", "what CR3 must be", TEST(t4_cr3en)},
    {"4:0", "#GP if set", TEST(t10)},
    {0},
};

static void t11_count(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    CHECK((rtit_read(fake, VPT_RTIT_PKT_CNT) & 0x3fff) == 9 + 5, "PSB and PGE");
    /* The example of 3.3.9, for Pkt_Mask 1. */
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x10000 | 0xffc);
    rtit_write(fake, VPT_RTIT_LAST_LIP, 0);
    far_from(fake, 0x800000401004, 0x12345678);
    CHECK((rtit_read(fake, VPT_RTIT_PKT_CNT) & 0x3fff) == 0xe, "%llx",
          (unsigned long long)rtit_read(fake, VPT_RTIT_PKT_CNT));
    END_RTIT(fake, "FAR(800000401004) PSB TIP(12345678)");
}
static void t11_mask(void)
{
    for (unsigned mask = 0; mask < 3; mask++) {
        struct rtit_fake *fake = rtit_start(0, 0);
        const uint64_t count = (1u << (11 + mask)) - 1;

        rtit_write(fake, VPT_RTIT_PKT_CNT, mask << 16 | (count - 3));
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
        RTIT_EXPECT(fake, "TIP(402000)", "not yet");
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x403000);
        END_RTIT(fake, "TIP(402000) TIP(403000) PSB");
    }
}
static void t11_reserved(void)
{
    struct rtit_fake *fake = rtit_open(0);

    CHECK(rtit_read(fake, VPT_RTIT_PKT_CNT) == 0x20000, "at reset");
    rtit_close(fake);
    writable(VPT_RTIT_PKT_CNT, 0x33fff);
}
static const struct rule table_11[] = {
    {"13:0 Pkt_Cnt", "bytes since the last PSB, that one included", TEST(t11_count)},
    {"15:14", "#GP if set", TEST(t11_reserved)},
    {"17:16 Pkt_Mask", "which bit of the count brings a PSB", TEST(t11_mask)},
    {0},
};

static void t12_reserved(void)
{
    struct rtit_fake *fake = rtit_open(0);
    struct vpt_rtit fresh;

    vpt_rtit_init(&fresh, 0, fake->cpu.ops, fake);
    CHECK(fresh.base_addr == 0xfdc00000, "at reset");
    rtit_close(fake);
    writable(VPT_RTIT_BASE_ADDR, 0xfffffffc0);
}
static void t12_base(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    CHECK(fake->last_gpa >= RTIT_BASE && fake->last_gpa < RTIT_BASE + 64, "where output goes");
    rtit_close(fake);
}
static const struct rule table_12[] = {
    {"5:0", "#GP if set", TEST(t12_reserved)},
    {"35:6", "where output goes", TEST(t12_base)},
    {"63:36", "#GP if set", TEST(t12_reserved)},
    {0},
};

static void t13_low(void)
{
    struct rtit_fake *fake = rtit_open(0);

    rtit_write(fake, VPT_RTIT_LIMIT_MASK, 0);
    CHECK(rtit_read(fake, VPT_RTIT_LIMIT_MASK) == 0x3f, "3FH");
    rtit_close(fake);
}
static void t13_mask(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_LIMIT_MASK, 0xff);
    rtit_write(fake, VPT_RTIT_BASE_ADDR, RTIT_BASE | 0xc0);
    rtit_write(fake, VPT_RTIT_OFFSET, 0xfe);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    vpt_rtit_drain(&fake->cpu);
    CHECK(fake->last_gpa == RTIT_BASE && rtit_read(fake, VPT_RTIT_OFFSET) == 1,
          "it wraps: %llx, %llx", (unsigned long long)fake->last_gpa,
          (unsigned long long)rtit_read(fake, VPT_RTIT_OFFSET));
    END_RTIT(fake, "TIP(402000)");
}
static void t13_reserved(void)
{
    writable(VPT_RTIT_LIMIT_MASK, 0x3fffff);
}
static const struct rule table_13[] = {
    {"5:0", "read as 3FH", TEST(t13_low)},
    {"21:6", "the size of the ring; its bits count as 0 in the base", TEST(t13_mask)},
    {"31:22", "#GP if set", TEST(t13_reserved)},
    {0},
};

static void t14(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    CHECK(rtit_read(fake, VPT_RTIT_OFFSET) == 14, "behind PSB and PGE");
    rtit_close(fake);
    writable(VPT_RTIT_OFFSET, 0x3fffff);
}
static const struct rule table_14[] = {
    {"21:0", "where in the ring the next byte goes", TEST(t14)},
    {0},
};

static void t15(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    CHECK(rtit_read(fake, VPT_RTIT_TNT_BUFF) == 1, "at reset");
    rtit_branch(fake, true);
    rtit_branch(fake, false);
    CHECK(rtit_read(fake, VPT_RTIT_TNT_BUFF) == 6, "1, T, N");
    CHECK(!rtit_takes(fake, VPT_RTIT_TNT_BUFF, 0), "#GP for 0");
    rtit_write(fake, VPT_RTIT_TNT_BUFF, 0x3f);
    rtit_branch(fake, false);
    END_RTIT(fake, "TNT(TTTTTN)");
    writable(VPT_RTIT_TNT_BUFF, 0x7f);
}
static const struct rule table_15[] = {
    {"6:0", "the next TNT packet; 0 is #GP", TEST(t15)},
    {0},
};

static void call_nlip(uint64_t nlip)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CMPRS_RET);
    const struct vpt_rtit_event call = {
        .kind = VPT_RTIT_CALL_DIRECT, .nlip = nlip, .target = 0x402000, .after = rtit_context(0)};

    vpt_rtit_event(&fake->cpu, &call);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == (1ull << 48 | nlip), "%llx",
          (unsigned long long)rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP));
    rtit_close(fake);
}
static void t16_low(void)
{
    call_nlip(0x12345678);
}
static void t16_high(void)
{
    call_nlip(0x7fff00000000);
}
static void t16_valid(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CMPRS_RET);

    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x402000);
    rtit_write(fake, VPT_RTIT_LAST_CALL_NLIP, 0x401004);
    rtit_do(fake, VPT_RTIT_RET, 0x401004);
    END_RTIT(fake, "TIP(401004)");
    writable(VPT_RTIT_LAST_CALL_NLIP, 0x1ffffffffffff);
}
static const struct rule table_16[] = {
    {"31:0", "the last CALL's NLIP", TEST(t16_low)},
    {"47:32", "the last CALL's NLIP", TEST(t16_high)},
    {"48", "valid; bits above are #GP", TEST(t16_valid)},
    {0},
};

const struct table rtit_msr_tables[] = {
    {"RTIT 4", "RTIT_CTL", 15, table_4},
    {"RTIT 5", "RTIT_CNTP", 2, table_5},
    {"RTIT 6", "RTIT_EVENTS", 3, table_6},
    {"RTIT 7", "Event IDs", 8, table_7},
    {"RTIT 8", "RTIT_LIP0 to 3", 2, table_8},
    {"RTIT 9", "RTIT_LAST_LIP", 4, table_9},
    {"RTIT 10", "RTIT_CR3_MATCH", 3, table_10},
    {"RTIT 11", "RTIT_PKT_CNT", 3, table_11},
    {"RTIT 12", "RTIT_BASE_ADDR", 3, table_12},
    {"RTIT 13", "RTIT_LIMIT_MASK", 3, table_13},
    {"RTIT 14", "RTIT_OFFSET", 1, table_14},
    {"RTIT 15", "RTIT_TNT_BUFF", 1, table_15},
    {"RTIT 16", "RTIT_LAST_CALL_NLIP", 3, table_16},
    {0},
};
