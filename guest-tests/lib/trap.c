/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GDT, IDT and TSS, and the way of exceptions, interrupts and system calls to their handlers.
 *
 * NMI, double fault and machine check have stacks of their own (IST 1 to 3): an NMI may come
 * between SYSCALL and the load of the kernel's stack pointer.
 */
#include "trap.h"
#include "console.h"
#include "cpu.h"
#include "exit.h"
#include "string.h"

/* ---- Tables ------------------------------------------------------------------------------- */

#define VECTOR_COUNT    256
#define STUB_BYTES      16
#define SELECTOR_TSS    0x30
#define MSR_EFER        0xc0000080u
#define MSR_STAR        0xc0000081u
#define MSR_LSTAR       0xc0000082u
#define MSR_SFMASK      0xc0000084u
#define EFER_SCE        (1ull << 0)
#define RFLAGS_TF_IF_DF 0x700ull
#define GATE_INTERRUPT  0x8e00u /* present, DPL 0, 64-bit interrupt gate */
#define GATE_USER       0xee00u /* the same with DPL 3 */
#define TSS_AVAILABLE   0x0000890000000000ull

struct gate {
    uint16_t offset_0, selector, attributes_ist, offset_16;
    uint32_t offset_32, reserved;
};

extern const char vectors[]; /* vectors.S */
void syscall_entry(void);
uint64_t kernel_stack_top; /* read by syscall_entry */

static struct trap_tables first; /* of the processor that begins */
static _Alignas(16) struct gate idt[VECTOR_COUNT];
/* SYSRET wants the order: user code (32-bit), user data, user code (64-bit). */
static const uint64_t segments[GDT_WORDS] = {
    0,
    0x00af9b000000ffffull, /* 08H: kernel code */
    0x00cf93000000ffffull, /* 10H: kernel data */
    0x00cffb000000ffffull, /* 18H: user code, 32-bit */
    0x00cff3000000ffffull, /* 20H: user data */
    0x00affb000000ffffull, /* 28H: user code */
    0,                     /* 30H: TSS */
    0,
};

static void set_gate(unsigned vector, uint64_t entry, unsigned attributes, unsigned ist)
{
    idt[vector] = (struct gate){
        .offset_0 = (uint16_t)entry,
        .selector = KERNEL_CS,
        .attributes_ist = (uint16_t)(attributes | ist),
        .offset_16 = (uint16_t)(entry >> 16),
        .offset_32 = (uint32_t)(entry >> 32),
    };
}

static uint64_t stub(unsigned vector)
{
    return (uint64_t)vectors + vector * STUB_BYTES;
}

void trap_load_tables(struct trap_tables *tables)
{
    const struct table_pointer gdt_pointer = {sizeof(tables->gdt) - 1, (uint64_t)tables->gdt};
    const struct table_pointer idt_pointer = {sizeof(idt) - 1, (uint64_t)idt};
    const uint64_t base = (uint64_t)&tables->tss;

    for (unsigned i = 0; i < IST_STACKS; i++)
        tables->tss.ist[i] = (uint64_t)(tables->ist_stacks[i] + sizeof(tables->ist_stacks[i]));
    tables->tss.iomap = sizeof(tables->tss);
    memcpy(tables->gdt, segments, sizeof(segments));
    tables->gdt[SELECTOR_TSS / 8] = (sizeof(tables->tss) - 1) | (base & 0xffffff) << 16 |
                                    TSS_AVAILABLE | (base >> 24 & 0xff) << 56;
    tables->gdt[SELECTOR_TSS / 8 + 1] = base >> 32;
    __asm__ volatile("lgdt %0\n\t"
                     "movl %2, %%ds\n\t"
                     "movl %2, %%es\n\t"
                     "movl %2, %%ss\n\t"
                     "pushq %1\n\t"
                     "leaq 1f(%%rip), %%rax\n\t"
                     "pushq %%rax\n\t"
                     "lretq\n"
                     "1:\n\t"
                     "lidt %3\n\t"
                     "ltr %w4"
                     :
                     : "m"(gdt_pointer), "i"(KERNEL_CS), "r"(0x10), "m"(idt_pointer),
                       "r"(SELECTOR_TSS)
                     : "rax", "memory");
}

void trap_set_kernel_stack(uint64_t stack_top)
{
    kernel_stack_top = stack_top;
    first.tss.rsp[0] = stack_top;
}

void trap_init(void)
{
    for (unsigned vector = 0; vector < VECTOR_COUNT; vector++)
        set_gate(vector, stub(vector), GATE_INTERRUPT, 0);
    set_gate(VECTOR_NMI, stub(VECTOR_NMI), GATE_INTERRUPT, 1);
    set_gate(VECTOR_DOUBLE_FAULT, stub(VECTOR_DOUBLE_FAULT), GATE_INTERRUPT, 2);
    set_gate(VECTOR_MACHINE_CHECK, stub(VECTOR_MACHINE_CHECK), GATE_INTERRUPT, 3);
    set_gate(VECTOR_BREAKPOINT, stub(VECTOR_BREAKPOINT), GATE_USER, 0);
    trap_load_tables(&first);

    wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_SCE);
    wrmsr(MSR_STAR, (uint64_t)(0x18 | 3) << 48 | (uint64_t)KERNEL_CS << 32);
    wrmsr(MSR_LSTAR, (uint64_t)syscall_entry);
    wrmsr(MSR_SFMASK, RFLAGS_TF_IF_DF);
}

void trap_set_entry(unsigned vector, const void *entry)
{
    const struct gate *gate = &idt[vector];
    const unsigned ist = gate->attributes_ist & 7;

    set_gate(vector, entry ? (uint64_t)entry : stub(vector), gate->attributes_ist & ~7u, ist);
}

void trap_set_syscall_entry(const void *entry)
{
    wrmsr(MSR_LSTAR, entry ? (uint64_t)entry : (uint64_t)syscall_entry);
}

/* ---- Handlers ----------------------------------------------------------------------------- */

static trap_handler *handlers[VECTOR_COUNT];
static syscall_handler *on_syscall;

void trap_set_handler(unsigned vector, trap_handler *handler)
{
    handlers[vector] = handler;
}

void trap_set_syscall_handler(syscall_handler *handler)
{
    on_syscall = handler;
}

struct fixup {
    uint64_t from, to;
};
extern const struct fixup fixups_begin[], fixups_end[];

/* Goes on at the fixup of the instruction that faulted, with the vector as the result. */
static bool fix_up(struct frame *frame)
{
    for (const struct fixup *f = fixups_begin; f < fixups_end; f++) {
        if (f->from == frame->rip) {
            frame->rax = frame->vector;
            frame->rip = f->to;
            return true;
        }
    }
    return false;
}

static _Noreturn void stop(const struct frame *frame)
{
    printf("unexpected %s %lu (error code 0x%lx) at 0x%lx\n",
           frame->vector < 32 ? "exception" : "interrupt", frame->vector, frame->error_code,
           frame->rip);
    printf("cs %lx rflags %lx rsp %lx cr2 %lx cr3 %lx\n", frame->cs, frame->rflags, frame->rsp,
           read_cr2(), read_cr3());
    printf("rax %lx rbx %lx rcx %lx rdx %lx rsi %lx rdi %lx rbp %lx\n", frame->rax, frame->rbx,
           frame->rcx, frame->rdx, frame->rsi, frame->rdi, frame->rbp);
    guest_exit(2);
}

/* Called by vectors.S. */
void trap(struct frame *frame);
void system_call(struct frame *frame);

void trap(struct frame *frame)
{
    trap_handler *handler = handlers[frame->vector];

    if (handler && handler(frame))
        return;
    if (frame->vector < 32 && frame->vector != VECTOR_NMI && fix_up(frame))
        return;
    if (frame->vector == VECTOR_SPURIOUS)
        return;
    stop(frame);
}

void system_call(struct frame *frame)
{
    if (!on_syscall)
        stop(frame);
    on_syscall(frame);
}
