/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User processes: see process.h.
 *
 * Sections: address spaces and the ELF loader, page faults, switching, system calls and interrupts.
 *
 * A process is switched away from inside the kernel, on its own kernel stack, as in any operating
 * system: its RETs then answer CALLs that were made before the switch. A decoder must cope with
 * that.
 */
#include "process.h"
#include "apic.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "exit.h"
#include "memory.h"
#include "string.h"
#include "trap.h"

#define MAX_PROCESSES      4
#define MAX_REGIONS        4
#define KERNEL_STACK_BYTES 16384
#define USER_STACK_TOP     0x7ffffffff000ull
#define USER_STACK_BYTES   0x100000ull
#define UD2_BYTES          2

/* User memory that a process may touch; what of it comes from the file, and zeroes behind. */
struct region {
    uint64_t begin, end, file_end;
    const uint8_t *file;
    uint64_t pte_flags;
};

struct process {
    const char *name, *image;
    uint64_t cr3, kernel_rsp, kernel_stack_top;
    struct region regions[MAX_REGIONS];
    unsigned region_count;
    bool running;
    uint64_t status;
};

static struct process processes[MAX_PROCESSES];
static unsigned process_count;
static struct process *current; /* NULL: the thread that called process_run_all() */
static uint64_t main_rsp, main_cr3;
static struct process_stats stats;
static void (*hook)(void);

const struct process_stats *process_stats(void)
{
    return &stats;
}

void process_set_hook(void (*new_hook)(void))
{
    hook = new_hook;
}

/* ---- Address spaces and the ELF loader ---------------------------------------------------- */

struct elf_header {
    uint8_t ident[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, program_headers, section_headers;
    uint32_t flags;
    uint16_t header_bytes, program_header_bytes, program_header_count;
};

struct elf_segment {
    uint32_t type, flags;
    uint64_t offset, virt, phys, file_bytes, memory_bytes, align;
};

#define ELF_IDENT      0x00010102464c457full /* magic, 64-bit, little-endian, version 1 */
#define ELF_EXECUTABLE 2
#define ELF_X86_64     62
#define SEGMENT_LOAD   1
#define SEGMENT_WRITE  2

static void add_region(struct process *p, struct region region)
{
    if (p->region_count == MAX_REGIONS || region.end > USER_END) {
        printf("%s: cannot be loaded\n", p->image);
        guest_exit(1);
    }
    p->regions[p->region_count++] = region;
}

/* Gives the process the page that virt stands in; false: it has no business there. */
static bool fill_page(const struct process *p, uint64_t virt)
{
    uint64_t begin = virt & ~(PAGE_BYTES - 1), phys = 0, flags = PTE_USER;
    bool found = false;

    /* Two segments may share a page: it gets the bytes of both. */
    for (unsigned i = 0; i < p->region_count; i++) {
        const struct region *r = &p->regions[i];
        uint64_t from = r->begin > begin ? r->begin : begin;
        uint64_t to = r->file_end < begin + PAGE_BYTES ? r->file_end : begin + PAGE_BYTES;

        if (begin + PAGE_BYTES <= r->begin || begin >= r->end)
            continue;
        if (!found)
            phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
        found = true;
        flags |= r->pte_flags;
        if (from < to)
            memcpy((uint8_t *)phys_to_virt(phys) + (from - begin), r->file + (from - r->begin),
                   to - from);
    }
    if (found)
        map_page(p->cr3, begin, phys, flags);
    return found;
}

/* Code and initialised data are there from the start; the rest comes by page faults. */
static void load_segments(struct process *p, const uint8_t *elf, size_t elf_bytes)
{
    const struct elf_header *header = (const void *)elf;
    const struct elf_segment *segments = (const void *)(elf + header->program_headers);

    for (unsigned i = 0; i < header->program_header_count; i++) {
        const struct elf_segment *s = &segments[i];

        if (s->type != SEGMENT_LOAD)
            continue;
        if (s->offset > elf_bytes || s->file_bytes > elf_bytes - s->offset) {
            printf("%s: a segment ends behind the file\n", p->image);
            guest_exit(1);
        }
        add_region(p, (struct region){s->virt, s->virt + s->memory_bytes, s->virt + s->file_bytes,
                                      elf + s->offset, s->flags & SEGMENT_WRITE ? PTE_WRITE : 0});
    }
    for (unsigned i = 0; i < p->region_count; i++)
        for (uint64_t at = p->regions[i].begin & ~(PAGE_BYTES - 1); at < p->regions[i].file_end;
             at += PAGE_BYTES)
            if (!lookup_page(p->cr3, at))
                fill_page(p, at);
}

void process_create(const char *name, const char *image, const void *elf, size_t elf_bytes,
                    uint64_t argument)
{
    const struct elf_header *header = elf;
    struct process *p = &processes[process_count++];
    uint64_t ident, *stack;
    struct frame *frame;

    memcpy(&ident, header->ident, sizeof(ident));
    if (elf_bytes < sizeof(*header) || (ident & 0xffffffffffffffull) != ELF_IDENT ||
        header->type != ELF_EXECUTABLE || header->machine != ELF_X86_64) {
        printf("%s: not a static x86-64 program\n", image);
        guest_exit(1);
    }
    p->name = name;
    p->image = image;
    p->cr3 = address_space_new();
    load_segments(p, elf, elf_bytes);
    add_region(p, (struct region){.begin = USER_STACK_TOP - USER_STACK_BYTES,
                                  .end = USER_STACK_TOP,
                                  .pte_flags = PTE_WRITE});

    p->kernel_stack_top =
        (uint64_t)phys_to_virt(phys_alloc(KERNEL_STACK_BYTES, PAGE_BYTES)) + KERNEL_STACK_BYTES;
    frame = (struct frame *)p->kernel_stack_top - 1;
    *frame = (struct frame){.rip = header->entry,
                            .cs = USER_CS,
                            .rflags = RFLAGS_IF | 2,
                            .rsp = USER_STACK_TOP,
                            .ss = USER_SS,
                            .rdi = argument};
    /* What stack_switch() pops: six registers and the address that it returns to. */
    stack = (uint64_t *)frame;
    *--stack = (uint64_t)frame_return;
    stack -= 6;
    memset(stack, 0, 6 * sizeof(*stack));
    p->kernel_rsp = (uint64_t)stack;
    p->running = true;
}

void process_announce(void)
{
    for (unsigned i = 0; i < process_count; i++)
        note_process(processes[i].cr3, processes[i].name, processes[i].image);
}

/* ---- Switching ---------------------------------------------------------------------------- */

/* The next process in turn that runs, `current` itself last; NULL: all have ended. */
static struct process *next_process(void)
{
    unsigned first = current ? (unsigned)(current - processes) + 1 : 0;

    for (unsigned i = 0; i < process_count; i++) {
        struct process *p = &processes[(first + i) % process_count];

        if (p->running)
            return p;
    }
    return NULL;
}

static void switch_to_next(void)
{
    struct process *from = current, *to = next_process();
    uint64_t *save = from ? &from->kernel_rsp : &main_rsp;

    if (from == to)
        return;
    stats.switches++;
    current = to;
    if (to)
        trap_set_kernel_stack(to->kernel_stack_top);
    write_cr3(to ? to->cr3 : main_cr3);
    stack_switch(save, to ? to->kernel_rsp : main_rsp);
}

static _Noreturn void end_current(uint64_t status)
{
    current->running = false;
    current->status = status;
    switch_to_next();
    /* Nothing switches to a process that has ended. */
    __builtin_unreachable();
}

/* ---- System calls, faults and interrupts -------------------------------------------------- */

/* Prints from user memory if all of it belongs to the process. */
static uint64_t sys_write(uint64_t begin, uint64_t len)
{
    for (unsigned i = 0; i < current->region_count; i++) {
        const struct region *r = &current->regions[i];

        if (begin >= r->begin && begin < r->end && len <= r->end - begin) {
            console_write((const char *)begin, len);
            return len;
        }
    }
    return UINT64_MAX;
}

static void on_system_call(struct frame *frame)
{
    stats.system_calls++;
    if (hook)
        hook();
    switch (frame->rax) {
    case SYSCALL_EXIT:
        end_current(frame->rdi);
    case SYSCALL_WRITE:
        frame->rax = sys_write(frame->rdi, frame->rsi);
        break;
    case SYSCALL_YIELD:
        frame->rax = 0;
        switch_to_next();
        break;
    default:
        frame->rax = UINT64_MAX;
        break;
    }
}

static bool on_timer(struct frame *frame)
{
    stats.timer_interrupts++;
    apic_eoi();
    if (hook)
        hook();
    if (frame_is_user(frame))
        switch_to_next();
    return true;
}

static bool on_page_fault(struct frame *frame)
{
    uint64_t virt = read_cr2();

    if (!current || virt >= USER_END)
        return false;
    stats.page_faults++;
    /* Error code bit 0: the page was there, so it was the wrong kind of access. */
    if ((frame->error_code & 1) || !fill_page(current, virt)) {
        printf("%s: bad access to 0x%lx at 0x%lx\n", current->name, virt, frame->rip);
        end_current(UINT64_MAX);
    }
    return true;
}

/* User programs use UD2 as an instruction that the kernel emulates: it counts, and goes on. */
static bool on_invalid_opcode(struct frame *frame)
{
    if (!frame_is_user(frame))
        return false;
    stats.invalid_opcodes++;
    frame->rip += UD2_BYTES;
    return true;
}

unsigned process_run_all(uint32_t timer_ticks)
{
    unsigned bad = 0;

    main_cr3 = read_cr3();
    trap_set_syscall_handler(on_system_call);
    trap_set_handler(VECTOR_TIMER, on_timer);
    trap_set_handler(VECTOR_PAGE_FAULT, on_page_fault);
    trap_set_handler(VECTOR_INVALID_OP, on_invalid_opcode);
    apic_timer_start(timer_ticks);
    switch_to_next();
    apic_timer_stop();
    for (unsigned i = 0; i < process_count; i++) {
        if (processes[i].status != 0) {
            printf("%s: ended with status %ld\n", processes[i].name, (int64_t)processes[i].status);
            bad++;
        }
    }
    return bad;
}
