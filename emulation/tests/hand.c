/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner's hand: a PSB+ and an overflow where the owner wants them, and whose TSC the clocks are
 * asked for.
 */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

static void test_psb(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES);
    vpt_flush(&fake->cpu);
    fake_mark(fake);
    vpt_call_direct(&fake->cpu, 0x402000, 0x401005);
    vpt_cond_branch(&fake->cpu, 0x402010, true);
    vpt_psb(&fake->cpu, 0x402010);
    vpt_ret(&fake->cpu, 0x401005);
    EXPECT(fake, "TNT(T) PSB+ TIP(401005)",
           "33.3.7: a PSB+ between two instructions, with the branches before it in front");
    fake_close(fake);
}

/* A region that is enabled again, with PacketByteCnt as it was left, begins without a PSB. */
static void test_psb_at_enable(void)
{
    for (unsigned asked = 0; asked < 2; asked++) {
        struct fake *fake = fake_open("skylake");
        const char *words;

        fake_start(fake, BRANCHES);
        fake_noise(fake, 100);
        fake_stop(fake);
        fake_mark(fake);
        if (asked)
            vpt_psb(&fake->cpu, 0);
        CHECK(fake_words(fake, true)[0] == '\0', "nothing is sent while TriggerEn is 0");
        vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN, IP_ON,
                  IP_START);
        vpt_flush(&fake->cpu);
        words = fake_words(fake, false);
        CHECK(words_match(asked ? "PSB+ MODE(64) PGE(401000)" : "CBR* MODE(64) PGE(401000)", words),
              "asked %u: [%s]", asked, words);
        fake_stop(fake);
        fake_close(fake);
    }
}

static void test_overflow(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_flush(&fake->cpu);
    fake_mark(fake);
    vpt_cond_branch(&fake->cpu, 0x402010, true);
    vpt_overflow(&fake->cpu);
    vpt_overflow(&fake->cpu);
    CHECK(fake->cpu.overflow_count == 1, "one overflow, however often it is asked for");
    vpt_psb(&fake->cpu, 0x402020);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    EXPECT(fake, "OVF FUP(402020) PSB+ TIP(403000)",
           "33.3.8: it ends where execution goes on, and what was not sent is lost");
    fake_close(fake);
}

static void test_core_ratio(void)
{
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_start(fake, BRANCHES);
    vpt_flush(&fake->cpu);
    fake_mark(fake);
    vpt_note_core_ratio(&fake->cpu, 12);
    vpt_psb(&fake->cpu, 0x401010);
    vpt_flush(&fake->cpu);
    words = fake_words(fake, true);
    CHECK(strstr(words, "CBR(12)") && !strncmp(words, "PSB", 3), "33.3.7: [%s]", words);
    fake_stop(fake);
    fake_close(fake);
}

/* Where PacketEn is 0 at its end there is no FUP. */
static void test_overflow_outside(void)
{
    const struct vpt_context kernel = context_of(0);
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_output(fake);
    vpt_overflow(&fake->cpu);
    CHECK(!fake->cpu.overflow, "none while TriggerEn is 0");
    vpt_set_context(&fake->cpu, &(struct vpt_context){.cpl = 3, .exec_mode = VPT_EXEC_64});
    vpt_wrmsr(&fake->cpu, VPT_MSR_CTL,
              VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN, IP_ON, IP_START);
    vpt_flush(&fake->cpu);
    fake_mark(fake);
    vpt_overflow(&fake->cpu);
    fake_transfer(fake, VPT_FAR_BRANCH, IP_START, KERNEL, &kernel);
    vpt_flush(&fake->cpu);
    words = fake_words(fake, false);
    CHECK(words_match("OVF PSB+", words), "33.3.8: [%s]", words);
    fake_close(fake);
}

/* The TSC of every packet between VM entry and VM exit is the guest's. */
static void test_clocks(void)
{
    struct vpt_vm_entry entry = vmx_entry();
    struct vpt_vm_exit exit = vmx_exit();
    struct fake *fake = vmx_open("gracemont");
    const char *words;

    fake->clocks.tsc = 0x1000;
    fake->guest_tsc_offset = 0x500;
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TSCEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    CHECK(!vpt_nonroot(&fake->cpu), "VMX root operation");
    vpt_flush(&fake->cpu);
    fake_mark(fake);
    vpt_vm_entry(&fake->cpu, &entry);
    CHECK(vpt_nonroot(&fake->cpu), "VMX non-root operation");
    vpt_set_core_ratio(&fake->cpu, 20);
    vpt_vm_exit(&fake->cpu, &exit);
    vpt_set_core_ratio(&fake->cpu, 21);
    vpt_flush(&fake->cpu);
    words = fake_words(fake, false);
    CHECK(words_match("PIP(9000,NR) TIP(600000) TSC(1500) CBR(20) FUP(600010) PIP(1000) "
                      "TIP(500000) TSC(1000) CBR(21)",
                      words),
          "33.8.3.3: [%s]", words);
    fake_stop(fake);
    fake_close(fake);
}

void suite_hand(void)
{
    static const struct test tests[] = {
        {"a PSB+", test_psb},
        {"a PSB+ when tracing begins", test_psb_at_enable},
        {"a core:bus ratio", test_core_ratio},
        {"an overflow", test_overflow},
        {"an overflow that ends outside", test_overflow_outside},
        {"whose TSC", test_clocks},
        {NULL, NULL},
    };

    add_suite("the owner's hand", tests);
}
