/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the hostile VMM share: numbers from a seed, the memory that its guests have,
 * what they run, and their VMCS.
 *
 * Merciful, a guest has the arena and nothing else, by EPT; and what would hurt the VMM itself is
 * put right before each VM entry. So whatever a guest does, the VMM has to go on.
 */
#ifndef GUEST_VMX_HOSTILE_H
#define GUEST_VMX_HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

extern bool merciless;
/* Merciless, of so many entries or areas one is as bad as can be: an end at once would find little.
 */
#define MERCY 64

/* ---- Numbers: vmx-hostile.c --------------------------------------------------------------- */

uint64_t number(void);
uint64_t below(uint64_t bound);
/* Few bits set: many such values are legal. */
uint64_t sparse(void);
/* Once in so many times. */
bool once_in(uint64_t times);

/* ---- Memory: vmx-hostile-memory.c --------------------------------------------------------- */

/* The guests' memory: physical, and at 0 for them. */
#define ARENA_BYTES (2ull << 20)
#define ARENA_PAGES (ARENA_BYTES / 4096)
/* Its pages: paging structures, descriptor tables, stack, code, ToPA tables and output, anything.
 */
enum { PAGE_PAGING = 0, PAGE_IDT = 4, PAGE_GDT, PAGE_TSS, PAGE_STACK, PAGE_CODE, PAGE_TOPA = 16 };
enum { CODE_PAGES = 8, TOPA_PAGES = 16 };
extern uint64_t arena;

void memory_make(void);
/* Everything that a guest needs to run, in the arena; and EPT that maps it. */
void memory_fill(void);
void memory_change_ept(void);
/* Of EPT; with flags that VM entry takes. */
uint64_t memory_eptp(void);
/* Whether what stands before and behind the arena is as it was. */
bool memory_guards_hold(void);
/* A page of the arena, or one that is none; merciless, any page. */
uint64_t some_page(void);
/* A page that can be a VMCS, or cannot. */
uint64_t some_region(void);

/* ---- Code: vmx-hostile-code.c ------------------------------------------------------------- */

/* Instructions that may exit or fault, in any order, up to the end of this page of the arena. */
void code_fill(unsigned page);
/* A place in the code, mostly the beginning of a page. */
uint64_t code_place(void);

/* ---- VMCS: vmx-hostile-fields.c ----------------------------------------------------------- */

/* Pages of the VMM that no guest has. */
void fields_make(void);
/* A VM that VM entry takes, with code in the arena. */
void fields_reset(void);
/* Another value for some field. */
void fields_change(void);
/* Other controls, most of them allowed. */
void fields_change_controls(void);
/* A guest that does not exit by itself is ended by the preemption timer. */
void fields_set_timer(void);
/* Merciful, before each entry: what the VMM lives by. */
void fields_constrain(void);
/* MSR areas and bitmaps. */
void fields_fill_areas(void);
/* IA32_RTIT_CTL that a guest may have, and the output that goes with it. */
uint64_t random_ctl(void);

#endif
