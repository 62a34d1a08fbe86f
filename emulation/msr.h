/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT_CTL, and enabling and disabling (33.2.8.3).
 */
#ifndef VPT_MSR_H
#define VPT_MSR_H

#include "vpt.h"

/*
 * Sets TraceEn by way of a new RTIT_CTL value, already checked; next_ip is where tracing begins.
 * cfe: a CFE type that Event Trace sends for what enabled it, or 0.
 */
void vpt_trace_enable(struct vpt_cpu *cpu, uint64_t ctl, uint64_t next_ip, uint8_t cfe);
/* Clears TraceEn by way of a new RTIT_CTL value, already checked; ip is the current instruction. */
void vpt_trace_disable(struct vpt_cpu *cpu, uint64_t ctl, uint64_t ip);
/* The end of that, when the last packet was sent (which forced out TNT bits). */
void vpt_trace_off(struct vpt_cpu *cpu, uint64_t ctl);
/* TriggerEn for packets that a VMM appends to a trace that is off: vpt_trace_off() ends it. */
void vpt_trace_append_begin(struct vpt_cpu *cpu);
/* Computes what follows from RTIT_CTL alone. */
void vpt_ctl_loaded(struct vpt_cpu *cpu);
/* Whether WRMSR would take this value for RTIT_CTL if TraceEn were 0, and as TraceEn is. */
bool vpt_ctl_ok(const struct vpt_cpu *cpu, uint64_t ctl);
bool vpt_ctl_write_ok(const struct vpt_cpu *cpu, uint64_t value);

#endif
