/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What processors choose where the specification leaves it open (struct vpt_choices). Bytes are
 * written by hand, from the first of the trace; those of PADs stand as traces of hardware have
 * them. CPL 0 with CR3 1000H unless said otherwise; tracing begins at 401000H.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOTH (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define USER (VPT_CTL_USER | VPT_CTL_BRANCHEN)

#define PSB       "02 82 02 82 02 82 02 82 02 82 02 82 02 82 02 82 "
#define PIP       "02 43 00 01 00 00 00 00 "
#define CBR       "02 03 1a 00 "
#define MODE_TSX  "99 20 "
#define MODE_EXEC "99 01 "
#define PSBEND    "02 23 "
#define PGE       "71 00 10 40 00 00 00 " /* 401000H */
#define FUP       "7d 10 10 40 00 00 00 " /* 401010H */

#define CORE_ORDER                                                                                 \
    {                                                                                              \
        VPT_PSB_TSX, VPT_PSB_EXEC, VPT_PSB_FUP, VPT_PSB_PIP, VPT_PSB_VMCS, VPT_PSB_TSC,            \
            VPT_PSB_CBR                                                                            \
    }

struct golden {
    const char *rule;
    struct vpt_choices choices;
    bool tsx, vmx;
    uint64_t ctl; /* IA32_RTIT_CTL */
    void (*run)(struct fake *fake);
    const char *bytes;
};

/* ---- What happens --------------------------------------------------------------------------- */

static void nothing(struct fake *fake)
{
    (void)fake;
}

static void interrupt(struct fake *fake)
{
    const struct vpt_context after = context_of(0);

    fake_transfer(fake, VPT_INTERRUPT, 0x401010, 0x402345, &after);
}

static void to_user(struct fake *fake, uint64_t target)
{
    const struct vpt_context user = context_of(3);

    fake_transfer(fake, VPT_IRET, 0x401010, target, &user);
}

static void user_twice(struct fake *fake)
{
    const struct vpt_context kernel = context_of(0);

    to_user(fake, 0x401010);
    fake_transfer(fake, VPT_INTERRUPT, 0x401010, 0x402345, &kernel);
    to_user(fake, 0x401010);
}

/* Two TIPs with a PSB+ between. */
static void psb_between(struct fake *fake)
{
    fake->cpu.bytes_since_psb = fake->cpu.psb_period_bytes;
    vpt_jmp_indirect(&fake->cpu, 0x401010);
    vpt_jmp_indirect(&fake->cpu, 0x402345);
}

/* IPs of 2, 4, 6 and 2 bytes, then six branches and an interrupt. */
static void branches(struct fake *fake)
{
    vpt_jmp_indirect(&fake->cpu, 0x401010);
    vpt_jmp_indirect(&fake->cpu, 0x12345678);
    vpt_jmp_indirect(&fake->cpu, 0x7f0012345678);
    vpt_jmp_indirect(&fake->cpu, 0x7f0012340000);
    for (unsigned i = 0; i < 6; i++)
        vpt_cond_branch(&fake->cpu, 0x7f0012340000, i & 1);
    interrupt(fake);
}

static void ptwrite(struct fake *fake)
{
    vpt_ptwrite(&fake->cpu, 0x44332211, 4, 0x401010);
    vpt_ptwrite(&fake->cpu, 0x8877665544332211, 8, 0x401010);
}

/* Into traced code 100 cycles after TraceEn, from there by a branch 3 cycles later. */
static void cycles(struct fake *fake)
{
    fake->clocks.cycles += 100;
    to_user(fake, 0x401010);
    fake->clocks.cycles += 3;
    vpt_jmp_indirect(&fake->cpu, 0x12345678);
}

/* The same with so many cycles between that their CYC takes five bytes. */
static void cycles_long(struct fake *fake)
{
    fake->clocks.cycles += 100;
    to_user(fake, 0x401010);
    fake->clocks.cycles += 1ull << 26;
    vpt_jmp_indirect(&fake->cpu, 0x12345678);
}

/* And out of it by a far branch, 100 cycles later. */
static void cycles_end(struct fake *fake)
{
    const struct vpt_context kernel = context_of(0);

    cycles(fake);
    fake->clocks.cycles += 100;
    fake_transfer(fake, VPT_FAR_BRANCH, 0x12345678, 0x401000, &kernel);
}

/* ---- The bytes ------------------------------------------------------------------------------ */

#define NOTHING                                                                                    \
    (struct vpt_choices)                                                                           \
    {                                                                                              \
        0                                                                                          \
    }
#define SPLIT                                                                                      \
    (struct vpt_choices)                                                                           \
    {                                                                                              \
        .layout = VPT_LAYOUT_SPLIT                                                                 \
    }

static const struct golden golden[] = {
    {"plain", NOTHING, false, false, BOTH, interrupt,
     PSB PIP CBR PSBEND MODE_EXEC PGE "3d 10 10 2d 45 23"},
    {"FUP with a full IP",
     {.fup_full = true},
     false,
     false,
     BOTH,
     interrupt,
     PSB PIP CBR PSBEND MODE_EXEC PGE FUP "2d 45 23"},
    {"the IP behind a PSB+, compressed", NOTHING, false, false, BOTH, psb_between,
     PSB PIP CBR PSBEND MODE_EXEC PGE "2d 10 10 " PSB PIP CBR MODE_EXEC FUP PSBEND "2d 45 23"},
    {"the IP behind a PSB+, full",
     {.psb_ip_apart = true},
     false,
     false,
     BOTH,
     psb_between,
     PSB PIP CBR PSBEND MODE_EXEC PGE "2d 10 10 " PSB PIP CBR MODE_EXEC FUP PSBEND
                                      "6d 45 23 40 00 00 00"},
    {"full IPs of 64 bits",
     {.ip_full_64 = true},
     false,
     false,
     BOTH,
     branches,
     PSB PIP CBR PSBEND MODE_EXEC "d1 00 10 40 00 00 00 00 00 "
                                  "2d 10 10 4d 78 56 34 12 cd 78 56 34 12 00 7f 00 00 2d 00 00 "
                                  "aa dd 10 10 40 00 00 00 00 00 2d 45 23"},
    {"PSB+ at TraceEn as behind the TIP.PGE",
     {.psb_at_enable = true},
     true,
     false,
     BOTH,
     interrupt,
     PSB PIP CBR MODE_TSX MODE_EXEC "7d 00 10 40 00 00 00 " PSBEND PGE "3d 10 10 2d 45 23"},
    {"the order of a PSB+",
     {.psb_order = CORE_ORDER},
     true,
     false,
     BOTH,
     psb_between,
     PSB MODE_TSX PIP CBR PSBEND MODE_EXEC PGE "2d 10 10 " PSB MODE_TSX MODE_EXEC FUP PIP CBR PSBEND
                                               "2d 45 23"},
    {"PSB+ once", NOTHING, false, false, USER, user_twice,
     PSB CBR PSBEND MODE_EXEC "71 10 10 40 00 00 00 3d 10 10 01 31 10 10"},
    {"PSB+ twice",
     {.psb_twice = true},
     true,
     false,
     USER,
     user_twice,
     PSB CBR PSBEND PSB CBR MODE_TSX PSBEND MODE_EXEC "71 10 10 40 00 00 00 3d 10 10 01 31 10 10"},
    {"PSB+ twice, as behind the TIP.PGE",
     {.psb_twice = true, .psb_at_enable = true},
     true,
     false,
     USER,
     user_twice,
     PSB CBR PSBEND PSB CBR MODE_TSX MODE_EXEC FUP PSBEND
     "71 10 10 40 00 00 00 3d 10 10 01 31 10 10"},
    /* As a trace of model 142 has it, up to the addresses. */
    {"lines: PSB+ in VMX root operation",
     {.layout = VPT_LAYOUT_SPLIT, .psb_at_enable = true, .psb_order = CORE_ORDER},
     true,
     true,
     BOTH,
     nothing,
     PSB /* 10H */
     "00 00 00 99 20 99 01 7d 00 10 40 00 00 00 00 00 "
     "00 00 00 00 00 00 02 43 00 01 00 00 00 00 00 00 "
     "00 00 00 00 00 00 02 c8 05 00 00 00 00 00 00 00 "
     "02 03 1a 00 02 23 00 71 00 10 40 00 00 00 00 00"},
    {"lines: TIPs, TNT and a FUP", SPLIT, false, false, BOTH, branches,
     PSB "00 00 00 00 00 00 02 43 00 01 00 00 00 00 00 00 "                         /* PIP */
         "02 03 1a 00 02 23 00 00 00 00 00 00 00 99 01 71 00 10 40 00 00 00 00 00 " /* TIP.PGE */
         "2d 10 10 4d 78 56 34 12 "
         "00 00 00 00 00 00 00 6d 78 56 34 12 00 7f 00 00 "
         "2d 00 00 aa 00 00 00 7d 10 10 40 00 00 00 00 00 "
         "2d 45 23"},
    {"lines: PTWRITE", SPLIT, false, false, VPT_CTL_PTWEN | VPT_CTL_FUPONPTW | VPT_CTL_OS, ptwrite,
     PSB "00 00 00 00 00 00 02 43 00 01 00 00 00 00 00 00 "
         "02 03 1a 00 02 23 02 92 11 22 33 44 00 00 00 00 "
         "00 00 00 00 00 00 00 7d 10 10 40 00 00 00 00 00 "
         "00 00 00 00 00 00 02 b2 11 22 33 44 55 66 77 88 3d 10 10"},
    /* CYC 100 takes two bytes. */
    {"lines: CYC and MODE stand with their packet", SPLIT, false, false, USER | VPT_CTL_CYCEN,
     cycles,
     PSB "02 03 1a 00 02 23 00 00 00 00 00 27 06 99 01 71 10 10 40 00 00 00 00 00 "
         "1b 4d 78 56 34 12"},
    {"lines: CYC does not stand with a packet of one byte", SPLIT, false, false,
     USER | VPT_CTL_CYCEN, cycles_end,
     PSB "02 03 1a 00 02 23 00 00 00 00 00 27 06 99 01 71 10 10 40 00 00 00 00 00 "
         "1b 4d 78 56 34 12 27 06 01"},
    {"lines: a CYC that does not fit the line of its packet", SPLIT, false, false,
     USER | VPT_CTL_CYCEN, cycles_long,
     PSB "02 03 1a 00 02 23 00 00 00 00 00 27 06 99 01 71 10 10 40 00 00 00 00 00 "
         "07 01 01 01 02 00 00 00 4d 78 56 34 12"},
    /* As a trace of model 79 has it, up to CBR and addresses. */
    {"lines: whole packets",
     {.layout = VPT_LAYOUT_WHOLE, .fup_full = true, .psb_twice = true, .psb_at_enable = true},
     true,
     false,
     USER,
     user_twice,
     PSB "02 03 1a 00 00 00 00 00 02 23 00 00 00 00 00 00 " /* PSB is aligned */
     PSB "02 03 1a 00 99 20 99 01 7d 10 10 40 00 00 00 00 02 23 00 00 00 00 00 00 "
         "71 10 10 40 00 00 00 00 7d 10 10 40 00 00 00 00 01 31 10 10"},
};

static struct fake *begin(const struct golden *golden_case)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;

    caps.choices = golden_case->choices;
    caps.leaf14_0_ebx |= VPT_CAP_PTWRITE;
    caps.tsx = golden_case->tsx;
    caps.psb_align_bytes = golden_case->choices.layout ? 8 : 0;
    fake = fake_open_caps(&caps);
    if (golden_case->vmx) {
        vpt_vmxon(&fake->cpu, 0x401000);
        vpt_vmptrld(&fake->cpu, 0x5000);
    }
    fake_start(fake, golden_case->ctl);
    return fake;
}

static void test_golden(void)
{
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        struct fake *fake = begin(&golden[i]);
        uint8_t bytes[512];
        const size_t n = from_hex(golden[i].bytes, bytes);

        golden[i].run(fake);
        vpt_flush(&fake->cpu);
        CHECK(fake->tap_len == n && memcmp(fake->tap, bytes, n) == 0, "%s: expected [%s], got [%s]",
              golden[i].rule, golden[i].bytes, to_hex(fake->tap, fake->tap_len));
        fake_stop(fake);
        fake_close(fake);
    }
}

/* psb_early_bytes before the period is over, whatever its length; PacketByteCnt is as always. */
static void test_early(void)
{
    for (unsigned freq = 0; freq < 6; freq++) {
        const struct golden early = {.choices = {.psb_early_bytes = 160},
                                     .ctl = BOTH | (uint64_t)freq << VPT_CTL_PSBFREQ_SHR};
        struct fake *fake = begin(&early);
        const size_t due = (2048u << freq) - 160 + 16; /* counted from behind the PSB */
        static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                        2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
        size_t at = 16;

        fake_noise(fake, 2 * due);
        while (at + 16 <= fake->tap_len && memcmp(fake->tap + at, psb, 16) != 0)
            at++;
        CHECK(at >= due && at < due + 16, "PSBFreq %u: %zu bytes to the next PSB", freq, at);
        fake_stop(fake);
        fake_close(fake);
    }
}

/* The unit of PacketByteCnt is that of the whole period. */
static void test_early_count(void)
{
    for (unsigned freq = 6; freq < 10; freq++) {
        const uint32_t unit = (2048u << freq) >> 16;
        struct vpt_caps caps = plain_caps("skylake");
        struct fake *fake;
        uint64_t count;

        allow_all_encodings(&caps);
        caps.choices.psb_early_bytes = 160;
        fake = fake_open_caps(&caps);
        fake_start(fake, BOTH | (uint64_t)freq << VPT_CTL_PSBFREQ_SHR);
        fake_noise(fake, 3000);
        fake_stop(fake);
        count = fake_read(fake, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR;
        CHECK(count == (fake->cpu.bytes_since_psb + unit - 1) / unit, "PSBFreq %u: %u bytes, %u",
              freq, fake->cpu.bytes_since_psb, (unsigned)count);
        fake_close(fake);
    }
}

static void test_refused(void)
{
    static const struct vpt_choices bad[] = {
        {.layout = VPT_LAYOUT_WHOLE + 1},
        {.psb_early_bytes = 2048},
        {.psb_order = {VPT_PSB_TSC}},
        {.psb_order = {VPT_PSB_TSX, VPT_PSB_TSX, VPT_PSB_FUP, VPT_PSB_PIP, VPT_PSB_VMCS,
                       VPT_PSB_TSC, VPT_PSB_CBR}},
        {.psb_order = {VPT_PSB_NONE, VPT_PSB_EXEC, VPT_PSB_FUP, VPT_PSB_PIP, VPT_PSB_VMCS,
                       VPT_PSB_TSC, VPT_PSB_CBR}},
        {.psb_order = {VPT_PSB_FUP + 1, VPT_PSB_EXEC, VPT_PSB_FUP, VPT_PSB_PIP, VPT_PSB_VMCS,
                       VPT_PSB_TSC, VPT_PSB_CBR}},
    };
    struct vpt_caps caps = plain_caps("skylake");

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        caps.choices = bad[i];
        CHECK(vpt_caps_check(&caps) != NULL, "choices %zu", i);
    }
    caps.choices = (struct vpt_choices){.layout = VPT_LAYOUT_SPLIT, .psb_order = CORE_ORDER};
    CHECK(vpt_caps_check(&caps) == NULL, "good choices");
    caps.deferred_tips = true;
    CHECK(vpt_caps_check(&caps) != NULL, "deferred TIPs with PADs");
}

static bool has_choices(const struct vpt_choices *choices)
{
    bool any = choices->fup_full || choices->psb_ip_apart || choices->ip_full_64 ||
               choices->psb_at_enable || choices->psb_twice || choices->tips_wait ||
               choices->layout != VPT_LAYOUT_DENSE || choices->psb_early_bytes != 0 ||
               choices->family != 0 || choices->model != 0 || choices->stepping != 0;

    for (size_t i = 0; i < VPT_PSB_PARTS; i++)
        any |= choices->psb_order[i] != VPT_PSB_NONE;
    return any;
}

/* What is known of hardware stands in the profiles, and only there. */
static void test_profiles(void)
{
    static const char *const of_hardware[] = {"broadwell", "skylake", "cascade-lake",
                                              "icelake-client", "icelake-server"};

    for (size_t i = 0; i < vpt_profile_count(); i++) {
        const char *const name = vpt_profile_name(i);
        struct vpt_caps caps;
        bool hardware = false;

        CHECK(vpt_profile(name, &caps), "%s", name);
        for (size_t j = 0; j < sizeof(of_hardware) / sizeof(of_hardware[0]); j++)
            hardware |= strcmp(name, of_hardware[j]) == 0;
        CHECK(caps.choices.family == (hardware ? 6 : 0), "%s: family %u", name,
              caps.choices.family);
        CHECK(hardware || !has_choices(&caps.choices), "%s has choices", name);
        CHECK(!caps.choices.tips_wait, "%s: TIPs wait, which no hardware is known for", name);
        CHECK(!hardware || (caps.choices.fup_full && caps.choices.psb_at_enable &&
                            caps.choices.layout && caps.psb_align_bytes == 8),
              "%s lacks choices", name);
    }
}

void suite_choices(void)
{
    static const struct test tests[] = {
        {"bytes of each choice", test_golden},
        {"PSB comes early", test_early},
        {"PacketByteCnt where PSB comes early", test_early_count},
        {"choices that are refused", test_refused},
        {"choices of the profiles", test_profiles},
        {NULL, NULL},
    };

    add_suite("choices of implementations", tests);
}
