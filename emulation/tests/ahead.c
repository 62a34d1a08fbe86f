/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output by way of EPT: addresses are translated ahead of need, so that an EPT violation is a VM
 * exit between two instructions, and no packet is lost whatever a VMM does behind the exit
 * (33.2.8.3, 33.3.3).
 */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define TRACING  (BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN)
#define PAGE     0x1000ull

static void leave(struct fake *fake)
{
    struct vpt_vm_exit exit = vmx_exit();

    exit.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "VM exit");
}

/* A VMM that uses the output MSRs for itself behind the exit: nothing waits, nothing is lost. */
static void expect_nothing_left(struct fake *fake, const char *what)
{
    const uint64_t base = fake_read(fake, VPT_MSR_OUTPUT_BASE);
    const uint64_t mask_ptrs = fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS);
    const uint64_t stored = fake->tap_total;

    CHECK(!vpt_output_blocked(&fake->cpu) && fake->cpu.buf_len == 0, "%s: %u bytes wait", what,
          fake->cpu.buf_len);
    CHECK(!vpt_output_by_ept(&fake->cpu), "%s: output of the host", what);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x3000);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == stored && fake->cpu.dropped_bytes == 0, "%s: %llu bytes lost", what,
          (unsigned long long)fake->cpu.dropped_bytes);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, base);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, mask_ptrs);
}

/* A trace whose first page, or table, is not there begins at the next VM entry. */
static void test_first_page(void)
{
    static const struct {
        uint64_t gpa;
        enum vpt_access access;
        uint64_t status;
        const char *words;
    } cases[] = {
        {REGION_GPA, VPT_WRITE_OUTPUT, 0, "PSB+ MODE(64) PGE(600000)"},
        {TABLE_GPA, VPT_READ_TABLE, 0, "PSB+ MODE(64) PGE(600000)"},
        {REGION_GPA, VPT_WRITE_OUTPUT, 100ull << VPT_STATUS_BYTECNT_SHR,
         "CBR(28) MODE(64) PGE(600000)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vpt_vm_entry entry = vmx_entry_by_ept(TRACING);
        struct fake *fake = vmx_open("gracemont");
        uint64_t gpa = 0;

        fake_write(fake, VPT_MSR_STATUS, cases[i].status);
        fake_map(fake, cases[i].gpa, PAGE, VPT_SPAN_FAULT, NULL, false);
        CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
        CHECK(vpt_output_blocked(&fake->cpu) && vpt_output_by_ept(&fake->cpu), "case %zu", i);
        CHECK(vpt_output_fault(&fake->cpu, &gpa) == cases[i].access && gpa == cases[i].gpa,
              "case %zu: at %llx", i, (unsigned long long)gpa);
        leave(fake);
        CHECK((fake_read(fake, VPT_MSR_STATUS) & VPT_STATUS_BYTECNT_MASK) == cases[i].status,
              "case %zu: PacketByteCnt", i);
        expect_nothing_left(fake, "the first page");
        CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
        CHECK(!vpt_output_blocked(&fake->cpu), "case %zu: resolved", i);
        EXPECT(fake, cases[i].words, "33.2.8.3: it begins at the second entry");
        fake_close(fake);
    }
}

/* The first page is there, but only its end is left: nothing is stored that had to be taken back.
 */
static void test_end_of_first_page(void)
{
    static const uint32_t left[] = {1, 10, 200, 1000};

    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        struct vpt_vm_entry entry = vmx_entry_by_ept(TRACING);
        struct fake *fake = vmx_open("gracemont");
        uint64_t gpa = 0;

        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, (PAGE - left[i]) << 32 | 0x7f);
        fake_map(fake, REGION_GPA + PAGE, PAGE, VPT_SPAN_FAULT, NULL, false);
        vpt_vm_entry(&fake->cpu, &entry);
        vpt_flush(&fake->cpu);
        CHECK(vpt_output_blocked(&fake->cpu) && fake->tap_total == 0, "%u bytes: %llu stored",
              left[i], (unsigned long long)fake->tap_total);
        vpt_output_fault(&fake->cpu, &gpa);
        CHECK(gpa == REGION_GPA + PAGE, "%u bytes: at %llx", left[i], (unsigned long long)gpa);
        leave(fake);
        expect_nothing_left(fake, "the end of a page");
        vpt_vm_entry(&fake->cpu, &entry);
        EXPECT(fake, "PSB+ MODE(64) PGE(600000)", "33.2.8.3: it begins at the second entry");
        fake_close(fake);
    }
}

/*
 * An MSR-load area that ends at once what the entry began: VM entry as a whole is one operation,
 * and the violation a VM exit behind it.
 */
static const struct vpt_msr_load ends_trace[] = {
    {VPT_MSR_CTL, 0}, {0x10, 0}, /* none of the trace's */
};
static const struct vpt_msr_load moves_output[] = {
    {VPT_MSR_CTL, 0},
    {VPT_MSR_OUTPUT_BASE, 0x3000},
    {VPT_MSR_OUTPUT_MASK_PTRS, 0xfff},
};
static const struct vpt_msr_load begins_another[] = {
    {VPT_MSR_CTL, BRANCHES},
    {VPT_MSR_OUTPUT_BASE, 0x3000},
    {VPT_MSR_OUTPUT_MASK_PTRS, 0xfff},
    {VPT_MSR_CTL, BRANCHES | VPT_CTL_TRACEEN},
};

static struct fake *enter_with_area(uint64_t fault_gpa, const struct vpt_msr_load *loads,
                                    size_t load_count)
{
    struct vpt_vm_entry entry = vmx_entry_by_ept(TRACING);
    struct fake *fake = vmx_open("gracemont");

    entry.loads = loads;
    entry.load_count = load_count;
    fake_write(fake, VPT_MSR_STATUS, 100ull << VPT_STATUS_BYTECNT_SHR);
    fake_map(fake, fault_gpa, PAGE, VPT_SPAN_FAULT, NULL, false);
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    return fake;
}

static void expect_taken_back(struct fake *fake, const char *what)
{
    CHECK(fake_read(fake, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR == 100, "%s: PacketByteCnt",
          what);
    CHECK(fake->tap_total == 0, "%s: %llu bytes stored", what, (unsigned long long)fake->tap_total);
    expect_nothing_left(fake, what);
}

static void test_area_ends_trace(void)
{
    static const uint64_t faults[] = {REGION_GPA, TABLE_GPA};

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct fake *fake = enter_with_area(faults[i], ends_trace, 2);

        CHECK(vpt_output_blocked(&fake->cpu) && !vpt_trigger_en(&fake->cpu), "a violation");
        leave(fake);
        expect_taken_back(fake, "an area ends the trace");
        fake_close(fake);

        /* Resolved in place, what waits goes where RTIT_CTL said when it was sent. */
        fake = enter_with_area(faults[i], ends_trace, 2);
        fake_unmap(fake);
        vpt_flush(&fake->cpu);
        CHECK(!vpt_output_blocked(&fake->cpu) && fake->store_count > 0 &&
                  fake->stores[0].gpa == REGION_GPA,
              "resolved in place");
        EXPECT(fake, "CBR(28) MODE(64) PGE(600000) FUP(600000) PGD()", "Table 33-56 case 3");
        fake_close(fake);
    }
}

static void test_area_moves_output(void)
{
    struct fake *fake = enter_with_area(REGION_GPA, moves_output, 3);

    CHECK(!vpt_output_blocked(&fake->cpu), "no output is left that could meet a violation");
    leave(fake);
    expect_taken_back(fake, "an area moves the output");
    fake_close(fake);

    fake = enter_with_area(REGION_GPA, begins_another, 4);
    CHECK(!vpt_output_blocked(&fake->cpu) && vpt_packet_en(&fake->cpu), "another trace begins");
    vpt_jmp_indirect(&fake->cpu, VMX_GUEST + 0x10);
    leave(fake);
    CHECK(fake->store_count > 0 && fake->stores[0].gpa == 0x3000, "at its own place");
    CHECK(fake->cpu.dropped_bytes == 0, "%llu bytes lost",
          (unsigned long long)fake->cpu.dropped_bytes);
    EXPECT(fake, "CBR(28) MODE(64) PGE(600000) TIP(600010) FUP(600010) PGD()", "33.2.8.3");
    fake_close(fake);
}

/* A trace that stops where it begins has stopped, though its packets are taken back. */
static void test_area_behind_trace_stop(void)
{
    const uint64_t ctl = TRACING | (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR;

    for (unsigned missing = 0; missing < 2; missing++) {
        struct vpt_vm_entry entry = vmx_entry_by_ept(ctl);
        struct fake *fake = vmx_open("gracemont");

        entry.loads = begins_another;
        entry.load_count = 4;
        fake_write(fake, VPT_MSR_ADDR0_A, VMX_GUEST);
        fake_write(fake, VPT_MSR_ADDR0_A + 1, VMX_GUEST + 0xff);
        if (missing)
            fake_map(fake, REGION_GPA, PAGE, VPT_SPAN_FAULT, NULL, false);
        vpt_vm_entry(&fake->cpu, &entry);
        CHECK(fake_status(fake, VPT_STATUS_STOPPED) && !vpt_trigger_en(&fake->cpu) &&
                  !vpt_output_blocked(&fake->cpu),
              "33.2.5.3, missing %u", missing);
        leave(fake);
        fake_close(fake);
    }
}

/* Saved while bytes wait behind the end of their trace, they still go where they belong. */
static void test_area_migrated(void)
{
    struct fake *fake = enter_with_area(REGION_GPA, ends_trace, 2), *other = vmx_open("gracemont");
    uint8_t bytes[VPT_SAVE_MAX_BYTES];
    const size_t len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    const char *wrong;

    vpt_init(&other->cpu, &other->caps, fake->cpu.ops, other);
    wrong = vpt_restore(&other->cpu, bytes, len);
    CHECK(!wrong, "%s", wrong ? wrong : "");
    vpt_flush(&other->cpu);
    EXPECT(other, "CBR(28) MODE(64) PGE(600000) FUP(600000) PGD()", "migrated");
    leave(fake);
    fake_close(fake);
    fake_close(other);
}

/* Three ways to a second page: the page faults, or the end of the table that leads to it. */
struct way {
    const char *name;
    uint64_t ctl, base, mask_ptrs;
    uint64_t fault_gpa;
    enum vpt_access access;
};
static const struct way ways[] = {
    {"single range", BRANCHES | VPT_CTL_TRACEEN, REGION_GPA, 0x3fff, REGION_GPA + PAGE,
     VPT_WRITE_OUTPUT},
    {"within a region", TRACING, TABLE_GPA, 0x7f, 0x301000, VPT_WRITE_OUTPUT},
    {"the next region", TRACING, TABLE_GPA + PAGE, 0x7f, 0x320000, VPT_WRITE_OUTPUT},
    {"behind END", TRACING, TABLE_GPA + 2 * PAGE, 0x80 | 0x7f, 0x310000, VPT_WRITE_OUTPUT},
    {"the table", TRACING, TABLE_GPA + 2 * PAGE, 0x80 | 0x7f, TABLE_GPA + PAGE, VPT_READ_TABLE},
};

static struct fake *open_way(const struct way *way)
{
    struct fake *fake = vmx_open("gracemont");

    fake_tables(fake, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, way->base);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, way->mask_ptrs);
    return fake;
}

/* Indirect branches until one lets the owner see a fault; how many there were. */
static unsigned run(struct fake *fake, unsigned most)
{
    unsigned n = 0;

    while (n < most && !vpt_output_blocked(&fake->cpu))
        vpt_jmp_indirect(&fake->cpu, VMX_GUEST + 0x7000001ull * n++);
    return n;
}

/* A later page: the exit comes while all packets have a place, its own among them. */
static void test_next_page(void)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const struct way *way = &ways[i];
        struct vpt_vm_entry entry = vmx_entry_by_ept(way->ctl);
        struct fake *fake = open_way(way);
        uint64_t gpa = 0;
        unsigned n;
        const char *words;

        fake_map(fake, way->fault_gpa, PAGE, VPT_SPAN_FAULT, NULL, false);
        vpt_vm_entry(&fake->cpu, &entry);
        n = run(fake, 5000);
        CHECK(vpt_output_blocked(&fake->cpu), "%s: ahead of need", way->name);
        CHECK(vpt_output_fault(&fake->cpu, &gpa) == way->access && gpa == way->fault_gpa,
              "%s: at %llx", way->name, (unsigned long long)gpa);
        CHECK(fake->tap_total + fake->cpu.buf_len + VPT_BUFFER_BYTES <= PAGE,
              "%s: %llu bytes stored", way->name, (unsigned long long)fake->tap_total);
        leave(fake);
        expect_nothing_left(fake, way->name);
        vpt_vm_entry(&fake->cpu, &entry);
        run(fake, 1);
        leave(fake);
        words = strstr(fake_words(fake, false), "FUP(600010) PGD()");
        CHECK(words &&
                  words_match("FUP(600010) PGD() CBR(28) MODE(64) PGE(600000) PSB+? TIP(600000) "
                              "FUP(600010) PGD()",
                              words),
              "%s: behind %u branches: [%s]", way->name, n, words ? words : "none");
        CHECK(!strstr(fake_words(fake, false), "OVF"), "%s: no overflow", way->name);
        fake_close(fake);
    }
}

/* An owner that resolves each violation in place has the trace of one that never meets any. */
static void test_in_place(void)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct vpt_vm_entry entry = vmx_entry_by_ept(ways[i].ctl);
        struct fake *with = open_way(&ways[i]), *without = open_way(&ways[i]);
        unsigned faults = 0;

        fake_map(with, ways[i].fault_gpa, PAGE, VPT_SPAN_FAULT, NULL, false);
        vpt_vm_entry(&with->cpu, &entry);
        vpt_vm_entry(&without->cpu, &entry);
        for (unsigned n = 0; n < 800; n++) {
            vpt_jmp_indirect(&with->cpu, VMX_GUEST + 0x7000001ull * n);
            vpt_jmp_indirect(&without->cpu, VMX_GUEST + 0x7000001ull * n);
            if (vpt_output_blocked(&with->cpu)) {
                fake_unmap(with);
                vpt_flush(&with->cpu);
                faults++;
            }
        }
        leave(with);
        leave(without);
        CHECK(faults == 1 && !vpt_output_blocked(&with->cpu), "%s: %u faults", ways[i].name,
              faults);
        CHECK(with->tap_len > PAGE && with->tap_len == without->tap_len &&
                  memcmp(with->tap, without->tap, with->tap_len) == 0,
              "%s: the same bytes", ways[i].name);
        fake_close(with);
        fake_close(without);
    }
}

/* A table entry is read once, though ahead of need: what the guest writes then is too late. */
static void test_entry_read_once(void)
{
    struct fake *fake = open_way(&ways[2]);
    struct vpt_vm_entry entry = vmx_entry_by_ept(TRACING);

    vpt_vm_entry(&fake->cpu, &entry);
    for (unsigned n = 0; n < 1000 && fake->cpu.topa_ahead_count == 0; n++)
        run(fake, 1);
    CHECK(fake->tap_total < PAGE, "ahead of need");
    fake_poke(fake, TABLE_GPA + PAGE + 8, 0x350000);
    run(fake, 600);
    CHECK(fake->cpu.region_base == 0x320000, "the entry as it was: %llx",
          (unsigned long long)fake->cpu.region_base);
    leave(fake);
    fake_close(fake);
}

/* Nothing is looked for where output does not go: behind STOP, behind an entry that is bad. */
static void test_nothing_ahead(void)
{
    for (unsigned bad = 0; bad < 2; bad++) {
        struct fake *fake = open_way(&ways[2]);
        struct vpt_vm_entry entry = vmx_entry_by_ept(TRACING);

        fake_poke(fake, TABLE_GPA + PAGE, bad ? 0x310000 : 0x310000 | VPT_TOPA_STOP);
        fake_poke(fake, TABLE_GPA + PAGE + 8, bad ? 0x320000 | 2 : 0x320000);
        fake_map(fake, 0x320000, PAGE, VPT_SPAN_FAULT, NULL, false);
        vpt_vm_entry(&fake->cpu, &entry);
        CHECK(run(fake, 1500) == 1500, "%u: no violation", bad);
        CHECK(fake_status(fake, bad ? VPT_STATUS_ERROR : VPT_STATUS_STOPPED) &&
                  fake->tap_total == PAGE,
              "%u: where output comes to it", bad);
        leave(fake);
        fake_close(fake);
    }
}

/* An owner that resolves nothing hears of the same violation again, with nothing to send too. */
static void test_asked_again(void)
{
    const struct way *way = &ways[4];
    struct vpt_vm_entry entry = vmx_entry_by_ept(way->ctl);
    struct fake *fake = open_way(way);
    uint64_t gpa = 0;

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x200ull << 32 | way->mask_ptrs);
    fake_map(fake, way->fault_gpa, PAGE, VPT_SPAN_FAULT, NULL, false);
    vpt_vm_entry(&fake->cpu, &entry);
    for (unsigned n = 0; n < 0xe00 && fake->tap_total < 0xe00; n++) {
        vpt_cond_branch(&fake->cpu, VMX_GUEST, true);
        vpt_flush_branches(&fake->cpu);
    }
    CHECK(fake->tap_total == 0xe00 && fake->cpu.buf_len == 0, "the region is full");
    for (unsigned again = 0; again < 2; again++) {
        vpt_flush(&fake->cpu);
        CHECK(vpt_output_blocked(&fake->cpu), "the violation stays");
        CHECK(vpt_output_fault(&fake->cpu, &gpa) == way->access && gpa == way->fault_gpa, "at %llx",
              (unsigned long long)gpa);
    }
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    CHECK(!vpt_output_blocked(&fake->cpu), "resolved");
    leave(fake);
    fake_close(fake);
}

/* The end of a trace needs no next page. */
static void test_end(void)
{
    struct fake *fake = open_way(&ways[0]);
    struct vpt_vm_entry entry = vmx_entry_by_ept(ways[0].ctl);

    fake_map(fake, ways[0].fault_gpa, PAGE, VPT_SPAN_FAULT, NULL, false);
    vpt_vm_entry(&fake->cpu, &entry);
    run(fake, 5000);
    fake_write(fake, VPT_MSR_CTL, 0);
    CHECK(!vpt_output_blocked(&fake->cpu) && fake->cpu.buf_len == 0, "33.3.3: TraceEn := 0");
    fake_close(fake);
}

/* Migrated between the violation and its exit, a trace that could not begin is taken back too. */
static void test_migrated(void)
{
    struct fake *fake = vmx_open("gracemont"), *other = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry_by_ept(TRACING);
    uint8_t bytes[VPT_SAVE_MAX_BYTES];
    const char *wrong;
    size_t len;

    fake_map(fake, REGION_GPA, PAGE, VPT_SPAN_FAULT, NULL, false);
    fake_map(other, REGION_GPA, PAGE, VPT_SPAN_FAULT, NULL, false);
    fake_write(fake, VPT_MSR_STATUS, 100ull << VPT_STATUS_BYTECNT_SHR);
    vpt_vm_entry(&fake->cpu, &entry);
    len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    CHECK(len > 0, "vpt_save");
    vpt_init(&other->cpu, &other->caps, fake->cpu.ops, other);
    wrong = vpt_restore(&other->cpu, bytes, len);
    CHECK(!wrong, "%s", wrong ? wrong : "");
    leave(other);
    CHECK(fake_read(other, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR == 100, "PacketByteCnt");
    expect_nothing_left(other, "migrated");
    leave(fake);
    fake_close(fake);
    fake_close(other);
}

void suite_ahead(void)
{
    static const struct test tests[] = {
        {"the first page", test_first_page},
        {"a later page", test_next_page},
        {"resolved in place", test_in_place},
        {"an entry is read once", test_entry_read_once},
        {"nothing ahead", test_nothing_ahead},
        {"asked again", test_asked_again},
        {"the end of a trace", test_end},
        {"migrated at a violation", test_migrated},
        {"the end of the first page", test_end_of_first_page},
        {"an area ends the trace", test_area_ends_trace},
        {"an area moves the output", test_area_moves_output},
        {"an area behind a TraceStop", test_area_behind_trace_stop},
        {"an area ends the trace, migrated", test_area_migrated},
        {NULL, NULL},
    };

    add_suite("output by EPT", tests);
}
