/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SVM: see svm.h.
 */
#include "svm.h"
#include "cpu.h"
#include "memory.h"

#define MSR_EFER        0xc0000080u
#define MSR_VM_HSAVE_PA 0xc0010117u
#define EFER_SVME       (1ull << 12)
#define CODE_64         0xa9bu
#define DATA            0xc93u
#define PERMISSIONS     (3 * PAGE_BYTES) /* I/O; for MSRs two pages would do */

static uint64_t permissions;

bool svm_present(void)
{
    return cpuid_checked(0x80000001, 0).ecx >> 2 & 1;
}

void svm_start(void)
{
    wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_SVME);
    wrmsr(MSR_VM_HSAVE_PA, phys_alloc(PAGE_BYTES, PAGE_BYTES));
    permissions = phys_alloc(PERMISSIONS, PAGE_BYTES);
}

void vmcb_init(struct vmcb *vmcb, const void *code, uint64_t stack_top)
{
    const struct table_pointer gdt = read_gdtr(), idt = read_idtr();

    vmcb->intercept[0] = INTERCEPT_CPUID | INTERCEPT_HLT;
    vmcb->intercept[1] = (INTERCEPT_VMRUN | INTERCEPT_VMMCALL) >> 32;
    vmcb->iopm = vmcb->msrpm = permissions;
    vmcb->asid = 1;
    vmcb->cs = (struct segment){0x08, CODE_64, UINT32_MAX, 0};
    vmcb->es = vmcb->ss = vmcb->ds = (struct segment){0x10, DATA, UINT32_MAX, 0};
    vmcb->gdtr = (struct segment){.limit = gdt.limit, .base = gdt.base};
    vmcb->idtr = (struct segment){.limit = idt.limit, .base = idt.base};
    vmcb->efer = rdmsr(MSR_EFER);
    vmcb->cr0 = read_cr0();
    vmcb->cr3 = read_cr3();
    vmcb->cr4 = read_cr4();
    vmcb->dr6 = 0xffff0ff0;
    vmcb->dr7 = 0x400;
    vmcb->rflags = 2;
    vmcb->rip = (uint64_t)code;
    vmcb->rsp = stack_top;
}
