/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timing packets against the clocks that the guest reads itself (33.3.6, 33.4.2.10 to 33.4.2.14).
 */
#include "packet-tests.h"

BODY(nothing_body);
BODY(jcc_body);
BODY(indirect_body);
BODY(spin_body);

#define TSC_MASK   0x00ffffffffffffffull
#define SPIN_TURNS 2000
#define MTC_TRIES  8

#define MSR_TSC        0x10u
#define MSR_TSC_ADJUST 0x3bu
#define TSC_STEP       (1ull << 40)

/* ---- Which are there ---------------------------------------------------------------------- */

static void test_enables(void)
{
    const struct pt_caps *caps = pt_caps();

    trace_code(CTL_DEFAULT, jcc_body, 0x55, 8);
    report_value(trace_count(PACKET_TSC) + trace_count(PACKET_TMA) + trace_count(PACKET_MTC) +
                     trace_count(PACKET_CYC),
                 0, "time: no TSC, TMA, MTC or CYC with all enables 0 (33.2.8.2)");
    report(trace_count(PACKET_CBR) >= 1, "time: CBR needs no enable (33.4.2.10)");
    trace_code(CTL_DEFAULT | CTL_TSCEN, jcc_body, 0x55, 8);
    report_value(trace_count(PACKET_TMA) + trace_count(PACKET_MTC) + trace_count(PACKET_CYC), 0,
                 "time: TSCEn alone: no TMA, MTC or CYC (33.2.8.2)");
    if (caps->mtc) {
        trace_code(CTL_DEFAULT | ctl_mtc(MTC_SLOWEST), jcc_body, 0x55, 8);
        report_value(trace_count(PACKET_TSC) + trace_count(PACKET_TMA), 0,
                     "time: MTCEn alone: no TSC and no TMA (33.4.2.13)");
    }
    trace_code(CTL_DEFAULT | CTL_TSCEN | (caps->mtc ? ctl_mtc(MTC_SLOWEST) : 0) |
                   (caps->psb_cyc ? CTL_CYCEN : 0),
               jcc_body, 0x55, 8);
    EXPECT_BEGIN(jcc_body);
    for (unsigned i = 0; i < 8; i++) {
        expect_bit(0x55 >> i & 1);
        expect_bit(i < 7);
    }
    EXPECT_END(jcc_body);
    check_flow("time: all timing packets on: the control flow is the same (33.4.1)");
}

/* ---- TSC and TMA -------------------------------------------------------------------------- */

static const struct packet *first_of(enum packet_kind kind)
{
    for (unsigned i = 0; i < trace.count; i++)
        if (trace.packets[i].kind == kind)
            return &trace.packets[i];
    return NULL;
}

static void test_tsc(void)
{
    const struct packet *tsc;
    uint64_t last = 0;
    bool ordered = true, within = true;

    trace_code(CTL_DEFAULT | CTL_TSCEN, nothing_body, 0, 0);
    tsc = first_of(PACKET_TSC);
    report(tsc != NULL, "TSC: sent when TraceEn is set (33.4.2.11)");
    for (unsigned i = 0; i < trace.count; i++) {
        const struct packet *p = &trace.packets[i];

        if (p->kind != PACKET_TSC)
            continue;
        ordered &= p->value >= last;
        within &=
            p->value >= (trace.tsc_begin & TSC_MASK) && p->value <= (trace.tsc_end & TSC_MASK);
        last = p->value;
    }
    report(tsc && within,
           "TSC: what RDTSC says before and after the trace encloses it (33.4.2.11)");
    report(tsc && ordered, "TSC: never goes back (33.4.2.11)");
}

static void test_tma(void)
{
    const struct packet *tma;
    bool behind = true;

    trace_code(CTL_DEFAULT | CTL_TSCEN | ctl_mtc(MTC_SLOWEST), nothing_body, 0, 0);
    tma = first_of(PACKET_TMA);
    report(tma != NULL, "TMA: with TSCEn and MTCEn (33.4.2.13)");
    for (unsigned i = 0; i < trace.count; i++) {
        const struct packet *p = &trace.packets[i];

        if (p->kind == PACKET_TSC)
            behind &= i + 1 < trace.count && p[1].kind == PACKET_TMA;
        if (p->kind == PACKET_TMA)
            behind &= i > 0 && p[-1].kind == PACKET_TSC;
    }
    report(tma && behind, "TMA: right behind each TSC, and nowhere else (33.4.2.13)");
}

/* The clocks where a trace begins. False: TSC and TMA are not there. */
static bool read_clocks(uint64_t *tsc, uint64_t *ctc)
{
    const struct packet *packet;

    trace_code(CTL_DEFAULT | CTL_TSCEN | ctl_mtc(MTC_SLOWEST), nothing_body, 0, 0);
    packet = first_of(PACKET_TSC);
    if (!packet || packet + 1 >= trace.packets + trace.count || packet[1].kind != PACKET_TMA)
        return false;
    *tsc = packet->value;
    *ctc = packet[1].value;
    return true;
}

/* How much further the TSC is by WRMSR; 0: not at all. */
static uint64_t step_tsc(void)
{
    uint64_t before, after;

    if (rdmsr_safe(MSR_TSC_ADJUST, &before) || wrmsr_safe(MSR_TSC, trace.tsc_end + TSC_STEP))
        return 0;
    after = rdmsr(MSR_TSC_ADJUST);
    return after - before;
}

/* Software that writes its TSC moves the TSC, and no other clock. */
static void test_written_tsc(void)
{
    static const char rule[] = "TMA: the crystal goes on behind a WRMSR of the TSC (33.8.3.1)";
    const struct cpuid ratio = cpuid_checked(0x15, 0);
    uint64_t tsc[2] = {0}, ctc[2] = {0}, before, step, passed;
    bool first, second;

    if (!ratio.eax || !ratio.ebx) {
        report_skip("CPUID.15H does not say the ratio", "%s", rule);
        return;
    }
    first = read_clocks(&tsc[0], &ctc[0]);
    before = trace.tsc_end;
    step = step_tsc();
    second = read_clocks(&tsc[1], &ctc[1]);
    if (step)
        wrmsr(MSR_TSC, trace.tsc_end - step);
    if (!step || trace.tsc_begin - before < step / 2) {
        report_skip("RDTSC does not follow a WRMSR of the TSC", "%s", rule);
        return;
    }
    passed = (tsc[1] - tsc[0] - step) & TSC_MASK;
    passed = (passed / ratio.ebx * ratio.eax + passed % ratio.ebx * ratio.eax / ratio.ebx);
    /* Both counters are cut to whole crystal clocks. */
    report(first && second && ((ctc[1] - ctc[0] - passed + 1) & 0xffff) <= 2, "%s", rule);
}

/* ---- MTC ---------------------------------------------------------------------------------- */

static unsigned mtc_freq(uint64_t ctl)
{
    return (unsigned)(ctl >> CTL_MTCFREQ_SHIFT & 0xf);
}

/* Longer and longer, until two MTCs are there. */
static void trace_mtcs(uint64_t ctl)
{
    uint64_t turns = SPIN_TURNS;

    for (unsigned i = 0; i < MTC_TRIES; i++, turns *= 2) {
        trace_code(ctl, spin_body, turns, 0);
        if (trace_count(PACKET_MTC) >= 2)
            break;
    }
}

/* TSC ticks of one turn of an MTC's counter (33.8.3.1); 0: CPUID.15H does not say. */
static uint64_t tsc_per_mtc(unsigned freq)
{
    const struct cpuid ratio = cpuid_checked(0x15, 0);

    return ratio.eax ? ((uint64_t)ratio.ebx << freq) / ratio.eax : 0;
}

/* The last of these before packet `end`; NULL: there is none. */
static const struct packet *last_before(enum packet_kind kind, const struct packet *end)
{
    while (end-- > trace.packets)
        if (end->kind == kind)
            return end;
    return NULL;
}

/* From the first MTC to the last one before the next TSC: how often it says the same, how far it
 * goes. */
static void follow_mtcs(const struct packet *first, unsigned *repeated, unsigned *periods)
{
    uint64_t last = first->value;

    *repeated = *periods = 0;
    for (const struct packet *p = first + 1; p < trace.packets + trace.count; p++) {
        if (p->kind == PACKET_TSC)
            return;
        if (p->kind != PACKET_MTC)
            continue;
        *repeated += p->value == last;
        *periods += (unsigned)(p->value - last) & 0xff;
        last = p->value;
    }
}

/* False: none came. */
static bool test_mtc(void)
{
    const uint64_t ctl = CTL_DEFAULT | CTL_TSCEN | ctl_mtc(MTC_SLOWEST);
    const unsigned freq = mtc_freq(ctl);
    const uint64_t ticks = tsc_per_mtc(freq);
    const struct packet *mtc;
    unsigned repeated, periods;

    trace_mtcs(ctl);
    report(trace_count(PACKET_MTC) >= 2, "MTC: sent while nothing but time happens (33.4.2.12)");
    mtc = first_of(PACKET_MTC);
    if (!mtc)
        return false;
    follow_mtcs(mtc, &repeated, &periods);
    report_value(repeated, 0, "MTC: sent when CTC[%u:%u] changes, and only then (33.4.2.12)",
                 freq + 7, freq);
    if (ticks)
        report(periods <= (trace.tsc_end - trace.tsc_begin) / ticks + 1,
               "MTC: no more time in them than RDTSC saw, by CPUID.15H (33.8.3.1)");
    else
        report_skip("CPUID.15H does not say the ratio", "MTC: time by CPUID.15H (33.8.3.1)");
    return true;
}

/* The time that is known next behind an MTC. */
static uint64_t tsc_behind(const struct packet *mtc)
{
    for (const struct packet *p = mtc + 1; p < trace.packets + trace.count; p++)
        if (p->kind == PACKET_TSC)
            return p->value;
    return trace.tsc_end & TSC_MASK;
}

/*
 * How far the first MTC is from the TMA before it, in periods and in the bits that both have: TMA
 * has 16 bits of the counter, MTC bits freq to freq + 7. It cannot be further than what is left of
 * the time behind the TMA without the time in MTCs. *held_up: these bits do not tell that.
 */
static bool mtc_follows_tma(unsigned freq, bool *held_up)
{
    const unsigned mask = (1u << (freq > 8 ? 16 - freq : 8)) - 1;
    const uint64_t ticks = tsc_per_mtc(freq);
    const struct packet *mtc = first_of(PACKET_MTC);
    const struct packet *tma = mtc ? last_before(PACKET_TMA, mtc) : NULL;
    const struct packet *tsc = tma ? last_before(PACKET_TSC, tma) : NULL;
    unsigned periods, repeated, in_mtcs;
    uint64_t most;

    *held_up = false;
    if (!tsc)
        return false;
    periods = (unsigned)(mtc->value - (tma->value >> freq)) & mask;
    follow_mtcs(mtc, &repeated, &in_mtcs);
    most = ticks ? (tsc_behind(mtc) - tsc->value) / ticks + 1 - in_mtcs : mask / 4;
    *held_up = most >= mask || (!ticks && periods > most);
    return periods > 0 && periods <= most;
}

static void test_mtc_after_tma(void)
{
    const uint64_t ctl = CTL_DEFAULT | CTL_TSCEN | ctl_mtc(12);
    bool held_up = true, follows = false;

    /* A hypervisor may have held up the guest in between. */
    for (unsigned i = 0; i < MTC_TRIES && held_up; i++) {
        trace_mtcs(ctl);
        follows = mtc_follows_tma(mtc_freq(ctl), &held_up);
    }
    if (held_up)
        report_skip("the guest is held up too long", "MTC: goes on from TMA.CTC (33.4.2.13)");
    else
        report(follows, "MTC: the first one goes on from TMA.CTC (33.4.2.13)");
}

static void test_mtc_filtered(void)
{
    uint64_t turns = SPIN_TURNS;

    for (unsigned i = 0; i < MTC_TRIES; i++, turns *= 2) {
        trace_code(CTL_USER | CTL_BRANCHEN | ctl_mtc(MTC_SLOWEST), spin_body, turns, 0);
        if (trace_count(PACKET_MTC) >= 1)
            break;
    }
    report(trace_count(PACKET_MTC) >= 1, "MTC: sent with ContextEn = 0 too (33.2.6.3)");
}

/* ---- CYC ---------------------------------------------------------------------------------- */

static bool is_timing(enum packet_kind kind)
{
    return kind == PACKET_CYC || kind == PACKET_MTC || kind == PACKET_TSC || kind == PACKET_TMA ||
           kind == PACKET_CBR;
}

static bool cyc_eligible(enum packet_kind kind) /* 33.3.6 */
{
    return kind == PACKET_TNT || kind == PACKET_TIP || kind == PACKET_TIP_PGE ||
           kind == PACKET_TIP_PGD || kind == PACKET_MODE || kind == PACKET_PIP ||
           kind == PACKET_VMCS || kind == PACKET_OVF || kind == PACKET_MTC || kind == PACKET_TSC ||
           kind == PACKET_PTW || kind == PACKET_EXSTOP;
}

/* 5 bits of the counter in the first byte, 7 in each further one. */
static unsigned cyc_bytes(uint64_t value)
{
    unsigned bytes = 1;

    for (value >>= 5; value; value >>= 7)
        bytes++;
    return bytes;
}

static void test_cyc(void)
{
    unsigned alone = 0, wrong_place = 0, too_long = 0;

    trace_code(CTL_DEFAULT | CTL_CYCEN, indirect_body, 0, 0);
    report(trace_count(PACKET_CYC) >= 2, "CYC: with CYCEn = 1 (33.3.6)");
    for (unsigned i = 1; i < trace.count; i++) {
        const struct packet *p = &trace.packets[i];

        /* Two indirect branches do not retire in the same cycle. */
        if (p->kind == PACKET_TIP)
            alone += p[-1].kind != PACKET_CYC;
        if (p[-1].kind == PACKET_CYC)
            wrong_place += !cyc_eligible(p->kind) && !is_timing(p->kind);
        if (p->kind == PACKET_CYC)
            too_long += p->len_bytes != cyc_bytes(p->value);
    }
    report_value(alone, 0, "CYC: before each TIP of an indirect branch (33.3.6)");
    report_value(wrong_place, 0, "CYC: before nothing but CYC-eligible packets (33.3.6)");
    report_value(too_long, 0, "CYC: as many bytes as its value needs (33.4.2.14)");
}

/* The least value of a CYC between packets of this code; UINT64_MAX: there is none. */
static uint64_t least_cyc(uint64_t ctl)
{
    uint64_t least = UINT64_MAX;

    trace_code(ctl, jcc_body, 0x5a5a5a5a, 32);
    for (unsigned i = 0; i < trace.count; i++)
        if (trace.packets[i].kind == PACKET_CYC && trace.packets[i].value < least)
            least = trace.packets[i].value;
    return least;
}

static void test_cyc_threshold(void)
{
    const uint64_t usual = least_cyc(CTL_DEFAULT | CTL_CYCEN);
    bool tried = false;

    for (uint64_t field = 1; field < 16; field++) {
        const uint64_t threshold = 1ull << (field - 1);

        if (!(pt_caps()->cyc_map >> field & 1) || threshold <= usual)
            continue; /* such packets are further apart than that: nothing could be seen */
        report(least_cyc(CTL_DEFAULT | CTL_CYCEN | field << CTL_CYCTHRESH_SHIFT) >= threshold,
               "CycThresh = %lu: no CYC of less than %lu cycles (33.3.6.3)", field, threshold);
        tried = true;
    }
    if (!tried)
        report_skip("packets are further apart than any threshold", "CycThresh (33.3.6.3)");
}

void test_timing(void)
{
    const struct pt_caps *caps = pt_caps();

    test_enables();
    test_tsc();
    if (caps->mtc) {
        test_tma();
        test_written_tsc();
        if (test_mtc()) {
            test_mtc_after_tma();
            test_mtc_filtered();
        }
    } else {
        report_skip("no MTC packets", "TMA and MTC (33.4.2.12)");
    }
    if (caps->psb_cyc) {
        test_cyc();
        test_cyc_threshold();
    } else {
        report_skip("no CYC packets", "CYC (33.3.6)");
    }
}
