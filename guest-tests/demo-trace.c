/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel PT for the demo: see demo-trace.h. The PMI handler works as 33.2.7.2 describes it.
 *
 * Sections: capabilities, the buffer, handing over, the PMI, start and stop.
 *
 * The buffer is a ring of regions, whatever the output scheme: with ToPA of many entries, two
 * tables that END in each other; with ToPA of one entry, one region that STOPs and is begun anew by
 * the PMI handler; with a single range, one region that wraps and is emptied by polling.
 */
#include "demo-trace.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "exit.h"
#include "memory.h"
#include "pt.h"
#include "trap.h"

static struct trace_stats stats;

static const struct trace_stats *get_stats(void)
{
    return &stats;
}

/* ---- Capabilities ------------------------------------------------------------------------- */

static void print_caps(void)
{
    const struct pt_caps *c = pt_caps();
    const struct {
        bool have;
        const char *name;
    } features[] = {
        {c->cr3_filter, "CR3 filtering"},
        {c->psb_cyc, "configurable PSB and CYC"},
        {c->ip_filter, "IP filtering and TraceStop"},
        {c->mtc, "MTC"},
        {c->ptwrite, "PTWRITE"},
        {c->power, "power events"},
        {c->preserve, "PSB and PMI preservation"},
        {c->event, "event trace"},
        {c->dis_tnt, "TNT disable"},
        {c->topa, "ToPA"},
        {c->multi_entry, "ToPA with many entries"},
        {c->single_range, "single range"},
        {c->fabric, "trace transport"},
        {c->lip, "IPs are LIPs"},
    };

    printf("Intel PT (CPUID 14H):");
    for (unsigned i = 0; i < sizeof(features) / sizeof(features[0]); i++)
        if (features[i].have)
            printf("%s %s", i ? "," : "", features[i].name);
    printf("\n%u address ranges, MTC periods %04x, CYC thresholds %04x, PSB periods %04x\n",
           c->ranges, (unsigned)c->mtc_map, (unsigned)c->cyc_map, (unsigned)c->psb_map);
}

/* ---- The buffer --------------------------------------------------------------------------- */

enum scheme { TOPA_MANY, TOPA_ONE, SINGLE_RANGE };

/* One region of the ring, and where the output MSRs point while it is in use. */
struct region {
    uint64_t phys, size_bytes;
    uint64_t table;
    unsigned index;
};

#define MAX_REGIONS        8
#define SINGLE_ENTRY_SIZE  2 /* 16 KiB */
#define SINGLE_RANGE_BYTES 0x100000ull
#define POLL_EVERY         16 /* of the calls: far from a full range, and cheap */

static enum scheme scheme;
static struct region ring[MAX_REGIONS];
static unsigned ring_regions;

/* What is handed over ends here: a region of the ring and an offset into it. */
static unsigned done_region;
static uint64_t done_offset;

/* Adds a region of 4 KiB << size as entry `index` of the table. */
static void add_region(uint64_t table, unsigned index, unsigned size, uint64_t flags)
{
    uint64_t bytes = PAGE_BYTES << size, phys = phys_alloc(bytes, bytes);

    ((uint64_t *)phys_to_virt(table))[index] = topa_entry(phys, size, flags);
    ring[ring_regions++] = (struct region){phys, bytes, table, index};
}

static void add_end(uint64_t table, unsigned index, uint64_t next_table)
{
    ((uint64_t *)phys_to_virt(table))[index] = next_table | TOPA_END;
}

static void make_many(void)
{
    uint64_t first = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    uint64_t second = phys_alloc(PAGE_BYTES, PAGE_BYTES);

    add_region(first, 0, 0, TOPA_INT);
    add_region(first, 1, 1, 0);
    add_region(first, 2, 0, TOPA_INT);
    add_end(first, 3, second);
    add_region(second, 0, 1, TOPA_INT);
    add_region(second, 1, 0, TOPA_INT);
    add_end(second, 2, first);
}

static void make_one(void)
{
    uint64_t table = phys_alloc(PAGE_BYTES, PAGE_BYTES);

    /* INT comes before the region is full; if the handler is late all the same, nothing wraps. */
    add_region(table, 0, SINGLE_ENTRY_SIZE, TOPA_INT | TOPA_STOP);
    add_end(table, 1, table);
}

static void make_range(void)
{
    uint64_t phys = phys_alloc(SINGLE_RANGE_BYTES, SINGLE_RANGE_BYTES);

    ring[ring_regions++] = (struct region){phys, SINGLE_RANGE_BYTES, phys, 0};
}

/* ---- Handing over ------------------------------------------------------------------------- */

static void hand_over(const struct region *r, uint64_t from, uint64_t to)
{
    if (from == to)
        return;
    note_trace(r->phys + from, to - from);
    stats.bytes += to - from;
}

/* The region of the ring that the output MSRs point into. */
static unsigned find_region(const struct pt_position *at)
{
    for (unsigned i = 0; i < ring_regions; i++)
        if (ring[i].table == at->base && (scheme == SINGLE_RANGE || ring[i].index == at->index))
            return i;
    printf("output stands at table 0x%lx, entry %u: not ours\n", at->base, at->index);
    guest_exit(1);
}

/* Hands over everything up to the position of the output. TraceEn must be 0. */
static void hand_over_new(void)
{
    struct pt_position at = pt_position();
    unsigned region = find_region(&at);
    uint64_t offset = at.offset;

    /* After a ToPA STOP the offset is the size of the region, or less by one (33.2.7.2). */
    if (rdmsr(MSR_RTIT_STATUS) & STATUS_STOPPED)
        offset = ring[region].size_bytes;
    while (done_region != region || done_offset > offset) {
        hand_over(&ring[done_region], done_offset, ring[done_region].size_bytes);
        done_region = (done_region + 1) % ring_regions;
        done_offset = 0;
    }
    hand_over(&ring[region], done_offset, offset);
    done_offset = offset;
}

/* Clears what tracing left in STATUS, and begins a single ToPA region anew. */
static void prepare_next(void)
{
    uint64_t status = rdmsr(MSR_RTIT_STATUS);

    stats.stops += (status & STATUS_STOPPED) != 0;
    stats.errors += (status & STATUS_ERROR) != 0;
    wrmsr(MSR_RTIT_STATUS, status & ~(STATUS_STOPPED | STATUS_ERROR | STATUS_PENDTOPAPMI));
    if (scheme == TOPA_ONE) {
        wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, topa_pointers(0, 0));
        done_offset = 0;
    }
}

/* ---- The PMI ------------------------------------------------------------------------------ */

static enum pmi_mode pmi_mode;
static bool running;

/* What the buffer holds goes to the host; tracing goes on as it was. */
static void empty_buffer(void)
{
    uint64_t ctl = rdmsr(MSR_RTIT_CTL);

    stats.pmis++;
    wrmsr(MSR_RTIT_CTL, ctl & ~CTL_TRACEEN);
    if (running) {
        hand_over_new();
        prepare_next();
    }
    wrmsr(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
    apic_set_pmi(running ? pmi_mode : PMI_MASKED);
    wrmsr(MSR_RTIT_CTL, ctl);
}

/* A second PMI may follow one that has handed over all there was: it finds bit 55 clear. */
static bool on_pmi(struct frame *frame)
{
    if (frame->vector == VECTOR_PMI)
        apic_eoi();
    if (rdmsr(MSR_PERF_GLOBAL_STATUS) & PERF_TOPA_PMI)
        empty_buffer();
    else
        apic_set_pmi(running ? pmi_mode : PMI_MASKED);
    return true;
}

/* ---- Start and stop ----------------------------------------------------------------------- */

/* The best scheme there is, unless the command line asks for a single range that is there too. */
static enum scheme choose_scheme(void)
{
    const struct pt_caps *caps = pt_caps();

    if (!caps->topa || (boot_choice("output", "range") && caps->single_range))
        return SINGLE_RANGE;
    return caps->multi_entry ? TOPA_MANY : TOPA_ONE;
}

static void init(enum pmi_mode mode)
{
    pmi_mode = mode;
    scheme = choose_scheme();
    switch (scheme) {
    case TOPA_MANY:
        make_many();
        printf("output: ToPA, %u regions in two tables\n", ring_regions);
        break;
    case TOPA_ONE:
        make_one();
        printf("output: ToPA, a single region\n");
        break;
    case SINGLE_RANGE:
        make_range();
        printf("output: single range, polled\n");
        break;
    }
    trap_set_handler(VECTOR_NMI, on_pmi);
    trap_set_handler(VECTOR_PMI, on_pmi);
}

static bool start(uint64_t extra_ctl)
{
    uint64_t ctl = CTL_OS | CTL_USER | CTL_TSCEN | CTL_BRANCHEN | extra_ctl | CTL_TRACEEN;
    uint64_t mask_ptrs = topa_pointers(0, 0);

    if (scheme == SINGLE_RANGE)
        mask_ptrs = SINGLE_RANGE_BYTES - 1;
    else
        ctl |= CTL_TOPA;
    wrmsr(MSR_RTIT_STATUS, 0);
    wrmsr(MSR_RTIT_OUTPUT_BASE, ring[0].table);
    wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, mask_ptrs);
    apic_set_pmi(pmi_mode);
    running = true;
    return wrmsr_safe(MSR_RTIT_CTL, ctl) == 0;
}

static void poll(void)
{
    static unsigned calls;
    uint64_t ctl;

    if (scheme != SINGLE_RANGE || ++calls % POLL_EVERY)
        return;
    ctl = rdmsr(MSR_RTIT_CTL);
    wrmsr(MSR_RTIT_CTL, ctl & ~CTL_TRACEEN);
    hand_over_new();
    prepare_next();
    wrmsr(MSR_RTIT_CTL, ctl);
}

static void stop(void)
{
    wrmsr(MSR_RTIT_CTL, rdmsr(MSR_RTIT_CTL) & ~CTL_TRACEEN);
    apic_set_pmi(PMI_MASKED);
    running = false;
    hand_over_new();
    prepare_next();
    if (scheme != SINGLE_RANGE)
        wrmsr(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
}

const struct tracer pt_tracer = {print_caps, init, start, poll, stop, get_stats};
