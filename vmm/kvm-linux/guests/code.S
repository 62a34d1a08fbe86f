/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guest of rules.c executes: pieces that its VMM begins one at a time (guest.h). Each ends with
 * an OUT: port F4H when it has come to its end, F5H with the vector of an exception, F6H if a VMX
 * instruction failed. All of it runs wherever it is put.
 */
#include "layout.h"

    .section .rodata
    .globl guest_code, guest_code_end

guest_code:

/* ECX: the MSR; the value in EDX:EAX. */
    .globl guest_rdmsr, guest_wrmsr
guest_rdmsr:
    rdmsr
    out %al, $PORT_DONE
guest_wrmsr:
    wrmsr
    out %al, $PORT_DONE

/* RBX indirect branches, of which each is a packet. */
    .globl guest_branches
guest_branches:
    leaq 1f(%rip), %rax
    jmp *%rax
1:  decq %rbx
    jnz guest_branches
    out %al, $PORT_DONE

/* VMXON with the region whose address stands at RDI; then the same branches. */
    .globl guest_vmxon
guest_vmxon:
    vmxon (%rdi)
    ja guest_branches
    out %al, $PORT_FAILED

/* One VM exit that KVM handles itself, with interrupts enabled before and behind it. */
    .globl guest_one_exit
guest_one_exit:
    sti
    nop
    cpuid
    nop
    out %al, $PORT_DONE

/* RBX times an instruction that takes no operand from memory, and that KVM does not emulate. */
    .globl guest_popcnts
guest_popcnts:
    popcntq %rbx, %rax
    decq %rbx
    jnz guest_popcnts
    out %al, $PORT_DONE

/*
 * RBX rounds of branches that RDI decides, a number that changes like any of its kind (WALK_FACTOR,
 * WALK_TERM): bit 40 whether a conditional branch is taken, bit 50 where an indirect one goes. Each
 * round calls a function as well.
 */
    .globl guest_walk, guest_walk_over, guest_walk_one, guest_walk_other, guest_walk_called
guest_walk:
    movabsq $WALK_FACTOR, %rsi
    imulq %rsi, %rdi
    addq $WALK_TERM, %rdi
    btq $WALK_TAKEN_BIT, %rdi
    jc 1f
guest_walk_over:
    nop
1:  leaq guest_walk_one(%rip), %rax
    leaq guest_walk_other(%rip), %rdx
    btq $WALK_OTHER_BIT, %rdi
    cmovcq %rdx, %rax
    jmp *%rax
guest_walk_one:
    call guest_walk_called
    jmp 2f
guest_walk_other:
    call guest_walk_called
    nop
2:  decq %rbx
    jnz guest_walk
    out %al, $PORT_DONE
guest_walk_called:
    ret

/* The performance-monitoring interrupt counts, and enables itself again. */
    .globl guest_pmi
guest_pmi:
    pushq %rax
    pushq %rcx
    incl PMI_COUNT
    movl $APIC_PAGE, %ecx
    movl $PMI_VECTOR, APIC_LVTPC(%rcx)
    movl $0, APIC_EOI(%rcx)
    popq %rcx
    popq %rax
    iretq

/* One entry of 16 bytes for each exception. */
    .balign 16
    .globl guest_vectors
guest_vectors:
    .set vector, 0
    .rept 32
    .balign 16
    pushq $vector
    jmp fault
    .set vector, vector + 1
    .endr
fault:
    popq %rax
    out %al, $PORT_FAULT
guest_code_end:

/* It stands at SMM_ENTRY. */
    .globl guest_smm, guest_smm_end
guest_smm:
    .code16
    movl $MSR_RTIT_CTL, %ecx
    rdmsr
    out %al, $PORT_DONE
    .code64
guest_smm_end:

    .section .note.GNU-stack, "", @progbits
