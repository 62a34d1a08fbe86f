/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short traces of supervisor code, for test cases: see tracing.h.
 *
 * Sections: PMIs, one trace, buffers, sizes.
 */
#include "tracing.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "packets.h"
#include "string.h"
#include "trap.h"

#define MORE_BRANCHES 64
#define MORE_TRIES    16

static enum pmi_mode pmi_mode;
static volatile unsigned pmi_count;

/* ---- PMIs --------------------------------------------------------------------------------- */

/* Only counts: what the PMI left in GLOBAL_STATUS and LVTPC is for the cases to see. */
static bool on_pmi(struct frame *frame)
{
    pmi_count++;
    if (frame->vector == VECTOR_PMI)
        apic_eoi();
    return true;
}

void trace_set_pmi(enum pmi_mode mode)
{
    trap_set_handler(VECTOR_NMI, on_pmi);
    trap_set_handler(VECTOR_PMI, on_pmi);
    pmi_mode = mode;
    apic_set_pmi(mode);
}

unsigned trace_pmi_count(void)
{
    return pmi_count;
}

/* ---- One trace ---------------------------------------------------------------------------- */

void trace_off(void)
{
    wrmsr_safe(MSR_RTIT_CTL, 0);
    wrmsr_safe(MSR_RTIT_STATUS, 0);
}

void trace_prepare(const struct trace_setup *setup)
{
    const struct pt_caps *caps = pt_caps();

    wrmsr(MSR_RTIT_CTL, 0);
    wrmsr(MSR_RTIT_STATUS, setup->status);
    if (pt_memory_output(caps)) {
        wrmsr(MSR_RTIT_OUTPUT_BASE, setup->base);
        wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, setup->mask_ptrs);
    }
    if (caps->topa && caps->perf_version >= 2)
        wrmsr(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
    apic_set_pmi(pmi_mode);
}

struct trace_result trace_run(const struct trace_setup *setup)
{
    struct trace_result result = {0};
    unsigned pmis_before;

    trace_prepare(setup);
    pmis_before = pmi_count;
    if (pmi_mode == PMI_VECTOR)
        interrupts_on();
    result.vector = wrmsr_safe(MSR_RTIT_CTL, setup->ctl | CTL_TRACEEN);
    if (result.vector == 0) {
        if (setup->body)
            setup->body();
        else
            pt_spray(setup->branches);
        result.live = rdmsr(MSR_RTIT_STATUS);
        for (unsigned i = 0; i < MORE_TRIES && setup->wait_for & ~result.live; i++) {
            pt_spray(MORE_BRANCHES);
            result.live = rdmsr(MSR_RTIT_STATUS);
        }
        wrmsr(MSR_RTIT_CTL, setup->ctl & ~CTL_TRACEEN);
    }
    /* A PMI that the flush has raised is taken in here. */
    if (pmi_mode == PMI_VECTOR) {
        __asm__ volatile("nop");
        interrupts_off();
    }
    result.status = rdmsr(MSR_RTIT_STATUS);
    if (pt_memory_output(pt_caps()))
        result.end = pt_position();
    result.pmis = pmi_count - pmis_before;
    return result;
}

/* ---- Buffers ------------------------------------------------------------------------------ */

static uint64_t buffer_phys, table_phys;

void trace_default_output(struct trace_setup *setup)
{
    const struct pt_caps *caps = pt_caps();

    if (!buffer_phys) {
        uint64_t *table;

        buffer_phys = phys_alloc(BUFFER_BYTES, BUFFER_BYTES);
        table_phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
        table = phys_to_virt(table_phys);
        table[0] = topa_entry(buffer_phys, 4, 0);
        table[1] = table_phys | TOPA_END;
    }
    memset(phys_to_virt(buffer_phys), 0, BUFFER_BYTES);
    if (caps->topa) {
        setup->ctl |= CTL_TOPA;
        setup->base = table_phys;
        setup->mask_ptrs = topa_pointers(0, 0);
    } else if (caps->single_range) {
        setup->base = buffer_phys;
        setup->mask_ptrs = BUFFER_BYTES - 1;
    } else {
        setup->ctl |= CTL_FABRICEN;
    }
}

const uint8_t *trace_default_buffer(void)
{
    return phys_to_virt(buffer_phys);
}

const uint8_t *trace_default_bytes(const struct trace_result *result, uint64_t *len_bytes)
{
    *len_bytes = result->end.offset;
    return trace_default_buffer();
}

/* ---- Sizes -------------------------------------------------------------------------------- */

#define MEASURED_BRANCHES 64
#define SPRAY_IP_BYTES    6 /* of payload, at least */

/* From the first TIP of pt_spray() to the last one, with the packets between them. */
static uint64_t measure_spray(void)
{
    struct trace_setup setup = {.ctl = CTL_DEFAULT, .branches = MEASURED_BRANCHES};
    struct packet_reader reader = {0};
    uint64_t tips = 0, first = 0, last = 0;
    struct trace_result result;
    struct packet packet;

    trace_default_output(&setup);
    result = trace_run(&setup);
    reader.bytes = trace_default_bytes(&result, &reader.len_bytes);
    while (packet_next(&reader, &packet)) {
        if (packet.kind != PACKET_TIP || packet_ip_payload_bytes(packet.sub) < SPRAY_IP_BYTES)
            continue;
        if (tips++ == 0)
            first = packet.at;
        last = packet.at;
    }
    report_value(tips, MEASURED_BRANCHES, "packets: a TIP for each of %u indirect JMPs (33.4.2.2)",
                 MEASURED_BRANCHES);
    return last - first;
}

uint64_t trace_branches(uint64_t len_bytes)
{
    static uint64_t measured;

    if (!measured)
        measured = measure_spray();
    if (!measured) /* that is reported, and what counts on it fails, too */
        measured = (MEASURED_BRANCHES - 1) * (1 + SPRAY_IP_BYTES);
    return len_bytes * (MEASURED_BRANCHES - 1) / measured + 1;
}
