/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SVM: the VMCB, as far as guests of a guest need it (AMD64 Architecture Programmer's Manual,
 * volume 2, appendix B).
 */
#ifndef GUEST_SVM_H
#define GUEST_SVM_H

#include <stdbool.h>
#include <stdint.h>

#define INTERCEPT_CPUID   (1ull << 18)
#define INTERCEPT_HLT     (1ull << 24)
#define INTERCEPT_VMRUN   (1ull << 32)
#define INTERCEPT_VMMCALL (1ull << 33)
#define EXIT_EXCEPTION    0x40u
#define EXIT_CPUID        0x72u
#define EXIT_HLT          0x78u
#define EXIT_VMMCALL      0x81u
#define EXIT_INVALID      0xffffffffu

struct segment {
    uint16_t selector, attributes;
    uint32_t limit;
    uint64_t base;
};

struct vmcb {
    uint32_t intercept_cr, intercept_dr, intercept_exceptions;
    uint32_t intercept[5];
    uint8_t reserved_20[0x20];
    uint64_t iopm, msrpm, tsc_offset;
    uint32_t asid, tlb_control;
    uint64_t interrupts, shadow;
    uint64_t exit_code, exit_info_1, exit_info_2, exit_interrupt;
    uint64_t nested_paging;
    uint8_t reserved_98[0x10];
    uint64_t event, nested_cr3;
    uint8_t reserved_b8[0x348];
    struct segment es, cs, ss, ds, fs, gs, gdtr, ldtr, idtr, tr;
    uint8_t reserved_4a0[0x2b];
    uint8_t cpl;
    uint32_t reserved_4cc;
    uint64_t efer;
    uint8_t reserved_4d8[0x70];
    uint64_t cr4, cr3, cr0, dr7, dr6, rflags, rip;
    uint8_t reserved_580[0x58];
    uint64_t rsp;
    uint8_t reserved_5e0[0x18];
    uint64_t rax;
    uint8_t reserved_600[0x40];
    uint64_t cr2;
};
_Static_assert(__builtin_offsetof(struct vmcb, event) == 0xa8, "VMCB: EVENTINJ");
_Static_assert(__builtin_offsetof(struct vmcb, efer) == 0x4d0, "VMCB: EFER");
_Static_assert(__builtin_offsetof(struct vmcb, rip) == 0x578, "VMCB: RIP");
_Static_assert(__builtin_offsetof(struct vmcb, rax) == 0x5f8, "VMCB: RAX");
_Static_assert(__builtin_offsetof(struct vmcb, cr2) == 0x640, "VMCB: CR2");

bool svm_present(void);
/* Makes VMRUN an instruction. */
void svm_start(void);
/*
 * A VM that begins at code in the guest's own address space, and exits for CPUID, HLT, VMMCALL and
 * VMRUN.
 */
void vmcb_init(struct vmcb *vmcb, const void *code, uint64_t stack_top);

#endif
