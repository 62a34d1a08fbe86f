/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMX operation, as far as TraceEn stays as it is: Tables 33-52 and 33-53 with every combination of
 * the conceal controls, 33-54, 33-55 (cases 14 to 16), 33-56 (cases 7 and 8), 33-59 (13 to 16),
 * VMCS packets (33.4.2.15) and SMM VM exits (33.6).
 */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define EVENTS   (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_EVENTEN)
#define VMCS     0x12345000ull
#define GUEST    0x600000ull
#define HOST     0x500000ull

static struct vpt_context at_cr3(uint64_t cr3, uint8_t cpl)
{
    struct vpt_context ctx = context_of(cpl);

    ctx.cr3 = cr3;
    return ctx;
}

static struct vpt_vm_entry entry_of(unsigned conceal)
{
    return (struct vpt_vm_entry){
        .ip = 0x401010,
        .next_ip = 0x401013,
        .secondary = conceal & 1 ? VPT_SECONDARY_CONCEAL : 0,
        .exit = conceal & 2 ? VPT_EXIT_CONCEAL : 0,
        .entry = conceal & 4 ? VPT_ENTRY_CONCEAL : 0,
        .guest_ip = GUEST,
        .guest = at_cr3(0x9000, 0),
        .host_ip = HOST,
        .host = at_cr3(0x1000, 0),
    };
}

static struct vpt_vm_exit exit_of(unsigned conceal)
{
    return (struct vpt_vm_exit){
        .ip = GUEST + 0x10,
        .exit = conceal & 2 ? VPT_EXIT_CONCEAL : 0,
        .reason = 0x30,
        .qualification = 0x181,
        .host_ip = HOST,
        .host = at_cr3(0x1000, 0),
    };
}

static struct fake *open_vmx(uint64_t ctl)
{
    struct fake *fake = fake_open("gracemont");

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, ctl);
    return fake;
}

/* In the guest, with nothing of the entry left to look at. */
static struct fake *open_guest(uint64_t ctl, unsigned conceal)
{
    struct fake *fake = open_vmx(ctl);
    struct vpt_vm_entry entry = entry_of(conceal);

    vpt_vmptrld(&fake->cpu, VMCS);
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    fake_mark(fake);
    return fake;
}

/* ---- Tables 33-52 and 33-53 ----------------------------------------------------------------- */

static void test_entry_and_exit(void)
{
    for (unsigned conceal = 0; conceal < 8; conceal++) {
        struct vpt_vm_entry entry = entry_of(conceal);
        struct vpt_vm_exit exit = exit_of(conceal);
        struct fake *fake = open_vmx(BRANCHES);

        vpt_vm_entry(&fake->cpu, &entry);
        EXPECT(fake, conceal & 4 ? "TIP(600000)" : "PIP(9000,NR) TIP(600000)",
               "Table 33-53, VM entry");
        fake_close(fake);

        fake = open_guest(BRANCHES, conceal);
        vpt_mov_cr3(&fake->cpu, 0xa000, GUEST + 3);
        EXPECT(fake, conceal & 1 ? "PIP(a000)" : "PIP(a000,NR)", "Table 33-55 case 14");
        fake_close(fake);

        fake = open_guest(BRANCHES, conceal);
        CHECK(vpt_vm_exit(&fake->cpu, &exit), "VM exit");
        EXPECT(fake, conceal & 2 ? "FUP(600010) TIP(500000)" : "FUP(600010) PIP(1000) TIP(500000)",
               "Table 33-53, VM exit");
        fake_close(fake);
    }
}

static void test_event_trace(void)
{
    struct vpt_vm_exit exit = exit_of(0), by_event = exit_of(0);
    struct vpt_vm_entry entry = entry_of(0), concealed = entry_of(7);
    struct fake *fake = open_vmx(EVENTS);

    vpt_vm_entry(&fake->cpu, &entry);
    EXPECT(fake, "CFE(7,0)+ FUP(401010) PIP(9000,NR)", "Table 33-59 case 16");
    fake_close(fake);

    fake = open_vmx(EVENTS | VPT_CTL_BRANCHEN);
    vpt_vm_entry(&fake->cpu, &entry);
    EXPECT(fake, "CFE(7,0)+ FUP(401010) PIP(9000,NR) TIP(600000)", "case 16, BranchEn");
    fake_close(fake);

    fake = open_vmx(EVENTS | VPT_CTL_BRANCHEN);
    vpt_vm_entry(&fake->cpu, &concealed);
    EXPECT(fake, "TIP(600000)", "Table 33-52, VM-entry control 1");
    fake_close(fake);

    fake = open_guest(EVENTS, 0);
    vpt_vm_exit(&fake->cpu, &exit);
    EXPECT(fake, "EVD(1,181) EVD(2,30) CFE(8,0)+ FUP(600010) PIP(1000)", "Table 33-59 case 14");
    fake_close(fake);

    fake = open_guest(EVENTS | VPT_CTL_BRANCHEN, 0);
    vpt_vm_exit(&fake->cpu, &exit);
    EXPECT(fake, "EVD(1,181) EVD(2,30) CFE(8,0) FUP(600010) PIP(1000) TIP(500000)",
           "case 14, shared FUP");
    fake_close(fake);

    by_event.by_event = true;
    by_event.vector = 0x51;
    fake = open_guest(EVENTS, 0);
    vpt_vm_exit(&fake->cpu, &by_event);
    EXPECT(fake, "EVD(1,181) EVD(2,30) CFE(9,51)+ FUP(600010) PIP(1000)", "case 13");
    fake_close(fake);

    exit.exit = VPT_EXIT_CONCEAL;
    fake = open_guest(EVENTS | VPT_CTL_BRANCHEN, 0);
    vpt_vm_exit(&fake->cpu, &exit);
    EXPECT(fake, "FUP(600010) TIP(500000)", "Table 33-52, VM-exit control 1");
    fake_close(fake);
}

/* ContextEn changes in the transition. */
static void test_context(void)
{
    struct vpt_vm_entry entry = entry_of(0);
    struct vpt_vm_exit exit = exit_of(0);
    struct fake *fake = open_vmx(VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_EVENTEN);

    entry.guest = at_cr3(0x9000, 3);
    vpt_vm_entry(&fake->cpu, &entry);
    EXPECT(fake, "CFE(7,0) FUP(401010) PGD()", "Table 33-56 case 8, Table 33-59 case 16");
    fake_close(fake);

    fake = open_vmx(VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_EVENTEN);
    vpt_vm_entry(&fake->cpu, &entry);
    fake_mark(fake);
    vpt_vm_exit(&fake->cpu, &exit);
    EXPECT(fake, "CFE(8,0) PIP(1000) PGE(500000)", "Table 33-56 case 5, Table 33-59 case 15");
    fake_close(fake);

    fake = open_guest(VPT_CTL_OS | VPT_CTL_BRANCHEN, 0);
    exit.host = at_cr3(0x1000, 3);
    vpt_vm_exit(&fake->cpu, &exit);
    EXPECT(fake, "FUP(600010) PGD()", "Table 33-56 case 7");
    fake_close(fake);
}

/* ---- VMCS packets (33.4.2.15) and PSB+ (33.3.7) --------------------------------------------- */

static void test_vmptrld(void)
{
    struct fake *fake = open_vmx(BRANCHES);
    struct vpt_caps old = plain_caps("broadwell");

    vpt_vmptrld(&fake->cpu, VMCS);
    vpt_vmclear(&fake->cpu, 0x99000);
    EXPECT(fake, "VMCS(12345000)", "33.4.2.15, VMPTRLD");
    fake_close(fake);

    fake = open_vmx(VPT_CTL_USER | VPT_CTL_BRANCHEN);
    vpt_vmptrld(&fake->cpu, VMCS);
    EXPECT(fake, "", "33.4.2.15: ContextEn = 0");
    fake_close(fake);

    fake = fake_open_caps(&old);
    fake_start(fake, BRANCHES);
    fake->cpu.vmx_on = true;
    vpt_vmptrld(&fake->cpu, VMCS);
    vpt_vmxoff(&fake->cpu);
    EXPECT(fake, "", "33.4.2.15: IA32_VMX_MISC[14] = 0");
    fake_close(fake);
}

/* The words of the next PSB+ on. */
static const char *next_psb(struct fake *fake)
{
    const char *words;

    fake_mark(fake);
    fake_noise(fake, 2200);
    words = fake_words(fake, true);
    words = strstr(words, "PSB ");
    return words ? words : "no PSB";
}

static void test_psb(void)
{
    struct fake *fake = open_vmx(BRANCHES);
    const char *words;

    words = next_psb(fake);
    CHECK(strstr(words, "PSB PIP(1000) VMCS(ffffffffff000) "), "no VMCS pointer: [%.60s]", words);
    vpt_vmptrld(&fake->cpu, VMCS);
    words = next_psb(fake);
    CHECK(strstr(words, "PSB PIP(1000) VMCS(12345000) "), "root operation: [%.60s]", words);
    vpt_vmclear(&fake->cpu, VMCS);
    words = next_psb(fake);
    CHECK(strstr(words, "PSB PIP(1000) VMCS(ffffffffff000) "), "after VMCLEAR: [%.60s]", words);
    vpt_vmxoff(&fake->cpu);
    words = next_psb(fake);
    CHECK(strstr(words, "PSB PIP(1000) CBR"), "no VMX operation: [%.60s]", words);
    fake_stop(fake);
    fake_close(fake);

    for (unsigned conceal = 0; conceal < 2; conceal++) {
        fake = open_guest(BRANCHES, conceal);
        words = next_psb(fake);
        CHECK(strstr(words, conceal ? "PSB PIP(9000) CBR" : "PSB PIP(9000,NR) VMCS(12345000) "),
              "Table 33-52, secondary control %u: [%.60s]", conceal, words);
        fake_stop(fake);
        fake_close(fake);
    }
}

/* ---- Table 33-54 ---------------------------------------------------------------------------- */

static void test_failed_entry(void)
{
    struct vpt_vm_entry entry = entry_of(0);
    struct fake *fake = open_vmx(BRANCHES);

    entry.outcome = VPT_ENTRY_FAILS_EARLY;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_EARLY, "early");
    CHECK(!fake->cpu.vmx_nonroot && fake->cpu.ctx.cr3 == 0x1000, "nothing changed");
    EXPECT(fake, "TIP(401013)", "Table 33-54, system-wide, early");
    fake_close(fake);

    fake = open_vmx(BRANCHES);
    entry.outcome = VPT_ENTRY_FAILS_LATE;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_LATE, "late");
    CHECK(!fake->cpu.vmx_nonroot, "root operation");
    EXPECT(fake, "PIP(1000) TIP(500000)", "Table 33-54, system-wide, late");
    fake_close(fake);

    fake = open_vmx(BRANCHES);
    entry = entry_of(2);
    entry.outcome = VPT_ENTRY_FAILS_LATE;
    vpt_vm_entry(&fake->cpu, &entry);
    EXPECT(fake, "TIP(500000)", "Table 33-54, late, concealed");
    fake_close(fake);

    fake = open_vmx(BRANCHES);
    entry.exit = VPT_EXIT_CLEAR_CTL;
    vpt_vm_entry(&fake->cpu, &entry);
    CHECK(!vpt_trigger_en(&fake->cpu), "a late failure clears RTIT_CTL as an exit does");
    fake_close(fake);
}

static void test_abort(void)
{
    struct fake *fake = open_guest(BRANCHES, 0);
    const char *words;

    vpt_cond_branch(&fake->cpu, GUEST, true);
    vpt_vmx_abort(&fake->cpu, GUEST + 0x10);
    CHECK(fake->cpu.buf_len == 0 && !fake->cpu.vmx_nonroot, "flushed, in root operation");
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    words = fake_words(fake, false);
    CHECK(words_match("TNT(T) FUP(600010)?", words), "33.5.2.6: [%s]", words);
    CHECK(!vpt_trigger_en(&fake->cpu), "nothing more is traced");
    fake_close(fake);
}

/* ---- SMM VM exits (33.6) -------------------------------------------------------------------- */

static void test_stm(void)
{
    struct vpt_vm_exit exit = exit_of(0);
    struct vpt_vm_entry back = entry_of(0);
    struct fake *fake = open_guest(BRANCHES, 0);

    exit.smm = VPT_SMM_BY_SMI;
    exit.vmcs = 0x77000;
    vpt_vm_exit(&fake->cpu, &exit);
    back.from_smm = true;
    back.vmcs = VMCS;
    vpt_vm_entry(&fake->cpu, &back);
    EXPECT(fake,
           "FUP(600010) VMCS(77000) PIP(1000) TIP(500000) VMCS(12345000) PIP(9000,NR) TIP(600000)",
           "Table 33-52, 33.6: TraceEn is neither saved nor cleared");
    fake_close(fake);

    fake = open_guest(EVENTS, 0);
    vpt_vm_exit(&fake->cpu, &exit);
    back.to_root = true;
    vpt_vm_entry(&fake->cpu, &back);
    CHECK(!fake->cpu.vmx_nonroot, "a return to root operation");
    EXPECT(fake,
           "CFE(3,0)+ FUP(600010) EVD(1,181) EVD(2,30) CFE(9,0)+ FUP(600010) VMCS(77000) PIP(1000) "
           "CFE(4,0) CFE(7,0)+ FUP(401010) VMCS(12345000) PIP(9000)",
           "33.6, Event Trace");
    fake_close(fake);

    fake = open_guest(EVENTS, 0);
    exit.smm = VPT_SMM_BY_VMCALL;
    vpt_vm_exit(&fake->cpu, &exit);
    EXPECT(fake, "VMCS(77000) PIP(1000)", "33.6, VMCALL");
    fake_close(fake);

    fake = open_guest(EVENTS | VPT_CTL_BRANCHEN, 0);
    exit.smm = VPT_SMM_BY_SMI;
    exit.exit = VPT_EXIT_CONCEAL;
    vpt_vm_exit(&fake->cpu, &exit);
    back.entry = VPT_ENTRY_CONCEAL;
    vpt_vm_entry(&fake->cpu, &back);
    EXPECT(fake, "FUP(600010) TIP(500000) TIP(600000)", "Table 33-52, concealed");
    fake_close(fake);
}

/* Timing of a transition: MODE.Exec where CS changes (Table 33-53). */
static void test_mode(void)
{
    struct vpt_vm_entry entry = entry_of(0);
    struct vpt_vm_exit exit = exit_of(0);
    struct fake *fake = open_vmx(BRANCHES);

    entry.guest.exec_mode = VPT_EXEC_32;
    vpt_vm_entry(&fake->cpu, &entry);
    vpt_vm_exit(&fake->cpu, &exit);
    EXPECT(fake, "PIP(9000,NR) MODE(32) TIP(600000) FUP(600010) PIP(1000) MODE(64) TIP(500000)",
           "Table 33-53, MODE.Exec");
    fake_close(fake);
}

void suite_vmx(void)
{
    static const struct test tests[] = {
        {"Tables 33-52 and 33-53", test_entry_and_exit},
        {"Event Trace", test_event_trace},
        {"ContextEn changes", test_context},
        {"MODE.Exec", test_mode},
        {"VMPTRLD", test_vmptrld},
        {"PSB+", test_psb},
        {"failed entries (Table 33-54)", test_failed_entry},
        {"VMX abort", test_abort},
        {"SMM transfer monitor (33.6)", test_stm},
        {NULL, NULL},
    };

    add_suite("VMX operation (33.5, 33.6)", tests);
}
