/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guest memory, as PT and RTIT reach it: through the owner's callbacks, and nothing else.
 */
#ifndef VPT_GUEST_MEMORY_H
#define VPT_GUEST_MEMORY_H

#include "vpt.h"

/* One question to the owner about [gpa, gpa + len_bytes) in one page, its answer made safe. */
void vpt_guest_span(const struct vpt_ops *ops, void *owner, uint64_t gpa, uint32_t len_bytes,
                    enum vpt_access access, struct vpt_span *span);
/* Stores span->len_bytes bytes where that answer says. False: nothing there takes them. */
bool vpt_guest_store(const struct vpt_ops *ops, void *owner, uint64_t gpa, const uint8_t *bytes,
                     const struct vpt_span *span);

/* The question for a processor with PT, which cannot ask for more than its address width. */
void vpt_translate(struct vpt_cpu *cpu, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                   struct vpt_span *span);
/* The answer is VPT_SPAN_FAULT: output waits until the owner resolved it (vpt_output_blocked()). */
void vpt_access_fault(struct vpt_cpu *cpu, uint64_t gpa, enum vpt_access access);
/* STATUS.Error (33.3.10): tracing ends, buffered bytes are lost. */
void vpt_operational_error(struct vpt_cpu *cpu);

#endif
