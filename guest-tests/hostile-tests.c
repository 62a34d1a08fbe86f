/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile configurations from inside: output and tables that point where no good software would
 * point them. After each one the machine must still work, STATUS must be as specified, and memory
 * that was not named must be as it was (33.2.7.2, 33.2.7.4, 33.3.10).
 *
 * Output onto the code that runs, or onto page tables in use, is left out: there the guest would
 * destroy itself, as it may.
 *
 * Sections: canaries, the machine still works, places, tables, single ranges, random ones.
 */
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "pt.h"
#include "string.h"
#include "tracing.h"
#include "trap.h"

#define FEW_BRANCHES 8
#define BRANCHES_4K  600
#define BRANCHES_8K  1200
#define CANARY_WORD  0x5aa5c33c0ff00ff1ull

/* ---- Canaries ----------------------------------------------------------------------------- */

/* One block: canary page, table, canary page, second table, canary page, region, canary page. */
enum { PAGE_TABLE = 1, PAGE_TABLE2 = 3, PAGE_REGION = 5, BLOCK_PAGES = 7 };

static uint64_t block_phys;

static uint64_t page_phys(unsigned page)
{
    return block_phys + page * PAGE_BYTES;
}

static uint64_t *page_words(unsigned page)
{
    return phys_to_virt(page_phys(page));
}

static uint64_t *table(void)
{
    return page_words(PAGE_TABLE);
}

#define WORDS_PER_PAGE (PAGE_BYTES / 8)

static void reset_block(void)
{
    for (unsigned page = 0; page < BLOCK_PAGES; page++)
        for (unsigned i = 0; i < WORDS_PER_PAGE; i++)
            page_words(page)[i] = page == PAGE_TABLE || page == PAGE_TABLE2 ? 0 : CANARY_WORD;
    table()[0] = topa_entry(page_phys(PAGE_REGION), 0, 0);
    table()[1] = page_phys(PAGE_TABLE) | TOPA_END;
}

static bool canaries_alive(void)
{
    static const unsigned canary_pages[] = {0, 2, 4, 6};

    for (unsigned k = 0; k < sizeof(canary_pages) / sizeof(canary_pages[0]); k++)
        for (unsigned i = 0; i < WORDS_PER_PAGE; i++)
            if (page_words(canary_pages[k])[i] != CANARY_WORD)
                return false;
    return true;
}

/* ---- The machine still works -------------------------------------------------------------- */

static volatile unsigned timer_interrupts;

static bool on_timer(struct frame *frame)
{
    (void)frame;
    timer_interrupts++;
    apic_eoi();
    return true;
}

/* Long enough that a slow hypervisor delivers one before the next is due. */
#define TIMER_TICKS   1000000
#define TIMER_PATIENT 500000000

/* Interrupts come, and a well-formed trace works. */
static bool machine_works(void)
{
    struct trace_setup good = {.ctl = CTL_DEFAULT, .branches = FEW_BRANCHES};
    unsigned before = timer_interrupts;
    struct trace_result r;

    trap_set_handler(VECTOR_TIMER, on_timer);
    apic_timer_start(TIMER_TICKS);
    interrupts_on();
    for (unsigned i = 0; i < TIMER_PATIENT && timer_interrupts == before; i++)
        barrier();
    interrupts_off();
    apic_timer_stop();
    trace_default_output(&good);
    r = trace_run(&good);
    return timer_interrupts > before && r.vector == 0 &&
           (r.live & (STATUS_TRIGGEREN | STATUS_ERROR)) == STATUS_TRIGGEREN && r.end.offset > 16;
}

static const char *scheme; /* "ToPA" or "single range", for the lines of the report */

enum verdict { WANT_ERROR, WANT_NO_ERROR, WANT_EITHER };

static void judge(const struct trace_result *r, enum verdict verdict, const char *what)
{
    uint64_t error = r->live & STATUS_ERROR;

    if (r->vector) {
        report_vector(r->vector, 0, "hostile: %s: %s: TraceEn can be set", scheme, what);
    } else if (verdict == WANT_EITHER) {
        report(!(error && (r->live & STATUS_TRIGGEREN)),
               "hostile: %s: %s: Error or not, but no tracing after Error (33.3.10)", scheme, what);
    } else {
        report_value(error, verdict == WANT_ERROR ? STATUS_ERROR : 0, "hostile: %s: %s: %s", scheme,
                     what, verdict == WANT_ERROR ? "Error (33.3.10)" : "no Error (33.2.7.4)");
    }
    report(canaries_alive(), "hostile: %s: %s: memory beside tables and buffers is untouched",
           scheme, what);
    report(machine_works(), "hostile: %s: %s: the machine works afterwards", scheme, what);
}

static struct trace_result run(uint64_t ctl, uint64_t base, uint64_t mask_ptrs, uint64_t branches,
                               enum verdict verdict)
{
    struct trace_setup setup = {.ctl = CTL_DEFAULT | ctl,
                                .base = base,
                                .mask_ptrs = mask_ptrs,
                                .branches = branches,
                                .wait_for = verdict == WANT_ERROR ? STATUS_ERROR : 0};

    return trace_run(&setup);
}

static void run_table(uint64_t mask_ptrs, uint64_t branches, enum verdict verdict, const char *what)
{
    struct trace_result r = run(CTL_TOPA, page_phys(PAGE_TABLE), mask_ptrs, branches, verdict);

    judge(&r, verdict, what);
}

/* ---- Places ------------------------------------------------------------------------------- */

static uint64_t last_address(void)
{
    return (1ull << pt_caps()->phys_bits) - PAGE_BYTES;
}

static uint64_t last_page_of_memory(void)
{
    return (memory_end() & ~(PAGE_BYTES - 1)) - PAGE_BYTES;
}

struct place {
    uint64_t phys;
    const char *name;
};

#define MAX_PLACES 4

/*
 * Places for output where bytes are dropped, or go to a device that does not mind. What is right
 * behind memory we only know of a vpt host: elsewhere it may belong to the firmware.
 */
static unsigned find_places(struct place places[MAX_PLACES])
{
    unsigned count = 0;

    places[count++] = (struct place){last_address(), "output to the end of the address space"};
    places[count++] = (struct place){APIC_PHYS, "output to the APIC page"};
    places[count++] = (struct place){last_page_of_memory(), "output to the last page of memory"};
    if (note_port_present())
        places[count++] = (struct place){memory_end(), "output right behind memory"};
    else
        report_skip("not a vpt host", "hostile: %s: output right behind memory", scheme);
    return count;
}

/* ---- Tables ------------------------------------------------------------------------------- */

static void test_regions_in_places(void)
{
    struct place places[MAX_PLACES];
    unsigned count = find_places(places);

    for (unsigned i = 0; i < count; i++) {
        reset_block();
        table()[0] = topa_entry(places[i].phys, 0, 0);
        run_table(topa_pointers(0, 0), BRANCHES_8K, WANT_NO_ERROR, places[i].name);
    }
    if (!note_port_present())
        return;
    reset_block();
    table()[0] = topa_entry(0x80000000ull, 15, 0);
    run_table(topa_pointers(0, (128u << 20) - 64), FEW_BRANCHES, WANT_EITHER,
              "the end of a region of 128 MiB outside of memory");
}

static void test_tables_in_places(void)
{
    struct trace_result r;

    reset_block();
    r = run(CTL_TOPA, last_address(), topa_pointers(0, 0), FEW_BRANCHES, WANT_ERROR);
    judge(&r, WANT_ERROR, "table on the last page of the address space");
    if (note_port_present()) {
        reset_block();
        r = run(CTL_TOPA, memory_end(), topa_pointers(0, 0), FEW_BRANCHES, WANT_ERROR);
        judge(&r, WANT_ERROR, "table right behind memory");
    }
    reset_block();
    r = run(CTL_TOPA, APIC_PHYS, topa_pointers(0, 0), FEW_BRANCHES, WANT_EITHER);
    judge(&r, WANT_EITHER, "table on the APIC page");
    reset_block();
    table()[1] = last_address() | TOPA_END;
    run_table(topa_pointers(0, 0), BRANCHES_4K, WANT_ERROR,
              "END to the last page of the address space");
    reset_block();
    table()[1] = APIC_PHYS | TOPA_END;
    run_table(topa_pointers(0, 0), BRANCHES_4K, pt_caps()->multi_entry ? WANT_EITHER : WANT_ERROR,
              "END to the APIC page");
    /* The biggest table offset there is: an entry 256 MiB behind the base. */
    if (note_port_present()) {
        reset_block();
        run_table(topa_pointers(0x1ffffff, 0), FEW_BRANCHES, WANT_EITHER,
                  "entry 1FFFFFFH of a table");
    }
}

static void test_loops(void)
{
    uint64_t *second = page_words(PAGE_TABLE2);

    reset_block();
    table()[0] = page_phys(PAGE_TABLE) | TOPA_END;
    run_table(topa_pointers(0, 0), FEW_BRANCHES, WANT_ERROR, "a table that is only END to itself");
    reset_block();
    table()[0] = page_phys(PAGE_TABLE2) | TOPA_END;
    second[0] = page_phys(PAGE_TABLE) | TOPA_END;
    run_table(topa_pointers(0, 0), FEW_BRANCHES, WANT_ERROR, "two tables that are only END");
    reset_block();
    table()[1] = page_phys(PAGE_TABLE2) | TOPA_END;
    second[0] = page_phys(PAGE_TABLE2) | TOPA_END;
    run_table(topa_pointers(0, 0), BRANCHES_4K, WANT_ERROR, "END to a table that is only END");
    if (!pt_caps()->multi_entry) {
        report_skip("single entry", "hostile: output begins at an END entry");
        return;
    }
    reset_block();
    run_table(topa_pointers(1, 0), FEW_BRANCHES, WANT_EITHER, "output begins at an END entry");
    reset_block();
    table()[1] = page_phys(PAGE_TABLE) | TOPA_END;
    run_table(topa_pointers(1, 0x1000), FEW_BRANCHES, WANT_EITHER,
              "output begins at an END entry, with an offset");
}

/* The trace writes over its own table: whatever it then means, nothing else may suffer. */
static void test_own_table(void)
{
    reset_block();
    table()[0] = topa_entry(page_phys(PAGE_TABLE), 0, 0);
    run_table(topa_pointers(0, 0), FEW_BRANCHES, WANT_EITHER, "output onto its own table");
    reset_block();
    table()[0] = topa_entry(page_phys(PAGE_TABLE), 0, 0);
    run_table(topa_pointers(0, 16), BRANCHES_8K, WANT_EITHER,
              "output onto its own table, round and round");
    if (!pt_caps()->multi_entry)
        return;
    /* The first region is behind the entries that are still to come. */
    reset_block();
    for (unsigned i = 0; i + 1 < WORDS_PER_PAGE; i++)
        table()[i] = topa_entry(page_phys(PAGE_TABLE), 0, 0);
    run_table(topa_pointers(0, 8), BRANCHES_8K, WANT_EITHER, "every entry is its own table");
}

static void test_offsets(void)
{
    static const uint32_t offsets[] = {0x1000, 0x1001, 0x7fffffff, 0x80000000, 0xffffffff};

    for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        reset_block();
        run_table(topa_pointers(0, offsets[i]), FEW_BRANCHES, WANT_ERROR,
                  "offset beyond the region");
    }
}

/* A table without END, whose entries run out of the page: what stands behind is read as entries. */
static void test_no_end(void)
{
    if (!pt_caps()->multi_entry) {
        report_skip("single entry", "hostile: a table without END");
        return;
    }
    reset_block();
    for (unsigned i = 0; i < WORDS_PER_PAGE; i++)
        table()[i] = topa_entry(page_phys(PAGE_REGION), 0, 0);
    run_table(topa_pointers(WORDS_PER_PAGE - 1, 0), BRANCHES_4K, WANT_ERROR,
              "a table without END runs into a page of something else");
}

static void test_topa(void)
{
    scheme = "ToPA";
    if (!pt_caps()->topa) {
        report_skip("no ToPA", "hostile: tables (33.2.7.2)");
        return;
    }
    test_regions_in_places();
    test_tables_in_places();
    test_loops();
    test_own_table();
    test_offsets();
    test_no_end();
}

/* ---- Single ranges ------------------------------------------------------------------------ */

static void test_single_range(void)
{
    struct place places[MAX_PLACES];
    unsigned count;
    struct trace_result r;

    scheme = "single range";
    if (!pt_caps()->single_range) {
        report_skip("no single range", "hostile: single ranges (33.2.7.1)");
        return;
    }
    count = find_places(places);
    for (unsigned i = 0; i < count; i++) {
        reset_block();
        r = run(0, places[i].phys, PAGE_BYTES - 1, BRANCHES_8K, WANT_NO_ERROR);
        judge(&r, WANT_NO_ERROR, places[i].name);
    }
    if (!note_port_present())
        return;
    reset_block();
    r = run(0, memory_end() & ~0xffffull, 0xffff | (0xfff0ull << 32), FEW_BRANCHES, WANT_EITHER);
    judge(&r, WANT_EITHER, "single range across the end of memory");
}

/* ---- Random ones -------------------------------------------------------------------------- */

#define RANDOM_MSR_WRITES 300
#define RANDOM_TABLES     40

static uint64_t random_state = 0x9e3779b97f4a7c15ull;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Few bits set: many such values are legal. */
static uint64_t sparse_number(void)
{
    uint64_t number = UINT64_MAX;

    for (unsigned i = 0; i < 3; i++)
        number &= random_number();
    return number;
}

/* Any value into any trace MSR, but never TraceEn: #GP or not, and nothing else. */
static void test_random_msrs(void)
{
    static const uint32_t msrs[] = {
        MSR_RTIT_OUTPUT_BASE, MSR_RTIT_OUTPUT_MASK_PTRS, MSR_RTIT_CTL,
        MSR_RTIT_STATUS,      MSR_RTIT_CR3_MATCH,        MSR_RTIT_ADDR0_A,
        MSR_RTIT_ADDR0_A + 1, MSR_RTIT_ADDR0_A + 7,      0x59f,
    };
    unsigned strange = 0;

    reset_block();
    for (unsigned i = 0; i < RANDOM_MSR_WRITES; i++) {
        uint32_t msr = msrs[random_number() % (sizeof(msrs) / sizeof(msrs[0]))];
        uint64_t value = sparse_number();
        unsigned vector = wrmsr_safe(msr, msr == MSR_RTIT_CTL ? value & ~CTL_TRACEEN : value);

        strange += vector != 0 && vector != GP_VECTOR;
    }
    trace_off();
    report_value(strange, 0, "hostile: %u random MSR writes: #GP or nothing", RANDOM_MSR_WRITES);
    report(canaries_alive(), "hostile: random MSR writes: memory is untouched");
    for (uint32_t i = 0; i < 2 * pt_caps()->ranges; i++)
        wrmsr(MSR_RTIT_ADDR0_A + i, 0);
    report(machine_works(), "hostile: random MSR writes: the machine works afterwards");
}

/* Random bits in entries whose addresses stay in the block's own pages, or go beyond memory. */
static uint64_t random_entry(void)
{
    uint64_t flags = sparse_number() & 0xfff & ~(15ull << TOPA_SIZE_SHIFT);

    switch (random_number() % 4) {
    case 0:
        return page_phys(PAGE_REGION) | flags;
    case 1:
        return page_phys(random_number() % 2 ? PAGE_TABLE : PAGE_TABLE2) | TOPA_END | flags;
    case 2:
        return last_address() | flags;
    default:
        return page_phys(PAGE_REGION);
    }
}

static void test_random_tables(void)
{
    unsigned wrong = 0;

    if (!pt_caps()->topa)
        return;
    for (unsigned k = 0; k < RANDOM_TABLES; k++) {
        struct trace_result r;

        reset_block();
        for (unsigned i = 0; i < WORDS_PER_PAGE; i++) {
            table()[i] = random_entry();
            page_words(PAGE_TABLE2)[i] = random_entry();
        }
        r = run(CTL_TOPA, page_phys(PAGE_TABLE), topa_pointers(random_number() % 4, 0), BRANCHES_4K,
                WANT_EITHER);
        wrong += !canaries_alive() || ((r.live & STATUS_ERROR) && (r.live & STATUS_TRIGGEREN));
    }
    report_value(wrong, 0, "hostile: %u random tables: canaries live, no tracing after Error",
                 RANDOM_TABLES);
    report(machine_works(), "hostile: random tables: the machine works afterwards");
}

int guest_main(void)
{
    if (!pt_caps()->present || !pt_memory_output(pt_caps())) {
        report_skip("no Intel PT", "hostile: everything");
        return report_summary();
    }
    trace_set_pmi(PMI_MASKED);
    trace_off();
    block_phys = phys_alloc(BLOCK_PAGES * PAGE_BYTES, PAGE_BYTES);
    reset_block();
    report(machine_works(), "hostile: the machine works before anything");
    test_topa();
    test_single_range();
    test_random_msrs();
    test_random_tables();
    trace_off();
    return report_summary();
}
