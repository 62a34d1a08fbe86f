/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where packet bytes go (33.2.7).
 */
#ifndef VPT_OUTPUT_H
#define VPT_OUTPUT_H

#include "vpt.h"

/* TraceEn was set: checks the configuration. False: STATUS.Error is set. */
bool vpt_output_start(struct vpt_cpu *cpu);
/* The output MSRs change while TraceEn is 0: nothing of the old configuration counts any more. */
void vpt_output_forget(struct vpt_cpu *cpu);
/*
 * A trace of which nothing was stored, because the first addresses of its output met an EPT
 * violation, is taken back: before a VM exit, and before an MSR-load area gives the output another
 * place. PacketByteCnt is what it was.
 */
void vpt_output_take_back(struct vpt_cpu *cpu);
/* Writes the internal buffer out. May set Error or Stopped, may leave bytes if output blocks. */
void vpt_output_drain(struct vpt_cpu *cpu);
/* The same, if there is anything to store or to wait for. */
void vpt_output_flush(struct vpt_cpu *cpu);

#endif
