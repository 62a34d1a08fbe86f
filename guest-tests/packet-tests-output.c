/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets in output regions: across the bounds of ToPA entries and tables, up to a STOP, around a
 * ring, and the PMI as an event of the trace (33.2.7.1, 33.2.7.2); internal buffer overflow
 * (33.3.8).
 */
#include "packet-tests.h"
#include "string.h"
#include "trap.h"

BODY(chain_body);
BODY(jcc_body);
LABEL(chain_end);
LABEL(chain_link);
LABEL(chain_link_end);
LABEL(pmi_handler);
extern uint64_t pmi_rip;
extern const uint64_t *pmi_link;

#define REGIONS        4
#define TRACE_BYTES    (5 * PAGE_BYTES / 2) /* fill two regions, not three */
#define RING_BYTES     0x4000u
#define OVERFLOW_BYTES 14000
#define PSB_BYTES      16

static uint64_t table_phys[2], region_phys[REGIONS], ring_phys;
static unsigned region_links; /* of TRACE_BYTES */
static uint8_t collected[REGIONS * PAGE_BYTES];

static void make_regions(void)
{
    uint64_t block = phys_alloc(2 * REGIONS * PAGE_BYTES, PAGE_BYTES);

    /* Not in the order of their addresses, and with a page between them. */
    for (unsigned i = 0; i < REGIONS; i++)
        region_phys[i] = block + 2 * (i ^ 1) * PAGE_BYTES;
    table_phys[0] = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    table_phys[1] = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    ring_phys = phys_alloc(RING_BYTES, RING_BYTES);
    region_links = chain_links_of(TRACE_BYTES);
}

static uint64_t *table(unsigned n)
{
    return phys_to_virt(table_phys[n]);
}

static void trace_topa(void)
{
    struct trace_setup setup = {
        .ctl = CTL_DEFAULT | CTL_TOPA, .base = table_phys[0], .mask_ptrs = topa_pointers(0, 0)};

    for (unsigned i = 0; i < REGIONS; i++)
        memset(phys_to_virt(region_phys[i]), 0, PAGE_BYTES);
    trace_code_to(&setup, chain_body, (uint64_t)chain_make(region_links, chain_end), 0);
}

/* The first len_bytes of the regions, one after the other. */
static void read_regions(uint64_t len_bytes)
{
    for (unsigned i = 0; i < REGIONS; i++)
        memcpy(collected + i * PAGE_BYTES, phys_to_virt(region_phys[i]), PAGE_BYTES);
    trace_read(collected, len_bytes);
}

static void expect_whole_chain(void)
{
    EXPECT_BEGIN(chain_body);
    expect_chain();
    EXPECT_END(chain_body);
}

/* ---- Bounds of entries and tables --------------------------------------------------------- */

static void test_entries(void)
{
    for (unsigned i = 0; i < REGIONS; i++)
        table(0)[i] = topa_entry(region_phys[i], 0, 0);
    table(0)[REGIONS] = table_phys[0] | TOPA_END;
    trace_topa();
    read_regions(trace.end.index * PAGE_BYTES + trace.end.offset);
    report(trace.end.index >= 2, "ToPA: output in the third entry's region (33.2.7.2)");
    expect_whole_chain();
    check_flow("ToPA: packets go on in the next entry's region without a gap (33.2.7.2)");
}

static void test_tables(void)
{
    uint64_t before;

    table(0)[0] = topa_entry(region_phys[0], 0, 0);
    table(0)[1] = table_phys[1] | TOPA_END;
    table(1)[0] = topa_entry(region_phys[1], 0, 0);
    table(1)[1] = topa_entry(region_phys[2], 0, 0);
    table(1)[2] = topa_entry(region_phys[3], 0, 0);
    table(1)[3] = table_phys[0] | TOPA_END;
    trace_topa();
    before = trace.end.base == table_phys[1] ? PAGE_BYTES : 0;
    read_regions(before + trace.end.index * PAGE_BYTES + trace.end.offset);
    report_value(trace.end.base, table_phys[1], "ToPA: END leads to the next table (33.2.7.2)");
    expect_whole_chain();
    check_flow("ToPA: packets go on in the next table's region without a gap (33.2.7.2)");
}

static void test_stop(void)
{
    table(0)[0] = topa_entry(region_phys[0], 0, 0);
    table(0)[1] = topa_entry(region_phys[1], 0, TOPA_STOP);
    table(0)[2] = topa_entry(region_phys[2], 0, 0);
    table(0)[3] = table_phys[0] | TOPA_END;
    trace_topa();
    read_regions(2 * PAGE_BYTES);
    report_value(trace.status & (STATUS_STOPPED | STATUS_ERROR), STATUS_STOPPED,
                 "ToPA STOP: STATUS.Stopped (33.2.7.2)");
    expect_whole_chain();
    check_flow_begins("ToPA STOP: the packets up to the end of the region (33.2.7.2)");
    report_value(*(const uint8_t *)phys_to_virt(region_phys[2]), 0,
                 "ToPA STOP: nothing in the entry behind it (33.2.7.2)");
}

/* ---- The PMI as an event ------------------------------------------------------------------ */

/* How many addresses of the chain had been jumped to when the PMI came. */
static unsigned links_done(const uint64_t *chain)
{
    const uint64_t offset = virt_to_phys((const void *)pmi_rip) - virt_to_phys(chain_link);
    unsigned at = (unsigned)(pmi_link - chain);

    if (pmi_rip == (uint64_t)chain_body_on) /* before the first JMP */
        return 0;
    /* At the JMP of the link, R9 is one ahead. */
    return offset != 0 && offset < (uint64_t)(chain_link_end - chain_link) ? at : at + 1;
}

static void test_pmi(void)
{
    struct trace_setup setup = {
        .ctl = CTL_DEFAULT | CTL_TOPA, .base = table_phys[0], .mask_ptrs = topa_pointers(0, 0)};
    const uint64_t *chain;
    unsigned done;

    for (unsigned i = 0; i < REGIONS; i++)
        table(0)[i] = topa_entry(region_phys[i], 0, i == 0 ? TOPA_INT : 0);
    table(0)[REGIONS] = table_phys[0] | TOPA_END;
    pmi_rip = 0;
    trace_set_pmi(PMI_VECTOR);
    trap_set_entry(VECTOR_PMI, pmi_handler);
    chain = chain_make(region_links, chain_end);
    interrupts_on();
    trace_code_to(&setup, chain_body, (uint64_t)chain, 0);
    interrupts_off();
    trap_set_entry(VECTOR_PMI, NULL);
    trace_set_pmi(PMI_MASKED);
    read_regions(trace.end.index * PAGE_BYTES + trace.end.offset);
    report(pmi_rip != 0, "ToPA INT: the PMI arrives while the trace runs (33.2.7.2)");
    if (!pmi_rip)
        return;
    done = links_done(chain);
    EXPECT_BEGIN(chain_body);
    for (unsigned i = 0; i <= region_links; i++) {
        if (i == done) {
            expect_fup((const void *)pmi_rip);
            expect_tip(pmi_handler);
            expect_tip((const void *)pmi_rip);
        }
        expect_tip((const void *)chain[i]);
    }
    EXPECT_END(chain_body);
    check_flow("ToPA INT: the PMI is an interrupt of the trace: FUP, TIP (Table 33-55 case 11)");
}

/* ---- Rings -------------------------------------------------------------------------------- */

static bool is_psb(const uint8_t *bytes)
{
    for (unsigned i = 0; i < PSB_BYTES; i++)
        if (bytes[i] != (i % 2 ? 0x82 : 0x02))
            return false;
    return true;
}

/* What a ring holds, from its oldest PSB to its newest byte. */
static void read_ring(uint64_t offset)
{
    const uint8_t *ring = phys_to_virt(ring_phys);
    uint64_t from = 0;

    memcpy(collected, ring + offset, RING_BYTES - offset);
    memcpy(collected + RING_BYTES - offset, ring, offset);
    while (from + PSB_BYTES <= RING_BYTES && !is_psb(collected + from))
        from++;
    trace_read(collected + from, RING_BYTES - from);
}

static void check_ring(struct trace_setup setup, const char *what)
{
    memset(phys_to_virt(ring_phys), 0, RING_BYTES);
    trace_code_to(&setup, chain_body,
                  (uint64_t)chain_make(chain_links_of(2 * RING_BYTES - PAGE_BYTES), chain_end), 0);
    read_ring(trace.end.offset % RING_BYTES);
    report(trace_count(PACKET_TIP) > chain_links_of(RING_BYTES) / 2,
           "%s: from the oldest PSB on, the packets can be read", what);
    expect_whole_chain();
    check_flow_ends("%s: around the end of the region without a gap", what);
}

static void test_rings(void)
{
    const struct pt_caps *caps = pt_caps();

    if (caps->single_range)
        check_ring((struct trace_setup){.ctl = CTL_DEFAULT,
                                        .base = ring_phys,
                                        .mask_ptrs = RING_BYTES - 1},
                   "single range (33.2.7.1)");
    else
        report_skip("no single-range output", "single range: around its end (33.2.7.1)");
    if (!caps->topa) {
        report_skip("no ToPA", "ToPA: a ring of one region (33.2.7.2)");
        return;
    }
    table(0)[0] = topa_entry(ring_phys, 2, 0);
    table(0)[1] = table_phys[0] | TOPA_END;
    check_ring((struct trace_setup){.ctl = CTL_DEFAULT | CTL_TOPA,
                                    .base = table_phys[0],
                                    .mask_ptrs = topa_pointers(0, 0)},
               "ToPA: a ring of one region (33.2.7.2)");
}

/* ---- Overflow ----------------------------------------------------------------------------- */

/* As many packets as there can be; whether the processor keeps up is up to it. */
static void test_overflow(void)
{
    const struct pt_caps *caps = pt_caps();
    unsigned bad = 0, overflows;

    trace_code(CTL_DEFAULT | CTL_TSCEN | CTL_DISRETC | (caps->psb_cyc ? CTL_CYCEN : 0), chain_body,
               (uint64_t)chain_make(chain_links_of(OVERFLOW_BYTES), chain_end), 0);
    overflows = trace_count(PACKET_OVF);
    if (!overflows) {
        report_skip("no overflow to be had", "OVF: followed by FUP or TIP.PGE (33.3.8)");
        return;
    }
    for (unsigned i = 0; i + 1 < trace.count; i++) {
        unsigned next = i + 1;

        if (trace.packets[i].kind != PACKET_OVF)
            continue;
        while (next < trace.count &&
               (trace.packets[next].kind == PACKET_CYC || trace.packets[next].kind == PACKET_MTC ||
                trace.packets[next].kind == PACKET_TSC))
            next++;
        bad += next < trace.count && trace.packets[next].kind != PACKET_FUP &&
               trace.packets[next].kind != PACKET_TIP_PGE && trace.packets[next].kind != PACKET_PSB;
    }
    report_value(bad, 0, "OVF: followed by FUP or TIP.PGE (33.3.8, Table 33-14)");
}

void test_output(void)
{
    const struct pt_caps *caps = pt_caps();

    make_regions();
    if (caps->topa && caps->multi_entry) {
        test_entries();
        test_tables();
        test_stop();
    } else {
        report_skip("one entry", "ToPA: bounds of entries and tables, STOP (33.2.7.2)");
    }
    if (caps->topa && caps->multi_entry && caps->perf_version >= 2)
        test_pmi();
    else
        report_skip("no PMI of a table with several entries",
                    "ToPA INT: the PMI in the trace (33.2.7.2)");
    test_rings();
    test_overflow();
}
