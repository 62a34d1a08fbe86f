/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the internal buffer to memory: single-range output (33.2.7.1), the walk over ToPA regions
 * (33.2.7.2, with topa.c), the trace transport (33.2.7.3) and restricted memory (33.2.7.4).
 *
 * The guest owns the configuration and may change the tables at any time.
 */
#include "output.h"
#include "guest_memory.h"
#include "processor.h"
#include "topa.h"

#include <string.h>

#define PAGE_BYTES 4096u
/*
 * So many bytes of output have their address translated ahead of need: a store empties the buffer,
 * and then the packets of two events still have a place where the next page has none. Below a page.
 */
#define AHEAD_BYTES (VPT_BUFFER_BYTES + 2 * VPT_EVENT_MAX_BYTES)

/* Stores bytes at gpa, within one page. How many are done with; 0: blocked, or an error. */
static uint32_t store(struct vpt_cpu *cpu, uint64_t gpa, const uint8_t *bytes, uint32_t len)
{
    struct vpt_span span;

    vpt_translate(cpu, gpa, len, VPT_WRITE_OUTPUT, &span);
    if (span.kind == VPT_SPAN_FAULT) {
        vpt_access_fault(cpu, gpa, VPT_WRITE_OUTPUT);
        return 0;
    }
    if (span.kind == VPT_SPAN_RESTRICTED) {
        vpt_operational_error(cpu);
        return 0;
    }
    if (vpt_guest_store(cpu->ops, cpu->owner, gpa, bytes, &span))
        cpu->output_bytes += span.len_bytes;
    else
        cpu->dropped_bytes += span.len_bytes;
    return span.len_bytes;
}

static uint32_t least(uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t ab = a < b ? a : b;

    return (uint32_t)(ab < c ? ab : c);
}

static uint32_t to_single_range(struct vpt_cpu *cpu, const uint8_t *bytes, uint32_t len)
{
    const uint32_t mask = (uint32_t)cpu->output_mask_ptrs;
    const uint32_t offset = vpt_output_offset(cpu) & mask;
    const uint64_t gpa = (cpu->output_base & ~(uint64_t)mask) + offset;
    const uint32_t done = store(
        cpu, gpa, bytes, least(len, PAGE_BYTES - gpa % PAGE_BYTES, (uint64_t)mask + 1 - offset));

    if (done)
        vpt_set_output_offset(cpu, (offset + done) & mask);
    return done;
}

static uint32_t to_topa(struct vpt_cpu *cpu, const uint8_t *bytes, uint32_t len)
{
    if (cpu->region_bytes == 0 && !vpt_topa_load(cpu))
        return 0;

    const uint32_t offset = vpt_output_offset(cpu);
    const uint64_t gpa = cpu->region_base + offset;
    const uint32_t done = store(
        cpu, gpa, bytes, least(len, PAGE_BYTES - gpa % PAGE_BYTES, cpu->region_bytes - offset));

    if (done == 0)
        return 0;
    vpt_set_output_offset(cpu, offset + done);
    if (cpu->region_int && !(cpu->caps.leaf14_0_ecx & VPT_CAP_MENTRY) && !cpu->pmi_early_done &&
        (uint64_t)offset + done + cpu->caps.topa_pmi_early_bytes >= cpu->region_bytes) {
        cpu->pmi_early_done = true;
        vpt_topa_pmi(cpu);
    }
    if (offset + done == cpu->region_bytes)
        vpt_topa_filled(cpu);
    return done;
}

static uint32_t to_transport(struct vpt_cpu *cpu, const uint8_t *bytes, uint32_t len)
{
    if (cpu->ops->transport) {
        cpu->ops->transport(cpu->owner, bytes, len);
        cpu->output_bytes += len;
    } else {
        cpu->dropped_bytes += len;
    }
    return len;
}

/* RTIT_CTL of the trace whose bytes are in the buffer. */
static uint64_t ctl_of_bytes(const struct vpt_cpu *cpu)
{
    return cpu->waiting_ctl ? cpu->waiting_ctl : cpu->ctl;
}

/* ---- Ahead of need ---- */

/* Where output goes `ahead` bytes from now, and how many bytes are in that page. 0: nowhere. */
static uint32_t place_ahead(struct vpt_cpu *cpu, uint32_t ahead, uint64_t *gpa)
{
    const uint64_t mask = (uint32_t)cpu->output_mask_ptrs;
    const uint64_t offset = (uint64_t)vpt_output_offset(cpu) + ahead;

    if (!(ctl_of_bytes(cpu) & VPT_CTL_TOPA)) {
        *gpa = (cpu->output_base & ~mask) + (offset & mask);
        return least(PAGE_BYTES, PAGE_BYTES - *gpa % PAGE_BYTES, mask + 1 - (offset & mask));
    }
    if (cpu->region_bytes == 0)
        return 0;
    *gpa = cpu->region_base + offset;
    if (offset >= cpu->region_bytes) {
        if (cpu->region_stop || !vpt_topa_next_region(cpu, gpa))
            return 0;
        *gpa += offset - cpu->region_bytes;
    }
    return PAGE_BYTES - (uint32_t)(*gpa % PAGE_BYTES);
}

/*
 * Addresses are translated before output comes to them (trace-address pre-translation of the SDM's
 * chapters on VMX): an EPT violation is found while every byte in the buffer still has its place.
 */
static void look_ahead(struct vpt_cpu *cpu)
{
    const uint64_t ctl = ctl_of_bytes(cpu);

    if (ctl & VPT_CTL_FABRICEN)
        return;
    if ((ctl & VPT_CTL_TOPA) && cpu->region_bytes == 0 && !vpt_topa_load(cpu))
        return;
    while (cpu->ready_bytes < AHEAD_BYTES) {
        struct vpt_span span;
        uint64_t gpa;
        const uint32_t len = place_ahead(cpu, cpu->ready_bytes, &gpa);

        if (len == 0)
            return;
        vpt_translate(cpu, gpa, len, VPT_WRITE_OUTPUT, &span);
        if (span.kind == VPT_SPAN_FAULT) {
            vpt_access_fault(cpu, gpa, VPT_WRITE_OUTPUT);
            return;
        }
        cpu->ready_bytes += len;
    }
}

static void stored(struct vpt_cpu *cpu, uint32_t len)
{
    cpu->ready_bytes -= cpu->ready_bytes < len ? cpu->ready_bytes : len;
    cpu->untouched = cpu->untouched && len == 0;
}

void vpt_output_take_back(struct vpt_cpu *cpu)
{
    vpt_output_flush(cpu);
    if (!cpu->output_blocked || !cpu->untouched || !cpu->output_ept)
        return;
    cpu->status = cpu->start_status;
    cpu->bytes_since_psb = cpu->start_bytes;
    cpu->buf_len = 0;
    cpu->tnt = 1;
    cpu->deferred_count = 0;
    cpu->overflow = false;
    cpu->output_blocked = false;
    cpu->untouched = false; /* there is nothing more to take back */
    cpu->waiting_ctl = 0;
}

/* ---- Stores ---- */

/* All of the buffer, as far as output gets. */
static void store_buffer(struct vpt_cpu *cpu)
{
    const uint64_t ctl = ctl_of_bytes(cpu);
    uint32_t pos = 0;

    while (pos < cpu->buf_len) {
        const uint8_t *bytes = cpu->buf + pos;
        const uint32_t len = cpu->buf_len - pos;
        uint32_t done;

        if (ctl & VPT_CTL_FABRICEN)
            done = to_transport(cpu, bytes, len);
        else if (ctl & VPT_CTL_TOPA)
            done = to_topa(cpu, bytes, len);
        else
            done = to_single_range(cpu, bytes, len);

        pos += done;
        stored(cpu, done);
        if (cpu->status & VPT_STATUS_ERROR)
            return; /* the rest is lost, buf_len is 0 */
        if (cpu->region_stop && cpu->region_bytes == 0) {
            cpu->dropped_bytes += cpu->buf_len - pos; /* 33.2.7.2, ToPA STOP */
            cpu->buf_len = 0;
            return;
        }
        if (done == 0)
            break;
    }
    memmove(cpu->buf, cpu->buf + pos, cpu->buf_len - pos);
    cpu->buf_len -= pos;
}

void vpt_output_drain(struct vpt_cpu *cpu)
{
    if (cpu->stalled)
        return;
    cpu->output_blocked = false;
    if (cpu->untouched && cpu->output_ept) {
        /* Of a trace that is stored in part, the beginning could not be taken back any more. */
        look_ahead(cpu);
        if (cpu->output_blocked)
            return;
    }
    store_buffer(cpu);
    if (cpu->buf_len == 0)
        cpu->waiting_ctl = 0;
    if (!cpu->output_blocked && cpu->trigger_en)
        look_ahead(cpu);
}

void vpt_output_flush(struct vpt_cpu *cpu)
{
    if (cpu->buf_len || cpu->output_blocked)
        vpt_output_drain(cpu);
}

static bool single_range_ok(const struct vpt_cpu *cpu)
{
    const uint64_t mask = (uint32_t)cpu->output_mask_ptrs;

    return (mask & (mask + 1)) == 0          /* contiguous */
           && (cpu->output_base & mask) == 0 /* aligned */
           && vpt_output_offset(cpu) <= mask;
}

static bool topa_ok(struct vpt_cpu *cpu)
{
    if (cpu->output_base % PAGE_BYTES != 0)
        return false;
    /* An entry that cannot be read yet is read when it is needed. */
    return vpt_topa_load(cpu) || cpu->output_blocked;
}

void vpt_output_forget(struct vpt_cpu *cpu)
{
    cpu->dropped_bytes += cpu->buf_len; /* what an unresolved fault left behind */
    cpu->buf_len = 0;
    cpu->region_bytes = 0;
    cpu->region_stop = false;
    cpu->output_blocked = false;
    cpu->ready_bytes = 0;
    cpu->topa_ahead_count = 0;
    cpu->waiting_ctl = 0;
}

bool vpt_output_start(struct vpt_cpu *cpu)
{
    vpt_output_forget(cpu);
    cpu->output_ept = cpu->vmx_nonroot && (cpu->vmx_secondary & VPT_SECONDARY_PT_GPA);
    cpu->untouched = true;
    cpu->start_status = cpu->status;
    cpu->start_bytes = cpu->bytes_since_psb;

    if (cpu->ctl & VPT_CTL_FABRICEN)
        return true;
    if (cpu->ctl & VPT_CTL_TOPA ? topa_ok(cpu) : single_range_ok(cpu)) {
        if (!cpu->output_blocked)
            look_ahead(cpu);
        return true;
    }
    if (!(cpu->status & VPT_STATUS_ERROR))
        vpt_operational_error(cpu);
    return false;
}
