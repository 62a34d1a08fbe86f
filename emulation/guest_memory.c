/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guest memory, and what becomes of a trace that cannot reach it: an EPT violation waits for the
 * owner, restricted memory (33.2.7.4) and bad tables are operational errors (33.3.10).
 *
 * Nothing is trusted twice: every address goes through the owner's translate callback each time it
 * is used.
 */
#include "guest_memory.h"
#include "enables.h"

#include <string.h>

void vpt_guest_span(const struct vpt_ops *ops, void *owner, uint64_t gpa, uint32_t len_bytes,
                    enum vpt_access access, struct vpt_span *span)
{
    *span = (struct vpt_span){.kind = VPT_SPAN_UNBACKED, .len_bytes = len_bytes};
    ops->translate(owner, gpa, len_bytes, access, span);
    if (span->len_bytes == 0 || span->len_bytes > len_bytes)
        span->len_bytes = len_bytes;
    if (!span->host && (span->kind == VPT_SPAN_RAM || span->kind == VPT_SPAN_READONLY))
        span->kind = VPT_SPAN_UNBACKED;
}

bool vpt_guest_store(const struct vpt_ops *ops, void *owner, uint64_t gpa, const uint8_t *bytes,
                     const struct vpt_span *span)
{
    if (span->kind == VPT_SPAN_RAM) {
        memcpy(span->host, bytes, span->len_bytes);
        if (ops->wrote)
            ops->wrote(owner, gpa, bytes, span->len_bytes);
        return true;
    }
    if (span->kind != VPT_SPAN_MMIO || !ops->mmio)
        return false;
    ops->mmio(owner, gpa, bytes, span->len_bytes);
    return true;
}

void vpt_translate(struct vpt_cpu *cpu, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                   struct vpt_span *span)
{
    if (gpa >> cpu->caps.maxphyaddr) /* a table offset led out of the address space */
        *span = (struct vpt_span){.kind = VPT_SPAN_UNBACKED, .len_bytes = len_bytes};
    else
        vpt_guest_span(cpu->ops, cpu->owner, gpa, len_bytes, access, span);
}

void vpt_access_fault(struct vpt_cpu *cpu, uint64_t gpa, enum vpt_access access)
{
    cpu->output_blocked = true;
    cpu->fault_gpa = gpa;
    cpu->fault_access = (uint8_t)access;
}

void vpt_operational_error(struct vpt_cpu *cpu)
{
    cpu->status |= VPT_STATUS_ERROR;
    cpu->dropped_bytes += cpu->buf_len;
    cpu->buf_len = 0;
    cpu->region_bytes = 0;
    vpt_clear_trigger(cpu);
}
