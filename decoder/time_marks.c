/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time by the marks of ptd_flow_run(): exactly what time.c makes of all packets, but for runs of
 * CYC packets with nothing but TNTs and TIPs between them in one loop over 64-bit numbers. They
 * count from an origin near the present; whatever comes near their limits is left to time.c.
 */
#include "flow.h"
#include "pt_packets.h"
#include "timing.h"

#define NEAR        ((int64_t)1 << 61)  /* 2^29 TSC ticks */
#define MOST_TSC    ((ticks)1 << 60)    /* of the origin */
#define MOST_CYCLES (UINT32_C(1) << 20) /* of a stretch: at the lowest rate 2^28 ticks */
/* struct ptd_mark.what of anything but a CYC packet of less than MOST_CYCLES, behind TNTs and TIPs
 * at most. */
#define NOT_PLAIN (MARK_OTHER | MARK_PACKET | ~(MOST_CYCLES - 1) << MARK_VALUE_SHR)

/* Part of struct ptd_time, relative to origin << FRACTION. */
struct near {
    uint64_t origin;
    int64_t first, last, guess; /* of the base */
    int64_t earliest, estimate, ceiling;
};

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_near(ticks value, ticks origin)
{
    return value - origin < NEAR && value - origin > -NEAR;
}

/* False: this is not the usual state behind some CYC packets. */
static bool enter(const struct ptd_time *time, struct near *near)
{
    const ticks whole = time->base.first >> FRACTION, origin = whole * ((ticks)1 << FRACTION);

    if (!time->known || !time->cyc_seen || !time->base_known ||
        time->next_rate.least != time->rate.least || time->next_rate.most != time->rate.most ||
        time->earliest < 0 || time->estimate < 0 || whole < 0 || whole > MOST_TSC ||
        time->guess < time->base.first || time->guess > time->base.last ||
        !is_near(time->base.last, origin) || !is_near(time->earliest, origin) ||
        !is_near(time->estimate, origin))
        return false;
    *near = (struct near){
        .origin = (uint64_t)whole,
        .first = (int64_t)(time->base.first - origin),
        .last = (int64_t)(time->base.last - origin),
        .guess = (int64_t)(time->guess - origin),
        .earliest = (int64_t)(time->earliest - origin),
        .estimate = (int64_t)(time->estimate - origin),
        .ceiling = (int64_t)later(sooner(time->ceiling - origin, NEAR), -1),
    };
    return true;
}

/* So many cycles later, behind a CYC packet of the last of them that ends at offset. */
static void leave(struct ptd_time *time, uint64_t cycles, uint64_t last, uint64_t offset)
{
    const ticks passed = (ticks)cycles;

    time->guess += passed * ptd_time_likely_rate(time);
    time->base.first += passed * time->rate.least;
    time->base.last += passed * time->rate.most;
    time->before_base = time->base.first - (ticks)last * time->rate.least;
    time->earliest = later(time->earliest, time->base.first);
    time->estimate = later(time->estimate, later(time->guess, time->earliest));
    time->latest = time->counted = time->base.last + (ticks)time->rate.most;
    time->cycles += cycles;
    time->exact = true;
    time->tma_due = false;
    time->type = PTD_CYC;
    time->offset = offset - 1;
}

/* What a run of CYC packets goes by, and how far it came. */
struct run {
    struct near near;
    struct rate rate;
    uint64_t likely; /* the rate to guess with */
    uint64_t before; /* cycles counted when it began */
    uint64_t cycles; /* since */
    size_t count;    /* of marks that were told */
};

/*
 * Tells marks up to one that is not plain. Base and guess grow with each; once they are behind what
 * was told before the run they stay so, earliest <= guess <= latest by themselves, and the run is
 * settled: not settled, this ends there.
 */
static inline void tell_run(struct run *run, const struct ptd_mark *marks, size_t count,
                            struct ptd_time_point *points, bool settled)
{
    /* In registers: nothing else can point to it. */
    const struct near near = run->near;
    const uint64_t least = run->rate.least, most = run->rate.most, likely = run->likely;
    const uint64_t before = run->before;
    uint64_t cycles = run->cycles;
    int64_t first = near.first + (int64_t)(cycles * least);
    size_t i;

    for (i = run->count; i < count; i++) {
        const uint32_t what = marks[i].what;

        if ((what & NOT_PLAIN) || cycles >= MOST_CYCLES || first > near.ceiling)
            break;

        const uint64_t now = cycles + (what >> MARK_VALUE_SHR);
        int64_t earliest = near.first + (int64_t)(now * least);
        int64_t estimate = near.guess + (int64_t)(now * likely);
        int64_t latest = near.last + (int64_t)((now + 1) * most);

        first = earliest;
        if (!settled) {
            if (earliest >= near.earliest && estimate >= near.estimate)
                break;
            earliest = max(near.earliest, earliest);
            estimate = max(near.estimate, max(estimate, earliest));
            latest = max(latest, estimate);
        }
        cycles = now;
        points[i] = (struct ptd_time_point){
            .tsc = near.origin + (uint64_t)(estimate >> FRACTION),
            .earliest = near.origin + (uint64_t)(earliest >> FRACTION),
            .latest = near.origin + (uint64_t)(latest >> FRACTION),
            .cycles = before + cycles,
        };
    }
    run->cycles = cycles;
    run->count = i;
}

/*
 * CYC packets, as far as they can be told fast. Returns how many. What set_point() of time.c does
 * is simple here: the guess stays in the base because the likely rate is one of those that are
 * possible, and where a TIP would find the base above the ceiling, this ends.
 */
static size_t near_marks(struct ptd_time *time, const struct ptd_mark *marks, size_t count,
                         struct ptd_time_point *points)
{
    struct run run = {
        .rate = time->rate, .likely = ptd_time_likely_rate(time), .before = time->cycles};

    if (count == 0 || (marks[0].what & NOT_PLAIN) || run.likely < run.rate.least ||
        run.likely > run.rate.most || !enter(time, &run.near))
        return 0;
    tell_run(&run, marks, count, points, false);
    tell_run(&run, marks, count, points, true);
    if (run.count > 0)
        leave(time, run.cycles, marks[run.count - 1].what >> MARK_VALUE_SHR,
              marks[run.count - 1].offset);
    return run.count;
}

static const uint8_t *place(const struct ptd_packets *packets, uint64_t offset)
{
    return packets->begin + (offset - packets->base);
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

/* Short TNTs and TIPs, which most of a trace is. */
static void pass_branches(struct ptd_time *time, struct ptd_packets *packets, uint64_t offset)
{
    static const uint8_t ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};
    const uint8_t *pos = packets->pos;
    const uint8_t *const end = place(packets, offset);
    uint32_t what = 0;

    while (pos < end) {
        const uint8_t byte = *pos;

        if (!(byte & 1) && byte > PT_OPC_EXT) {
            what |= MARK_TNT;
            pos++;
        } else if ((byte & PT_TIP_MASK) == PT_TIP && ip_bytes[byte >> PT_IPBYTES_SHR] > 0 &&
                   end - pos > ip_bytes[byte >> PT_IPBYTES_SHR]) {
            what |= MARK_TIP;
            pos += 1 + ip_bytes[byte >> PT_IPBYTES_SHR];
        } else {
            break;
        }
    }
    packets->pos = pos;
    tell_branches(time, what);
}

/* All packets in front of an offset. Damage may have led to bytes that were never packets. */
static void read_to(struct ptd_time *time, struct ptd_packets *packets, uint64_t offset)
{
    struct ptd_packet packet;

    while (ptd_packets_offset(packets) < offset && ptd_time_next(time, packets, &packet)) {
        ptd_time_packet(time, &packet);
        if (!packets->bip_bytes)
            pass_branches(time, packets, offset);
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
        const size_t near = near_marks(time, marks + i, count - i, points + i);

        if (near > 0)
            packets->pos = place(packets, marks[i + near - 1].offset);
        i += near;
        if (i < count) {
            read_mark(time, packets, &marks[i]);
            ptd_time_point(time, &points[i++]);
        }
    }
}
