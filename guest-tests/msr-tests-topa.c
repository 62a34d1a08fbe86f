/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of physical addresses: each malformed entry, and what well-formed tables do (33.2.7.2).
 */
#include "msr-tests.h"
#include "string.h"

#define CANARY          0xa5
#define FEW_BRANCHES    8
#define REGION_BYTES    0x1000u
#define A_LITTLE        0x100u /* bytes */
#define SLACK_BYTES     0x1000u
#define TABLE_BASE_LAST 11

/* Two tables and four regions with room between them; canary there and in them before each case. */
static uint64_t tables[2], regions[4];
/* Branches that fill a region of REGION_BYTES, or two, and a little. */
static uint64_t fill_one, fill_two;

#define MANY        (1u << 0) /* the case needs ToPA of many entries */
#define SINGLE_ONLY (1u << 1) /* the rule is one of processors with a single entry */

static uint64_t *table(unsigned i)
{
    return phys_to_virt(tables[i]);
}

static uint8_t *region(unsigned i)
{
    return phys_to_virt(regions[i]);
}

static void allocate(void)
{
    for (unsigned i = 0; i < 2; i++)
        tables[i] = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    for (unsigned i = 0; i < 4; i++)
        regions[i] = phys_alloc(0x10000 + SLACK_BYTES, 0x10000);
    fill_one = trace_branches(REGION_BYTES + A_LITTLE);
    fill_two = trace_branches(2 * REGION_BYTES + A_LITTLE);
}

/* A table of one 4 KiB region, circular: legal everywhere. */
static void make_plain(void)
{
    for (unsigned i = 0; i < 2; i++)
        memset(table(i), 0, 64);
    table(0)[0] = topa_entry(regions[0], 0, 0);
    table(0)[1] = tables[0] | TOPA_END;
    for (unsigned i = 0; i < 4; i++)
        memset(region(i), CANARY, REGION_BYTES + 64);
}

static struct trace_result run(uint64_t base, uint64_t mask_ptrs, uint64_t branches,
                               uint64_t wait_for)
{
    struct trace_setup setup = {.ctl = CTL_DEFAULT | CTL_TOPA,
                                .base = base,
                                .mask_ptrs = mask_ptrs,
                                .branches = branches,
                                .wait_for = wait_for};

    return trace_run(&setup);
}

/* ---- Errors ------------------------------------------------------------------------------- */

static void check_error(const struct trace_result *r, const char *what, const char *rule)
{
    if (r->vector)
        report_vector(r->vector, 0, "ToPA: %s: WRMSR itself succeeds (33.3.10)", what);
    else
        report_value(r->live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "ToPA: %s: Error, TriggerEn = 0 (%s)", what, rule);
    report_value(r->status & STATUS_ERROR, STATUS_ERROR,
                 "ToPA: %s: Error stays when TraceEn is cleared (Table 33-7)", what);
}

static void check_no_error(const struct trace_result *r, const char *what, const char *rule)
{
    report_value(r->live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_TRIGGEREN,
                 "ToPA: %s: no error (%s)", what, rule);
}

static void test_reserved_bits(void)
{
    static const unsigned low[] = {1, 3, 5, 10, 11};
    unsigned phys_bits = pt_caps()->phys_bits;
    struct trace_result r;

    for (unsigned i = 0; i < sizeof(low) / sizeof(low[0]); i++) {
        make_plain();
        table(0)[0] |= 1ull << low[i];
        r = run(tables[0], topa_pointers(0, 0), FEW_BRANCHES, STATUS_ERROR);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "ToPA: reserved bit %u of an entry: Error (33.2.7.2, error 1)", low[i]);
        make_plain();
        table(0)[1] |= 1ull << low[i];
        r = run(tables[0], topa_pointers(0, 0), fill_one, STATUS_ERROR);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "ToPA: reserved bit %u of an END entry: Error (33.2.7.2, error 1)", low[i]);
    }
    for (unsigned bit = phys_bits; bit < 64; bit++) {
        make_plain();
        table(0)[0] |= 1ull << bit;
        r = run(tables[0], topa_pointers(0, 0), FEW_BRANCHES, STATUS_ERROR);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "ToPA: address bit %u, beyond MAXPHYADDR: Error (33.2.7.2, error 2c)", bit);
    }
    make_plain();
    table(0)[1] |= 1ull << 63;
    r = run(tables[0], topa_pointers(0, 0), fill_one, STATUS_ERROR);
    check_error(&r, "END address beyond MAXPHYADDR", "33.2.7.2, error 2c");
}

static void test_alignment(void)
{
    struct trace_result r;

    for (unsigned bit = 7; bit <= TABLE_BASE_LAST; bit++) {
        make_plain();
        memcpy((uint8_t *)table(0) + (1u << bit), table(0), 16);
        r = run(tables[0] | 1ull << bit, topa_pointers(0, 0), FEW_BRANCHES, STATUS_ERROR);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "ToPA: table base with bit %u set: Error (33.2.7.2, error 2a)", bit);
        memset(table(0), 0, PAGE_BYTES);
    }
    for (unsigned size = 1; size < 16; size++) {
        uint64_t highest_bad = PAGE_BYTES << (size - 1);

        make_plain();
        table(0)[0] = topa_entry(highest_bad, size, 0);
        r = run(tables[0], topa_pointers(0, 0), FEW_BRANCHES, STATUS_ERROR);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "ToPA: region of size code %u at half its size: Error (33.2.7.2, error 2b)",
                     size);
        table(0)[0] = topa_entry(regions[0] | PAGE_BYTES, size, 0);
        r = run(tables[0], topa_pointers(0, 0), FEW_BRANCHES, STATUS_ERROR);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "ToPA: region of size code %u with address bit 12: Error (33.2.7.2, error 2b)",
                     size);
    }
    for (unsigned size = 0; size <= 4; size++) {
        make_plain();
        table(0)[0] = topa_entry(regions[0], size, 0);
        r = run(tables[0], topa_pointers(0, 0), FEW_BRANCHES, 0);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_TRIGGEREN,
                     "ToPA: aligned region of size code %u: no error (Table 33-3)", size);
    }
}

static void test_offsets(void)
{
    struct trace_result r;

    for (unsigned size = 0; size <= 4; size++) {
        uint32_t bytes = REGION_BYTES << size;

        make_plain();
        table(0)[0] = topa_entry(regions[0], size, 0);
        r = run(tables[0], topa_pointers(0, bytes), FEW_BRANCHES, STATUS_ERROR);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "ToPA: offset equal to the region's 0x%x bytes: Error (33.2.7.2, error 3)",
                     bytes);
        r = run(tables[0], topa_pointers(0, bytes - 1), FEW_BRANCHES, 0);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_TRIGGEREN,
                     "ToPA: offset of the last of 0x%x bytes: no error (33.2.7.2, error 3)", bytes);
    }
    make_plain();
    r = run(tables[0], topa_pointers(0, 0xffffffff), FEW_BRANCHES, STATUS_ERROR);
    check_error(&r, "offset of all ones", "33.2.7.2, error 3");
}

static void test_rules(void)
{
    static const struct {
        uint64_t flags;
        const char *name;
    } end_flags[] = {
        {TOPA_INT, "INT with END"},
        {TOPA_STOP, "STOP with END"},
        {TOPA_INT | TOPA_STOP, "INT and STOP with END"},
    };
    struct trace_result r;

    for (unsigned i = 0; i < sizeof(end_flags) / sizeof(end_flags[0]); i++) {
        make_plain();
        table(0)[1] |= end_flags[i].flags;
        r = run(tables[0], topa_pointers(0, 0), fill_one, STATUS_ERROR);
        check_error(&r, end_flags[i].name, "33.2.7.2, error 4a");
    }
    make_plain();
    table(0)[1] |= 15u << TOPA_SIZE_SHIFT;
    r = run(tables[0], topa_pointers(0, 0), fill_one, 0);
    check_no_error(&r, "the size of an END entry is ignored", "Table 33-3");

    make_plain();
    table(0)[0] = tables[0] | TOPA_END;
    r = run(tables[0], topa_pointers(0, 0), FEW_BRANCHES, STATUS_ERROR);
    check_error(&r, "END in entry 0", "33.2.7.2, error 4b");

    make_plain();
    table(0)[0] = tables[1] | TOPA_END;
    table(1)[0] = topa_entry(regions[1], 0, 0);
    table(1)[1] = tables[1] | TOPA_END;
    r = run(tables[0], topa_pointers(0, 0), FEW_BRANCHES, STATUS_ERROR);
    check_error(&r, "END in entry 0, to another table", "33.2.7.2, error 4b");

    /* Nothing but ones reads from where no memory is: reserved bits. */
    r = run((1ull << pt_caps()->phys_bits) - PAGE_BYTES, topa_pointers(0, 0), FEW_BRANCHES,
            STATUS_ERROR);
    check_error(&r, "table where no memory is", "33.2.7.2, error 1");
}

static void test_single_entry_rules(void)
{
    struct trace_result r;

    if (pt_caps()->multi_entry) {
        report_skip("many entries", "ToPA: END = 0 in entry 1 (33.2.7.2, error 4c)");
        report_skip("many entries", "ToPA: END to another table (33.2.7.2, error 4c)");
        return;
    }
    make_plain();
    table(0)[1] = topa_entry(regions[1], 0, 0);
    table(0)[2] = tables[0] | TOPA_END;
    r = run(tables[0], topa_pointers(0, 0), fill_one, STATUS_ERROR);
    check_error(&r, "END = 0 in entry 1 of a single-entry processor", "33.2.7.2, error 4c");

    make_plain();
    table(1)[0] = topa_entry(regions[1], 0, 0);
    table(1)[1] = tables[1] | TOPA_END;
    table(0)[1] = tables[1] | TOPA_END;
    r = run(tables[0], topa_pointers(0, 0), fill_one, STATUS_ERROR);
    check_error(&r, "END to another table on a single-entry processor", "33.2.7.2, error 4c");
}

/* Errors that only a later entry holds: signalled when output gets there, not before. */
static void test_later_errors(void)
{
    struct trace_result r;

    if (!pt_caps()->multi_entry) {
        report_skip("single entry", "ToPA: errors in later entries (33.2.7.2)");
        return;
    }
    make_plain();
    table(0)[1] = topa_entry(regions[1], 0, 1ull << 5);
    table(0)[2] = tables[0] | TOPA_END;
    r = run(tables[0], topa_pointers(0, 0), fill_one, STATUS_ERROR);
    check_error(&r, "reserved bit in entry 1, reached by filling entry 0", "33.2.7.2, error 1");
    report_value(r.end.index, 1, "ToPA: the table offset points to the bad entry (33.2.7.2)");
    report(region(1)[0] == CANARY, "ToPA: no bytes in the region of a bad entry (33.2.7.2)");

    make_plain();
    table(0)[1] = topa_entry(regions[1] | PAGE_BYTES, 1, 0);
    r = run(tables[0], topa_pointers(1, 0), FEW_BRANCHES, STATUS_ERROR);
    check_error(&r, "misaligned region in entry 1, where output begins", "33.2.7.2, error 2b");

    make_plain();
    table(0)[1] = tables[1] | TOPA_END;
    table(1)[0] = tables[0] | TOPA_END;
    r = run(tables[0], topa_pointers(0, 0), fill_one, STATUS_ERROR);
    check_error(&r, "END in entry 0 of the next table", "33.2.7.2, error 4b");
}

/* ---- Contents ----------------------------------------------------------------------------- */

static bool is_psb(const uint8_t *bytes)
{
    for (unsigned i = 0; i < 16; i++)
        if (bytes[i] != (i % 2 ? 0x82 : 0x02))
            return false;
    return true;
}

static bool holds_canary(const uint8_t *bytes, uint64_t len)
{
    uint64_t canaries = 0;

    for (uint64_t i = 0; i < len; i++)
        canaries += bytes[i] == CANARY;
    /* Some bytes of packets may look like one. */
    return canaries > len / 2;
}

static void test_circular(void)
{
    struct trace_result r;

    make_plain();
    r = run(tables[0], topa_pointers(0, 0), FEW_BRANCHES, 0);
    report(is_psb(region(0)), "ToPA: the trace begins with a PSB in entry 0 (33.2.8.3)");
    report(r.end.offset > 16 && r.end.offset < REGION_BYTES,
           "ToPA: OutputOffset counts (33.2.7.2)");
    report(holds_canary(region(0) + r.end.offset, REGION_BYTES - r.end.offset),
           "ToPA: nothing behind OutputOffset (33.3.3)");
    report_value(r.end.base, tables[0], "ToPA: OUTPUT_BASE is the table (33.2.7.2)");
    report_value(r.end.index, 0, "ToPA: the table offset is the entry (33.2.7.2)");

    r = run(tables[0], topa_pointers(0, 0), fill_two, 0);
    check_no_error(&r, "a circular table wraps", "33.2.7.2");
    report_value(r.end.index, 0, "ToPA: END to the same table leads to entry 0 (33.2.7.2)");
    report(!holds_canary(region(0), REGION_BYTES), "ToPA: the whole region is written (33.2.7.2)");
    report(holds_canary(region(0) + REGION_BYTES, 64),
           "ToPA: nothing behind the region (33.2.7.2)");
}

static void test_chains(void)
{
    struct trace_result r;

    if (!pt_caps()->multi_entry) {
        report_skip("single entry", "ToPA: several regions, chains of tables (33.2.7.2)");
        return;
    }
    make_plain();
    table(0)[0] = topa_entry(regions[0], 0, 0);
    table(0)[1] = topa_entry(regions[1], 1, 0);
    table(0)[2] = tables[0] | TOPA_END;
    r = run(tables[0], topa_pointers(0, 0), fill_one, 0);
    report_value(r.end.index, 1, "ToPA: the next entry when a region is full (33.2.7.2)");
    report(!holds_canary(region(0), REGION_BYTES) && region(1)[0] != CANARY,
           "ToPA: a packet may span two regions (33.2.7.2)");
    report(holds_canary(region(1) + r.end.offset, 64),
           "ToPA: nothing behind OutputOffset (33.3.3)");

    make_plain();
    table(0)[1] = tables[1] | TOPA_END;
    table(1)[0] = topa_entry(regions[2], 0, 0);
    table(1)[1] = topa_entry(regions[3], 0, 0);
    table(1)[2] = tables[0] | TOPA_END;
    r = run(tables[0], topa_pointers(0, 0), fill_one, 0);
    report_value(r.end.base, tables[1],
                 "ToPA: END loads OUTPUT_BASE with the next table (33.2.7.2)");
    report_value(r.end.index, 0, "ToPA: END begins the next table at entry 0 (33.2.7.2)");
    report(region(2)[0] != CANARY, "ToPA: output goes on in the next table (33.2.7.2)");
    r = run(tables[1], topa_pointers(1, REGION_BYTES - 32), FEW_BRANCHES, 0);
    report_value(r.end.base, tables[0], "ToPA: and back to the first table (33.2.7.2)");
    report(region(3)[REGION_BYTES - 1] != CANARY && region(3)[REGION_BYTES - 33] == CANARY,
           "ToPA: output begins at entry and offset of MASK_PTRS (33.2.7.2)");
}

/* ---- STOP --------------------------------------------------------------------------------- */

static void test_stop(void)
{
    const uint64_t seen = STATUS_STOPPED | STATUS_ERROR | STATUS_TRIGGEREN;
    struct trace_setup again = {.ctl = CTL_DEFAULT | CTL_TOPA, .branches = FEW_BRANCHES};
    struct trace_result r;
    uint8_t first;

    make_plain();
    table(0)[0] |= TOPA_STOP;
    r = run(tables[0], topa_pointers(0, 0), fill_one, STATUS_STOPPED);
    report_value(r.live & seen, STATUS_STOPPED,
                 "ToPA STOP: Stopped, TriggerEn = 0, no Error (33.2.7.2)");
    report_value(r.status & STATUS_STOPPED, STATUS_STOPPED,
                 "ToPA STOP: Stopped stays when TraceEn is cleared (Table 33-7)");
    report_value(r.end.base, tables[0], "ToPA STOP: OUTPUT_BASE is the table (33.2.7.2)");
    report_value(r.end.index, 0, "ToPA STOP: the table offset is the entry (33.2.7.2)");
    /* The text says both: see the slips in the specification. */
    report(r.end.offset == REGION_BYTES - 1 || r.end.offset == REGION_BYTES,
           "ToPA STOP: OutputOffset is at the end of the region (33.2.7.2)");
    report(!holds_canary(region(0), REGION_BYTES) && region(0)[REGION_BYTES - 1] != CANARY,
           "ToPA STOP: the region is written to its last byte (33.2.7.2)");
    report(holds_canary(region(0) + REGION_BYTES, 64),
           "ToPA STOP: nothing behind the region (33.2.7.2)");
    report(is_psb(region(0)), "ToPA STOP: nothing wraps to its beginning (33.2.7.2)");

    first = region(0)[0] = CANARY;
    again.base = tables[0];
    again.mask_ptrs = topa_pointers(0, 0);
    again.status = STATUS_STOPPED;
    r = trace_run(&again);
    report_value(r.live & seen, STATUS_STOPPED,
                 "ToPA STOP: no tracing as long as Stopped is set (33.2.6.2)");
    report_value(region(0)[0], first, "ToPA STOP: no bytes as long as Stopped is set (33.2.6.2)");
    again.status = 0;
    r = trace_run(&again);
    report_value(r.live & seen, STATUS_TRIGGEREN,
                 "ToPA STOP: tracing resumes once Stopped is cleared (33.2.5.3)");
    again.status = STATUS_ERROR;
    r = trace_run(&again);
    report_value(r.live & seen, STATUS_ERROR,
                 "ToPA: no tracing as long as Error is set (33.2.6.2)");
}

void test_topa(void)
{
    if (!pt_caps()->topa) {
        report_skip("no ToPA", "ToPA: errors, contents, STOP (33.2.7.2)");
        return;
    }
    allocate();
    test_reserved_bits();
    test_alignment();
    test_offsets();
    test_rules();
    test_single_entry_rules();
    test_later_errors();
    test_circular();
    test_chains();
    test_stop();
    trace_off();
}
