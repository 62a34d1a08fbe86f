/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMX instructions. Each gives how it ended.
 */
#ifndef GUEST_VMX_INSN_H
#define GUEST_VMX_INSN_H

#include <stdint.h>

#define VM_SUCCEED      0u
#define VM_FAIL_INVALID 1u     /* CF */
#define VM_FAIL_VALID   2u     /* ZF */
#define VM_FAULTED      0x100u /* and the exception's vector */

unsigned vmxon(const uint64_t *phys);
unsigned vmxoff(void);
unsigned vmclear(const uint64_t *phys);
unsigned vmptrld(const uint64_t *phys);
unsigned vmptrst(uint64_t *phys);
unsigned vmread(uint64_t field, uint64_t *value);
unsigned vmwrite(uint64_t field, uint64_t value);
unsigned vmcall(void);
unsigned invept(uint64_t type, const uint64_t descriptor[2]);
unsigned invvpid(uint64_t type, const uint64_t descriptor[2]);

/* VM_SUCCEED, or how it faulted. */
unsigned write_cr0_safe(uint64_t value);
unsigned write_cr4_safe(uint64_t value);

/* An NMI that caused an exit blocks the next ones: IRET, to the caller. */
void unblock_nmis(void);

/* The guest's, but RSP. */
struct vm_registers {
    uint64_t rax, rbx, rcx, rdx, rsi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rdi;
};

/* VM_SUCCEED: the guest has run up to its next exit, or the entry failed late. */
unsigned vmlaunch(struct vm_registers *registers);
unsigned vmresume(struct vm_registers *registers);
unsigned vmlaunch_behind_mov_ss(struct vm_registers *registers);

/* Host RIP, and the instruction behind a VMLAUNCH. */
extern const uint8_t vmx_exit[], vmlaunch_next[];
/* Of a guest's IDT: VMCALLs, VECTOR_BYTES apart. */
extern const uint8_t vmx_vectors[];
#define VECTOR_BYTES 16

#endif
