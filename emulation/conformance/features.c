/* SPDX-License-Identifier: BSD-3-Clause */
/* Intel PT and other features of the processor (33.2.9). */
#include "conformance.h"

#include <string.h>

#define FIRST 0x500000ull
#define LAST  0x500fffull

/* ---- TSX ------------------------------------------------------------------------------------ */

static struct fake *tsx_range(unsigned cfg, uint64_t ctl)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    fake_write(fake, VPT_MSR_ADDR0_A, FIRST);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, LAST);
    fake_start(fake, ctl | (uint64_t)cfg << VPT_CTL_ADDR_CFG_SHR);
    return fake;
}
static void tsx_goes_on(void)
{
    struct fake *fake = tsx_range(VPT_ADDR_CFG_UNUSED, TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    vpt_cond_branch(&fake->cpu, SOURCE + 4, true);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_flush(&fake->cpu);
    vpt_tx_abort(&fake->cpu, TARGET + 4, SOURCE + 8);
    END(fake, "TSX(1) FUP(401010) TNT(T) TIP(402000) TSX(2) FUP(402004) TIP(401018)");
}
static void tsx_filtered(void)
{
    struct fake *fake = tsx_range(VPT_ADDR_CFG_FILTER, TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    SO_FAR(fake, "TSX(1)");
    vpt_jmp_indirect(&fake->cpu, FIRST);
    SO_FAR(fake, "MODE(64) PGE(500000)");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_tx_commit(&fake->cpu, TARGET);
    SO_FAR(fake, "PGD(402000) TSX(0)");
    vpt_tx_begin(&fake->cpu, SOURCE);
    vpt_tx_abort(&fake->cpu, SOURCE, TARGET);
    END(fake, "TSX(1) TSX(2)");
}

static const struct rule section_tsx[] = {
    {"speculation", "packets appear as instructions complete, and an abort takes none back",
     TEST(tsx_goes_on)},
    {0},
};
static const struct rule section_tsx_filter[] = {
    {"FilterEn = 0", "MODE.TSX without FUP; the last one before TIP.PGE tells", TEST(tsx_filtered)},
    {0},
};

/* ---- SMM ------------------------------------------------------------------------------------ */

static void smm_secret(void)
{
    struct fake *fake = begin("skylake", TRACED);
    const struct vpt_context back = at_cpl(0);
    struct vpt_context handler = at_cr3(0x77000);
    size_t before;

    vpt_cond_branch(&fake->cpu, SOURCE, true);
    CHECK(vpt_smi(&fake->cpu, SOURCE), "TraceEn, for SMRAM");
    SO_FAR(fake, "TNT(T) FUP(401010) PGD()");
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "TraceEn is cleared");
    CHECK(fake->cpu.buf_len == 0, "everything is flushed");
    before = fake->tap_total;
    vpt_set_context(&fake->cpu, &handler);
    vpt_jmp_indirect(&fake->cpu, 0x9000);
    vpt_mov_cr3(&fake->cpu, 0x78000, 0x9003);
    fake_transfer(fake, VPT_INTERRUPT, 0x9003, 0xa000, &handler);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == before, "nothing of the handler");
    CHECK(vpt_rsm(&fake->cpu, true, SOURCE, &back), "RSM");
    CHECK(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN, "TraceEn is restored");
    END(fake, "CBR(26) MODE(64) PGE(401010)");
}
static void smm_traceen(void)
{
    const struct vpt_context back = at_cpl(0);
    struct fake *fake = fake_open("skylake");

    CHECK(!vpt_smi(&fake->cpu, SOURCE), "TraceEn was 0");
    CHECK(vpt_rsm(&fake->cpu, false, SOURCE, &back), "RSM");
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "it stays 0");
    fake_close(fake);
}
static void smm_context(void)
{
    struct fake *fake = begin("skylake", OS | BRANCHEN);
    const struct vpt_context user = at_cpl(3), moved = at_cr3(0x5000);

    vpt_smi(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_rsm(&fake->cpu, true, SOURCE, &user);
    CHECK(!fake_status(fake, VPT_STATUS_CONTEXTEN), "ContextEn is looked at again");
    SO_FAR(fake, "CBR(26)");
    vpt_smi(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_rsm(&fake->cpu, true, SOURCE, &moved);
    END(fake, "CBR(26) MODE(64) PGE(401010)"); /* no PIP, though CR3 changed */
}
static void smm_shutdown(void)
{
    struct fake *fake = begin("skylake", TRACED);
    const struct vpt_context back = at_cpl(0);

    CHECK(!vpt_rsm(&fake->cpu, true, SOURCE, &back), "RSM with TraceEn = 1");
    CHECK(!vpt_rsm(&fake->cpu, false, SOURCE, &back), "whatever SMRAM says");
    END(fake, "");
}

static const struct rule section_smm[] = {
    {"SMI and RSM",
     "TraceEn is saved, cleared after a flush, and restored; nothing of the handler "
     "is seen",
     TEST(smm_secret)},
    {"without tracing", "TraceEn stays 0", TEST(smm_traceen)},
    {"context", "RSM has ContextEn evaluated; a new CR3 gives no PIP", TEST(smm_context)},
    {"shutdown", "RSM while TraceEn is 1", TEST(smm_shutdown)},
    {0},
};

/* ---- VMX ------------------------------------------------------------------------------------ */

static void vmx_old(void)
{
    struct fake *fake = begin("broadwell", TRACED);

    vpt_vmxon(&fake->cpu, SOURCE);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "VMXON clears TraceEn");
    SO_FAR(fake, "FUP(401010) PGD()");
    CHECK(wrmsr(fake, VPT_MSR_CTL, 0) == VPT_GP && wrmsr(fake, VPT_MSR_CTL, TRACED) == VPT_GP,
          "RTIT_CTL cannot be written");
    CHECK(reads(fake, VPT_MSR_CTL), "but read");
    vpt_vmxoff(&fake->cpu);
    CHECK(wrmsr(fake, VPT_MSR_CTL, TRACED) == VPT_OK, "until VMXOFF");
    fake_close(fake);
}
static void vmx_new(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_vmxon(&fake->cpu, SOURCE);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}

static const struct rule section_vmx[] = {
    {"VMX_MISC[14] = 0", "VMXON clears TraceEn, and RTIT_CTL cannot be written", TEST(vmx_old)},
    {"VMX_MISC[14] = 1", "tracing goes on", TEST(vmx_new)},
    {0},
};

/* ---- SGX ------------------------------------------------------------------------------------ */

static struct vpt_context in_enclave(bool production)
{
    struct vpt_context ctx = at_cpl(3);

    ctx.enclave = production;
    return ctx;
}
static void enclave_production(void)
{
    struct fake *fake = begin("gracemont", TRACED | VPT_CTL_EVENTEN | VPT_CTL_PTWEN);

    transfer(fake, VPT_ENCLAVE, in_enclave(true));
    SO_FAR(fake, "FUP(401010) PGD()");
    CHECK(!fake_status(fake, VPT_STATUS_CONTEXTEN), "ContextEn");
    vpt_jmp_indirect(&fake->cpu, TARGET + 8);
    vpt_cond_branch(&fake->cpu, TARGET + 16, true);
    vpt_ptwrite(&fake->cpu, 1, 8, TARGET);
    transfer(fake, VPT_FAULT, in_enclave(true));
    SO_FAR(fake, "");
    transfer(fake, VPT_ENCLAVE, at_cpl(3));
    CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN), "ContextEn is no longer forced");
    END(fake, "PGE(402000)");
}
static void enclave_exit(void)
{
    struct fake *fake = begin("gracemont", OS | BRANCHEN);

    transfer(fake, VPT_ENCLAVE, in_enclave(true));
    fake_mark(fake);
    transfer(fake, VPT_ENCLAVE, at_cpl(3));
    CHECK(!fake_status(fake, VPT_STATUS_CONTEXTEN), "User is 0: the other enables count");
    END(fake, "");
}
static void enclave_periodic(void)
{
    struct fake *fake = begin("gracemont", TRACED | VPT_CTL_MTCEN | VPT_CTL_TSCEN);
    const char *words;

    transfer(fake, VPT_ENCLAVE, in_enclave(true));
    fake_mark(fake);
    fake->clocks.art++;
    vpt_time(&fake->cpu);
    fake->clocks.tsc = 9;
    vpt_set_core_ratio(&fake->cpu, 7);
    SO_FAR(fake, "MTC(1) TSC(9) TMA(1,0) CBR(7)");
    for (unsigned i = 0; i < 300; i++)
        vpt_set_core_ratio(&fake->cpu, 7);
    words = strstr(fake_words(fake, true), "PSB ");
    CHECK(words != NULL, "PSB goes on");
    CHECK(words && !strstr(words, "PIP") && !strstr(words, "FUP") && !strstr(words, "MODE"),
          "and says nothing of the enclave");
    end_quietly(fake);
}
static void enclave_debug(void)
{
    struct fake *fake = begin("gracemont", TRACED);

    transfer(fake, VPT_ENCLAVE, in_enclave(false));
    CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN), "ContextEn");
    vpt_jmp_indirect(&fake->cpu, TARGET + 8);
    vpt_mov_cr3(&fake->cpu, 0x5000, TARGET);
    transfer(fake, VPT_ENCLAVE, at_cpl(3));
    END(fake, "FUP(401010) TIP(402000) TIP(402008) PIP(5000) FUP(401010) PIP(1000) TIP(402000)");
}

static const struct rule section_sgx[] = {
    {"production", "entry: ContextEn is 0, TIP.PGD, nothing of the flow; exit: TIP.PGE",
     TEST(enclave_production)},
    {"exit", "only if the other enables allow", TEST(enclave_exit)},
    {"inside", "timing packets and PSB go on, without any state", TEST(enclave_periodic)},
    {"debug", "tracing goes on", TEST(enclave_debug)},
    {0},
};

/* ---- GETSEC and MPX ------------------------------------------------------------------------- */

static void getsec(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_getsec(&fake->cpu, SOURCE);
    CHECK(fake_read(fake, VPT_MSR_CTL) == (TRACED | VPT_CTL_TOPA), "TraceEn is cleared");
    vpt_acm_end(&fake->cpu, TARGET);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "and not restored");
    fake_close(fake);
}
static void acm(void)
{
    struct fake *fake = begin("skylake", TRACED | VPT_CTL_TSCEN);

    vpt_cond_branch(&fake->cpu, SOURCE, true);
    vpt_acm_begin(&fake->cpu);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "TraceEn is cleared");
    SO_FAR(fake, "TNT(T)");
    fake->clocks.tsc = 0x99;
    vpt_acm_end(&fake->cpu, TARGET);
    CHECK(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN, "and restored");
    END(fake, "TSC(99) CBR(26)");
}
static void bounds(void)
{
    struct fake *fake = begin("skylake", TRACED);
    const struct vpt_transfer br = {
        .type = VPT_FAULT, .vector = 5, .ip = SOURCE, .target = TARGET, .after = at_cpl(0)};

    vpt_transfer(&fake->cpu, &br);
    END(fake, "FUP(401010) TIP(402000)");
}

static const struct rule section_getsec[] = {
    {"SENTER, ENTERACCS", "TraceEn is cleared for good", TEST(getsec)},
    {"module", "TraceEn is cleared without TIP.PGD and restored without TIP.PGE", TEST(acm)},
    {0},
};
static const struct rule section_mpx[] = {
    {"#BR", "as other exceptions: FUP, TIP", TEST(bounds)},
    {0},
};

const struct table feature_tables[] = {
    {"33.2.9.1", "TSX", 0, section_tsx},
    {"33.2.9.2", "TSX and IP filtering", 0, section_tsx_filter},
    {"33.2.9.3", "System management mode", 0, section_smm},
    {"33.2.9.4", "VMX", 0, section_vmx},
    {"33.2.9.5", "SGX", 0, section_sgx},
    {"33.2.9.6", "SENTER, ENTERACCS and modules", 0, section_getsec},
    {"33.2.9.7", "MPX", 0, section_mpx},
    {0},
};
