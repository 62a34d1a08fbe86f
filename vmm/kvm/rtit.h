/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT, where the profile has it: what tracer.c calls.
 */
#ifndef VMM_KVM_RTIT_H
#define VMM_KVM_RTIT_H

#include "ptdec.h"
#include "vpt.h"

#include <stdint.h>

struct vcpu;

/* errata: VPT_RTIT_E1 and so on. 0 or -errno. */
int rtit_create(struct vcpu *cpu, uint32_t errata, const struct vpt_ops *ops);
enum vpt_result rtit_wrmsr(struct vcpu *cpu, uint32_t msr, uint64_t value, uint64_t next_ip);
/* An instruction retired. */
void rtit_tell(struct vcpu *cpu, const struct ptd_insn *insn);
/* A far transfer by the instruction at ip, or an event in front of it, led to RIP. */
void rtit_tell_transfer(struct vcpu *cpu, enum vpt_transfer_type type, uint64_t ip);
/* The processor slept. */
void rtit_woke(struct vcpu *cpu);
/* The run ends: what is buffered goes to memory. */
void rtit_end(struct vcpu *cpu);

#endif
