/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest that makes its host keep more and more: each word of the command line names something
 * that a host remembers of a guest, and of which this one makes up another and another. Not the
 * guest but the host is tested: its memory has to stay within the bounds that docs/qemu.md states.
 *
 * Command line: words of the table at the end, and count=NUMBER.
 */
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "string.h"
#include "svm.h"

/* ---- Notes to the host -------------------------------------------------------------------- */

/* Address spaces that are not there, each with a name. */
static void processes(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        note_process((i + 1) * PAGE_BYTES, "flood", "flood.elf");
}

/* The same one, named again and again. */
static void renames(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        note_process(PAGE_BYTES, i & 1 ? "odd" : "even", "flood.elf");
}

/* Pages of the same bytes, and a page that is not there. */
static void bytes(uint64_t count)
{
    const uint64_t page = phys_alloc(PAGE_BYTES, PAGE_BYTES);

    for (uint64_t i = 0; i < count; i++) {
        note_trace(page, PAGE_BYTES);
        note_trace(1ull << 50, UINT64_MAX);
    }
}

/* ---- Address spaces ----------------------------------------------------------------------- */

#define SPACES   4096
#define MADE_UP  (1ull << 39) /* where they run code: the second entry of their top tables */
#define PML4_AT  1
#define RET_BYTE 0xc3

/* One function at as many linear pages, in as many address spaces, as it takes. */
static void spaces(uint64_t count)
{
    const uint64_t own = read_cr3(), code = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    const uint64_t list = phys_alloc(SPACES * sizeof(uint64_t), PAGE_BYTES);
    const uint64_t pages = (count + SPACES - 1) / SPACES;
    uint64_t *cr3 = phys_to_virt(list);

    memset(phys_to_virt(code), RET_BYTE, PAGE_BYTES);
    for (uint64_t i = 0; i < SPACES; i++) {
        cr3[i] = address_space_new();
        if (i > 0)
            ((uint64_t *)phys_to_virt(cr3[i]))[PML4_AT] =
                ((uint64_t *)phys_to_virt(cr3[0]))[PML4_AT];
        for (uint64_t page = 0; i == 0 && page < pages; page++)
            map_page(cr3[0], MADE_UP + page * PAGE_BYTES, code, 0);
    }
    for (uint64_t page = 0; page < pages; page++) {
        void (*const function)(void) = (void (*)(void))(MADE_UP + page * PAGE_BYTES);

        for (uint64_t i = 0; i < SPACES; i++) {
            write_cr3(cr3[i]);
            function();
        }
    }
    write_cr3(own);
}

/* ---- VMs ---------------------------------------------------------------------------------- */

/* All that a VM of these does. */
__asm__("vm_code: hlt");
extern const uint8_t vm_code[];

/* A VMCB on a page of its own for each VM, which lives for one instruction. */
static void vmcbs(uint64_t count)
{
    static struct vmcb first;
    uint64_t halted = 0;

    if (!svm_present()) {
        report_skip("no SVM", "flood: vmcbs");
        return;
    }
    svm_start();
    vmcb_init(&first, vm_code, 0);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
        struct vmcb *const vmcb = phys_to_virt(phys);

        *vmcb = first;
        __asm__ volatile("vmrun %%rax\n\tstgi" : : "a"(phys) : "memory", "cc");
        halted += vmcb->exit_code == EXIT_HLT;
    }
    report_value(halted, count, "flood: each VM ran up to its HLT");
}

/* ---- All ---------------------------------------------------------------------------------- */

static const struct flood {
    const char *word;
    uint64_t count; /* if the command line has none */
    void (*run)(uint64_t count);
} floods[] = {
    {"processes", 200000, processes}, {"renames", 200000, renames}, {"bytes", 1000, bytes},
    {"spaces", 300000, spaces},       {"vmcbs", 200000, vmcbs},
};

int guest_main(void)
{
    int status;

    for (unsigned i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
        uint64_t count = floods[i].count;

        if (!boot_word(floods[i].word))
            continue;
        boot_number("count", &count);
        floods[i].run(count);
        report(true, "flood: %lu %s", count, floods[i].word);
    }
    status = report_summary();
    if (boot_word("stay")) /* to be looked at */
        __asm__ volatile("cli; 1: hlt; jmp 1b");
    return status;
}
