/* SPDX-License-Identifier: BSD-3-Clause */
/* A VMM's duties about a guest's own trace (33.5.2.3, 33.5.2.4). */
#include "harness.h"

#include <string.h>

#define CTL (VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN)
#define ONE (1ull << 48)

/* The guest's trace stops for an exit of MOV CR3, the VMM adds the PIP, the guest goes on. */
static void test_pip(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context ctx = context_of(0);

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    fake_stop(fake);
    fake_mark(fake);
    ctx.cr3 = 0x8000;
    CHECK(vpt_insert_pip(&fake->cpu, CTL, &ctx, false), "a PIP");
    CHECK(!vpt_trigger_en(&fake->cpu) && !(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN),
          "TraceEn stays 0");
    CHECK(!(fake_read(fake, VPT_MSR_STATUS) & (VPT_STATUS_CONTEXTEN | VPT_STATUS_TRIGGEREN)),
          "so do the enables");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) >> 32 == fake->tap_len, "the output moves on");
    fake_write(fake, VPT_MSR_CTL, CTL);
    EXPECT(fake, "PIP(8000) CBR(26) MODE(64) PGE(401000)", "33.5.2.3");
    fake_mark(fake);
    CHECK(vpt_insert_pip(&fake->cpu, CTL, &ctx, true), "a PIP");
    CHECK(words_match("PIP(8000,NR)", fake_words(fake, false)), "33.4.2.7, not concealed: [%s]",
          fake_words(fake, false));
    fake_close(fake);
}

static void test_no_pip(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context ctx = context_of(0);

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    CHECK(!vpt_insert_pip(&fake->cpu, CTL, &ctx, false), "while TraceEn is 1");
    fake_stop(fake);
    fake_mark(fake);
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x3000);
    CHECK(!vpt_insert_pip(&fake->cpu, CTL | VPT_CTL_CR3FILTER, &ctx, false),
          "33.4.2.7: ContextEn = 0");
    CHECK(!vpt_insert_pip(&fake->cpu, CTL & ~VPT_CTL_TRACEEN, &ctx, false),
          "the guest does not trace");
    CHECK(!vpt_insert_pip(&fake->cpu, CTL & ~VPT_CTL_OS, &ctx, false), "33.4.2.7: OS = 0");
    CHECK(!vpt_insert_pip(&fake->cpu, CTL | 1u << 18, &ctx, false), "a bad RTIT_CTL");
    CHECK(!(fake_read(fake, VPT_MSR_STATUS) & VPT_STATUS_CONTEXTEN), "the enables stay 0");
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
    CHECK(!vpt_insert_pip(&fake->cpu, CTL, &ctx, false), "Stopped");
    CHECK(fake_words(fake, false)[0] == '\0', "no bytes");
    fake_close(fake);
}

/* It waits for a page, and goes to the guest's ToPA though RTIT_CTL is the VMM's again. */
static void test_pip_waits(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context ctx = context_of(0);

    fake_output(fake);
    ctx.cr3 = 0x8000;
    fake_map(fake, REGION_GPA, 0x1000, VPT_SPAN_FAULT, NULL, false);
    CHECK(vpt_insert_pip(&fake->cpu, CTL, &ctx, false), "a PIP");
    CHECK(vpt_output_blocked(&fake->cpu) && fake->tap_total == 0, "it waits");
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    CHECK(!vpt_output_blocked(&fake->cpu) && fake->store_count == 1 &&
              fake->stores[0].gpa == REGION_GPA,
          "33.5.2.3: where the guest's output is");
    EXPECT(fake, "PIP(8000)", "33.5.2.3");
    fake_close(fake);
}

static void test_cr3_match(void)
{
    const uint64_t real = 0x77abc000;

    CHECK(vpt_translate_cr3_match(0x5000, 0x5000, real, false) == real, "the guest's CR3 matches");
    CHECK(vpt_translate_cr3_match(0x5000, 0x5018, real, false) == real, "33.2.5.2: bits 11:0");
    CHECK(vpt_translate_cr3_match(0x5020, 0x5020, real, true) == real, "PAE");
    CHECK((vpt_translate_cr3_match(0x5000, 0x6000, real, false) ^ real) >> 12 != 0,
          "another CR3 must not match");
    CHECK((vpt_translate_cr3_match(0x5000, 0x5020, real, true) ^ real) >> 5 != 0,
          "33.2.5.2: PAE compares bits 11:5");
    CHECK((vpt_translate_cr3_match(1, 2, UINT64_MAX, false) & 0x1f) == 0, "Table 33-6: reserved");
}

/* Outside a block, a byte that ends in 100 is a TNT again. */
static void test_rewrite_after_block(void)
{
    uint8_t trace[] = {0x02, 0x63, 0x04, 0x02, 0x33, 0x0c, 0x19, 7, 0, 0, 0, 0, 0, 0, 0x02, 0x23};

    CHECK(vpt_rewrite_tsc(trace, sizeof(trace), 0, 1) == sizeof(trace), "up to the PSBEND");
    CHECK(trace[7] == 8 && trace[5] == 0x0c, "the TSC behind a TNT");

    /* An OVF and a PSB end a block as well; an IP of 8 bytes; an item of 8 bytes. */
    uint8_t others[] = {0x02, 0x63, 0x04, 0x0c, 1,    2,    3,    4,    5,    6,    7,
                        8,    0x02, 0xf3, 0x0c, 0x02, 0x63, 0x84, 0x02, 0x82, 0x02, 0x82,
                        0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02,
                        0x82, 0x0c, 0xcd, 1,    2,    3,    4,    5,    6,    7,    8,
                        0x19, 9,    0,    0,    0,    0,    0,    0};

    CHECK(vpt_rewrite_tsc(others, sizeof(others), 0, 1) == sizeof(others), "all of it");
    CHECK(others[sizeof(others) - 7] == 10, "the TSC behind");
}

static void test_rewrite(void)
{
    /* PSB, TSC, CYC of two bytes, a block whose item looks like a TSC, TSC, a TIP cut off */
    uint8_t trace[] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
                       0x02, 0x82, 0x02, 0x82, 0x19, 0x00, 0x10, 0,    0,    0,    0,    0,
                       0x07, 0x18, 0x02, 0x63, 0x84, 0x0c, 0x19, 0x19, 0x19, 0x19, 0x02, 0x33,
                       0x19, 0x00, 0x20, 0,    0,    0,    0,    0,    0x6d, 0x01, 0x02};
    uint8_t expected[sizeof(trace)];

    memcpy(expected, trace, sizeof(trace));
    expected[17] = 0x05;
    expected[18] = 0x20; /* 2 * 1000h + 5 */
    expected[37] = 0x05;
    expected[38] = 0x40;
    CHECK(vpt_rewrite_tsc(trace, sizeof(trace), 2 * ONE, 5) == sizeof(trace) - 3,
          "the TIP that is cut off");
    CHECK(memcmp(trace, expected, sizeof(trace)) == 0, "only TSC packets change");
    CHECK(vpt_rewrite_tsc(trace, 20, ONE, 0) == 16, "a TSC that is cut off");
    trace[0] = 0xfd;
    CHECK(vpt_rewrite_tsc(trace, sizeof(trace), ONE, 0) == 0, "a reserved size of an IP");
    trace[0] = 0x05;
    CHECK(vpt_rewrite_tsc(trace, sizeof(trace), ONE, 0) == 0, "no packet");
}

/* A multiplier works on all 64 bits of a TSC, of which a packet has 56. */
static void test_rewrite_upper_byte(void)
{
    static const struct {
        uint64_t tsc, near_tsc, guest;
    } cases[] = {
        {0x0300000000000010, 0x0300000000000020, 0x80000000000018},
        {0x02fffffffffffff0, 0x0300000000000005, 0x7fffffffffffe8},
        {0x0300000000000010, 0x02ffffffffffff00, 0x80000000000018},
        {0x00fffffffffffff0, 0x00f0000000000000, 0x7fffffffffffe8},
        {0x0100000000000000, 0x00fffffffffffff0, 0x80000000000000},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t trace[8] = {0x19};
        uint64_t guest = 0;

        for (unsigned n = 0; n < 7; n++)
            trace[1 + n] = (uint8_t)(cases[i].tsc >> (8 * n));
        CHECK(vpt_rewrite_tsc_near(trace, sizeof(trace), 3 * ONE / 2, 0, cases[i].near_tsc) == 8,
              "case %zu", i);
        for (unsigned n = 0; n < 7; n++)
            guest |= (uint64_t)trace[1 + n] << (8 * n);
        CHECK(guest == cases[i].guest, "33.5.2.3, case %zu: %llx", i, (unsigned long long)guest);
    }

    uint8_t below[] = {0x19, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    CHECK(vpt_rewrite_tsc(below, sizeof(below), ONE / 2, 0) == 8 && below[7] == 0x7f &&
              below[1] == 0xf8,
          "a TSC below 2^56 needs no upper byte");
}

/* Adds 123456789H to every TSC, and looks with the tests' own reader. */
static void check_rewritten(struct fake *fake)
{
    const uint8_t *before = fake->ram + REGION_GPA;
    struct reader old, new;
    struct packet was, is;
    unsigned tscs = 0;

    CHECK(vpt_rewrite_tsc(fake->tap, fake->tap_len, ONE, 0x123456789) == fake->tap_len,
          "the whole trace");
    reader_open(&old, before, fake->tap_len);
    reader_open(&new, fake->tap, fake->tap_len);
    while (reader_next(&old, &was) && reader_next(&new, &is)) {
        const uint64_t more = was.kind == PACKET_TSC ? 0x123456789 : 0;

        tscs += was.kind == PACKET_TSC;
        if (!CHECK(was.kind == is.kind && was.len_bytes == is.len_bytes &&
                       was.value + more == is.value && was.extra == is.extra,
                   "the packet at %zu", was.offset))
            break;
    }
    CHECK(!old.bad && !new.bad &&tscs > 100, "%u TSC packets", tscs);
}

/* Every packet that the model makes is passed over in its full length. */
static void test_rewrite_all(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;
    const struct vpt_power_entry sleep = {.mwait = true, .state = 1};
    const struct vpt_power_exit wake = {.reason = 1};
    const struct vpt_block_item item = {3, 0x1919191919191919};
    const struct vpt_block block = {.type = 4, .count = 1, .items = &item};
    struct vpt_vm_exit exit = {.host_ip = 0x402000, .ip = 0x403000};

    caps.tsx = true;
    caps.long_tnt = true;
    fake = fake_open_caps(&caps);
    vpt_vmxon(&fake->cpu, 0x400000);
    exit.host = context_of(0);
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_PWREVTEN | VPT_CTL_EVENTEN |
                         VPT_CTL_PTWEN | VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN);
    for (unsigned i = 0; i < 200; i++) {
        fake->clocks.cycles += 1u << i % 20;
        fake->clocks.tsc += 0x1919;
        fake->clocks.art += 1 + i % 3;
        vpt_cond_branch(&fake->cpu, 0x401000, i % 3);
        vpt_tx_begin(&fake->cpu, 0x401010);
        vpt_tx_abort(&fake->cpu, 0x401010, 0x7f0000001919);
        vpt_power_entry(&fake->cpu, &sleep);
        vpt_power_exit(&fake->cpu, &wake);
        vpt_pebs(&fake->cpu, &block, 1, 0x401010);
        vpt_ptwrite(&fake->cpu, 0x1919191919191919, i & 1 ? 8 : 4, 0x401010);
        vpt_maintenance(&fake->cpu, 0x1919191919191919);
        vpt_vmptrld(&fake->cpu, 0x19191919000);
        vpt_vm_exit(&fake->cpu, &exit);
    }
    fake_stop(fake);
    check_rewritten(fake);
    fake_close(fake);
}

static void test_scale(void)
{
    struct vpt_caps host = plain_caps("icelake-server"), guest;
    const uint64_t three_halves = ONE + ONE / 2;

    CHECK(vpt_guest_tsc(1000, 0, (uint64_t)-1) == 999, "offset alone");
    CHECK(vpt_guest_tsc(1ull << 60, ONE / 2, 3) == (1ull << 59) + 3, "multiplier of 128 bits");

    /* 84 ticks per crystal clock and ratio 21; at 1.5: 126 and 32 (31.5 rounded). */
    CHECK(vpt_scale_caps(&host, three_halves, &guest), "1.5");
    CHECK(guest.tsc_num == 126 && guest.tsc_den == 1, "CPUID.15H: %u/%u", guest.tsc_num,
          guest.tsc_den);
    CHECK(guest.max_nonturbo_ratio == 32, "PLATFORM_INFO: %u", guest.max_nonturbo_ratio);
    CHECK(guest.crystal_hz == host.crystal_hz && vpt_caps_check(&guest) == NULL, "the rest");

    /* 1/3 of 84 is 28, as near as 48 bits and two 32-bit numbers come. */
    CHECK(vpt_scale_caps(&host, ONE / 3, &guest), "1/3");
    CHECK(guest.tsc_den != 0, "CPUID.15H");
    const double ratio = (double)guest.tsc_num / guest.tsc_den;

    CHECK(ratio > 27.9999999 && ratio < 28.0000001, "CPUID.15H: %.12f", ratio);

    CHECK(!vpt_scale_caps(&host, 0, &guest), "a TSC that stands still");
    CHECK(!vpt_scale_caps(&host, 100 * ONE, &guest), "a ratio of 2100");
    host.max_nonturbo_ratio = 255;
    CHECK(vpt_scale_caps(&host, ONE, &guest) && guest.max_nonturbo_ratio == 255, "255 is possible");
    CHECK(!vpt_scale_caps(&host, ONE / 1024, &guest), "a ratio of 0");
    host.max_nonturbo_ratio = 21;
    /* Fractions that do not fit: off by less than one part in 2^31. */
    for (uint64_t k = 1; k < 60; k++) {
        const uint64_t multiplier = ONE + k * 987654321987;
        const double want = 84.0 * (double)multiplier / (double)ONE;

        host.tsc_den = 2;
        host.tsc_num = 168;
        CHECK(vpt_scale_caps(&host, multiplier, &guest), "multiplier %llx",
              (unsigned long long)multiplier);
        const double got = (double)guest.tsc_num / guest.tsc_den;

        CHECK(got > want * (1 - 5e-10) && got < want * (1 + 5e-10), "%.12f, not %.12f", got, want);
    }
    host.tsc_num = 1;
    CHECK(vpt_scale_caps(&host, ONE, &guest) && guest.tsc_num == 1 && guest.tsc_den == 2, "1/2");
    host.tsc_den = 1;
    host.tsc_num = UINT32_MAX;
    CHECK(vpt_scale_caps(&host, ONE, &guest) && guest.tsc_num == UINT32_MAX && guest.tsc_den == 1,
          "the largest ratio");
    host.tsc_num = 0;
    CHECK(vpt_scale_caps(&host, ONE, &guest) && guest.tsc_num == 0, "a leaf 15H without ratio");
    host.tsc_den = host.tsc_num = 0;
    CHECK(vpt_scale_caps(&host, three_halves, &guest) && guest.tsc_num == 0, "no leaf 15H");
}

void suite_guest_trace(void)
{
    static const struct test tests[] = {
        {"PIP for MOV CR3", test_pip},
        {"no PIP", test_no_pip},
        {"a PIP that waits", test_pip_waits},
        {"CR3_MATCH", test_cr3_match},
        {"TSC packets", test_rewrite},
        {"TSC packets of a large TSC", test_rewrite_upper_byte},
        {"TSC packets after a block", test_rewrite_after_block},
        {"every packet has its length", test_rewrite_all},
        {"scaled TSC", test_scale},
        {NULL, NULL},
    };

    add_suite("duties of a VMM (33.5.2.3, 33.5.2.4)", tests);
}
