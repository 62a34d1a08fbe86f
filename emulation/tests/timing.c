/* SPDX-License-Identifier: BSD-3-Clause */
/* TSC, TMA, MTC, CBR and CYC packets (33.3.6, 33.4.2.10 to 33.4.2.14, 33.8.3). */
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BOTH         (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define MTC_FREQ(n)  ((uint64_t)(n) << VPT_CTL_MTCFREQ_SHR)
#define CYC_LEVEL(n) ((uint64_t)(n) << VPT_CTL_CYCTHRESH_SHR)

static struct fake *timed(uint64_t ctl)
{
    struct vpt_caps caps = rich_caps();
    struct fake *fake = fake_open_caps(&caps);

    fake->clocks = (struct vpt_clocks){.tsc = 1000000, .art = 10000, .fast = 0, .cycles = 5000};
    fake_start(fake, BOTH | ctl);
    return fake;
}

/* ---- MTC ------------------------------------------------------------------------------------ */

/* One MTC each time the chosen ART bit toggles, with 8 bits of ART from that bit on. */
static void test_mtc(void)
{
    for (unsigned freq = 0; freq < 16; freq++) {
        struct fake *fake = timed(VPT_CTL_MTCEN | MTC_FREQ(freq));
        char pattern[2048] = "";
        size_t at = 0;
        uint64_t step = 1ull << freq;

        fake->clocks.art = (fake->clocks.art | (step - 1)) + 1;
        for (unsigned i = 0; i < 20; i++) {
            at += (size_t)snprintf(pattern + at, sizeof(pattern) - at, "MTC(%x) ",
                                   (unsigned)(fake->clocks.art >> freq & 0xff));
            vpt_time(&fake->cpu);
            vpt_time(&fake->cpu); /* no second one for the same count */
            fake->clocks.art += step - 1;
            vpt_time(&fake->cpu); /* nor before the bit toggles */
            fake->clocks.art += 1;
        }
        fake->clocks.art -= 1;
        EXPECT(fake, pattern, "Table 33-31");
        fake_close(fake);
    }
}

/* An event after time has passed: the MTC first, since the event is not older than it. */
static void test_mtc_before_event(void)
{
    struct fake *fake = timed(VPT_CTL_MTCEN);

    vpt_cond_branch(&fake->cpu, 0x401010, true);
    fake->clocks.art++;
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fake->clocks.art++;
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x402003);
    EXPECT(fake, "TNT(T) MTC(11) TIP(402000) MTC(12) PIP(5000)", "33.4.2.12");
    fake_close(fake);
}

/* MTC needs TriggerEn only: it comes while PacketEn is 0. */
static void test_mtc_out_of_context(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3);

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_MTCEN);
    fake_transfer(fake, VPT_IRET, 0x401000, 0x7000, &user);
    fake->clocks.art++;
    vpt_cond_branch(&fake->cpu, 0x7010, true);
    fake->clocks.art++;
    vpt_time(&fake->cpu);
    EXPECT(fake, "PGD() MTC(1) MTC(2)", "33.2.6.3");
    fake_close(fake);
}

/* The same if there was no context from the start. */
static void test_mtc_never_in_context(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_MTCEN);
    fake->clocks.art++;
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    fake->clocks.art++;
    EXPECT(fake, "MTC(1) MTC(2)", "33.2.6.3");
    fake_close(fake);
}

#define BRANCH_KINDS 6

static void some_branch(struct vpt_cpu *cpu, unsigned i)
{
    switch (i) {
    case 0:
        vpt_cond_branch(cpu, 0x401010, true);
        break;
    case 1:
        vpt_jmp_direct(cpu, 0x401010);
        break;
    case 2:
        vpt_call_direct(cpu, 0x401010, 0x401005);
        break;
    case 3:
        vpt_jmp_indirect(cpu, 0x401010);
        break;
    case 4:
        vpt_call_indirect(cpu, 0x401010, 0x401005);
        break;
    default:
        vpt_ret(cpu, 0x401010);
        break;
    }
}

/* Every event looks at the clocks before it: event number i comes after MTC(i + 1). */
static void some_event(struct fake *fake, unsigned i)
{
    const struct vpt_block_item item = {1, 2};
    const struct vpt_block block = {.type = 4, .count = 1, .items = &item};
    const struct vpt_power_entry sleep = {.ip = 0x401000, .mwait = true, .state = 1};
    struct vpt_cpu *cpu = &fake->cpu;
    struct vpt_context ctx = context_of(0);

    if (i < BRANCH_KINDS) {
        some_branch(cpu, i);
        return;
    }
    ctx.interrupts = true;
    switch (i - BRANCH_KINDS) {
    case 0:
        fake_transfer(fake, VPT_INTERRUPT, 0x401000, 0x402000, &ctx);
        break;
    case 1:
        vpt_interrupt_flag(cpu, false, 0x401000);
        break;
    case 2:
        vpt_mov_cr3(cpu, 0x1000, 0x401003);
        break;
    case 3:
        vpt_ptwrite(cpu, 1, 8, 0x401000);
        break;
    case 4:
        vpt_set_core_ratio(cpu, 20);
        break;
    case 5:
        vpt_shutdown(cpu, 0x401000);
        break;
    case 6:
        vpt_maintenance(cpu, 1);
        break;
    case 7:
        vpt_tx_begin(cpu, 0x401000);
        break;
    case 8:
        vpt_tx_abort(cpu, 0x401000, 0x401010);
        break;
    case 9:
        vpt_exec_stop(cpu, 0x401000);
        break;
    case 10:
        vpt_pebs(cpu, &block, 1, 0x401000);
        break;
    case 11:
        vpt_vmptrld(cpu, 0x5000);
        break;
    default:
        vpt_power_entry(cpu, &sleep);
        break;
    }
}

static void test_every_event_has_its_time(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct reader reader;
    struct packet packet;
    struct fake *fake;
    uint64_t last = 0;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_MTCEN | VPT_CTL_PTWEN |
                         VPT_CTL_EVENTEN | VPT_CTL_PWREVTEN);
    for (unsigned i = 0; i < 19; i++) {
        const uint64_t before = fake->cpu.packet_count;

        fake->clocks.art++;
        some_event(fake, i);
        CHECK(fake->cpu.packet_count > before, "event %u: no MTC", i);
    }
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet))
        if (packet.kind == PACKET_MTC) {
            CHECK(packet.value == last + 1, "MTC(%" PRIu64 ") after MTC(%" PRIu64 ")", packet.value,
                  last);
            last = packet.value;
        }
    CHECK(last == 19, "%" PRIu64 " MTCs", last);
    fake_close(fake);
}

/* Several periods passed unseen: the last MTC tells the current count. */
static void test_mtc_skipped(void)
{
    struct fake *fake = timed(VPT_CTL_MTCEN);
    const char *words;

    fake->clocks.art += 5;
    vpt_time(&fake->cpu);
    words = fake_words(fake, false);
    CHECK(strlen(words) >= 7 && strcmp(words + strlen(words) - 7, "MTC(15)") == 0, "[%s]", words);
    fake_stop(fake);
    fake_close(fake);
}

/* ---- TSC, TMA, CBR -------------------------------------------------------------------------- */

static void test_tsc(void)
{
    struct fake *fake = timed(VPT_CTL_TSCEN | VPT_CTL_MTCEN);

    fake->mark = 0;
    CHECK(strstr(fake_words(fake, true), "TSC(f4240) TMA(2710,0) ") != NULL,
          "Table 33-30, 33-32: [%s]", fake_words(fake, true));
    fake_mark(fake);
    fake->clocks.tsc = 0xfe23456789abcdef;
    fake->clocks.fast = 0x1ff;
    fake->clocks.art = 10000 + 3;
    vpt_set_core_ratio(&fake->cpu, 33);
    EXPECT(fake, "MTC(13)? TSC(23456789abcdef) TMA(2713,1ff) CBR(33)", "Table 33-55 case 25");
    fake_close(fake);

    fake = timed(0);
    vpt_set_core_ratio(&fake->cpu, 17);
    EXPECT(fake, "CBR(17)", "case 25 without TSC");
    fake_close(fake);
}

/* CBR in PSB+ and at enabling tells the ratio; at first that of the base frequency. */
static void test_cbr(void)
{
    struct fake *fake = timed(0);
    char word[32];

    fake->mark = 0;
    snprintf(word, sizeof(word), "CBR(%u) ", fake->caps.max_nonturbo_ratio);
    CHECK(strstr(fake_words(fake, true), word) != NULL, "[%s]", fake_words(fake, true));
    fake_stop(fake);
    vpt_set_core_ratio(&fake->cpu, 40);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_mark(fake);
    fake_write(fake, VPT_MSR_CTL, BOTH | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    CHECK(strstr(fake_words(fake, true), "CBR(40) ") != NULL, "[%s]", fake_words(fake, true));
    fake_stop(fake);
    fake_close(fake);
}

/* ---- CYC
 * ------------------------------------------------------------------------------------------ */

static struct fake *cyc(unsigned level, uint64_t *start)
{
    struct fake *fake = timed(VPT_CTL_CYCEN | CYC_LEVEL(level));

    fake->clocks.cycles += 1000000; /* far from whatever was sent at enabling */
    *start = fake->clocks.cycles;
    return fake;
}

static void at(struct fake *fake, uint64_t cycle)
{
    fake->clocks.cycles = cycle;
}

static void test_example_33_1(void)
{
    uint64_t x;
    struct fake *fake = cyc(0, &x);

    vpt_call_indirect(&fake->cpu, 0x402000, 0x401002);
    fake_mark(fake);
    at(fake, x + 2);
    vpt_call_indirect(&fake->cpu, 0x403000, 0x402002);
    at(fake, x + 8);
    vpt_cond_branch(&fake->cpu, 0x403002, false);
    at(fake, x + 9);
    vpt_ret(&fake->cpu, 0x402002);
    at(fake, x + 12);
    vpt_cond_branch(&fake->cpu, 0x402010, true);
    at(fake, x + 16);
    vpt_ret(&fake->cpu, 0x409000);
    at(fake, x + 4111);
    vpt_time(&fake->cpu);
    at(fake, x + 12305);
    vpt_time(&fake->cpu);
    at(fake, x + 16332);
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x409003);
    /* Stand-alone CYC packets may come or not; their sum may not differ. */
    EXPECT(fake,
           "CYC(2) TIP(403000) CYC(6) TNT(NTT) CYC(8) TIP(409000) CYC(16316) PIP(5000) CYC(*?",
           "Example 33-1");
    fake_close(fake);
}

static void test_example_33_2(void)
{
    uint64_t x;
    struct fake *fake = cyc(0, &x);
    struct vpt_context after = context_of(0);

    vpt_call_direct(&fake->cpu, 0x402000, 0x401005);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fake_mark(fake);
    at(fake, x + 5);
    vpt_cond_branch(&fake->cpu, 0x402010, false);
    at(fake, x + 7);
    vpt_ret(&fake->cpu, 0x401005);
    at(fake, x + 13);
    vpt_cond_branch(&fake->cpu, 0x402020, true);
    at(fake, x + 14);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    at(fake, x + 17);
    vpt_cond_branch(&fake->cpu, 0x403010, false);
    at(fake, x + 37);
    after.cr3 = 0x5000;
    after.exec_mode = VPT_EXEC_32;
    fake_transfer(fake, VPT_SOFT_INTERRUPT, 0x403010, 0x404000, &after);
    EXPECT(fake,
           "CYC(5) TNT(NTT) CYC(9) TIP(403000) CYC(3) TNT(N) FUP(403010) CYC(20) PIP(5000) "
           "MODE(32) TIP(404000)",
           "Example 33-2: packets of one cycle share one CYC");
    fake_close(fake);
}

/* Table 33-13: one column for each threshold; 'C' where a CYC precedes the packet. */
static void test_table_33_13(void)
{
    static const struct {
        unsigned level;
        const char *cyc;
    } columns[] = {{0, "CCCCCCCC"}, {5, "C--C-CC-"}, {6, "C---C--C"}, {7, "C-----C-"}};
    static const unsigned times[] = {0, 9, 15, 30, 38, 46, 64, 71};

    for (size_t c = 0; c < sizeof(columns) / sizeof(columns[0]); c++) {
        uint64_t x;
        struct fake *fake = cyc(columns[c].level, &x);
        char pattern[512] = "";
        size_t n = 0;
        unsigned last = 0;

        for (size_t i = 0; i < 8; i++) {
            at(fake, x + times[i]);
            if (i == 4)
                vpt_mov_cr3(&fake->cpu, 0x5000, 0x402000);
            else
                vpt_jmp_indirect(&fake->cpu, 0x402000);
            if (columns[c].cyc[i] == 'C') {
                n += (size_t)(i == 0 ? snprintf(pattern + n, sizeof(pattern) - n, "CYC(* ")
                                     : snprintf(pattern + n, sizeof(pattern) - n, "CYC(%u) ",
                                                times[i] - last));
                last = times[i];
            }
            n += (size_t)snprintf(pattern + n, sizeof(pattern) - n,
                                  i == 4 ? "PIP(5000) " : "TIP(402000) ");
        }
        EXPECT(fake, pattern, "Table 33-13");
        fake_close(fake);
    }
}

/* Every threshold: nothing at one cycle less, a CYC at the threshold. */
static void test_thresholds(void)
{
    for (unsigned level = 1; level < 16; level++) {
        uint64_t x, n = 1ull << (level - 1);
        struct fake *fake = cyc(level, &x);
        char pattern[64];

        vpt_jmp_indirect(&fake->cpu, 0x402000);
        fake_mark(fake);
        at(fake, x + n - 1);
        vpt_jmp_indirect(&fake->cpu, 0x403000);
        at(fake, x + n);
        vpt_jmp_indirect(&fake->cpu, 0x404000);
        snprintf(pattern, sizeof(pattern), "TIP(403000) CYC(%" PRIu64 ") TIP(404000)", n);
        EXPECT(fake, pattern, "Table 33-6, CycThresh");
        fake_close(fake);
    }
}

/* Sizes of the payload: 5 bits, then 7 in each further byte (Table 33-33). */
static void test_cyc_sizes(void)
{
    static const struct {
        uint64_t cycles;
        size_t len_bytes;
    } cases[] = {{1, 1},      {31, 1},     {32, 2},         {4095, 2},      {4096, 3},
                 {524287, 3}, {524288, 4}, {1ull << 33, 6}, {1ull << 40, 7}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t x, sum = 0;
        struct fake *fake = cyc(0, &x);
        struct reader reader;
        struct packet packet;
        size_t bytes = 0, cycs = 0;

        vpt_jmp_indirect(&fake->cpu, 0x402000);
        fake_mark(fake);
        at(fake, x + cases[i].cycles);
        vpt_jmp_indirect(&fake->cpu, 0x403000);
        fake_stop(fake);
        reader_open(&reader, fake->tap, fake->tap_len);
        while (reader_next(&reader, &packet)) {
            if (packet.kind != PACKET_CYC || packet.offset < fake->mark)
                continue;
            sum += packet.value;
            bytes += packet.len_bytes;
            cycs++;
        }
        CHECK(sum == cases[i].cycles, "%" PRIu64 " cycles read %" PRIu64, cases[i].cycles, sum);
        CHECK(cycs != 1 || bytes == cases[i].len_bytes, "%" PRIu64 " cycles in %zu bytes",
              cases[i].cycles, bytes);
        fake_close(fake);
    }
}

/* CYC stands right before its packet: all eligible kinds (33.3.6). */
static void test_eligible(void)
{
    uint64_t x;
    struct fake *fake = cyc(0, &x);
    struct vpt_context user = context_of(3), kernel = context_of(0);

    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fake_stop(fake);
    fake_write(fake, VPT_MSR_ADDR0_A, 0x402000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x402fff);
    fake_write(fake, VPT_MSR_CTL,
               VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_CYCEN | VPT_CTL_PTWEN | VPT_CTL_TOPA |
                   VPT_CTL_TRACEEN | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    fake_mark(fake);
    at(fake, x + 10);
    vpt_jmp_direct(&fake->cpu, 0x402000);
    at(fake, x + 13);
    vpt_ptwrite(&fake->cpu, 5, 4, 0x402000);
    at(fake, x + 17);
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x402003);
    at(fake, x + 22);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x402003, 0x402100, &kernel);
    at(fake, x + 28);
    vpt_cond_branch(&fake->cpu, 0x402200, true);
    at(fake, x + 35);
    fake_transfer(fake, VPT_IRET, 0x402200, 0x7000, &user);
    EXPECT(fake,
           "CYC(10) MODE(64)? PGE(402000) CYC(3) PTW4(5) CYC(4) PIP(5000) CYC(5) PIP(1000) "
           "TIP(402100) CYC(6) TNT(T) CYC(7) PGD()",
           "33.3.6, CYC-eligible packets");
    fake_close(fake);
}

/* The timing packets that are CYC-eligible themselves: MTC and TSC; CBR and TMA are not. */
static void test_eligible_timing(void)
{
    uint64_t x;
    struct fake *fake = timed(VPT_CTL_CYCEN | VPT_CTL_MTCEN | VPT_CTL_TSCEN);

    fake->clocks.cycles += 1000;
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fake_mark(fake);
    x = fake->clocks.cycles;
    at(fake, x + 10);
    fake->clocks.art++;
    vpt_time(&fake->cpu);
    at(fake, x + 25);
    vpt_set_core_ratio(&fake->cpu, 9);
    EXPECT(fake, "CYC(10) MTC(11) CYC(15) TSC(f4240) TMA(2711,0) CBR(9)", "33.3.6");
    fake_close(fake);
}

/* OVF is eligible: its CYC tells how long the overflow lasted (33.3.8.2). */
static void test_overflow(void)
{
    uint64_t x, sum = 0, enabled = 5000; /* see timed() */
    struct fake *fake = cyc(0, &x);
    struct reader reader;
    struct packet packet;
    bool ovf = false;

    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_flush(&fake->cpu);
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_FAULT, NULL, false);
    for (unsigned i = 1; i <= 1000; i++) {
        at(fake, x + i);
        vpt_jmp_indirect(&fake->cpu, 0x402000);
    }
    fake_unmap(fake);
    at(fake, x + 5000);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (!ovf && reader_next(&reader, &packet)) {
        sum += packet.kind == PACKET_CYC ? packet.value : 0;
        ovf = packet.kind == PACKET_OVF;
    }
    CHECK(ovf, "no OVF");
    CHECK(sum == x + 5000 - enabled, "%" PRIu64 " cycles before OVF", sum);
    fake_close(fake);
}

void suite_timing(void)
{
    static const struct test tests[] = {
        {"MTC", test_mtc},
        {"MTC before an event", test_mtc_before_event},
        {"MTC out of context", test_mtc_out_of_context},
        {"MTC never in context", test_mtc_never_in_context},
        {"every event has its time", test_every_event_has_its_time},
        {"MTC after a long time", test_mtc_skipped},
        {"TSC and TMA", test_tsc},
        {"CBR", test_cbr},
        {"Example 33-1", test_example_33_1},
        {"Example 33-2", test_example_33_2},
        {"Table 33-13", test_table_33_13},
        {"CycThresh", test_thresholds},
        {"CYC payloads", test_cyc_sizes},
        {"CYC-eligible packets", test_eligible},
        {"CYC before MTC and TSC", test_eligible_timing},
        {"CYC before OVF", test_overflow},
        {NULL, NULL},
    };

    add_suite("timing (33.3.6, 33.8.3)", tests);
}
