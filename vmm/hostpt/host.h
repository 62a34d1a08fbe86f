/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host has to have, and what its guests can be offered.
 */
#ifndef VMM_HOSTPT_HOST_H
#define VMM_HOSTPT_HOST_H

#include "common/reason.h"
#include "vpt.h"

#include <stdint.h>

/* Takes out of *caps what a guest cannot have. 0, or -errno and why. */
int host_limit(struct vpt_caps *caps, struct reason *why);
/* Whether its KVM is fit. 0, or -errno and why. */
int host_check_kvm(struct reason *why);
/* The TSC offset of a vCPU of KVM, by its descriptor. 0, or -errno and why. */
int host_tsc_offset(int vcpu, uint64_t *offset, struct reason *why);

#endif
