/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guest's page tables, and what is read through them.
 */
#ifndef VMM_KVM_WALK_H
#define VMM_KVM_WALK_H

#include "ptdec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcpu;

enum walk_access { WALK_READ = 0, WALK_WRITE = 2, WALK_FETCH = 16 };

/*
 * Translates a linear address in 64-bit mode as the processor would for this access at this
 * privilege. True: *gpa. False: *error_code is that of the page fault.
 */
bool walk(struct vcpu *cpu, uint64_t linear, enum walk_access access, unsigned cpl, uint64_t *gpa,
          uint32_t *error_code);
/* Whether the address is canonical with as many levels of paging as there are. */
bool linear_is_canonical(struct vcpu *cpu, uint64_t linear);
/* Copies as a supervisor would read or write; false at the first byte that cannot be. */
bool linear_read(struct vcpu *cpu, uint64_t linear, void *data, size_t len);
bool linear_write(struct vcpu *cpu, uint64_t linear, const void *data, size_t len);

#define MAX_INSN_BYTES 15

/* The instruction at ip, in 64-bit mode, and its bytes. False: it cannot be read, or is none. */
bool insn_at(struct vcpu *cpu, uint64_t ip, uint8_t code[MAX_INSN_BYTES], struct ptd_insn *insn);

#endif
