/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Corners that a mutation run found without a test: creation and reset, what is CYC-eligible and
 * what is not, counters, sizes of IPs after a PSB, and when bytes leave the internal buffer.
 */
#include "save.h"
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

/* ---- Creation and reset --------------------------------------------------------------------- */

static void test_creation(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_caps bad = fake->caps;
    struct vpt_ops ops = *fake->cpu.ops;
    struct vpt_cpu cpu, zeroed;

    CHECK(vpt_init(&cpu, &fake->caps, &ops, fake), "all is there");
    ops.translate = NULL;
    CHECK(!vpt_init(&cpu, &fake->caps, &ops, fake), "no translate");
    ops = *fake->cpu.ops;
    ops.clocks = NULL;
    CHECK(!vpt_init(&cpu, &fake->caps, &ops, fake), "no clocks");
    bad.maxphyaddr = 60;
    CHECK(!vpt_init(&cpu, &bad, fake->cpu.ops, fake), "capabilities that contradict themselves");

    memset(&cpu, 0xa5, sizeof(cpu));
    memset(&zeroed, 0, sizeof(zeroed));
    vpt_init(&cpu, &fake->caps, fake->cpu.ops, fake);
    vpt_init(&zeroed, &fake->caps, fake->cpu.ops, fake);
    for (size_t i = 0; i < vpt_saved_field_count; i++) {
        const struct vpt_saved_field *field = &vpt_saved_fields[i];

        CHECK(memcmp((uint8_t *)&cpu + field->offset, (uint8_t *)&zeroed + field->offset,
                     (size_t)field->size * field->count) == 0,
              "%s depends on what was there before", field->member);
    }
    fake_close(fake);
}

/* Fields that count for ever, or hold what is dead. */
static bool survives_reset(const char *member)
{
    static const char *const names[] = {
        "core_ratio",      "overflow_count", "now.tsc",      "now.art",
        "now.fast",        "now.cycles",     "cyc_base",     "mtc_count",
        "deferred_ip",     "ret_stack",      "ret_top",      "buf",
        "ip_full",         "region_base",    "region_bytes", "region_int",
        "region_stop",     "pmi_early_done", "fault_access", "fault_gpa",
        "output_bytes",    "dropped_bytes",  "packet_count", "bytes_since_psb",
        "psb_period_bytes"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], member) == 0)
            return true;
    return false;
}

static void test_reset(void)
{
    struct fake *fake = fake_open("max"), *fresh = fake_open("max");
    const struct vpt_vm_entry entry = {.guest = context_of(3), .guest_ip = 0x600000};

    fake_start(fake, BRANCHES | VPT_CTL_TSCEN | VPT_CTL_MTCEN);
    fake_noise(fake, 900);
    vpt_vmxon(&fake->cpu, 0x400000);
    vpt_vmptrld(&fake->cpu, 0x5000);
    vpt_vm_entry(&fake->cpu, &entry);
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_stall(&fake->cpu, true);
    fake->cpu.boundary_due = fake->cpu.overflow = fake->cpu.asleep = true;
    fake->cpu.acm = fake->cpu.wait_for_sipi = fake->cpu.output_blocked = true;
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    for (size_t i = 0; i < vpt_saved_field_count; i++) {
        const struct vpt_saved_field *field = &vpt_saved_fields[i];

        CHECK(!field->flag || field->number >= 128 || !*((bool *)&fresh->cpu + field->offset),
              "%s is 1 after a cold reset", field->member);
        CHECK(survives_reset(field->member) || memcmp((uint8_t *)&fake->cpu + field->offset,
                                                      (uint8_t *)&fresh->cpu + field->offset,
                                                      (size_t)field->size * field->count) == 0,
              "%s after a cold reset", field->member);
    }
    CHECK(fake->cpu.path == VPT_PATH_OFF, "near branches do nothing");
    fake_close(fake);
    fake_close(fresh);
}

/* How near branches are taken follows the settings of now, not of before. */
static void test_path(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake,
               BRANCHES | VPT_CTL_CYCEN | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    CHECK(fake->cpu.path == VPT_PATH_SLOW, "ranges and cycles");
    fake_stop(fake);
    CHECK(fake->cpu.path == VPT_PATH_OFF, "TraceEn = 0");
    fake_start(fake, BRANCHES);
    CHECK(fake->cpu.path == VPT_PATH_FAST, "nothing special");
    fake_noise(fake, 3000);
    vpt_set_core_ratio(&fake->cpu, 20);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    CHECK(fake->cpu.path == VPT_PATH_FAST, "after a PSB+");
    fake_stop(fake);
    fake_close(fake);
}

/* ---- CYC ------------------------------------------------------------------------------------ */

/* 33.3.6: CFE, EVD, CBR, TraceStop, blocks, MNT, PWRE and PWRX bring no CYC. */
static void test_not_eligible(void)
{
    const struct vpt_block_item item = {1, 2};
    const struct vpt_block block = {.type = 4, .count = 1, .items = &item};
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, VPT_CTL_OS | VPT_CTL_EVENTEN | VPT_CTL_CYCEN);
    fake->clocks.cycles = 50;
    vpt_pebs(&fake->cpu, &block, 1, 0x401010);
    vpt_set_core_ratio(&fake->cpu, 20);
    vpt_maintenance(&fake->cpu, 7);
    fake_transfer(fake, VPT_FAULT, 0x401010, 0x402000, &(struct vpt_context){.cr3 = 0x1000});
    EXPECT(fake, "BBP(4,8) BIP(1,2) BEP+ FUP(401010) CBR(20) MNT(7) CFE(1,0)+ FUP(401010)",
           "33.3.6, packets that are not CYC-eligible");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, VPT_CTL_USER | VPT_CTL_CYCEN);
    fake->clocks.cycles = 50;
    vpt_pebs(&fake->cpu, &block, 1, 0x401010);
    EXPECT(fake, "BBP(4,8) BIP(1,2) BEP", "33.3.6, out of context");
    fake_close(fake);
}

static void test_page_fault_and_stop(void)
{
    const struct vpt_transfer fault = {.type = VPT_FAULT,
                                       .vector = 14,
                                       .ip = 0x401010,
                                       .target = 0x402000,
                                       .cr2 = 0x7000,
                                       .after = context_of(0)};
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, VPT_CTL_OS | VPT_CTL_EVENTEN | VPT_CTL_CYCEN);
    fake->clocks.cycles = 50;
    vpt_transfer(&fake->cpu, &fault);
    EXPECT(fake, "EVD(0,7000) CFE(1,e)+ FUP(401010)", "33.3.6: EVD");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_write(fake, VPT_MSR_ADDR0_A, 0x402000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x402fff);
    fake_start(fake,
               BRANCHES | VPT_CTL_CYCEN | (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR);
    fake->clocks.cycles = 50;
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fake->clocks.cycles = 60;
    EXPECT(fake, "CYC(50) PGD(402000) STOP", "33.3.6: TraceStop");
    fake_close(fake);
}

/* CYCEn alone makes no MTC. */
static void test_no_mtc(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES | VPT_CTL_CYCEN);
    fake->clocks.art += 1000;
    fake->clocks.cycles += 5;
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    EXPECT(fake, "CYC(5) TIP(402000)", "MTCEn = 0");
    fake_close(fake);
}

/* An MTC that fell due comes before MNT, as before anything else. */
static void test_mtc_before_others(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES | VPT_CTL_MTCEN);
    fake->clocks.art += 1;
    vpt_maintenance(&fake->cpu, 9);
    EXPECT(fake, "MTC(1) MNT(9)", "33.4.2.12");
    fake_close(fake);
}

/* VMCS, PIP and the rest bring their CYC, and so do the packets of a VM exit. */
static void test_eligible(void)
{
    const struct vpt_vm_exit exit = {.ip = 0x402010, .host_ip = 0x500000, .host = context_of(0)};
    struct fake *fake = fake_open("skylake");

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, BRANCHES | VPT_CTL_CYCEN);
    fake->clocks.cycles = 10;
    vpt_vmptrld(&fake->cpu, 0x5000);
    fake->clocks.cycles = 21;
    vpt_mov_cr3(&fake->cpu, 0x6000, 0x401010);
    fake->clocks.cycles = 33;
    vpt_vm_exit(&fake->cpu, &exit);
    EXPECT(fake, "CYC(10) VMCS(5000) CYC(11) PIP(6000) FUP(402010) CYC(12) PIP(1000) TIP(500000)",
           "33.3.6");
    fake_close(fake);
}

static void test_wake_has_no_cyc(void)
{
    const struct vpt_power_exit wake = {.reason = 1};
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, VPT_CTL_OS | VPT_CTL_PWREVTEN | VPT_CTL_CYCEN);
    fake->clocks.cycles = 10;
    vpt_power_exit(&fake->cpu, &wake);
    EXPECT(fake, "CBR(28) PWRX(0,0,1)", "33.3.6: CBR, PWRX");
    fake_close(fake);
}

/* A TMA says where the clock stands: no MTC for the same count. */
static void test_tma_and_mtc(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES | VPT_CTL_TSCEN | VPT_CTL_MTCEN | 3ull << VPT_CTL_MTCFREQ_SHR);
    fake->clocks = (struct vpt_clocks){.tsc = 0x5000, .art = 0x107, .fast = 1, .cycles = 1};
    fake_mark(fake);
    vpt_time(&fake->cpu);
    vpt_set_core_ratio(&fake->cpu, 20);
    vpt_time(&fake->cpu);
    fake->clocks.art = 0x108;
    vpt_time(&fake->cpu);
    EXPECT(fake, "MTC(20) TSC(5000) TMA(107,1) CBR(20) MTC(21)", "33.4.2.13");
    fake_close(fake);
}

/* Events of every kind bring the PSB+ that falls due. */
static void psb_by(const char *what, void (*event)(struct fake *fake, unsigned i))
{
    struct fake *fake = fake_open("max");
    const char *words;

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, VPT_CTL_OS | VPT_CTL_PWREVTEN | VPT_CTL_EVENTEN | VPT_CTL_PTWEN);
    for (unsigned i = 0; i < 600; i++)
        event(fake, i);
    words = fake_words(fake, false);
    CHECK(strstr(words, "PSB+ "), "no PSB by %s: %.60s", what, words);
    fake_stop(fake);
    fake_close(fake);
}
static void flag_event(struct fake *fake, unsigned i)
{
    vpt_interrupt_flag(&fake->cpu, !(i & 1), 0x401010);
}
static void mnt_event(struct fake *fake, unsigned i)
{
    vpt_maintenance(&fake->cpu, i);
}
static void sleep_event(struct fake *fake, unsigned i)
{
    const struct vpt_power_entry entry = {.ip = 0x401010, .state = (uint8_t)i};

    vpt_power_entry(&fake->cpu, &entry);
}
static void wake_event(struct fake *fake, unsigned i)
{
    const struct vpt_power_exit wake = {.reason = 1, .core_ratio = (uint8_t)(1 + i % 40)};

    vpt_power_exit(&fake->cpu, &wake);
}
static void stop_event(struct fake *fake, unsigned i)
{
    vpt_exec_stop(&fake->cpu, 0x401010 + i);
}
static void ptw_event(struct fake *fake, unsigned i)
{
    vpt_ptwrite(&fake->cpu, i, 8, 0x401010);
}
static void vmcs_event(struct fake *fake, unsigned i)
{
    vpt_vmptrld(&fake->cpu, (uint64_t)i << 12);
}
static void entry_event(struct fake *fake, unsigned i)
{
    const struct vpt_vm_entry entry = {
        .ip = 0x401010, .guest_ip = 0x600000 + i, .guest = context_of(0)};
    const struct vpt_vm_exit exit = {.ip = 0x600000, .host_ip = 0x500000, .host = context_of(0)};

    vpt_vm_entry(&fake->cpu, &entry);
    if (i == 0)
        vpt_vm_exit(&fake->cpu, &exit);
}
static void exit_event(struct fake *fake, unsigned i)
{
    const struct vpt_vm_exit exit = {
        .ip = 0x600000 + i, .host_ip = 0x500000, .host = context_of(0)};

    vpt_vm_exit(&fake->cpu, &exit);
}
static void acm_event(struct fake *fake, unsigned i)
{
    vpt_acm_begin(&fake->cpu);
    vpt_acm_end(&fake->cpu, 0x401010 + i);
}
static void shutdown_event(struct fake *fake, unsigned i)
{
    vpt_shutdown(&fake->cpu, 0x401010 + i);
}
static void pebs_event(struct fake *fake, unsigned i)
{
    const struct vpt_block_item item = {1, i};
    const struct vpt_block block = {.type = 4, .count = 1, .items = &item};

    vpt_pebs(&fake->cpu, &block, 1, 0x401010);
}
static void test_psb_by_events(void)
{
    psb_by("RFLAGS.IF", flag_event);
    psb_by("MNT", mnt_event);
    psb_by("sleep", sleep_event);
    psb_by("wake", wake_event);
    psb_by("EXSTOP", stop_event);
    psb_by("PTWRITE", ptw_event);
    psb_by("VMPTRLD", vmcs_event);
    psb_by("VM entry", entry_event);
    psb_by("VM exit", exit_event);
    psb_by("ACM", acm_event);
    psb_by("shutdown", shutdown_event);
    psb_by("PEBS", pebs_event);
}

/* FastCounter counts from the last edge of a crystal that is no whole number of ticks. */
static void test_fast_counter(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct vpt_clocks clocks;

    caps.tsc_den = 2;
    caps.tsc_num = 3; /* edges at 0, 1.5, 3, 4.5 */
    vpt_clocks_from_tsc(&caps, 2, &clocks);
    CHECK(clocks.art == 1 && clocks.fast == 0, "TSC 2: %u", clocks.fast);
    vpt_clocks_from_tsc(&caps, 4, &clocks);
    CHECK(clocks.art == 2 && clocks.fast == 1, "TSC 4: %u", clocks.fast);
    vpt_clocks_from_tsc(&caps, 5, &clocks);
    CHECK(clocks.art == 3 && clocks.fast == 0, "TSC 5: %u", clocks.fast);
}

/* ---- Counters ------------------------------------------------------------------------------- */

static uint64_t byte_count(struct fake *fake)
{
    return fake_read(fake, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR;
}

static void test_packet_byte_count(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_caps caps = rich_caps();
    size_t before;

    fake_start(fake, BRANCHES);
    before = fake->tap_len;
    fake_noise(fake, 500);
    fake_stop(fake);
    CHECK(byte_count(fake) == fake->tap_len - 16, "%llu of %zu bytes since the PSB",
          (unsigned long long)byte_count(fake), fake->tap_len - before);
    fake_close(fake);

    fake = fake_open_caps(&caps);
    fake->tap_off = true;
    fake_start(fake, BRANCHES | 15ull << VPT_CTL_PSBFREQ_SHR);
    fake_noise(fake, 1000);
    fake_stop(fake);
    CHECK(byte_count(fake) > 0 && byte_count(fake) <= 2, "a period of 64 MiB: %llu",
          (unsigned long long)byte_count(fake));
    fake_close(fake);
}

/* What a ToPA stop cuts off is counted. */
static void test_dropped(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context ctx = context_of(0);
    uint64_t made = 0;

    fake_poke(fake, TABLE_GPA, REGION_GPA | VPT_TOPA_STOP);
    fake_poke(fake, TABLE_GPA + 8, TABLE_GPA | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    vpt_flush(&fake->cpu);
    while (vpt_trigger_en(&fake->cpu)) {
        made = fake->tap_total + fake->cpu.buf_len;
        vpt_jmp_indirect(&fake->cpu, 0x402000 + made * 0x10000);
    }
    CHECK(fake->tap_total == 4096, "the region is full");
    CHECK(fake->cpu.dropped_bytes > 0 && fake->cpu.dropped_bytes < 300 &&
              fake->cpu.output_bytes == 4096 && made + 7 >= 4096 + fake->cpu.dropped_bytes,
          "%llu bytes dropped", (unsigned long long)fake->cpu.dropped_bytes);
    fake_stop(fake);
    fake_close(fake);
}

static void test_ret_stack(void)
{
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_start(fake, BRANCHES);
    for (unsigned i = 0; i < 70; i++)
        vpt_call_direct(&fake->cpu, 0x500000 + 16 * i, 0x401000 + 16 * i);
    CHECK(vpt_ret_count(&fake->cpu) == VPT_RET_STACK, "%u entries", vpt_ret_count(&fake->cpu));
    for (unsigned i = 70; i-- > 5;)
        vpt_ret(&fake->cpu, 0x401000 + 16 * i);
    fake_stop(fake);
    words = fake_words(fake, false);
    CHECK(strstr(words, "TNT(TTTT) TIP(401050)"), "33.4.2.2: 64 are compressed: [%s]", words);
    fake_close(fake);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* After a PSB no IP is compressed, however small (33.3.7). */
static void test_ip_after_psb(void)
{
    struct fake *fake = fake_open("skylake");
    struct reader reader;
    struct packet packet;
    bool after_psb = false;
    unsigned checked = 0;

    fake_start(fake, BRANCHES);
    for (unsigned i = 0; i < 2000; i++)
        vpt_jmp_indirect(&fake->cpu, 0x1000 + i);
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (packet.kind == PACKET_PSB)
            after_psb = true;
        if (after_psb && (packet.kind == PACKET_FUP || packet.kind == PACKET_PGE)) {
            CHECK(packet.ip_bytes == 3, "IPBytes %u at %zu", packet.ip_bytes, packet.offset);
            after_psb = false;
            checked++;
        }
    }
    CHECK(checked > 2, "%u PSBs", checked);
    fake_close(fake);
}

/* Packets leave the internal buffer by themselves, not only at the end. */
static void test_drain(void)
{
    struct fake *fake = fake_open("skylake");
    uint64_t before;

    fake_start(fake, BRANCHES);
    before = fake->tap_total;
    fake_noise(fake, 400);
    CHECK(fake->tap_total > before, "nothing was stored");
    fake_stop(fake);
    fake_close(fake);
}

/* Nothing that was deferred before an overflow comes after it. */
static void test_deferred_overflow(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;
    const char *words;

    caps.deferred_tips = true;
    fake = fake_open_caps(&caps);
    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 300; i++) {
        vpt_jmp_indirect(&fake->cpu, 0x7f0000000000 + 0x1000001 * i);
        vpt_cond_branch(&fake->cpu, 0x402000, true);
    }
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    vpt_jmp_indirect(&fake->cpu, 0x404000);
    fake_stop(fake);
    words = strstr(fake_words(fake, false), "OVF");
    /* The PSB+ is the model's choice: state that changed meanwhile is told at once. */
    CHECK(words && words_match("OVF FUP(403000) PSB+ TIP(404000) FUP(40fff0) PGD()", words), "[%s]",
          words ? words : "no OVF");
    fake_close(fake);
}

/* However many packets a stalled processor is told of, the buffer holds. */
static void test_stalled_for_long(void)
{
    const struct vpt_power_entry sleep = {.mwait = true, .state = 1};
    struct fake *fake = fake_open("max");

    fake_start(fake, BRANCHES | VPT_CTL_PWREVTEN);
    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 500; i++) {
        vpt_maintenance(&fake->cpu, i);
        vpt_power_entry(&fake->cpu, &sleep);
        vpt_exec_stop(&fake->cpu, 0x401010);
        CHECK(fake->cpu.buf_len <= VPT_BUFFER_BYTES, "%u bytes", fake->cpu.buf_len);
    }
    CHECK(fake->cpu.overflow_count == 1, "one overflow");
    fake_stop(fake);
    fake_close(fake);
}

/* An ACM waits for memory as the end of tracing does. */
static void test_stalled_acm(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_acm_begin(&fake->cpu);
    CHECK(fake->cpu.buf_len == 0, "flushed");
    vpt_acm_end(&fake->cpu, 0x402002);
    fake_stop(fake);
    fake_close(fake);
}

/* ---- Capabilities --------------------------------------------------------------------------- */

static void test_caps(void)
{
    struct vpt_caps caps = plain_caps("broadwell");
    struct vpt_cpuid regs = {0};
    struct fake *fake;

    caps.topa_pmi_early_bytes = 4096;
    CHECK(vpt_caps_check(&caps) != NULL, "an early PMI that is too early");
    caps = plain_caps("skylake");
    caps.topa_pmi_early_bytes = 4096;
    CHECK(vpt_caps_check(&caps) == NULL, "it counts with one entry only");
    caps = plain_caps("skylake");
    caps.linear_bits = 32;
    fake = fake_open_caps(&caps);
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_ADDR0_A, 0xffffffff, IP_ON, IP_START) == VPT_OK, "32 bits");
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_ADDR0_A, 1ull << 32, IP_ON, IP_START) == VPT_GP, "33 bits");
    fake_close(fake);

    /* OvfBuf, CondChgd and the frozen bits can be cleared too. */
    fake = fake_open("skylake");
    for (unsigned bit = 56; bit < 64; bit++)
        CHECK((vpt_wrmsr(&fake->cpu, VPT_MSR_PERF_GLOBAL_RESET, 1ull << bit, IP_ON, IP_START) ==
               VPT_OK) == (bit == 58 || bit == 59 || bit >= 62),
              "GLOBAL_STATUS_RESET bit %u", bit);
    fake_close(fake);

    /* Ranges without cycle-accurate mode still need subleaf 1. */
    caps = plain_caps("broadwell");
    caps.leaf14_0_ebx |= VPT_CAP_IPFILTER;
    caps.leaf14_1_eax = 2;
    CHECK(vpt_caps_check(&caps) == NULL, "ranges alone");
    vpt_cpuid(&caps, 0x14, 0, &regs);
    CHECK(regs.eax == 1, "the largest subleaf");
    caps = plain_caps("skylake");
    caps.psb_align_bytes = 6;
    CHECK(vpt_caps_check(&caps) != NULL, "6 is no power of two");
    caps.psb_align_bytes = 128;
    CHECK(vpt_caps_check(&caps) != NULL, "128 is too much");
}

/* 33.4.2.12: 255 missed counts are one MTC, more are a TSC. */
static void test_many_mtcs(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES | VPT_CTL_TSCEN | VPT_CTL_MTCEN);
    fake->clocks.art = 0xff;
    vpt_time(&fake->cpu);
    fake->clocks.art = 0x1ff;
    fake->clocks.tsc = 0x7000;
    vpt_time(&fake->cpu);
    EXPECT(fake, "MTC(ff) TSC(7000) TMA(1ff,0) CBR(26)", "33.4.2.12");
    fake_close(fake);
}

/* GETSEC and RSM where there is nothing to clear or to restore. */
static void test_not_tracing(void)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_context ctx = context_of(0);

    fake_write(fake, VPT_MSR_STATUS, 100ull << VPT_STATUS_BYTECNT_SHR);
    fake_write(fake, VPT_MSR_CTL, BRANCHES);
    vpt_getsec(&fake->cpu, 0x401010);
    CHECK(fake_read(fake, VPT_MSR_CTL) == BRANCHES, "GETSEC");
    CHECK(fake_read(fake, VPT_MSR_STATUS) == 100ull << VPT_STATUS_BYTECNT_SHR, "STATUS");
    CHECK(vpt_rsm(&fake->cpu, false, 0x401010, &ctx), "RSM");
    fake_close(fake);
}

/* An error while the module runs: TraceEn comes back, TriggerEn does not. */
static void test_acm_and_stopped(void)
{
    struct fake *fake = fake_open("skylake");

    for (unsigned i = 0; i < 2; i++) {
        fake_start(fake, BRANCHES);
        vpt_acm_begin(&fake->cpu);
        fake_write(fake, VPT_MSR_STATUS, i ? VPT_STATUS_STOPPED : VPT_STATUS_ERROR);
        vpt_acm_end(&fake->cpu, 0x401010);
        CHECK(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN, "TraceEn");
        CHECK(!vpt_trigger_en(&fake->cpu), "TriggerEn");
        fake_stop(fake);
        fake_write(fake, VPT_MSR_STATUS, 0);
    }
    fake_close(fake);
}

/* SMI with timing: the MTC and the cycles before it. */
static void test_smi_timing(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, BRANCHES | VPT_CTL_EVENTEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN);
    fake->clocks.art = 1;
    fake->clocks.cycles = 40;
    vpt_smi(&fake->cpu, 0x401010);
    CHECK(words_match("CYC(40) MTC(1) CFE(3,0) FUP(401010) PGD()", fake_words(fake, false)), "%s",
          fake_words(fake, false));
    fake_close(fake);
}

/* What a region of before left behind does not stop output to a range. */
static void test_old_region(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context ctx = context_of(0);

    fake_poke(fake, TABLE_GPA, REGION_GPA | VPT_TOPA_STOP);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_noise(fake, 5000);
    fake_stop(fake);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "full");
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
    fake_mark(fake);
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TRACEEN);
    fake_noise(fake, 6000);
    fake_stop(fake);
    CHECK(fake->tap_len - fake->mark > 5000 && !fake_status(fake, VPT_STATUS_STOPPED), "%zu bytes",
          fake->tap_len - fake->mark);
    fake_close(fake);
}

/* A table entry that was read once is not read again while its region fills. */
static void test_region_is_loaded(void)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_context ctx = context_of(0);
    unsigned reads;

    vpt_set_context(&fake->cpu, &ctx);
    fake_poke(fake, TABLE_GPA + 16, TABLE_GPA | VPT_TOPA_END);
    fake_poke(fake, TABLE_GPA + 8, 0x300000);
    fake_poke(fake, TABLE_GPA, 0x301000);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_noise(fake, 4200);
    vpt_flush(&fake->cpu);
    reads = fake->table_reads;
    CHECK(fake->cpu.region_bytes == 4096, "the next region is loaded when the last is full");
    fake_noise(fake, 1000);
    vpt_flush(&fake->cpu);
    CHECK(fake->table_reads == reads, "%u reads, %u before", fake->table_reads, reads);
    fake_stop(fake);
    fake_close(fake);
}

/* Out of context, MTCs still fall due at branches. */
static void test_time_out_of_context(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_MTCEN);
    fake->clocks.art += 1;
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    EXPECT(fake, "MTC(1)", "33.4.2.12: TriggerEn alone");
    fake_close(fake);
}

/* The first MTC is the next change, not the state of the clock. */
static void test_first_mtc(void)
{
    struct fake *fake = fake_open("skylake");

    fake->clocks.art = 0x47;
    fake_start(fake, BRANCHES | VPT_CTL_MTCEN | 3ull << VPT_CTL_MTCFREQ_SHR);
    vpt_time(&fake->cpu);
    fake->clocks.art = 0x48;
    vpt_time(&fake->cpu);
    EXPECT(fake, "MTC(9)", "33.4.2.12");
    fake_close(fake);
}

/* Table 33-26: RFLAGS.IF counts with EventEn only. */
static void test_flag_without_events(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context on = context_of(0), off = context_of(0);

    on.interrupts = true;
    fake_start(fake, BRANCHES);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x401010, 0x402000, &on);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x402010, 0x403000, &off);
    EXPECT(fake, "TIP(402000) TIP(403000)", "Table 33-26");
    fake_close(fake);
}

static void test_tnt_before_cbr(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_set_core_ratio(&fake->cpu, 20);
    EXPECT(fake, "TNT(T) CBR(20)", "packets come in order");
    fake_close(fake);
}

/* A PSB+ that fell due where no IP was known comes with the next branch, which is the last slow
 * one. */
static void test_boundary(void)
{
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_start(fake, BRANCHES);
    for (unsigned i = 0; i < 600; i++)
        vpt_set_core_ratio(&fake->cpu, 20);
    CHECK(fake->cpu.boundary_due && fake->cpu.path == VPT_PATH_SLOW, "a PSB+ waits");
    fake_mark(fake);
    vpt_jmp_direct(&fake->cpu, 0x402000);
    CHECK(!fake->cpu.boundary_due && fake->cpu.path == VPT_PATH_FAST, "it came");
    words = fake_words(fake, true);
    CHECK(strstr(words, "FUP(402000) PSBEND"), "%s", words);
    fake_stop(fake);
    fake_close(fake);
}

/* Bytes to memory that is not there are counted as lost. */
static void test_unbacked(void)
{
    struct fake *fake = fake_open("skylake");

    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_UNBACKED, NULL, false);
    fake_start(fake, BRANCHES);
    fake_noise(fake, 400);
    fake_stop(fake);
    CHECK(fake->cpu.dropped_bytes > 400 && fake->cpu.output_bytes == 0, "%llu lost",
          (unsigned long long)fake->cpu.dropped_bytes);
    fake_close(fake);
}

/* INIT and SIPI while nothing is traced. */
static void test_init_untraced(void)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_context ctx = context_of(0);

    fake_transfer(fake, VPT_INIT_WAIT, 0, 0, &ctx);
    CHECK(fake->cpu.wait_for_sipi, "waiting");
    fake_transfer(fake, VPT_SIPI, 0, 0x1000, &ctx);
    CHECK(!fake->cpu.wait_for_sipi, "running");
    fake_start(fake, BRANCHES);
    CHECK(vpt_packet_en(&fake->cpu), "and traced");
    fake_stop(fake);
    fake_close(fake);
}

static void test_other_leaves(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct vpt_cpuid regs = {1, 2, 3, 4};

    CHECK(!vpt_cpuid(&caps, 1, 0, &regs) && !vpt_cpuid(&caps, 0xb, 0, &regs), "not the model's");
    CHECK(regs.eax == 1 && regs.ebx == 2 && regs.ecx == 3 && regs.edx == 4, "and left alone");
}

void suite_corners(void)
{
    static const struct test tests[] = {
        {"creation", test_creation},
        {"cold reset", test_reset},
        {"path", test_path},
        {"not CYC-eligible", test_not_eligible},
        {"EVD and TraceStop", test_page_fault_and_stop},
        {"no MTC without MTCEn", test_no_mtc},
        {"MTC before MNT", test_mtc_before_others},
        {"CYC-eligible", test_eligible},
        {"no CYC for a wake", test_wake_has_no_cyc},
        {"TMA and MTC", test_tma_and_mtc},
        {"PSB+ by events of every kind", test_psb_by_events},
        {"FastCounter", test_fast_counter},
        {"PacketByteCnt", test_packet_byte_count},
        {"dropped bytes", test_dropped},
        {"64 CALLs", test_ret_stack},
        {"IPs after a PSB", test_ip_after_psb},
        {"bytes leave the buffer", test_drain},
        {"deferred TIPs and overflow", test_deferred_overflow},
        {"stalled for long", test_stalled_for_long},
        {"a stalled ACM", test_stalled_acm},
        {"time out of context", test_time_out_of_context},
        {"the first MTC", test_first_mtc},
        {"RFLAGS.IF without EventEn", test_flag_without_events},
        {"TNT before CBR", test_tnt_before_cbr},
        {"a PSB+ that waits", test_boundary},
        {"memory that is not there", test_unbacked},
        {"INIT while nothing is traced", test_init_untraced},
        {"other CPUID leaves", test_other_leaves},
        {"many MTCs", test_many_mtcs},
        {"GETSEC and RSM without tracing", test_not_tracing},
        {"ACM and Stopped", test_acm_and_stopped},
        {"SMI and time", test_smi_timing},
        {"a region of before", test_old_region},
        {"regions are loaded once", test_region_is_loaded},
        {"capabilities", test_caps},
        {NULL, NULL},
    };

    add_suite("corners", tests);
}
