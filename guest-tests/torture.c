/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random trace configurations without end: what the MSRs hold, where tables and output lie and when
 * TraceEn changes is drawn from a seed. The host that runs it must live; the guest need not.
 *
 * Command line: seed=NUMBER rounds=NUMBER, and "merciless": then output and tables may lie over the
 * guest's own code, stack and page tables, too. Without it, the guest reports whether everything
 * beside its arena is as it was, and whether a well-formed trace still works (33.2.7.2, 33.3.10).
 *
 * Sections: numbers, places, tables, MSRs, things to trace, rounds.
 */
#include "apic.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "pt.h"
#include "string.h"
#include "tracing.h"
#include "trap.h"

/* ---- Numbers ------------------------------------------------------------------------------ */

static uint64_t state;

static uint64_t number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
}

static uint64_t below(uint64_t bound)
{
    return (number() >> 8) % bound;
}

/* Few bits set: many such values are legal. */
static uint64_t sparse(void)
{
    uint64_t bits = UINT64_MAX;

    for (unsigned i = 0; i < 3; i++)
        bits &= number();
    return bits;
}

/* ---- Places ------------------------------------------------------------------------------- */

enum { ARENA_PAGES = 16, GUARD_PAGES = 1 };

#define ARENA_BYTES    (ARENA_PAGES * PAGE_BYTES)
#define GUARD_WORD     0x5aa5c33c0ff00ff1ull
#define WORDS_PER_PAGE (PAGE_BYTES / 8)

static bool merciless;
static uint64_t arena; /* a page of guard, ARENA_PAGES, a page of guard */
static const uint64_t devices[] = {
    APIC_PHYS,  0xfec00000, /* I/O APIC */
    0xfed00000,             /* HPET */
    0xfffc0000,             /* flash */
    0xf0000,                /* shadowed firmware */
    0xa0000,                /* display */
    0xe0000000, 0x100000000,
};

static uint64_t arena_page(void)
{
    return arena + below(ARENA_PAGES) * PAGE_BYTES;
}

/* Where the guest hurts itself: its stack, its image, its page tables. */
static uint64_t own_page(void)
{
    static char image_byte;
    char stack_byte = 0;

    switch (below(4)) {
    case 0:
        return virt_to_phys(&stack_byte) & ~(PAGE_BYTES - 1);
    case 1:
        return virt_to_phys(&image_byte) & ~(PAGE_BYTES - 1);
    case 2:
        return 0x100000 + below(64) * PAGE_BYTES;
    default:
        return read_cr3() + below(4) * PAGE_BYTES;
    }
}

static uint64_t place(void)
{
    switch (below(merciless ? 7 : 6)) {
    case 0:
        return devices[below(sizeof(devices) / sizeof(devices[0]))] + below(4) * PAGE_BYTES;
    case 1:
        return (1ull << pt_caps()->phys_bits) - PAGE_BYTES * (1 + below(2));
    case 2: /* outside of memory */
        return 1ull << (33 + below(pt_caps()->phys_bits - 33));
    case 6:
        return own_page();
    default:
        return arena_page();
    }
}

static void fill_guards(void)
{
    for (unsigned i = 0; i < WORDS_PER_PAGE; i++) {
        ((uint64_t *)phys_to_virt(arena - PAGE_BYTES))[i] = GUARD_WORD;
        ((uint64_t *)phys_to_virt(arena + ARENA_BYTES))[i] = GUARD_WORD;
    }
}

static bool guards_hold(void)
{
    const uint64_t *before = phys_to_virt(arena - PAGE_BYTES);
    const uint64_t *behind = phys_to_virt(arena + ARENA_BYTES);

    for (unsigned i = 0; i < WORDS_PER_PAGE; i++)
        if (before[i] != GUARD_WORD || behind[i] != GUARD_WORD)
            return false;
    return true;
}

/* ---- Tables ------------------------------------------------------------------------------- */

/*
 * A region that begins in the arena is one page, wherever it begins: bigger ones would reach
 * beyond. Elsewhere it is as big as it likes, and aligned to that.
 */
static uint64_t random_entry(void)
{
    const uint64_t flags = sparse() & (TOPA_INT | TOPA_STOP);
    const uint64_t at = place();
    unsigned size = merciless ? (unsigned)below(16) : 0;

    if (below(8) == 0)
        return arena_page() | TOPA_END;
    if (at < arena || at >= arena + ARENA_BYTES)
        return topa_entry(at & ~((PAGE_BYTES << size) - 1), size, flags);
    return topa_entry(at, 0, below(16) ? flags : flags | sparse() % 64);
}

static uint64_t last_table;

static void fill_table(void)
{
    const uint64_t at = arena_page();
    uint64_t *table = phys_to_virt(at);
    const unsigned count = 1 + (unsigned)below(WORDS_PER_PAGE);

    for (unsigned i = 0; i < count; i++)
        table[i] = random_entry();
    for (unsigned i = count; i < WORDS_PER_PAGE; i++)
        table[i] = arena_page() | TOPA_END;
    last_table = at;
}

/* ---- MSRs --------------------------------------------------------------------------------- */

/* CTL bits that this processor takes: all, less what raises #GP. */
static uint64_t control(void)
{
    uint64_t ctl =
        number() & (CTL_CYCEN | CTL_OS | CTL_USER | CTL_PWREVTEN | CTL_FUPONPTW | CTL_CR3FILTER |
                    CTL_MTCEN | CTL_TSCEN | CTL_DISRETC | CTL_PTWEN | CTL_EVENTEN | CTL_DISTNT);

    if (below(8))
        ctl |= CTL_OS | CTL_BRANCHEN;
    if (below(4))
        ctl &= ~(CTL_CR3FILTER | CTL_DISTNT);
    if (below(4) == 0)
        ctl |= (below(3)) << (CTL_ADDR_CFG_SHIFT + 4 * below(4));
    return ctl | below(6) << CTL_PSBFREQ_SHIFT | (below(4) ? 3ull << CTL_MTCFREQ_SHIFT : 0);
}

static unsigned enables, errors;

/* Mostly, what a driver would do, so that something is traced. */
static void toggle(void)
{
    /* A single range, whose size the mask says, could reach out of the arena. */
    const uint64_t scheme = merciless && below(8) == 0 ? 0 : CTL_TOPA;

    if (below(8)) {
        wrmsr_safe(MSR_RTIT_CTL, 0);
        wrmsr_safe(MSR_RTIT_STATUS, 0);
        fill_table();
        wrmsr_safe(MSR_RTIT_OUTPUT_BASE, last_table);
        wrmsr_safe(MSR_RTIT_OUTPUT_MASK_PTRS, topa_pointers((unsigned)below(4), 0));
    }
    for (unsigned tries = 0; tries < 16; tries++) {
        if (wrmsr_safe(MSR_RTIT_CTL, control() | scheme | CTL_TRACEEN) == 0) {
            enables++;
            return;
        }
    }
}

/* Merciful, a table lies in the arena or where no memory is: devices' bytes are no entries. */
static uint64_t table_base(void)
{
    const uint64_t at = place();

    return below(8) ? arena_page() : merciless ? at : at >= 0x200000000ull ? at : arena_page();
}

static void random_msr(void)
{
    switch (below(8)) {
    case 0:
        wrmsr_safe(MSR_RTIT_OUTPUT_BASE, below(8) ? table_base() : sparse() & (ARENA_BYTES - 1));
        break;
    case 1:
        wrmsr_safe(MSR_RTIT_OUTPUT_MASK_PTRS, topa_pointers((unsigned)below(WORDS_PER_PAGE),
                                                            below(2) ? 0 : (uint32_t)below(8192)));
        break;
    case 2:
        wrmsr_safe(MSR_RTIT_STATUS, sparse());
        break;
    case 3:
        wrmsr_safe(MSR_RTIT_CR3_MATCH, below(2) ? read_cr3() : sparse());
        break;
    case 4:
        wrmsr_safe(MSR_RTIT_ADDR0_A + (uint32_t)below(8),
                   below(2) ? sparse() : (uint64_t)random_msr + (below(3) - 1) * 256);
        break;
    case 5:
        wrmsr_safe(MSR_PERF_GLOBAL_RESET, PERF_TOPA_PMI);
        apic_set_pmi(below(2) ? PMI_MASKED : below(2) ? PMI_VECTOR : PMI_NMI);
        break;
    case 6:
        wrmsr_safe(0x560 + (uint32_t)below(0x40), sparse() & ~CTL_TRACEEN);
        break;
    default:
        wrmsr_safe(MSR_RTIT_CTL, control() | CTL_TOPA);
    }
}

static void look(void)
{
    uint64_t value;

    for (uint32_t msr = 0x560; msr < 0x590; msr++)
        if (rdmsr_safe(msr, &value) == 0 && msr == MSR_RTIT_STATUS)
            errors += (value & STATUS_ERROR) != 0;
}

/* ---- Things to trace ---------------------------------------------------------------------- */

static volatile unsigned ticks;

static bool on_timer(struct frame *frame)
{
    (void)frame;
    ticks++;
    apic_eoi();
    return true;
}

static bool on_breakpoint(struct frame *frame)
{
    (void)frame;
    return true;
}

static unsigned deep(unsigned n)
{
    return n ? deep(n - 1) + (unsigned)below(2) : 0;
}

static void sleep_until_tick(void)
{
    apic_timer_once(20000);
    __asm__ volatile("sti; hlt; cli" : : : "memory");
}

static void work(void)
{
    switch (below(8)) {
    case 0:
        pt_spray(1 + below(600));
        break;
    case 1:
        deep(1 + (unsigned)below(80));
        break;
    case 2:
        write_cr3(read_cr3());
        break;
    case 3:
        __asm__ volatile("int3" : : : "memory");
        break;
    case 4:
        interrupts_on();
        deep(4);
        interrupts_off();
        break;
    case 5:
        if (below(16) == 0)
            sleep_until_tick();
        break;
    default:
        for (uint64_t i = below(200); i; i--)
            if (number() & 1)
                barrier();
    }
}

/* ---- Rounds ------------------------------------------------------------------------------- */

static void play(uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        switch (below(8)) {
        case 0:
            fill_table();
            break;
        case 1:
        case 2:
            random_msr();
            break;
        case 3:
            wrmsr_safe(MSR_RTIT_CTL, 0);
            look();
            break;
        case 4:
            toggle();
            break;
        default:
            work();
        }
        if (i % 10000 == 0)
            printf("round %lu\n", i);
    }
}

static bool trace_works(void)
{
    struct trace_setup good = {.ctl = CTL_DEFAULT, .branches = 8};
    struct trace_result r;

    trace_set_pmi(PMI_MASKED);
    for (uint32_t i = 0; i < 2 * pt_caps()->ranges; i++)
        wrmsr(MSR_RTIT_ADDR0_A + i, 0);
    trace_default_output(&good);
    r = trace_run(&good);
    return r.vector == 0 && (r.live & (STATUS_TRIGGEREN | STATUS_ERROR)) == STATUS_TRIGGEREN &&
           r.end.offset > 16;
}

int guest_main(void)
{
    uint64_t seed = 1, rounds = 20000;

    boot_number("seed", &seed);
    boot_number("rounds", &rounds);
    merciless = boot_word("merciless");
    if (!pt_caps()->present || !pt_caps()->topa) {
        report_skip("no Intel PT with ToPA", "torture");
        return report_summary();
    }
    state = 0x9e3779b97f4a7c15ull * (seed + 1);
    arena = phys_alloc((ARENA_PAGES + 2 * GUARD_PAGES) * PAGE_BYTES, PAGE_BYTES) + PAGE_BYTES;
    fill_guards();
    trap_set_handler(VECTOR_TIMER, on_timer);
    trap_set_handler(VECTOR_BREAKPOINT, on_breakpoint);
    trace_set_pmi(PMI_MASKED);
    play(rounds);
    trace_off();
    printf("torture: %lu rounds, %u times on, %u errors, %u PMIs, %u ticks\n", rounds, enables,
           errors, trace_pmi_count(), ticks);
    report(guards_hold(), "torture: memory beside the arena is untouched");
    report(trace_works(), "torture: a well-formed trace works afterwards");
    report(enables > rounds / 100 && errors && trace_pmi_count(), "torture: it was one");
    return report_summary();
}
