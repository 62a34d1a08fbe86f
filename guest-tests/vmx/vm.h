/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A virtual machine for test cases: a VMCS that VM entry takes, in which a row changes one thing,
 * and what came of entering it.
 */
#ifndef GUEST_VMX_VM_H
#define GUEST_VMX_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "insn.h"
#include "vmcs.h"

/* ---- Capabilities ------------------------------------------------------------------------- */

/* An MSR of the capabilities, which exist as the MSRs before them say; else 0. */
uint64_t vmx_misc(void);
uint64_t vmx_ept_vpid(void);
uint64_t vmx_basic(void);
/* Bits of a control that have to be 1, and those that may. */
uint32_t control_required(enum control kind);
uint32_t control_allowed(enum control kind);
unsigned physical_bits(void);

/* ---- Code of guests ----------------------------------------------------------------------- */

struct code {
    const uint8_t *begin, *insn, *end; /* the instruction that matters is the last one */
};

/* Assembler code; a VMCALL behind it says that the guest has come to its end. */
#define SNIPPET_BEHIND(name, before, text)                                                         \
    extern const uint8_t name[], name##_insn[], name##_end[];                                      \
    __asm__(".pushsection .text\n" #name ":\n\t" before "\n" #name "_insn:\n\t" text "\n" #name    \
            "_end:\n\tvmcall\n\t.popsection")
#define SNIPPET(name, text) SNIPPET_BEHIND(name, "", text)
#define CODE(name)                                                                                 \
    {                                                                                              \
        name, name##_insn, name##_end                                                              \
    }

/* ---- Rows --------------------------------------------------------------------------------- */

struct controls {
    uint32_t pin, proc, proc2, exit, entry;
};

enum change_kind {
    NO_CHANGE,
    PUT,
    SET,      /* bits */
    CLEAR,    /* bits */
    BEYOND,   /* sets the lowest bit that is beyond physical addresses */
    IO_BIT,   /* of this port */
    READ_BIT, /* of this MSR */
    WRITE_BIT,
};

struct change {
    enum change_kind kind;
    unsigned field;
    uint64_t value;
};

/* Where the guest was at its exit. */
#define AT_INSN   0u
#define AT_END    1u
#define AT_ANY    2u
#define AT_VECTOR 256u /* and the vector */

#define ROW_CHANGES 5

/*
 * One case: what it needs, what differs from the good VM, and what has to come of it. Without code
 * there is a NOP.
 */
struct vm_row {
    const char *name;
    struct code code;
    struct controls on, off;
    uint64_t need_misc, need_ept_vpid; /* bits of these capabilities */
    struct change changes[ROW_CHANGES];
    struct vm_registers registers;
    uint32_t error; /* VMfailValid with this number; then nothing below matters */
    uint32_t reason;
    uint64_t qualification;
    unsigned at;
    uint32_t event, error_code;
    uint32_t vectoring, vectoring_error_code;
    uint32_t info, info_mask;
    bool any_qualification;
    bool check_rax;
    uint64_t rax;
};

/* The guest came to its end, or to the handler of a vector. */
#define DONE          .reason = REASON_VMCALL, .at = AT_END
#define VECTORED(vec) .reason = REASON_VMCALL, .at = AT_VECTOR + (vec)

void run_rows(const struct vm_row *rows, size_t count);
#define RUN_ROWS(rows) run_rows(rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- The VM ------------------------------------------------------------------------------- */

/* What a VM exit left. */
struct outcome {
    unsigned result;
    uint32_t error; /* VM-instruction error; the others are of exits */
    uint32_t reason, event, error_code, vectoring, vectoring_error_code, length, info;
    uint64_t qualification, rip;
};

/* Pages that every VM has, and that begin as zeroes. */
struct vm_pages {
    uint64_t vmxon, vmcs, other_vmcs, io_bitmaps, msr_bitmaps, virtual_apic, msr_area, data;
};
extern struct vm_pages vm_pages;
extern struct vm_registers vm_registers;

/* Allocates the pages; before VMXON. */
void vm_init(void);
/* A page for VMXON or VMCS, with its revision identifier. */
uint64_t vmx_region(void);

void put(unsigned field, uint64_t value);
uint64_t get(unsigned field);
/* Whether the VMCS has the field, as the controls say. */
bool field_exists(unsigned field);

/* The good VM, which is launched next. */
void vm_reset(const struct code *code);
/* The host-state fields of the good VM: what is loaded now. */
void vm_put_host(void);
/*
 * Controls in addition to and less than those of the good VM. False: the processor cannot; then
 * *lacking is the control and its bits.
 */
struct lacking {
    enum control kind;
    uint32_t bits;
};
bool vm_controls(const struct controls *on, const struct controls *off, struct lacking *lacking);
/* Reports the case as skipped. */
void skip_lacking(const struct lacking *lacking, const char *name);
void vm_change(const struct change *change);
/* Launches, or resumes. */
struct outcome vm_launch(void);
struct outcome vm_resume(void);
/* The RIP that the row's place means. */
uint64_t place(const struct code *code, unsigned at);

/* Guest's memory for its data. */
void *vm_data(void);
extern const struct code nop_code;

#endif
