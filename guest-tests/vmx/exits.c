/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exits that an instruction of the guest causes: reason, qualification, length and information,
 * with the control and without it (volume 3, "Instructions That Cause VM Exits", "Exit
 * Qualification for
 * ...", "VM-Exit Instruction Information").
 *
 * Sections: instructions with a control, VMX instructions, descriptor tables, debug registers,
 * exceptions.
 */
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "tests.h"
#include "trap.h"
#include "vm.h"

/* ---- Instructions ------------------------------------------------------------------------- */

SNIPPET(guest_cpuid, "cpuid");
SNIPPET(guest_hlt, "hlt");
SNIPPET(guest_invd, "invd");
SNIPPET(guest_invlpg, "invlpg (%rax)");
SNIPPET(guest_rdpmc, "rdpmc");
SNIPPET(guest_rdtsc, "rdtsc");
SNIPPET(guest_rdtscp, "rdtscp");
SNIPPET(guest_rsm, "rsm");
SNIPPET(guest_rdmsr, "rdmsr");
SNIPPET(guest_wrmsr, "wrmsr");
SNIPPET(guest_mwait, "mwait");
SNIPPET(guest_monitor, "monitor");
SNIPPET(guest_pause, "pause");
SNIPPET(guest_wbinvd, "wbinvd");
SNIPPET(guest_xsetbv, "xsetbv");
SNIPPET(guest_rdrand, "rdrand %rbx");
SNIPPET(guest_rdseed, "rdseed %ecx");
SNIPPET(guest_vmfunc, ".byte 0x0f, 0x01, 0xd4");
SNIPPET(guest_ud2, "ud2");

#define ADDRESS 0xffff800000123456ull
#define PAT     0x277u
#define VEC_UD  6u
#define VEC_DB  1u
#define VEC_BP  3u
#define VEC_GP  13u
#define VEC_PF  14u

static const struct vm_row instructions[] = {
    {"CPUID exits always", CODE(guest_cpuid), .reason = REASON_CPUID},
    {"HLT with HLT exiting", CODE(guest_hlt), .on.proc = PROC_HLT, .reason = REASON_HLT},
    {"INVD exits always", CODE(guest_invd), .reason = REASON_INVD},
    {"INVLPG with INVLPG exiting: its linear address", CODE(guest_invlpg), .on.proc = PROC_INVLPG,
     .registers.rax = ADDRESS, .reason = REASON_INVLPG, .qualification = ADDRESS},
    {"INVLPG without INVLPG exiting", CODE(guest_invlpg), .off.proc = PROC_INVLPG,
     .registers.rax = ADDRESS, DONE},
    {"RDPMC with RDPMC exiting", CODE(guest_rdpmc), .on.proc = PROC_RDPMC, .reason = REASON_RDPMC},
    {"RDTSC with RDTSC exiting", CODE(guest_rdtsc), .on.proc = PROC_RDTSC, .reason = REASON_RDTSC},
    {"RDTSC without RDTSC exiting", CODE(guest_rdtsc), .off.proc = PROC_RDTSC, DONE},
    {"RDTSCP without the control is #UD", CODE(guest_rdtscp), VECTORED(VEC_UD)},
    {"RDTSCP with the control", CODE(guest_rdtscp), .on.proc2 = PROC2_RDTSCP, DONE},
    {"RDTSCP with RDTSC exiting", CODE(guest_rdtscp), .on.proc = PROC_RDTSC,
     .on.proc2 = PROC2_RDTSCP, .reason = REASON_RDTSCP},
    {"RDTSCP without the control, with RDTSC exiting, is #UD", CODE(guest_rdtscp),
     .on.proc = PROC_RDTSC, VECTORED(VEC_UD)},
    {"RSM outside of SMM is #UD", CODE(guest_rsm), VECTORED(VEC_UD)},
    {"RDMSR without MSR bitmaps", CODE(guest_rdmsr), .registers.rcx = PAT, .reason = REASON_RDMSR},
    {"WRMSR without MSR bitmaps", CODE(guest_wrmsr), .registers.rcx = PAT, .reason = REASON_WRMSR},
    {"PAUSE with PAUSE exiting", CODE(guest_pause), .on.proc = PROC_PAUSE, .reason = REASON_PAUSE},
    {"PAUSE without PAUSE exiting", CODE(guest_pause), DONE},
    {"WBINVD with WBINVD exiting", CODE(guest_wbinvd), .on.proc2 = PROC2_WBINVD,
     .reason = REASON_WBINVD},
    {"WBINVD without WBINVD exiting", CODE(guest_wbinvd), DONE},
    {"VMFUNC without the control is #UD", CODE(guest_vmfunc), VECTORED(VEC_UD)},
    {"UD2 is the guest's #UD", CODE(guest_ud2), VECTORED(VEC_UD)},
};

static const struct vm_row monitor[] = {
    {"MWAIT with MWAIT exiting", CODE(guest_mwait), .on.proc = PROC_MWAIT, .reason = REASON_MWAIT,
     .any_qualification = true},
    {"MONITOR with MONITOR exiting", CODE(guest_monitor), .on.proc = PROC_MONITOR,
     .registers.rax = ADDRESS, .reason = REASON_MONITOR},
    {"MONITOR without MONITOR exiting", CODE(guest_monitor), .off.proc = PROC_MONITOR,
     .registers.rax = ADDRESS, DONE},
};

/* Register of RDRAND and RDSEED: bits 6:3; operand size: bits 12:11. */
#define RANDOM_INFO 0x1878u

static const struct vm_row rdrand[] = {
    {"RDRAND RBX with RDRAND exiting", CODE(guest_rdrand), .on.proc2 = PROC2_RDRAND,
     .reason = REASON_RDRAND, .info = 2u << 11 | 3u << 3, .info_mask = RANDOM_INFO},
    {"RDRAND without RDRAND exiting", CODE(guest_rdrand), DONE},
};

static const struct vm_row rdseed[] = {
    {"RDSEED ECX with RDSEED exiting", CODE(guest_rdseed), .on.proc2 = PROC2_RDSEED,
     .reason = REASON_RDSEED, .info = 1u << 11 | 1u << 3, .info_mask = RANDOM_INFO},
    {"RDSEED without RDSEED exiting", CODE(guest_rdseed), DONE},
};

#define CR4_OSXSAVE (1u << 18)

static const struct vm_row xsetbv[] = {
    {"XSETBV exits always", CODE(guest_xsetbv), .changes = {{SET, VMCS_GUEST_CR4, CR4_OSXSAVE}},
     .reason = REASON_XSETBV},
    {"XSETBV with CR4.OSXSAVE = 0 is #UD", CODE(guest_xsetbv),
     .changes = {{CLEAR, VMCS_GUEST_CR4, CR4_OSXSAVE}}, VECTORED(VEC_UD)},
};

SNIPPET(guest_invpcid, "invpcid 0x10(%rbx), %rcx");
SNIPPET(guest_xsaves, "xsaves 0x40(%rbx)");
SNIPPET(guest_xrstors, "xrstors 0x40(%rbx)");

static const struct vm_row invpcid[] = {
    {"INVPCID without the control is #UD", CODE(guest_invpcid), VECTORED(VEC_UD)},
    {"INVPCID with INVLPG exiting: displacement and operands", CODE(guest_invpcid),
     .on.proc = PROC_INVLPG, .on.proc2 = PROC2_INVPCID, .reason = REASON_INVPCID,
     .qualification = 0x10, .info = 2u << 7 | 3u << 15 | 1u << 22 | 3u << 23 | 1u << 28,
     .info_mask = 0xffc38380u},
};

static const struct vm_row xsaves[] = {
    {"XSAVES without the control is #UD", CODE(guest_xsaves),
     .changes = {{SET, VMCS_GUEST_CR4, CR4_OSXSAVE}}, VECTORED(VEC_UD)},
    {"XRSTORS without the control is #UD", CODE(guest_xrstors),
     .changes = {{SET, VMCS_GUEST_CR4, CR4_OSXSAVE}}, VECTORED(VEC_UD)},
};

static void test_if(bool present, const struct vm_row *rows, size_t count)
{
    if (present)
        run_rows(rows, count);
    else
        for (size_t i = 0; i < count; i++)
            report_skip("no such instruction", "%s", rows[i].name);
}
#define TEST_IF(present, rows) test_if(present, rows, sizeof(rows) / sizeof((rows)[0]))

static void test_optional(void)
{
    const struct cpuid first = cpuid_checked(1, 0), seventh = cpuid_checked(7, 0);

    TEST_IF(first.ecx >> 3 & 1, monitor);
    TEST_IF(first.ecx >> 30 & 1, rdrand);
    TEST_IF(seventh.ebx >> 18 & 1, rdseed);
    TEST_IF(first.ecx >> 26 & 1, xsetbv);
    TEST_IF(seventh.ebx >> 10 & 1, invpcid);
    TEST_IF(cpuid_checked(13, 1).eax >> 3 & 1, xsaves);
}

/* ---- VMX instructions --------------------------------------------------------------------- */

SNIPPET(guest_vmcall, "vmcall");
SNIPPET(guest_vmlaunch, "vmlaunch");
SNIPPET(guest_vmresume, "vmresume");
SNIPPET(guest_vmxoff, "vmxoff");
SNIPPET(guest_vmxon, "vmxon 0x20(%rax)");
SNIPPET(guest_vmclear, "vmclear -8(%rbp, %rcx, 4)");
SNIPPET(guest_vmptrld, "vmptrld %fs:(%r15)");
SNIPPET(guest_vmptrst, "vmptrst 0x12345678(, %rdx, 8)");
SNIPPET(guest_vmread, "vmread %rdi, %r9");
SNIPPET(guest_vmread_memory, "vmread %r12, 0x30(%rsp)");
SNIPPET(guest_vmwrite, "vmwrite %rsi, %r10");
SNIPPET(guest_vmwrite_memory, "vmwrite (%rip), %rbx");
SNIPPET(guest_invept, "invept 0x18(%r8), %rdx");
SNIPPET(guest_invvpid, "invvpid (%eax), %r11");

/* Instruction information: memory operands by segment, address size, base, index, scale. */
#define SCALE(n)     ((uint32_t)(n))
#define ADDRESS_64   (2u << 7)
#define ADDRESS_32   (1u << 7)
#define IN_DS        (3u << 15)
#define IN_SS        (2u << 15)
#define IN_FS        (4u << 15)
#define INDEX(reg)   ((uint32_t)(reg) << 18)
#define NO_INDEX     (1u << 22)
#define BASE(reg)    ((uint32_t)(reg) << 23)
#define NO_BASE      (1u << 27)
#define REGISTER     (1u << 10)
#define REG1(reg)    ((uint32_t)(reg) << 3)
#define REG2(reg)    ((uint32_t)(reg) << 28)
#define MEMORY_MASK  0x0fc38380u /* without scale and index */
#define INDEXED_MASK 0x0fff8383u
#define NO_BASE_MASK 0x083f8383u
#define WITH_REG2    0xf0000000u

static const struct vm_row vmx[] = {
    {"VMCALL exits always", CODE(guest_vmcall), .reason = REASON_VMCALL},
    {"VMLAUNCH exits always", CODE(guest_vmlaunch), .reason = REASON_VMLAUNCH},
    {"VMRESUME exits always", CODE(guest_vmresume), .reason = REASON_VMRESUME},
    {"VMXOFF exits always", CODE(guest_vmxoff), .reason = REASON_VMXOFF},
    {"VMXON [RAX+20H]", CODE(guest_vmxon), .reason = REASON_VMXON, .qualification = 0x20,
     .info = ADDRESS_64 | IN_DS | NO_INDEX | BASE(0), .info_mask = MEMORY_MASK},
    {"VMCLEAR [RBP+RCX*4-8]: a negative displacement, SS", CODE(guest_vmclear),
     .reason = REASON_VMCLEAR, .qualification = (uint64_t)-8,
     .info = SCALE(2) | ADDRESS_64 | IN_SS | INDEX(1) | BASE(5), .info_mask = INDEXED_MASK},
    {"VMPTRLD FS:[R15]: a segment prefix", CODE(guest_vmptrld), .reason = REASON_VMPTRLD,
     .info = ADDRESS_64 | IN_FS | NO_INDEX | BASE(15), .info_mask = MEMORY_MASK},
    {"VMPTRST [RDX*8+12345678H]: no base", CODE(guest_vmptrst), .reason = REASON_VMPTRST,
     .qualification = 0x12345678, .info = SCALE(3) | ADDRESS_64 | IN_DS | INDEX(2) | NO_BASE,
     .info_mask = NO_BASE_MASK},
    {"VMREAD R9, RDI: registers", CODE(guest_vmread), .reason = REASON_VMREAD,
     .info = REGISTER | REG1(9) | REG2(7), .info_mask = REGISTER | REG1(15) | REG2(15)},
    {"VMREAD [RSP+30H], R12", CODE(guest_vmread_memory), .reason = REASON_VMREAD,
     .qualification = 0x30, .info = ADDRESS_64 | IN_SS | NO_INDEX | BASE(4) | REG2(12),
     .info_mask = MEMORY_MASK | WITH_REG2 | REGISTER},
    {"VMWRITE R10, RSI: registers", CODE(guest_vmwrite), .reason = REASON_VMWRITE,
     .info = REGISTER | REG1(6) | REG2(10), .info_mask = REGISTER | REG1(15) | REG2(15)},
    {"VMWRITE RBX, [RIP]: no base", CODE(guest_vmwrite_memory), .reason = REASON_VMWRITE,
     .any_qualification = true, .info = ADDRESS_64 | IN_DS | NO_INDEX | NO_BASE | REG2(3),
     .info_mask = ADDRESS_64 | IN_DS | NO_INDEX | NO_BASE | WITH_REG2 | REGISTER},
    {"INVEPT RDX, [R8+18H]", CODE(guest_invept), .reason = REASON_INVEPT, .qualification = 0x18,
     .info = ADDRESS_64 | IN_DS | NO_INDEX | BASE(8) | REG2(2),
     .info_mask = MEMORY_MASK | WITH_REG2, .need_ept_vpid = EPT_INVEPT},
    {"INVVPID R11, [EAX]: 32-bit addresses", CODE(guest_invvpid), .reason = REASON_INVVPID,
     .info = ADDRESS_32 | IN_DS | NO_INDEX | BASE(0) | REG2(11),
     .info_mask = MEMORY_MASK | WITH_REG2, .need_ept_vpid = VPID_INVVPID},
};

/* ---- Descriptor tables -------------------------------------------------------------------- */

SNIPPET(guest_sgdt, "sgdt 0x40(%rax)");
SNIPPET(guest_sidt, "sidt (%rax)");
SNIPPET(guest_lgdt, "lgdt (%rax)");
SNIPPET(guest_lidt, "lidt 0x7f(%rbx)");
SNIPPET(guest_sldt, "sldt %ecx");
SNIPPET(guest_str, "str 0x10(%rax)");
SNIPPET(guest_lldt, "lldt %dx");
SNIPPET(guest_ltr, "ltr (%rbx)");

/* Bits 29:28 tell the instruction from its like, bit 10 a register. */
#define WHICH(n)    ((uint32_t)(n) << 28)
#define TABLE_MASK  (MEMORY_MASK | 0x30000000u)
#define TABLES_EXIT .on.proc2 = PROC2_DESCRIPTOR_TABLE

static const struct vm_row tables[] = {
    {"SGDT with descriptor-table exiting", CODE(guest_sgdt), TABLES_EXIT,
     .reason = REASON_GDTR_IDTR, .qualification = 0x40,
     .info = ADDRESS_64 | IN_DS | NO_INDEX | BASE(0) | WHICH(0), .info_mask = TABLE_MASK},
    {"SIDT with descriptor-table exiting", CODE(guest_sidt), TABLES_EXIT,
     .reason = REASON_GDTR_IDTR, .info = ADDRESS_64 | IN_DS | NO_INDEX | BASE(0) | WHICH(1),
     .info_mask = TABLE_MASK},
    {"LGDT with descriptor-table exiting", CODE(guest_lgdt), TABLES_EXIT,
     .reason = REASON_GDTR_IDTR, .info = ADDRESS_64 | IN_DS | NO_INDEX | BASE(0) | WHICH(2),
     .info_mask = TABLE_MASK},
    {"LIDT with descriptor-table exiting", CODE(guest_lidt), TABLES_EXIT,
     .reason = REASON_GDTR_IDTR, .qualification = 0x7f,
     .info = ADDRESS_64 | IN_DS | NO_INDEX | BASE(3) | WHICH(3), .info_mask = TABLE_MASK},
    {"SLDT with descriptor-table exiting", CODE(guest_sldt), TABLES_EXIT, .reason = REASON_LDTR_TR,
     .info = REGISTER | REG1(1) | WHICH(0), .info_mask = REGISTER | REG1(15) | WHICH(3)},
    {"STR with descriptor-table exiting", CODE(guest_str), TABLES_EXIT, .reason = REASON_LDTR_TR,
     .qualification = 0x10, .info = ADDRESS_64 | IN_DS | NO_INDEX | BASE(0) | WHICH(1),
     .info_mask = TABLE_MASK | REGISTER},
    {"LLDT with descriptor-table exiting", CODE(guest_lldt), TABLES_EXIT, .reason = REASON_LDTR_TR,
     .info = REGISTER | REG1(2) | WHICH(2), .info_mask = REGISTER | REG1(15) | WHICH(3)},
    {"LTR with descriptor-table exiting", CODE(guest_ltr), TABLES_EXIT, .reason = REASON_LDTR_TR,
     .info = ADDRESS_64 | IN_DS | NO_INDEX | BASE(3) | WHICH(3),
     .info_mask = TABLE_MASK | REGISTER},
    {"SLDT without descriptor-table exiting", CODE(guest_sldt), DONE},
};

/* ---- Debug registers ---------------------------------------------------------------------- */

SNIPPET(guest_to_dr0, "mov %rbx, %dr0");
SNIPPET(guest_to_dr7, "mov %r13, %dr7");
SNIPPET(guest_from_dr6, "mov %dr6, %rdx");

#define FROM_DR   (1u << 4)
#define DR_REG(n) ((uint64_t)(n) << 8)

static const struct vm_row debug_registers[] = {
    {"MOV DR0, RBX with MOV-DR exiting", CODE(guest_to_dr0), .on.proc = PROC_MOV_DR,
     .reason = REASON_DR, .qualification = DR_REG(3)},
    {"MOV DR7, R13 with MOV-DR exiting", CODE(guest_to_dr7), .on.proc = PROC_MOV_DR,
     .reason = REASON_DR, .qualification = DR_REG(13) | 7},
    {"MOV RDX, DR6 with MOV-DR exiting", CODE(guest_from_dr6), .on.proc = PROC_MOV_DR,
     .reason = REASON_DR, .qualification = DR_REG(2) | FROM_DR | 6},
    {"MOV RDX, DR6 without MOV-DR exiting", CODE(guest_from_dr6), DONE},
};

/* ---- Exceptions --------------------------------------------------------------------------- */

SNIPPET(guest_int3, "int3");
SNIPPET(guest_int1, ".byte 0xf1");
SNIPPET(guest_int_6, "int $6");
SNIPPET(guest_divide, "divl %ecx");
SNIPPET(guest_general, "movw %ax, %ds"); /* with a selector beyond the GDT */
SNIPPET(guest_load, "movl (%rbx), %eax");
SNIPPET(guest_store, "movl %eax, (%rbx)");

#define EXCEPTION(vector) (EVENT_VALID | EVENT_EXCEPTION | (vector))
#define BITMAP(vector)                                                                             \
    {                                                                                              \
        PUT, VMCS_EXCEPTION_BITMAP, 1u << (vector)                                                 \
    }
#define UNMAPPED          0x0000400000001230ull
#define PF_WRITE          2u
#define IDT_ERROR(vector) ((vector)*8u + 3) /* of a #GP: the IDT's entry */

static const struct vm_row exceptions[] = {
    {"#UD in the exception bitmap", CODE(guest_ud2), .changes = {BITMAP(VEC_UD)},
     .reason = REASON_EXCEPTION, .event = EXCEPTION(VEC_UD)},
    {"another vector in the exception bitmap", CODE(guest_ud2), .changes = {BITMAP(VEC_GP)},
     VECTORED(VEC_UD)},
    {"#DE in the exception bitmap", CODE(guest_divide), .changes = {BITMAP(0)},
     .reason = REASON_EXCEPTION, .event = EXCEPTION(0)},
    {"#BP in the exception bitmap is a software exception", CODE(guest_int3),
     .changes = {BITMAP(VEC_BP)}, .reason = REASON_EXCEPTION,
     .event = EVENT_VALID | EVENT_SOFT_EXCEPTION | VEC_BP},
    {"INT1 in the exception bitmap is a privileged software exception", CODE(guest_int1),
     .changes = {BITMAP(VEC_DB)}, .reason = REASON_EXCEPTION,
     .event = EVENT_VALID | EVENT_PRIVILEGED | VEC_DB},
    {"INT 6 does not exit by the exception bitmap", CODE(guest_int_6), .changes = {BITMAP(VEC_UD)},
     VECTORED(VEC_UD)},
    {"#GP in the exception bitmap, with its error code", CODE(guest_general),
     .changes = {BITMAP(VEC_GP)}, .registers.rax = 0x1238, .reason = REASON_EXCEPTION,
     .event = EXCEPTION(VEC_GP) | EVENT_ERROR_CODE, .error_code = 0x1238},
    {"#PF in the exception bitmap: address and error code", CODE(guest_load),
     .changes = {BITMAP(VEC_PF)}, .registers.rbx = UNMAPPED, .reason = REASON_EXCEPTION,
     .qualification = UNMAPPED, .event = EXCEPTION(VEC_PF) | EVENT_ERROR_CODE},
    {"#PF of a store", CODE(guest_store), .changes = {BITMAP(VEC_PF)}, .registers.rbx = UNMAPPED,
     .reason = REASON_EXCEPTION, .qualification = UNMAPPED,
     .event = EXCEPTION(VEC_PF) | EVENT_ERROR_CODE, .error_code = PF_WRITE},
    {"#PF whose error code does not match", CODE(guest_load),
     .changes = {BITMAP(VEC_PF),
                 {PUT, VMCS_PAGE_FAULT_MASK, PF_WRITE},
                 {PUT, VMCS_PAGE_FAULT_MATCH, PF_WRITE}},
     .registers.rbx = UNMAPPED, VECTORED(VEC_PF)},
    {"#PF whose error code matches", CODE(guest_store),
     .changes = {BITMAP(VEC_PF),
                 {PUT, VMCS_PAGE_FAULT_MASK, PF_WRITE},
                 {PUT, VMCS_PAGE_FAULT_MATCH, PF_WRITE}},
     .registers.rbx = UNMAPPED, .reason = REASON_EXCEPTION, .qualification = UNMAPPED,
     .event = EXCEPTION(VEC_PF) | EVENT_ERROR_CODE, .error_code = PF_WRITE},
    {"#PF outside of the bitmap whose error code does not match exits", CODE(guest_load),
     .changes = {{PUT, VMCS_PAGE_FAULT_MASK, PF_WRITE}, {PUT, VMCS_PAGE_FAULT_MATCH, PF_WRITE}},
     .registers.rbx = UNMAPPED, .reason = REASON_EXCEPTION, .qualification = UNMAPPED,
     .event = EXCEPTION(VEC_PF) | EVENT_ERROR_CODE},
    {"#PF outside of the bitmap whose error code matches", CODE(guest_store),
     .changes = {{PUT, VMCS_PAGE_FAULT_MASK, PF_WRITE}, {PUT, VMCS_PAGE_FAULT_MATCH, PF_WRITE}},
     .registers.rbx = UNMAPPED, VECTORED(VEC_PF)},
    {"#GP without a handler, #DF without one: triple fault", CODE(guest_ud2),
     .changes = {{PUT, VMCS_GUEST_IDTR_LIMIT, 0}}, .reason = REASON_TRIPLE_FAULT},
    {"#DF in the exception bitmap: not during delivery", CODE(guest_ud2),
     .changes = {{PUT, VMCS_GUEST_IDTR_LIMIT, 0}, BITMAP(8)}, .reason = REASON_EXCEPTION,
     .event = EXCEPTION(8) | EVENT_ERROR_CODE},
    {"#GP of a delivery in the exception bitmap: IDT-vectoring information", CODE(guest_ud2),
     .changes = {{PUT, VMCS_GUEST_IDTR_LIMIT, 0}, BITMAP(VEC_GP)}, .reason = REASON_EXCEPTION,
     .event = EXCEPTION(VEC_GP) | EVENT_ERROR_CODE, .error_code = IDT_ERROR(VEC_UD),
     .vectoring = EXCEPTION(VEC_UD)},
};

#define RFLAGS_TF (1u << 8)
#define DR6_BS    (1u << 14)

static const struct vm_row single_step[] = {
    {"#DB of RFLAGS.TF in the exception bitmap: BS, behind the instruction", CODE(guest_pause),
     .changes = {BITMAP(VEC_DB), {SET, VMCS_GUEST_RFLAGS, RFLAGS_TF}}, .at = AT_END,
     .reason = REASON_EXCEPTION, .qualification = DR6_BS, .event = EXCEPTION(VEC_DB)},
    {"#DB of RFLAGS.TF in the guest", CODE(guest_pause),
     .changes = {{SET, VMCS_GUEST_RFLAGS, RFLAGS_TF}}, VECTORED(VEC_DB)},
};

void test_exits(void)
{
    RUN_ROWS(instructions);
    test_optional();
    RUN_ROWS(vmx);
    RUN_ROWS(tables);
    RUN_ROWS(debug_registers);
    RUN_ROWS(exceptions);
    RUN_ROWS(single_step);
}
