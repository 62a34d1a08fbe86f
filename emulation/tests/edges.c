/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Edges that mutants of the model (docs/mutants.md) showed to be without a test: what an event
 * leaves alone, what comes before its packets and after them, limits that are just met.
 */
#include "processor.h"
#include "save.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define BOTH      (VPT_CTL_OS | VPT_CTL_USER)
#define BRANCHES  (BOTH | VPT_CTL_BRANCHEN)
#define EVENTS    (BRANCHES | VPT_CTL_EVENTEN)
#define FILTER    ((uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR)
#define TRACESTOP ((uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR)

static struct fake *start(const char *profile, uint64_t ctl)
{
    struct fake *fake = fake_open(profile);

    fake_start(fake, ctl);
    return fake;
}

static struct fake *start_tsx(uint64_t ctl)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    fake_start(fake, ctl);
    return fake;
}

/* ---- Order ---------------------------------------------------------------------------------- */

static void page_fault(struct fake *fake)
{
    const struct vpt_transfer fault = {.type = VPT_FAULT,
                                       .vector = 14,
                                       .ip = 0x401010,
                                       .target = 0x402000,
                                       .cr2 = 0x7000,
                                       .after = context_of(0)};

    vpt_transfer(&fake->cpu, &fault);
}
static void interrupt(struct fake *fake)
{
    const struct vpt_transfer event = {.type = VPT_INTERRUPT,
                                       .vector = 0x21,
                                       .ip = 0x401010,
                                       .target = 0x402000,
                                       .after = context_of(0)};

    vpt_transfer(&fake->cpu, &event);
}
static void mov_cr3(struct fake *fake)
{
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x401013);
}
static void vmptrld(struct fake *fake)
{
    vpt_vmxon(&fake->cpu, 0x401010);
    vpt_vmptrld(&fake->cpu, 0x19191919000);
}
static void ptwrite(struct fake *fake)
{
    vpt_ptwrite(&fake->cpu, 0x77, 8, 0x401010);
}
static void tx_begin(struct fake *fake)
{
    vpt_tx_begin(&fake->cpu, 0x401010);
}
static void core_ratio(struct fake *fake)
{
    vpt_set_core_ratio(&fake->cpu, 20);
}
static void interrupt_flag(struct fake *fake)
{
    vpt_interrupt_flag(&fake->cpu, !fake->cpu.ctx.interrupts, 0x401010);
}
static void shutdown(struct fake *fake)
{
    vpt_shutdown(&fake->cpu, 0x401010);
}
static void maintenance(struct fake *fake)
{
    vpt_maintenance(&fake->cpu, 9);
}
static void tick(struct fake *fake)
{
    fake->clocks.art++;
    vpt_time(&fake->cpu);
}
static void sleep_now(struct fake *fake)
{
    const struct vpt_power_entry entry = {.ip = 0x401010, .mwait = true, .state = 0x10};

    vpt_power_entry(&fake->cpu, &entry);
}
static void exec_stop(struct fake *fake)
{
    vpt_exec_stop(&fake->cpu, 0x401010);
}
static void trace_stop(struct fake *fake)
{
    vpt_jmp_direct(&fake->cpu, 0x500000);
}
static void smi(struct fake *fake)
{
    vpt_smi(&fake->cpu, 0x401010);
}
static void jmp_indirect(struct fake *fake)
{
    vpt_jmp_indirect(&fake->cpu, 0x402000);
}

/* 33.4.2.1: what a TNT still holds goes out before any other packet. */
static void test_tnt_first(void)
{
    static const struct {
        void (*event)(struct fake *fake);
        uint64_t ctl;
        const char *packets;
    } cases[] = {
        {jmp_indirect, 0, "TIP(402000)"},
        {page_fault, VPT_CTL_EVENTEN, "EVD(0,7000) CFE(1,e) FUP(401010) TIP(402000)"},
        {interrupt, VPT_CTL_EVENTEN, "CFE(1,21) FUP(401010) TIP(402000)"},
        {interrupt, 0, "FUP(401010) TIP(402000)"},
        {mov_cr3, 0, "PIP(5000)"},
        {vmptrld, 0, "VMCS(19191919000)"},
        {ptwrite, VPT_CTL_PTWEN, "PTW8(77)"},
        {tx_begin, 0, "TSX(1) FUP(401010)"},
        {core_ratio, 0, "CBR(20)"},
        {core_ratio, VPT_CTL_TSCEN, "TSC(0) CBR(20)"},
        {interrupt_flag, VPT_CTL_EVENTEN, "MODE(64+IF) FUP(401010)"},
        {shutdown, VPT_CTL_EVENTEN, "CFE(a,0)+ FUP(401010)"},
        {maintenance, 0, "MNT(9)"},
        {tick, VPT_CTL_MTCEN, "MTC(1)"},
        {sleep_now, VPT_CTL_PWREVTEN, "MWAIT(0,0) PWRE(10) EXSTOP+ FUP(401010)"},
        {exec_stop, VPT_CTL_PWREVTEN, "EXSTOP+ FUP(401010)"},
        {trace_stop, TRACESTOP, "PGD(500000) STOP"},
        {smi, VPT_CTL_EVENTEN, "CFE(3,0) FUP(401010) PGD()"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fake;
        char pattern[128];

        caps.tsx = true;
        fake = fake_open_caps(&caps);
        fake_write(fake, VPT_MSR_ADDR0_A, 0x500000);
        fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x500fff);
        fake_start(fake, BRANCHES | cases[i].ctl);
        vpt_cond_branch(&fake->cpu, 0x401010, true);
        cases[i].event(fake);
        snprintf(pattern, sizeof(pattern), "TNT(T) %s", cases[i].packets);
        EXPECT(fake, pattern, "33.4.2.1: TNT first");
        fake_close(fake);
    }
}

static const struct vpt_vm_entry entry = {.outcome = VPT_ENTRY_SUCCEEDS,
                                          .guest = {.cr3 = 0x7000, .exec_mode = VPT_EXEC_64},
                                          .guest_ip = 0x600000,
                                          .host = {.cr3 = 0x1000, .exec_mode = VPT_EXEC_64},
                                          .host_ip = 0x700000,
                                          .ip = 0x401010,
                                          .next_ip = 0x401013};

static void vm_entry(struct fake *fake)
{
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
}
static void vm_entry_early(struct fake *fake)
{
    struct vpt_vm_entry fails = entry;

    fails.outcome = VPT_ENTRY_FAILS_EARLY;
    CHECK(vpt_vm_entry(&fake->cpu, &fails) == VPT_ENTRY_FAILS_EARLY, "VMfail");
}
static void vm_entry_late(struct fake *fake)
{
    struct vpt_vm_entry fails = entry;

    fails.outcome = VPT_ENTRY_FAILS_LATE;
    CHECK(vpt_vm_entry(&fake->cpu, &fails) == VPT_ENTRY_FAILS_LATE, "a failed VM entry");
}
static void vm_exit(struct fake *fake)
{
    const struct vpt_vm_exit exit = {
        .host = entry.host, .host_ip = 0x700000, .ip = 0x600010, .reason = 12};

    CHECK(vpt_vm_exit(&fake->cpu, &exit), "VM exit");
}
static void tx_abort(struct fake *fake)
{
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_tx_abort(&fake->cpu, 0x401024, 0x401060);
}
static void ret(struct fake *fake)
{
    vpt_ret(&fake->cpu, 0x402000);
}
static void call_indirect(struct fake *fake)
{
    vpt_call_indirect(&fake->cpu, 0x402000, 0x401013);
}
static void far_branch(struct fake *fake)
{
    const struct vpt_context ctx = context_of(0);

    fake_transfer(fake, VPT_FAR_BRANCH, 0x401010, 0x402000, &ctx);
}

/* 33.3.6: the first CYC-eligible packet of an event follows a CYC with the cycles of now. */
static void test_cycles_of_now(void)
{
    static const struct {
        void (*event)(struct fake *fake);
        const char *packets;
    } cases[] = {
        {jmp_indirect, "CYC(50) TIP(402000)"},
        {call_indirect, "CYC(50) TIP(402000)"},
        {ret, "CYC(50) TIP(402000)"},
        {far_branch, "CYC(50) TIP(402000)"},
        {interrupt, "FUP(401010) CYC(50) TIP(402000)"},
        {mov_cr3, "CYC(50) PIP(5000)"},
        {vmptrld, "CYC(50) VMCS(19191919000)"},
        {ptwrite, "CYC(50) PTW8(77)"},
        {tx_begin, "CYC(50) TSX(1) FUP(401010)"},
        {tx_abort, "CYC(50) TSX(1) FUP(401010) TSX(2) FUP(401024) TIP(401060)"},
        {vm_entry, "CYC(50) PIP(7000,NR) TIP(600000)"},
        {vm_entry_early, "CYC(50) TIP(401013)"},
        {vm_entry_late, "CYC(50) PIP(1000) TIP(700000)"},
        {vm_exit, "FUP(600010) CYC(50) PIP(1000) TIP(700000)"},
        {trace_stop, "CYC(50) PGD(500000) STOP"},
        {smi, "FUP(401010) CYC(50) PGD()"},
        {sleep_now, "CYC(50) MWAIT(0,0) PWRE(10) EXSTOP+ FUP(401010)"},
        {exec_stop, "CYC(50) EXSTOP+ FUP(401010)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fake;

        caps.tsx = true;
        fake = fake_open_caps(&caps);
        fake_write(fake, VPT_MSR_ADDR0_A, 0x500000);
        fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x500fff);
        fake_start(fake, BRANCHES | TRACESTOP | VPT_CTL_CYCEN | VPT_CTL_PTWEN | VPT_CTL_PWREVTEN);
        fake->clocks.cycles += 50;
        cases[i].event(fake);
        EXPECT(fake, cases[i].packets, "33.3.6");
        fake_close(fake);
    }
}

/* 33.4.2.2: an IP that differs from the last in one bit, whichever, is read back. */
static void test_ip_bits(void)
{
    static const uint64_t bases[] = {0, 0x0123456789abcdef, 0x0000955555555555, KERNEL};

    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            struct fake *fake = start("max", BRANCHES);
            const uint64_t other = bases[i] ^ 1ull << bit;
            char pattern[128];

            vpt_jmp_indirect(&fake->cpu, bases[i]);
            vpt_jmp_indirect(&fake->cpu, other);
            vpt_jmp_indirect(&fake->cpu, bases[i]);
            snprintf(pattern, sizeof(pattern), "TIP(%llx) TIP(%llx) TIP(%llx)",
                     (unsigned long long)bases[i], (unsigned long long)other,
                     (unsigned long long)bases[i]);
            EXPECT(fake, pattern, "33.4.2.2");
            fake_close(fake);
        }
    }
}

/* A PSB+ that fell due comes in the event that made it due, or in the next. */
static void psb_after(void (*event)(struct fake *fake), const char *what, const char *psb)
{
    struct fake *fake = start_tsx(EVENTS);
    const char *words, *found;

    fake_noise(fake, 2000);
    vpt_tx_begin(&fake->cpu, 0x401010);
    while (fake->cpu.bytes_since_psb < 2048 - 2)
        vpt_maintenance(&fake->cpu, 1);
    fake_mark(fake);
    event(fake);
    words = fake_words(fake, true);
    found = words ? strstr(words, "PSB ") : NULL;
    CHECK(found && strstr(found, psb), "%s: a PSB+ with %s in [%s]", what, psb, words);
    fake_stop(fake);
    fake_close(fake);
}
static void abort_only(struct fake *fake)
{
    vpt_tx_abort(&fake->cpu, 0x401024, 0x401060);
}
static void test_psb_in_event(void)
{
    psb_after(abort_only, "an abort", "FUP(401060)");
    psb_after(interrupt, "an interrupt", "FUP(402000)");
    psb_after(jmp_indirect, "a branch", "FUP(402000)");
}

/* 33.3.7: the period is over with its last byte, not one later. */
static void test_psb_period(void)
{
    for (unsigned missing = 0; missing < 2; missing++) {
        struct fake *fake = start("max", BRANCHES);

        jmp_indirect(fake);
        fake->cpu.bytes_since_psb = 2048 - 3 - missing;
        jmp_indirect(fake); /* a TIP of 3 bytes */
        CHECK((fake->cpu.bytes_since_psb < 100) == (missing == 0), "%u bytes since the PSB",
              fake->cpu.bytes_since_psb);
        fake_stop(fake);
        fake_close(fake);
    }
}

/* ---- Out of context, out of the filter ------------------------------------------------------ */

static void test_dependencies(void)
{
    static const struct {
        void (*event)(struct fake *fake);
        const char *what, *inside, *outside, *out_of_context;
    } cases[] = {
        {interrupt_flag, "RFLAGS.IF", "MODE(64+IF) FUP(401010)", "", ""},
        {ptwrite, "PTWRITE", "PTW8(77)", "", ""},
        {shutdown, "shutdown", "CFE(a,0)+ FUP(401010)", "CFE(a,0)+ FUP(401010)", ""},
        {tx_begin, "XBEGIN", "TSX(1) FUP(401010)", "TSX(1)", ""},
        {mov_cr3, "MOV CR3", "PIP(5000)", "PIP(5000)", ""},
        {vmptrld, "VMPTRLD", "VMCS(19191919000)", "VMCS(19191919000)", ""},
        {core_ratio, "ratio", "CBR(20)", "CBR(20)", "CBR(20)"},
        {maintenance, "MNT", "MNT(9)", "MNT(9)", "MNT(9)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = start_tsx(EVENTS | VPT_CTL_PTWEN);

        cases[i].event(fake);
        EXPECT(fake, cases[i].inside, cases[i].what);
        fake_close(fake);

        fake = start_tsx((EVENTS & ~VPT_CTL_OS) | VPT_CTL_PTWEN);
        CHECK(!fake_status(fake, VPT_STATUS_CONTEXTEN) && fake_status(fake, VPT_STATUS_FILTEREN),
              "out of context, in the filter");
        cases[i].event(fake);
        EXPECT(fake, cases[i].out_of_context, cases[i].what);
        fake_close(fake);

        fake = start_tsx(EVENTS | VPT_CTL_PTWEN | FILTER);
        vpt_jmp_direct(&fake->cpu, 0x700000);
        CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN) && !fake_status(fake, VPT_STATUS_FILTEREN),
              "in context, out of the filter");
        cases[i].event(fake);
        EXPECT(fake, cases[i].outside, cases[i].what);
        fake_close(fake);
    }
}

/* What does not trace gives nothing, whatever RTIT_CTL says: Error is set. */
static void test_no_trigger(void)
{
    static void (*const events[])(struct fake * fake) = {
        jmp_indirect, page_fault,     interrupt, mov_cr3,     vmptrld, ptwrite,   tx_begin,
        core_ratio,   interrupt_flag, shutdown,  maintenance, tick,    sleep_now, exec_stop};
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_ERROR);
    fake_start(fake, EVENTS | VPT_CTL_PTWEN | VPT_CTL_MTCEN | VPT_CTL_TSCEN | VPT_CTL_PWREVTEN);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        events[i](fake);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == 0 && fake->cpu.packet_count == 0, "33.2.6.2: %llu bytes",
          (unsigned long long)fake->tap_total);
    fake_close(fake);
}

/* A processor that waits for SIPI since before the trace began. */
static void test_wait_for_sipi(void)
{
    struct fake *fake = fake_open("max");
    const struct vpt_context ctx = context_of(0);

    fake_transfer(fake, VPT_INIT_WAIT, 0x401010, 0, &ctx);
    fake_start(fake, BRANCHES);
    jmp_indirect(fake);
    fake_transfer(fake, VPT_SIPI, 0, 0x99000, &ctx);
    EXPECT(fake, "MODE(64) PGE(99000)", "Table 33-55 case 23");
    fake_close(fake);

    fake = fake_open("max");
    fake_transfer(fake, VPT_INIT_WAIT, 0x401010, 0, &ctx);
    fake_transfer(fake, VPT_SIPI, 0, 0x99000, &ctx);
    fake_start(fake, BRANCHES);
    jmp_indirect(fake);
    EXPECT(fake, "TIP(402000)", "a SIPI before the trace");
    fake_close(fake);
}

/* 33.2.9.6: the clock ran on in the module; without TSCEn its MTC comes first. */
static void test_acm_clock(void)
{
    struct fake *fake = start("max", BRANCHES | VPT_CTL_MTCEN);

    vpt_acm_begin(&fake->cpu);
    fake->clocks.art += 3;
    vpt_acm_end(&fake->cpu, 0x401012);
    EXPECT(fake, "MTC(3) CBR(*", "33.2.9.6");
    fake_close(fake);
}

/* 33.2.9.3: RSM sets no TraceEn with an RTIT_CTL that WRMSR would refuse with it. */
static void test_rsm_refuses(void)
{
    const struct vpt_context ctx = context_of(0);
    struct fake *fake = start("broadwell", BRANCHES); /* has no single-range output */

    CHECK(vpt_smi(&fake->cpu, 0x401010), "TraceEn was 1");
    fake_write(fake, VPT_MSR_CTL, BRANCHES);
    CHECK(!vpt_rsm(&fake->cpu, true, 0x401010, &ctx), "the handler cleared ToPA");
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "TraceEn");
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA);
    CHECK(vpt_rsm(&fake->cpu, true, 0x401010, &ctx), "and set it again");
    CHECK(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN, "TraceEn");
    fake_stop(fake);
    fake_close(fake);
}

/* A RET is not compressed by a CALL from before a module: in between, TriggerEn was 0. */
static void test_acm_forgets_calls(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BRANCHES);
    vpt_call_indirect(&fake->cpu, 0x402000, 0x401005);
    vpt_acm_begin(&fake->cpu);
    vpt_acm_end(&fake->cpu, 0x402000);
    fake_mark(fake);
    vpt_ret(&fake->cpu, 0x401005);
    EXPECT(fake, "TIP(401005)", "33.4.2.2: compressed RETs");
    fake_close(fake);
}

/* A module leaves nothing behind of a trace that a TraceStop ended, stalled or not. */
static void test_acm_flushes(void)
{
    struct fake *fake = fake_open("max");

    fake_write(fake, VPT_MSR_ADDR0_A, 0x500000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x500fff);
    fake_start(fake, BRANCHES | TRACESTOP);
    vpt_stall(&fake->cpu, true);
    trace_stop(fake);
    CHECK(fake->cpu.buf_len > 0, "stalled");
    vpt_acm_begin(&fake->cpu);
    CHECK(fake->cpu.buf_len == 0, "33.2.9.6: flushed");
    CHECK(words_match("PGD(500000) STOP", fake_words(fake, false)), "33.2.9.6: [%s]",
          fake_words(fake, false));
    fake_close(fake);
}

/* 33.3.8: TIPs that were deferred when an overflow began, or later, are lost with it. */
static void test_overflow_defers_nothing(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;
    const char *words;

    caps.deferred_tips = true;
    fake = fake_open_caps(&caps);
    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 10000 && !fake->cpu.overflow; i++)
        jmp_indirect(fake);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_jmp_indirect(&fake->cpu, 0x777000);
    vpt_stall(&fake->cpu, false);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    words = fake_words(fake, false);
    CHECK(words_match("OVF FUP(403000) PSB+", words), "33.3.8: [%s]", words);
    fake_stop(fake);
    fake_close(fake);
}

/* ---- Output --------------------------------------------------------------------------------- */

/* Bytes that met a fault are lost when the output is moved, and do not turn up elsewhere. */
static void test_left_bytes(void)
{
    struct fake *fake = start("max", BRANCHES);

    jmp_indirect(fake);
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_FAULT, NULL, false);
    fake_write(fake, VPT_MSR_CTL, 0);
    CHECK(fake->cpu.buf_len > 0, "the fault leaves bytes");
    fake_unmap(fake);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    CHECK(fake->cpu.buf_len == 0 && !fake->cpu.output_blocked, "and WRMSR forgets them");
    fake_mark(fake);
    vpt_flush(&fake->cpu);
    fake_start(fake, BRANCHES);
    EXPECT(fake, "", "a new trace is not behind them");
    fake_close(fake);
}

/* 33.3.10: what an error loses is lost, and counted. */
static void test_error_loses(void)
{
    struct fake *fake = start("max", BRANCHES);
    uint64_t stored;

    jmp_indirect(fake);
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_RESTRICTED, NULL, false);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR) && !vpt_trigger_en(&fake->cpu), "33.2.7.4");
    CHECK(fake->cpu.buf_len == 0 && fake->cpu.dropped_bytes > 0, "%u bytes left",
          fake->cpu.buf_len);
    fake_unmap(fake);
    stored = fake->tap_total;
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == stored, "nothing comes after it");
    fake_close(fake);
}

/* Room for a TIP is made by a store that fails: tracing is over, and nobody waits for the TIP. */
static void test_error_before_tip(void)
{
    struct fake *fake = start("max", BRANCHES);
    unsigned deferred;

    fake->cpu.caps.deferred_tips = true;
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_FAULT, NULL, false);
    while (fake->cpu.buf_len <= VPT_BUFFER_BYTES / 2)
        jmp_indirect(fake);
    deferred = fake->cpu.deferred_count;
    fake_unmap(fake);
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_RESTRICTED, NULL, false);
    jmp_indirect(fake);
    CHECK(fake_status(fake, VPT_STATUS_ERROR) && !vpt_trigger_en(&fake->cpu), "33.2.7.4");
    CHECK(fake->cpu.deferred_count == deferred, "%u TIPs wait, %u did", fake->cpu.deferred_count,
          deferred);
    fake_close(fake);
}

/* An owner that answers for nothing, for a byte, or for more than it was asked. */
struct odd {
    uint32_t answer;
    uint8_t page[4096 + 64];
};
static void odd_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                          struct vpt_span *span)
{
    struct odd *odd = owner;

    (void)access;
    CHECK(gpa % 4096 + len_bytes <= 4096, "a request within one page");
    *span = (struct vpt_span){VPT_SPAN_RAM, odd->answer, odd->page + gpa % 4096};
}
static void odd_clocks(void *owner, struct vpt_clocks *clocks)
{
    (void)owner;
    memset(clocks, 0, sizeof(*clocks));
}
static void test_answers(void)
{
    static const struct vpt_ops ops = {.translate = odd_translate, .clocks = odd_clocks};
    static const uint32_t answers[] = {1, 0, 7, UINT32_MAX};
    const struct vpt_context ctx = context_of(0);
    const struct vpt_caps caps = rich_caps();
    uint8_t first[4096];
    uint64_t bytes = 0;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct odd odd = {.answer = answers[i]};
        struct vpt_cpu cpu;

        CHECK(vpt_init(&cpu, &caps, &ops, &odd), "vpt_init");
        vpt_set_context(&cpu, &ctx);
        vpt_wrmsr(&cpu, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff, 0, 0);
        vpt_wrmsr(&cpu, VPT_MSR_CTL, BRANCHES | VPT_CTL_TRACEEN, 0, 0x401000);
        for (unsigned n = 0; n < 200; n++)
            vpt_jmp_indirect(&cpu, 0x402000 + 0x10001u * n);
        vpt_wrmsr(&cpu, VPT_MSR_CTL, 0, 0x401010, 0x401012);
        if (i == 0) {
            memcpy(first, odd.page, sizeof(first));
            bytes = cpu.output_bytes;
        }
        CHECK(cpu.output_bytes == bytes && bytes > 800 && cpu.dropped_bytes == 0,
              "answer %u: %llu bytes", answers[i], (unsigned long long)cpu.output_bytes);
        CHECK(memcmp(first, odd.page, sizeof(first)) == 0, "answer %u: other bytes", answers[i]);
        for (size_t n = 4096; n < sizeof(odd.page); n++)
            CHECK(odd.page[n] == 0, "answer %u: behind the page", answers[i]);
    }
}

/* A ToPA STOP of before says nothing of the next output. */
static void test_old_stop(void)
{
    struct fake *fake = fake_open("max");
    const struct vpt_context ctx = context_of(0);

    fake_poke(fake, TABLE_GPA, REGION_GPA | VPT_TOPA_STOP);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_noise(fake, 6000);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "STOP");
    fake_write(fake, VPT_MSR_CTL, 0);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x300000);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xffff);
    fake_write(fake, VPT_MSR_ADDR0_A, 0x500000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x500fff);
    fake->tap_len = 0; /* what is cut off is no packet */
    fake_write(fake, VPT_MSR_CTL, BRANCHES | TRACESTOP | VPT_CTL_TRACEEN);
    fake_mark(fake);
    fake->most_bytes = 1;
    trace_stop(fake);
    vpt_flush(&fake->cpu);
    CHECK(words_match("PGD(500000) STOP", fake_words(fake, false)), "every byte of it: [%s]",
          fake_words(fake, false));
    fake_close(fake);
}

/* An event fits if VPT_EVENT_MAX_BYTES are left, and not if one is missing. */
static void test_room(void)
{
    for (unsigned missing = 0; missing < 2; missing++) {
        struct fake *fake = start("max", BRANCHES);

        vpt_stall(&fake->cpu, true);
        fake->cpu.buf_len = VPT_BUFFER_BYTES - VPT_EVENT_MAX_BYTES + missing;
        vpt_jmp_indirect(&fake->cpu, 0x402000);
        CHECK(fake->cpu.overflow == (missing == 1), "%u missing", missing);
        CHECK(fake->cpu.overflow_count == missing, "%u missing: the count", missing);
        vpt_reset(&fake->cpu, VPT_RESET_COLD);
        fake_close(fake);
    }
}

/* ---- MSRs, XSAVES, saved states ------------------------------------------------------------- */

/* Table 33-6: ADDRn_CFG of 0, 1 and 2 are defined. */
static void test_addr_cfg(void)
{
    struct vpt_caps caps = rich_caps();

    for (unsigned n = 0; n < (caps.leaf14_1_eax & 7); n++) {
        for (uint64_t cfg = 0; cfg < 16; cfg++) {
            struct fake *fake = fake_open_caps(&caps);
            const uint64_t ctl = cfg << (VPT_CTL_ADDR_CFG_SHR + 4 * n);

            CHECK((vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, ctl, 0, 0) == VPT_OK) == (cfg <= 2),
                  "ADDR%u_CFG = %u", n, (unsigned)cfg);
            fake_close(fake);
        }
    }
}

/* XSAVES while TraceEn is 0 changes nothing. */
static void test_xsaves_idle(void)
{
    const uint64_t status = 0x1234ull << VPT_STATUS_BYTECNT_SHR;
    struct fake *fake = fake_open("max");
    struct vpt_xsave_area area;

    fake_write(fake, VPT_MSR_STATUS, status);
    vpt_xsaves(&fake->cpu, &area, IP_OFF);
    CHECK(area.status == status && fake_read(fake, VPT_MSR_STATUS) == status, "PacketByteCnt");
    fake_close(fake);
}

/* 33.2.9.4: where VMX operation excludes tracing, XRSTORS raises #GP there. */
static void test_xrstors_vmx(void)
{
    const struct vpt_xsave_area area = {.output_base = 0x7000};

    for (unsigned vmx = 0; vmx < 2; vmx++) {
        for (unsigned may = 0; may < 2; may++) {
            struct vpt_caps caps = plain_caps("max");
            struct fake *fake;

            caps.vmx_misc_pt = may;
            fake = fake_open_caps(&caps);
            if (vmx)
                vpt_vmxon(&fake->cpu, 0x401000);
            CHECK((vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_OK) == (!vmx || may),
                  "VMX operation %u, VMX_MISC[14] %u", vmx, may);
            CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == (!vmx || may ? 0x7000 : 0),
                  "VMX operation %u, VMX_MISC[14] %u: OUTPUT_BASE", vmx, may);
            fake_close(fake);
        }
    }
}

static bool migrates(const struct vpt_cpu *from, struct vpt_cpu *to)
{
    static uint8_t bytes[16384];
    const size_t len = vpt_save(from, bytes, sizeof(bytes));

    return len > 0 && vpt_restore(to, bytes, len) == NULL;
}

/* States that a processor does reach can be restored. */
static void test_states_that_are(void)
{
    struct fake *fake = start("max", BRANCHES), *other = fake_open("max");
    const struct vpt_context ctx = context_of(0);

    fake_transfer(fake, VPT_INIT_WAIT, 0x401010, 0, &ctx);
    CHECK(migrates(&fake->cpu, &other->cpu), "waiting for SIPI");
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x401013);
    EXPECT(fake, "FUP(401010) PGD() PIP(5000)", "Table 33-55 case 23: still waiting");
    fake_close(fake);

    fake = start("max", BRANCHES);
    fake_stop(fake);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, (uint64_t)REGION_BYTES << 32);
    CHECK(migrates(&fake->cpu, &other->cpu), "an offset that the next region must have");
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "33.2.7.2, ToPA Errors 3");
    CHECK(migrates(&fake->cpu, &other->cpu), "after a ToPA error");
    fake_close(fake);
    fake_close(other);
}

static void test_saved(void)
{
    struct vpt_caps caps = plain_caps("max");
    static const struct {
        uint64_t region_bytes, tnt_full;
        bool good;
    } cases[] = {
        {0, 1ull << 47, true},         {4096, 1ull << 47, true},   {4097, 1ull << 47, false},
        {3 * 4096, 1ull << 47, false}, {0, 1u << 6, true},         {0, 1u << 10, false},
        {1u << 27, 1ull << 47, true},  {1u << 28, 1u << 6, false},
    };

    caps.long_tnt = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static uint8_t bytes[16384];
        struct fake *fake = fake_open_caps(&caps);
        struct vpt_cpu cpu = fake->cpu;
        size_t len;

        cpu.region_bytes = cases[i].region_bytes;
        cpu.tnt_full = cases[i].tnt_full;
        len = vpt_save(&cpu, bytes, sizeof(bytes));
        CHECK(len > 0 && (vpt_restore(&fake->cpu, bytes, len) == NULL) == cases[i].good, "case %zu",
              i);
        fake_close(fake);
    }
}

/* CPUID.15H without a ratio, and with the smallest one. */
static void test_clocks(void)
{
    static const struct {
        uint32_t num, den;
        uint64_t art;
    } cases[] = {{0, 1, 0}, {1, 0, 0}, {1, 1, 1000}, {1, 2, 2000}, {2, 1, 500}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct vpt_caps caps = {.tsc_num = cases[i].num, .tsc_den = cases[i].den};
        struct vpt_clocks clocks;

        vpt_clocks_from_tsc(&caps, 1000, &clocks);
        CHECK(clocks.tsc == 1000 && clocks.cycles == 1000 && clocks.art == cases[i].art,
              "case %zu: ART %llu", i, (unsigned long long)clocks.art);
    }
}

/* A CYC of one byte before a TSC. */
static void test_rewrite_cyc(void)
{
    uint8_t trace[] = {0x0b, 0x19, 1, 0, 0, 0, 0, 0, 0, 0x03, 0x02, 0x23};

    CHECK(vpt_rewrite_tsc(trace, sizeof(trace), 0, 1) == sizeof(trace), "all of it");
    CHECK(trace[2] == 2 && trace[1] == 0x19, "the TSC");
}

/* Items that look like the second byte of a BEP, an OVF or a PSB do not end their block. */
static void test_rewrite_items(void)
{
    static const uint8_t looks[] = {0x33, 0xb3, 0xf3, 0x82};

    for (size_t i = 0; i < sizeof(looks); i++) {
        uint8_t trace[] = {0x02, 0x63, 0x84, 0x0c, looks[i], 0, 0, 0, 0x0c, 0x19, 5, 0,
                           0,    0x02, 0x33, 0x19, 7,        0, 0, 0, 0,    0,    0};

        CHECK(vpt_rewrite_tsc(trace, sizeof(trace), 0, 1) == sizeof(trace), "all of it");
        CHECK(trace[10] == 5 && trace[16] == 8, "an item that begins with %02x", looks[i]);
    }
}

/* PTW has 4 or 8 bytes, with or without the IP bit; other PayloadBytes are reserved. */
static void test_rewrite_ptw(void)
{
    static const struct {
        uint8_t opcode;
        size_t len;
    } cases[] = {{0x12, 6}, {0x32, 10}, {0x92, 6}, {0xb2, 10},
                 {0x52, 0}, {0x72, 0},  {0xd2, 0}, {0xf2, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t trace[] = {0x02, cases[i].opcode, 1, 2, 3, 4, 5, 6, 7, 8, 0x01};
        const size_t len = cases[i].len;

        trace[len] = len ? 0x05 : trace[len]; /* no packet */
        CHECK(vpt_rewrite_tsc(trace, sizeof(trace), 0, 1) == len, "02 %02x", cases[i].opcode);
    }
}

void suite_edges(void)
{
    static const struct test tests[] = {
        {"TNT first", test_tnt_first},
        {"cycles of now", test_cycles_of_now},
        {"each bit of an IP", test_ip_bits},
        {"PSB+ in the event", test_psb_in_event},
        {"the period of PSB+", test_psb_period},
        {"dependencies", test_dependencies},
        {"without TriggerEn", test_no_trigger},
        {"waiting for SIPI", test_wait_for_sipi},
        {"the clock in a module", test_acm_clock},
        {"RSM refuses", test_rsm_refuses},
        {"a module flushes", test_acm_flushes},
        {"a module and compressed RETs", test_acm_forgets_calls},
        {"deferred TIPs in an overflow", test_overflow_defers_nothing},
        {"bytes left behind", test_left_bytes},
        {"an error loses bytes", test_error_loses},
        {"an error before a TIP", test_error_before_tip},
        {"answers about memory", test_answers},
        {"an old STOP", test_old_stop},
        {"room for an event", test_room},
        {"ADDRn_CFG", test_addr_cfg},
        {"XSAVES without a trace", test_xsaves_idle},
        {"XRSTORS in VMX operation", test_xrstors_vmx},
        {"saved states", test_saved},
        {"states that are", test_states_that_are},
        {"clocks of a TSC", test_clocks},
        {"CYC before TSC", test_rewrite_cyc},
        {"items of a block", test_rewrite_items},
        {"PTW before no packet", test_rewrite_ptw},
        {NULL, NULL},
    };

    add_suite("edges", tests);
}
