/* SPDX-License-Identifier: BSD-3-Clause */
/* How packets relate: TSX, cycles, compound events, blocks, deferred TIPs, FUPs (33.2.9 to 33.4.2).
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Table 33-10 ---------------------------------------------------------------------------- */

static struct fake *tsx(uint64_t ctl)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    fake_start(fake, ctl);
    return fake;
}

static void tsx_begin(void)
{
    struct fake *fake = tsx(TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    END(fake, "TSX(1) FUP(401010)");
}
static void tsx_commit(void)
{
    struct fake *fake = tsx(TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_tx_commit(&fake->cpu, SOURCE + 8);
    END(fake, "TSX(0) FUP(401018)");
}
static void tsx_abort(void)
{
    struct fake *fake = tsx(TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_tx_abort(&fake->cpu, SOURCE + 8, TARGET);
    END(fake, "TSX(2) FUP(401018) TIP(402000)");
}
static void tsx_other(void)
{
    struct fake *fake = tsx(TRACED);

    vpt_tx_commit(&fake->cpu, SOURCE);
    vpt_tx_begin(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_tx_begin(&fake->cpu, SOURCE + 4);
    END(fake, "");
}

static const struct rule table_10[] = {
    {"begin", "MODE.TSX with InTX, FUP of the instruction", TEST(tsx_begin)},
    {"commit", "MODE.TSX without InTX, FUP of the instruction", TEST(tsx_commit)},
    {"abort", "MODE.TSX with TXAbort, FUP, TIP of where it goes on", TEST(tsx_abort)},
    {"other", "nothing where the mode does not change", TEST(tsx_other)},
    {0},
};

/* ---- Table 33-13 ---------------------------------------------------------------------------- */

/* The eight operations, of which the last is that of the row; threshold 0, 16, 32 and 64. */
static void cycles(unsigned row, const char *const patterns[4])
{
    static const unsigned fields[4] = {0, 5, 6, 7}; /* 16 is 2^(5-1) */
    static const unsigned at[8] = {0, 9, 15, 30, 38, 46, 64, 71};
    struct vpt_caps caps = rich_caps();

    for (unsigned i = 0; i < 4; i++) {
        struct fake *fake = fake_open_caps(&caps);
        uint64_t start = 1000000;

        fake->clocks.cycles = 1;
        fake_start(fake, TRACED | VPT_CTL_CYCEN | (uint64_t)fields[i] << VPT_CTL_CYCTHRESH_SHR);
        for (unsigned n = 0; n < row; n++) {
            fake->clocks.cycles = start + at[n];
            if (n + 1 == row)
                fake_mark(fake);
            if (n == 4)
                vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
            else
                vpt_jmp_indirect(&fake->cpu, TARGET + 16 * n);
        }
        END(fake, patterns[i]);
    }
}

static void cyc_1(void)
{
    cycles(1, (const char *const[4]){"CYC(999999) TIP(402000)", "CYC(999999) TIP(402000)",
                                     "CYC(999999) TIP(402000)", "CYC(999999) TIP(402000)"});
}
static void cyc_2(void)
{
    cycles(2, (const char *const[4]){"CYC(9) TIP(402010)", "TIP(402010)", "TIP(402010)",
                                     "TIP(402010)"});
}
static void cyc_3(void)
{
    cycles(3, (const char *const[4]){"CYC(6) TIP(402020)", "TIP(402020)", "TIP(402020)",
                                     "TIP(402020)"});
}
static void cyc_4(void)
{
    cycles(4, (const char *const[4]){"CYC(15) TIP(402030)", "CYC(30) TIP(402030)", "TIP(402030)",
                                     "TIP(402030)"});
}
static void cyc_5(void)
{
    cycles(5, (const char *const[4]){"CYC(8) PIP(5000)", "PIP(5000)", "CYC(38) PIP(5000)",
                                     "PIP(5000)"});
}
static void cyc_6(void)
{
    cycles(6, (const char *const[4]){"CYC(8) TIP(402050)", "CYC(16) TIP(402050)", "TIP(402050)",
                                     "TIP(402050)"});
}
static void cyc_7(void)
{
    cycles(7, (const char *const[4]){"CYC(18) TIP(402060)", "CYC(18) TIP(402060)", "TIP(402060)",
                                     "CYC(64) TIP(402060)"});
}
static void cyc_8(void)
{
    cycles(8, (const char *const[4]){"CYC(7) TIP(402070)", "TIP(402070)", "CYC(33) TIP(402070)",
                                     "TIP(402070)"});
}

static const struct rule table_13[] = {
    {"x", "CYC with every threshold", TEST(cyc_1)},
    {"x + 9", "CYC with threshold 0 only", TEST(cyc_2)},
    {"x + 15", "CYC with threshold 0 only", TEST(cyc_3)},
    {"x + 30", "CYC with thresholds 0 and 16", TEST(cyc_4)},
    {"x + 38", "CYC before the PIP with thresholds 0 and 32", TEST(cyc_5)},
    {"x + 46", "CYC with thresholds 0 and 16", TEST(cyc_6)},
    {"x + 64", "CYC with thresholds 0, 16 and 64", TEST(cyc_7)},
    {"x + 71", "CYC with thresholds 0 and 32", TEST(cyc_8)},
    {0},
};

/* ---- Table 33-14 ---------------------------------------------------------------------------- */

static void compound_transfer(void)
{
    struct fake *fake = begin("skylake", TRACED);
    struct vpt_context after = in_mode(VPT_EXEC_32);

    after.cr3 = 0x5000;
    transfer(fake, VPT_FAR_BRANCH, after);
    END(fake, "PIP(5000) MODE(32) TIP(402000)");
    fake = begin("skylake", TRACED);
    transfer(fake, VPT_INTERRUPT, after);
    END(fake, "FUP(401010) PIP(5000) MODE(32) TIP(402000)");
    fake = begin("skylake", OS | BRANCHEN);
    transfer(fake, VPT_INTERRUPT, at_cpl(3));
    END(fake, "FUP(401010) PGD()");
}
static void compound_tsx(void)
{
    struct fake *fake = tsx(TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    vpt_tx_abort(&fake->cpu, SOURCE + 4, TARGET);
    END(fake, "TSX(1) FUP(401010) TSX(2) FUP(401014) TIP(402000)");
}

static const char *after_overflow(uint64_t ctl)
{
    struct fake *fake = begin("skylake", ctl);
    static char words[4096];
    const char *found;

    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 4000);
    vpt_set_core_ratio(&fake->cpu, 20);
    for (unsigned i = 0; i < 400; i++)
        vpt_set_core_ratio(&fake->cpu, 20);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, 0x405000);
    transfer(fake, VPT_IRET, at_cpl(3));
    found = strstr(fake_words(fake, false), "OVF");
    snprintf(words, sizeof(words), "%s", found ? found : "no OVF");
    fake_stop(fake);
    fake_close(fake);
    return words;
}
static void compound_overflow(void)
{
    const char *words = after_overflow(TRACED);

    CHECK(words_match("OVF FUP(405000) PSB+ TIP(402000)", words), "in context: %s", words);
    words = after_overflow(USER | BRANCHEN);
    CHECK(words_match("OVF PSB+ MODE(64) PGE(402000)", words), "out of context: %s", words);
}

static const struct rule table_14[] = {
    {"transfer", "FUP if asynchronous; PIP and MODE.Exec in the middle; TIP or TIP.PGD at the end",
     TEST(compound_transfer)},
    {"TSX", "MODE.TSX, FUP; TIP for an abort", TEST(compound_tsx)},
    {"overflow", "OVF, then FUP in context, TIP.PGE out of it", TEST(compound_overflow)},
    {0},
};

/* ---- Table 33-15 ---------------------------------------------------------------------------- */

#define STOPS 0x700000ull

/* Everything that Table 33-15 forbids, some of it just before a block and due after it. */
static void near_block(struct fake *fake, unsigned i)
{
    const struct vpt_power_entry sleep = {.ip = SOURCE, .mwait = true, .state = 0x20};
    struct vpt_context ctx = in_mode(i & 1 ? VPT_EXEC_32 : VPT_EXEC_64);

    vpt_cond_branch(&fake->cpu, 0x401020 + i, i & 1);
    vpt_jmp_indirect(&fake->cpu, 0x401000 + 64 * i);
    vpt_cond_branch(&fake->cpu, 0x401020 + i, i & 1); /* a TNT that is not full */
    switch (i % 8) {
    case 0:
        vpt_ptwrite(&fake->cpu, i, 8, SOURCE);
        break;
    case 1:
        vpt_tx_begin(&fake->cpu, SOURCE);
        break;
    case 2:
        vpt_tx_abort(&fake->cpu, SOURCE, TARGET);
        break;
    case 3:
        vpt_power_entry(&fake->cpu, &sleep);
        vpt_power_exit(&fake->cpu, &(struct vpt_power_exit){.reason = VPT_WAKE_TIMER});
        break;
    case 4:
        vpt_vmptrld(&fake->cpu, 0x1000 * i);
        break;
    case 5:
        ctx.cr3 = 0x1000 * i;
        transfer(fake, VPT_INTERRUPT, ctx);
        break;
    case 6:
        ctx.enclave = true;
        transfer(fake, VPT_ENCLAVE, ctx);
        break;
    default:
        transfer(fake, VPT_ENCLAVE, ctx);
        break;
    }
}
static void stop_and_resume(struct fake *fake)
{
    const uint64_t ctl = fake_read(fake, VPT_MSR_CTL);
    const struct vpt_context ctx = at_cpl(0);

    vpt_jmp_indirect(&fake->cpu, STOPS);
    fake_stop(fake);
    fake_write(fake, VPT_MSR_STATUS, 0);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl);
}
static struct fake *blocks(unsigned count)
{
    static const struct vpt_block_item items[] = {{0, 1}, {1, 2}};
    const struct vpt_block two[] = {{.type = 4, .count = 2, .items = items},
                                    {.type = 1, .count = 2, .items = items}};
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;

    caps.tsx = caps.long_tnt = caps.deferred_tips = true;
    fake = fake_open_caps(&caps);
    vpt_vmxon(&fake->cpu, 0x400000);
    fake_write(fake, VPT_MSR_ADDR0_A, STOPS);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, STOPS);
    fake_start(fake, TRACED | VPT_CTL_CYCEN | VPT_CTL_MTCEN | VPT_CTL_TSCEN | VPT_CTL_EVENTEN |
                         VPT_CTL_PTWEN | VPT_CTL_PWREVTEN |
                         (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR);
    for (unsigned i = 0; i < count; i++) {
        fake->clocks.cycles += 300;
        fake->clocks.art++;
        near_block(fake, i);
        vpt_pebs(&fake->cpu, two, 2, SOURCE);
        if (i % 100 == 99)
            stop_and_resume(fake);
    }
    fake_stop(fake);
    return fake;
}

/* Each of these kinds is there, but in no block. */
static void not_in_block(const enum packet_kind *kinds, size_t count)
{
    struct fake *fake = blocks(700);
    unsigned ends = 0, seen[PACKET_BEP + 1] = {0};
    bool inside = false;
    struct reader reader;
    struct packet packet;

    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (packet.kind == PACKET_BBP || packet.kind == PACKET_BEP) {
            inside = packet.kind == PACKET_BBP;
            ends += !inside;
        }
        seen[packet.kind]++;
        for (size_t i = 0; i < count; i++)
            CHECK(!inside || packet.kind != kinds[i], "a packet of kind %d at %zu",
                  (int)packet.kind, packet.offset);
    }
    for (size_t i = 0; i < count; i++)
        CHECK(seen[kinds[i]] > 0, "no packet of kind %d at all", (int)kinds[i]);
    CHECK(!reader.bad && ends == 700, "%u blocks", ends);
    fake_close(fake);
}
#define NOT_IN_BLOCK(...)                                                                          \
    do {                                                                                           \
        const enum packet_kind kinds[] = {__VA_ARGS__};                                            \
                                                                                                   \
        not_in_block(kinds, sizeof(kinds) / sizeof(kinds[0]));                                     \
    } while (0)

static void no_tnt(void)
{
    NOT_IN_BLOCK(PACKET_TNT);
}
static void no_tip(void)
{
    NOT_IN_BLOCK(PACKET_TIP, PACKET_PGE, PACKET_PGD);
}
static void no_mode(void)
{
    NOT_IN_BLOCK(PACKET_EXEC, PACKET_TSX);
}
static void no_pip(void)
{
    NOT_IN_BLOCK(PACKET_PIP, PACKET_VMCS);
}
static void no_stop(void)
{
    NOT_IN_BLOCK(PACKET_STOP);
}
static void no_psb(void)
{
    NOT_IN_BLOCK(PACKET_PSB, PACKET_PSBEND);
}
static void no_ptw(void)
{
    NOT_IN_BLOCK(PACKET_PTW);
}
static void no_mwait(void)
{
    NOT_IN_BLOCK(PACKET_MWAIT);
}

static const struct rule table_15[] = {
    {"TNT", "not in a block", TEST(no_tnt)},
    {"TIP, TIP.PGE, TIP.PGD", "not in a block", TEST(no_tip)},
    {"MODE.Exec, MODE.TSX", "not in a block", TEST(no_mode)},
    {"PIP, VMCS", "not in a block", TEST(no_pip)},
    {"TraceStop", "not in a block", TEST(no_stop)},
    {"PSB, PSBEND", "not in a block", TEST(no_psb)},
    {"PTW", "not in a block", TEST(no_ptw)},
    {"MWAIT", "not in a block", TEST(no_mwait)},
    {0},
};

/* ---- Table 33-19 ---------------------------------------------------------------------------- */

/* The three pieces of code, up to the one that is asked for. */
static void tips(bool deferred, unsigned pieces, const char *pattern)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;
    struct vpt_context same = context_of(0);

    caps.deferred_tips = deferred;
    fake = fake_open_caps(&caps);
    fake_start(fake, TRACED);
    vpt_cond_branch(&fake->cpu, 0x1008, false);
    vpt_jmp_indirect(&fake->cpu, 0x1308);
    if (pieces > 1) {
        if (!deferred)
            fake_mark(fake);
        vpt_cond_branch(&fake->cpu, 0x1310, false);
        vpt_cond_branch(&fake->cpu, 0x1500, true);
        vpt_cond_branch(&fake->cpu, 0x1508, false);
        vpt_jmp_indirect(&fake->cpu, 0x1100);
    }
    if (pieces > 2) {
        if (!deferred)
            fake_mark(fake);
        vpt_cond_branch(&fake->cpu, 0x1108, false);
        fake_transfer(fake, VPT_INTERRUPT, 0x110c, 0xcc00, &same);
    }
    END(fake, pattern);
}
static void tips_1(void)
{
    tips(false, 1, "TNT(N) TIP(1308)");
}
static void tips_2(void)
{
    tips(false, 2, "TNT(NTN) TIP(1100)");
}
static void tips_3(void)
{
    tips(false, 3, "TNT(N) FUP(110c) TIP(cc00)");
    tips(true, 3, "TNT(NNTNN) TIP(1308) TIP(1100) FUP(110c) TIP(cc00)");
}

static const struct rule table_19[] = {
    {"1", "not deferred: TNT and TIP at the first indirect jump", TEST(tips_1)},
    {"2", "not deferred: TNT and TIP at the second", TEST(tips_2)},
    {"3", "not deferred: TNT, FUP, TIP; deferred: one TNT, all TIPs, FUP, TIP", TEST(tips_3)},
    {0},
};

/* ---- Table 33-23 ---------------------------------------------------------------------------- */

/*
 * The type says which address the owner gives (vpt.h); the FUP is this one, in every form, and
 * never the target or what ran before. With Event Trace alone it is the same.
 */
static void fup(enum vpt_transfer_type type)
{
    static const struct {
        uint64_t ip;
        const char *shown;
    } ips[] = {{SOURCE, "FUP(401010)"},
               {0x7f1234567890, "FUP(7f1234567890)"},
               {0xffffffff81000123, "FUP(ffffffff81000123)"},
               {0x800000000000, "FUP(800000000000)"}}; /* not canonical: fetched in sequence */
    static const uint64_t ctls[] = {TRACED, OS | USER | VPT_CTL_EVENTEN};

    for (size_t i = 0; i < sizeof(ips) / sizeof(ips[0]); i++)
        for (size_t n = 0; n < 2; n++) {
            struct fake *fake = begin("gracemont", ctls[n]);
            const struct vpt_context same = at_cpl(0);
            const char *words, *found;

            if (n == 1 && type == VPT_ENCLAVE) { /* no event */
                end_quietly(fake);
                continue;
            }
            vpt_jmp_indirect(&fake->cpu, 0x401ff0); /* what ran before */
            fake_mark(fake);
            fake_transfer(fake, type, ips[i].ip, TARGET, &same);
            words = fake_words(fake, false);
            found = strstr(words, "FUP(");
            CHECK(found && strncmp(found, ips[i].shown, strlen(ips[i].shown)) == 0, "%s", words);
            CHECK(found && !strstr(found + 1, "FUP("), "one FUP: %s", words);
            CHECK((strstr(words, "TIP(402000)") != NULL) == (n == 0), "TIP: %s", words);
            end_quietly(fake);
        }
}
/* A RIP where the processor says so. */
static void fup_rip(enum vpt_transfer_type type)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context ctx = in_mode(VPT_EXEC_32), after = in_mode(VPT_EXEC_32);

    ctx.cs_base = 0x10000;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    after.cs_base = 0x200000;
    transfer(fake, type, after);
    SO_FAR(fake, "FUP(3f1010) TIP(202000)");
    end_quietly(fake);
}
static void fup_interrupt(void)
{
    struct fake *fake = begin("skylake", TRACED);

    transfer(fake, VPT_INIT_WAIT, at_cpl(0));
    END(fake, "FUP(401010) PGD()");
    fup(VPT_INTERRUPT);
    fup(VPT_TRAP);
    fup(VPT_INIT);
    fup_rip(VPT_INTERRUPT);
}
static void fup_fault(void)
{
    fup(VPT_FAULT);
    fup_rip(VPT_FAULT);
}
static void fup_soft(void)
{
    fup(VPT_SOFT_INTERRUPT);
}
static void fup_enclave(void)
{
    fup(VPT_ENCLAVE);
}
static void fup_smi(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_smi(&fake->cpu, SOURCE);
    END(fake, "FUP(401010) PGD()");
}
static void fup_wrmsr(void)
{
    struct fake *fake = begin("skylake", TRACED);
    const char *words;

    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, 0, SOURCE, SOURCE + 2) == VPT_OK, "WRMSR");
    words = fake_words(fake, false);
    CHECK(words_match("FUP(401010) PGD()", words), "the WRMSR, not what follows: %s", words);
    fake_close(fake);
    fake = begin("skylake", TRACED);
    for (unsigned i = 0; i < 500; i++)
        vpt_jmp_indirect(&fake->cpu, 0x7f0000000000 + 0x10001 * i);
    words = strstr(fake_words(fake, true), "PSB ");
    CHECK(words != NULL, "a PSB+");
    if (words) {
        const char *fup_word = strstr(words, "FUP("), *tip;
        uint64_t in_psb = fup_word ? strtoull(fup_word + 4, NULL, 16) : 0, next;

        tip = strstr(words, "PSBEND TIP(");
        next = tip ? strtoull(tip + 11, NULL, 16) : 0;
        CHECK(in_psb && next == in_psb + 0x10001, "PSB+: the instruction that runs next");
    }
    fake_stop(fake);
    fake_close(fake);
}

static const struct rule table_23[] = {
    {"interrupts, traps, INIT", "the next instruction", TEST(fup_interrupt)},
    {"faults", "the instruction that faulted", TEST(fup_fault)},
    {"software interrupt", "the instruction itself", TEST(fup_soft)},
    {"EENTER, EEXIT, ERESUME, EEE, AEX", "the instruction itself", TEST(fup_enclave)},
    {"XACQUIRE", "the instruction itself", TEST(tsx_begin)},
    {"XRELEASE, XBEGIN, XEND, XABORT, aborts", "the instruction itself", TEST(tsx_abort)},
    {"SMI", "what SMRAM has", TEST(fup_smi)},
    {"WRMSR that clears TraceEn, PSB+", "the current instruction", TEST(fup_wrmsr)},
    {0},
};

const struct table packet_tables[] = {
    {"33-10", "TSX packet scenarios with BranchEn = 1", 4, table_10},
    {"33-13", "CYC packets by threshold", 8, table_13},
    {"33-14", "Compound packet events", 3, table_14},
    {"33-15", "Packets forbidden between BBP and BEP", 8, table_15},
    {"33-19", "TNT with deferred TIPs", 3, table_19},
    {"33-23", "FUP cases and IP payload", 8, table_23},
    {0},
};
