/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SMM (33.2.9.3; Table 33-56 cases 9 and 10, Table 33-59 cases 10 and 11), authenticated code
 * modules (33.2.9.6), enclaves (33.2.9.5; Table 33-55 case 17, Table 33-59 cases 17 to 19).
 */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

static void test_smi(void)
{
    static const struct {
        const char *rule;
        uint64_t ctl;
        const char *pattern;
    } cases[] = {
        {"Table 33-56 case 9", BRANCHES, "FUP(401010) PGD()"},
        {"PacketEn = 0", VPT_CTL_USER | VPT_CTL_BRANCHEN, ""},
        {"Table 33-59 case 10", VPT_CTL_OS | VPT_CTL_EVENTEN, "CFE(3,0)+ FUP(401010)"},
        {"case 10, shared FUP", BRANCHES | VPT_CTL_EVENTEN, "CFE(3,0) FUP(401010) PGD()"},
        {"ContextEn = 0", VPT_CTL_USER | VPT_CTL_EVENTEN, ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = fake_open("gracemont");
        const char *words;

        fake_start(fake, cases[i].ctl);
        CHECK(vpt_smi(&fake->cpu, 0x401010), "%s: TraceEn for SMRAM", cases[i].rule);
        CHECK(fake->cpu.buf_len == 0, "%s: packets are flushed before SMM", cases[i].rule);
        CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "%s: TraceEn", cases[i].rule);
        words = fake_words(fake, false);
        CHECK(words_match(cases[i].pattern, words), "%s: [%s]", cases[i].rule, words);
        CHECK(!vpt_smi(&fake->cpu, 0x401010), "%s: TraceEn 0 for SMRAM", cases[i].rule);
        fake_close(fake);
    }
}

static void test_rsm(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context smm = context_of(0), back = context_of(0);

    smm.cr3 = 0x77000;
    smm.exec_mode = VPT_EXEC_16;
    back.cr3 = 0x5000;
    fake_start(fake, BRANCHES | VPT_CTL_EVENTEN);
    vpt_smi(&fake->cpu, 0x401010);
    vpt_set_context(&fake->cpu, &smm);
    fake_mark(fake);
    CHECK(vpt_rsm(&fake->cpu, true, 0x401010, &back), "RSM");
    EXPECT(fake, "CBR(28) CFE(4,0) MODE(64) PGE(401010)",
           "Table 33-56 case 10, Table 33-59 case 11; no PIP (33.2.9.3)");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, BRANCHES | VPT_CTL_EVENTEN);
    vpt_smi(&fake->cpu, 0x401010);
    fake_mark(fake);
    CHECK(vpt_rsm(&fake->cpu, false, 0x401010, &back), "RSM");
    EXPECT(fake, "", "TraceEn was 0 in SMRAM");
    CHECK(fake->cpu.ctx.cr3 == 0x5000, "the context is that of RSM");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, BRANCHES);
    CHECK(!vpt_rsm(&fake->cpu, true, 0x401010, &back), "33.2.9.3: RSM with TraceEn shuts down");
    EXPECT(fake, "", "and nothing changes");
    fake_close(fake);
}

/* An SMI leaves VMX operation until RSM, whether or not something is traced. */
static void test_smi_in_guest(void)
{
    struct vpt_vm_entry entry = vmx_entry();
    struct vpt_context smm = context_of(0), back = context_of(0);
    const uint64_t ctl = BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN;

    for (unsigned traced = 0; traced < 2; traced++) {
        struct fake *fake = vmx_open("gracemont");
        const char *words;

        vpt_vmptrld(&fake->cpu, 0x12345000);
        vpt_vm_entry(&fake->cpu, &entry);
        if (traced)
            fake_write(fake, VPT_MSR_CTL, ctl);
        CHECK(vpt_smi(&fake->cpu, 0x600010) == traced, "TraceEn for SMRAM");
        CHECK(!vpt_smi(&fake->cpu, 0x600010), "SMIs do not nest");
        vpt_set_context(&fake->cpu, &smm);
        fake_write(fake, VPT_MSR_STATUS, 0);
        fake_mark(fake);
        fake_write(fake, VPT_MSR_CTL, ctl);
        words = fake_words(fake, true);
        CHECK(words_match("PSB PIP(1000) CBR(28) PSBEND MODE(64) PGE(401000)", words),
              "33.2.9.3: the handler's trace, %u: [%s]", traced, words);
        fake_write(fake, VPT_MSR_CTL, ctl & ~VPT_CTL_TRACEEN);
        fake_write(fake, VPT_MSR_STATUS, 0);
        fake_mark(fake);
        CHECK(vpt_rsm(&fake->cpu, true, 0x600010, &back), "RSM");
        words = fake_words(fake, true);
        CHECK(words_match("PSB PIP(1000,NR) VMCS(12345000) CBR(28) PSBEND MODE(64) PGE(600010)",
                          words),
              "33.2.9.3: back in the guest, %u: [%s]", traced, words);
        fake_close(fake);
    }
}

/* Out of context after RSM: no CFE.RSM (Table 33-59 case 11 has ContextEn = 1). */
static void test_rsm_out_of_context(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context user = context_of(3);

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_EVENTEN);
    vpt_smi(&fake->cpu, 0x401010);
    fake_mark(fake);
    vpt_rsm(&fake->cpu, true, 0x401010, &user);
    EXPECT(fake, "CBR(28)", "RSM to a context that is not traced");
    fake_close(fake);
}

static void test_getsec(void)
{
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_start(fake, BRANCHES);
    vpt_getsec(&fake->cpu, 0x401010);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "33.2.9.6: TraceEn");
    words = fake_words(fake, false);
    CHECK(words_match("FUP(401010)? PGD()?", words), "33.2.9.6: [%s]", words);
    fake_close(fake);
}

/* 33.2.9.6: no TIP.PGD, no TIP.PGE; timing packets at the end. */
static void test_acm(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES | VPT_CTL_TSCEN);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_acm_begin(&fake->cpu);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "TraceEn while the module runs");
    CHECK(!vpt_trigger_en(&fake->cpu), "TriggerEn while the module runs");
    fake->clocks.tsc = 0x4321;
    vpt_acm_end(&fake->cpu, 0x401012);
    CHECK(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN, "TraceEn is restored");
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    EXPECT(fake, "TNT(T) TSC(4321) CBR(26) TIP(402000)", "33.2.9.6");
    vpt_acm_begin(&fake->cpu);
    vpt_acm_end(&fake->cpu, 0x401012);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "TraceEn 0 stays 0");
    fake_close(fake);
}

/* The module may leave another configuration, which then holds as a whole. */
static void test_acm_changes_ctl(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BRANCHES | VPT_CTL_TOPA);
    vpt_acm_begin(&fake->cpu);
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_MTCEN);
    fake_mark(fake);
    vpt_acm_end(&fake->cpu, 0x401012);
    fake->clocks.art++;
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    EXPECT(fake, "CBR(* MTC(1) TIP(402000)", "MTCEn since the module");
    fake_close(fake);
}

/* No packet tells of the module, so PacketEn behind it is what it was: no branch was taken. */
static void test_acm_keeps_filter(void)
{
    const uint64_t filter = (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR;
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_ADDR0_A, 0x401000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x401fff);
    fake_start(fake, BRANCHES | filter);
    vpt_acm_begin(&fake->cpu);
    vpt_acm_end(&fake->cpu, 0x402002); /* code walked out of the range, which no branch told */
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, 0x401100);
    EXPECT(fake, "TIP(401100)", "33.2.9.6, 33.2.6.5");
    fake_close(fake);
}

/* 33.3.8: the FUP behind an OVF has the address of what runs next, not that of an old packet. */
static void test_acm_in_overflow(void)
{
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 4000);
    CHECK(fake->cpu.overflow, "an overflow");
    fake_mark(fake);
    vpt_acm_begin(&fake->cpu);
    vpt_acm_end(&fake->cpu, 0x401012);
    vpt_flush(&fake->cpu);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words && words_match("OVF FUP(401012) PSB+ CBR(26)?", words), "33.3.8: [%s]",
          words ? words : "no OVF");
    fake_stop(fake);
    fake_close(fake);
}

/* A production enclave is not in context; a debug enclave is like any code. */
static void test_enclave(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context inside = context_of(3), outside = context_of(3);

    inside.enclave = true;
    fake_start(fake, BRANCHES);
    fake_transfer(fake, VPT_ENCLAVE, 0x401010, 0x402000, &outside);
    EXPECT(fake, "FUP(401010) TIP(402000)", "Table 33-55 case 17: a debug enclave");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, BRANCHES);
    fake_transfer(fake, VPT_ENCLAVE, 0x401010, 0x402000, &inside);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    fake_transfer(fake, VPT_ENCLAVE, 0x403010, 0x401020, &outside);
    EXPECT(fake, "FUP(401010)? PGD() PGE(401020)", "33.2.9.5, Table 33-56 cases 5 and 6");
    fake_close(fake);
}

static void test_enclave_events(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context inside = context_of(3), kernel = context_of(0);
    struct vpt_transfer aex = {
        .type = VPT_INTERRUPT, .vector = 0x41, .ip = 0x401080, .target = KERNEL, .after = kernel};

    inside.enclave = true;
    fake_start(fake, VPT_CTL_USER | VPT_CTL_EVENTEN);
    fake_transfer(fake, VPT_ENCLAVE, 0x401010, 0x402000, &inside);
    vpt_transfer(&fake->cpu, &aex);
    EXPECT(fake, "", "Table 33-59 case 17");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_EVENTEN);
    fake_transfer(fake, VPT_ENCLAVE, 0x401010, 0x402000, &inside);
    vpt_transfer(&fake->cpu, &aex);
    EXPECT(fake, "CFE(1,41)", "Table 33-59 case 18");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_EVENTEN);
    vpt_transfer(&fake->cpu, &aex);
    EXPECT(fake, "CFE(1,41)+ FUP(401080)", "Table 33-59 case 19: a debug enclave");
    fake_close(fake);
}

void suite_smm(void)
{
    static const struct test tests[] = {
        {"SMI", test_smi},
        {"RSM", test_rsm},
        {"RSM out of context", test_rsm_out_of_context},
        {"GETSEC", test_getsec},
        {"authenticated code module", test_acm},
        {"a module that changes RTIT_CTL", test_acm_changes_ctl},
        {"a module behind the end of a range", test_acm_keeps_filter},
        {"a module in an overflow", test_acm_in_overflow},
        {"enclaves", test_enclave},
        {"enclaves and Event Trace", test_enclave_events},
        {"SMI in a guest", test_smi_in_guest},
        {NULL, NULL},
    };

    add_suite("SMM, ACM, enclaves (33.2.9)", tests);
}
