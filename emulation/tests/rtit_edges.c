/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Edges of RTIT that mutants of the model (docs/mutants.md) showed to be without a test (RTIT
 * v1.05, chapters 2 to 4).
 */
#include "rtit_harness.h"

#include <string.h>

#define OS     VPT_RTIT_CTL_OS
#define EN     VPT_RTIT_CTL_TRACE_EN
#define ACTIVE VPT_RTIT_CTL_TRACE_ACTIVE
#define DEST   VPT_RTIT_CTL_DEST
#define FILTER VPT_RTIT_STATUS_FILTEREN

static bool filter_en(struct rtit_fake *fake)
{
    return rtit_read(fake, VPT_RTIT_STATUS) & FILTER;
}

static struct rtit_fake *with_range(uint64_t base, uint64_t limit)
{
    struct rtit_fake *fake = rtit_open(0);
    const struct vpt_rtit_context ctx = rtit_context(0);

    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 0);
    rtit_write(fake, VPT_RTIT_LIP0, base);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, limit);
    vpt_rtit_set_context(&fake->cpu, &ctx);
    return fake;
}

/* 2.1.3: FilterEn follows execution where Trace_En and ContextEn are 1, TraceActive or not. */
static void test_filter_frozen(void)
{
    struct rtit_fake *fake = with_range(0x500000, 0x501000);
    struct vpt_rtit_event away = {.kind = VPT_RTIT_FAR,
                                  .nlip = 0x500010,
                                  .from = 0x500010,
                                  .target = 0x700000,
                                  .after = rtit_context(3)};

    rtit_write(fake, VPT_RTIT_CTL, OS | DEST);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    CHECK(!filter_en(fake), "Trace_En is 0");
    rtit_write(fake, VPT_RTIT_CTL, OS | DEST | EN);
    CHECK(!filter_en(fake), "WRMSR at 401000H");
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    CHECK(filter_en(fake), "Trace_En is 1, TraceActive is 0");
    vpt_rtit_event(&fake->cpu, &away);
    CHECK(filter_en(fake), "out of context");
    CHECK(!(rtit_read(fake, VPT_RTIT_STATUS) & VPT_RTIT_STATUS_CONTEXTEN), "out of context");
    RTIT_EXPECT(fake, "", "no packets without TraceActive");
    rtit_close(fake);
}

/* WRMSR of RTIT_CTL is no jump: within a range, FilterEn stays what it was. */
static void test_filter_at_wrmsr(void)
{
    struct rtit_fake *fake = with_range(0x400000, 0x402000);

    rtit_write(fake, VPT_RTIT_CTL, OS | DEST | EN);
    CHECK(!filter_en(fake), "0 within a range");
    rtit_write(fake, VPT_RTIT_CTL, OS | DEST | EN | ACTIVE);
    RTIT_EXPECT(fake, "PSB", "2.1.3, 3.3.2: neither FUP.PGE nor FUP.PGD");
    rtit_close(fake);

    fake = with_range(0x700000, 0x702000);
    rtit_write(fake, VPT_RTIT_STATUS, FILTER);
    rtit_write(fake, VPT_RTIT_CTL, OS | DEST | EN | ACTIVE);
    RTIT_EXPECT(fake, "PSB PGE(401000)", "1 outside of it");
    rtit_write(fake, VPT_RTIT_CTL, OS | DEST | EN);
    RTIT_EXPECT(fake, "PSB PGE(401000)", "3.3.2: TraceActive := 0 gives no FUP.PGD");
    rtit_close(fake);

    fake = with_range(0x401000, 0x402000);
    rtit_write(fake, VPT_RTIT_CTL, OS | DEST | EN | ACTIVE);
    RTIT_EXPECT(fake, "PSB PGE(401000)", "the base of a range");
    rtit_close(fake);
}

static void test_filter_after_stop(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    CHECK(filter_en(fake), "always on");
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    CHECK(!filter_en(fake), "4.2.11: TraceStop");
    rtit_close(fake);
}

/* 4.2.14: every packet but PSB, TraceStop and a partial TNT has the cycles since the last. */
static void test_counts(void)
{
    struct rtit_fake *fake = rtit_open(0);
    const struct vpt_rtit_context ctx = rtit_context(0);
    const uint32_t ctl = OS | DEST | EN | ACTIVE | VPT_RTIT_CTL_CYCLE_ACC | VPT_RTIT_CTL_MTC_EN |
                         VPT_RTIT_CTL_STS_EN | VPT_RTIT_CTL_STS_ON_CR3;

    fake->clocks.cycles = 1000;
    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 7);
    vpt_rtit_set_context(&fake->cpu, &ctx);
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    fake->clocks.cycles += 5;
    fake->clocks.tsc += 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    fake->clocks.cycles += 6;
    rtit_do(fake, VPT_RTIT_MOV_CR3, 0x401004);
    fake->clocks.cycles += 7;
    vpt_rtit_sync(&fake->cpu, 1, 2);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    RTIT_EXPECT(fake,
                "PSB PGE(401000):0 MTC(0,1):5 PIP(1000,1):6 STS(0,0,80):0 STS(1,2,80):0 "
                "TIP(402000):7",
                "4.2.14");
    rtit_close(fake);
}

/* Bytes leave by lines: not before 64 are there, and then at once. */
static void test_lines(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    bool left = false;

    for (unsigned i = 0; i < 100; i++) {
        const size_t before = fake->tap_len;
        const uint32_t had = fake->cpu.buf_len;

        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000 + 0x1000001ull * i);
        CHECK(fake->cpu.buf_len < 64, "%u bytes wait", fake->cpu.buf_len);
        CHECK(fake->tap_len == before || had + 7 >= 64, "a store of less than a line");
        left |= fake->tap_len != before;
    }
    CHECK(left, "nothing was stored");
    rtit_close(fake);
}

/* 2.3: only the TraceStop itself goes to its own place. */
static void test_after_stop(void)
{
    struct rtit_fake *fake = rtit_open(0);
    const struct vpt_rtit_context ctx = rtit_context(0);
    uint64_t offset;

    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    vpt_rtit_set_context(&fake->cpu, &ctx);
    rtit_write(fake, VPT_RTIT_CTL, OS | EN | ACTIVE);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    CHECK(fake->last_gpa % 256 == 0xc0, "TraceStop at %llx", (unsigned long long)fake->last_gpa);
    rtit_write(fake, VPT_RTIT_CTL, OS | EN | ACTIVE);
    offset = rtit_read(fake, VPT_RTIT_OFFSET);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    vpt_rtit_drain(&fake->cpu);
    CHECK(fake->last_gpa == RTIT_BASE + offset, "a TIP at %llx, not %llx",
          (unsigned long long)fake->last_gpa, (unsigned long long)(RTIT_BASE + offset));
    rtit_close(fake);
}

/* The same where memory is slow: the next trace's packets stand behind the TraceStop in the buffer.
 */
static void test_slow_stop(void)
{
    struct rtit_fake *fake = rtit_open(0);
    const struct vpt_rtit_context ctx = rtit_context(0);
    const uint8_t *ram = fake->ram + RTIT_BASE;
    uint32_t stop;

    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    vpt_rtit_set_context(&fake->cpu, &ctx);
    rtit_write(fake, VPT_RTIT_CTL, OS | EN | ACTIVE);
    vpt_rtit_stall(&fake->cpu, true);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    rtit_write(fake, VPT_RTIT_CTL, OS | EN | ACTIVE);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    stop = (uint32_t)rtit_read(fake, VPT_RTIT_OFFSET);
    vpt_rtit_stall(&fake->cpu, false);
    CHECK(ram[0xc0] == 0xc1, "TraceStop at offset C0H: %02x", ram[0xc0]);
    CHECK(ram[stop] == 0 && ram[stop + 1] == 0xc0, "the PSB behind its place: %02x %02x", ram[stop],
          ram[stop + 1]);
    CHECK(rtit_read(fake, VPT_RTIT_OFFSET) > stop + 9u, "all of it left");
    rtit_close(fake);
}

/* An overflow that begins with the TraceStop holds it back (4.2.5). */
static void test_stop_without_room(void)
{
    struct rtit_fake *fake = rtit_start(0, DEST);

    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    vpt_rtit_stall(&fake->cpu, true);
    while (fake->cpu.overflow_count == 0 && fake->cpu.buf_len + 16 <= VPT_RTIT_BUFFER_BYTES)
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000 + 0x10001u * fake->cpu.buf_len);
    fake->cpu.buf_len = VPT_RTIT_BUFFER_BYTES; /* not a byte is left */
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    CHECK(fake->cpu.overflow && (fake->cpu.ctl & ACTIVE), "TraceStop waits");
    rtit_mark(fake);
    vpt_rtit_stall(&fake->cpu, false);
    rtit_do(fake, VPT_RTIT_OTHER, 0x500014);
    CHECK(!(fake->cpu.ctl & ACTIVE), "TraceStop came");
    CHECK(fake->tap[fake->tap_len - 1] == 0xc1, "its packet is the last: %02x",
          fake->tap[fake->tap_len - 1]);
    rtit_close(fake);
}

struct answer {
    enum vpt_span_kind kind;
    bool host;
    uint8_t page[4096];
    unsigned mmio;
};

static void on_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                         struct vpt_span *span)
{
    struct answer *answer = owner;

    (void)access;
    *span =
        (struct vpt_span){answer->kind, len_bytes, answer->host ? answer->page + gpa % 4096 : NULL};
}

static void on_mmio(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    (void)gpa, (void)bytes;
    ((struct answer *)owner)->mmio += len_bytes;
}

static void on_clocks(void *owner, struct vpt_clocks *clocks)
{
    (void)owner;
    memset(clocks, 0, sizeof(*clocks));
}

/* Only RAM is written, and only where there is a host address. */
static void test_kinds(void)
{
    static const struct vpt_ops ram_only = {.translate = on_translate, .clocks = on_clocks},
                                with_mmio = {.translate = on_translate,
                                             .clocks = on_clocks,
                                             .mmio = on_mmio};
    static const struct {
        enum vpt_span_kind kind;
        bool host, mmio;
        bool stored, device;
    } cases[] = {
        {VPT_SPAN_RAM, true, true, true, false},
        {VPT_SPAN_RAM, false, true, false, false},
        {VPT_SPAN_READONLY, true, true, false, false},
        {VPT_SPAN_UNBACKED, true, true, false, false},
        {VPT_SPAN_MMIO, true, true, false, true},
        {VPT_SPAN_MMIO, false, true, false, true},
        {VPT_SPAN_MMIO, true, false, false, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct answer answer = {.kind = cases[i].kind, .host = cases[i].host};
        struct vpt_rtit cpu;
        uint64_t value, sum = 0;

        vpt_rtit_init(&cpu, 0, cases[i].mmio ? &with_mmio : &ram_only, &answer);
        vpt_rtit_rdmsr(&cpu, VPT_RTIT_CTL, &value);
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_EVENTS, 6 << 3 | 7, 0);
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_CTL, OS | EN | ACTIVE | DEST, 0x401000);
        for (size_t n = 0; n < sizeof(answer.page); n++)
            sum += answer.page[n] != 0;
        CHECK((sum > 0) == cases[i].stored, "case %zu: stored", i);
        CHECK((answer.mmio > 0) == cases[i].device, "case %zu: a device", i);
        CHECK((cpu.dropped_bytes > 0) == !(cases[i].stored || cases[i].device), "case %zu: dropped",
              i);
        CHECK((cpu.output_bytes > 0) == (cases[i].stored || cases[i].device), "case %zu: output",
              i);
    }
}

/* Memory that takes five bytes and then faults, again and again. */
struct flaky {
    bool faults, turn;
    size_t used;
    uint8_t bytes[8192]; /* what was stored, in order */
};

static void flaky_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                            struct vpt_span *span)
{
    struct flaky *flaky = owner;

    (void)access, (void)gpa;
    *span = (struct vpt_span){VPT_SPAN_RAM, len_bytes, flaky->bytes + flaky->used};
    if (!flaky->faults)
        return;
    flaky->turn = !flaky->turn;
    if (flaky->turn)
        span->len_bytes = len_bytes < 5 ? len_bytes : 5;
    else
        span->kind = VPT_SPAN_FAULT;
}
static void flaky_wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    (void)gpa, (void)bytes;
    ((struct flaky *)owner)->used += len_bytes;
}

static void test_faults(void)
{
    static const struct vpt_ops ops = {
        .translate = flaky_translate, .wrote = flaky_wrote, .clocks = on_clocks};
    static struct flaky runs[2];

    for (unsigned i = 0; i < 2; i++) {
        struct vpt_rtit cpu;
        uint64_t value;

        runs[i] = (struct flaky){.faults = i == 1};
        vpt_rtit_init(&cpu, 0, &ops, &runs[i]);
        vpt_rtit_rdmsr(&cpu, VPT_RTIT_CTL, &value);
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_LIMIT_MASK, 0xfff, 0);
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_EVENTS, 6 << 3 | 7, 0);
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_CTL, OS | EN | ACTIVE | DEST, 0x401000);
        for (unsigned n = 0; n < 60; n++) {
            const struct vpt_rtit_event event = {
                .kind = VPT_RTIT_JMP_INDIRECT, .nlip = 0x401002, .target = 0x402000 + 0x10001u * n};

            vpt_rtit_event(&cpu, &event);
            vpt_rtit_drain(&cpu);
        }
        for (unsigned n = 0; n < 500 && cpu.buf_len > 0; n++)
            vpt_rtit_drain(&cpu);
        CHECK(cpu.overflow_count == 0 && cpu.buf_len == 0, "run %u: %u bytes left", i, cpu.buf_len);
        CHECK(cpu.output_bytes == runs[i].used, "run %u: %zu bytes", i, runs[i].used);
    }
    CHECK(runs[0].used > 200 && runs[0].used == runs[1].used &&
              memcmp(runs[0].bytes, runs[1].bytes, runs[0].used) == 0,
          "the same %zu and %zu bytes", runs[0].used, runs[1].used);
}

/* ---- Overflow (4.2.5) ----------------------------------------------------------------------- */

/* Stalled, with no room for one packet more; no overflow yet. */
static void fill(struct rtit_fake *fake)
{
    vpt_rtit_stall(&fake->cpu, true);
    while (fake->cpu.buf_len + 19 <= VPT_RTIT_BUFFER_BYTES)
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000 + 0x100000001ull * fake->cpu.buf_len);
    CHECK(!fake->cpu.overflow, "no overflow yet");
}

/* The packets from the first TNT or OVF on. */
static const char *behind(struct rtit_fake *fake, const char *first)
{
    const char *words = strstr(rtit_words(fake), first);

    return words ? words : "none";
}

/* The TNT that begins an overflow is not lost; its cycles are those of the overflow's end. */
static void test_full_tnt_in_overflow(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);
    const char *words;

    fill(fake);
    for (unsigned i = 0; i < 6; i++)
        rtit_branch(fake, i & 1);
    CHECK(fake->cpu.overflow && fake->cpu.overflow_count == 1, "the sixth branch begins it");
    CHECK(rtit_read(fake, VPT_RTIT_TNT_BUFF) == 0x55, "TNT_BUFF is full");
    rtit_branch(fake, true);
    fake->clocks.cycles += 9;
    vpt_rtit_stall(&fake->cpu, false);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x403000);
    rtit_branch(fake, true);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x404000);
    vpt_rtit_drain(&fake->cpu);
    words = behind(fake, "TNT");
    CHECK(strcmp(words, "TNT(NTNTNT):9 OVF(403000):0 TNT(T) TIP(404000):0") == 0, "[%s]", words);
    rtit_close(fake);

    fake = rtit_start(0, 0);
    fill(fake);
    for (unsigned i = 0; i < 6; i++)
        rtit_branch(fake, i & 1);
    vpt_rtit_stall(&fake->cpu, false);
    rtit_write(fake, VPT_RTIT_STATUS, FILTER); /* Buffer_Overflow := 0, without a packet */
    rtit_branch(fake, true);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x404000);
    vpt_rtit_drain(&fake->cpu);
    words = behind(fake, "TNT");
    CHECK(strncmp(words, "TNT(NTNTNT) TNT(T) TIP(", 23) == 0, "software ends it: [%s]", words);
    rtit_close(fake);
}

/* TriggerEn from 0 to 1 in an overflow brings a PSB, and Pkt_Cnt counts on until it comes. */
static void test_psb_in_overflow(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    const uint32_t ctl = OS | DEST | EN;
    uint64_t count;
    const char *words;

    fill(fake);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    CHECK(fake->cpu.overflow, "an overflow");
    count = rtit_read(fake, VPT_RTIT_PKT_CNT);
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    rtit_write(fake, VPT_RTIT_CTL, ctl | ACTIVE);
    CHECK(rtit_read(fake, VPT_RTIT_PKT_CNT) == count, "3.3.9: no PSB, so that it counts on");
    vpt_rtit_stall(&fake->cpu, false);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x403000);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x404000);
    vpt_rtit_drain(&fake->cpu);
    words = behind(fake, "OVF");
    CHECK(strcmp(words, "OVF(403000) PSB TIP(404000)") == 0, "[%s]", words);
    rtit_close(fake);
}

/* Software that sets FilterEn makes PacketEn 1 (4.2.7), and the reverse (4.2.8). */
static void test_filter_by_status(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x500000, 0x501000);

    rtit_branch(fake, true);
    rtit_write(fake, VPT_RTIT_STATUS, FILTER);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    rtit_write(fake, VPT_RTIT_STATUS, 0);
    rtit_branch(fake, true);
    RTIT_EXPECT(fake, "PGE(401000) PGD(401000)", "4.2.7, 4.2.8: RTIT_STATUS");
    rtit_close(fake);

    fake = rtit_ranged(0, 0x500000, 0x501000);
    rtit_write(fake, VPT_RTIT_STATUS, FILTER | VPT_RTIT_STATUS_OVERFLOW);
    RTIT_EXPECT(fake, "", "4.2.5: lost in the overflow that comes with it");
    rtit_close(fake);
}

void suite_rtit_edges(void)
{
    static const struct test tests[] = {
        {"FilterEn is frozen", test_filter_frozen},
        {"FilterEn at WRMSR", test_filter_at_wrmsr},
        {"FilterEn after TraceStop", test_filter_after_stop},
        {"cycles of every packet", test_counts},
        {"lines", test_lines},
        {"after a TraceStop", test_after_stop},
        {"a TraceStop that waits for memory", test_slow_stop},
        {"a TraceStop without room", test_stop_without_room},
        {"kinds of memory", test_kinds},
        {"faults", test_faults},
        {"a full TNT in an overflow", test_full_tnt_in_overflow},
        {"TriggerEn in an overflow", test_psb_in_overflow},
        {"FilterEn by RTIT_STATUS", test_filter_by_status},
        {NULL, NULL},
    };

    add_suite("RTIT: edges", tests);
}
