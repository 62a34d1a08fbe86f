/* SPDX-License-Identifier: BSD-3-Clause */
/* RTIT: the tables of "Real Time Instruction Trace Programming Reference" v1.05. */
#include "../tests/rtit_harness.h"
#include "conformance.h"

#include <stdio.h>
#include <string.h>

#define END_RTIT(fake, pattern)                                                                    \
    do {                                                                                           \
        RTIT_EXPECT(fake, pattern, "packets");                                                     \
        rtit_close(fake);                                                                          \
    } while (0)

static void far_from(struct rtit_fake *fake, uint64_t from, uint64_t target)
{
    const struct vpt_rtit_event event = {.kind = VPT_RTIT_FAR,
                                         .nlip = 0x401004,
                                         .target = target,
                                         .from = from,
                                         .after = fake->cpu.ctx};

    vpt_rtit_event(&fake->cpu, &event);
}

/* ---- Table 1 -------------------------------------------------------------------------------- */

static void t1_far(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    far_from(fake, 0x401004, 0x500000);
    END_RTIT(fake, "FAR(401004) TIP(500000)");
}
static void t1_fault(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    far_from(fake, 0x401000, 0x500000);
    END_RTIT(fake, "FAR(401000) TIP(500000)");
}
static void t1_context_out(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x401000, 0x401004);
    struct vpt_rtit_event event = {
        .kind = VPT_RTIT_MOV_CR3, .nlip = 0x401003, .target = 0x401003, .after = rtit_context(3)};

    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "PGD(401004)");
    fake = rtit_start(0, 0);
    vpt_rtit_event(&fake->cpu, &event);
    END_RTIT(fake, "PGD(401003)");
}
static void t1_jump_out(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x401000, 0x402000);

    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500000);
    END_RTIT(fake, "PGD(401004)");
}
static void t1_overflow(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    const char *words;

    vpt_rtit_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 100; i++)
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x7f0000000000 + i * 0x1000001ull);
    vpt_rtit_stall(&fake->cpu, false);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    words = strstr(rtit_words(fake), "OVF");
    CHECK(words && words_match("OVF(401004)", words), "%s", words ? words : "no OVF");
    rtit_close(fake);

    fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);
    fake->clocks.cycles += 0x200000;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "PCC(401004):2097152");
}
static void t1_enter(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x500000, 0x501000);

    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    END_RTIT(fake, "PGE(500010)");
    fake = rtit_ranged(0, 0x401004, 0x401fff);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, "PGE(401004)");
}
static void t1_vm_exit(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    struct vpt_rtit_event event = {
        .kind = VPT_RTIT_LEAVE, .from = 0x401008, .target = 0x600000, .after = rtit_context(0)};

    event.after.vmx_root = true;
    vpt_rtit_event(&fake->cpu, &event);
    END_RTIT(fake, "PGD(401008)");
}

static const struct rule table_1[] = {
    {"far branches", "FUP.FAR of the next instruction", TEST(t1_far)},
    {"interrupts, traps", "the next instruction", TEST(t1_far)},
    {"INIT, SIPI", "the next instruction", TEST(t1_far)},
    {"walking out, context lost", "FUP.PGD of the next instruction", TEST(t1_context_out)},
    {"near jump out", "FUP.PGD of the next instruction", TEST(t1_jump_out)},
    {"faults", "the instruction itself", TEST(t1_fault)},
    {"overflow, PCC", "the instruction that runs next", TEST(t1_overflow)},
    {"PacketEn 0 to 1", "where the region was entered", TEST(t1_enter)},
    {"VM exit", "the guest's RIP", TEST(t1_vm_exit)},
    {0},
};

/* ---- Table 3 -------------------------------------------------------------------------------- */

static struct rtit_fake *example(unsigned steps)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x100, 0x110);
    const struct {
        enum vpt_rtit_kind kind;
        uint64_t nlip, target, from;
    } flow[] = {
        {VPT_RTIT_JMP_DIRECT, 0x23, 0x100, 0}, {VPT_RTIT_OTHER, 0x102, 0x102, 0},
        {VPT_RTIT_FAR, 0x105, 0x983, 0x105},   {VPT_RTIT_FAR, 0x985, 0x10e, 0x985},
        {VPT_RTIT_FAR, 0x113, 0x345, 0x10e},   {VPT_RTIT_OTHER, 0x348, 0x348, 0},
        {VPT_RTIT_OTHER, 0x34c, 0x34c, 0},     {VPT_RTIT_OTHER, 0x350, 0x350, 0},
        {VPT_RTIT_OTHER, 0x353, 0x353, 0},     {VPT_RTIT_FAR, 0x357, 0x113, 0x357},
    };

    for (unsigned i = 0; i < steps; i++) {
        const struct vpt_rtit_event event = {.kind = flow[i].kind,
                                             .nlip = flow[i].nlip,
                                             .target = flow[i].target,
                                             .from = flow[i].from,
                                             .after = fake->cpu.ctx};

        if (i + 1 == steps)
            rtit_mark(fake);
        vpt_rtit_event(&fake->cpu, &event);
    }
    return fake;
}
static void t3_1(void)
{
    END_RTIT(example(1), "PGE(100)");
}
static void t3_2(void)
{
    END_RTIT(example(2), "");
}
static void t3_3(void)
{
    END_RTIT(example(3), "PGD(105) TIP(983)");
}
static void t3_4(void)
{
    END_RTIT(example(4), "PGE(10e)");
}
static void t3_5(void)
{
    END_RTIT(example(5), "PGD(10e) TIP(345)");
}
static void t3_6(void)
{
    END_RTIT(example(6), "");
}
static void t3_7(void)
{
    END_RTIT(example(7), "");
}
static void t3_8(void)
{
    END_RTIT(example(8), "");
}
static void t3_9(void)
{
    END_RTIT(example(9), "");
}
static void t3_10(void)
{
    END_RTIT(example(10), "");
}

static const struct rule table_3[] = {
    {"1 jump in", "FUP.PGE of the target", TEST(t3_1)},
    {"2 inside", "none", TEST(t3_2)},
    {"3 far jump out", "FUP.PGD of the next instruction, TIP", TEST(t3_3)},
    {"4 far jump in", "FUP.PGE of the target", TEST(t3_4)},
    {"5 fault", "FUP.PGD of the instruction, TIP of the handler", TEST(t3_5)},
    {"6 outside", "none", TEST(t3_6)},
    {"7 outside", "none", TEST(t3_7)},
    {"8 outside", "none", TEST(t3_8)},
    {"9 outside", "none", TEST(t3_9)},
    {"10 IRET outside", "none", TEST(t3_10)},
    {0},
};

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
static void t6_stop(void)
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

/* ---- Table 17 ------------------------------------------------------------------------------- */

/* Outside the filter, outside the context, and without TriggerEn. */
static struct rtit_fake *unfiltered(uint32_t ctl)
{
    struct rtit_fake *fake = rtit_ranged(ctl, 1, 2);

    CHECK(!(rtit_read(fake, VPT_RTIT_STATUS) & VPT_RTIT_STATUS_FILTEREN), "FilterEn");
    return fake;
}
static void t17_branches(void)
{
    struct rtit_fake *fake = unfiltered(0);

    for (unsigned i = 0; i < 7; i++)
        rtit_branch(fake, true);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    far_from(fake, 0x402004, 0x403000);
    END_RTIT(fake, "");
}
static void t17_pgd(void)
{
    t1_jump_out();
}
static void t17_psb(void)
{
    struct rtit_fake *fake = unfiltered(0);

    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    END_RTIT(fake, "PSB");
    fake = rtit_open(0);
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    END_RTIT(fake, "");
}
static void sts_outside(uint32_t ctl, const char *pattern)
{
    struct rtit_fake *fake = unfiltered(VPT_RTIT_CTL_STS_EN | VPT_RTIT_CTL_MTC_EN | ctl);

    fake->clocks.tsc = 0x80;
    vpt_rtit_sync(&fake->cpu, 1, 1);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, pattern);
}
static void t17_sts_less(void)
{
    sts_outside(VPT_RTIT_CTL_LESS_PKTS, "");
}
static void t17_sts(void)
{
    sts_outside(0, "STS(1,1,80) MTC(0,1)");
}
static void pcc_outside(uint32_t ctl, const char *pattern)
{
    struct rtit_fake *fake = unfiltered(VPT_RTIT_CTL_CYCLE_ACC | ctl);

    rtit_write(fake, VPT_RTIT_CNTP, 0x200000);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    END_RTIT(fake, pattern);
}
static void t17_pcc_less(void)
{
    pcc_outside(VPT_RTIT_CTL_LESS_PKTS, "");
}
static void t17_pcc(void)
{
    pcc_outside(0, "PCC(401004):2097152");
}
static void t17_cycles(uint32_t ctl, uint64_t want)
{
    struct rtit_fake *fake = unfiltered(VPT_RTIT_CTL_CYCLE_ACC | ctl);

    fake->clocks.cycles += 50;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == want, "%llu",
          (unsigned long long)rtit_read(fake, VPT_RTIT_CNTP));
    rtit_close(fake);
}
static void t17_cycles_less(void)
{
    t17_cycles(VPT_RTIT_CTL_LESS_PKTS, 50);
}
static void t17_cycles_more(void)
{
    t17_cycles(0, 0);
}
static void t17_overflow(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    struct vpt_rtit_event leave = {
        .kind = VPT_RTIT_FAR, .from = 0x401004, .target = 0x402000, .after = rtit_context(3)};

    rtit_write(fake, VPT_RTIT_STATUS, VPT_RTIT_STATUS_OVERFLOW | VPT_RTIT_STATUS_FILTEREN);
    vpt_rtit_event(&fake->cpu, &leave);
    RTIT_EXPECT(fake, "", "out of context");
    leave.after = rtit_context(0);
    vpt_rtit_event(&fake->cpu, &leave);
    END_RTIT(fake, "OVF(402000)");
}

static const struct rule table_17[] = {
    {"TNT, TIP, FUP.FAR", "TriggerEn, ContextEn and FilterEn", TEST(t17_branches)},
    {"FUP.PGE", "TriggerEn, ContextEn and FilterEn", TEST(t1_enter)},
    {"FUP.PGD", "TriggerEn", TEST(t17_pgd)},
    {"TraceStop", "TriggerEn is cleared", TEST(t6_stop)},
    {"PSB", "TriggerEn", TEST(t17_psb)},
    {"STS, MTC with LESS_PKTS", "TriggerEn, ContextEn and FilterEn", TEST(t17_sts_less)},
    {"STS, MTC", "TriggerEn", TEST(t17_sts)},
    {"FUP.PCC with LESS_PKTS", "TriggerEn, ContextEn and FilterEn", TEST(t17_pcc_less)},
    {"FUP.PCC", "TriggerEn and ContextEn", TEST(t17_pcc)},
    {"FUP.BuffOvf", "TriggerEn and ContextEn", TEST(t17_overflow)},
    {"cycle counter with LESS_PKTS", "counts with TriggerEn and ContextEn", TEST(t17_cycles_less)},
    {"cycle counter", "counts with TriggerEn, ContextEn and FilterEn", TEST(t17_cycles_more)},
    {0},
};

/* ---- Table 18 ------------------------------------------------------------------------------- */

/* The first byte of the TIP to `to`, behind one to `from`. */
static void compressed(uint64_t from, uint64_t to, unsigned cnt, bool zext)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    uint8_t header;

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, from);
    rtit_mark(fake);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, to);
    vpt_rtit_drain(&fake->cpu);
    header = fake->tap[fake->mark];
    CHECK((header & 3) == cnt && !!(header & 4) == zext &&
              fake->tap_len - fake->mark == 1 + 2 * (cnt + 1),
          "%llx to %llx: %x", (unsigned long long)from, (unsigned long long)to, header);
    rtit_close(fake);
}
static void t18_1(void)
{
    compressed(0x7fff12340000, 0x7fff12345678, 0, false);
}
static void t18_2(void)
{
    compressed(0x12340000, 0x12345678, 0, false);
}
static void t18_3(void)
{
    compressed(0x7fff12340000, 0x5678, 0, true);
    compressed(0x5670, 0x5678, 0, true);
}
static void t18_4(void)
{
    compressed(0x7fff12340000, 0x7fff99995678, 1, false);
}
static void t18_5(void)
{
    compressed(0x12340000, 0x99995678, 1, true);
    compressed(0x7fff12340000, 0x99995678, 1, true);
}
static void t18_6(void)
{
    compressed(0x7fff12340000, 0x12345678, 1, true);
}
static void t18_7(void)
{
    compressed(0x7fff12340000, 0x6fff12345678, 2, false);
}

static const struct rule table_18[] = {
    {"CNT 0, Zext 0", "both parts match, the high one is not 0", TEST(t18_1)},
    {"CNT 0, Zext 0", "both parts match, only the high one is 0", TEST(t18_2)},
    {"CNT 0, Zext 1", "both parts are 0", TEST(t18_3)},
    {"CNT 1, Zext 0", "the high part matches and is not 0", TEST(t18_4)},
    {"CNT 1, Zext 1", "the high part is 0, the middle one does not match", TEST(t18_5)},
    {"CNT 1, Zext 1", "the high part is 0 and does not match", TEST(t18_6)},
    {"CNT 2, Zext 0", "the high part is neither 0 nor matches", TEST(t18_7)},
    {0},
};

/* ---- Table 19 ------------------------------------------------------------------------------- */

#define IN  0x401000ull /* inside the range of row() */
#define OUT 0x900000ull

/*
 * One operation at 401000H: PacketEn before and after by the range, or by CPL 3 (`user`); with a
 * branch in the TNT buffer or without.
 */
static void row(enum vpt_rtit_kind kind, bool before, bool after, bool user, bool tnt,
                const char *pattern)
{
    struct rtit_fake *fake = rtit_ranged(VPT_RTIT_CTL_STS_EN | VPT_RTIT_CTL_STS_ON_CR3, 0x401000,
                                         after ? 0x500000 : 0x401004);
    struct vpt_rtit_event event = {
        .kind = kind, .nlip = 0x401004, .from = 0x401004, .after = rtit_context(user ? 3 : 0)};

    if (!before)
        rtit_write(fake, VPT_RTIT_STATUS, 0);
    if (tnt)
        rtit_write(fake, VPT_RTIT_TNT_BUFF, 3);
    event.taken = kind == VPT_RTIT_COND;
    event.target = kind == VPT_RTIT_OTHER || kind == VPT_RTIT_MOV_CR3 ? 0x401004
                   : after || user                                    ? 0x401020
                                                                      : OUT;
    if (kind == VPT_RTIT_ENTER) {
        fake->cpu.ctx.smm = true;
        fake->cpu.context_en = false;
    }
    if (kind == VPT_RTIT_LEAVE)
        event.after.smm = true;
    rtit_mark(fake);
    vpt_rtit_event(&fake->cpu, &event);
    END_RTIT(fake, pattern);
}
/* Walking into the range: its base is the next instruction. */
static void walk_in(enum vpt_rtit_kind kind, const char *pattern)
{
    struct rtit_fake *fake =
        rtit_ranged(VPT_RTIT_CTL_STS_EN | VPT_RTIT_CTL_STS_ON_CR3, 0x401004, 0x500000);

    rtit_do(fake, kind, 0x401004);
    END_RTIT(fake, pattern);
}
/* The sixth branch. */
static void sixth(bool taken, bool stays, const char *pattern)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x401000, stays ? 0x500000 : 0x401004);
    const struct vpt_rtit_event event = {.kind = VPT_RTIT_COND,
                                         .taken = taken,
                                         .nlip = 0x401004,
                                         .target = taken ? stays ? 0x401020 : OUT : 0x401004,
                                         .after = rtit_context(0)};

    rtit_write(fake, VPT_RTIT_TNT_BUFF, 0x3f);
    vpt_rtit_event(&fake->cpu, &event);
    END_RTIT(fake, pattern);
}
#define ROW(number, ...)                                                                           \
    static void t19_##number(void)                                                                 \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
ROW(1, row(VPT_RTIT_OTHER, true, true, false, false, ""))
ROW(2, rtit_close(example(6)))
ROW(3, row(VPT_RTIT_OTHER, true, false, false, false, "PGD(401004)"))
ROW(4, row(VPT_RTIT_OTHER, true, false, false, true, "TNT(T) PGD(401004)"))
ROW(5, walk_in(VPT_RTIT_OTHER, "PGE(401004)"))
ROW(6, row(VPT_RTIT_JMP_DIRECT, true, true, false, true, ""))
ROW(7, row(VPT_RTIT_JMP_DIRECT, false, false, false, false, ""))
ROW(8, row(VPT_RTIT_JMP_DIRECT, true, false, false, false, "PGD(401004)"))
ROW(9, row(VPT_RTIT_JMP_DIRECT, true, false, false, true, "TNT(T) PGD(401004)"))
ROW(10, row(VPT_RTIT_JMP_DIRECT, false, true, false, false, "PGE(401020)"))
ROW(11, row(VPT_RTIT_COND, true, true, false, false, "");
    row(VPT_RTIT_COND, false, true, false, false, "PGE(401020)");
    row(VPT_RTIT_COND, true, false, false, false, "TNT(T) PGD(401004)"))
ROW(13, sixth(true, true, "TNT(TTTTTT)"))
ROW(15, sixth(true, false, "TNT(TTTTTT) PGD(401004)"))
ROW(17, sixth(false, true, "TNT(TTTTTN)"))
ROW(19, sixth(false, false, "TNT(TTTTTN) PGD(401004)"))
ROW(21, row(VPT_RTIT_JMP_INDIRECT, true, true, false, false, "TIP(401020)"))
ROW(22, row(VPT_RTIT_CALL_INDIRECT, true, true, false, true, "TNT(T) TIP(401020)"))
ROW(23, row(VPT_RTIT_RET, false, false, false, false, ""))
ROW(24, row(VPT_RTIT_RET, true, false, false, false, "TIP(900000) PGD(401004)"))
ROW(25, row(VPT_RTIT_JMP_INDIRECT, true, false, false, true, "TNT(T) TIP(900000) PGD(401004)"))
ROW(26, row(VPT_RTIT_JMP_INDIRECT, false, true, false, false, "PGE(401020)"))
ROW(27, row(VPT_RTIT_FAR, true, true, false, false, "FAR(401004) TIP(401020)"))
ROW(28, row(VPT_RTIT_FAR, true, true, false, true, "TNT(T) FAR(401004) TIP(401020)"))
ROW(29, row(VPT_RTIT_FAR, false, false, false, false, ""))
ROW(30, row(VPT_RTIT_FAR, true, false, false, false, "PGD(401004) TIP(900000)"))
ROW(31, row(VPT_RTIT_FAR, true, false, false, true, "TNT(T) PGD(401004) TIP(900000)"))
ROW(32, row(VPT_RTIT_FAR, true, true, true, false, "PGD(401004)"))
ROW(33, row(VPT_RTIT_FAR, true, true, true, true, "TNT(T) PGD(401004)"))
ROW(34, row(VPT_RTIT_ENTER, false, true, false, false, "PGE(401020)"))
ROW(35, row(VPT_RTIT_FAR, false, true, false, false, "PGE(401020)"))
ROW(36, row(VPT_RTIT_LEAVE, true, false, false, false, "PGD(401004)"))
ROW(37, row(VPT_RTIT_LEAVE, true, false, false, true, "TNT(T) PGD(401004)"))
ROW(38, row(VPT_RTIT_ENTER, false, true, false, false, "PGE(401020)"))
ROW(39, row(VPT_RTIT_MOV_CR3, true, true, false, false, "PIP(1000,1) STS(0,0,0)"))
ROW(40, row(VPT_RTIT_MOV_CR3, true, true, false, true, "TNT(T) PIP(1000,1) STS(0,0,0)"))
ROW(41, row(VPT_RTIT_MOV_CR3, false, false, false, false, "PIP(1000,1) STS(0,0,0)"))
ROW(42, walk_in(VPT_RTIT_MOV_CR3, "PIP(1000,1) STS(0,0,0) PGE(401004)"))
ROW(43, row(VPT_RTIT_MOV_CR3, true, false, false, false, "PIP(1000,1) STS(0,0,0) PGD(401004)"))
ROW(44,
    row(VPT_RTIT_MOV_CR3, true, false, false, true, "TNT(T) PIP(1000,1) STS(0,0,0) PGD(401004)"))
static void t19_12(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_branch(fake, false);
    END_RTIT(fake, "");
}

static const char impossible[] = "the table itself says that this cannot be";
static const struct rule table_19[] = {
    {"1", "no jump, inside: none", TEST(t19_1)},
    {"2", "no jump, outside: none", TEST(t19_2)},
    {"3", "walking out: FUP.PGD", TEST(t19_3)},
    {"4", "walking out with branches: TNT, FUP.PGD", TEST(t19_4)},
    {"5", "walking in: FUP.PGE", TEST(t19_5)},
    {"6", "direct jump, inside: none", TEST(t19_6)},
    {"7", "direct jump, outside: none", TEST(t19_7)},
    {"8", "direct jump out: FUP.PGD", TEST(t19_8)},
    {"9", "direct jump out with branches: TNT, FUP.PGD", TEST(t19_9)},
    {"10", "direct jump in: FUP.PGE", TEST(t19_10)},
    {"11", "conditional taken: as a direct jump", TEST(t19_11)},
    {"12", "conditional not taken: as no jump", TEST(t19_12)},
    {"13", "sixth, taken, inside: TNT", TEST(t19_13)},
    {"14", "sixth, taken, outside", UNMET(impossible)},
    {"15", "sixth, taken, out: TNT, FUP.PGD", TEST(t19_15)},
    {"16", "sixth, taken, in", UNMET(impossible)},
    {"17", "sixth, not taken, inside: TNT", TEST(t19_17)},
    {"18", "sixth, not taken, outside", UNMET(impossible)},
    {"19", "sixth, not taken, out: TNT, FUP.PGD", TEST(t19_19)},
    {"20", "sixth, not taken, in", UNMET(impossible)},
    {"21", "indirect, inside: TIP", TEST(t19_21)},
    {"22", "indirect, inside, with branches: TNT, TIP", TEST(t19_22)},
    {"23", "indirect, outside: none", TEST(t19_23)},
    {"24", "indirect out: TIP, FUP.PGD", TEST(t19_24)},
    {"25", "indirect out with branches: TNT, TIP, FUP.PGD", TEST(t19_25)},
    {"26", "indirect in: FUP.PGE", TEST(t19_26)},
    {"27", "far, inside: FUP.FAR, TIP", TEST(t19_27)},
    {"28", "far, inside, with branches: TNT, FUP.FAR, TIP", TEST(t19_28)},
    {"29", "far, outside: none", TEST(t19_29)},
    {"30", "far out, in context: FUP.PGD, TIP", TEST(t19_30)},
    {"31", "far out, in context, with branches: TNT, FUP.PGD, TIP", TEST(t19_31)},
    {"32", "far out of context: FUP.PGD", TEST(t19_32)},
    {"33", "far out of context, with branches: TNT, FUP.PGD", TEST(t19_33)},
    {"34", "far into context: FUP.PGE", TEST(t19_34)},
    {"35", "far in: FUP.PGE", TEST(t19_35)},
    {"36", "SMI, VM exit: FUP.PGD", TEST(t19_36)},
    {"37", "SMI, VM exit, with branches: TNT, FUP.PGD", TEST(t19_37)},
    {"38", "RSM, VM entry: FUP.PGE", TEST(t19_38)},
    {"39", "MOV CR3, inside: PIP, STS", TEST(t19_39)},
    {"40", "MOV CR3, inside, with branches: TNT, PIP, STS", TEST(t19_40)},
    {"41", "MOV CR3, outside: PIP, STS", TEST(t19_41)},
    {"42", "MOV CR3, in: PIP, STS, FUP.PGE", TEST(t19_42)},
    {"43", "MOV CR3, out: PIP, STS, FUP.PGD", TEST(t19_43)},
    {"44", "MOV CR3, out, with branches: TNT, PIP, STS, FUP.PGD", TEST(t19_44)},
    {0},
};

const struct table rtit_tables[] = {
    {"RTIT 1", "IP type in various packets", 9, table_1},
    {"RTIT 3", "Trace example", 10, table_3},
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
    {"RTIT 17", "Packet enabling", 12, table_17},
    {"RTIT 18", "LIP compression", 7, table_18},
    {"RTIT 19", "Packets under different enables", 44, table_19},
    {0},
};
