/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What makes a guest exit, and what it sees instead: what TCG's helpers ask. */
#ifndef I386_VMX_INTERCEPT_H
#define I386_VMX_INTERCEPT_H

#include "vmx.h"

/* ---- intercept.c ---- */

/* In VMX non-root operation, what SVM calls type happens; returns unless it exits. */
void x86_vmx_check(CPUX86State *env, uint32_t type, uint64_t param, uintptr_t retaddr);
/* Where SVM exits without asking. */
G_NORETURN void x86_vmx_instead(CPUX86State *env, uint32_t type, uintptr_t retaddr);
void x86_vmx_check_io(CPUX86State *env, uint32_t port, uint32_t param, uintptr_t retaddr);
void x86_vmx_check_xsetbv(CPUX86State *env, uintptr_t retaddr);

/* CR0 or CR4 as a read finds it; what a write makes of it, in VMX operation. */
uint64_t x86_vmx_cr_seen(CPUX86State *env, int reg);
uint64_t x86_vmx_cr_written(CPUX86State *env, int reg, uint64_t value, uintptr_t retaddr);
/* CLTS leaves TS as it is. */
bool x86_vmx_keeps_ts(CPUX86State *env);
/* A RDMSR or WRMSR that would fault is an MSR area's: it was noted instead. */
bool x86_vmx_msr_fails(CPUX86State *env);

/* ---- events.c ---- */

void x86_vmx_check_exception(CPUX86State *env, int vector, uint32_t error, uintptr_t retaddr);
/* Of a fault that exits, with EIP at its instruction: this is an IRET, which had unblocked NMIs.
 * They are unblocked now. */
bool x86_vmx_iret_unblocks(CPUX86State *env);
/* A debug exception with these causes, which DR6 does not have yet. */
void x86_vmx_check_debug(CPUX86State *env, uint64_t causes);
/* In a guest or not: a trap, whose breakpoints and causes DR6 has now; an exit leaves it as before.
 */
void x86_vmx_check_trap(CPUX86State *env, uint64_t dr6_before, uint64_t causes);
/* The same of an instruction breakpoint, which is a fault. */
void x86_vmx_check_breakpoint(CPUX86State *env, uint64_t dr6_before);
/* INT1 of so many bytes, in a guest or not. */
void x86_vmx_int1(CPUX86State *env, int length);
/* What was delivered is INT1, of int1_length bytes. */
bool x86_vmx_int1_done(CPUX86State *env, int vector);
/* INT3 and INTO of so many bytes. */
void x86_vmx_check_soft(CPUX86State *env, int vector, int length, uintptr_t retaddr);
/* In a guest, always; its instruction, or the event that is delivered, is at EIP. */
G_NORETURN void x86_vmx_exit_task_switch(CPUX86State *env, uint16_t selector, bool call, bool iret,
                                         uintptr_t retaddr);
void x86_vmx_check_interrupt(CPUX86State *env);
void x86_vmx_check_nmi(CPUX86State *env);
/* INIT waits for the end of VMX root operation. */
bool x86_vmx_blocks_init(CPUX86State *env);
G_NORETURN void x86_vmx_exit_init(CPUX86State *env);
G_NORETURN void x86_vmx_exit_window(CPUX86State *env);
/* Something may be due that exits: x86_vmx_pending() is to be asked. Other threads request
 * interrupts at the same time. */
void x86_vmx_request(CPUX86State *env);
/* Which of the requests is next in VMX non-root operation; 0: none. */
int x86_vmx_pending(CPUX86State *env, int requests);
/* A page fault that exits: its address goes to the qualification, and not to CR2. */
bool x86_vmx_takes_fault(CPUX86State *env, int vector, int error, uint64_t address);
/* Around the delivery of an event through the IDT. */
void x86_vmx_delivering(CPUX86State *env, int vector, bool software, int error, bool hardware,
                        bool real);
void x86_vmx_delivered(CPUX86State *env);

/* ---- ept.c ---- */

#define EPTP_DIRTY (1u << 6) /* accessed and dirty flags */

struct x86_ept {
    uint64_t physical, page_size;
    int prot;
};

/* False: the access cannot be made. x86_ept_exit() tells why. */
bool x86_ept_walk(CPUX86State *env, uint64_t address, MMUAccessType access, struct x86_ept *to);
/*
 * How paging structures are accessed in a walk. With accessed and dirty flags of EPT, that is a
 * write; without, setting a flag is one, and all else a read. In a page walk of no VMX guest, TCG
 * asks for both from the start.
 */
static inline MMUAccessType x86_ept_table_access(CPUX86State *env)
{
    const bool ept = (env->hflags2 & HF2_NPT_MASK) && x86_vmx_guest(env);

    return ept && !(x86_vmx_of(env)->vmcs[VMCS_EPT_POINTER] & EPTP_DIRTY) ? MMU_DATA_LOAD
                                                                          : MMU_DATA_STORE;
}

/* walk: the access was one to the guest's paging structures. */
G_NORETURN void x86_ept_exit(CPUX86State *env, uint64_t linear, uint64_t physical, bool walk,
                             uintptr_t retaddr);

/* ---- tlb.c ---- */

/* MOV to CR3, in VMX operation. */
void x86_vmx_load_cr3(CPUX86State *env, uint64_t cr3);

/* ---- vme.c ---- */

/* Whether an event is an INT n of virtual-8086 mode that stays there, and its delivery. */
bool x86_vme_redirects(CPUX86State *env, int vector, bool software, uint32_t next_eip);
void x86_vme_interrupt(CPUX86State *env, int vector, uint32_t next_eip);

/* ---- smm.c ---- */

/* SMM is not in VMX operation, and RSM leads back there. */
void x86_vmx_smi(CPUX86State *env);
void x86_vmx_rsm(CPUX86State *env);

#endif
