/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Image, CPUID and entry state (docs/guests.md).
 */
#ifndef VMM_KVM_BOOT_H
#define VMM_KVM_BOOT_H

#include "vpt_caps.h"

struct vmm;
struct vcpu;

int boot_load(struct vmm *vmm);
int boot_enter(struct vmm *vmm);
int boot_cpuid(struct vcpu *cpu, const struct vpt_caps *caps);

#endif
