/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control registers of a guest: masks and read shadows of CR0 and CR4, CR3-target values, CR8, and
 * the qualification of the exits (volume 3, "Guest/Host Masks and Read Shadows", "CR3-Target
 * Controls", "Exit Qualification for Control-Register Accesses").
 */
#include "console.h"
#include "cpu.h"
#include "tests.h"
#include "vm.h"

#define TO_CR        0u
#define FROM_CR      (1u << 4)
#define BY_CLTS      (2u << 4)
#define BY_LMSW      (3u << 4)
#define LMSW_MEMORY  (1u << 6)
#define REG(n)       ((uint64_t)(n) << 8)
#define LMSW_DATA(n) ((uint64_t)(n) << 16)
#define CR0_PE       (1u << 0)
#define CR0_MP       (1u << 1)
#define CR0_EM       (1u << 2)
#define CR0_TS       (1u << 3)
#define CR0_NE       (1u << 5)
#define CR0_NW       (1u << 29)
#define CR4_TSD      (1u << 2)
#define CR4_PGE      (1u << 7)
#define CR4_VMXE     (1u << 13)
#define VEC_GP       13u

/* The guest's present value with some bits changed goes to the register. */
SNIPPET_BEHIND(guest_cr0_xor, "mov %cr0, %rax; xor %rcx, %rax", "mov %rax, %cr0");
SNIPPET_BEHIND(guest_cr4_xor, "mov %cr4, %rax; xor %rcx, %rax", "mov %rax, %cr4");
SNIPPET_BEHIND(guest_cr3_same, "mov %cr3, %rax", "mov %rax, %cr3");
SNIPPET(guest_read_cr0, "mov %cr0, %rax");
SNIPPET(guest_read_cr4, "mov %cr4, %rax");
SNIPPET(guest_read_cr3, "mov %cr3, %r14");
SNIPPET(guest_write_cr3, "mov %rbx, %cr3");
SNIPPET(guest_write_cr8, "mov %r9, %cr8");
SNIPPET(guest_read_cr8, "mov %cr8, %r12");
SNIPPET(guest_clts, "clts");
SNIPPET(guest_lmsw, "lmsw %ax");
SNIPPET(guest_lmsw_memory, "lmsw (%rbx)");
SNIPPET(guest_smsw, "xor %eax, %eax; smsw %ax");

static const struct vm_row rows[] = {
    {"MOV to CR0: a masked bit that is as in the shadow", CODE(guest_cr0_xor),
     .changes = {{PUT, VMCS_CR0_MASK, CR0_MP}}, DONE},
    {"MOV to CR0: a masked bit that differs from the shadow", CODE(guest_cr0_xor),
     .changes = {{PUT, VMCS_CR0_MASK, CR0_MP}}, .registers.rcx = CR0_MP, .reason = REASON_CR,
     .qualification = TO_CR | REG(0)},
    {"MOV to CR0: a bit that is not masked", CODE(guest_cr0_xor),
     .changes = {{PUT, VMCS_CR0_MASK, CR0_TS}}, .registers.rcx = CR0_MP, DONE},
    {"MOV to CR0: a fixed bit that is not masked is #GP", CODE(guest_cr0_xor),
     .registers.rcx = CR0_NE, VECTORED(VEC_GP)},
    {"MOV to CR4: a masked bit that differs from the shadow", CODE(guest_cr4_xor),
     .changes = {{PUT, VMCS_CR4_MASK, CR4_TSD}}, .registers.rcx = CR4_TSD, .reason = REASON_CR,
     .qualification = TO_CR | REG(0) | 4},
    {"MOV to CR4: a bit that is not masked", CODE(guest_cr4_xor), .registers.rcx = CR4_TSD, DONE},
    {"MOV to CR4: VMXE that is not masked is #GP", CODE(guest_cr4_xor), .registers.rcx = CR4_VMXE,
     VECTORED(VEC_GP)},
    {"MOV to CR4: VMXE that is masked, with 0 in the shadow", CODE(guest_cr4_xor),
     .changes = {{PUT, VMCS_CR4_MASK, CR4_VMXE}}, DONE},
    {"MOV to CR4: VMXE that is masked and 0 in the shadow is set", CODE(guest_cr4_xor),
     .changes = {{PUT, VMCS_CR4_MASK, CR4_VMXE}}, .registers.rcx = CR4_VMXE, .reason = REASON_CR,
     .qualification = TO_CR | 4},
    {"MOV from CR3 with CR3-store exiting", CODE(guest_read_cr3), .on.proc = PROC_CR3_STORE,
     .reason = REASON_CR, .qualification = FROM_CR | REG(14) | 3},
    {"MOV from CR3 without CR3-store exiting", CODE(guest_read_cr3), .off.proc = PROC_CR3_STORE,
     DONE},
    {"MOV to CR3 with CR3-load exiting", CODE(guest_write_cr3), .on.proc = PROC_CR3_LOAD,
     .registers.rbx = 0x5000, .reason = REASON_CR, .qualification = TO_CR | REG(3) | 3},
    {"MOV to CR3 without CR3-load exiting", CODE(guest_cr3_same), .off.proc = PROC_CR3_LOAD, DONE},
    {"MOV to CR3 of a target value", CODE(guest_write_cr3), .on.proc = PROC_CR3_LOAD,
     .changes = {{PUT, VMCS_CR3_TARGET_0, 0x5000}}, .registers.rbx = 0x5000, .reason = REASON_CR,
     .qualification = TO_CR | REG(3) | 3},
    {"MOV to CR8 with CR8-load exiting", CODE(guest_write_cr8), .on.proc = PROC_CR8_LOAD,
     .reason = REASON_CR, .qualification = TO_CR | REG(9) | 8},
    {"MOV from CR8 with CR8-store exiting", CODE(guest_read_cr8), .on.proc = PROC_CR8_STORE,
     .reason = REASON_CR, .qualification = FROM_CR | REG(12) | 8},
    {"MOV to CR8 without CR8-load exiting", CODE(guest_write_cr8), .off.proc = PROC_CR8_LOAD, DONE},
    {"CLTS: TS is masked and 1 in the shadow", CODE(guest_clts),
     .changes = {{PUT, VMCS_CR0_MASK, CR0_TS}, {PUT, VMCS_CR0_SHADOW, CR0_TS}}, .reason = REASON_CR,
     .qualification = BY_CLTS},
    {"CLTS: TS is masked and 0 in the shadow", CODE(guest_clts),
     .changes = {{PUT, VMCS_CR0_MASK, CR0_TS}}, DONE},
    {"CLTS: TS is not masked", CODE(guest_clts), .changes = {{PUT, VMCS_CR0_SHADOW, CR0_TS}}, DONE},
    {"LMSW AX: a masked bit that differs", CODE(guest_lmsw),
     .changes = {{PUT, VMCS_CR0_MASK, CR0_EM}}, .registers.rax = CR0_EM | CR0_PE,
     .reason = REASON_CR, .qualification = BY_LMSW | LMSW_DATA(CR0_EM | CR0_PE)},
    {"LMSW AX: PE that is masked and 0 in the shadow is set", CODE(guest_lmsw),
     .changes = {{PUT, VMCS_CR0_MASK, CR0_PE}}, .registers.rax = CR0_PE, .reason = REASON_CR,
     .qualification = BY_LMSW | LMSW_DATA(CR0_PE)},
    {"LMSW AX: PE that is masked and 1 in the shadow is not cleared", CODE(guest_lmsw),
     .changes = {{PUT, VMCS_CR0_MASK, CR0_PE}, {PUT, VMCS_CR0_SHADOW, CR0_PE}}, DONE},
    {"LMSW AX: bits that are not masked", CODE(guest_lmsw), .registers.rax = CR0_MP, DONE},
    {"MOV from CR0: masked bits are the shadow's", CODE(guest_read_cr0),
     .changes = {{PUT, VMCS_CR0_MASK, UINT32_MAX}, {PUT, VMCS_CR0_SHADOW, 0x12345678}}, DONE,
     .check_rax = true, .rax = 0x12345678},
    {"MOV from CR4: masked bits are the shadow's", CODE(guest_read_cr4),
     .changes = {{PUT, VMCS_CR4_MASK, UINT32_MAX}, {PUT, VMCS_CR4_SHADOW, CR4_PGE}}, DONE,
     .check_rax = true, .rax = CR4_PGE},
    {"SMSW: masked bits are the shadow's", CODE(guest_smsw),
     .changes = {{PUT, VMCS_CR0_MASK, UINT16_MAX}, {PUT, VMCS_CR0_SHADOW, CR0_EM}}, DONE,
     .check_rax = true, .rax = CR0_EM},
};

static const struct vm_row no_write_through[] = {
    {"MOV to CR0: NW without CD is #GP, not an exit", CODE(guest_cr0_xor), .registers.rcx = CR0_NW,
     VECTORED(VEC_GP)},
};

/* Not every emulator checks this in root operation. */
static void test_no_write_through(void)
{
    const uint64_t cr0 = read_cr0();

    if (write_cr0_safe(cr0 | CR0_NW) == VM_SUCCEED) {
        write_cr0_safe(cr0);
        report_skip("not outside of the guest either", "%s", no_write_through[0].name);
        return;
    }
    RUN_ROWS(no_write_through);
}

/* The second target value counts once the count is 2. */
static void test_targets(void)
{
    struct lacking lacking;
    const struct controls on = {.proc = PROC_CR3_LOAD}, off = {0};
    const struct code code = CODE(guest_write_cr3);

    vm_reset(&code);
    if (!vm_controls(&on, &off, &lacking) || (vmx_misc() >> 16 & 0x1ff) < 2) {
        report_skip("no CR3-target values", "MOV to CR3 of a target value that counts");
        return;
    }
    put(VMCS_CR3_TARGET_1, get(VMCS_GUEST_CR3));
    vm_registers.rbx = get(VMCS_GUEST_CR3);
    put(VMCS_CR3_TARGET_COUNT, 1);
    report_value(vm_launch().reason, REASON_CR, "MOV to CR3: target 1 with a count of 1");
    put(VMCS_CR3_TARGET_COUNT, 2);
    report_value(vm_resume().reason, REASON_VMCALL, "MOV to CR3: target 1 with a count of 2");
}

/* The operand in memory: its address is the guest-linear address. */
static void test_lmsw_memory(void)
{
    const struct code code = CODE(guest_lmsw_memory);
    struct outcome outcome;

    vm_reset(&code);
    *(uint16_t *)vm_data() = CR0_EM | CR0_PE;
    put(VMCS_CR0_MASK, CR0_EM);
    vm_registers.rbx = (uint64_t)vm_data();
    outcome = vm_launch();
    report_value(outcome.qualification, BY_LMSW | LMSW_MEMORY | LMSW_DATA(CR0_EM | CR0_PE),
                 "LMSW of memory: qualification");
    report_value(get(VMCS_GUEST_LINEAR), (uint64_t)vm_data(),
                 "LMSW of memory: guest-linear address");
}

void test_cr_exits(void)
{
    RUN_ROWS(rows);
    test_no_write_through();
    test_targets();
    test_lmsw_memory();
}
