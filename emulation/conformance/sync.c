/* SPDX-License-Identifier: BSD-3-Clause */
/* PSB+, internal buffer overflow, TNT disable and operational errors (33.3.7 to 33.3.10). */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

#define PSB_BYTES 2048u
#define FIRST     0x500000ull
#define LAST      0x500fffull

/* ---- PSB+ ----------------------------------------------------------------------------------- */

/* The words of the first PSB+ since the mark, or of what came instead. */
static const char *psb_words(struct fake *fake)
{
    static char words[512];
    const char *found = strstr(fake_words(fake, true), "PSB "), *end;

    end = found ? strstr(found, "PSBEND") : NULL;
    snprintf(words, sizeof(words), "%.*s", end ? (int)(end - found) : 9, end ? found : "no PSB+");
    return words;
}
/* Packets that need nothing but TriggerEn, until a PSB is due; then a branch. */
static void fill(struct fake *fake)
{
    for (unsigned i = 0; i < PSB_BYTES / 11 + 1; i++)
        vpt_maintenance(&fake->cpu, i);
    vpt_jmp_direct(&fake->cpu, TARGET);
}
static void psb_contents(uint64_t ctl, const struct vpt_context *ctx, bool in_tx,
                         const char *pattern)
{
    struct vpt_caps caps = plain_caps("gracemont");
    struct fake *fake;
    const char *words;

    caps.tsx = in_tx;
    fake = fake_open_caps(&caps);
    fake_output(fake);
    vpt_set_context(&fake->cpu, ctx);
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    if (in_tx)
        vpt_tx_begin(&fake->cpu, SOURCE);
    fake_mark(fake);
    fake->clocks = (struct vpt_clocks){.tsc = 0x100, .art = 0, .fast = 3};
    fill(fake);
    words = psb_words(fake);
    CHECK(words_match(pattern, words), "expected [%s], got [%s]", pattern, words);
    end_quietly(fake);
}
static void psb_timing(void)
{
    const struct vpt_context ctx = at_cpl(3);

    psb_contents(OS | VPT_CTL_TSCEN, &ctx, false, "PSB TSC(100) CBR(28)");
    psb_contents(OS | VPT_CTL_TSCEN | VPT_CTL_MTCEN, &ctx, false, "PSB TSC(100) TMA(0,3) CBR(28)");
    psb_contents(OS | VPT_CTL_MTCEN, &ctx, false, "PSB CBR(28)");
    psb_contents(OS, &ctx, false, "PSB CBR(28)");
}
static void psb_state(void)
{
    const struct vpt_context kernel = at_cr3(0x5000), user = at_cpl(3);

    psb_contents(TRACED, &kernel, false, "PSB PIP(5000) CBR(28) MODE(64) FUP(402000)");
    psb_contents(TRACED, &user, false, "PSB PIP(1000) CBR(28) MODE(64) FUP(402000)");
    psb_contents(OS | USER, &kernel, false, "PSB PIP(5000) CBR(28)");
    psb_contents(USER | BRANCHEN, &user, false, "PSB CBR(28) MODE(64) FUP(402000)");
    psb_contents(OS | BRANCHEN, &user, false, "PSB CBR(28)");
}
static void psb_tsx(void)
{
    const struct vpt_context kernel = at_cr3(0x5000), user = at_cpl(3);

    psb_contents(TRACED, &kernel, true, "PSB PIP(5000) CBR(28) TSX(1) MODE(64) FUP(402000)");
    psb_contents(OS | USER, &kernel, true, "PSB PIP(5000) CBR(28)");
    psb_contents(OS | BRANCHEN, &user, true, "PSB CBR(28)");
}
/* Data that look like a PSB, where packets carry data. */
static void psb_unique(void)
{
    static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                    2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
    static const struct vpt_block_item items[] = {{0, 0x8202820282028202}, {2, 0x0282028202820282}};
    const struct vpt_block block = {.type = 4, .count = 2, .items = items};
    struct fake *fake = begin("gracemont", TRACED | VPT_CTL_PTWEN);
    struct reader reader;
    struct packet packet;
    size_t found = 0, packets = 0;

    for (unsigned i = 0; i < 500; i++) {
        vpt_ptwrite(&fake->cpu, i & 1 ? 0x8202820282028202 : 0x0282028202820282, 8, SOURCE);
        vpt_jmp_indirect(&fake->cpu, i & 2 ? 0x0282028202820282 : 0x0000020282028202);
        vpt_pebs(&fake->cpu, &block, 1, 0x828202820282);
        vpt_maintenance(&fake->cpu, i & 1 ? 0x8202820282028202 : 0x0282028202820282);
    }
    vpt_flush(&fake->cpu);
    for (size_t at = 0; at + sizeof(psb) <= fake->tap_len; at++)
        found += memcmp(fake->tap + at, psb, sizeof(psb)) == 0;
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet))
        packets += packet.kind == PACKET_PSB;
    CHECK(!reader.bad && packets > 5 && found == packets, "%zu times, %zu PSBs", found, packets);
    end_quietly(fake);
}
/* A PSB comes between operations, never in one; PSBEND closes what it opens. */
static void psb_between(void)
{
    struct fake *fake =
        begin("gracemont", TRACED | VPT_CTL_EVENTEN | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW);
    struct reader reader;
    struct packet packet;
    bool open = false, in_psb = false;
    unsigned psbs = 0;

    for (unsigned i = 0; i < 1500; i++) {
        struct vpt_context after = in_mode(i & 1 ? VPT_EXEC_32 : VPT_EXEC_64);

        after.cr3 = 0x1000 * i;
        transfer(fake, VPT_INTERRUPT, after);
        vpt_ptwrite(&fake->cpu, i, 4, SOURCE);
    }
    vpt_flush(&fake->cpu);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (packet.kind == PACKET_PSB) {
            psbs++;
            CHECK(!open && !in_psb, "a PSB within an operation, at %zu", packet.offset);
            in_psb = true;
        } else if (packet.kind == PACKET_PSBEND) {
            CHECK(in_psb, "PSBEND alone");
            in_psb = false;
        } else if (!in_psb) {
            open = packet.kind == PACKET_CFE || (packet.kind == PACKET_PTW) ||
                   (open && packet.kind != PACKET_TIP);
            if (packet.kind == PACKET_FUP && fake->tap[packet.offset - 6] == 0x02 &&
                fake->tap[packet.offset - 5] == 0x92)
                open = false; /* that of a PTW of 4 bytes */
        }
    }
    CHECK(psbs > 5 && !reader.bad && !in_psb, "%u PSBs", psbs);
    end_quietly(fake);
}
/* ---- When a PSB that is due comes ---- */

static void writes(struct fake *fake)
{
    vpt_ptwrite(&fake->cpu, 0x1234, 4, SOURCE);
}
static void stops_clock(struct fake *fake)
{
    vpt_exec_stop(&fake->cpu, SOURCE);
}
static void sleeps(struct fake *fake)
{
    const struct vpt_power_entry entry = {.ip = SOURCE, .state = 0x21};

    vpt_power_entry(&fake->cpu, &entry);
}
static void maintains(struct fake *fake)
{
    vpt_maintenance(&fake->cpu, 1);
}
static void changes_frequency(struct fake *fake)
{
    vpt_set_core_ratio(&fake->cpu, 20);
}
/* With the next instruction, though that has no packet of its own, and not before it is due. */
static void psb_prompt(void)
{
    static void (*const events[])(struct fake *) = {writes, stops_clock, sleeps, maintains,
                                                    changes_frequency};

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        struct fake *fake = begin("gracemont", TRACED | VPT_CTL_PTWEN | VPT_CTL_PWREVTEN);
        unsigned psbs = 0;

        for (unsigned n = 0; n < 1500; n++) {
            uint64_t packets;
            bool due;

            events[i](fake);
            due = fake->cpu.bytes_since_psb >= PSB_BYTES;
            packets = fake->cpu.packet_count;
            vpt_jmp_direct(&fake->cpu, TARGET);
            CHECK((fake->cpu.packet_count > packets) == due, "event %zu, time %u", i, n);
            CHECK(fake->cpu.bytes_since_psb < PSB_BYTES, "event %zu, time %u: PSB", i, n);
            psbs += due;
        }
        CHECK(psbs > 1, "%u PSBs", psbs);
        end_quietly(fake);
    }
}
/* TriggerEn is cleared when a PSB is due: it comes when tracing is enabled again. */
static void psb_preserved(void)
{
    for (unsigned way = 0; way < 4; way++) {
        struct fake *fake = fake_open("gracemont");
        const uint64_t ctl = TRACED | VPT_CTL_INJECT_PSB_PMI |
                             (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR;
        const struct vpt_context back = at_cpl(0);
        const char *words;

        fake_write(fake, VPT_MSR_ADDR0_A, FIRST);
        fake_write(fake, VPT_MSR_ADDR0_A + 1, LAST);
        fake_start(fake, ctl);
        for (unsigned i = 0; i < PSB_BYTES / 11 + 1; i++)
            vpt_maintenance(&fake->cpu, i); /* a PSB has to wait for an IP */
        CHECK(!fake_status(fake, VPT_STATUS_PENDPSB), "way %u: tracing goes on", way);
        if (way == 0)
            fake_stop(fake);
        else if (way == 1)
            vpt_smi(&fake->cpu, SOURCE);
        else if (way == 2)
            vpt_jmp_indirect(&fake->cpu, FIRST);
        else
            vpt_xsaves(&fake->cpu, &(struct vpt_xsave_area){0}, SOURCE);
        CHECK(fake_status(fake, VPT_STATUS_PENDPSB), "way %u: PendPSB", way);
        if (way == 2) {
            fake_stop(fake);
            fake_write(fake, VPT_MSR_STATUS, fake_read(fake, VPT_MSR_STATUS) & ~VPT_STATUS_STOPPED);
        }
        fake_mark(fake);
        if (way == 1)
            vpt_rsm(&fake->cpu, true, SOURCE, &back);
        else
            fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
        words = fake_words(fake, false);
        CHECK(words_match(way == 1 ? "PSB+ MODE(64) PGE(401010)" : "PSB+ MODE(64) PGE(401000)",
                          words),
              "way %u: %s", way, words);
        CHECK(!fake_status(fake, VPT_STATUS_PENDPSB), "way %u: it is cleared", way);
        end_quietly(fake);
    }
}

static const struct rule section_psb[] = {
    {"timing", "PSB+ has TSC with TSCEn, TMA with MTCEn besides, and CBR", TEST(psb_timing)},
    {"state", "PIP with ContextEn and OS; MODE.Exec and FUP with PacketEn", TEST(psb_state)},
    {"TSX", "MODE.TSX with ContextEn and BranchEn", TEST(psb_tsx)},
    {"unique", "nothing but a PSB has its bytes", TEST(psb_unique)},
    {"place", "never within an operation", TEST(psb_between)},
    {"promptness", "one that is due comes with the next instruction", TEST(psb_prompt)},
    {"preservation", "what was due when TriggerEn became 0 comes at enabling", TEST(psb_preserved)},
    {0},
};

/* ---- Overflow ------------------------------------------------------------------------------- */

/* A trace whose buffer has overflowed; memory takes nothing. */
static struct fake *overflowed(uint64_t ctl, unsigned cfg)
{
    struct fake *fake = begin_range("skylake", cfg, FIRST, LAST, ctl);

    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; !fake->cpu.overflow && i < 2000; i++) {
        vpt_set_core_ratio(&fake->cpu, 20);
        vpt_jmp_indirect(&fake->cpu, FIRST + (i & 0xff));
    }
    CHECK(fake->cpu.overflow, "an overflow");
    return fake;
}
/* Memory takes bytes again, and the processor jumps there; what follows from OVF on. */
static const char *resolved(struct fake *fake, uint64_t target)
{
    const char *words;

    vpt_stall(&fake->cpu, false);
    vpt_jmp_direct(&fake->cpu, target);
    words = strstr(fake_words(fake, false), "OVF");
    return words ? words : "no OVF";
}
static void overflow_ceases(void)
{
    struct fake *fake = overflowed(TRACED, VPT_ADDR_CFG_UNUSED);
    const uint64_t packets = fake->cpu.packet_count;
    const uint32_t waiting = fake->cpu.buf_len;
    const char *words;

    for (unsigned i = 0; i < 100; i++) {
        vpt_jmp_indirect(&fake->cpu, TARGET + i);
        vpt_mov_cr3(&fake->cpu, 0x1000 * i, TARGET);
    }
    CHECK(fake->cpu.packet_count == packets && fake->cpu.buf_len == waiting, "no packet in it");
    words = resolved(fake, 0x405000);
    CHECK(words_match("OVF FUP(405000) PSB+", words), "%s", words);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}
static void overflow_uncompressed(void)
{
    struct fake *fake = overflowed(TRACED, VPT_ADDR_CFG_UNUSED);
    struct reader reader;
    struct packet packet;
    bool behind = false;

    resolved(fake, 0x401008);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (behind && packet.kind == PACKET_FUP)
            CHECK(packet.ip_bytes == 3, "IPBytes %u behind OVF", packet.ip_bytes);
        behind = packet.kind == PACKET_OVF;
    }
    end_quietly(fake);
}
static void overflow_out(void)
{
    struct fake *fake = overflowed(OS | BRANCHEN, VPT_ADDR_CFG_UNUSED);
    const char *words;

    transfer(fake, VPT_IRET, at_cpl(3));
    words = resolved(fake, 0x405000);
    CHECK(words_match("OVF PSB+", words), "no FUP while PacketEn is 0: %s", words);
    fake_mark(fake);
    vpt_set_core_ratio(&fake->cpu, 9);
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    END(fake, "CBR(9) MODE(64) PGE(402000)");
}
static void overflow_filter(void)
{
    struct fake *fake = overflowed(TRACED, VPT_ADDR_CFG_FILTER);
    const char *words;

    CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "in the range");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    CHECK(!fake_status(fake, VPT_STATUS_FILTEREN), "out of it, in the overflow");
    vpt_jmp_indirect(&fake->cpu, FIRST);
    CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "and in again");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    words = resolved(fake, 0x405000);
    CHECK(words_match("OVF PSB+", words), "neither TIP.PGD nor TIP.PGE: %s", words);
    end_quietly(fake);
}
static void overflow_context(void)
{
    struct fake *fake = overflowed(OS | BRANCHEN, VPT_ADDR_CFG_UNUSED);

    transfer(fake, VPT_IRET, at_cpl(3));
    CHECK(!fake_status(fake, VPT_STATUS_CONTEXTEN), "ContextEn becomes 0");
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN), "and 1");
    CHECK(words_match("OVF FUP(405000) PSB+", resolved(fake, 0x405000)), "it is traced again");
    end_quietly(fake);
}
static void overflow_count(void)
{
    struct fake *fake = overflowed(TRACED, VPT_ADDR_CFG_UNUSED);
    const uint64_t before = fake->cpu.bytes_since_psb;

    fake_noise(fake, 3000);
    CHECK(fake->cpu.bytes_since_psb == before, "what is lost is not counted");
    end_quietly(fake);
}
static void overflow_timing(void)
{
    struct fake *fake = overflowed(TRACED | VPT_CTL_MTCEN, VPT_ADDR_CFG_UNUSED);
    const char *words;

    for (unsigned i = 0; i < 9; i++) {
        fake->clocks.art++;
        vpt_time(&fake->cpu);
    }
    words = resolved(fake, 0x405000);
    CHECK(words_match("OVF FUP(405000) PSB+", words), "MTCs are lost: %s", words);
    fake_mark(fake);
    fake->clocks.art++;
    vpt_time(&fake->cpu);
    END(fake, "MTC(a)");
}
/* ---- Ends of a trace that overflows ---- */

static void ends_by_smi(struct fake *fake)
{
    vpt_smi(&fake->cpu, SOURCE);
}
static void ends_by_xsaves(struct fake *fake)
{
    vpt_xsaves(&fake->cpu, &(struct vpt_xsave_area){0}, SOURCE);
}
static void ends_by_control(struct fake *fake)
{
    struct vpt_vm_exit exit = vmx_exit();

    exit.exit = VPT_EXIT_CLEAR_CTL;
    vpt_vm_exit(&fake->cpu, &exit);
}
static const struct vpt_msr_load clearing[] = {{VPT_MSR_CTL, TRACED | VPT_CTL_TOPA}};

static void ends_by_exit(struct fake *fake)
{
    struct vpt_vm_exit exit = vmx_exit();

    exit.loads = clearing;
    exit.load_count = 1;
    vpt_vm_exit(&fake->cpu, &exit);
}
static void ends_by_entry(struct fake *fake)
{
    struct vpt_vm_entry entry = vmx_entry();

    entry.loads = clearing;
    entry.load_count = 1;
    vpt_vm_entry(&fake->cpu, &entry);
}
static void ends_by_abort(struct fake *fake)
{
    vpt_vmx_abort(&fake->cpu, SOURCE);
}
/* Whatever clears TraceEn waits for memory, and tells the overflow first. */
static void overflow_ended(void)
{
    static void (*const ends[])(struct fake *) = {fake_stop,       ends_by_smi,  ends_by_xsaves,
                                                  ends_by_control, ends_by_exit, ends_by_entry,
                                                  ends_by_abort};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct fake *fake = fake_open("gracemont");

        vpt_vmxon(&fake->cpu, SOURCE);
        fake_start(fake, TRACED);
        vpt_stall(&fake->cpu, true);
        fake_noise(fake, 8000);
        CHECK(fake->cpu.overflow, "an overflow");
        ends[i](fake);
        CHECK(!vpt_trigger_en(&fake->cpu) && fake->cpu.buf_len == 0, "end %zu: the flush", i);
        CHECK(strstr(fake_words(fake, false), " OVF FUP("), "end %zu: the overflow is told", i);
        fake_close(fake);
    }
}

static const struct rule section_overflow[] = {
    {"begin and end", "no packet in it; OVF, FUP of the next instruction, and it goes on",
     TEST(overflow_ceases)},
    {"compression", "none against what was lost", TEST(overflow_uncompressed)},
    {"PacketEn = 0", "OVF without FUP; TIP.PGE comes with PacketEn, others before",
     TEST(overflow_out)},
    {"TraceEn = 0", "OVF comes before tracing ends, by whatever it does", TEST(overflow_ended)},
    {0},
};
static const struct rule section_overflow_enables[] = {
    {"FilterEn", "ranges are compared; TIP.PGD and TIP.PGE are lost", TEST(overflow_filter)},
    {"ContextEn", "it changes", TEST(overflow_context)},
    {"PacketByteCnt", "it does not count", TEST(overflow_count)},
    {0},
};
static const struct rule section_overflow_timing[] = {
    {"MTC", "lost; the next one tells how many", TEST(overflow_timing)},
    {0},
};

/* ---- TNT disable, errors -------------------------------------------------------------------- */

static void distnt(void)
{
    struct fake *fake = begin("gracemont", TRACED | VPT_CTL_DISTNT | VPT_CTL_DISRETC);

    for (unsigned i = 0; i < 20; i++)
        vpt_cond_branch(&fake->cpu, SOURCE, i & 1);
    vpt_call_direct(&fake->cpu, TARGET, SOURCE + 5);
    vpt_ret(&fake->cpu, SOURCE + 5);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    END(fake, "TIP(401015) TIP(402000) FUP(401010) TIP(402000)");
    fake = begin("gracemont", TRACED | VPT_CTL_DISTNT);
    vpt_call_direct(&fake->cpu, TARGET, SOURCE + 5);
    vpt_ret(&fake->cpu, SOURCE + 5);
    END(fake, "");
}
static void errors_only_enabled(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA + 0x80);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, UINT64_MAX);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA);
    CHECK(!fake_status(fake, VPT_STATUS_ERROR), "not while TraceEn is 0");
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "but then");
    CHECK(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN, "TraceEn stays");
    end_quietly(fake);
}

static const struct rule section_distnt[] = {
    {"DisTNT", "no TNT; compressed RETs are lost, others and TIPs are not", TEST(distnt)},
    {0},
};
static const struct rule section_errors[] = {
    {"detection", "only while TraceEn is 1", TEST(errors_only_enabled)},
    {0},
};

const struct table sync_tables[] = {
    {"33.3.7", "PSB+", 0, section_psb},
    {"33.3.8", "Internal buffer overflow", 0, section_overflow},
    {"33.3.8.1", "Overflow and enables", 0, section_overflow_enables},
    {"33.3.8.2", "Overflow and timing packets", 0, section_overflow_timing},
    {"33.3.9", "TNT disable", 0, section_distnt},
    {"33.3.10", "Operational errors", 0, section_errors},
    {0},
};
