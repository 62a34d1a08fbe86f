/* SPDX-License-Identifier: BSD-3-Clause */
/* What causes packets of time and synchronisation: Tables 33-29 to 33-39. */
#include "generation.h"

#include <stdio.h>
#include <string.h>

/* ---- Timing --------------------------------------------------------------------------------- */

static void cbr_causes(void)
{
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER, .core_ratio = 17};
    struct fake *fake = all_packets(OS);

    vpt_set_core_ratio(&fake->cpu, 33);
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "CBR(33) CBR(17)");
    fake = all_packets(OS);
    fake->mark = 0;
    CHECK(words_match("PSB PIP(1000) CBR(24) PSBEND", fake_words(fake, true)),
          "PSB+, and at enable: %s", fake_words(fake, true));
    end_quietly(fake);
}
static void tsc_causes(void)
{
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER};
    struct fake *fake = all_packets(OS | VPT_CTL_TSCEN);

    fake->clocks.tsc = 0xfedcba9876543210;
    vpt_set_core_ratio(&fake->cpu, 9);
    SO_FAR(fake, "TSC(dcba9876543210) CBR(9)");
    vpt_power_exit(&fake->cpu, &wake);
    SO_FAR(fake, "TSC(dcba9876543210) CBR(9)");
    fake_stop(fake);
    fake_mark(fake);
    fake->clocks.tsc++;
    fake_write(fake, VPT_MSR_CTL, OS | VPT_CTL_TSCEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    END(fake, "TSC(dcba9876543211) CBR(9)");
}
static void tma_follows(void)
{
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER};
    struct fake *fake =
        all_packets(OS | VPT_CTL_TSCEN | VPT_CTL_MTCEN | 5ull << VPT_CTL_MTCFREQ_SHR);

    fake->clocks = (struct vpt_clocks){.tsc = 0x777, .art = 0x1f, .fast = 0x3ff};
    vpt_set_core_ratio(&fake->cpu, 9);
    SO_FAR(fake, "TSC(777) TMA(1f,1ff) CBR(9)");
    fake->clocks.art = 0x123456;
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "TSC(777) TMA(3456,1ff) CBR(9)");
}
/* An MTC with each change of the selected bit, none between; its payload are the 8 bits there. */
static void mtc_period(void)
{
    for (uint64_t freq = 0; freq < 16; freq++) {
        struct fake *fake = all_packets(OS | VPT_CTL_MTCEN | freq << VPT_CTL_MTCFREQ_SHR);

        fake->clocks.art = (1ull << freq) - 1;
        vpt_time(&fake->cpu);
        SO_FAR(fake, "");
        fake->clocks.art = 1ull << freq;
        vpt_time(&fake->cpu);
        vpt_time(&fake->cpu);
        SO_FAR(fake, "MTC(1)");
        fake->clocks.art = 0x1feull << freq;
        vpt_time(&fake->cpu);
        SO_FAR(fake, "MTC(fe)");
        fake->clocks.art = 0x200ull << freq;
        vpt_time(&fake->cpu);
        END(fake, "MTC(0)");
    }
}
/* Sizes by value: 5 bits, then 7 more in each byte. */
static void cyc_sizes(void)
{
    static const struct {
        uint64_t cycles;
        uint8_t bytes[6];
        size_t count;
    } sizes[] = {
        {1, {0x0b}, 1},
        {31, {0xfb}, 1},
        {32, {0x07, 0x02}, 2},
        {4095, {0xff, 0xfe}, 2},
        {4096, {0x07, 0x01, 0x02}, 3},
        {0x7ffff, {0xff, 0xff, 0xfe}, 3},
        {0x80000, {0x07, 0x01, 0x01, 0x02}, 4},
        {0x87654321, {0x0f, 0x33, 0xa9, 0xd9, 0x42}, 5},
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fake *fake = all_packets(OS | VPT_CTL_CYCEN | VPT_CTL_PWREVTEN);

        fake->clocks.cycles += sizes[i].cycles;
        vpt_exec_stop(&fake->cpu, SOURCE);
        vpt_flush(&fake->cpu);
        CHECK(fake->tap_len - fake->mark > sizes[i].count &&
                  memcmp(fake->tap + fake->mark, sizes[i].bytes, sizes[i].count) == 0,
              "%llu cycles", (unsigned long long)sizes[i].cycles);
        CHECK(fake->tap[fake->mark + sizes[i].count] == 0x02, "of %zu bytes", sizes[i].count);
        end_quietly(fake);
    }
}
/* One CYC for all that is sent in a cycle; the next one counts from there. */
static void cyc_once(void)
{
    struct fake *fake = all_packets(TRACED | VPT_CTL_CYCEN);

    fake->clocks.cycles += 5;
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    fake->clocks.cycles += 6;
    vpt_jmp_indirect(&fake->cpu, 0x404000);
    END(fake, "CYC(5) TIP(402000) TIP(403000) CYC(6) TIP(404000)");
}

/* ---- VMCS, OVF, PSB, MNT, PAD --------------------------------------------------------------- */

/* Whether the PSB+ that comes when enough bytes were sent has just these packets. */
static bool next_psb(struct fake *fake, const char *pattern)
{
    const char *words, *end;
    char psb[256];

    fake_mark(fake);
    for (unsigned i = 0; i < 190; i++)
        vpt_maintenance(&fake->cpu, i);
    words = strstr(fake_words(fake, true), "PSB ");
    end = words ? strstr(words, "PSBEND") : NULL;
    snprintf(psb, sizeof(psb), "%.*s", end ? (int)(end - words) : 0, words ? words : "");
    fake_mark(fake);
    return CHECK(words_match(pattern, psb), "expected [%s], got [%s]", pattern, psb);
}
static void vmcs_pointer(void)
{
    struct fake *fake = all_packets(OS);

    vpt_vmxon(&fake->cpu, 0x400000);
    next_psb(fake, "PSB PIP(1000) VMCS(ffffffffff000) CBR(24)");
    vpt_vmptrld(&fake->cpu, 0x678abcde000);
    SO_FAR(fake, "VMCS(678abcde000)");
    vpt_vmclear(&fake->cpu, 0x99000);
    next_psb(fake, "PSB PIP(1000) VMCS(678abcde000) CBR(24)");
    vpt_vmclear(&fake->cpu, 0x678abcde000);
    next_psb(fake, "PSB PIP(1000) VMCS(ffffffffff000) CBR(24)");
    vpt_vmptrld(&fake->cpu, 0x88000);
    vpt_vmxoff(&fake->cpu);
    next_psb(fake, "PSB PIP(1000) CBR(24)");
    vpt_vmxon(&fake->cpu, 0x400000);
    next_psb(fake, "PSB PIP(1000) VMCS(ffffffffff000) CBR(24)");
    end_quietly(fake);
}
static void vmcs_misc(void)
{
    struct vpt_caps caps = rich_caps();
    struct fake *fake;

    caps.vmx_misc_pt = false;
    fake = begin_caps(&caps, OS);
    vpt_vmxon(&fake->cpu, 0x400000);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "VMXON clears TraceEn");
    CHECK(wrmsr(fake, VPT_MSR_CTL, OS | VPT_CTL_TOPA | VPT_CTL_TRACEEN) == VPT_GP,
          "and it cannot be set again");
    vpt_vmptrld(&fake->cpu, 0x88000);
    SO_FAR(fake, "");
    fake_close(fake);
}
static void ovf_resolved(void)
{
    struct fake *fake = all_packets(TRACED);
    const char *words;

    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 3000);
    words = fake_words(fake, false);
    CHECK(!strstr(words, "OVF"), "not before the way is free: %s", words);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_direct(&fake->cpu, 0x405000);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words && words_match("OVF FUP(405000) PSB+", words), "%s", words ? words : "no OVF");
    end_quietly(fake);
}
/* Bytes from one PSB to the next, for each encoding up to 1 MiB. */
static void psb_period(void)
{
    for (uint64_t freq = 0; freq < 10; freq++) {
        const uint64_t period = 2048ull << freq;
        struct vpt_caps caps = plain_caps("skylake");
        struct fake *fake;
        uint64_t before;

        allow_all_encodings(&caps);
        fake = fake_open_caps(&caps);
        fake->tap_off = true;
        fake_start(fake, TRACED | freq << VPT_CTL_PSBFREQ_SHR);
        fake->tap_off = true;
        fake_noise(fake, 7 * (period / 7) - 70);
        before = fake->cpu.bytes_since_psb;
        CHECK(before > period / 2 && before < period, "%u: no PSB before %llu bytes",
              (unsigned)freq, (unsigned long long)before);
        fake_noise(fake, 140);
        CHECK(fake->cpu.bytes_since_psb < 200, "%u: a PSB at %llu", (unsigned)freq,
              (unsigned long long)period);
        end_quietly(fake);
    }
}
static void psb_enable(void)
{
    for (unsigned count = 0; count < 2; count++) {
        struct fake *fake = fake_open("max");

        fake_write(fake, VPT_MSR_STATUS, (uint64_t)count << VPT_STATUS_BYTECNT_SHR);
        fake_output(fake);
        fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
        END(fake, count ? "CBR(24) MODE(16) PGE(401000)" : "PSB+ MODE(16) PGE(401000)");
    }
}
static void mnt_payload(void)
{
    struct fake *fake = all_packets(OS);

    vpt_maintenance(&fake->cpu, 0x1122334455667788);
    BYTES(fake, 0x02, 0xc3, 0x88, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11);
}
static void pad_aligns(void)
{
    for (unsigned align = 2; align <= 64; align *= 2) {
        struct vpt_caps caps = rich_caps();
        struct reader reader;
        struct packet packet;
        unsigned psbs = 0;
        struct fake *fake;

        caps.psb_align_bytes = (uint8_t)align;
        fake = begin_caps(&caps, TRACED);
        fake_noise(fake, 10000);
        vpt_flush(&fake->cpu);
        reader_open(&reader, fake->tap, fake->tap_len);
        while (reader_next(&reader, &packet))
            if (packet.kind == PACKET_PSB) {
                psbs++;
                CHECK(packet.offset % align == 0, "a PSB at %zu of %u", packet.offset, align);
            }
        CHECK(psbs > 4 && !reader.bad, "%u PSBs", psbs);
        end_quietly(fake);
    }
}

static const struct rule causes[] = {
    {"33-29 CBR", "changes of frequency, wake, PSB+, enabling", TEST(cbr_causes)},
    {"33-30 TSC", "changes of frequency, wake, enabling; the lower 7 bytes", TEST(tsc_causes)},
    {"33-31 MTC", "each toggle of the ART bit that MTCFreq selects; the 8 bits from there",
     TEST(mtc_period)},
    {"33-32 TMA", "right behind each TSC; 16 bits of the ART, 9 of the fast counter",
     TEST(tma_follows)},
    {"33-33 CYC, sizes", "5 bits, and 7 in each byte more", TEST(cyc_sizes)},
    {"33-33 CYC", "one in a cycle; counts from the last one", TEST(cyc_once)},
    {"33-34 VMCS", "VMPTRLD and PSB+; all ones without a pointer", TEST(vmcs_pointer)},
    {"33-34 VMCS without VMX_MISC[14]", "none", TEST(vmcs_misc)},
    {"33-35 OVF", "when the overflow is resolved, with a FUP of where it goes on",
     TEST(ovf_resolved)},
    {"33-36 PSB", "each time that the bytes of PSBFreq were sent", TEST(psb_period)},
    {"33-36 PSB, enabling", "if PacketByteCnt is 0", TEST(psb_enable)},
    {"33-38 MNT", "with its payload of 8 bytes", TEST(mnt_payload)},
    {"33-39 PAD", "where the implementation aligns PSBs", TEST(pad_aligns)},
    {0},
};

const struct table generation_time_tables[] = {
    {"33.4.2 causes, time", "What packets are sent for: time and synchronisation", 0, causes},
    {0},
};
