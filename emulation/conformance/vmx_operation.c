/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets and controls of VMX operation, and the checks of VM entry (33.5, 33.5.1). */
#include "vmx.h"

#include <string.h>

/* ---- 33.5, 33.5.1 --------------------------------------------------------------------------- */

static void traceen_in_vmx(void)
{
    struct fake *fake = root(TRACED);
    const struct vpt_vm_entry entry = plain_entry();

    CHECK(traceen(fake), "set in root operation");
    fake_stop(fake);
    enter(fake, &entry);
    fake_mark(fake);
    fake_write(fake, VPT_MSR_CTL, TRACING);
    CHECK(vpt_trigger_en(&fake->cpu), "set in non-root operation");
    end_quietly(fake);
}
static void each_pip_nr(void)
{
    struct fake *fake = guest(TRACED);
    const struct vpt_vm_exit exit = plain_exit();

    vpt_mov_cr3(&fake->cpu, 0xa000, TARGET + 3);
    transfer(fake, VPT_INTERRUPT, at_cr3(0xb000));
    SO_FAR(fake, "PIP(a000,NR) FUP(401010) PIP(b000,NR) TIP(402000)");
    vpt_vm_exit(&fake->cpu, &exit);
    vpt_mov_cr3(&fake->cpu, 0xc000, HOST + 3);
    END(fake, "FUP(402010) PIP(1000) TIP(500000) PIP(c000)");
}
static void transitions_flip_nr(void)
{
    struct vpt_vm_entry entry = plain_entry();
    struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = root(OS | USER);

    entry.guest.cr3 = exit.host.cr3; /* a PIP though CR3 is the same */
    for (unsigned i = 0; i < 3; i++) {
        enter(fake, &entry);
        SO_FAR(fake, "PIP(1000,NR)");
        vpt_vm_exit(&fake->cpu, &exit);
        SO_FAR(fake, "PIP(1000)");
    }
    end_quietly(fake);
}
static void events_tell(void)
{
    struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = guest(EVENTS);

    exit.reason = 0x80000021;
    exit.qualification = 0x1122334455667788;
    vpt_vm_exit(&fake->cpu, &exit);
    SO_FAR(fake, "EVD(1,1122334455667788) EVD(2,80000021) CFE(8,0)+ FUP(402010) PIP(1000)");
    end_quietly(fake);
    fake = guest(EVENTS);
    exit.by_event = true;
    exit.vector = 0x31;
    vpt_vm_exit(&fake->cpu, &exit);
    END(fake, "EVD(1,1122334455667788) EVD(2,80000021) CFE(9,31)+ FUP(402010) PIP(1000)");
}
static void concealed(void)
{
    struct vpt_vm_entry entry = plain_entry();
    struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = root(EVENTS | BRANCHEN);
    const char *words;

    entry.secondary = VPT_SECONDARY_CONCEAL;
    entry.entry = VPT_ENTRY_CONCEAL;
    entry.exit = exit.exit = VPT_EXIT_CONCEAL;
    enter(fake, &entry);
    vpt_mov_cr3(&fake->cpu, 0xa000, TARGET + 3);
    SO_FAR(fake, "TIP(402000) PIP(a000)");
    fake_noise(fake, 2200);
    words = fake_words(fake, true);
    CHECK(strstr(words, "PSB ") && !strstr(words, "VMCS") && !strstr(words, "NR"),
          "PSB+ without VMCS and NR");
    fake_mark(fake);
    vpt_vm_exit(&fake->cpu, &exit);
    END(fake, "FUP(402010) TIP(500000)");
}
static void unsupported(void)
{
    static const struct vpt_vm_entry controls[] = {{.secondary = VPT_SECONDARY_CONCEAL},
                                                   {.exit = VPT_EXIT_CONCEAL},
                                                   {.entry = VPT_ENTRY_CONCEAL}};
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;

    caps.vmx_misc_pt = false;
    fake = fake_open_caps(&caps);
    vpt_vmxon(&fake->cpu, 0x400000);
    for (size_t i = 0; i < 3; i++) {
        struct vpt_vm_entry entry = plain_entry();

        entry.secondary = controls[i].secondary;
        entry.entry = controls[i].entry;
        entry.exit = controls[i].exit;
        CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_EARLY, "control %zu", i);
        CHECK(!fake->cpu.vmx_nonroot, "and nothing is entered");
    }
    enter(fake, &(struct vpt_vm_entry){.guest = at_cr3(0x9000)});
    CHECK(fake->cpu.vmx_nonroot, "with 0-settings there is VM entry as ever");
    fake_close(fake);
}

static void zero_settings(void)
{
    const struct vpt_vmx_caps caps = flexible();
    struct vpt_vmx_plan plan;

    CHECK(vpt_vmx_plan(&caps, VPT_USE_HOST_WIDE, &plan) == NULL, "host and guests");
    CHECK(plan.secondary_set == 0 && plan.exit_set == 0 && plan.entry_set == 0, "all are 0");
    CHECK(!plan.msr_lists && !plan.shadow_topa, "and no MSR-load areas");
}

static const struct rule vmx_operation[] = {
    {"IA32_VMX_MISC[14] = 1", "TraceEn can be set in root and non-root operation",
     TEST(traceen_in_vmx)},
    {0},
};
static const struct rule vmx_packets[] = {
    {"NR", "each PIP in non-root operation has it", TEST(each_pip_nr)},
    {"transitions", "each has a PIP, and NR says which it is", TEST(transitions_flip_nr)},
    {"CFE, EVD", "say that it is a VM exit, why and with which qualification", TEST(events_tell)},
    {"conceal", "with the three controls, nothing tells of VMX", TEST(concealed)},
    {"0-settings", "enable all packets and need no MSR-load areas", TEST(zero_settings)},
    {"IA32_VMX_MISC[14] = 0", "VM entry fails if a control is 1", TEST(unsupported)},
    {0},
};

/* ---- VM-entry checks ------------------------------------------------------------------------ */

static void load_needs_traceen_0(void)
{
    struct vpt_vm_entry entry = plain_entry();
    struct fake *fake = root(TRACED);

    entry.entry = VPT_ENTRY_LOAD_CTL;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_EARLY, "TraceEn is 1");
    SO_FAR(fake, "TIP(401013)");
    fake_stop(fake);
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "TraceEn is 0");
    fake_close(fake);
}
static void guest_addresses_need(void)
{
    for (unsigned missing = 0; missing < 4; missing++) {
        struct vpt_vm_entry entry = plain_entry();
        struct fake *fake = root(0);

        entry.secondary = VPT_SECONDARY_PT_GPA;
        entry.entry = missing == 1 ? 0 : VPT_ENTRY_LOAD_CTL;
        entry.exit = missing == 2 ? 0 : VPT_EXIT_CLEAR_CTL;
        entry.ept = missing != 3;
        CHECK((vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS) == !missing, "%u", missing);
        fake_close(fake);
    }
}
static void guest_ctl_is_checked(void)
{
    struct vpt_vm_entry entry = plain_entry();
    struct fake *fake = root(0);

    entry.entry = VPT_ENTRY_LOAD_CTL;
    entry.guest_ctl = 1 << 18;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_LATE, "a reserved bit");
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0 && !fake->cpu.vmx_nonroot, "nothing is loaded");
    entry.guest_ctl = OS;
    enter(fake, &entry);
    CHECK(fake_read(fake, VPT_MSR_CTL) == OS, "it is loaded");
    fake_close(fake);
}
/* An MSR-load area obeys the rules of WRMSR, in its order (33.2.8.1). */
static void areas_are_checked(void)
{
    static const struct {
        struct vpt_msr_load loads[2];
        enum vpt_entry outcome;
    } areas[] = {
        {{{VPT_MSR_CTL, 1 << 18}, {0x10, 0}}, VPT_ENTRY_FAILS_LATE},
        {{{VPT_MSR_CTL, TRACED}, {VPT_MSR_OUTPUT_BASE, 1}}, VPT_ENTRY_FAILS_LATE},
        {{{VPT_MSR_CTL, TRACING}, {VPT_MSR_OUTPUT_BASE, 0x8000}}, VPT_ENTRY_FAILS_LATE},
        {{{VPT_MSR_OUTPUT_BASE, 0x8000}, {VPT_MSR_CTL, TRACED}}, VPT_ENTRY_SUCCEEDS},
        {{{0x12345, 1}, {VPT_MSR_CTL, TRACED}}, VPT_ENTRY_SUCCEEDS},
    };

    for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++) {
        struct vpt_vm_entry entry = plain_entry();
        struct fake *fake = root(0);

        entry.loads = areas[i].loads;
        entry.load_count = 2;
        CHECK(vpt_vm_entry(&fake->cpu, &entry) == areas[i].outcome, "area %zu", i);
        CHECK(fake_read(fake, VPT_MSR_CTL) == (areas[i].outcome == VPT_ENTRY_SUCCEEDS ? TRACED : 0),
              "area %zu: all of it or nothing", i);
        fake_close(fake);
    }
}
static void exit_areas_are_checked(void)
{
    static const struct vpt_msr_load bad[] = {{VPT_MSR_CTL, 1 << 18}};
    static const struct vpt_msr_load good[] = {{VPT_MSR_CTL, TRACED}};
    struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = guest(TRACED);

    exit.load_count = 1;
    exit.loads = bad;
    CHECK(!vpt_vm_exit(&fake->cpu, &exit), "a VMX abort");
    CHECK(!vpt_trigger_en(&fake->cpu), "nothing more is traced");
    vpt_vmxoff(&fake->cpu);
    fake_close(fake);
    fake = guest(TRACED);
    exit.loads = good;
    CHECK(vpt_vm_exit(&fake->cpu, &exit) && !traceen(fake), "loaded");
    SO_FAR(fake, "FUP(402010) PIP(1000) PGD()");
    fake_close(fake);
}

static const struct rule vmx_checks[] = {
    {"load IA32_RTIT_CTL", "needs TraceEn = 0", TEST(load_needs_traceen_0)},
    {"guest physical addresses", "need EPT, and the load and clear controls",
     TEST(guest_addresses_need)},
    {"IA32_RTIT_CTL of the guest", "is checked for reserved bits, then loaded",
     TEST(guest_ctl_is_checked)},
    {"VM-entry MSR-load area", "as WRMSR, in order; a fault fails the entry",
     TEST(areas_are_checked)},
    {"VM-exit MSR-load area", "as WRMSR; a fault is a VMX abort", TEST(exit_areas_are_checked)},
    {0},
};

const struct table vmx_operation_tables[] = {
    {"33.5", "Tracing in VMX operation", 0, vmx_operation},
    {"33.5.1", "VMX-specific packets and controls", 0, vmx_packets},
    {"33.5 checks", "VM-entry checks of Intel PT, and MSR-load areas", 0, vmx_checks},
    {0},
};
