/* SPDX-License-Identifier: BSD-3-Clause */
/* VMX operation (33.5). */
#include "vmx.h"

#include <string.h>

/* ---- Shared --------------------------------------------------------------------------------- */

struct vpt_vm_entry plain_entry(void)
{
    return (struct vpt_vm_entry){.ip = SOURCE,
                                 .next_ip = SOURCE + 3,
                                 .guest_ip = TARGET,
                                 .guest = at_cr3(0x9000),
                                 .host_ip = HOST,
                                 .host = at_cr3(0x1000)};
}

struct vpt_vm_exit plain_exit(void)
{
    return (struct vpt_vm_exit){
        .ip = 0x402010, .reason = 10, .qualification = 3, .host_ip = HOST, .host = at_cr3(0x1000)};
}

struct fake *root(uint64_t ctl)
{
    struct fake *fake = fake_open("gracemont");
    const struct vpt_context ctx = at_cpl(0);

    vpt_vmxon(&fake->cpu, 0x400000);
    vpt_set_context(&fake->cpu, &ctx);
    if (ctl)
        fake_start(fake, ctl);
    else
        fake_output(fake);
    return fake;
}

void enter(struct fake *fake, const struct vpt_vm_entry *entry)
{
    CHECK(vpt_vm_entry(&fake->cpu, entry) == VPT_ENTRY_SUCCEEDS, "the VM entry");
}

struct fake *guest(uint64_t ctl)
{
    const struct vpt_vm_entry entry = plain_entry();
    struct fake *fake = root(ctl);

    enter(fake, &entry);
    fake_mark(fake);
    return fake;
}

bool traceen(struct fake *fake)
{
    return fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN;
}

struct vpt_vmx_caps flexible(void)
{
    const uint64_t any = 0xffffffff00000000;

    return (struct vpt_vmx_caps){.misc = 1 << 14, .secondary = any, .exit = any, .entry = any};
}

/* ---- Transitions ---------------------------------------------------------------------------- */

static void enter_as(struct fake *fake, uint32_t secondary, uint32_t entry_controls)
{
    struct vpt_vm_entry entry = plain_entry();

    entry.secondary = secondary;
    entry.entry = entry_controls;
    enter(fake, &entry);
}

static void leave(struct fake *fake, uint32_t exit_controls)
{
    struct vpt_vm_exit exit = plain_exit();

    exit.exit = exit_controls;
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "VM exit");
}

/* ---- Table 33-52 ---------------------------------------------------------------------------- */

static void secondary(bool conceal)
{
    struct fake *fake = root(TRACED);
    const char *words;

    vpt_vmptrld(&fake->cpu, 0x88000);
    enter_as(fake, conceal ? VPT_SECONDARY_CONCEAL : 0, 0);
    fake_mark(fake);
    vpt_mov_cr3(&fake->cpu, 0x5000, TARGET + 3);
    fake_noise(fake, 2200);
    words = fake_words(fake, true);
    CHECK(strncmp(words, conceal ? "PIP(5000) " : "PIP(5000,NR) ", conceal ? 10 : 13) == 0,
          "PIP: %.30s", words);
    words = strstr(words, "PSB ");
    CHECK(words && !strstr(words, "VMCS(88000)") == conceal, "VMCS in PSB+: %.60s",
          words ? words : "no PSB");
    fake_stop(fake);
    fake_close(fake);
}
static void secondary_0(void)
{
    secondary(false);
}
static void secondary_1(void)
{
    secondary(true);
}

static void exit_control(bool conceal, const char *pattern, const char *smm_pattern)
{
    struct vpt_vm_exit smm = plain_exit();
    struct fake *fake = root(EVENTS | BRANCHEN);

    enter_as(fake, 0, 0);
    fake_mark(fake);
    leave(fake, conceal ? VPT_EXIT_CONCEAL : 0);
    END(fake, pattern);

    smm.smm = VPT_SMM_BY_SMI;
    smm.vmcs = 0x77000;
    smm.exit = conceal ? VPT_EXIT_CONCEAL : 0;
    fake = root(TRACED);
    enter_as(fake, 0, 0);
    fake_mark(fake);
    vpt_vm_exit(&fake->cpu, &smm);
    END(fake, smm_pattern);
}
static void exit_0(void)
{
    exit_control(false, "EVD(1,3) EVD(2,a) CFE(8,0) FUP(402010) PIP(1000) TIP(500000)",
                 "FUP(402010) VMCS(77000) PIP(1000) TIP(500000)");
}
static void exit_1(void)
{
    exit_control(true, "FUP(402010) TIP(500000)", "FUP(402010) TIP(500000)");
}

static void entry_control(uint32_t controls, const char *pattern, const char *smm_pattern,
                          const char *root_pattern)
{
    struct vpt_vm_entry back = plain_entry();
    struct fake *fake = root(EVENTS | BRANCHEN);

    enter_as(fake, 0, controls);
    END(fake, pattern);
    back.entry = controls;
    back.from_smm = true;
    back.vmcs = 0x88000;
    fake = root(TRACED);
    vpt_vm_entry(&fake->cpu, &back);
    END(fake, smm_pattern);
    back.to_root = true;
    fake = root(TRACED);
    vpt_vm_entry(&fake->cpu, &back);
    END(fake, root_pattern);
}
static void entry_0(void)
{
    entry_control(0, "CFE(7,0)+ FUP(401010) PIP(9000,NR) TIP(402000)",
                  "VMCS(88000) PIP(9000,NR) TIP(402000)", "VMCS(88000) PIP(9000) TIP(402000)");
}
static void entry_1(void)
{
    entry_control(VPT_ENTRY_CONCEAL, "TIP(402000)", "TIP(402000)", "TIP(402000)");
}

static const struct rule table_52[] = {
    {"secondary VM-execution control 19 = 0",
     "PIP in non-root operation sets NR; PSB+ has the VMCS packet", TEST(secondary_0)},
    {"secondary VM-execution control 19 = 1", "PIP clears NR; PSB+ has no VMCS packet",
     TEST(secondary_1)},
    {"VM-exit control 24 = 0", "PIP without NR, CFE and EVD; VMCS on SMM VM exits", TEST(exit_0)},
    {"VM-exit control 24 = 1", "none of these", TEST(exit_1)},
    {"VM-entry control 17 = 0",
     "PIP with NR (not to root operation), CFE; VMCS on a return from SMM", TEST(entry_0)},
    {"VM-entry control 17 = 1", "none of these", TEST(entry_1)},
    {0},
};

/* ---- Table 33-53 ---------------------------------------------------------------------------- */

static void exits(uint64_t ctl, const char *pattern)
{
    struct fake *fake = root(ctl);

    enter_as(fake, 0, 0);
    fake_mark(fake);
    leave(fake, 0);
    END(fake, pattern);
}
static void exit_events(void)
{
    exits(EVENTS, "EVD(1,3) EVD(2,a) CFE(8,0)+ FUP(402010) PIP(1000)");
    exits(OS | USER, "PIP(1000)");
}
static void exit_fup(void)
{
    exits(TRACED, "FUP(402010) PIP(1000) TIP(500000)");
    exits(EVENTS | BRANCHEN, "EVD(1,3) EVD(2,a) CFE(8,0) FUP(402010) PIP(1000) TIP(500000)");
}
static void exit_pip(void)
{
    exits(OS | USER, "PIP(1000)");
}
static void exit_tip(void)
{
    struct fake *fake = root(TRACED);
    struct vpt_vm_entry entry = plain_entry();

    entry.guest.exec_mode = VPT_EXEC_32;
    vpt_vm_entry(&fake->cpu, &entry);
    fake_mark(fake);
    leave(fake, 0);
    END(fake, "FUP(402010) PIP(1000) MODE(64) TIP(500000)");
}
static void entries(uint64_t ctl, const char *pattern)
{
    struct fake *fake = root(ctl);

    enter_as(fake, 0, 0);
    END(fake, pattern);
}
static void entry_events(void)
{
    entries(EVENTS, "CFE(7,0)+ FUP(401010) PIP(9000,NR)");
}
static void entry_pip(void)
{
    entries(TRACED, "PIP(9000,NR) TIP(402000)");
}
static void entry_tip(void)
{
    struct fake *fake = root(TRACED);
    struct vpt_vm_entry entry = plain_entry();

    entry.guest.exec_mode = VPT_EXEC_16;
    vpt_vm_entry(&fake->cpu, &entry);
    END(fake, "PIP(9000,NR) MODE(16) TIP(402000)");
}

static const struct rule table_53[] = {
    {"VM exit: EVD, CFE", "with EventEn", TEST(exit_events)},
    {"VM exit: FUP", "with BranchEn or EventEn, the IP that the VMCS has", TEST(exit_fup)},
    {"VM exit: PIP", "the host's CR3, NR = 0", TEST(exit_pip)},
    {"VM exit: TIP",
     "with BranchEn, the first instruction of the host; MODE.Exec before it if the mode changes",
     TEST(exit_tip)},
    {"VM entry: CFE, FUP", "with EventEn, the VMLAUNCH or VMRESUME", TEST(entry_events)},
    {"VM entry: PIP", "the guest's CR3, NR = 1", TEST(entry_pip)},
    {"VM entry: TIP",
     "with BranchEn, the first instruction of the guest; MODE.Exec before it if the mode changes",
     TEST(entry_tip)},
    {0},
};

/* ---- Table 33-54 ---------------------------------------------------------------------------- */

/* A VM entry that fails as the owner says, or in the model's own checks of the area. */
static void fails(uint64_t ctl, const struct vpt_msr_load *loads, size_t count,
                  uint32_t entry_controls, enum vpt_entry owner, enum vpt_entry outcome,
                  const char *pattern)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_vm_entry entry = plain_entry();
    struct vpt_context ctx = context_of(0);
    const char *words;

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA);
    fake_mark(fake);
    entry.loads = loads;
    entry.load_count = count;
    entry.entry = entry_controls;
    entry.guest_ctl = TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN;
    entry.outcome = owner;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == outcome, "the outcome");
    words = fake_words(fake, false);
    CHECK(words_match(pattern, words), "expected [%s], got [%s]", pattern, words);
    CHECK(fake_read(fake, VPT_MSR_CTL) == (ctl | VPT_CTL_TOPA), "RTIT_CTL is as it was");
    CHECK(vpt_packet_en(&fake->cpu) == !!(ctl & VPT_CTL_TRACEEN) && !fake->cpu.vmx_nonroot,
          "and so is tracing");
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    fake_close(fake);
}
static const struct vpt_msr_load off[] = {{VPT_MSR_CTL, TRACED | VPT_CTL_TOPA}};
/* The second entry faults, when the first one has cleared TraceEn. */
static const struct vpt_msr_load off_and_fault[] = {{VPT_MSR_CTL, TRACED | VPT_CTL_TOPA},
                                                    {VPT_MSR_OUTPUT_BASE, 1}};
static const struct vpt_msr_load on_and_fault[] = {{VPT_MSR_CTL, TRACING}, {VPT_MSR_STATUS, 0}};

static void system_early(void)
{
    fails(TRACING, NULL, 0, 0, VPT_ENTRY_FAILS_EARLY, VPT_ENTRY_FAILS_EARLY, "TIP(401013)");
}
static void system_late(void)
{
    fails(TRACING, NULL, 0, 0, VPT_ENTRY_FAILS_LATE, VPT_ENTRY_FAILS_LATE, "PIP(1000) TIP(500000)");
}
static void vmm_early(void)
{
    fails(TRACING, off, 1, 0, VPT_ENTRY_FAILS_EARLY, VPT_ENTRY_FAILS_EARLY, "TIP(401013)");
    fails(TRACING, NULL, 0, VPT_ENTRY_LOAD_CTL, VPT_ENTRY_SUCCEEDS, VPT_ENTRY_FAILS_EARLY,
          "TIP(401013)");
}
static void vmm_late(void)
{
    fails(TRACING, off, 1, 0, VPT_ENTRY_FAILS_LATE, VPT_ENTRY_FAILS_LATE, "PIP(1000) TIP(500000)");
    fails(TRACING, off_and_fault, 2, 0, VPT_ENTRY_SUCCEEDS, VPT_ENTRY_FAILS_LATE,
          "PIP(1000) TIP(500000)");
}
static void vm_early(void)
{
    fails(TRACED, NULL, 0, VPT_ENTRY_LOAD_CTL, VPT_ENTRY_FAILS_EARLY, VPT_ENTRY_FAILS_EARLY, "");
}
static void vm_late(void)
{
    fails(TRACED, NULL, 0, VPT_ENTRY_LOAD_CTL, VPT_ENTRY_FAILS_LATE, VPT_ENTRY_FAILS_LATE, "");
    fails(TRACED, on_and_fault, 2, 0, VPT_ENTRY_SUCCEEDS, VPT_ENTRY_FAILS_LATE, "");
}

static const struct rule table_54[] = {
    {"system-wide, early", "TIP of the next instruction", TEST(system_early)},
    {"system-wide, late", "PIP of the host, TIP of where it goes on", TEST(system_late)},
    {"VMM only, early", "TIP of the next instruction", TEST(vmm_early)},
    {"VMM only, late", "the same; the area was not loaded", TEST(vmm_late)},
    {"VM only, early", "none", TEST(vm_early)},
    {"VM only, late", "none", TEST(vm_late)},
    {0},
};

const struct table vmx_tables[] = {
    {"33-52", "VMX controls for Intel PT", 6, table_52},
    {"33-53", "Packets on VMX transitions", 7, table_53},
    {"33-54", "Packets on a failed VM entry", 6, table_54},
    {0},
};
