/* SPDX-License-Identifier: BSD-3-Clause */
/* PSB+ (33.3.7, 33.4.2.17): when it comes and what is in it; PacketByteCnt and PendPSB. */
#include "harness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BOTH       (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define BYTECNT(n) ((uint64_t)(n) << VPT_STATUS_BYTECNT_SHR)
#define FREQ(n)    ((uint64_t)(n) << VPT_CTL_PSBFREQ_SHR)

/* ---- What is in it -------------------------------------------------------------------------- */

struct psb_content {
    uint64_t fup_ip, cr3, mode;
    unsigned tsc, tma, pip, cbr, tsx, exec, fup, vmcs, other;
    unsigned fup_ip_bytes;
    bool tma_follows_tsc, closed;
};

/* Reads the packets between the n-th PSB and its PSBEND. */
static struct psb_content content_of(const struct fake *fake, unsigned n)
{
    struct psb_content in = {0};
    struct reader reader;
    struct packet packet;
    enum packet_kind before = PACKET_PAD;
    bool inside = false;

    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (packet.kind == PACKET_PSB) {
            inside = n-- == 0;
        } else if (inside && packet.kind == PACKET_PSBEND) {
            in.closed = true;
            return in;
        } else if (inside) {
            in.tsc += packet.kind == PACKET_TSC;
            in.tma += packet.kind == PACKET_TMA;
            in.pip += packet.kind == PACKET_PIP;
            in.cbr += packet.kind == PACKET_CBR;
            in.tsx += packet.kind == PACKET_TSX;
            in.exec += packet.kind == PACKET_EXEC;
            in.fup += packet.kind == PACKET_FUP;
            in.vmcs += packet.kind == PACKET_VMCS;
            in.other += packet.kind == PACKET_TNT || packet.kind == PACKET_TIP ||
                        packet.kind == PACKET_PGE || packet.kind == PACKET_PGD;
            if (packet.kind == PACKET_TMA)
                in.tma_follows_tsc = before == PACKET_TSC;
            if (packet.kind == PACKET_FUP) {
                in.fup_ip = packet.value;
                in.fup_ip_bytes = packet.ip_bytes;
            }
            if (packet.kind == PACKET_PIP)
                in.cr3 = packet.value;
            if (packet.kind == PACKET_EXEC)
                in.mode = packet.value;
        }
        before = packet.kind;
    }
    return in;
}

static const struct {
    const char *what;
    uint64_t ctl;
    struct psb_content at_enable, later; /* later: after branches, where they give packets */
    uint8_t cpl;
    bool tsx, has_later;
} contents[] = {
    {"OS and User",
     BOTH,
     {.pip = 1, .cbr = 1, .tsx = 1},
     {.pip = 1, .cbr = 1, .tsx = 1, .exec = 1, .fup = 1},
     0,
     true,
     true},
    {"no TSX",
     BOTH,
     {.pip = 1, .cbr = 1},
     {.pip = 1, .cbr = 1, .exec = 1, .fup = 1},
     0,
     false,
     true},
    {"TSC",
     BOTH | VPT_CTL_TSCEN,
     {.tsc = 1, .pip = 1, .cbr = 1},
     {.tsc = 1, .pip = 1, .cbr = 1, .exec = 1, .fup = 1},
     0,
     false,
     true},
    {"TSC and MTC",
     BOTH | VPT_CTL_TSCEN | VPT_CTL_MTCEN,
     {.tsc = 1, .tma = 1, .pip = 1, .cbr = 1},
     {.tsc = 1, .tma = 1, .pip = 1, .cbr = 1, .exec = 1, .fup = 1},
     0,
     false,
     true},
    {"MTC without TSC",
     BOTH | VPT_CTL_MTCEN,
     {.pip = 1, .cbr = 1},
     {.pip = 1, .cbr = 1, .exec = 1, .fup = 1},
     0,
     false,
     true},
    {"User only, at CPL 3",
     VPT_CTL_USER | VPT_CTL_BRANCHEN,
     {.cbr = 1, .tsx = 1},
     {.cbr = 1, .tsx = 1, .exec = 1, .fup = 1},
     3,
     true,
     true},
    {"User only, at CPL 0",
     VPT_CTL_USER | VPT_CTL_BRANCHEN,
     {.cbr = 1},
     {.cbr = 0},
     0,
     true,
     false},
    {"OS only, at CPL 3", VPT_CTL_OS | VPT_CTL_BRANCHEN, {.cbr = 1}, {.cbr = 0}, 3, true, false},
    {"without BranchEn",
     VPT_CTL_OS | VPT_CTL_USER,
     {.pip = 1, .cbr = 1},
     {.cbr = 0},
     0,
     true,
     false},
};

static void compare(const char *what, const char *when, const struct psb_content *want,
                    const struct psb_content *got)
{
    CHECK(got->closed, "%s, %s: no PSBEND", what, when);
    CHECK(got->tsc == want->tsc && got->tma == want->tma, "%s, %s: %u TSC, %u TMA", what, when,
          got->tsc, got->tma);
    CHECK(!want->tma || got->tma_follows_tsc, "%s, %s: TMA does not follow TSC", what, when);
    CHECK(got->pip == want->pip && got->cbr == want->cbr, "%s, %s: %u PIP, %u CBR", what, when,
          got->pip, got->cbr);
    CHECK(got->tsx == want->tsx && got->exec == want->exec, "%s, %s: %u MODE.TSX, %u MODE.Exec",
          what, when, got->tsx, got->exec);
    CHECK(got->fup == want->fup && got->vmcs == 0 && got->other == 0,
          "%s, %s: %u FUP, %u VMCS, %u that must not be", what, when, got->fup, got->vmcs,
          got->other);
}

static void test_contents(void)
{
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        struct vpt_caps caps = rich_caps();
        struct vpt_context ctx = context_of(contents[i].cpl);
        struct psb_content in;
        struct fake *fake;

        caps.tsx = contents[i].tsx;
        fake = fake_open_caps(&caps);
        ctx.cr3 = 0xabc000;
        fake_output(fake);
        vpt_set_context(&fake->cpu, &ctx);
        fake_write(fake, VPT_MSR_CTL, contents[i].ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
        fake_noise(fake, 3000);
        fake_stop(fake);
        in = content_of(fake, 0);
        compare(contents[i].what, "at enabling", &contents[i].at_enable, &in);
        CHECK(!in.pip || in.cr3 == 0xabc000, "%s: CR3 %" PRIx64, contents[i].what, in.cr3);
        in = content_of(fake, 1);
        if (!contents[i].has_later) {
            CHECK(!in.closed, "%s: a PSB without bytes", contents[i].what);
        } else {
            compare(contents[i].what, "later", &contents[i].later, &in);
            CHECK(in.mode == 1, "%s: MODE %" PRIx64, contents[i].what, in.mode);
            CHECK(in.fup_ip_bytes == 3 || in.fup_ip_bytes == 6,
                  "%s: the FUP has IPBytes %u; software takes 3 and 6 only", contents[i].what,
                  in.fup_ip_bytes);
        }
        fake_close(fake);
    }
}

/* The FUP of a PSB+ in the stream is where execution stands: the target of the last branch. */
static void test_fup_ip(void)
{
    struct fake *fake = fake_open("max");
    struct reader reader;
    struct packet packet;
    uint64_t last_tip = 0;
    unsigned psbs = 0, fups = 0;
    bool inside = false;

    fake_start(fake, BOTH);
    fake_noise(fake, 50000);
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        psbs += packet.kind == PACKET_PSB;
        if (packet.kind == PACKET_PSB || packet.kind == PACKET_PSBEND)
            inside = packet.kind == PACKET_PSB;
        if (packet.kind == PACKET_TIP)
            last_tip = packet.value;
        if (packet.kind == PACKET_FUP && inside) {
            CHECK(packet.value == last_tip, "FUP %" PRIx64 " after TIP %" PRIx64, packet.value,
                  last_tip);
            fups++;
        }
    }
    CHECK(psbs > 20 && fups == psbs - 1, "%u PSBs, %u FUPs", psbs, fups);
    CHECK(!reader.bad, "no packet at %zu", reader.at);
    fake_close(fake);
}

/* TNT bits come before the PSB: a compound packet event is complete before it (33.3.7). */
static void test_never_inside_an_event(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);
    struct reader reader;
    struct packet packet;
    bool fup = false, in_psb = false;

    fake_start(fake, BOTH);
    for (unsigned i = 0; i < 3000; i++) {
        vpt_cond_branch(&fake->cpu, 0x401000, i & 1);
        ctx.cr3 = 0x1000 + (i & 15) * 0x1000;
        fake_transfer(fake, VPT_INTERRUPT, 0x12345678ull << (i % 16), KERNEL + i, &ctx);
    }
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (packet.kind == PACKET_PSB) {
            CHECK(!fup, "a PSB between FUP and TIP at %zu", packet.offset);
            in_psb = true;
        }
        if (packet.kind == PACKET_PSBEND)
            in_psb = false;
        if (in_psb)
            continue;
        if (packet.kind == PACKET_FUP)
            fup = true;
        if (packet.kind == PACKET_TIP || packet.kind == PACKET_PGD)
            fup = false;
    }
    CHECK(!reader.bad, "no packet at %zu", reader.at);
    fake_close(fake);
}

/* ---- When it comes -------------------------------------------------------------------------- */

/* Finds PSBs in what is stored, without keeping it. */
struct finder {
    uint64_t total, first[3];
    unsigned found;
    unsigned run; /* how many bytes of the pattern just passed */
};

static void find(struct finder *finder, const uint8_t *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t want = finder->run & 1 ? 0x82 : 0x02;

        finder->total++;
        if (bytes[i] == want)
            finder->run++;
        else
            finder->run = bytes[i] == 0x02;
        if (finder->run == 16) {
            if (finder->found < 3)
                finder->first[finder->found] = finder->total - 16;
            finder->found++;
            finder->run = 0;
        }
    }
}

static void find_stores(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t n)
{
    struct fake *fake = owner;

    (void)gpa;
    find((struct finder *)(void *)fake->other, bytes, n);
}

static void nowhere(void *owner, uint64_t gpa, uint32_t n, enum vpt_access access,
                    struct vpt_span *span)
{
    static uint8_t page[4096];

    (void)owner;
    (void)access;
    *span = (struct vpt_span){VPT_SPAN_RAM, n, page + (gpa & 4095)};
}

static void no_clocks(void *owner, struct vpt_clocks *clocks)
{
    (void)owner;
    memset(clocks, 0, sizeof(*clocks));
}

/* Every PSBFreq: the average of output bytes per PSB is the period that software chose. */
static void test_periods(void)
{
    static const struct vpt_ops ops = {
        .translate = nowhere, .wrote = find_stores, .clocks = no_clocks};
    static const unsigned big = 13; /* from 16 MiB on one period must do */

    for (unsigned freq = 0; freq < 16; freq++) {
        struct vpt_caps caps = rich_caps();
        struct vpt_context ctx = context_of(0);
        struct fake *fake = calloc(1, sizeof(*fake));
        struct finder *finder = (struct finder *)(void *)fake->other;
        const uint64_t period = 2048ull << freq;
        const unsigned want = freq < big ? 3 : 2;

        vpt_init(&fake->cpu, &caps, &ops, fake);
        vpt_set_context(&fake->cpu, &ctx);
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xffffffff);
        fake_write(fake, VPT_MSR_CTL,
                   VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_PTWEN | VPT_CTL_TRACEEN | FREQ(freq));
        while (finder->found < want && finder->total < 3 * period + 100000) {
            for (unsigned i = 0; i < 20; i++) {
                vpt_ptwrite(&fake->cpu, i, 8, 0x401000);
                vpt_ptwrite(&fake->cpu, i, 8, 0x401000);
                vpt_cond_branch(&fake->cpu, 0x401000, i & 1);
            }
            vpt_flush(&fake->cpu);
        }
        CHECK(finder->found >= want, "PSBFreq %u: no PSB", freq);
        for (unsigned i = 1; i < want; i++) {
            uint64_t gap = finder->first[i] - finder->first[i - 1];

            CHECK(gap >= period && gap < period + 512, "PSBFreq %u: %" PRIu64 " bytes apart", freq,
                  gap);
        }
        free(fake);
    }
}

/* Packets without a branch count, too, and bring a PSB even where no branch gives packets. */
static void test_without_branches(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_PTWEN); /* BranchEn = 0 */
    for (unsigned i = 0; i < 1000; i++)
        vpt_ptwrite(&fake->cpu, i, 8, 0x401000);
    fake_stop(fake);
    CHECK(content_of(fake, 3).closed, "10,000 bytes of PTW without a PSB");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_MTCEN | VPT_CTL_CYCEN);
    for (unsigned i = 0; i < 5000; i++) {
        fake->clocks.art++;
        fake->clocks.cycles += 40;
        vpt_time(&fake->cpu);
    }
    fake_stop(fake);
    CHECK(content_of(fake, 3).closed, "10,000 bytes of MTC and CYC without a PSB");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, VPT_CTL_OS | VPT_CTL_USER);
    for (unsigned i = 0; i < 2000; i++)
        vpt_mov_cr3(&fake->cpu, i * 0x1000, 0x401003);
    fake_stop(fake);
    CHECK(content_of(fake, 3).closed, "16,000 bytes of PIP without a PSB");
    fake_close(fake);
}

/* ---- PacketByteCnt (Table 33-7, Table 33-11 EBX[1]) ----------------------------------------- */

static bool psb_at_enabling(struct fake *fake, uint64_t ctl)
{
    size_t mark;
    const char *words;

    fake_mark(fake);
    mark = fake->mark;
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_stop(fake);
    fake->mark = mark;
    words = fake_words(fake, false);
    return strncmp(words, "PSB+", 4) == 0;
}

static void test_packet_byte_cnt(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);
    uint64_t count;

    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    CHECK(psb_at_enabling(fake, BOTH), "PacketByteCnt = 0: PSB+");
    count = fake_read(fake, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR;
    CHECK(count > 0 && count < 100, "PacketByteCnt %" PRIu64 " after some bytes", count);
    CHECK(!psb_at_enabling(fake, BOTH), "PacketByteCnt > 0: no PSB+");
    fake_write(fake, VPT_MSR_STATUS, 0);
    CHECK(psb_at_enabling(fake, BOTH), "software cleared PacketByteCnt: PSB+");
    fake_close(fake);

    fake = fake_open("broadwell");
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    CHECK(psb_at_enabling(fake, BOTH), "first time");
    CHECK(psb_at_enabling(fake, BOTH), "always without configurable PSB");
    CHECK(fake_read(fake, VPT_MSR_STATUS) >> 32 == 0, "the field is reserved");
    fake_close(fake);
}

/* The counter survives TraceEn = 0: the PSB comes when the whole period has passed. */
static void test_count_goes_on(void)
{
    static const unsigned counts[] = {1, 100, 1000, 1500, 2000};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct fake *fake = fake_open("max");
        struct reader reader;
        struct packet packet;
        size_t at = 0;

        fake_write(fake, VPT_MSR_STATUS, BYTECNT(counts[i]));
        fake_start(fake, BOTH);
        fake_noise(fake, 4000);
        fake_stop(fake);
        reader_open(&reader, fake->tap, fake->tap_len);
        while (at == 0 && reader_next(&reader, &packet))
            if (packet.kind == PACKET_PSB)
                at = packet.offset;
        CHECK(at + counts[i] >= 2048 && at + counts[i] < 2048 + 256,
              "PacketByteCnt %u: a PSB after %zu bytes", counts[i], at);
        fake_close(fake);
    }
}

/* Disabled and enabled again many times, the average period still holds. */
static void test_count_over_many_enables(void)
{
    struct fake *fake = fake_open("max");
    struct reader reader;
    struct packet packet;
    unsigned psbs = 0;
    uint64_t ctl;

    fake_start(fake, BOTH);
    ctl = fake_read(fake, VPT_MSR_CTL);
    for (unsigned i = 0; i < 200; i++) {
        fake_noise(fake, 200);
        fake_stop(fake);
        fake_write(fake, VPT_MSR_CTL, ctl);
    }
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet))
        psbs += packet.kind == PACKET_PSB;
    CHECK(psbs >= fake->tap_len / 2400 && psbs <= fake->tap_len / 2048 + 1, "%u PSBs in %zu bytes",
          psbs, fake->tap_len);
    fake_close(fake);
}

/* ---- PSB preservation (Table 33-7 bit 6) ---------------------------------------------------- */

static void test_pend_psb(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);

    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_PENDPSB | BYTECNT(100));
    CHECK(psb_at_enabling(fake, BOTH | VPT_CTL_INJECT_PSB_PMI), "PendPSB: a PSB+ is inserted");
    CHECK(!fake_status(fake, VPT_STATUS_PENDPSB), "PendPSB is cleared");
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_PENDPSB | BYTECNT(100));
    CHECK(!psb_at_enabling(fake, BOTH), "ignored without InjectPsbPmiOnEnable");
    CHECK(fake_status(fake, VPT_STATUS_PENDPSB), "and left alone");
    fake_write(fake, VPT_MSR_STATUS, BYTECNT(100));
    CHECK(!psb_at_enabling(fake, BOTH | VPT_CTL_INJECT_PSB_PMI), "PendPSB = 0");
    fake_close(fake);
}

/* The threshold is reached by the packets that end tracing: the PSB+ is remembered. */
static void pend_psb_at_the_end(bool by_tracestop, uint64_t inject)
{
    /* From enabling on: CBR (4), MODE.Exec (2), TIP.PGE (up to 7), then the last packets. */
    for (unsigned count = 2026; count < 2048; count++) {
        struct fake *fake = fake_open("max");
        uint64_t before, ctl = BOTH | inject;
        bool due;

        if (by_tracestop) {
            fake_write(fake, VPT_MSR_ADDR0_A, 0x500000);
            fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x500fff);
            ctl |= (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR;
        }
        fake_write(fake, VPT_MSR_STATUS, BYTECNT(count));
        fake_start(fake, ctl);
        before = fake->tap_len;
        if (by_tracestop)
            vpt_jmp_direct(&fake->cpu, 0x500000);
        fake_stop(fake);
        due = count + before < 2048 && count + fake->tap_len >= 2048;
        if (due && inject)
            CHECK(fake_status(fake, VPT_STATUS_PENDPSB), "%s, PacketByteCnt %u: PendPSB is not set",
                  by_tracestop ? "TraceStop" : "WRMSR", count);
        if (count + fake->tap_len < 2048 || !inject)
            CHECK(!fake_status(fake, VPT_STATUS_PENDPSB), "PacketByteCnt %u: PendPSB", count);
        fake_close(fake);
    }
}

static void test_pend_psb_at_the_end(void)
{
    pend_psb_at_the_end(false, VPT_CTL_INJECT_PSB_PMI);
    pend_psb_at_the_end(true, VPT_CTL_INJECT_PSB_PMI);
    pend_psb_at_the_end(false, 0);
    pend_psb_at_the_end(true, 0);
}

void suite_psb(void)
{
    static const struct test tests[] = {
        {"contents", test_contents},
        {"the FUP's IP", test_fup_ip},
        {"never inside an event", test_never_inside_an_event},
        {"periods", test_periods},
        {"packets without branches", test_without_branches},
        {"PacketByteCnt", test_packet_byte_cnt},
        {"PacketByteCnt goes on", test_count_goes_on},
        {"many enables", test_count_over_many_enables},
        {"PendPSB", test_pend_psb},
        {"PendPSB at the end of tracing", test_pend_psb_at_the_end},
        {NULL, NULL},
    };

    add_suite("PSB+ (33.3.7)", tests);
}
