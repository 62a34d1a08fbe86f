/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases of packets: the guest traces code of its own, reads its own buffer, and compares the
 * packets with those that the code must have left, computed from its labels. One line each, with
 * the section or table that it proves. What is expected follows from CPUID and from what the code
 * did, so that the same image serves every processor and every hypervisor.
 */
#include "packet-tests.h"
#include "apic.h"
#include "boot.h"
#include "trap.h"

struct trace trace;

static const struct {
    const char *name;
    void (*test)(void);
} groups[] = {
    {"psb", test_psb},       {"branch", test_branches},   {"event", test_events},
    {"user", test_contexts}, {"filter", test_ip_filters}, {"time", test_timing},
    {"output", test_output}, {"insn", test_instructions},

};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

/* ---- Traces ------------------------------------------------------------------------------- */

static uint64_t rdtsc(void)
{
    uint32_t low, high;

    __asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

void trace_code_to(const struct trace_setup *setup, trace_body *body, uint64_t arg0, uint64_t arg1)
{
    trace_prepare(setup);
    trace.tsc_begin = rdtsc();
    body(setup->ctl | CTL_TRACEEN, setup->ctl, arg0, arg1);
    trace.tsc_end = rdtsc();
    trace.status = rdmsr(MSR_RTIT_STATUS);
    trace.end = pt_position();
}

void trace_read(const uint8_t *bytes, uint64_t len_bytes)
{
    struct packet_reader reader = {.bytes = bytes, .len_bytes = len_bytes};

    trace.bytes = bytes;
    trace.len_bytes = len_bytes;
    trace.count = 0;
    while (trace.count < MAX_PACKETS && packet_next(&reader, &trace.packets[trace.count]))
        trace.count++;
    trace.damaged = reader.damaged || reader.at != len_bytes;
}

void trace_code(uint64_t ctl, trace_body *body, uint64_t arg0, uint64_t arg1)
{
    struct trace_setup setup = {.ctl = ctl};

    trace_default_output(&setup);
    trace_code_to(&setup, body, arg0, arg1);
    trace_read(trace_default_buffer(), trace.end.offset);
}

uint64_t ctl_mtc(unsigned slowest)
{
    uint64_t freq = slowest;

    while (freq > 0 && !(pt_caps()->mtc_map >> freq & 1))
        freq--;
    return CTL_MTCEN | freq << CTL_MTCFREQ_SHIFT;
}

unsigned trace_count(enum packet_kind kind)
{
    unsigned count = 0;

    for (unsigned i = 0; i < trace.count; i++)
        count += trace.packets[i].kind == kind;
    return count;
}

/* ---- Long traces -------------------------------------------------------------------------- */

BODY(chain_body);
LABEL(chain_link);
LABEL(chain_end);

#define MEASURED_LINKS 64
#define LINK_BYTES     7 /* at least: a TIP whose payload has 6 bytes */

static uint64_t chain[MAX_LINKS + 1];
static unsigned chain_links;

const uint64_t *chain_make(unsigned links, const char *end)
{
    uint64_t here = (uint64_t)chain_link, there = (uint64_t)phys_to_virt(virt_to_phys(chain_link));

    for (unsigned i = 0; i < links; i++)
        chain[i] = i % 2 ? here : there;
    chain[links] = (uint64_t)end;
    chain_links = links;
    return chain;
}

/* The bytes from one TIP of a chain to the TIP that is MEASURED_LINKS behind it. */
static uint64_t measure_chain(void)
{
    const struct packet *first = NULL, *last = NULL;

    trace_code(CTL_DEFAULT, chain_body, (uint64_t)chain_make(MEASURED_LINKS, chain_end), 0);
    for (unsigned i = 0; i < trace.count; i++) {
        if (trace.packets[i].kind != PACKET_TIP)
            continue;
        if (!first)
            first = &trace.packets[i];
        last = &trace.packets[i];
    }
    EXPECT_BEGIN(chain_body);
    expect_chain();
    EXPECT_END(chain_body);
    check_flow("TIP: one for each of %u indirect JMPs (33.4.2.2)", MEASURED_LINKS + 1);
    return first ? last->at - first->at : 0;
}

unsigned chain_links_of(uint64_t len_bytes)
{
    static uint64_t measured;
    uint64_t links;

    if (!measured)
        measured = measure_chain();
    if (!measured) /* that is reported, and what counts on it fails, too */
        measured = MEASURED_LINKS * LINK_BYTES;
    links = len_bytes * MEASURED_LINKS / measured;
    return links < MAX_LINKS ? (unsigned)links : MAX_LINKS;
}

void expect_chain(void)
{
    for (unsigned i = 0; i <= chain_links; i++)
        expect_tip((const void *)chain[i]);
}

/* ---- Interrupts --------------------------------------------------------------------------- */

#define PEND_TICKS 1000
#define PEND_TRIES 1000000

static bool on_late_timer(struct frame *frame)
{
    (void)frame;
    apic_eoi();
    return true;
}

bool interrupt_pend(void)
{
    trap_set_handler(VECTOR_TIMER, on_late_timer);
    apic_timer_once(PEND_TICKS);
    for (unsigned i = 0; i < PEND_TRIES; i++)
        if (apic_pending(VECTOR_TIMER))
            return true;
    apic_timer_stop();
    return false;
}

void interrupt_done(void)
{
    apic_timer_stop();
    interrupts_on();
    __asm__ volatile("nop");
    interrupts_off();
}

/* ---- The run ------------------------------------------------------------------------------ */

static bool runnable(void)
{
    const struct pt_caps *caps = pt_caps();

    if (!caps->present)
        report_skip("no Intel PT here", "packets (33.4)");
    else if (!caps->topa && !caps->single_range)
        report_skip("no output to memory", "packets (33.4)");
    return caps->present && (caps->topa || caps->single_range);
}

/* Groups named on the command line; without any, all of them. */
static bool wanted(const char *name)
{
    bool any = false;

    for (unsigned i = 0; i < GROUPS; i++)
        any |= boot_word(groups[i].name);
    return !any || boot_word(name);
}

int guest_main(void)
{
    if (!runnable())
        return report_summary();
    trace_set_pmi(PMI_MASKED);
    trace_off();
    for (unsigned i = 0; i < GROUPS; i++)
        if (wanted(groups[i].name))
            groups[i].test();
    trace_off();
    return report_summary();
}
