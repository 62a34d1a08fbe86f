/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that VM entry loads and VM exit saves and loads: registers of the guest, those of the host,
 * time (volume 3, "Loading Guest State", "Saving Guest State", "Loading Host State").
 *
 * Sections: what the guest left, what the host finds, time.
 */
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "tests.h"
#include "vm.h"

#include <string.h>

#define MSR_SYSENTER_CS  0x174u
#define MSR_SYSENTER_ESP 0x175u
#define MSR_SYSENTER_EIP 0x176u
#define MSR_DEBUGCTL     0x1d9u
#define MSR_PAT          0x277u
#define MSR_EFER         0xc0000080u
#define MSR_FS_BASE      0xc0000100u
#define MSR_GS_BASE      0xc0000101u
#define DR7_FIXED        0x400u

/* ---- What the guest left ------------------------------------------------------------------ */

SNIPPET(state_nop, "nop");
SNIPPET(state_rflags, "pushq $0x8d7; popfq");
SNIPPET(state_push, "push %rax");
SNIPPET(state_fs, "mov %ecx, %fs");
SNIPPET(state_dr7, "mov $0x402, %eax; mov %rax, %dr7");
SNIPPET(state_wrmsr, "wrmsr");
SNIPPET(state_sti_cpuid, "sti");
SNIPPET(state_mov_ss_cpuid, "mov %ss, %eax; mov %eax, %ss");
SNIPPET(state_lgdt, "lgdt (%rbx)");
SNIPPET(state_lidt, "lidt (%rbx)");
SNIPPET(state_far, "lgdt (%rbx); mov $0x10, %ecx; mov %ecx, %ss; pushq $8; lea 1f(%rip), %rax;"
                   "push %rax; lretq; 1:");

/* Code, what it needs, and the field that has to hold the value behind the exit of its VMCALL. */
static const struct {
    const char *name;
    struct code code;
    struct vm_registers registers;
    uint64_t value;
    uint64_t ignored; /* bits of the field */
    struct controls on;
    unsigned field;
} saved[] = {
    {"RFLAGS", CODE(state_rflags), .field = VMCS_GUEST_RFLAGS, .value = 0x8d7},
    {"FS selector", CODE(state_fs), .registers.rcx = 0x23, .field = VMCS_GUEST_FS, .value = 0x23},
    {"FS rights: user data", CODE(state_fs), .registers.rcx = 0x23, .field = VMCS_GUEST_FS_RIGHTS,
     .value = 0xc0f3},
    {"FS rights: unusable", CODE(state_fs), .field = VMCS_GUEST_FS_RIGHTS, .value = 0x10000,
     .ignored = 0xffff},
    {"DR7, with the control", CODE(state_dr7), .on.exit = EXIT_SAVE_DEBUG, .field = VMCS_GUEST_DR7,
     .value = 0x402},
    {"IA32_SYSENTER_CS", CODE(state_wrmsr), .on.proc = PROC_MSR_BITMAPS,
     .registers = {.rcx = MSR_SYSENTER_CS, .rax = 0x1230}, .field = VMCS_GUEST_SYSENTER_CS,
     .value = 0x1230},
    {"IA32_SYSENTER_ESP", CODE(state_wrmsr), .on.proc = PROC_MSR_BITMAPS,
     .registers = {.rcx = MSR_SYSENTER_ESP, .rax = 0x4560}, .field = VMCS_GUEST_SYSENTER_ESP,
     .value = 0x4560},
    {"IA32_SYSENTER_EIP", CODE(state_wrmsr), .on.proc = PROC_MSR_BITMAPS,
     .registers = {.rcx = MSR_SYSENTER_EIP, .rax = 0x7890}, .field = VMCS_GUEST_SYSENTER_EIP,
     .value = 0x7890},
    {"FS base", CODE(state_wrmsr), .on.proc = PROC_MSR_BITMAPS,
     .registers = {.rcx = MSR_FS_BASE, .rax = 0xabc0}, .field = VMCS_GUEST_FS_BASE,
     .value = 0xabc0},
    {"IA32_PAT, with the control", CODE(state_wrmsr), .on.proc = PROC_MSR_BITMAPS,
     .on.exit = EXIT_SAVE_PAT | EXIT_LOAD_PAT,
     .registers = {.rcx = MSR_PAT, .rax = 0x00070406, .rdx = 0x00070401}, .field = VMCS_GUEST_PAT,
     .value = 0x0007040100070406ull},
    {"blocking by STI", CODE(state_sti_cpuid), .field = VMCS_INTERRUPTIBILITY,
     .value = BLOCKING_STI},
    {"blocking by MOV SS", CODE(state_mov_ss_cpuid), .field = VMCS_INTERRUPTIBILITY,
     .value = BLOCKING_MOV_SS},
    {"no blocking", CODE(state_nop), .field = VMCS_INTERRUPTIBILITY, .value = 0},
};

static void test_saved(void)
{
    static const struct controls off;
    struct lacking lacking;

    for (size_t i = 0; i < sizeof(saved) / sizeof(saved[0]); i++) {
        vm_reset(&saved[i].code);
        if (!vm_controls(&saved[i].on, &off, &lacking)) {
            skip_lacking(&lacking, saved[i].name);
            continue;
        }
        vm_registers = saved[i].registers;
        report_value(vm_launch().reason, REASON_VMCALL, "saved by an exit, %s: exit reason",
                     saved[i].name);
        report_value(get(saved[i].field) & ~saved[i].ignored, saved[i].value,
                     "saved by an exit: %s", saved[i].name);
    }
}

/* Where the controls do not ask for it, fields of the guest stay. */
static void test_not_saved(void)
{
    const struct code code = CODE(state_dr7);

    vm_reset(&code);
    if (control_required(EXIT) & EXIT_SAVE_DEBUG) {
        report_skip("always saved here", "DR7 is not saved without the control");
        return;
    }
    vm_launch();
    report_value(get(VMCS_GUEST_DR7), DR7_FIXED, "DR7 is not saved without the control");
}

static void test_stack(void)
{
    const struct code code = CODE(state_push);
    uint64_t rsp;

    vm_reset(&code);
    rsp = get(VMCS_GUEST_RSP);
    vm_launch();
    report_value(get(VMCS_GUEST_RSP), rsp - 8, "saved by an exit: RSP");
}

static void test_tables(void)
{
    static const struct code codes[] = {CODE(state_lgdt), CODE(state_lidt)};
    static const unsigned limits[] = {VMCS_GUEST_GDTR_LIMIT, VMCS_GUEST_IDTR_LIMIT};
    static const unsigned bases[] = {VMCS_GUEST_GDTR_BASE, VMCS_GUEST_IDTR_BASE};
    static const char *const names[] = {"GDTR", "IDTR"};

    for (unsigned i = 0; i < 2; i++) {
        vm_reset(&codes[i]);
        *(struct table_pointer *)vm_data() = (struct table_pointer){0x123, 0x456789};
        vm_registers.rbx = (uint64_t)vm_data();
        vm_launch();
        report(get(limits[i]) == 0x123 && get(bases[i]) == 0x456789, "saved by an exit: %s",
               names[i]);
    }
}

#define CODE_NOT_ACCESSED 0x00af9a000000ffffull
#define DATA_NOT_ACCESSED 0x00cf92000000ffffull

/* A segment that was loaded has been accessed, as VM entry wants to see it. */
static void test_accessed(void)
{
    const uint64_t segments[] = {0, CODE_NOT_ACCESSED, DATA_NOT_ACCESSED};
    const struct code code = CODE(state_far);
    uint8_t *const gdt = (uint8_t *)vm_data() + 64;

    vm_reset(&code);
    memcpy(gdt, segments, sizeof(segments));
    *(struct table_pointer *)vm_data() =
        (struct table_pointer){sizeof(segments) - 1, (uint64_t)gdt};
    vm_registers.rbx = (uint64_t)vm_data();
    report_value(vm_launch().reason, REASON_VMCALL, "segments of a new GDT: exit reason");
    report_value(get(VMCS_GUEST_CS_RIGHTS), 0xa09b, "saved by an exit: CS, which was accessed");
    report_value(get(VMCS_GUEST_SS_RIGHTS), 0xc093, "saved by an exit: SS, which was accessed");
}

/* ---- What the host finds ------------------------------------------------------------------ */

static uint64_t read_dr7(void)
{
    uint64_t value;

    __asm__ volatile("mov %%dr7, %0" : "=r"(value));
    return value;
}

static uint64_t read_rflags(void)
{
    uint64_t value;

    __asm__ volatile("pushfq; popq %0" : "=r"(value));
    return value;
}

#define RFLAGS_TF_IF_DF_NT 0x4700u
#define TABLE_LIMIT        0xffffu

static void test_host(void)
{
    const struct table_pointer gdtr = read_gdtr(), idtr = read_idtr();
    const uint64_t cr0 = read_cr0(), cr3 = read_cr3(), cr4 = read_cr4();
    uint64_t debugctl;

    vm_reset(&nop_code);
    put(VMCS_HOST_FS_BASE, 0x123450);
    put(VMCS_HOST_GS_BASE, 0x678900);
    put(VMCS_HOST_SYSENTER_CS, 0x40);
    put(VMCS_HOST_SYSENTER_ESP, 0x5000);
    put(VMCS_HOST_SYSENTER_EIP, 0x6000);
    vm_launch();
    report_value(read_dr7(), DR7_FIXED, "an exit sets DR7 to 400H");
    if (rdmsr_safe(MSR_DEBUGCTL, &debugctl))
        report_skip("no IA32_DEBUGCTL", "an exit clears IA32_DEBUGCTL");
    else
        report_value(debugctl, 0, "an exit clears IA32_DEBUGCTL");
    report_value(read_rflags() & RFLAGS_TF_IF_DF_NT, 0, "an exit clears RFLAGS");
    report_value(rdmsr(MSR_FS_BASE), 0x123450, "an exit loads FS base");
    report_value(rdmsr(MSR_GS_BASE), 0x678900, "an exit loads GS base");
    report_value(rdmsr(MSR_SYSENTER_CS), 0x40, "an exit loads IA32_SYSENTER_CS");
    report_value(rdmsr(MSR_SYSENTER_ESP), 0x5000, "an exit loads IA32_SYSENTER_ESP");
    report_value(rdmsr(MSR_SYSENTER_EIP), 0x6000, "an exit loads IA32_SYSENTER_EIP");
    report(read_gdtr().base == gdtr.base && read_gdtr().limit == TABLE_LIMIT,
           "an exit loads GDTR, with limit FFFFH");
    report(read_idtr().base == idtr.base && read_idtr().limit == TABLE_LIMIT,
           "an exit loads IDTR, with limit FFFFH");
    report(read_cr0() == cr0 && read_cr3() == cr3 && read_cr4() == cr4,
           "an exit loads CR0, CR3 and CR4");
    wrmsr(MSR_FS_BASE, 0);
    wrmsr(MSR_GS_BASE, 0);
}

/* ---- Time --------------------------------------------------------------------------------- */

SNIPPET(state_rdtsc, "rdtsc");
SNIPPET(state_rdtscp, "rdtscp");
SNIPPET(state_rdmsr_tsc, "rdmsr");

#define MSR_TSC     0x10u
#define OFFSET      (1ull << 56)
#define SCALE_BITS  48
#define ONE         (1ull << SCALE_BITS)
#define THREE_HALFS (ONE / 2 * 3)

static const struct {
    const char *name;
    struct code code;
    struct controls on;
    uint64_t offset, multiplier;
} times[] = {
    {"RDTSC with an offset", CODE(state_rdtsc), {.proc = PROC_TSC_OFFSETTING}, OFFSET, ONE},
    {"RDTSC with an offset that is negative",
     CODE(state_rdtsc),
     {.proc = PROC_TSC_OFFSETTING},
     (uint64_t)-1000,
     ONE},
    {"RDTSC with an offset that is not in use", CODE(state_rdtsc), {0}, 0, ONE},
    {"RDTSCP with an offset",
     CODE(state_rdtscp),
     {.proc = PROC_TSC_OFFSETTING, .proc2 = PROC2_RDTSCP},
     OFFSET,
     ONE},
    {"RDMSR of IA32_TIME_STAMP_COUNTER with an offset",
     CODE(state_rdmsr_tsc),
     {.proc = PROC_TSC_OFFSETTING | PROC_MSR_BITMAPS},
     OFFSET,
     ONE},
    {"RDTSC with a multiplier of 1.5",
     CODE(state_rdtsc),
     {.proc = PROC_TSC_OFFSETTING, .proc2 = PROC2_TSC_SCALING},
     OFFSET,
     THREE_HALFS},
    {"RDTSC with a multiplier, without offsetting",
     CODE(state_rdtsc),
     {.proc2 = PROC2_TSC_SCALING},
     0,
     ONE},
};

static uint64_t scaled(uint64_t tsc, uint64_t multiplier, uint64_t offset)
{
    return (uint64_t)((unsigned __int128)tsc * multiplier >> SCALE_BITS) + offset;
}

static void test_times(void)
{
    static const struct controls off;
    struct lacking lacking;

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        uint64_t before, value;

        vm_reset(&times[i].code);
        if (!vm_controls(&times[i].on, &off, &lacking)) {
            skip_lacking(&lacking, times[i].name);
            continue;
        }
        put(VMCS_TSC_OFFSET, times[i].on.proc & PROC_TSC_OFFSETTING ? times[i].offset : OFFSET);
        if (field_exists(VMCS_TSC_MULTIPLIER))
            put(VMCS_TSC_MULTIPLIER, times[i].multiplier);
        vm_registers.rcx = MSR_TSC;
        before = read_tsc();
        vm_launch();
        value = vm_registers.rdx << 32 | (uint32_t)vm_registers.rax;
        /* By differences, since a sum may pass the end of 64 bits. */
        report(value - scaled(before, times[i].multiplier, times[i].offset) <=
                   scaled(read_tsc(), times[i].multiplier, times[i].offset) -
                       scaled(before, times[i].multiplier, times[i].offset),
               "%s", times[i].name);
    }
}

void test_state(void)
{
    test_saved();
    test_not_saved();
    test_stack();
    test_tables();
    test_accessed();
    test_host();
    test_times();
}
