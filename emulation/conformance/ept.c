/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output by way of EPT (33.5): with "Intel PT uses guest physical addresses" the addresses of
 * OUTPUT_BASE, of tables and of regions are translated, and a fault there is an EPT violation
 * between two instructions.
 */
#include "conformance.h"

#include <string.h>

#define PAGE   0x1000ull
#define TABLES 0x1000ull /* three tables, a page each */
#define SINGLE 0x330000ull
#define TOPA   (TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN)

/* A page that output needs, as what, and behind how many pages of output. */
struct need {
    uint64_t gpa;
    enum vpt_access access;
    unsigned pages;
};
/* The third table from its second entry on, then the second table, then the first one. */
static const struct need of_tables[] = {
    {TABLES + 2 * PAGE, VPT_READ_TABLE, 0}, {0x340000, VPT_WRITE_OUTPUT, 0},
    {TABLES + PAGE, VPT_READ_TABLE, 1},     {0x310000, VPT_WRITE_OUTPUT, 1},
    {0x320000, VPT_WRITE_OUTPUT, 2},        {TABLES, VPT_READ_TABLE, 3},
    {0x300000, VPT_WRITE_OUTPUT, 3},        {0x301000, VPT_WRITE_OUTPUT, 4}};
static const struct need of_range[] = {{SINGLE, VPT_WRITE_OUTPUT, 0},
                                       {SINGLE + PAGE, VPT_WRITE_OUTPUT, 1},
                                       {SINGLE + 2 * PAGE, VPT_WRITE_OUTPUT, 2}};
static const struct scheme {
    const char *name;
    uint64_t ctl, base, mask_ptrs;
    const struct need *needs;
    size_t count;
} schemes[] = {
    {"tables", TOPA, TABLES + 2 * PAGE, 1u << 7 | 0x7f, of_tables, 8},
    {"a range", TRACED | VPT_CTL_TRACEEN, SINGLE, 0x3fff, of_range, 3},
};

/* The VMM of a guest that traces itself, with a trace of that scheme still to begin. */
static struct fake *vmm(const struct scheme *scheme)
{
    struct fake *fake = vmx_open("gracemont");

    fake_tables(fake, TABLES);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, scheme->base);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, scheme->mask_ptrs);
    return fake;
}
static void enter(struct fake *fake, const struct scheme *scheme)
{
    const struct vpt_vm_entry entry = vmx_entry_by_ept(scheme->ctl);

    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "the VM entry");
}
static void leave(struct fake *fake)
{
    struct vpt_vm_exit exit = vmx_exit();

    exit.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "the VM exit");
}
static void branch(struct fake *fake, unsigned n)
{
    vpt_jmp_indirect(&fake->cpu, VMX_GUEST + 0x7000001ull * n);
}

/* The page is in EPT from now on. */
static void present(struct fake *fake, uint64_t gpa)
{
    for (size_t i = 0; i < fake->maps; i++)
        if (fake->map[i].gpa == gpa)
            fake->map[i] = fake->map[--fake->maps];
}

/*
 * Each page is there only when its violation was seen, at once or when output stands at it. Every
 * violation comes in turn; the trace is the one of a guest whose pages are all there.
 */
static void walk(const struct scheme *scheme, bool late)
{
    struct fake *fake = vmm(scheme), *plain = vmm(scheme);
    size_t seen = 0;

    for (size_t i = 0; i < scheme->count; i++)
        fake_map(fake, scheme->needs[i].gpa, PAGE, VPT_SPAN_FAULT, NULL, false);
    CHECK(!vpt_output_blocked(&fake->cpu), "no violation without a trace");
    enter(fake, scheme);
    enter(plain, scheme);
    for (unsigned n = 0; n < 4000; n++) {
        while (vpt_output_blocked(&fake->cpu) && seen < scheme->count) {
            const struct need *need = &scheme->needs[seen];
            const uint64_t at = need->pages * PAGE;
            uint64_t gpa = 0;

            CHECK(vpt_output_fault(&fake->cpu, &gpa) == need->access &&
                      gpa - gpa % PAGE == need->gpa,
                  "%s: violation %zu is at %llx", scheme->name, seen, (unsigned long long)gpa);
            CHECK(late || at == 0 || fake->tap_total < at, "%s: violation %zu ahead of need",
                  scheme->name, seen);
            if (late && fake->tap_total < at)
                break;
            present(fake, need->gpa);
            seen++;
            vpt_flush(&fake->cpu);
        }
        branch(fake, n);
        branch(plain, n);
        if (seen == scheme->count && fake->tap_total > (seen - 1) * PAGE)
            break;
    }
    leave(fake);
    leave(plain);
    CHECK(seen == scheme->count, "%s: %zu violations", scheme->name, seen);
    CHECK(fake->tap_len == plain->tap_len && memcmp(fake->tap, plain->tap, fake->tap_len) == 0,
          "%s: the same bytes", scheme->name);
    fake_close(fake);
    fake_close(plain);
}
static void found_ahead(void)
{
    for (size_t i = 0; i < 2; i++)
        walk(&schemes[i], false);
}
static void nothing_lost(void)
{
    for (size_t i = 0; i < 2; i++)
        walk(&schemes[i], true);
}

/* The VMM leaves the guest for the violation of its first page, and uses the trace for itself. */
static void begins_again(void)
{
    static const struct {
        uint64_t status, ctl;
        const char *begun;
    } cases[] = {
        {0, 0, "PSB+ MODE(64) PGE(600000)"},
        {1ull << VPT_STATUS_BYTECNT_SHR, 0, "CBR(28) MODE(64) PGE(600000)"},
        {1ull << VPT_STATUS_BYTECNT_SHR | VPT_STATUS_PENDPSB, VPT_CTL_INJECT_PSB_PMI,
         "PSB+ MODE(64) PGE(600000)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct scheme scheme = schemes[1];
        struct fake *fake = vmm(&scheme);

        scheme.ctl |= cases[i].ctl;
        fake_write(fake, VPT_MSR_STATUS, cases[i].status);
        fake_map(fake, SINGLE, PAGE, VPT_SPAN_FAULT, NULL, false);
        enter(fake, &scheme);
        CHECK(vpt_output_by_ept(&fake->cpu) && vpt_output_blocked(&fake->cpu), "the violation");
        leave(fake);
        CHECK(!vpt_output_blocked(&fake->cpu) && !vpt_output_by_ept(&fake->cpu),
              "output is the VMM's, and nothing waits");
        CHECK((fake_read(fake, VPT_MSR_STATUS) & ~7ull) == cases[i].status,
              "RTIT_STATUS is what it was");
        fake_unmap(fake);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x380000);
        vpt_flush(&fake->cpu);
        CHECK(fake->tap_total == 0 && fake->cpu.dropped_bytes == 0, "nothing was sent or lost");
        fake_write(fake, VPT_MSR_OUTPUT_BASE, scheme.base);
        enter(fake, &scheme);
        END(fake, cases[i].begun);
    }
}

static const struct rule addresses[] = {
    {"violations", "of tables and regions, each found before output comes to it",
     TEST(found_ahead)},
    {"the trace", "is complete, at whatever time the pages come", TEST(nothing_lost)},
    {"the first page", "a trace that it keeps from beginning begins with the next VM entry",
     TEST(begins_again)},
    {0},
};

const struct table ept_tables[] = {
    {"33.5 addresses", "Output by way of EPT", 0, addresses},
    {0},
};
