/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which packets an operation gives, and their bytes: Tables 33-55 (cases 1 to 14), 33-56 (1 to 8)
 * and 33-14. Bytes are written by hand from the packet tables. Each case begins 64-bit, CPL 0,
 * with 401000H as the last IP, so that IPs near it take two bytes.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOTH (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

static void branches(struct fake *fake, const char *results)
{
    for (; *results; results++)
        vpt_cond_branch(&fake->cpu, 0x401000, *results == 'T');
}

static void transfer(struct fake *fake, enum vpt_transfer_type type, uint64_t cr3,
                     enum vpt_exec_mode mode)
{
    struct vpt_context after = context_of(0);

    after.cr3 = cr3;
    after.exec_mode = (uint8_t)mode;
    fake_transfer(fake, type, 0x401010, 0x402345, &after);
}

/* ---- Table 33-55 ---------------------------------------------------------------------------- */

static void nothing(struct fake *fake)
{
    (void)fake;
}

static void sixth_branch(struct fake *fake)
{
    branches(fake, "TNTTNN");
}

static void fifth_branch(struct fake *fake)
{
    branches(fake, "TNTTN");
}

static void twelve_branches(struct fake *fake)
{
    branches(fake, "TTTTTTNNNNNN");
}

static void jmp_indirect(struct fake *fake)
{
    vpt_jmp_indirect(&fake->cpu, 0x402345);
}

static void call_indirect(struct fake *fake)
{
    vpt_call_indirect(&fake->cpu, 0x402345, 0x401002);
}

static void direct(struct fake *fake)
{
    vpt_jmp_direct(&fake->cpu, 0x402345);
    vpt_call_direct(&fake->cpu, 0x405000, 0x40234a);
}

static void ret_uncompressed(struct fake *fake)
{
    vpt_ret(&fake->cpu, 0x402345);
}

static void ret_compressed(struct fake *fake)
{
    vpt_call_direct(&fake->cpu, 0x405000, 0x401005);
    branches(fake, "NNNNN");
    vpt_ret(&fake->cpu, 0x401005);
}

static void far_branch(struct fake *fake)
{
    transfer(fake, VPT_FAR_BRANCH, 0x1000, VPT_EXEC_64);
}

static void iret(struct fake *fake)
{
    transfer(fake, VPT_IRET, 0x1000, VPT_EXEC_64);
}

static void far_cr3(struct fake *fake)
{
    transfer(fake, VPT_FAR_BRANCH, 0x123456789a000, VPT_EXEC_64);
}

static void far_cr3_mode(struct fake *fake)
{
    transfer(fake, VPT_FAR_BRANCH, 0x5000, VPT_EXEC_32);
}

static void far_mode_16(struct fake *fake)
{
    transfer(fake, VPT_FAR_BRANCH, 0x1000, VPT_EXEC_16);
}

static void interrupt(struct fake *fake)
{
    transfer(fake, VPT_INTERRUPT, 0x1000, VPT_EXEC_64);
}

static void interrupt_cr3_mode(struct fake *fake)
{
    transfer(fake, VPT_INTERRUPT, 0x5000, VPT_EXEC_32);
}

static void fault(struct fake *fake)
{
    transfer(fake, VPT_FAULT, 0x1000, VPT_EXEC_64);
}

static void soft_interrupt(struct fake *fake)
{
    transfer(fake, VPT_SOFT_INTERRUPT, 0x1000, VPT_EXEC_64);
}

static void trap(struct fake *fake)
{
    transfer(fake, VPT_TRAP, 0x1000, VPT_EXEC_64);
}

static void mov_cr3(struct fake *fake)
{
    vpt_mov_cr3(&fake->cpu, 0xfedcba9876543fff, 0x401003);
}

static void same_cr3(struct fake *fake)
{
    vpt_mov_cr3(&fake->cpu, 0x1000, 0x401003);
}

static void tnt_before_tip(struct fake *fake)
{
    branches(fake, "TN");
    vpt_jmp_indirect(&fake->cpu, 0x402345);
}

static void tnt_before_fup(struct fake *fake)
{
    branches(fake, "N");
    interrupt(fake);
}

static void tnt_before_pip(struct fake *fake)
{
    branches(fake, "T");
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x401003);
}

static void kernel_and_back(struct fake *fake)
{
    vpt_jmp_indirect(&fake->cpu, 0xffffffff81000000);
    vpt_jmp_indirect(&fake->cpu, 0xffffffff81001234);
    vpt_jmp_indirect(&fake->cpu, 0xffffffff91001234);
    vpt_jmp_indirect(&fake->cpu, 0xffff888091001234);
}

static const struct {
    const char *rule;
    void (*run)(struct fake *fake);
    const char *bytes;
} golden[] = {
    {"33-55 case 1", nothing, ""},
    {"33-55 case 2: the 6th branch", sixth_branch, "d8"},
    {"33-55 case 3: up to the 5th branch", fifth_branch, ""},
    {"33-55 case 2: twice", twelve_branches, "fe 80"},
    {"33-55 case 4: JMP", jmp_indirect, "2d 45 23"},
    {"33-55 case 4: CALL", call_indirect, "2d 45 23"},
    {"33-55 case 5", direct, ""},
    {"33-55 case 6", ret_uncompressed, "2d 45 23"},
    {"33-55 case 7", ret_compressed, "82"},
    {"33-55 case 8", far_branch, "2d 45 23"},
    {"33-55 case 8: IRET has no FUP", iret, "2d 45 23"},
    {"33-55 case 9", far_cr3, "02 43 00 9a 78 56 34 12 2d 45 23"},
    {"33-55 case 10", far_cr3_mode, "02 43 00 05 00 00 00 00 99 02 2d 45 23"},
    {"33-55 case 10: 16-bit", far_mode_16, "99 00 2d 45 23"},
    {"33-55 case 11", interrupt, "3d 10 10 2d 45 23"},
    {"33-55 case 12", interrupt_cr3_mode, "3d 10 10 02 43 00 05 00 00 00 00 99 02 2d 45 23"},
    {"33-55 case 13: fault", fault, "3d 10 10 2d 45 23"},
    {"33-55 case 13: software interrupt", soft_interrupt, "3d 10 10 2d 45 23"},
    {"33-23: trap", trap, "3d 10 10 2d 45 23"},
    {"33-55 case 14", mov_cr3, "02 43 00 43 65 87 a9 cb"},
    {"33-55 case 14: the same value", same_cr3, "02 43 00 01 00 00 00 00"},
    {"33-16: a partial TNT before a TIP", tnt_before_tip, "0c 2d 45 23"},
    {"33-16: a partial TNT before a FUP", tnt_before_fup, "04 3d 10 10 2d 45 23"},
    {"33-16: a partial TNT before a PIP", tnt_before_pip, "06 02 43 00 05 00 00 00 00"},
    {"33-18: 48, 16, 32 and 48 bits", kernel_and_back,
     "6d 00 00 00 81 ff ff 2d 34 12 4d 34 12 00 91 6d 34 12 00 91 80 88"},
};

static void test_golden(void)
{
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        struct fake *fake = fake_open("skylake");
        uint8_t bytes[64];
        size_t n = from_hex(golden[i].bytes, bytes), got;

        fake_start(fake, BOTH);
        golden[i].run(fake);
        vpt_flush(&fake->cpu);
        got = fake->tap_len - fake->mark;
        CHECK(got == n && memcmp(fake->tap + fake->mark, bytes, n) == 0,
              "Table %s: expected [%s], got [%s]", golden[i].rule, golden[i].bytes,
              to_hex(fake->tap + fake->mark, got));
        fake_stop(fake);
        fake_close(fake);
    }
}

/* PIP of PAE paging carries CR3[11:5] (Table 33-24). */
static void test_pip_pae(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);

    ctx.pae = true;
    ctx.exec_mode = VPT_EXEC_32;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, BOTH | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    vpt_mov_cr3(&fake->cpu, 0x12345fff, 0x401003);
    EXPECT(fake, "PIP(12345fe0)", "Table 33-24, PAE");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, BOTH);
    vpt_mov_cr3(&fake->cpu, 0x12345fff, 0x401003);
    EXPECT(fake, "PIP(12345000)", "Table 33-24, not PAE");
    fake_close(fake);
}

/* ---- Table 33-56 ---------------------------------------------------------------------------- */

static void test_enable_and_disable(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BOTH);
    fake->mark = 0;
    EXPECT(fake, "PSB+ MODE(64) PGE(401000)", "Table 33-56 case 2, 3: enabled in context");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, VPT_CTL_USER | VPT_CTL_BRANCHEN);
    fake->mark = 0;
    EXPECT(fake, "PSB+ MODE(64)?", "Table 33-56: enabled out of context, no IP");
    fake_close(fake);

    /* The same, when no PSB+ is due. */
    for (int timed = 0; timed < 2; timed++) {
        fake = fake_open("max");
        fake->clocks.tsc = 0x123456789abcdef0;
        fake->clocks.art = 0x4567;
        fake->clocks.fast = 0x1ab;
        fake_write(fake, VPT_MSR_STATUS, 100ull << VPT_STATUS_BYTECNT_SHR);
        fake_start(fake, BOTH | (timed ? VPT_CTL_TSCEN | VPT_CTL_MTCEN : 0));
        fake->mark = 0;
        EXPECT(fake,
               timed ? "TSC(3456789abcdef0) TMA(4567,1ab) CBR(* MODE(64) PGE(401000)"
                     : "CBR(* MODE(64) PGE(401000)",
               "Table 33-56 case 2, without PSB+");
        fake_close(fake);
    }
}

/* Clearing TraceEn while PacketEn is 0 gives nothing; TNTs come before the FUP. */
static void test_disable(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3);

    fake_start(fake, BOTH);
    branches(fake, "TNT");
    EXPECT(fake, "TNT(TNT)", "Table 33-56 case 3");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    branches(fake, "T");
    fake_transfer(fake, VPT_IRET, 0x401010, 0x7000, &user);
    EXPECT(fake, "TNT(T) PGD()", "Table 33-56 case 3, PacketEn = 0 before");
    fake_close(fake);
}

/* Cases 6 to 8 by the type of transfer, into a context that is not traced. */
static void test_leaving_context(void)
{
    static const struct {
        enum vpt_transfer_type type;
        const char *pattern;
        const char *rule;
    } cases[] = {
        {VPT_FAR_BRANCH, "TNT(T) PGD()", "case 6"},
        {VPT_IRET, "TNT(T) PGD()", "case 6"},
        {VPT_INTERRUPT, "TNT(T) FUP(401010) PGD()", "case 7"},
        {VPT_TRAP, "TNT(T) FUP(401010) PGD()", "case 7"},
        {VPT_FAULT, "TNT(T) FUP(401010) PGD()", "case 8"},
        {VPT_SOFT_INTERRUPT, "TNT(T) FUP(401010) PGD()", "case 8"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int by_cr3 = 0; by_cr3 < 2; by_cr3++) {
            struct fake *fake = fake_open("max");
            struct vpt_context after = context_of(by_cr3 ? 3 : 0);

            if (by_cr3)
                after.cr3 = 0x9000;
            fake_write(fake, VPT_MSR_CR3_MATCH, 0x1000);
            fake_output(fake);
            {
                struct vpt_context user = context_of(3);

                vpt_set_context(&fake->cpu, &user);
            }
            fake_write(fake, VPT_MSR_CTL,
                       VPT_CTL_USER | VPT_CTL_CR3FILTER | VPT_CTL_BRANCHEN | VPT_CTL_TOPA |
                           VPT_CTL_TRACEEN);
            fake_mark(fake);
            branches(fake, "T");
            fake_transfer(fake, cases[i].type, 0x401010, 0x402000, &after);
            EXPECT(fake, cases[i].pattern, cases[i].rule);
            fake_close(fake);
        }
    }
}

/* ---- Table 33-14 and MODE.Exec -------------------------------------------------------------- */

/* State that changed where nobody could see it is told when tracing resumes. */
static void test_mode_told_late(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3), kernel = context_of(0);

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    user.exec_mode = VPT_EXEC_32;
    fake_transfer(fake, VPT_IRET, 0x401010, 0x7000, &user);
    kernel.exec_mode = VPT_EXEC_16;
    fake_transfer(fake, VPT_INTERRUPT, 0x7000, 0x402000, &kernel);
    kernel.exec_mode = VPT_EXEC_32;
    fake_transfer(fake, VPT_FAR_BRANCH, 0x402010, 0x403000, &kernel);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x403010, 0x404000, &kernel);
    EXPECT(fake, "PGD() MODE(16) PGE(402000) MODE(32) TIP(403000) TIP(404000)", "Table 33-26");
    fake_close(fake);
}

/* A transfer into the context tells CR3 and mode before its TIP.PGE. */
static void test_entering_context(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3), kernel = context_of(0);

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    fake_transfer(fake, VPT_IRET, 0x401010, 0x7000, &user);
    kernel.cr3 = 0x5000;
    kernel.exec_mode = VPT_EXEC_32;
    fake_transfer(fake, VPT_FAULT, 0x7000, 0x402000, &kernel);
    EXPECT(fake, "PGD() PIP(5000) MODE(32) PGE(402000)", "Table 33-14");
    fake_close(fake);
}

void suite_packets(void)
{
    static const struct test tests[] = {
        {"bytes (Table 33-55)", test_golden},
        {"PIP and PAE paging", test_pip_pae},
        {"enabling and disabling (33-56 1-3)", test_enable_and_disable},
        {"disabling", test_disable},
        {"leaving the context (33-56 6-8)", test_leaving_context},
        {"MODE.Exec when tracing resumes", test_mode_told_late},
        {"entering the context", test_entering_context},
        {NULL, NULL},
    };

    add_suite("packets (Tables 33-55, 33-56, 33-14)", tests);
}
