/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several logical processors, each with its own trace: they are started by INIT and start-up IPIs,
 * interrupt each other, and trace their own work at the same time, each into its own ToPA regions
 * with its own PMIs. Each hands its own trace over; `vpt run --cpus N --verify` compares the
 * decoded paths with the executed ones.
 *
 * Sections: processors, interrupts, output, work, jobs, cases.
 */
#include "apic.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "packets.h"
#include "pt.h"
#include "smp-tests-start.h"
#include "string.h"
#include "trap.h"

/* ---- Processors --------------------------------------------------------------------------- */

#define MAX_CPUS 8

#define REGION_COUNT 8
#define BLOCK_BYTES  (REGION_COUNT * PAGE_BYTES)

enum job { JOB_NONE, JOB_CHECK, JOB_TRACE, JOB_HELD };

struct processor {
    /* Written by the processor itself. */
    unsigned starts; /* how often it came out of real mode */
    unsigned done;   /* jobs done */
    unsigned pmis, nmis, ipis;
    bool pmi_flagged;   /* GLOBAL_STATUS[55] at its last PMI */
    bool lvt_masked;    /* LVTPC in its last PMI */
    bool held;          /* JOB_HELD: the PMI waited in IRR, and nothing was delivered */
    uint64_t ctl, base; /* its trace MSRs, as JOB_CHECK found them */
    uint64_t status;    /* after its trace */
    uint64_t len_bytes, sum;
    /* Written by the bootstrap processor. */
    unsigned jobs; /* jobs given; the last one is: */
    enum job job;
    enum pmi_mode pmi_mode;
    uint64_t table_phys, block_phys;
};

static volatile struct processor processors[MAX_CPUS];
_Alignas(16) uint8_t ap_stacks[MAX_CPUS][AP_STACK_BYTES];
static struct trap_tables tables[MAX_CPUS];

#define VECTOR_IPI 0x42

/* Logical processors of the package (CPUID.1:EBX[23:16]); 1 without HTT. */
static unsigned count_processors(void)
{
    const struct cpuid leaf = cpuid(1, 0);
    const unsigned count = leaf.ebx >> 16 & 0xff;

    if (!(leaf.edx >> 28 & 1) || count < 1)
        return 1;
    return count < MAX_CPUS ? count : MAX_CPUS;
}

/* ---- Interrupts --------------------------------------------------------------------------- */

static bool on_pmi(volatile struct processor *self)
{
    self->pmis++;
    self->pmi_flagged = rdmsr(MSR_PERF_GLOBAL_STATUS) & PERF_TOPA_PMI;
    self->lvt_masked = apic_pmi_masked();
    wrmsr(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
    apic_set_pmi(self->pmi_mode);
    return true;
}

static bool on_vector_pmi(struct frame *frame)
{
    (void)frame;
    on_pmi(&processors[apic_id()]);
    apic_eoi();
    return true;
}

/* A PMI, where one is due and NMIs are how it comes; else another processor's NMI. */
static bool on_nmi(struct frame *frame)
{
    volatile struct processor *self = &processors[apic_id()];

    (void)frame;
    if (self->pmi_mode == PMI_NMI && rdmsr(MSR_PERF_GLOBAL_STATUS) & PERF_TOPA_PMI)
        return on_pmi(self);
    self->nmis++;
    return true;
}

static bool on_ipi(struct frame *frame)
{
    (void)frame;
    processors[apic_id()].ipis++;
    apic_eoi();
    return true;
}

/* ---- Output ------------------------------------------------------------------------------- */

/* Regions of a page each, whose ends are PMIs. */
static void make_output(unsigned id)
{
    volatile struct processor *self = &processors[id];
    uint64_t *table;

    self->table_phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    self->block_phys = phys_alloc(BLOCK_BYTES, PAGE_BYTES);
    printf("processor %u: table at 0x%lx, regions behind it\n", id, self->table_phys);
    table = phys_to_virt(self->table_phys);
    for (unsigned i = 0; i < REGION_COUNT; i++)
        table[i] = topa_entry(self->block_phys + i * PAGE_BYTES, 0, TOPA_INT);
    table[REGION_COUNT] = self->table_phys | TOPA_END;
}

static uint64_t output_bytes(void)
{
    const struct pt_position at = pt_position();

    return at.index * PAGE_BYTES + at.offset;
}

/* ---- Work --------------------------------------------------------------------------------- */

#define ROUNDS(id)    (1300 + 100 * (id))
#define HELD_ROUNDS   700 /* more than a region */
#define HELD_PATIENCE 1000000

static uint64_t twist(uint64_t x)
{
    return x << 13 | x >> 51;
}
static uint64_t fold(uint64_t x)
{
    return (x ^ x >> 7) * 0x100000001b3ull;
}
static uint64_t climb(uint64_t x)
{
    return x & 1 ? 3 * x + 1 : x / 2;
}

/* Indirect calls, whose targets depend on the data, and those on the processor. */
static __attribute__((noinline)) uint64_t work(unsigned id, unsigned rounds)
{
    static uint64_t (*const volatile steps[4])(uint64_t) = {twist, fold, climb, fold};
    uint64_t x = 0x9e3779b97f4a7c15ull * (id + 1);

    for (unsigned i = 0; i < rounds; i++)
        x = steps[x >> 3 & 3](x) + i;
    return x;
}

/* ---- Jobs --------------------------------------------------------------------------------- */

static void check_msrs(volatile struct processor *self)
{
    self->ctl = rdmsr(MSR_RTIT_CTL);
    self->base = rdmsr(MSR_RTIT_OUTPUT_BASE);
}

static void trace_work(volatile struct processor *self, unsigned id, unsigned rounds)
{
    wrmsr(MSR_RTIT_STATUS, 0);
    wrmsr(MSR_RTIT_OUTPUT_BASE, self->table_phys);
    wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, topa_pointers(0, 0));
    wrmsr(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
    wrmsr(MSR_RTIT_CTL, CTL_OS | CTL_BRANCHEN | CTL_TOPA | CTL_DISRETC | CTL_TRACEEN);
    self->sum = work(id, rounds);
    wrmsr(MSR_RTIT_CTL, 0);
    self->status = rdmsr(MSR_RTIT_STATUS);
    self->len_bytes = output_bytes();
    note_trace(self->block_phys, self->len_bytes);
}

/* PMIs as they come; NMIs do not care for RFLAGS.IF. */
static void trace_with_pmis(volatile struct processor *self, unsigned id)
{
    apic_set_pmi(self->pmi_mode);
    if (self->pmi_mode == PMI_VECTOR)
        interrupts_on();
    trace_work(self, id, ROUNDS(id));
    interrupts_off();
    apic_set_pmi(PMI_MASKED);
}

/* A PMI by vector that has to wait for RFLAGS.IF. */
static void trace_with_held_pmi(volatile struct processor *self, unsigned id)
{
    const unsigned before = self->pmis;

    apic_set_pmi(PMI_VECTOR);
    trace_work(self, id, HELD_ROUNDS);
    self->held = self->pmis == before && apic_pending(VECTOR_PMI) && apic_pmi_masked();
    interrupts_on();
    for (unsigned i = 0; i < HELD_PATIENCE && self->pmis == before; i++)
        __asm__ volatile("pause" : : : "memory");
    interrupts_off();
    apic_set_pmi(PMI_MASKED);
}

static void do_job(volatile struct processor *self, unsigned id)
{
    if (self->job == JOB_CHECK)
        check_msrs(self);
    else if (self->job == JOB_TRACE)
        trace_with_pmis(self, id);
    else if (self->job == JOB_HELD)
        trace_with_held_pmi(self, id);
    self->done = self->jobs;
}

/* Called by smp-tests-start.S. */
_Noreturn void ap_main(uint32_t id)
{
    volatile struct processor *self = &processors[id];

    trap_load_tables(&tables[id]);
    apic_init();
    self->starts++;
    for (;;) {
        /* An interrupt between the question and HLT comes after STI's shadow, and ends the HLT. */
        interrupts_off();
        if (self->done == self->jobs)
            __asm__ volatile("sti; hlt" : : : "memory");
        else
            do_job(self, id);
    }
}

/* ---- Cases -------------------------------------------------------------------------------- */

#define PATIENCE 20000000u

static unsigned cpu_count;

#define wait_until(condition)                                                                      \
    ({                                                                                             \
        unsigned turns = 0;                                                                        \
        while (!(condition) && turns < PATIENCE) {                                                 \
            __asm__ volatile("pause" : : : "memory");                                              \
            turns++;                                                                               \
        }                                                                                          \
        turns < PATIENCE;                                                                          \
    })

static void give(unsigned id, enum job job)
{
    processors[id].job = job;
    processors[id].jobs++;
    barrier();
    if (id)
        apic_send(id, ICR_FIXED | VECTOR_IPI);
}

static bool all_done(void)
{
    for (unsigned id = 0; id < cpu_count; id++) {
        if (!wait_until(processors[id].done == processors[id].jobs))
            return false;
    }
    return true;
}

static bool start_all(void)
{
    memcpy(phys_to_virt(AP_PAGE), ap_code, (size_t)(ap_code_end - ap_code));
    apic_send(0, ICR_INIT | ICR_ASSERT | ICR_OTHERS);
    apic_send(0, ICR_SIPI | ICR_OTHERS | AP_PAGE >> 12);
    apic_send(0, ICR_SIPI | ICR_OTHERS | AP_PAGE >> 12);
    for (unsigned id = 1; id < cpu_count; id++) {
        const bool started = wait_until(processors[id].starts);

        report(started, "processor %u starts by INIT and SIPI", id);
        if (!started)
            return false;
    }
    return true;
}

static void test_start(void)
{
    /* Long enough that somebody who took the second SIPI would be back. */
    for (unsigned i = 0; i < 10000; i++)
        barrier();
    apic_send(0, ICR_SIPI | ICR_OTHERS | AP_PAGE >> 12);
    for (unsigned i = 0; i < 10000; i++)
        barrier();
    for (unsigned id = 1; id < cpu_count; id++)
        report_value(processors[id].starts, 1,
                     "processor %u takes no SIPI that it does not wait for", id);
}

/* Each interrupt reaches the one that it is for, and nobody else. */
static void test_ipis(void)
{
    for (unsigned id = 1; id < cpu_count; id++) {
        unsigned ipis = 0, nmis = 0;

        for (unsigned i = 0; i < cpu_count; i++) {
            ipis += processors[i].ipis;
            nmis += processors[i].nmis;
        }
        const unsigned before = processors[id].ipis;
        apic_send(id, ICR_FIXED | VECTOR_IPI);
        wait_until(processors[id].ipis != before);
        apic_send(id, ICR_NMI);
        wait_until(processors[id].nmis);
        for (unsigned i = 0; i < cpu_count; i++) {
            ipis -= processors[i].ipis;
            nmis -= processors[i].nmis;
        }
        report(processors[id].ipis == before + 1 && ipis == UINT32_MAX,
               "a fixed IPI reaches processor %u alone", id);
        report(processors[id].nmis == 1 && nmis == UINT32_MAX, "an NMI reaches processor %u alone",
               id);
    }
}

static void test_own_msrs(void)
{
    wrmsr(MSR_RTIT_OUTPUT_BASE, processors[0].table_phys);
    wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, topa_pointers(0, 0));
    wrmsr(MSR_RTIT_STATUS, 0);
    wrmsr(MSR_RTIT_CTL, CTL_TOPA | CTL_BRANCHEN | CTL_TRACEEN); /* neither OS nor USER: silence */
    for (unsigned id = 1; id < cpu_count; id++)
        give(id, JOB_CHECK);
    all_done();
    wrmsr(MSR_RTIT_CTL, 0);
    note_trace(processors[0].block_phys, output_bytes()); /* a PSB+ all the same */
    for (unsigned id = 1; id < cpu_count; id++) {
        report_value(processors[id].ctl, 0, "IA32_RTIT_CTL of processor %u is its own (33.2.8.1)",
                     id);
        report_value(processors[id].base, 0,
                     "IA32_RTIT_OUTPUT_BASE of processor %u is its own (33.2.8.1)", id);
    }
}

static void report_trace(unsigned id, enum pmi_mode mode)
{
    volatile struct processor *p = &processors[id];
    const struct packet_counts counts = packets_count(phys_to_virt(p->block_phys), p->len_bytes);
    const uint64_t regions = p->len_bytes / PAGE_BYTES;
    const char *how = mode == PMI_NMI ? "NMI" : "interrupt";

    report_value(p->status & STATUS_ERROR, 0, "processor %u traces without error", id);
    report(p->len_bytes >= PAGE_BYTES, "processor %u fills a region", id);
    report(!counts.damaged && counts.of[PACKET_PSB] && counts.of[PACKET_TIP_PGE],
           "processor %u: packets from PSB on in its own regions", id);
    report_value(p->pmis, regions, "processor %u: a PMI by %s for each of its regions (33.2.7.2)",
                 id, how);
    report(p->pmi_flagged, "processor %u: GLOBAL_STATUS[55] is its own (33.2.7.2)", id);
    report(p->lvt_masked, "processor %u: its APIC masked LVTPC when it delivered the %s", id, how);
    report_value(p->sum, work(id, ROUNDS(id)), "processor %u computed what it should", id);
}

/* All at once; half of the PMIs are NMIs. */
static void test_traces(void)
{
    for (unsigned id = 0; id < cpu_count; id++) {
        processors[id].pmis = 0;
        processors[id].pmi_mode = id % 2 ? PMI_NMI : PMI_VECTOR;
    }
    for (unsigned id = 1; id < cpu_count; id++)
        give(id, JOB_TRACE);
    give(0, JOB_TRACE);
    do_job(&processors[0], 0);
    report(all_done(), "all processors end their traces");
    for (unsigned id = 0; id < cpu_count; id++)
        report_trace(id, processors[id].pmi_mode);
}

/* One after the other: the others' processors sleep, and nothing is for them. */
static void test_held(void)
{
    for (unsigned id = 0; id < cpu_count; id++) {
        unsigned others = 0;

        processors[id].pmi_mode = PMI_MASKED; /* the handler does not unmask it */
        for (unsigned i = 0; i < cpu_count; i++)
            processors[i].pmis = 0;
        give(id, JOB_HELD);
        if (id == 0)
            do_job(&processors[0], 0);
        if (!all_done())
            report(false, "processor %u ends its trace", id);
        for (unsigned i = 0; i < cpu_count; i++)
            others += i == id ? 0 : processors[i].pmis;
        report(processors[id].held,
               "processor %u: a PMI by interrupt waits in IRR for RFLAGS.IF, LVTPC masked", id);
        report_value(processors[id].pmis, 1, "processor %u: it comes once, with IF = 1", id);
        report_value(others, 0, "processor %u: no PMI on another processor", id);
    }
}

static void test_restart(void)
{
    apic_send(1, ICR_INIT | ICR_ASSERT);
    for (unsigned i = 0; i < 10000; i++)
        barrier();
    report_value(processors[1].starts, 1, "processor 1 waits for a SIPI after INIT");
    apic_send(1, ICR_SIPI | AP_PAGE >> 12);
    report(wait_until(processors[1].starts == 2), "processor 1 starts again");
    give(1, JOB_CHECK);
    report(all_done(), "processor 1 works again");
}

int guest_main(void)
{
    const struct pt_caps *caps = pt_caps();

    cpu_count = count_processors();
    if (cpu_count < 2 || !caps->present || !caps->topa || caps->perf_version < 2) {
        report_skip(cpu_count < 2 ? "one processor: vpt run --cpus 2"
                                  : "no Intel PT with ToPA and PMIs",
                    "traces of several processors");
        return report_summary();
    }
    trap_set_handler(VECTOR_NMI, on_nmi);
    trap_set_handler(VECTOR_PMI, on_vector_pmi);
    trap_set_handler(VECTOR_IPI, on_ipi);
    for (unsigned id = 0; id < cpu_count; id++)
        make_output(id);
    if (!start_all())
        return report_summary();
    test_start();
    test_ipis();
    test_own_msrs();
    if (caps->multi_entry) {
        test_held();
        test_traces();
    } else {
        report_skip("one ToPA entry", "a PMI for each of several regions");
    }
    test_restart();
    return report_summary();
}
