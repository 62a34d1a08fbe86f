/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exceptions, interrupts and system calls: the frame they leave, and who handles them.
 */
#ifndef GUEST_TRAP_H
#define GUEST_TRAP_H

#include <stdbool.h>
#include <stdint.h>

/* What vectors.S leaves on the stack. */
struct frame {
    uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax;
    uint64_t vector, error_code;
    uint64_t rip, cs, rflags, rsp, ss;
};

#define VECTOR_NMI           2
#define VECTOR_BREAKPOINT    3
#define VECTOR_INVALID_OP    6
#define VECTOR_DOUBLE_FAULT  8
#define VECTOR_PAGE_FAULT    14
#define VECTOR_MACHINE_CHECK 18
#define VECTOR_TIMER         0x40
#define VECTOR_PMI           0x41
#define VECTOR_SPURIOUS      0xff

#define KERNEL_CS 0x08
#define USER_CS   0x2b
#define USER_SS   0x23

#define RFLAGS_IF (1ull << 9)

static inline bool frame_is_user(const struct frame *frame)
{
    return (frame->cs & 3) == 3;
}

/* GDT, IDT, TSS, SYSCALL MSRs. */
void trap_init(void);

#define IST_STACKS 3
#define GDT_WORDS  8

struct __attribute__((packed)) tss {
    uint32_t reserved0;
    uint64_t rsp[3];
    uint64_t reserved1;
    uint64_t ist[7];
    uint64_t reserved2;
    uint16_t reserved3, iomap;
};

/* What each processor has of its own. The IDT is everybody's. */
struct trap_tables {
    _Alignas(16) uint8_t ist_stacks[IST_STACKS][8192];
    uint64_t gdt[GDT_WORDS];
    struct tss tss;
};
/* Fills and loads them, and the IDT: for processors that start after trap_init(). */
void trap_load_tables(struct trap_tables *tables);

/*
 * Who handles a vector: true if it did, else the guest stops with a dump of the frame. NULL takes
 * the handler away.
 */
typedef bool trap_handler(struct frame *frame);
void trap_set_handler(unsigned vector, trap_handler *handler);

/*
 * Code of the guest's own that the processor enters at a vector, without any of vectors.S: it
 * leaves by IRETQ. NULL: back to the handlers.
 */
void trap_set_entry(unsigned vector, const void *entry);
/* The same for SYSCALL (IA32_LSTAR). */
void trap_set_syscall_entry(const void *entry);

/* System calls: number in RAX, arguments in RDI and RSI, result to RAX. NULL: there are none. */
typedef void syscall_handler(struct frame *frame);
void trap_set_syscall_handler(syscall_handler *handler);

/* The stack that the next way from user mode into the kernel begins on. */
void trap_set_kernel_stack(uint64_t stack_top);

/* vectors.S: leaves through the frame at RSP. */
void frame_return(void);
/* vectors.S: saves the stack pointer of this thread of the kernel, goes on with another one. */
void stack_switch(uint64_t *save_rsp, uint64_t rsp);

#endif
