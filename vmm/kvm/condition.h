/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conditional branches.
 */
#ifndef VMM_KVM_CONDITION_H
#define VMM_KVM_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

struct kvm_regs;

/* Whether the Jcc, LOOPcc or JRCXZ whose bytes are code was taken; regs are those behind it. */
bool condition_held(const struct kvm_regs *regs, const uint8_t *code, unsigned len_bytes);

#endif
