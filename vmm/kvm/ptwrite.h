/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PTWRITE (33.2.2, 33.4.2.21).
 */
#ifndef VMM_KVM_PTWRITE_H
#define VMM_KVM_PTWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcpu;
struct memops;

/* Carries out the PTWRITE at RIP and tells the model. False: it is #UD here. */
bool do_ptwrite(struct vcpu *cpu, const uint8_t *code, size_t len, const struct memops *ops);

#endif
