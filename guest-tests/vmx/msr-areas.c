/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MSR-load and MSR-store areas: what is loaded and stored, in their order, and entries that make VM
 * entry fail with reason 34 and their number (volume 3, "Loading MSRs", "Saving MSRs";
 * nested_vmx_load_msr() in Linux's arch/x86/kvm/vmx/nested.c).
 */
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "tests.h"
#include "vm.h"

#define MSR_LSTAR     0xc0000082u
#define MSR_CSTAR     0xc0000083u
#define MSR_FS_BASE   0xc0000100u
#define MSR_GS_BASE   0xc0000101u
#define MSR_KERNEL_GS 0xc0000102u
#define MSR_SMM       0x9bu /* IA32_SMM_MONITOR_CTL, which exists in SMM only */
#define MSR_X2APIC    0x808u
#define MSR_NONE      0x4000ffffu
#define NO_CANONICAL  (1ull << 62)
#define FAILED        (REASON_ENTRY_FAILED | REASON_MSR_LOADING)

struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
};

SNIPPET(area_read, "rdmsr");
static const struct code read_code = CODE(area_read);

static struct msr_entry *area(void)
{
    return phys_to_virt(vm_pages.msr_area);
}

/* A VM whose RDMSR of this MSR, with 0 in all bitmaps, shows what entry loaded. */
static bool begin(uint32_t msr)
{
    const struct controls on = {.proc = PROC_MSR_BITMAPS}, off = {0};
    struct lacking lacking;

    vm_reset(&read_code);
    if (!vm_controls(&on, &off, &lacking)) {
        skip_lacking(&lacking, "MSR areas");
        return false;
    }
    vm_registers.rcx = msr;
    return true;
}

static uint64_t guest_value(void)
{
    return vm_registers.rdx << 32 | (uint32_t)vm_registers.rax;
}

/* ---- VM entry ----------------------------------------------------------------------------- */

static void test_entry_load(void)
{
    const uint64_t before = rdmsr(MSR_CSTAR);

    if (!begin(MSR_CSTAR))
        return;
    area()[0] = (struct msr_entry){MSR_CSTAR, 0, 0x1111};
    area()[1] = (struct msr_entry){MSR_CSTAR, 0, 0xffff800011112222ull};
    area()[2] = (struct msr_entry){MSR_CSTAR, 0, 0x3333};
    put(VMCS_ENTRY_LOAD_COUNT, 2);
    report_value(vm_launch().reason, REASON_VMCALL, "VM-entry MSR-load area of two entries");
    report_value(guest_value(), 0xffff800011112222ull,
                 "VM-entry MSR-load area: loaded in order, as many as are counted");
    report_value(rdmsr(MSR_CSTAR), 0xffff800011112222ull,
                 "an MSR that no exit area has stays as it was in the guest");
    wrmsr(MSR_CSTAR, before);
}

/* The second entry of three is the one that fails: qualification 2. */
static const struct {
    const char *name;
    struct msr_entry entry;
    bool by_wrmsr; /* bad because WRMSR is #GP: not every emulator checks that */
} bad[] = {
    {"IA32_FS_BASE", {MSR_FS_BASE, 0, 0}, false},
    {"IA32_GS_BASE", {MSR_GS_BASE, 0, 0}, false},
    {"an x2APIC MSR in xAPIC mode", {MSR_X2APIC, 0, 0}, false},
    {"IA32_SMM_MONITOR_CTL outside of SMM", {MSR_SMM, 0, 0}, false},
    {"bits 63:32 of the entry that are not 0", {MSR_CSTAR, 1, 0}, false},
    {"an MSR that does not exist", {MSR_NONE, 0, 0}, true},
    {"a capability MSR, which is read-only", {MSR_VMX_BASIC, 0, 0}, true},
    {"a value that is not canonical", {MSR_LSTAR, 0, NO_CANONICAL}, true},
};

static void test_bad_entry(const char *name, const struct msr_entry *entry)
{
    struct outcome outcome;

    vm_reset(&nop_code);
    area()[0] = (struct msr_entry){MSR_CSTAR, 0, 0x4444};
    area()[1] = *entry;
    area()[2] = (struct msr_entry){MSR_CSTAR, 0, 0x5555};
    put(VMCS_ENTRY_LOAD_COUNT, 3);
    outcome = vm_launch();
    report_value(outcome.reason, FAILED, "VM-entry MSR-load area: %s", name);
    report_value(outcome.qualification, 2, "VM-entry MSR-load area: %s, its number", name);
    report_value(rdmsr(MSR_CSTAR), 0x4444,
                 "VM-entry MSR-load area: what stands before %s is loaded", name);
}

static bool wrmsr_faults(const struct msr_entry *entry)
{
    uint64_t before = 0;
    unsigned vector;

    rdmsr_safe(entry->index, &before);
    vector = wrmsr_safe(entry->index, entry->value);
    if (vector == 0)
        wrmsr_safe(entry->index, before);
    return vector == GP_VECTOR;
}

static void test_entry_failures(void)
{
    const uint64_t before = rdmsr(MSR_CSTAR);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (bad[i].by_wrmsr && !wrmsr_faults(&bad[i].entry))
            report_skip("WRMSR takes it, too", "VM-entry MSR-load area: %s", bad[i].name);
        else
            test_bad_entry(bad[i].name, &bad[i].entry);
    }
    wrmsr(MSR_CSTAR, before);
}

/* ---- VM exit ------------------------------------------------------------------------------ */

SNIPPET(area_write, "wrmsr");

static void test_exit_areas(void)
{
    const struct controls on = {.proc = PROC_MSR_BITMAPS}, off = {0};
    const struct code code = CODE(area_write);
    const uint64_t before = rdmsr(MSR_KERNEL_GS);
    struct lacking lacking;

    vm_reset(&code);
    if (!vm_controls(&on, &off, &lacking)) {
        skip_lacking(&lacking, "VM-exit MSR areas");
        return;
    }
    /* One area for both: what is stored is in the first entry, the second one is loaded. */
    area()[0] = (struct msr_entry){MSR_KERNEL_GS, 0, 0};
    area()[1] = (struct msr_entry){MSR_KERNEL_GS, 0, 0x7777};
    put(VMCS_EXIT_STORE_COUNT, 1);
    put(VMCS_EXIT_MSR_LOAD, vm_pages.msr_area + sizeof(struct msr_entry));
    put(VMCS_EXIT_LOAD_COUNT, 1);
    vm_registers.rcx = MSR_KERNEL_GS;
    vm_registers.rax = 0x6666;
    vm_launch();
    report_value(area()[0].value, 0x6666, "VM-exit MSR-store area: the guest's value");
    report_value(rdmsr(MSR_KERNEL_GS), 0x7777, "VM-exit MSR-load area: the host's value");
    wrmsr(MSR_KERNEL_GS, before);
}

/* A failure of VM entry loads the host's MSRs and stores none. */
static void test_failed_entry(void)
{
    const uint64_t before = rdmsr(MSR_KERNEL_GS);

    vm_reset(&nop_code);
    area()[0] = (struct msr_entry){MSR_KERNEL_GS, 0, 0x8888};
    area()[1] = (struct msr_entry){MSR_KERNEL_GS, 0, 0x9999};
    put(VMCS_EXIT_STORE_COUNT, 1);
    put(VMCS_EXIT_MSR_LOAD, vm_pages.msr_area + sizeof(struct msr_entry));
    put(VMCS_EXIT_LOAD_COUNT, 1);
    put(VMCS_GUEST_RFLAGS, 0);
    report_value(vm_launch().reason, REASON_ENTRY_FAILED | REASON_GUEST_STATE,
                 "MSR areas of a VM entry that fails");
    report_value(area()[0].value, 0x8888, "a VM entry that fails stores no MSRs");
    report_value(rdmsr(MSR_KERNEL_GS), 0x9999, "a VM entry that fails loads the host's MSRs");
    wrmsr(MSR_KERNEL_GS, before);
}

void test_msr_areas(void)
{
    test_entry_load();
    test_entry_failures();
    test_exit_areas();
    test_failed_entry();
}
