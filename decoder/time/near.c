/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time in 64-bit numbers, for most of a trace: exactly what time.c makes of runs of CYC packets, of
 * MTC packets right behind them, and of MTC packets where there are no CYC packets, with nothing
 * but TNTs and TIPs in between. Instants count from an origin near the present. What comes near
 * their limits, or is not as usual, is left to time.c.
 *
 * Below, "first" and "last" of an edge or a window are related as in time.c: an MTC packet tells of
 * an edge of the crystal clock, from edge to edge + width, and came in a window that begins there
 * and ends before the next edge, or as soon as the configuration says.
 */
#include "pt_packets.h"
#include "packets/mark.h"
#include "time/near.h"
#include "time/time.h"

#define NEAR        ((int64_t)1 << 61)  /* 2^29 TSC ticks */
#define MOST_TSC    ((ticks)1 << 60)    /* of the origin */
#define MOST_CYCLES (UINT32_C(1) << 20) /* of a stretch: at the lowest rate 2^28 ticks */
#define MOST_PERIOD ((ticks)1 << 52)    /* from one MTC to the next: 255 of them are near */
/*
 * Of struct ptd_mark.what: what a CYC packet of less than MOST_CYCLES, with TNTs and TIPs in front
 * of it at most, does not have.
 */
#define NOT_PLAIN (MARK_OTHER | MARK_PACKET | ~(MOST_CYCLES - 1) << MARK_VALUE_SHR)
/* All of what may be an MTC packet right behind the packet of a mark. */
#define LIKE_MTC (MARK_PACKET | PT_MTC_LEN << MARK_VALUE_SHR)

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Part of struct ptd_time, relative to origin << FRACTION, and what a run of marks adds to it. */
struct near {
    uint64_t origin;
    uint64_t cycles;
    int64_t earliest, estimate, latest; /* of the last packet */
    int64_t ceiling;
    /*
     * The base and the guess in it move on with the cycles, by these rates. They are told at no
     * cycles: any 64-bit number will do, since sums and products wrap.
     */
    uint64_t first, last, guess;
    uint64_t least, most, likely;
    int64_t cyc_first; /* of the base, at the last CYC packet in front of an MTC */
    /* Of MTC packets. */
    int64_t period;   /* from one to the next; 0: they are left to time.c */
    int64_t edge;     /* of the last one: when its edge was at the earliest */
    int64_t to_last;  /* from there to the end of the window */
    int64_t to_next;  /* from there to the last moment before the next edge */
    uint64_t periods; /* that they went on */
    uint64_t mtcs;    /* that were told */
    uint8_t count;    /* of the last one */
    /*
     * Lines at no cycles, and their rates: no MTC narrows the rate whose edge is below the first
     * and whose window ends above the second.
     */
    uint64_t low, low_rate, high, high_rate;
};

/* Where the line is that has this value at no cycles. */
static inline int64_t line(const struct near *near, uint64_t value, uint64_t rate)
{
    return (int64_t)(value + near->cycles * rate);
}

/* The value at no cycles of the line that is here now. */
static inline uint64_t line_from(const struct near *near, int64_t here, uint64_t rate)
{
    return (uint64_t)here - near->cycles * rate;
}

static bool is_near(ticks value)
{
    return value < NEAR && value > -NEAR;
}

/* False: what last told of the crystal clock is not an MTC packet whose edge begins its window. */
static bool enter_crystal(const struct ptd_time *time, ticks origin, struct near *near)
{
    const ticks period = (ticks)time->period * time->clock_ticks;
    const ticks passed = (ticks)(time->art - time->art_base) * time->clock_ticks;
    const ticks edge = time->phase.first + passed - origin;
    const ticks width = time->phase.last + 1 - time->phase.first;
    const ticks delay = (ticks)time->config.mtc_delay_ticks << FRACTION;

    if (!time->floor_by_mtc || !time->phase_known || period == 0 || period > MOST_PERIOD ||
        width < 1 || width > MOST_PERIOD || !is_near(edge))
        return false;
    near->period = (int64_t)period;
    near->edge = (int64_t)edge;
    near->to_next = (int64_t)(width - 1 + period);
    near->to_last =
        (int64_t)(delay > 0 ? sooner(width - 1 + period, width + delay) : width - 1 + period);
    near->count = (uint8_t)(time->art >> time->config.mtc_freq);
    return true;
}

/* ---- CYC packets, and MTC packets among them ---- */

/* Whether an MTC narrows the rate (can_narrow() of time.c) is asked of two lines. */
static bool enter_lines(const struct ptd_time *time, ticks origin, struct near *near)
{
    const struct rate rate = time->rate;
    const struct anchor *const old = &time->anchor;
    const uint64_t step = 1 + (rate.most - rate.least) / 16;
    const uint64_t low_rate = rate.least + step, high_rate = rate.most - step;
    /* Right behind a CYC packet, at most one cycle was not counted. */
    const ticks low =
        old->time.last - origin + (ticks)(time->cycles + 1 - old->at.cycles) * low_rate;
    const ticks high =
        old->time.first - origin +
        ((ticks)time->cycles - (ticks)old->at.cycles - (ticks)old->at.slack) * high_rate;

    /* As far as the base is near, so are the lines if the rates are not far from each other. */
    if (rate.most > RATE_MAX || rate.most / 2 > rate.least || !is_near(low) || !is_near(high) ||
        old->time.first > time->floor)
        return false;
    near->low_rate = low_rate;
    near->high_rate = high_rate;
    near->low = line_from(near, (int64_t)low, low_rate);
    near->high = line_from(near, (int64_t)high, high_rate);
    return true;
}

/* MTC packets can be told behind one that was as all are, if TMA gave the phase. */
static void enter_mtcs(const struct ptd_time *time, ticks origin, struct near *near)
{
    if (!time->phase_by_tma || !time->calibrating || time->psb_has_tsc ||
        !enter_crystal(time, origin, near) || !enter_lines(time, origin, near))
        near->period = 0;
}

/* False: this is not the usual state behind some CYC packets. */
static bool enter_cycs(const struct ptd_time *time, struct near *near)
{
    const ticks whole = time->base.first >> FRACTION, origin = whole * ((ticks)1 << FRACTION);
    const uint64_t likely = ptd_time_likely_rate(time);

    if (!time->known || !time->cyc_seen || !time->base_known ||
        time->next_rate.least != time->rate.least || time->next_rate.most != time->rate.most ||
        likely < time->rate.least || likely > time->rate.most || time->earliest < 0 ||
        time->estimate < 0 || whole < 0 || whole > MOST_TSC || time->guess < time->base.first ||
        time->guess > time->base.last || !is_near(time->base.last - origin) ||
        !is_near(time->earliest - origin) || !is_near(time->estimate - origin))
        return false;
    *near = (struct near){
        .origin = (uint64_t)whole,
        .cycles = time->cycles,
        .earliest = (int64_t)(time->earliest - origin),
        .estimate = (int64_t)(time->estimate - origin),
        .ceiling = (int64_t)later(sooner(time->ceiling - origin, NEAR), -1),
        .least = time->rate.least,
        .most = time->rate.most,
        .likely = likely,
    };
    near->first = line_from(near, (int64_t)(time->base.first - origin), near->least);
    near->last = line_from(near, (int64_t)(time->base.last - origin), near->most);
    near->guess = line_from(near, (int64_t)(time->guess - origin), likely);
    enter_mtcs(time, origin, near);
    return true;
}

static inline void put_point(struct ptd_time_point *point, uint64_t origin, int64_t estimate,
                             int64_t earliest, int64_t latest, uint64_t cycles)
{
    *point = (struct ptd_time_point){
        .tsc = origin + (uint64_t)(estimate >> FRACTION),
        .earliest = origin + (uint64_t)(earliest >> FRACTION),
        .latest = origin + (uint64_t)(latest >> FRACTION),
        .cycles = cycles,
    };
}

/* Base and guess are behind what was told before. They grow with each CYC packet, and stay so. */
static bool is_settled(const struct near *near)
{
    return near->earliest <= line(near, near->first, near->least) &&
           near->estimate <= line(near, near->guess, near->likely);
}

/* CYC packets can be told. Where the base is above the ceiling, a TIP would raise that. */
static bool can_go_on(const struct near *near)
{
    return line(near, near->first, near->least) <= near->ceiling &&
           line(near, near->last, near->most) < NEAR;
}

/* CYC packets until all is settled; how many. */
static __attribute__((noinline)) size_t tell_unsettled(struct near *near,
                                                       const struct ptd_mark *marks, size_t count,
                                                       struct ptd_time_point *points)
{
    size_t told = 0;

    for (; told < count && !(marks[told].what & NOT_PLAIN); told++) {
        if (told > 0 && (is_settled(near) || !can_go_on(near)))
            break;
        near->cycles += marks[told].what >> MARK_VALUE_SHR;

        const int64_t guess = line(near, near->guess, near->likely);

        near->earliest = max(near->earliest, line(near, near->first, near->least));
        near->estimate = max(near->estimate, max(guess, near->earliest));
        near->latest = line(near, near->last + near->most, near->most);
        put_point(&points[told], near->origin, near->estimate, near->earliest,
                  max(near->latest, near->estimate), near->cycles);
    }
    return told;
}

/*
 * CYC packets of less than MOST_CYCLES together, and one more; how many. All is settled, and so
 * earliest <= guess <= latest by themselves. This is a function of its own, so that its values have
 * registers to themselves.
 */
static __attribute__((noinline)) size_t tell_settled(struct near *near,
                                                     const struct ptd_mark *marks, size_t count,
                                                     struct ptd_time_point *points)
{
    const uint64_t origin = near->origin, least = near->least, likely = near->likely;
    const uint64_t most = near->most, first = near->first, guess = near->guess;
    const uint64_t latest = near->last + most;
    /* Up to the ceiling; no rate is 0. */
    const uint64_t below = (uint64_t)(near->ceiling - line(near, first, least)) / least + 1;
    const uint64_t cycles_end = near->cycles + (below < MOST_CYCLES ? below : MOST_CYCLES);
    const struct ptd_mark *mark = marks, *const end = marks + count;
    uint64_t cycles = near->cycles;

    while (mark < end && cycles < cycles_end) {
        const uint32_t what = mark->what;

        if (what & NOT_PLAIN)
            break;
        cycles += what >> MARK_VALUE_SHR;
        put_point(points, origin, (int64_t)(guess + cycles * likely),
                  (int64_t)(first + cycles * least), (int64_t)(latest + cycles * most), cycles);
        mark++;
        points++;
    }
    near->cycles = cycles;
    if (mark > marks) {
        near->earliest = line(near, first, least);
        near->estimate = line(near, guess, likely);
        near->latest = line(near, latest, most);
    }
    return (size_t)(mark - marks);
}

/*
 * A run of CYC packets where some can be told, as they can behind an MTC packet; how many. What
 * set_point() of time.c does is simple here: the guess stays in the base because the likely rate is
 * one of those that are possible.
 */
static size_t tell_cycs(struct near *near, const struct ptd_mark *marks, size_t count,
                        struct ptd_time_point *points)
{
    size_t told = 0;

    if (!is_settled(near)) {
        told = tell_unsettled(near, marks, count, points);
        if (!is_settled(near) || !can_go_on(near))
            return told;
    }
    return told + tell_settled(near, marks + told, count - told, points + told);
}

/*
 * An MTC packet right behind a CYC packet: what read_mtc() of time.c does if all agrees, and the
 * rate stays. False, and nothing is changed: it does not.
 */
static __attribute__((noinline)) bool tell_mtc(struct near *near, uint8_t count,
                                               struct ptd_time_point *point)
{
    const int64_t base_first = line(near, near->first, near->least);
    const int64_t base_last = line(near, near->last, near->most);
    const uint8_t periods = (uint8_t)(count - near->count);
    const int64_t edge = near->edge + periods * near->period;
    const int64_t window_last = edge + near->to_last, end = edge + near->to_next;
    const int64_t first = max(base_first, edge - (int64_t)near->most);
    const int64_t last = min(base_last, window_last);

    if (end >= NEAR || base_last >= NEAR || near->earliest > window_last || first > last ||
        edge >= line(near, near->low, near->low_rate) ||
        window_last < line(near, near->high, near->high_rate))
        return false;

    const int64_t guess = min(max(line(near, near->guess, near->likely), first), last);

    near->cyc_first = base_first;
    near->first = line_from(near, first, near->least);
    near->last = line_from(near, last, near->most);
    near->guess = line_from(near, guess, near->likely);
    near->earliest = max(near->earliest, edge);
    near->estimate = max(near->estimate, max(guess, near->earliest));
    near->latest = window_last;
    near->ceiling = end;
    near->edge = edge;
    near->count = count;
    near->periods += periods;
    near->mtcs++;
    put_point(point, near->origin, near->estimate, near->earliest, max(window_last, near->estimate),
              near->cycles);
    return true;
}

static bool is_mtc(const struct ptd_mark *mark)
{
    return (mark->what & ~(MARK_TNT | MARK_TIP)) == LIKE_MTC;
}

/* What is the same of both kinds of runs. The mark was the last that was told. */
static void leave(const struct near *near, const struct ptd_mark *mark, struct ptd_time *time)
{
    const ticks origin = (ticks)near->origin << FRACTION;

    time->earliest = origin + near->earliest;
    time->estimate = origin + near->estimate;
    time->latest = time->counted = origin + near->latest;
    time->exact = !is_mtc(mark);
    time->tma_due = false;
    time->type = is_mtc(mark) ? PTD_MTC : PTD_CYC;
    time->offset = mark->offset - (is_mtc(mark) ? PT_MTC_LEN : 1);
    if (near->mtcs == 0)
        return;
    time->hard = (struct span){origin + near->edge, origin + near->edge + near->to_last};
    time->hard_count += near->mtcs;
    time->floor = time->hard.first;
    time->ceiling = origin + near->edge + near->to_next;
    time->art += near->periods * time->period;
}

static void leave_cycs(const struct near *near, const struct ptd_mark *mark, struct ptd_time *time)
{
    const ticks origin = (ticks)near->origin << FRACTION;
    const int64_t first = line(near, near->first, near->least);
    const struct ptd_mark *const cyc = is_mtc(mark) ? mark - 1 : mark;
    const int64_t cyc_first = is_mtc(mark) ? near->cyc_first : first;

    leave(near, mark, time);
    time->cycles = near->cycles;
    time->base.first = origin + first;
    time->base.last = origin + line(near, near->last, near->most);
    time->guess = origin + line(near, near->guess, near->likely);
    time->before_base = origin + cyc_first - (int64_t)((cyc->what >> MARK_VALUE_SHR) * near->least);
}

/* From a CYC packet on. */
static size_t near_cycs(struct ptd_time *time, const struct ptd_packets *packets,
                        const struct ptd_mark *marks, size_t count, struct ptd_time_point *points)
{
    struct near near;
    size_t told = 0;

    if (!enter_cycs(time, &near) || !can_go_on(&near))
        return 0;
    for (;;) {
        const size_t run = tell_cycs(&near, marks + told, count - told, points + told);
        const uint8_t *packet;

        told += run;
        if (run == 0 || told == count || marks[told].what != LIKE_MTC || near.period == 0)
            break;
        packet = ptd_mark_place(packets, marks[told].offset - PT_MTC_LEN);
        if (packet[0] != PT_OPC_MTC || !tell_mtc(&near, packet[1], &points[told]))
            break;
        told++;
    }
    if (told > 0)
        leave_cycs(&near, &marks[told - 1], time);
    return told;
}

/* ---- MTC packets alone ---- */

/* The base where no cycles are counted. */
struct still {
    int64_t first, last, guess;
    int64_t slack_ticks; /* that it may be behind, for what was not counted */
    int64_t anchor;      /* the edge of the last MTC that contradicted it */
    bool is_anchored;    /* there was one */
};

/* False: this is not the usual state behind an MTC packet, without a CYC packet since the TSC. */
static bool enter_alone(const struct ptd_time *time, struct near *near, struct still *base)
{
    const ticks whole = time->floor >> FRACTION, origin = whole * ((ticks)1 << FRACTION);
    const uint64_t slack = 1 + time->cyc_slack; /* as anything but a CYC packet was the last */

    if (!time->known || time->cyc_seen || time->exact || !time->base_known || time->earliest < 0 ||
        time->estimate < time->earliest || whole < 0 || whole > MOST_TSC ||
        time->rate.most > RATE_MAX || !is_near(time->base.first - origin) ||
        !is_near(time->base.last - origin) || !is_near(time->guess - origin) ||
        !is_near(time->earliest - origin) || !is_near(time->estimate - origin))
        return false;
    *near = (struct near){
        .origin = (uint64_t)whole,
        .cycles = time->cycles,
        .earliest = (int64_t)(time->earliest - origin),
        .estimate = (int64_t)(time->estimate - origin),
    };
    *base = (struct still){
        .first = (int64_t)(time->base.first - origin),
        .last = (int64_t)(time->base.last - origin),
        .guess = (int64_t)(time->guess - origin),
        .slack_ticks = (int64_t)(slack * time->rate.most),
    };
    return enter_crystal(time, origin, near) && near->earliest <= near->edge + near->to_last;
}

/*
 * What use_window() of time.c does without cycles: the base is where windows meet, and where they
 * do not, it begins anew, and so does calibration.
 */
static inline void narrow_base(struct still *base, int64_t edge, int64_t window_last)
{
    const int64_t window_first = edge - base->slack_ticks;
    const int64_t first = max(base->first, window_first), last = min(base->last, window_last);

    if (first <= last) {
        base->first = first;
        base->last = last;
        return;
    }
    base->first = window_first;
    base->last = window_last;
    base->guess = max(base->guess, window_first);
    base->anchor = edge;
    base->is_anchored = true;
}

/* MTC packets, TNTs and TIPs do not matter in between; how many. */
static size_t tell_mtcs(struct near *near, struct still *base, const struct ptd_packets *packets,
                        const struct ptd_mark *marks, size_t count, struct ptd_time_point *points)
{
    size_t told = 0;

    for (; told < count && is_mtc(&marks[told]); told++) {
        const uint8_t *const packet = ptd_mark_place(packets, marks[told].offset - PT_MTC_LEN);
        const uint8_t periods = (uint8_t)(packet[1] - near->count);
        const int64_t edge = near->edge + periods * near->period;

        if (packet[0] != PT_OPC_MTC || edge >= NEAR - near->to_next)
            break;
        near->edge = edge;
        near->count = packet[1];
        near->periods += periods;
        near->earliest = max(near->earliest, edge);
        near->estimate = max(near->estimate, near->earliest);
        near->latest = edge + near->to_last;
        narrow_base(base, edge, near->latest);
        put_point(&points[told], near->origin, near->estimate, near->earliest,
                  max(near->latest, near->estimate), near->cycles);
    }
    near->mtcs = told;
    return told;
}

static void leave_alone(const struct near *near, const struct still *base,
                        const struct ptd_mark *mark, struct ptd_time *time)
{
    const ticks origin = (ticks)near->origin << FRACTION;

    leave(near, mark, time);
    time->base = (struct span){origin + base->first, origin + base->last};
    time->guess = origin + base->guess;
    if (base->is_anchored)
        time->anchor = (struct anchor){
            .time = {origin + base->anchor, origin + base->anchor + near->to_last},
            .at = {time->cycles, 1 + time->cyc_slack},
        };
}

/* From an MTC packet on. */
static size_t near_mtcs(struct ptd_time *time, const struct ptd_packets *packets,
                        const struct ptd_mark *marks, size_t count, struct ptd_time_point *points)
{
    struct still base;
    struct near near;
    size_t told;

    if (!enter_alone(time, &near, &base))
        return 0;
    told = tell_mtcs(&near, &base, packets, marks, count, points);
    if (told > 0)
        leave_alone(&near, &base, &marks[told - 1], time);
    return told;
}

size_t ptd_near_marks(struct ptd_time *time, const struct ptd_packets *packets,
                      const struct ptd_mark *marks, size_t count, struct ptd_time_point *points)
{
    if (count == 0)
        return 0;
    if (!(marks[0].what & NOT_PLAIN))
        return near_cycs(time, packets, marks, count, points);
    if (is_mtc(&marks[0]))
        return near_mtcs(time, packets, marks, count, points);
    return 0;
}
