/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMX instructions in root operation: VMXON to VMXOFF, the VMCS pointer and the launch state, with
 * the numbers of what fails (volume 3, "VMX Instruction Reference" and "VM Instruction Error
 * Numbers").
 *
 * Sections: outside of VMX operation, VMXON, without a current VMCS, with one, RFLAGS.TF.
 */
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "tests.h"
#include "trap.h"
#include "vm.h"

#define CR0_NE    (1ull << 5)
#define CR4_VMXE  (1ull << 13)
#define RFLAGS_TF (1ull << 8)
#define VECTOR_DB 1u
#define VECTOR_UD 6u

static unsigned op_vmread(const uint64_t *operand)
{
    uint64_t value;

    (void)operand;
    return vmread(VMCS_GUEST_RIP, &value);
}

static unsigned op_vmwrite(const uint64_t *operand)
{
    return vmwrite(VMCS_GUEST_RIP, *operand);
}

static unsigned op_vmptrst(const uint64_t *operand)
{
    uint64_t value = *operand;

    return vmptrst(&value);
}

static unsigned op_vmlaunch(const uint64_t *operand)
{
    (void)operand;
    return vmlaunch(&vm_registers);
}

static unsigned op_vmresume(const uint64_t *operand)
{
    (void)operand;
    return vmresume(&vm_registers);
}

static unsigned op_vmxoff(const uint64_t *operand)
{
    (void)operand;
    return vmxoff();
}

static unsigned op_vmcall(const uint64_t *operand)
{
    (void)operand;
    return vmcall();
}

static unsigned op_invept(const uint64_t *operand)
{
    return invept(2, (const uint64_t[2]){*operand});
}

static unsigned op_invvpid(const uint64_t *operand)
{
    return invvpid(2, (const uint64_t[2]){*operand});
}

/* ---- Outside of VMX operation ------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned (*op)(const uint64_t *operand);
    unsigned no_vmcs; /* how it ends in root operation without a current VMCS */
} instructions[] = {
    {"VMREAD", op_vmread, VM_FAIL_INVALID},     {"VMWRITE", op_vmwrite, VM_FAIL_INVALID},
    {"VMPTRST", op_vmptrst, VM_SUCCEED},        {"VMLAUNCH", op_vmlaunch, VM_FAIL_INVALID},
    {"VMRESUME", op_vmresume, VM_FAIL_INVALID}, {"VMCALL", op_vmcall, VM_FAIL_INVALID},
    {"VMCLEAR", vmclear, VM_SUCCEED},           {"VMXOFF", op_vmxoff, VM_SUCCEED},
    {"VMPTRLD", vmptrld, VM_SUCCEED},           {"INVEPT", op_invept, VM_SUCCEED},
    {"INVVPID", op_invvpid, VM_SUCCEED},
};
#define INSTRUCTIONS (sizeof(instructions) / sizeof(instructions[0]))

static void test_undefined(const char *when)
{
    for (size_t i = 0; i < INSTRUCTIONS; i++)
        report_value(instructions[i].op(&vm_pages.vmcs), VM_FAULTED | VECTOR_UD, "%s: %s is #UD",
                     when, instructions[i].name);
}

/* ---- VMXON -------------------------------------------------------------------------------- */

static void unlock(void)
{
    uint64_t control = rdmsr(MSR_FEATURE_CONTROL);

    if (control & FEATURE_LOCK) {
        report_skip("locked already", "VMXON with an unlocked IA32_FEATURE_CONTROL");
        report(control & FEATURE_VMX, "IA32_FEATURE_CONTROL allows VMXON outside of SMX");
    } else {
        report_value(vmxon(&vm_pages.vmxon), VM_FAULTED | GP_VECTOR,
                     "VMXON with an unlocked IA32_FEATURE_CONTROL is #GP (VMXON)");
        wrmsr(MSR_FEATURE_CONTROL, control | FEATURE_LOCK | FEATURE_VMX);
    }
    report_vector(wrmsr_safe(MSR_FEATURE_CONTROL, 0), GP_VECTOR,
                  "a locked IA32_FEATURE_CONTROL is read-only (volume 4)");
}

static void test_bad_regions(void)
{
    const uint64_t wrong = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    const uint64_t misaligned = vm_pages.vmxon + 8;
    const uint64_t beyond = vm_pages.vmxon | 1ull << physical_bits();
    uint32_t *revision = phys_to_virt(wrong);

    report_value(vmxon(&misaligned), VM_FAIL_INVALID, "VMXON: a region that is not aligned");
    report_value(vmxon(&beyond), VM_FAIL_INVALID, "VMXON: a region beyond physical addresses");
    *revision = (uint32_t)vmx_basic() + 1;
    report_value(vmxon(&wrong), VM_FAIL_INVALID, "VMXON: another revision");
    *revision = (uint32_t)vmx_basic() | 1u << 31;
    report_value(vmxon(&wrong), VM_FAIL_INVALID, "VMXON: bit 31 of the revision");
}

static void test_bad_cr0(void)
{
    const uint64_t cr0 = read_cr0();
    unsigned result;

    write_cr0_safe(cr0 & ~CR0_NE);
    result = vmxon(&vm_pages.vmxon);
    write_cr0_safe(cr0 | CR0_NE);
    report_value(result, VM_FAULTED | GP_VECTOR, "VMXON with CR0.NE = 0 is #GP (A.7)");
}

static void test_fixed_bits(void)
{
    const uint64_t cr0 = read_cr0(), cr4 = read_cr4();

    report_value(write_cr0_safe(cr0 & ~CR0_NE), VM_FAULTED | GP_VECTOR,
                 "MOV to CR0 with NE = 0 in VMX operation is #GP (A.7)");
    report_value(write_cr4_safe(cr4 & ~CR4_VMXE), VM_FAULTED | GP_VECTOR,
                 "MOV to CR4 with VMXE = 0 in VMX operation is #GP (A.8)");
    report(read_cr0() == cr0 && read_cr4() == cr4, "and changes neither");
}

/* ---- Without a current VMCS --------------------------------------------------------------- */

/* The last ones of the list would leave VMX operation, or give it a VMCS. */
#define WITHOUT_VMCS 7

static void test_no_vmcs(void)
{
    uint64_t pointer = 0;

    for (size_t i = 0; i < WITHOUT_VMCS; i++)
        report_value(instructions[i].op(&vm_pages.vmcs), instructions[i].no_vmcs,
                     "%s without a current VMCS", instructions[i].name);
    vmptrst(&pointer);
    report_value(pointer, UINT64_MAX, "VMPTRST without a current VMCS gives all ones");
    report_value(vmxon(&vm_pages.vmxon), VM_FAIL_INVALID,
                 "VMXON in root operation without a current VMCS");
}

void test_start(void)
{
    test_undefined("CR4.VMXE = 0");
    report_value(vmxon(&vm_pages.vmxon), VM_FAULTED | VECTOR_UD, "CR4.VMXE = 0: VMXON is #UD");
    report_value(write_cr4_safe(read_cr4() | CR4_VMXE), 0, "CR4.VMXE can be set");
    test_undefined("before VMXON");
    unlock();
    test_bad_cr0();
    test_bad_regions();
    report_value(vmxon(&vm_pages.vmxon), VM_SUCCEED, "VMXON");
    test_fixed_bits();
    test_no_vmcs();
}

/* ---- With a current VMCS ------------------------------------------------------------------ */

enum operand { CURRENT, OTHER, VMXON_REGION, NO_REVISION, MISALIGNED, BEYOND_MEMORY };

/* What vm_pages has; NO_REVISION is a page of zeroes, which no revision is. */
static uint64_t operand(enum operand which)
{
    switch (which) {
    case OTHER:
        return vm_pages.other_vmcs;
    case VMXON_REGION:
        return vm_pages.vmxon;
    case NO_REVISION:
        return vm_pages.virtual_apic;
    case MISALIGNED:
        return vm_pages.other_vmcs + 0x800;
    case BEYOND_MEMORY:
        return vm_pages.other_vmcs | 1ull << physical_bits();
    case CURRENT:
        break;
    }
    return vm_pages.vmcs;
}

/* Each begins with the same current VMCS, which is clear. */
static const struct {
    const char *name;
    unsigned (*op)(const uint64_t *operand);
    enum operand operand;
    uint32_t error; /* 0: it succeeds */
} with_vmcs[] = {
    {"VMCALL in root operation without a monitor", op_vmcall, CURRENT, ERROR_VMCALL_IN_ROOT},
    {"VMCLEAR of an address that is not aligned", vmclear, MISALIGNED, ERROR_VMCLEAR_ADDRESS},
    {"VMCLEAR beyond physical addresses", vmclear, BEYOND_MEMORY, ERROR_VMCLEAR_ADDRESS},
    {"VMCLEAR of the VMXON pointer", vmclear, VMXON_REGION, ERROR_VMCLEAR_VMXON},
    {"VMCLEAR of another VMCS", vmclear, OTHER, 0},
    {"VMPTRLD of an address that is not aligned", vmptrld, MISALIGNED, ERROR_VMPTRLD_ADDRESS},
    {"VMPTRLD beyond physical addresses", vmptrld, BEYOND_MEMORY, ERROR_VMPTRLD_ADDRESS},
    {"VMPTRLD of the VMXON pointer", vmptrld, VMXON_REGION, ERROR_VMPTRLD_VMXON},
    {"VMPTRLD of a region with another revision", vmptrld, NO_REVISION, ERROR_VMPTRLD_REVISION},
    {"VMPTRLD of the current VMCS", vmptrld, CURRENT, 0},
    {"VMRESUME of a VMCS that is clear", op_vmresume, CURRENT, ERROR_VMRESUME_NOT_LAUNCH},
    {"VMXON in root operation", vmxon, CURRENT, ERROR_VMXON_IN_ROOT},
};

static void check_failure(const char *name, unsigned result, uint32_t error)
{
    report_value(result, error ? VM_FAIL_VALID : VM_SUCCEED, "%s: result", name);
    if (error)
        report_value(get(VMCS_INSTRUCTION_ERROR), error, "%s: VM-instruction error %u", name,
                     error);
}

static void test_with_vmcs(void)
{
    for (size_t i = 0; i < sizeof(with_vmcs) / sizeof(with_vmcs[0]); i++) {
        const uint64_t phys = operand(with_vmcs[i].operand);

        vm_reset(&nop_code);
        check_failure(with_vmcs[i].name, with_vmcs[i].op(&phys), with_vmcs[i].error);
    }
}

static uint64_t current(void)
{
    uint64_t pointer = 0;

    vmptrst(&pointer);
    return pointer;
}

static void test_pointer(void)
{
    vm_reset(&nop_code);
    report_value(current(), vm_pages.vmcs, "VMPTRST gives what VMPTRLD loaded");
    vmptrld(&vm_pages.vmxon);
    report_value(current(), vm_pages.vmcs, "a VMPTRLD that fails leaves the current VMCS");
    vmclear(&vm_pages.other_vmcs);
    report_value(current(), vm_pages.vmcs, "VMCLEAR of another VMCS leaves the current one");
    put(VMCS_GUEST_RIP, 0x1234);
    vmptrld(&vm_pages.other_vmcs);
    put(VMCS_GUEST_RIP, 0x5678);
    report_value(current(), vm_pages.other_vmcs, "VMPTRLD of another VMCS makes it current");
    vmclear(&vm_pages.other_vmcs);
    report_value(current(), UINT64_MAX, "VMCLEAR of the current VMCS leaves none");
    vmptrld(&vm_pages.vmcs);
    report_value(get(VMCS_GUEST_RIP), 0x1234, "a VMCS keeps its fields while another is current");
    vmptrld(&vm_pages.other_vmcs);
    report_value(get(VMCS_GUEST_RIP), 0x5678, "VMCLEAR leaves the fields in memory");
}

/* "Launched" is a state of the VMCS, which VMCLEAR alone ends. */
static void test_launch_state(void)
{
    const struct vm_registers none = {0};

    vm_reset(&nop_code);
    report_value(vm_launch().result, VM_SUCCEED, "VMLAUNCH of a VMCS that is clear");
    check_failure("VMLAUNCH of a launched VMCS", vm_launch().result, ERROR_VMLAUNCH_NOT_CLEAR);
    put(VMCS_GUEST_RIP, (uint64_t)nop_code.begin);
    report_value(vm_resume().reason, REASON_VMCALL, "VMRESUME of a launched VMCS");
    vmptrld(&vm_pages.other_vmcs);
    vmptrld(&vm_pages.vmcs);
    put(VMCS_GUEST_RIP, (uint64_t)nop_code.begin);
    report_value(vm_resume().reason, REASON_VMCALL, "VMPTRLD leaves the launch state");
    vm_reset(&nop_code);
    vm_registers = none;
    put(VMCS_GUEST_RFLAGS, 0);
    vm_launch();
    check_failure("VMRESUME after a VMLAUNCH whose guest-state checks failed", vm_resume().result,
                  ERROR_VMRESUME_NOT_LAUNCH);
}

static void test_mov_ss(void)
{
    vm_reset(&nop_code);
    check_failure("VMLAUNCH behind MOV SS", vmlaunch_behind_mov_ss(&vm_registers), ERROR_MOV_SS);
}

/* ---- RFLAGS.TF: the trap comes behind the instruction, as behind any other ----------------- */

static uint64_t trapped_at;

static bool on_trap(struct frame *frame)
{
    if (!trapped_at)
        trapped_at = frame->rip;
    frame->rflags &= ~RFLAGS_TF;
    return true;
}

/* Traps behind INSN, or behind the NOP that follows it. */
#define STEP(insn, behind, ...)                                                                    \
    __asm__ volatile("lea 1f(%%rip), %[end]\n\t"                                                   \
                     "pushfq\n\t"                                                                  \
                     "orq %[tf], (%%rsp)\n\t"                                                      \
                     "popfq\n\t" insn "\n"                                                         \
                     "1:\tnop"                                                                     \
                     : [end] "=&r"(behind)                                                         \
                     : [tf] "i"((int)RFLAGS_TF), __VA_ARGS__                                       \
                     : "cc", "memory")

static void check_trap(const char *name, uint64_t behind)
{
    report_value(trapped_at, behind, "%s with RFLAGS.TF: #DB behind it", name);
    trapped_at = 0;
}

static void test_stepped(void)
{
    const uint64_t field = VMCS_GUEST_RIP;
    uint64_t behind, value = 0;

    vm_reset(&nop_code);
    trap_set_handler(VECTOR_DB, on_trap);
    STEP("vmread %[field], %[value]", behind, [field] "r"(field), [value] "m"(value));
    check_trap("VMREAD", behind);
    STEP("vmwrite %[value], %[field]", behind, [field] "r"(field), [value] "m"(value));
    check_trap("VMWRITE", behind);
    STEP("vmptrld %[region]", behind, [region] "m"(vm_pages.vmcs));
    check_trap("VMPTRLD", behind);
    STEP("vmcall", behind, [region] "m"(vm_pages.vmcs));
    check_trap("VMCALL that fails", behind);
    STEP("vmresume", behind, [region] "m"(vm_pages.vmcs));
    check_trap("VMRESUME that fails", behind);
    trap_set_handler(VECTOR_DB, NULL);
}

void test_instructions(void)
{
    test_with_vmcs();
    test_pointer();
    test_launch_state();
    test_mov_ss();
    test_stepped();
}

void test_end(void)
{
    report_value(vmxoff(), VM_SUCCEED, "VMXOFF");
    test_undefined("after VMXOFF");
    report_value(write_cr4_safe(read_cr4() & ~CR4_VMXE), 0, "CR4.VMXE can be cleared after VMXOFF");
}
