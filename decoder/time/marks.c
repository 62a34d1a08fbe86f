/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time by the marks of ptd_flow_run(): exactly what time.c makes of all packets, but for runs of
 * CYC packets, and MTC packets right behind them, with nothing but TNTs and TIPs between them in
 * 64-bit numbers. They count from an origin near the present; what comes near their limits, or is
 * not as usual, is left to time.c.
 */
#include "pt_packets.h"
#include "packets/mark.h"
#include "time/time.h"

#define NEAR        ((int64_t)1 << 61)  /* 2^29 TSC ticks */
#define MOST_TSC    ((ticks)1 << 60)    /* of the origin */
#define MOST_CYCLES (UINT32_C(1) << 20) /* of a stretch: at the lowest rate 2^28 ticks */
#define MOST_PERIOD ((ticks)1 << 52)    /* from one MTC to the next: 255 of them are near */
/* struct ptd_mark.what of anything but a CYC packet of less than MOST_CYCLES, behind TNTs and TIPs
 * at most. */
#define NOT_PLAIN (MARK_OTHER | MARK_PACKET | ~(MOST_CYCLES - 1) << MARK_VALUE_SHR)
/* The same of what may be an MTC packet with nothing in front of it but the packet of a mark. */
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
    struct rate rate;
    uint64_t likely;                    /* the rate to guess with */
    int64_t first, last, guess, before; /* of the base */
    int64_t earliest, estimate, latest, ceiling;
    uint64_t cycles;
    /* Of MTC packets. */
    int64_t period;                /* from one to the next; 0: they are left to time.c */
    int64_t edge_first, edge_last; /* of the last one */
    uint64_t mtc_count;            /* of those that were told */
    uint64_t periods;              /* that they went on */
};

static bool is_near(ticks value)
{
    return value < NEAR && value > -NEAR;
}

/* MTC packets can be told behind one that was as all are, if TMA gave the phase. */
static void enter_mtc(const struct ptd_time *time, ticks origin, struct near *near)
{
    const ticks period = (ticks)time->period * time->clock_ticks;
    const ticks since = (ticks)(time->art - time->art_base) * time->clock_ticks - origin;

    if (!time->floor_by_mtc || !time->phase_known || !time->phase_by_tma || !time->calibrating ||
        time->psb_has_tsc || time->config.mtc_delay_ticks > 0 || period == 0 ||
        period > MOST_PERIOD || time->phase.first > time->phase.last ||
        !is_near(time->phase.first + since) || !is_near(time->phase.last + since + 1))
        return;
    near->period = (int64_t)period;
    near->edge_first = (int64_t)(time->phase.first + since);
    near->edge_last = (int64_t)(time->phase.last + since + 1);
}

/* False: this is not the usual state behind some CYC packets. */
static bool enter(const struct ptd_time *time, struct near *near)
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
        .rate = time->rate,
        .likely = likely,
        .first = (int64_t)(time->base.first - origin),
        .last = (int64_t)(time->base.last - origin),
        .guess = (int64_t)(time->guess - origin),
        .earliest = (int64_t)(time->earliest - origin),
        .estimate = (int64_t)(time->estimate - origin),
        .ceiling = (int64_t)later(sooner(time->ceiling - origin, NEAR), -1),
        .cycles = time->cycles,
    };
    enter_mtc(time, origin, near);
    return true;
}

/* The mark was the last that was told. */
static void leave(const struct near *near, const struct ptd_mark *mark, struct ptd_time *time)
{
    const ticks origin = (ticks)near->origin << FRACTION;
    const bool is_mtc = (mark->what & MARK_PACKET) != 0;

    time->base = (struct span){origin + near->first, origin + near->last};
    time->before_base = origin + near->before;
    time->guess = origin + near->guess;
    time->earliest = origin + near->earliest;
    time->estimate = origin + near->estimate;
    time->latest = time->counted = origin + near->latest;
    time->cycles = near->cycles;
    time->exact = !is_mtc;
    time->tma_due = false;
    time->type = is_mtc ? PTD_MTC : PTD_CYC;
    time->offset = mark->offset - (is_mtc ? PT_MTC_LEN : 1);
    if (near->mtc_count > 0) {
        time->hard = (struct span){origin + near->edge_first, origin + near->ceiling};
        time->hard_count += near->mtc_count;
        time->floor = time->hard.first;
        time->ceiling = time->hard.last;
        time->art += near->periods * time->period;
    }
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

/* A run of CYC packets: where it goes on, and the cycles that a packet is told up to. */
struct run {
    const struct ptd_mark *mark, *end;
    struct ptd_time_point *point;
    uint64_t cycles, cycles_end;
};

/* Up to MOST_CYCLES, or as long as no base is above the ceiling. No rate is 0. */
static uint64_t cycles_end(const struct near *near)
{
    if (near->first > near->ceiling)
        return near->cycles;

    const uint64_t below = (uint64_t)(near->ceiling - near->first) / near->rate.least + 1;

    return near->cycles + (below < MOST_CYCLES ? below : MOST_CYCLES);
}

/*
 * Tells marks up to one that is not plain. Base and guess grow with each; once they are behind what
 * was told before the run they stay so, earliest <= guess <= latest by themselves, and the run is
 * settled: not settled, this ends there.
 */
static inline struct run tell_cycs(const struct near *near, struct run run, bool settled)
{
    /* In registers, and at no cycles: any 64-bit number will do, since sums and products wrap. */
    const uint64_t origin = near->origin, least = near->rate.least, likely = near->likely;
    const uint64_t most = near->rate.most, first = (uint64_t)near->first - near->cycles * least;
    const uint64_t guess = (uint64_t)near->guess - near->cycles * likely;
    const uint64_t last = (uint64_t)near->last - (near->cycles - 1) * most;

    for (; run.mark < run.end && run.cycles < run.cycles_end; run.mark++, run.point++) {
        const uint32_t what = run.mark->what;

        if (what & NOT_PLAIN)
            break;

        const uint64_t cycles = run.cycles + (what >> MARK_VALUE_SHR);
        int64_t earliest = (int64_t)(first + cycles * least);
        int64_t estimate = (int64_t)(guess + cycles * likely);
        int64_t latest = (int64_t)(last + cycles * most);

        if (!settled) {
            if (earliest >= near->earliest && estimate >= near->estimate)
                break;
            earliest = max(near->earliest, earliest);
            estimate = max(near->estimate, max(estimate, earliest));
            latest = max(latest, estimate);
        }
        run.cycles = cycles;
        put_point(run.point, origin, estimate, earliest, latest, cycles);
    }
    return run;
}

/*
 * A run of CYC packets; how many. What set_point() of time.c does is simple here: the guess stays
 * in the base because the likely rate is one of those that are possible, and where a TIP would find
 * the base above the ceiling, this ends.
 */
static size_t tell_run(struct near *near, const struct ptd_mark *marks, size_t count,
                       struct ptd_time_point *points)
{
    struct run run = {
        .mark = marks,
        .end = marks + count,
        .point = points,
        .cycles = near->cycles,
        .cycles_end = cycles_end(near),
    };

    run = tell_cycs(near, run, false);
    run = tell_cycs(near, run, true);
    if (run.mark == marks)
        return 0;

    const uint64_t passed = run.cycles - near->cycles;
    const uint64_t by_last = run.mark[-1].what >> MARK_VALUE_SHR;

    near->before = near->first + (int64_t)((passed - by_last) * near->rate.least);
    near->first += (int64_t)(passed * near->rate.least);
    near->last += (int64_t)(passed * near->rate.most);
    near->guess += (int64_t)(passed * near->likely);
    near->earliest = max(near->earliest, near->first);
    near->estimate = max(near->estimate, max(near->guess, near->earliest));
    near->latest = near->last + (int64_t)near->rate.most;
    near->cycles = run.cycles;
    return (size_t)(run.mark - marks);
}

/*
 * An MTC packet right behind a CYC packet: what read_mtc() of time.c does if all agrees, and the
 * rate stays. False, and nothing is changed: it does not.
 */
static bool tell_mtc(struct near *near, const struct ptd_time *time, uint8_t count,
                     struct ptd_time_point *point)
{
    const uint64_t before = (time->art >> time->config.mtc_freq) + near->periods;
    const uint8_t periods = (uint8_t)(count - before);
    const int64_t passed = periods * near->period;
    const int64_t edge_first = near->edge_first + passed, edge_last = near->edge_last + passed;
    const int64_t end = edge_last - 1 + near->period;
    const int64_t first = max(near->first, edge_first - (int64_t)near->rate.most);
    const int64_t last = min(near->last, end);
    const ticks origin = (ticks)near->origin << FRACTION;

    if (end >= NEAR || near->last >= NEAR || near->earliest > end || first > last ||
        ptd_time_can_narrow(&time->rate, &time->anchor,
                            &(struct anchor){.time = {origin + edge_first, origin + end},
                                             .at = {.cycles = near->cycles, .slack = 1}}))
        return false;
    near->first = first;
    near->last = last;
    near->guess = min(max(near->guess, first), last);
    near->earliest = max(near->earliest, edge_first);
    near->estimate = max(near->estimate, max(near->guess, near->earliest));
    near->latest = near->ceiling = end;
    near->edge_first = edge_first;
    near->edge_last = edge_last;
    near->mtc_count++;
    near->periods += periods;
    put_point(point, near->origin, near->estimate, near->earliest, max(end, near->estimate),
              near->cycles);
    return true;
}

static const uint8_t *place(const struct ptd_packets *packets, uint64_t offset)
{
    return packets->begin + (offset - packets->base);
}

/* CYC and MTC packets, as far as they can be told fast. Returns how many. */
static size_t near_marks(struct ptd_time *time, const struct ptd_packets *packets,
                         const struct ptd_mark *marks, size_t count, struct ptd_time_point *points)
{
    struct near near = {0};
    size_t told = 0;

    if (count == 0 || (marks[0].what & NOT_PLAIN) || !enter(time, &near))
        return 0;
    for (;;) {
        const size_t run = tell_run(&near, marks + told, count - told, points + told);
        const uint8_t *packet;

        told += run;
        if (run == 0 || told == count || marks[told].what != LIKE_MTC || near.period == 0)
            break;
        packet = place(packets, marks[told].offset - PT_MTC_LEN);
        if (packet[0] != PT_OPC_MTC || !tell_mtc(&near, time, packet[1], &points[told]))
            break;
        told++;
    }
    if (told > 0)
        leave(&near, &marks[told - 1], time);
    return told;
}

/*
 * TNTs and TIPs since the last packet. One TNT says to time what several do, and so does one TIP;
 * and behind a CYC or MTC packet, ptd_time_packet() would do no more than this.
 */
static void tell_branches(struct ptd_time *time, uint32_t what)
{
    if (!(what & (MARK_TNT | MARK_TIP)))
        return;
    if (time->type == PTD_CYC || time->type == PTD_MTC) {
        if ((what & MARK_TIP) && time->cyc_seen && time->base_known &&
            time->base.first > time->ceiling)
            time->ceiling = NEVER;
        time->exact = time->tma_due = false;
        return;
    }
    if (what & MARK_TNT)
        ptd_time_packet(time, &(struct ptd_packet){.type = PTD_TNT, .offset = time->offset});
    if (what & MARK_TIP)
        ptd_time_packet(time, &(struct ptd_packet){.type = PTD_TIP, .offset = time->offset});
}

/* Short TNTs and TIPs, which most of a trace is. Returns which, and where the last one begins. */
static uint32_t pass_branches(struct ptd_packets *packets, const uint8_t *end, const uint8_t **last)
{
    static const uint8_t ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};
    const uint8_t *pos = packets->pos;
    uint32_t what = 0;

    while (pos < end) {
        const uint8_t byte = *pos;
        const uint8_t ip = ip_bytes[byte >> PT_IPBYTES_SHR];

        if (!(byte & 1) && byte > PT_OPC_EXT) {
            what |= MARK_TNT;
            *last = pos++;
        } else if ((byte & PT_TIP_MASK) == PT_TIP && ip > 0 && end - pos > ip) {
            what |= MARK_TIP;
            *last = pos;
            pos += 1 + ip;
        } else {
            break;
        }
    }
    packets->pos = pos;
    return what;
}

/* What one TNT and one TIP do to time, several do not do again. */
void ptd_time_branches(struct ptd_time *time, struct ptd_packets *packets, uint64_t offset)
{
    const uint64_t at = ptd_packets_offset(packets);
    const uint64_t there = (uint64_t)(packets->end - packets->pos);
    const uint64_t ahead = offset > at ? offset - at : 0;
    const uint8_t *const begin = packets->pos, *last = begin;
    const uint32_t what = pass_branches(packets, begin + (ahead < there ? ahead : there), &last);
    bool ends_in_tip;

    if (!what)
        return;
    ends_in_tip = (*last & PT_TIP_MASK) == PT_TIP;
    if (what == (MARK_TNT | MARK_TIP))
        ptd_time_packet(
            time, &(struct ptd_packet){.type = ends_in_tip ? PTD_TNT : PTD_TIP, .offset = at});
    ptd_time_packet(time, &(struct ptd_packet){.type = ends_in_tip ? PTD_TIP : PTD_TNT,
                                               .offset = at + (uint64_t)(last - begin)});
}

/* All packets in front of an offset. Damage may have led to bytes that were never packets. */
static void read_to(struct ptd_time *time, struct ptd_packets *packets, uint64_t offset)
{
    struct ptd_packet packet;
    const uint8_t *last;

    while (ptd_packets_offset(packets) < offset && ptd_time_next(time, packets, &packet)) {
        ptd_time_packet(time, &packet);
        if (!packets->bip_bytes && ptd_packets_offset(packets) < offset)
            tell_branches(time, pass_branches(packets, place(packets, offset), &last));
    }
    if (ptd_packets_offset(packets) != offset) {
        ptd_time_lost(time);
        (void)ptd_packets_seek(packets, offset);
    }
}

/* A mark whose packet is known: a CYC, or an MTC as its two bytes say. False: it must be read. */
static bool tell_mark(struct ptd_time *time, struct ptd_packets *packets,
                      const struct ptd_mark *mark)
{
    const uint32_t value = mark->what >> MARK_VALUE_SHR;
    struct ptd_packet packet = {.type = PTD_CYC, .offset = mark->offset - 1, .cyc = value};

    if (mark->what & MARK_PACKET) {
        const uint8_t *const begin = place(packets, mark->offset - value);

        if (value != PT_MTC_LEN || *begin != PT_OPC_MTC)
            return false;
        packet =
            (struct ptd_packet){.type = PTD_MTC, .offset = mark->offset - value, .mtc = begin[1]};
    }
    ptd_time_packet(time, &packet);
    packets->pos = place(packets, mark->offset);
    return true;
}

/* Any mark. */
static void read_mark(struct ptd_time *time, struct ptd_packets *packets,
                      const struct ptd_mark *mark)
{
    if (!(mark->what & MARK_OTHER)) {
        tell_branches(time, mark->what);
        if (tell_mark(time, packets, mark))
            return;
        packets->pos = place(packets, mark->offset - (mark->what >> MARK_VALUE_SHR));
    }
    read_to(time, packets, mark->offset);
}

void ptd_time_marks(struct ptd_time *time, struct ptd_packets *packets,
                    const struct ptd_mark *marks, size_t count, struct ptd_time_point *points)
{
    size_t i = 0;

    while (i < count) {
        const size_t near = near_marks(time, packets, marks + i, count - i, points + i);

        if (near > 0)
            packets->pos = place(packets, marks[i + near - 1].offset);
        i += near;
        if (i < count) {
            read_mark(time, packets, &marks[i]);
            ptd_time_point(time, &points[i++]);
        }
    }
}
