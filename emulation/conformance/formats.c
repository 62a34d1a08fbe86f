/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of each packet, as the format rows of Tables 33-16 to 33-51 draw them. */
#include "conformance.h"

#include <string.h>

/* Everything that chapter 33 describes; IPs are LIPs. At 401000H, CPL 0. */
static struct fake *all(uint64_t ctl)
{
    struct vpt_caps caps = rich_caps();
    struct fake *fake;

    caps.tsx = true;
    caps.psb_align_bytes = 0;
    fake = fake_open_caps(&caps);
    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, ctl);
    return fake;
}

static void tnt_short(void)
{
    struct fake *fake = begin("skylake", TRACED);

    for (unsigned i = 0; i < 6; i++)
        vpt_cond_branch(&fake->cpu, SOURCE, i == 0 || i == 4); /* T N N N T N */
    BYTES(fake, 0xc4);
    fake = begin("skylake", TRACED);
    for (unsigned i = 0; i < 4; i++)
        vpt_cond_branch(&fake->cpu, SOURCE, i == 1); /* N T N N */
    vpt_flush_branches(&fake->cpu);
    BYTES(fake, 0x28);
}
static void tnt_long(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;

    caps.long_tnt = true;
    fake = begin_caps(&caps, TRACED);
    for (unsigned i = 0; i < 47; i++)
        vpt_cond_branch(&fake->cpu, SOURCE, i == 0 || i == 7 || i == 46);
    BYTES(fake, 0x02, 0xa3, 0x01, 0x00, 0x00, 0x00, 0x80, 0xc0);
    fake = begin_caps(&caps, TRACED);
    for (unsigned i = 0; i < 31; i++)
        vpt_cond_branch(&fake->cpu, SOURCE, i == 0 || i == 30);
    vpt_flush_branches(&fake->cpu);
    BYTES(fake, 0x02, 0xa3, 0x01, 0x00, 0x00, 0xc0, 0x00, 0x00);
}
static void ip_tip(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_jmp_indirect(&fake->cpu, 0x7f1234567890);
    BYTES(fake, 0x6d, 0x90, 0x78, 0x56, 0x34, 0x12, 0x7f);
}
static void ip_pge(void)
{
    struct fake *fake = begin_range("skylake", VPT_ADDR_CFG_FILTER, 0x500000, 0x500fff, TRACED);

    vpt_jmp_indirect(&fake->cpu, 0x500123);
    BYTES(fake, 0x99, 0x01, 0x71, 0x23, 0x01, 0x50, 0x00, 0x00, 0x00);
}
static void ip_pgd(void)
{
    struct fake *fake = begin_range("skylake", VPT_ADDR_CFG_FILTER, 0x401000, 0x401fff, TRACED);

    vpt_jmp_indirect(&fake->cpu, 0x412345);
    BYTES(fake, 0x41, 0x45, 0x23, 0x41, 0x00);
    fake = begin("skylake", OS | BRANCHEN);
    transfer(fake, VPT_FAR_BRANCH, at_cpl(3));
    BYTES(fake, 0x01);
}
static void ip_fup(void)
{
    struct fake *fake = begin("skylake", TRACED);

    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    BYTES(fake, 0x3d, 0x10, 0x10, 0x2d, 0x00, 0x20);
}
static void pip(void)
{
    struct fake *fake = all(OS);

    vpt_mov_cr3(&fake->cpu, 0x000abcdef1234fff, SOURCE);
    BYTES(fake, 0x02, 0x43, 0x00, 0x34, 0x12, 0xef, 0xcd, 0xab);
    fake = all(OS);
    fake->cpu.vmx_nonroot = true;
    fake->cpu.ctx.pae = true;
    vpt_mov_cr3(&fake->cpu, 0x12345fff, SOURCE);
    BYTES(fake, 0x02, 0x43, 0xff, 0x45, 0x23, 0x01, 0x00, 0x00);
}
static void mode_exec(void)
{
    struct fake *fake = all(TRACED);

    transfer(fake, VPT_FAR_BRANCH, in_mode(VPT_EXEC_32));
    BYTES(fake, 0x99, 0x02, 0x2d, 0x00, 0x20);
    fake = all(TRACED);
    transfer(fake, VPT_FAR_BRANCH, in_mode(VPT_EXEC_16));
    BYTES(fake, 0x99, 0x00, 0x2d, 0x00, 0x20);
    fake = all(OS | VPT_CTL_EVENTEN);
    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    BYTES(fake, 0x99, 0x05, 0x7d, 0x10, 0x10, 0x40, 0x00, 0x00, 0x00);
}
static void mode_tsx(void)
{
    struct fake *fake = all(TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    vpt_tx_abort(&fake->cpu, SOURCE + 1, SOURCE + 2);
    BYTES(fake, 0x99, 0x21, 0x3d, 0x10, 0x10, 0x99, 0x22, 0x3d, 0x11, 0x10, 0x2d, 0x12, 0x10);
    fake = all(TRACED);
    vpt_tx_begin(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_tx_commit(&fake->cpu, SOURCE);
    BYTES(fake, 0x99, 0x20, 0x3d, 0x10, 0x10);
}
static void tracestop(void)
{
    struct fake *fake =
        begin_range("skylake", VPT_ADDR_CFG_TRACESTOP, 0x500000, 0x500fff, OS | USER);

    vpt_jmp_indirect(&fake->cpu, 0x500000);
    BYTES(fake, 0x02, 0x83);
}
static void cbr(void)
{
    struct fake *fake = all(OS);

    vpt_set_core_ratio(&fake->cpu, 0xab);
    BYTES(fake, 0x02, 0x03, 0xab, 0x00);
}
static void tsc_tma(void)
{
    struct fake *fake = all(OS | VPT_CTL_TSCEN | VPT_CTL_MTCEN);

    fake->clocks = (struct vpt_clocks){.tsc = 0x1122334455667788, .art = 0, .fast = 0x1ab};
    fake->clocks.art = 0;
    vpt_set_core_ratio(&fake->cpu, 9);
    BYTES(fake, 0x19, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x02, 0x73, 0x00, 0x00, 0x00, 0xab,
          0x01, 0x02, 0x03, 0x09, 0x00);
}
static void tma_ctc(void)
{
    struct fake *fake = all(OS | VPT_CTL_TSCEN | VPT_CTL_MTCEN);
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER, .core_ratio = 9};

    fake->clocks = (struct vpt_clocks){.tsc = 1, .art = 0x654321, .fast = 0x0cd};
    vpt_power_exit(&fake->cpu, &wake);
    BYTES(fake, 0x19, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x73, 0x21, 0x43, 0x00, 0xcd,
          0x00, 0x02, 0x03, 0x09, 0x00);
}
static void mtc(void)
{
    struct fake *fake = all(OS | VPT_CTL_MTCEN | 3ull << VPT_CTL_MTCFREQ_SHR);

    fake->clocks.art = 0xfaull << 3;
    vpt_time(&fake->cpu);
    BYTES(fake, 0x59, 0xfa);
}
static void vmcs(void)
{
    struct fake *fake = all(OS);

    vpt_vmptrld(&fake->cpu, 0x000abcdef1234000);
    BYTES(fake, 0x02, 0xc8, 0x34, 0x12, 0xef, 0xcd, 0xab);
}
static void ovf(void)
{
    struct fake *fake = all(OS);
    size_t at;

    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; !fake->cpu.overflow && i < 200; i++)
        vpt_maintenance(&fake->cpu, i);
    at = fake->cpu.buf_len;
    vpt_stall(&fake->cpu, false);
    vpt_maintenance(&fake->cpu, 1);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_len > fake->mark + at + 1 && fake->tap[fake->mark + at] == 0x02 &&
              fake->tap[fake->mark + at + 1] == 0xf3,
          "OVF");
    end_quietly(fake);
}
static void psb(void)
{
    struct fake *fake = all(0);

    fake->mark = 0;
    BYTES(fake, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
          0x02, 0x82, 0x02, 0x03, 0x18, 0x00, 0x02, 0x23);
}
static void mnt(void)
{
    struct fake *fake = all(OS);

    vpt_maintenance(&fake->cpu, 0x0123456789abcdef);
    BYTES(fake, 0x02, 0xc3, 0x88, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01);
}
static void ptw(void)
{
    struct fake *fake = all(OS | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW);

    vpt_ptwrite(&fake->cpu, 0x0123456789abcdef, 4, SOURCE);
    vpt_ptwrite(&fake->cpu, 0x0123456789abcdef, 8, SOURCE);
    BYTES(fake, 0x02, 0x92, 0xef, 0xcd, 0xab, 0x89, 0x7d, 0x10, 0x10, 0x40, 0x00, 0x00, 0x00, 0x02,
          0xb2, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 0x3d, 0x10, 0x10);
}
static void power(void)
{
    const struct vpt_power_entry sleep = {
        .ip = SOURCE, .mwait = true, .hints = 0xa5, .ext = 2, .state = 0x64};
    const struct vpt_power_entry deeper = {.ip = SOURCE, .hw = true, .state = 0x70};
    const struct vpt_power_exit wake = {
        .last_core_state = 3, .deepest_core_state = 12, .reason = VPT_WAKE_STORE, .core_ratio = 9};
    struct fake *fake = all(OS | VPT_CTL_PWREVTEN);

    vpt_power_entry(&fake->cpu, &sleep);
    vpt_power_entry(&fake->cpu, &deeper);
    vpt_power_exit(&fake->cpu, &wake);
    BYTES(fake, 0x02, 0xc2, 0xa5, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x22, 0x00, 0x64,
          0x02, 0xe2, 0x7d, 0x10, 0x10, 0x40, 0x00, 0x00, 0x00, 0x02, 0x22, 0x80, 0x70, 0x02, 0x03,
          0x09, 0x00, 0x02, 0xa2, 0x3c, 0x04, 0x00, 0x00, 0x00);
    fake = all(USER | VPT_CTL_PWREVTEN);
    vpt_exec_stop(&fake->cpu, SOURCE);
    BYTES(fake, 0x02, 0x62);
}
static void blocks(void)
{
    static const struct vpt_block_item items[] = {{0x1f, 0x1122334455667788}};
    const struct vpt_block two[] = {
        {.type = 0x10, .count = 1, .items = items},
        {.type = 4, .four_byte_items = true, .count = 1, .items = items}};
    struct fake *fake = all(USER);

    vpt_pebs(&fake->cpu, two, 2, SOURCE);
    BYTES(fake, 0x02, 0x63, 0x10, 0xfc, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x02, 0x63,
          0x84, 0xfc, 0x88, 0x77, 0x66, 0x55, 0x02, 0x33);
    fake = all(OS);
    vpt_pebs(&fake->cpu, two, 0, SOURCE);
    vpt_pebs(&fake->cpu, two + 1, 1, SOURCE);
    BYTES(fake, 0x02, 0x63, 0x84, 0xfc, 0x88, 0x77, 0x66, 0x55, 0x02, 0xb3, 0x7d, 0x10, 0x10, 0x40,
          0x00, 0x00, 0x00);
}
static void cfe_evd(void)
{
    const struct vpt_transfer fault = {.type = VPT_FAULT,
                                       .vector = 14,
                                       .ip = SOURCE,
                                       .target = TARGET,
                                       .cr2 = 0x1122334455667788,
                                       .after = at_cpl(0)};
    struct fake *fake = all(OS | VPT_CTL_EVENTEN);

    vpt_transfer(&fake->cpu, &fault);
    BYTES(fake, 0x02, 0x53, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x02, 0x13, 0x81,
          0x0e, 0x7d, 0x10, 0x10, 0x40, 0x00, 0x00, 0x00);
}

static const struct rule formats[] = {
    {"33-16 TNT, short", "oldest result on top, below the stop bit", TEST(tnt_short)},
    {"33-16 TNT, long", "48 bits, the stop bit above the oldest", TEST(tnt_long)},
    {"33-17 TIP", "IPBytes, 01101b", TEST(ip_tip)},
    {"33-20 TIP.PGE", "IPBytes, 10001b", TEST(ip_pge)},
    {"33-21 TIP.PGD", "IPBytes, 00001b", TEST(ip_pgd)},
    {"33-22 FUP", "IPBytes, 11101b", TEST(ip_fup)},
    {"33-24 PIP", "02H 43H, NR, CR3[51:5]", TEST(pip)},
    {"33-25, 33-26 MODE.Exec", "99H, leaf 0: IF, CS.D, CS.L", TEST(mode_exec)},
    {"33-25, 33-27 MODE.TSX", "99H, leaf 1: TXAbort, InTX", TEST(mode_tsx)},
    {"33-28 TraceStop", "02H 83H", TEST(tracestop)},
    {"33-29 CBR", "02H 03H, ratio", TEST(cbr)},
    {"33-30 TSC, 33-32 TMA", "19H and 7 bytes; 02H 73H, CTC, FC", TEST(tsc_tma)},
    {"33-32 TMA, CTC", "16 bits of the ART", TEST(tma_ctc)},
    {"33-31 MTC", "59H, 8 bits", TEST(mtc)},
    {"33-34 VMCS", "02H C8H, bits 51:12", TEST(vmcs)},
    {"33-35 OVF", "02H F3H", TEST(ovf)},
    {"33-36 PSB, 33-37 PSBEND", "02H 82H, eight times; 02H 23H", TEST(psb)},
    {"33-38 MNT", "02H C3H 88H, 8 bytes", TEST(mnt)},
    {"33-40 PTW", "02H, IP, PayloadBytes, 10010b", TEST(ptw)},
    {"33-41 to 33-44", "EXSTOP, MWAIT, PWRE, PWRX", TEST(power)},
    {"33-45, 33-46, 33-48", "BBP, BIP, BEP", TEST(blocks)},
    {"33-49, 33-51", "CFE, EVD", TEST(cfe_evd)},
    {0},
};

const struct table format_tables[] = {
    {"33.4.2 formats", "The bytes of each packet", 0, formats},
    {0},
};
