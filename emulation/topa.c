/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Table of Physical Addresses (33.2.7.2, Table 33-3): entries, chains, STOP, INT and errors.
 */
#include "topa.h"
#include "enables.h"
#include "guest_memory.h"
#include "processor.h"

#include <string.h>

#define ENTRY_BYTES      8u
#define MAX_TABLE_OFFSET 0x0ffffff8u
#define RESERVED_LOW     ((1ull << 1) | (1ull << 3) | (1ull << 5) | (3ull << 10))

/* proc_trace_table_offset: bits 31:7 of MASK_PTRS are bits 27:3 of it. */
static uint32_t table_offset(const struct vpt_cpu *cpu)
{
    return ((uint32_t)cpu->output_mask_ptrs & ~0x7fu) >> 4;
}

static void set_table_offset(struct vpt_cpu *cpu, uint32_t offset)
{
    cpu->output_mask_ptrs =
        (cpu->output_mask_ptrs & ~0xffffffffull) | (uint32_t)(offset << 4) | 0x7f;
}

static bool single_entry(const struct vpt_cpu *cpu)
{
    return !(cpu->caps.leaf14_0_ecx & VPT_CAP_MENTRY);
}

/* Reads an entry. What is in the way of it: VPT_SPAN_RAM is nothing. */
static enum vpt_span_kind read_entry(struct vpt_cpu *cpu, uint64_t gpa, uint64_t *entry)
{
    uint8_t *bytes = (uint8_t *)entry;
    struct vpt_span span;

    for (uint32_t pos = 0; pos < ENTRY_BYTES; pos += span.len_bytes) {
        vpt_translate(cpu, gpa + pos, ENTRY_BYTES - pos, VPT_READ_TABLE, &span);
        switch (span.kind) {
        case VPT_SPAN_RAM:
        case VPT_SPAN_READONLY:
            memcpy(bytes + pos, span.host, span.len_bytes);
            break;
        case VPT_SPAN_FAULT:
            vpt_access_fault(cpu, gpa + pos, VPT_READ_TABLE);
            return VPT_SPAN_FAULT;
        case VPT_SPAN_RESTRICTED:
            return VPT_SPAN_RESTRICTED;
        case VPT_SPAN_UNBACKED:
        case VPT_SPAN_MMIO:
        case VPT_SPAN_APIC:
            memset(bytes + pos, 0xff, span.len_bytes); /* nothing answers there */
            break;
        }
    }
    return VPT_SPAN_RAM;
}

/* The same once for each entry: one that was read ahead of need is not read again. */
static enum vpt_span_kind fetch_entry(struct vpt_cpu *cpu, uint64_t gpa, uint64_t *entry)
{
    for (unsigned i = 0; i < cpu->topa_ahead_count; i++) {
        if (cpu->topa_ahead[i].gpa == gpa) {
            *entry = cpu->topa_ahead[i].entry;
            return VPT_SPAN_RAM;
        }
    }
    return read_entry(cpu, gpa, entry);
}

/*
 * Every rule on an entry by itself and by its place, an offset in the table at table_base
 * (33.2.7.2, ToPA Errors 1, 2 and 4).
 */
static bool entry_ok(const struct vpt_cpu *cpu, uint64_t entry, uint64_t table_base,
                     uint32_t table_at)
{
    const uint32_t index = table_at / ENTRY_BYTES;
    const uint64_t base = entry & ~0xfffull;
    const uint64_t region = 4096ull << (entry >> VPT_TOPA_SIZE_SHR & 0xf);

    if (entry & RESERVED_LOW || entry >> cpu->caps.maxphyaddr)
        return false;
    if (entry & VPT_TOPA_END) {
        if (entry & (VPT_TOPA_INT | VPT_TOPA_STOP) || index == 0)
            return false;
        return !single_entry(cpu) || (index == 1 && base == table_base);
    }
    if (single_entry(cpu) && index != 0)
        return false;
    return (base & (region - 1)) == 0;
}

bool vpt_topa_load(struct vpt_cpu *cpu)
{
    uint64_t entry;

    /* An END entry leads to an entry 0, which cannot be an END entry: two rounds at most. */
    for (;;) {
        const enum vpt_span_kind kind =
            fetch_entry(cpu, cpu->output_base + table_offset(cpu), &entry);

        if (kind == VPT_SPAN_FAULT)
            return false;
        if (kind == VPT_SPAN_RESTRICTED || /* Table 33-5 */
            !entry_ok(cpu, entry, cpu->output_base, table_offset(cpu))) {
            vpt_operational_error(cpu);
            return false;
        }
        if (!(entry & VPT_TOPA_END))
            break;
        cpu->output_base = entry & ~0xfffull;
        set_table_offset(cpu, 0);
        vpt_set_output_offset(cpu, 0);
    }
    cpu->topa_ahead_count = 0;
    cpu->region_base = entry & ~0xfffull;
    cpu->region_bytes = 4096ull << (entry >> VPT_TOPA_SIZE_SHR & 0xf);
    cpu->region_int = (entry & VPT_TOPA_INT) != 0;
    cpu->region_stop = (entry & VPT_TOPA_STOP) != 0;
    cpu->pmi_early_done = false;
    if (vpt_output_offset(cpu) >= cpu->region_bytes) { /* ToPA Errors 3 */
        vpt_operational_error(cpu);
        return false;
    }
    return true;
}

static uint32_t next_offset(uint32_t offset)
{
    return offset == MAX_TABLE_OFFSET ? 0 : offset + ENTRY_BYTES;
}

/* An entry that is bad ends the look ahead: its error comes when output comes to it (33.3.10). */
bool vpt_topa_next_region(struct vpt_cpu *cpu, uint64_t *gpa)
{
    uint64_t table = cpu->output_base;
    uint32_t at = next_offset(table_offset(cpu));

    for (unsigned i = 0; i < VPT_TOPA_AHEAD; i++) {
        uint64_t entry;

        if (fetch_entry(cpu, table + at, &entry) != VPT_SPAN_RAM)
            return false;
        if (cpu->topa_ahead_count == i)
            cpu->topa_ahead[cpu->topa_ahead_count++] =
                (struct vpt_topa_ahead){.gpa = table + at, .entry = entry};
        if (!entry_ok(cpu, entry, table, at))
            return false;
        table = entry & ~0xfffull;
        at = 0;
        if (!(entry & VPT_TOPA_END)) {
            *gpa = table;
            return true;
        }
    }
    return false;
}

void vpt_topa_pmi(struct vpt_cpu *cpu)
{
    cpu->perf_global_status |= VPT_PERF_TOPA_PMI;
    if (cpu->ctl & VPT_CTL_INJECT_PSB_PMI)
        cpu->status |= VPT_STATUS_PENDTOPAPMI;
    if (cpu->ops->pmi)
        cpu->ops->pmi(cpu->owner);
}

void vpt_topa_filled(struct vpt_cpu *cpu)
{
    const bool interrupt = cpu->region_int && !cpu->pmi_early_done;
    const uint32_t offset = table_offset(cpu);

    cpu->region_bytes = 0;
    if (cpu->region_stop) {
        /* The offset stays past the end of the region. STOP comes before INT (Table 33-3). */
        cpu->status |= VPT_STATUS_STOPPED;
        vpt_clear_trigger(cpu);
    }
    if (interrupt)
        vpt_topa_pmi(cpu);
    if (cpu->region_stop)
        return;
    set_table_offset(cpu, next_offset(offset));
    vpt_set_output_offset(cpu, 0);
    vpt_topa_load(cpu);
}
