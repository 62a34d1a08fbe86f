/* SPDX-License-Identifier: BSD-3-Clause */
/* RTIT: the tables about packets of "Real Time Instruction Trace Programming Reference" v1.05. */
#include "rtit.h"

#include <stdio.h>
#include <string.h>

void far_from(struct rtit_fake *fake, uint64_t from, uint64_t target)
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

static void t17_stop(void)
{
    t6_stop();
}

static const struct rule table_17[] = {
    {"TNT, TIP, FUP.FAR", "TriggerEn, ContextEn and FilterEn", TEST(t17_branches)},
    {"FUP.PGE", "TriggerEn, ContextEn and FilterEn", TEST(t1_enter)},
    {"FUP.PGD", "TriggerEn", TEST(t17_pgd)},
    {"TraceStop", "TriggerEn is cleared", TEST(t17_stop)},
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
    {0},
};

const struct table rtit_packet_tables[] = {
    {"RTIT 17", "Packet enabling", 12, table_17},
    {"RTIT 18", "LIP compression", 7, table_18},
    {"RTIT 19", "Packets under different enables", 44, table_19},
    {0},
};
