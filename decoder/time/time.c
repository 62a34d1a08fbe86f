/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time: TSC, TMA, MTC, CYC and CBR packets combined to an estimated TSC and an interval that holds
 * the true one (SDM 33.8.3, 33.3.6, 33.4.2.10 to 33.4.2.14).
 *
 * Three things are followed, each as an interval:
 *
 *   phase   when the crystal clock stood at a known count: from TSC and TMA, else from the first
 *           MTC behind a TSC. It makes a window of each MTC: not before this count began, and
 *           before the next one begins, whose MTC would come first.
 *   base    the edge of the core clock that the last CYC packet counted to. CYC packets move it on,
 *           windows cut it.
 *   rate    TSC ticks a core cycle: first as CBR says, then from two windows and the cycles
 * between.
 *
 * Windows rest on nothing but the packets; what base and rate say gives way if it contradicts them.
 */
#include <stdlib.h>

#include "packets/part.h"
#include "time/time.h"

#define TSC_BITS     56
#define SCALE_BITS   48
#define TMA_CTC_BITS 16
#define CYC_NEAR     16  /* packets: how far ahead the next CYC is looked for */
#define FAST_RANGE   512 /* TMA.FastCounter has 9 bits */

/* Multipliers from 1/256 to 256: nothing here comes near 2^127. */
#define SCALE_MIN (UINT64_C(1) << (SCALE_BITS - 8))
#define SCALE_MAX (UINT64_C(1) << (SCALE_BITS + 8))

static struct span intersect(struct span a, struct span b)
{
    return (struct span){later(a.first, b.first), sooner(a.last, b.last)};
}

/* Division of 128 bits takes many times as long as one of 64, which nearly always does. */
static ticks divide(ticks value, uint64_t by)
{
    if (value >= 0 && value <= UINT64_MAX)
        return (uint64_t)value / by;
    return value / (ticks)by;
}

/* ---- The crystal clock ---- */

static bool has_crystal(const struct ptd_time *time)
{
    return time->config.tsc_num && time->config.tsc_den;
}

/* What so many crystal clocks take, rounded down: at most one part of 2^32 of a tick too little. */
static ticks crystal_ticks(const struct ptd_time *time, uint64_t clocks)
{
    if (time->clock_ticks)
        return (ticks)clocks * time->clock_ticks;

    const ticks product = (ticks)clocks * time->config.tsc_num;
    const uint64_t den = time->config.tsc_den;
    const ticks whole = divide(product, den);
    const uint64_t rest = (uint64_t)(product - whole * (ticks)den);

    return (whole << FRACTION) + (rest << FRACTION) / den;
}

/* When the crystal clock comes to art, or came: the edge that an MTC tells may be before TMA. */
static struct span edge(const struct ptd_time *time, uint64_t art)
{
    if (art < time->art_base) {
        const ticks before = crystal_ticks(time, time->art_base - art);

        return (struct span){time->phase.first - before - 1, time->phase.last - before};
    }

    const ticks passed = crystal_ticks(time, art - time->art_base);

    return (struct span){time->phase.first + passed, time->phase.last + passed + 1};
}

/* The crystal clock at an instant, rounded down, the phase being as given. */
static uint64_t art_at(const struct ptd_time *time, ticks instant, ticks phase)
{
    if (instant <= phase)
        return time->art_base;

    /* Whole ticks are enough: they round down. */
    const ticks passed = (instant - phase) >> FRACTION;

    return time->art_base + (uint64_t)divide(passed * time->config.tsc_den, time->config.tsc_num);
}

/* When the count of MTC packets that is in force at art gives way to the next. */
static ticks end_of_count(const struct ptd_time *time, uint64_t art)
{
    return edge(time, (art | (time->period - 1)) + 1).last - 1;
}

/* ---- Core cycles ---- */

static struct rate any_rate(void)
{
    return (struct rate){RATE_MIN, RATE_MAX};
}

/* The core clock is within one ratio step of what the packet says. */
static struct rate cbr_rate(const struct ptd_time *time)
{
    const uint64_t p1 = (uint64_t)time->config.max_nonturbo_ratio << FRACTION;

    if (p1 == 0 || time->cbr == 0)
        return any_rate();
    return (struct rate){p1 / (time->cbr + 1u), time->cbr > 1 ? p1 / (time->cbr - 1u) + 1 : p1 * 2};
}

/* The present is so many cycles at most behind the edge of the core clock that the last CYC counted
 * to. */
static uint64_t slack(const struct ptd_time *time)
{
    return time->exact ? 1 : 1 + time->cyc_slack;
}

static struct count count_here(const struct ptd_time *time)
{
    return (struct count){time->cycles, slack(time)};
}

/* When the last CYC was, if the count of cycles was as here.at within here.time. */
static struct span base_from(const struct ptd_time *time, struct anchor here)
{
    const uint64_t passed = time->cycles - here.at.cycles;

    return (struct span){here.time.first + (ticks)passed * time->rate.least -
                             (ticks)here.at.slack * time->rate.most,
                         here.time.last + (ticks)passed * time->rate.most};
}

/* What the cycles and the time since the anchor say of the rate. */
static struct rate measure(const struct anchor *old, const struct anchor *here)
{
    struct rate rate = {0, UINT64_MAX};
    const uint64_t most_cycles = here->at.cycles + here->at.slack - old->at.cycles;
    const ticks least_time = here->time.first - old->time.last;
    const ticks most_time = here->time.last - old->time.first;

    if (most_cycles > 0)
        rate.least = (uint64_t)later(divide(least_time, most_cycles), 0);
    if (here->at.cycles > old->at.cycles + old->at.slack) {
        const uint64_t least_cycles = here->at.cycles - old->at.cycles - old->at.slack;

        rate.most = (uint64_t)sooner(later(divide(most_time, least_cycles), 0), RATE_MAX) + 1;
    }
    return rate;
}

/*
 * Whether what passed between two anchors narrows the rate by a sixteenth, or contradicts it.
 * Mostly it does not: each window says a little more than the one before, which would not be worth
 * two divisions.
 */
static bool can_narrow(const struct rate *rate, const struct anchor *old, const struct anchor *here)
{
    const ticks step = 1 + (ticks)(rate->most - rate->least) / 16;
    const uint64_t most_cycles = here->at.cycles + here->at.slack - old->at.cycles;
    const ticks least_time = here->time.first - old->time.last;
    const ticks most_time = here->time.last - old->time.first;

    if (rate->most > RATE_MAX || least_time >= (rate->least + step) * most_cycles)
        return true;
    return here->at.cycles > old->at.cycles + old->at.slack &&
           most_time < (rate->most - step) * (here->at.cycles - old->at.cycles - old->at.slack);
}

static bool narrow_rate(struct rate *rate, struct rate seen)
{
    const struct rate both = {rate->least > seen.least ? rate->least : seen.least,
                              rate->most < seen.most ? rate->most : seen.most};

    if (both.least > both.most)
        return false;
    *rate = both;
    return true;
}

/*
 * Narrows the rate by what passed since the anchor. False: that contradicts what was measured
 * before, or even the CBR packet; then only what comes from here on counts.
 */
static bool calibrate(struct ptd_time *time, struct anchor here)
{
    const struct anchor old = time->anchor;

    if (!time->calibrating || !time->cyc_seen) {
        time->calibrating = true;
        time->anchor = here;
        return true;
    }

    if (!can_narrow(&time->rate, &old, &here))
        return true;

    const struct rate seen = measure(&old, &here);

    if (narrow_rate(&time->rate, seen))
        return true;
    time->rate = cbr_rate(time);
    if (!narrow_rate(&time->rate, seen))
        time->rate = any_rate();
    time->next_rate = time->rate;
    time->anchor = here;
    return false;
}

uint64_t ptd_time_likely_rate(const struct ptd_time *time)
{
    const struct rate rate = time->next_rate;

    if (rate.most > 2 * rate.least && time->config.max_nonturbo_ratio && time->cbr)
        return ((uint64_t)time->config.max_nonturbo_ratio << FRACTION) / time->cbr;
    return rate.least + (rate.most - rate.least) / 2;
}

/* ---- TSC ---- */

static const struct ptd_time_vm *find_vm(const struct ptd_time *time)
{
    const struct extent *found;

    if (!time->nonroot || time->config.vm_count == 0)
        return NULL;
    found = ptd_extents_at(&time->vms, time->vmcs);
    if (!found)
        found = ptd_extents_at(&time->vms, PTD_ANY_VMCS);
    return found ? &time->config.vms[found->number] : NULL;
}

static uint64_t scale_of(const struct ptd_time_vm *vm)
{
    return vm && vm->multiplier ? vm->multiplier : UINT64_C(1) << SCALE_BITS;
}

/* TSC values of root operation that a TSC packet can mean: nearest to the time so far. */
static struct span read_tsc_value(const struct ptd_time *time, uint64_t value)
{
    const struct ptd_time_vm *const vm = find_vm(time);
    const ticks scale = (ticks)scale_of(vm);
    const ticks wrap = (ticks)1 << TSC_BITS;
    const ticks origin =
        time->known ? time->floor >> FRACTION : (ticks)time->config.tsc_high << TSC_BITS;
    const ticks expected = (origin * scale) >> SCALE_BITS;
    const ticks scaled = (ticks)(value - (vm ? vm->offset : 0)) & (wrap - 1);
    ticks ahead = (scaled - expected) & (wrap - 1);

    if (time->known && ahead >= wrap / 2 && expected + ahead >= wrap)
        ahead -= wrap;

    const ticks tsc = expected + ahead;
    const ticks first = ((tsc << SCALE_BITS) + scale - 1) / scale;
    const ticks next = (((tsc + 1) << SCALE_BITS) + scale - 1) / scale;

    return (struct span){first << FRACTION, (next << FRACTION) - 1};
}

static void set_hard(struct ptd_time *time, struct span window)
{
    time->hard_count++;
    time->hard = window;
    time->floor_by_mtc = false;
    time->floor = later(time->floor, window.first);
    time->earliest = later(time->earliest, window.first);
}

/* Somebody wrote the TSC: nothing of before holds. */
static void set_back(struct ptd_time *time)
{
    time->set_backs++;
    time->phase_known = time->calibrating = false;
    time->floor = time->earliest = time->estimate = time->told = -NEVER;
}

/* Clocks had stopped: the cycles before do not belong to the time before. */
static void restart_cycles(struct ptd_time *time, struct anchor here)
{
    time->rate = time->next_rate = cbr_rate(time);
    time->anchor = here;
    time->calibrating = true;
    time->cyc_seen = false;
}

static void read_tsc(struct ptd_time *time, const struct ptd_packet *packet, struct count at)
{
    const struct anchor here = {read_tsc_value(time, packet->tsc), at};
    const struct span tsc = here.time;

    if (tsc.first < 0 || tsc.last >= TOO_LATE)
        return;
    if (time->known && tsc.last < time->floor)
        set_back(time);
    if (time->earliest > tsc.last)
        time->earliest = tsc.first; /* CYC packets said too much */
    time->known = time->tma_due = time->tsc_since_mtc = true;
    time->tsc = tsc;
    set_hard(time, tsc);
    time->base = base_from(time, here);
    time->before_base = time->guess = tsc.first;
    time->base_known = true;
    time->tsc_anchor = here;
    if (time->in_psb) {
        time->psb_has_tsc = true;
    } else {
        restart_cycles(time, here);
    }
    time->ceiling = NEVER;
    if (time->phase_known && time->mtc_seen)
        time->ceiling = end_of_count(time, art_at(time, tsc.last, time->phase.first));
}

static bool drops_cycles(const struct ptd_time *time)
{
    return time->config.errata & PTD_SKL168;
}

/*
 * PSB+ is complete. Without a FUP, tracing may have paused in front of it. Where a CYC may be
 * missing in front of it, what was measured holds on, but the next measurement begins here.
 */
static void end_psb(struct ptd_time *time)
{
    if (time->psb_has_tsc && time->psb_has_fup && (time->calibrating || drops_cycles(time)))
        (void)calibrate(time, time->tsc_anchor);
    else if (time->psb_has_tsc)
        restart_cycles(time, time->tsc_anchor);
    time->in_psb = time->psb_has_tsc = false;
}

/* ---- TMA and MTC ---- */

static void read_tma(struct ptd_time *time, const struct ptd_packet *packet)
{
    const ticks fast = (ticks)packet->tma.fast << FRACTION, one = (ticks)1 << FRACTION;
    const ticks clock = crystal_ticks(time, 1);
    struct span phase = {time->tsc.first - fast - one, time->tsc.last - fast + one};
    uint64_t art = packet->tma.ctc;

    if (clock > (ticks)FAST_RANGE << FRACTION) /* the counter has wrapped */
        phase.first = sooner(phase.first, time->tsc.first - clock - one);
    if (time->phase_known) {
        const uint64_t now = art_at(time, time->tsc.first, time->phase.last);

        art = now + (uint64_t)(int64_t)(int16_t)(uint16_t)(packet->tma.ctc - now);
        if (art < time->art || art > now + (1u << (TMA_CTC_BITS - 1)))
            art = packet->tma.ctc;
    }
    if (art == packet->tma.ctc || time->art_bits < TMA_CTC_BITS)
        time->art_bits = TMA_CTC_BITS;
    time->art = time->art_base = art;
    time->phase = phase;
    time->phase_known = time->phase_by_tma = true;
    time->tsc_since_mtc = time->floor_by_mtc = false;
    time->ceiling = end_of_count(time, art);
}

/* Between which instants the crystal edge of the MTC just read lies, by CYC packets. */
static struct span edge_by_cycles(const struct ptd_time *time)
{
    struct span seen = {-NEVER, NEVER};

    if (time->cyc_seen && time->base_known) {
        /* It was not there yet at the CYC before. */
        seen.first = time->exact ? time->before_base : time->base.first;
        seen.last = time->base.last + (ticks)slack(time) * time->next_rate.most;
    }
    return seen;
}

/* The first MTC behind a TSC without TMA: without CYC packets, no more than one period later. */
static void begin_phase(struct ptd_time *time, uint64_t count)
{
    const ticks period = crystal_ticks(time, time->period) + 1;

    time->art = time->art_base = count * time->period;
    time->art_bits = (uint8_t)(8 + time->config.mtc_freq);
    time->phase = edge_by_cycles(time);
    time->phase.first = later(time->phase.first, time->tsc.first);
    if (time->phase.last >= TOO_LATE)
        time->phase.last = time->tsc.last + period;
    time->phase_known = true;
    time->phase_by_tma = false;
}

/* The first count of MTC packets from now on that ends in these 8 bits, as crystal clocks. */
static uint64_t find_count(struct ptd_time *time, uint8_t count)
{
    const unsigned whole = 8u + time->config.mtc_freq;
    const unsigned bits = time->art_bits < whole ? time->art_bits : whole;
    const uint64_t value = count * time->period;
    /* Mostly time went no further than to the last MTC, and there is nothing to divide. */
    const uint64_t now =
        time->floor_by_mtc ? time->art : art_at(time, time->floor, time->phase.last);
    const uint64_t from = (now > time->art ? now : time->art) & ~(time->period - 1);
    uint64_t art = from + ((value - from) & ((UINT64_C(1) << bits) - 1));

    if (bits < whole) {
        /* TMA has no more than 16 bits: now the others are known too. */
        const uint64_t shift = (value - art) & ((UINT64_C(1) << whole) - 1);

        art += shift;
        time->art_base += shift;
        time->art_bits = (uint8_t)whole;
    }
    return art;
}

/* Without TMA, cycles tell more of the phase. */
static void narrow_phase(struct ptd_time *time)
{
    const ticks passed = crystal_ticks(time, time->art - time->art_base);
    struct span seen = edge_by_cycles(time);

    if (time->phase_by_tma)
        return;
    seen.first -= passed + 1;
    seen.last -= passed;
    seen = intersect(seen, time->phase);
    if (seen.first <= seen.last)
        time->phase = seen;
}

/* A window says when this MTC was; what CYC packets say of it must agree. */
static void use_window(struct ptd_time *time, struct span window)
{
    const struct anchor here = {window, count_here(time)};

    if (time->cyc_seen && !time->psb_has_tsc && !calibrate(time, here))
        time->base_known = false;
    if (time->base_known) {
        const struct span both = intersect(time->base, base_from(time, here));

        if (both.first <= both.last) {
            time->base = both;
            return;
        }
        time->anchor = here;
    }
    time->base = base_from(time, here);
    time->base_known = true;
    time->guess = later(time->guess, time->base.first);
}

static void read_mtc(struct ptd_time *time, const struct ptd_packet *packet)
{
    if (!has_crystal(time) || !time->known)
        return;
    if (time->phase_known) {
        time->art = find_count(time, packet->mtc);
    } else if (time->tsc_since_mtc) {
        begin_phase(time, packet->mtc);
    } else {
        return;
    }
    time->mtc_seen = true;
    time->tsc_since_mtc = false;
    narrow_phase(time);

    const struct span begin = edge(time, time->art);
    const ticks delay = (ticks)time->config.mtc_delay_ticks << FRACTION;
    const ticks end = end_of_count(time, time->art);
    struct span window = {later(begin.first, time->floor), end};

    if (delay > 0)
        window.last = sooner(window.last, begin.last + delay);
    if (window.first > window.last || window.last >= TOO_LATE) {
        time->phase_known = false; /* until the next TSC */
        time->ceiling = NEVER;
        return;
    }
    if (time->earliest > window.last)
        time->earliest = window.first;
    set_hard(time, window);
    time->floor_by_mtc = window.first == begin.first;
    time->ceiling = end;
    use_window(time, window);
}

/* ---- CYC and CBR ---- */

static void read_cyc(struct ptd_time *time, uint64_t cycles)
{
    time->cycles += cycles;
    time->exact = time->cyc_seen = true;
    time->before_base = time->base_known ? time->base.first : -NEVER;
    time->guess += (ticks)cycles * ptd_time_likely_rate(time);
    time->base.first += (ticks)cycles * time->next_rate.least;
    time->base.last += (ticks)cycles * time->next_rate.most;
    if (cycles > 0) /* else the cycle in which the ratio changed has not ended */
        time->next_rate = time->rate;
    if (time->base.last >= TOO_LATE)
        time->base_known = false;
    if (!time->base_known) {
        time->base = (struct span){0, 0};
        time->guess = 0;
        return;
    }
    time->earliest = later(time->earliest, time->base.first);
}

static void read_cbr(struct ptd_time *time, uint8_t cbr)
{
    const struct rate old = time->rate;
    const bool first = time->cbr == 0;

    if (cbr == time->cbr && time->in_psb)
        return; /* a status, no change */
    time->cbr = cbr;
    time->rate = time->next_rate = cbr_rate(time);
    time->calibrating = false;
    if (first) {
        if (time->base_known && time->tsc_anchor.at.cycles == time->cycles)
            time->base = base_from(time, time->tsc_anchor);
        return;
    }
    if (old.least < time->rate.least)
        time->next_rate.least = old.least;
    if (old.most > time->rate.most)
        time->next_rate.most = old.most;
}

/* ---- Any packet ---- */

/* No more is known than that time went on: MTC packets may be missing. */
static void lose_ceiling(struct ptd_time *time)
{
    time->ceiling = NEVER;
}

static void lose_cycles(struct ptd_time *time)
{
    lose_ceiling(time);
    time->base_known = time->calibrating = time->cyc_seen = false;
}

/*
 * The TSC of a PSB+ stands in front of the PIP and the VMCS that say whose offset and multiplier it
 * has.
 */
static bool must_wait(const struct ptd_time *time)
{
    return time->in_psb && time->config.vm_count > 0;
}

static void stop_waiting(struct ptd_time *time)
{
    if (time->tsc_waits)
        read_tsc(time, &time->waiting_tsc, time->waiting_at);
    if (time->tma_waits && time->tma_due && has_crystal(time))
        read_tma(time, &time->waiting_tma);
    time->tsc_waits = time->tma_waits = time->tma_due = false;
}

static void take_tsc(struct ptd_time *time, const struct ptd_packet *packet)
{
    if (must_wait(time)) {
        time->waiting_tsc = *packet;
        time->waiting_at = count_here(time);
        time->tsc_waits = true;
        time->tma_waits = false;
    } else {
        read_tsc(time, packet, count_here(time));
    }
}

static void take_tma(struct ptd_time *time, const struct ptd_packet *packet)
{
    if (time->tsc_waits) {
        time->waiting_tma = *packet;
        time->tma_waits = true;
    } else if (time->tma_due && has_crystal(time)) {
        read_tma(time, packet);
    }
    time->tma_due = false;
}

static void update(struct ptd_time *time, const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TSC:
        take_tsc(time, packet);
        break;
    case PTD_TMA:
        if (!packet->tma.corrupt)
            take_tma(time, packet);
        break;
    case PTD_MTC:
        read_mtc(time, packet);
        break;
    case PTD_CYC:
        read_cyc(time, packet->cyc);
        break;
    case PTD_CBR:
        read_cbr(time, packet->cbr);
        break;
    case PTD_PIP:
        time->nonroot = packet->pip.nr;
        break;
    case PTD_VMCS:
        time->vmcs = packet->vmcs;
        break;
    case PTD_PSB:
        stop_waiting(time);
        lose_ceiling(time);
        if (drops_cycles(time))
            lose_cycles(time);
        time->in_psb = true;
        time->psb_has_fup = time->psb_has_tsc = false;
        break;
    case PTD_FUP:
        time->psb_has_fup = true;
        break;
    case PTD_PSBEND:
        stop_waiting(time);
        end_psb(time);
        break;
    case PTD_OVF:
        stop_waiting(time);
        end_psb(time);
        lose_cycles(time);
        break;
    case PTD_EXSTOP:
    case PTD_PWRE:
    case PTD_PWRX:
    case PTD_TRACESTOP:
        lose_ceiling(time);
        break;
    default:
        break;
    }
}

/* 33.3.6. A TNT is not here: its CYC has the time of its first branch only. */
static bool has_cyc_time(const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_TIP_PGD:
    case PTD_MODE_EXEC:
    case PTD_MODE_TSX:
    case PTD_PIP:
    case PTD_VMCS:
    case PTD_MTC:
    case PTD_TSC:
    case PTD_PTW:
    case PTD_EXSTOP:
    case PTD_CYC:
        return true;
    default:
        return false;
    }
}

static void set_point(struct ptd_time *time, const struct ptd_packet *packet, bool is_hard)
{
    const bool of_next = packet->type == PTD_CYC;
    ticks guess = time->earliest;

    time->counted = NEVER;
    if (time->cyc_seen && time->base_known && has_cyc_time(packet)) {
        time->counted = time->base.last + (ticks)slack(time) * time->next_rate.most;
        guess = time->guess = sooner(later(time->guess, time->base.first), time->base.last);
        if (!of_next && time->base.first > time->ceiling)
            time->ceiling = NEVER; /* an MTC is missing, or the rate is wrong */
    }
    time->latest = of_next ? time->counted : sooner(time->counted, time->ceiling);
    if (is_hard)
        time->latest = time->counted = time->hard.last;
    guess = sooner(later(guess, time->earliest), later(time->latest, time->earliest));
    time->estimate = later(time->estimate, guess);
    if (!of_next && (has_cyc_time(packet) || packet->type == PTD_TNT))
        time->exact = false;
}

void ptd_time_packet(struct ptd_time *time, const struct ptd_packet *packet)
{
    const uint64_t hard_count = time->hard_count;

    time->offset = packet->offset;
    time->type = packet->type;
    update(time, packet);
    if (packet->type != PTD_TSC && packet->type != PTD_TMA && packet->type != PTD_PAD)
        time->tma_due = false;
    set_point(time, packet, time->hard_count != hard_count && packet->type != PTD_PSBEND);
}

void ptd_time_lost(struct ptd_time *time)
{
    stop_waiting(time);
    end_psb(time);
    lose_cycles(time);
    time->latest = time->counted = NEVER; /* of the last packet before */
    time->looked = false;
}

bool ptd_time_next(struct ptd_time *time, struct ptd_packets *packets, struct ptd_packet *packet)
{
    int error;

    while ((error = ptd_packets_next(packets, packet)) != PTD_OK) {
        if (error == PTD_END)
            return false;
        if (time)
            ptd_time_lost(time);
        if (ptd_packets_resync(packets) != PTD_OK)
            return false;
    }
    return true;
}

/* ---- Answers ---- */

static uint64_t whole_ticks(ticks value)
{
    if (value < 0)
        return 0;
    return value >> FRACTION >= PTD_TIME_UNKNOWN ? PTD_TIME_UNKNOWN - 1
                                                 : (uint64_t)(value >> FRACTION);
}

static void fill_point(const struct ptd_time *time, ticks estimate, ticks earliest, ticks latest,
                       struct ptd_time_point *point)
{
    point->cycles = time->cycles;
    point->tsc = whole_ticks(estimate);
    point->earliest = whole_ticks(sooner(earliest, estimate));
    point->latest = latest >= TOO_LATE ? PTD_TIME_UNKNOWN : whole_ticks(later(latest, estimate));
}

static bool unknown(const struct ptd_time *time, struct ptd_time_point *point)
{
    if (time->known)
        return false;
    *point = (struct ptd_time_point){PTD_TIME_UNKNOWN, 0, PTD_TIME_UNKNOWN, time->cycles};
    return true;
}

void ptd_time_point(const struct ptd_time *time, struct ptd_time_point *point)
{
    if (!unknown(time, point))
        fill_point(time, time->estimate, time->earliest, time->latest, point);
}

/* Reads on to the next TSC or MTC packet. False: more bytes follow, and it may be in them. */
static bool look(struct ptd_time *time, struct ptd_packets packets, bool more)
{
    const uint64_t from = ptd_packets_offset(&packets);
    struct span found = {NEVER, NEVER};
    struct ptd_time ahead = *time;
    struct ptd_packet packet;
    uint64_t offset;

    do {
        if (more && !ptd_packets_has_one(&packets))
            return false;
        offset = ptd_packets_offset(&packets);
        if (ptd_packets_next(&packets, &packet) != PTD_OK)
            break;
        ptd_time_packet(&ahead, &packet);
    } while (ahead.hard_count == time->hard_count && offset - from < PTD_LOOK_AHEAD_MAX);
    if (ahead.hard_count != time->hard_count && ahead.set_backs == time->set_backs)
        found = ahead.hard;
    time->looked = true;
    time->look = found;
    time->look_offset = offset;
    return true;
}

static bool must_look(const struct ptd_time *time)
{
    return !time->looked || time->offset >= time->look_offset;
}

/*
 * Whether the CYC just read may be of a packet in front of which time went on uncounted. Of runs of
 * CYC and PAD packets, so much that no trace makes this slow.
 */
static bool counts_to_gap(struct ptd_packets packets)
{
    struct ptd_packet packet;

    for (unsigned i = 0; i < CYC_NEAR && ptd_packets_next(&packets, &packet) == PTD_OK; i++)
        if (packet.type != PTD_CYC && packet.type != PTD_PAD)
            return packet.type == PTD_TSC || packet.type == PTD_OVF;
    return true;
}

/* When the next CYC was, by cycles alone, if it is near. */
static ticks next_counted(const struct ptd_time *time, struct ptd_packets packets)
{
    struct ptd_packet packet;

    if (!time->cyc_seen || !time->base_known)
        return NEVER;
    for (unsigned i = 0; i < CYC_NEAR && ptd_packets_next(&packets, &packet) == PTD_OK; i++) {
        if (packet.type == PTD_TSC || packet.type == PTD_OVF)
            break;
        if (packet.type == PTD_CYC)
            return counts_to_gap(packets)
                       ? NEVER
                       : time->base.last + ((ticks)packet.cyc + 1) * time->next_rate.most;
    }
    return NEVER;
}

bool ptd_time_sees_enough(struct ptd_time *time, const struct ptd_packets *packets)
{
    if (packets->end - packets->pos < (ptrdiff_t)(2 * CYC_NEAR + 1) * PTD_PACKET_MARGIN)
        return false;
    return !must_look(time) || look(time, *packets, true);
}

void ptd_time_point_ahead(struct ptd_time *time, const struct ptd_packets *packets,
                          struct ptd_time_point *point)
{
    if (must_look(time))
        (void)look(time, *packets, false);

    /* Beyond the next MTC that was to come: some are missing, or tracing paused. */
    const bool gap = time->look.first > time->ceiling;
    ticks latest = sooner(gap ? time->counted : time->latest, time->look.last);

    if (time->counted >= TOO_LATE)
        latest = sooner(latest, next_counted(time, *packets));
    if (time->type == PTD_CYC && counts_to_gap(*packets))
        latest = time->look.last;
    if (unknown(time, point))
        return;
    time->told = later(time->told, sooner(time->estimate, time->look.last));
    fill_point(time, time->told, time->earliest, latest, point);
}

uint64_t ptd_time_set_backs(const struct ptd_time *time)
{
    return time->set_backs;
}

int ptd_time_check(const struct ptd_time_config *config)
{
    if (config->mtc_freq > 15 || config->cyc_threshold > 15 || config->tsc_num < config->tsc_den)
        return PTD_E_ARG;
    for (size_t i = 0; i < config->vm_count; i++) {
        const uint64_t scale = scale_of(&config->vms[i]);

        if (scale < SCALE_MIN || scale > SCALE_MAX)
            return PTD_E_ARG;
    }
    return PTD_OK;
}

/* Of a VMCS the first entry counts, of all others the last one. */
static bool add_vms(struct ptd_time *time)
{
    for (size_t i = 0; i < time->config.vm_count; i++) {
        const uint64_t vmcs = time->config.vms[i].vmcs;
        struct extent *const known = ptd_extents_at(&time->vms, vmcs);

        if (known && vmcs == PTD_ANY_VMCS)
            known->number = i;
        if (!known && !ptd_extents_add(&time->vms, (struct extent){.first = vmcs, .number = i}))
            return false;
    }
    return true;
}

struct ptd_time *ptd_time_new(const struct ptd_time_config *config)
{
    static const struct ptd_time_config nothing = {0};

    if (!config)
        config = &nothing;
    if (ptd_time_check(config) != PTD_OK)
        return NULL;

    struct ptd_time *const time = calloc(1, sizeof(*time));

    if (!time)
        return NULL;
    time->config = *config;
    if (!add_vms(time)) {
        ptd_time_free(time);
        return NULL;
    }
    time->period = UINT64_C(1) << config->mtc_freq;
    if (has_crystal(time) && ((uint64_t)config->tsc_num << FRACTION) % config->tsc_den == 0)
        time->clock_ticks = ((uint64_t)config->tsc_num << FRACTION) / config->tsc_den;
    time->cyc_slack =
        config->cyc_threshold > 0 ? (UINT64_C(1) << (config->cyc_threshold - 1)) - 1 : 0;
    time->earliest = time->estimate = time->told = time->floor = -NEVER;
    time->latest = time->counted = time->ceiling = NEVER;
    time->rate = time->next_rate = any_rate();
    time->nonroot = config->nonroot;
    time->vmcs = config->vmcs;
    return time;
}

void ptd_time_free(struct ptd_time *time)
{
    if (time)
        ptd_extents_free(&time->vms);
    free(time);
}

/* ---- Other clocks ---- */

uint64_t ptd_time_guest_tsc(const struct ptd_time_vm *vm, uint64_t tsc)
{
    __extension__ typedef unsigned __int128 wide;

    return (uint64_t)((wide)tsc * scale_of(vm) >> SCALE_BITS) + vm->offset;
}

int ptd_time_conv_khz(uint64_t khz, struct ptd_time_conv *conv)
{
    if (khz == 0)
        return PTD_E_ARG;
    conv->zero = 0;
    /* As many bits of the multiplier as fit. */
    for (conv->shift = 32; conv->shift > 0; conv->shift--)
        if (((ticks)1000000 << conv->shift) / (ticks)khz <= UINT32_MAX)
            break;
    conv->mult = (uint32_t)(((ticks)1000000 << conv->shift) / (ticks)khz);
    return PTD_OK;
}

uint64_t ptd_time_ns(const struct ptd_time_conv *conv, uint64_t tsc)
{
    return conv->zero + (uint64_t)(((ticks)tsc * conv->mult) >> conv->shift);
}
