/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time (SDM 33.8.3, 33.3.6): the model makes traces from clocks that the test turns, so the true
 * TSC of every packet is known. Real traces are compared with libipt.
 */
#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <intel-pt.h>

#include "ptdec.h"
#include "suites.h"
#include "vpt.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define REGION_BYTES (1u << 20)
#define TABLE_GPA    0x1000u
#define REGION_GPA   0x200000u
#define EVENTS       1500u
#define MAX_STAMPS   (EVENTS * 600)

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

/* ---- A processor with clocks ---- */

/* What the trace stood at when the clock did. */
struct stamp {
    size_t end; /* bytes before this offset were sent at or before .tsc */
    uint64_t tsc;
};

struct source {
    struct vpt_cpu cpu;
    struct vpt_caps caps;
    uint64_t table[2];
    uint8_t *region;
    uint64_t tsc, cycle_parts; /* parts: 1/1000 cycle */
    unsigned ratio_parts;      /* cycles in 1000 bus clocks */
    struct stamp *stamps;
    size_t stamp_count;
    uint64_t *branches; /* times of TNT bits */
    size_t branch_count;
    uint64_t overflows;
    unsigned pending; /* bits of a TNT that is not complete */
    uint64_t random;
    bool busy;
    bool prompt; /* each MTC packet is sent when its count begins */
};

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct source *const source = owner;

    (void)access;
    span->len_bytes = len_bytes;
    span->kind = VPT_SPAN_RAM;
    if (gpa >= REGION_GPA && gpa - REGION_GPA < REGION_BYTES)
        span->host = source->region + (gpa - REGION_GPA);
    else if (gpa - TABLE_GPA < sizeof(source->table))
        span->host = (uint8_t *)source->table + (gpa - TABLE_GPA);
    else
        span->kind = VPT_SPAN_UNBACKED;
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    const struct source *const source = owner;

    vpt_clocks_from_tsc(&source->caps, source->tsc, now);
    now->cycles = source->cycle_parts / 1000;
}

static const struct vpt_ops ops = {.translate = translate, .clocks = clocks};

/* Everything sent so far was sent now. */
static void stamp(struct source *source)
{
    if (source->stamp_count == MAX_STAMPS) {
        CU_FAIL("too many events");
        return;
    }
    source->stamps[source->stamp_count++] =
        (struct stamp){(size_t)source->cpu.output_bytes + source->cpu.buf_len, source->tsc};
    if (source->cpu.overflow_count != source->overflows)
        source->branch_count -= source->pending; /* they were never sent */
    source->overflows = source->cpu.overflow_count;
    source->pending = source->cpu.overflow ? 0 : 63u - (unsigned)__builtin_clzll(source->cpu.tnt);
}

static void source_close(struct source *source)
{
    free(source->region);
    free(source->stamps);
    free(source->branches);
}

static void pass_quietly(struct source *source, uint64_t ticks)
{
    source->tsc += ticks;
    source->cycle_parts += ticks * source->ratio_parts / source->caps.max_nonturbo_ratio;
}

/* When the count of MTC packets changes next. */
static uint64_t next_edge(const struct source *source)
{
    const unsigned freq = (unsigned)(source->cpu.ctl >> VPT_CTL_MTCFREQ_SHR) & 0xf;
    struct vpt_clocks now;

    vpt_clocks_from_tsc(&source->caps, source->tsc, &now);

    const uint64_t art = ((now.art >> freq) + 1) << freq;

    return (art * source->caps.tsc_num + source->caps.tsc_den - 1) / source->caps.tsc_den;
}

/* Lets so many TSC ticks pass. */
static void pass(struct source *source, uint64_t ticks)
{
    const uint64_t end = source->tsc + ticks;

    while (source->prompt && next_edge(source) <= end) {
        pass_quietly(source, next_edge(source) - source->tsc);
        vpt_time(&source->cpu);
        stamp(source);
    }
    pass_quietly(source, end - source->tsc);
}

/* ---- Things that happen ---- */

enum disturbance { CALM, STOPS = 1, OVERFLOWS = 2, RATIOS = 4, SLEEPS = 8 };

/* The core clock runs within half a step of what the CBR packet says. */
static void change_ratio(struct source *source)
{
    const uint8_t ratio = (uint8_t)(8 + draw(&source->random, 30));

    source->ratio_parts = ratio * 1000u - 500u + (unsigned)draw(&source->random, 1000);
    vpt_set_core_ratio(&source->cpu, ratio);
}

static void sleep_and_wake(struct source *source)
{
    const struct vpt_power_entry entry = {.ip = 0x401000, .mwait = true, .state = 0x20};
    const struct vpt_power_exit wake = {.last_core_state = 2, .deepest_core_state = 2, .reason = 1};

    vpt_power_entry(&source->cpu, &entry);
    stamp(source);
    source->tsc += draw(&source->random, 1u << 22); /* core cycles stand still */
    vpt_power_exit(&source->cpu, &wake);
}

static void stop_and_start(struct source *source, uint64_t ctl)
{
    vpt_wrmsr(&source->cpu, VPT_MSR_CTL, ctl & ~VPT_CTL_TRACEEN, 0x401000, 0x401002);
    stamp(source);
    pass(source, draw(&source->random, 1u << 20));
    vpt_wrmsr(&source->cpu, VPT_MSR_CTL, ctl, 0x401000, 0x401002);
}

static void branch(struct source *source)
{
    const bool overflow = source->cpu.overflow;

    vpt_cond_branch(&source->cpu, 0x401010, draw(&source->random, 2));
    if (!overflow && !source->cpu.overflow && source->cpu.overflow_count == source->overflows)
        source->branches[source->branch_count++] = source->tsc;
}

static void disturb(struct source *source, uint64_t ctl, unsigned disturbances)
{
    switch (1u << draw(&source->random, 4) & disturbances) {
    case STOPS:
        stop_and_start(source, ctl);
        break;
    case OVERFLOWS:
        source->busy = !source->busy;
        vpt_stall(&source->cpu, source->busy);
        break;
    case RATIOS:
        change_ratio(source);
        break;
    case SLEEPS:
        sleep_and_wake(source);
        break;
    default:
        break;
    }
}

static void run(struct source *source, uint64_t ctl, unsigned disturbances)
{
    struct vpt_cpu *const cpu = &source->cpu;

    stamp(source);
    for (unsigned i = 0; i < EVENTS; i++) {
        pass(source, draw(&source->random, draw(&source->random, 20) ? 40 : 4000));
        if (draw(&source->random, 60) == 0) {
            disturb(source, ctl, disturbances);
            stamp(source);
            continue;
        }
        if (draw(&source->random, 3))
            branch(source);
        else
            vpt_jmp_indirect(cpu, 0x401000 + 16 * draw(&source->random, 1000));
        stamp(source);
    }
    vpt_wrmsr(cpu, VPT_MSR_CTL, 0, 0x401000, 0x401002);
    stamp(source);
}

/* ---- What is true ---- */

struct truth {
    const struct source *source;
    size_t stamp, branch;
    uint64_t earliest, latest;
};

/* When the events were that a packet tells. */
static void look_up(struct truth *truth, const struct ptd_packet *packet)
{
    const struct source *const source = truth->source;

    while (truth->stamp + 1 < source->stamp_count &&
           source->stamps[truth->stamp].end <= packet->offset)
        truth->stamp++;
    truth->earliest = truth->latest = source->stamps[truth->stamp].tsc;
    if (packet->type != PTD_TNT)
        return;
    if (truth->branch + packet->tnt.count > source->branch_count) {
        CU_FAIL("more TNT bits than branches");
        return;
    }
    truth->earliest = source->branches[truth->branch];
    truth->branch += packet->tnt.count;
    truth->latest = source->branches[truth->branch - 1];
}

struct result {
    size_t points, wrong, backwards;
    size_t unknown;
    uint64_t tips, width; /* of TIPs: how many, and all widths together */
};

static struct ptd_time_config config_of(const struct vpt_caps *caps, uint64_t ctl)
{
    return (struct ptd_time_config){
        .tsc_den = caps->tsc_den,
        .tsc_num = caps->tsc_num,
        .mtc_freq = (uint8_t)(ctl >> VPT_CTL_MTCFREQ_SHR & 0xf),
        .cyc_threshold = (uint8_t)(ctl >> VPT_CTL_CYCTHRESH_SHR & 0xf),
        .max_nonturbo_ratio = caps->max_nonturbo_ratio,
    };
}

static void judge(const struct truth *truth, const struct ptd_time_point *point, uint64_t *last,
                  struct result *result)
{
    result->points++;
    if (point->tsc == PTD_TIME_UNKNOWN || point->latest == PTD_TIME_UNKNOWN) {
        result->unknown++;
        return;
    }
    result->wrong += point->earliest > truth->earliest || point->latest < truth->latest ||
                     point->tsc < point->earliest || point->tsc > point->latest;
    result->backwards += point->tsc < *last;
    *last = point->tsc;
}

/* PADs instead of some packets: at_random, one in four of them. */
static void drop_packets(struct source *source, enum ptd_packet_type type, bool at_random)
{
    struct ptd_packets packets;
    struct ptd_packet packet;

    ptd_packets_init(&packets, source->region, (size_t)source->cpu.output_bytes);
    while (ptd_packets_next(&packets, &packet) == PTD_OK)
        if (packet.type == type && (!at_random || draw(&source->random, 4) == 0))
            memset(source->region + packet.offset, 0, packet.size_bytes);
}

/* The first TSC packet, and the last one of TSC and MTC. */
static void find_ends(const struct source *source, uint64_t *first, uint64_t *last)
{
    struct ptd_packets packets;
    struct ptd_packet packet;

    *first = UINT64_MAX;
    *last = 0;
    ptd_packets_init(&packets, source->region, (size_t)source->cpu.output_bytes);
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_TSC && *first > packet.offset)
            *first = packet.offset;
        if (packet.type == PTD_TSC || packet.type == PTD_MTC)
            *last = packet.offset;
    }
}

static struct result check_times(const struct source *source, const struct ptd_time_config *config,
                                 bool ahead)
{
    struct truth truth = {.source = source};
    struct ptd_time *const time = ptd_time_new(config);
    struct result result = {0};
    struct ptd_packets packets;
    struct ptd_packet packet;
    uint64_t last = 0, first, end;
    int status;

    CU_ASSERT_PTR_NOT_NULL_FATAL(time);
    find_ends(source, &first, &end);
    ptd_packets_init(&packets, source->region, (size_t)source->cpu.output_bytes);
    while ((status = ptd_packets_next(&packets, &packet)) == PTD_OK) {
        struct ptd_time_point point;

        ptd_time_packet(time, &packet);
        if (packet.type == PTD_PAD)
            continue; /* of no time: it may have come with what is behind it, its CYC included */
        look_up(&truth, &packet);
        if (ahead)
            ptd_time_point_ahead(time, &packets, &point);
        else
            ptd_time_point(time, &point);
        /* A PAD tells of nothing: it stands in front of a packet that was sent later. */
        if (packet.type != PTD_PAD && packet.offset >= first && packet.offset <= end)
            judge(&truth, &point, &last, &result);
        if (packet.type == PTD_TIP && point.latest != PTD_TIME_UNKNOWN) {
            result.tips++;
            result.width += point.latest - point.earliest;
        }
    }
    CU_ASSERT_EQUAL(status, PTD_END);
    CU_ASSERT_EQUAL(ptd_time_set_backs(time), 0);
    ptd_time_free(time);
    return result;
}

/* ---- Against the clocks ---- */

#define TRACING                                                                                    \
    (VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TSCEN)

static uint64_t timing_bits(const struct vpt_caps *caps, bool mtc, bool cyc, unsigned freq,
                            unsigned threshold)
{
    uint64_t ctl = TRACING;

    if (mtc && caps->leaf14_0_ebx & VPT_CAP_MTC && caps->leaf14_1_eax >> (16 + freq) & 1)
        ctl |= VPT_CTL_MTCEN | (uint64_t)freq << VPT_CTL_MTCFREQ_SHR;
    if (cyc && caps->leaf14_0_ebx & VPT_CAP_PSB_CYC && caps->leaf14_1_ebx >> threshold & 1)
        ctl |= VPT_CTL_CYCEN | (uint64_t)threshold << VPT_CTL_CYCTHRESH_SHR;
    return ctl;
}

/* One run, and what is done to its trace before it is read. */
struct run {
    const struct vpt_caps *caps;
    uint64_t ctl, seed, start; /* start: TSC; 0: anything */
    unsigned disturbances;
    bool ahead, lose_mtc, lose_tma, prompt;
};

static bool source_open(struct source *source, const struct run *wish)
{
    const struct vpt_context ctx = {.cr3 = 0x5000, .exec_mode = VPT_EXEC_64};
    const struct vpt_caps *const caps = wish->caps;

    memset(source, 0, sizeof(*source));
    source->caps = *caps;
    source->random = wish->seed * 2 + 1;
    source->prompt = wish->prompt;
    source->region = calloc(1, REGION_BYTES);
    source->stamps = calloc(MAX_STAMPS, sizeof(*source->stamps));
    source->branches = calloc(EVENTS, sizeof(*source->branches));
    if (!source->region || !source->stamps || !source->branches ||
        !vpt_init(&source->cpu, caps, &ops, source))
        return false;
    source->tsc = wish->start ? wish->start : 1000000 + draw(&source->random, 1u << 30);
    source->cycle_parts = draw(&source->random, 1u << 30);
    source->ratio_parts = caps->max_nonturbo_ratio * 1000u;
    source->table[0] = REGION_GPA | 8u << VPT_TOPA_SIZE_SHR;
    if (caps->leaf14_0_ecx & VPT_CAP_MENTRY)
        source->table[1] = TABLE_GPA | VPT_TOPA_END;
    else
        source->table[0] |= VPT_TOPA_INT; /* one entry only; it wraps */
    vpt_wrmsr(&source->cpu, VPT_MSR_OUTPUT_BASE, TABLE_GPA, 0, 2);
    vpt_wrmsr(&source->cpu, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f, 0, 2);
    vpt_set_context(&source->cpu, &ctx);
    return vpt_wrmsr(&source->cpu, VPT_MSR_CTL, wish->ctl, 0x400000, 0x400002) == VPT_OK;
}

static struct result run_case(const struct run *wish)
{
    struct ptd_time_config config = config_of(wish->caps, wish->ctl);
    struct result result = {0};
    struct source source;

    if (source_open(&source, wish)) {
        run(&source, wish->ctl, wish->disturbances);
        CU_ASSERT_TRUE(source.cpu.output_bytes < REGION_BYTES);
        if (wish->lose_mtc)
            drop_packets(&source, PTD_MTC, true);
        if (wish->lose_tma)
            drop_packets(&source, PTD_TMA, false);
        config.mtc_delay_ticks = wish->prompt ? 1 : 0;
        result = check_times(&source, &config, wish->ahead);
    } else {
        CU_FAIL("the model does not start");
    }
    source_close(&source);
    return result;
}

static void report(const char *what, const struct run *wish)
{
    const struct result result = run_case(wish);

    CU_ASSERT_EQUAL(result.wrong, 0);
    CU_ASSERT_EQUAL(result.backwards, 0);
    CU_ASSERT_TRUE(result.points > 0);
    CU_ASSERT_TRUE(result.unknown == 0 || !wish->ahead);
    if (result.wrong || result.backwards || (result.unknown && wish->ahead))
        printf("\n    %s: %zu of %zu intervals wrong, %zu unknown, %zu backwards", what,
               result.wrong, result.points, result.unknown, result.backwards);
}

#define ANYTHING (STOPS | OVERFLOWS | RATIOS | SLEEPS)

/*
 * Whether a run, in which no more than 4000 ticks pass at once, misses no count of MTC behind a
 * TSC, or CYC packets make up for it.
 */
static bool mtc_in_time(uint64_t ctl)
{
    return (ctl >> VPT_CTL_MTCFREQ_SHR & 0xf) >= 6 ||
           ((ctl & VPT_CTL_CYCEN) && (ctl >> VPT_CTL_CYCTHRESH_SHR & 0xf) < 8);
}

/* All that a run can be asked to do, with one setting of the timing packets. */
static void every_run(const char *what, const struct vpt_caps *caps, uint64_t ctl, uint64_t seed)
{
    const struct run runs[] = {
        {.disturbances = ANYTHING, .ahead = true},
        {.disturbances = RATIOS},
        {.disturbances = ANYTHING, .ahead = true, .lose_mtc = true},
        {.disturbances = CALM, .ahead = true, .lose_tma = true},
        {.disturbances = STOPS | RATIOS, .ahead = true, .prompt = true},
        {.disturbances = RATIOS, .ahead = true, .start = (UINT64_C(1) << 56) - 500000},
    };

    for (size_t i = 0; i < COUNT(runs); i++) {
        struct run wish = runs[i];

        if ((wish.lose_tma && !mtc_in_time(ctl)) || (wish.prompt && !(ctl & VPT_CTL_MTCEN)))
            continue;
        wish.caps = caps;
        wish.ctl = ctl;
        wish.seed = seed;
        report(what, &wish);
    }
}

static void every_profile(void)
{
    unsigned cases = 0;

    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct vpt_caps caps;

        CU_ASSERT_TRUE(vpt_profile(vpt_profile_name(i), &caps));
        for (unsigned bits = 0; bits < 256; bits++) {
            const unsigned freq = bits & 15, threshold = bits >> 4;
            const bool has_cyc = caps.leaf14_0_ebx & VPT_CAP_PSB_CYC;
            const uint64_t ctl = timing_bits(&caps, true, true, freq, threshold);
            char what[128];

            if (!(ctl & VPT_CTL_MTCEN) || (has_cyc && !(ctl & VPT_CTL_CYCEN)))
                continue;
            (void)snprintf(what, sizeof(what), "%s, MTCFreq %u, CycThresh %u", vpt_profile_name(i),
                           freq, threshold);
            every_run(what, &caps, ctl, bits);
            cases++;
        }
    }
    CU_ASSERT_TRUE(cases > 100);
}

/* Some kinds of packets only. */
static void fewer_packets(void)
{
    struct vpt_caps caps;

    CU_ASSERT_TRUE(vpt_profile("max", &caps));
    for (unsigned freq = 0; freq < 15; freq++)
        every_run("MTC only", &caps, timing_bits(&caps, true, false, freq, 0), freq);
    for (unsigned threshold = 0; threshold < 15; threshold++)
        every_run("CYC only", &caps, timing_bits(&caps, false, true, 0, threshold), threshold);
    for (unsigned seed = 0; seed < 10; seed++)
        every_run("TSC only", &caps, timing_bits(&caps, false, false, 0, 0), seed);
}

/* How wide the intervals of TIPs are on average, in ticks: what each kind of packet is good for. */
static void narrow(void)
{
    static const struct {
        bool mtc, cyc;
        unsigned freq;
        uint64_t most;
    } cases[] = {
        {true, true, 0, 20},    {true, true, 3, 80},   {true, true, 9, 2000},
        {false, true, 0, 4000}, {true, false, 0, 500}, {true, false, 3, 2000},
    };
    struct vpt_caps caps;

    CU_ASSERT_TRUE(vpt_profile("max", &caps));
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct run wish = {
            .caps = &caps,
            .ctl = timing_bits(&caps, cases[i].mtc, cases[i].cyc, cases[i].freq, 0),
            .seed = i + 1,
            .ahead = true,
        };
        const struct result result = run_case(&wish);

        CU_ASSERT_TRUE(result.tips > 0 && result.width / result.tips <= cases[i].most);
    }
}

/* ---- By hand ---- */

#define TSC_AT(tsc)                                                                                \
    0x19, (tsc)&0xff, (tsc) >> 8 & 0xff, (tsc) >> 16 & 0xff, (tsc) >> 24 & 0xff, 0, 0, 0
#define TIP16   0x2d, 0, 0x10
#define TNT8    0x06
#define CYC1(n) ((n) << 3 | 3)                     /* up to 31 */
#define CYC2(n) ((n)&0x1f) << 3 | 7, (n) >> 5 << 1 /* up to 4095 */
#define CYC3(n) ((n)&0x1f) << 3 | 7, ((n) >> 5 & 0x7f) << 1 | 1, (n) >> 12 << 1

struct written {
    const uint8_t *bytes;
    size_t len;
    struct ptd_time_config config;
    struct ptd_time_point *points; /* one a packet */
    size_t room;
};

static size_t read_points(const struct written *written)
{
    struct ptd_time *const time = ptd_time_new(&written->config);
    struct ptd_packets packets;
    struct ptd_packet packet;
    size_t count = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(time);
    ptd_packets_init(&packets, written->bytes, written->len);
    while (count < written->room && ptd_packets_next(&packets, &packet) == PTD_OK) {
        ptd_time_packet(time, &packet);
        ptd_time_point(time, &written->points[count++]);
    }
    ptd_time_free(time);
    return count;
}

/* One TSC tick a cycle, as far as a CBR packet can say it. */
static void check_cycles(const struct ptd_time_point *point, uint64_t start, uint64_t cycles)
{
    CU_ASSERT_EQUAL(point->cycles, cycles);
    CU_ASSERT_TRUE(point->earliest <= start + cycles);
    CU_ASSERT_TRUE(point->latest >= start + cycles);
    CU_ASSERT_TRUE(point->latest - point->earliest <= 6 + cycles / 10);
}

static void example_33_1(void)
{
    static const uint8_t bytes[] = {
        TSC_AT(5000), 2,          3,          40, 0,    TIP16,                /* x */
        CYC1(2),      TIP16,                                                  /* call ebx */
        CYC1(6),      TNT8,                                                   /* jnz, ret, jnz */
        CYC1(8),      TIP16,                                                  /* ret */
        CYC2(4095),   CYC3(8194), CYC2(4027), 2,  0x43, 0,     0, 0, 0, 0, 0, /* mov cr3 */
    };
    struct ptd_time_point points[16];
    const struct written written = {
        bytes, sizeof(bytes), {.max_nonturbo_ratio = 40}, points, COUNT(points)};

    CU_ASSERT_EQUAL_FATAL(read_points(&written), 13);
    check_cycles(&points[4], 5000, 2);
    CU_ASSERT_TRUE(points[6].earliest <= 5008);
    CU_ASSERT_EQUAL(points[6].cycles, 8);
    check_cycles(&points[8], 5000, 16);
    check_cycles(&points[12], 5000, 16332);
}

static void example_33_2(void)
{
    static const uint8_t bytes[] = {
        TSC_AT(9000), 2,     3,    40, 0,    TNT8, /* x; ends with "jnz Bar" */
        CYC1(9),      TIP16,                       /* jmp eax */
        CYC1(3),      TNT8,  0x3d, 0,  0x10,       /* jnz; FUP of int3 */
        CYC1(10),     2,     0x43, 0,  0,    0,    0, 0, 0, CYC1(20), 0x99, 1, TIP16,
    };
    struct ptd_time_point points[16];
    const struct written written = {
        bytes, sizeof(bytes), {.max_nonturbo_ratio = 40}, points, COUNT(points)};

    CU_ASSERT_EQUAL_FATAL(read_points(&written), 13);
    check_cycles(&points[4], 9000, 9);
    CU_ASSERT_EQUAL(points[6].cycles, 12);
    check_cycles(&points[9], 9000, 22);  /* PIP */
    check_cycles(&points[11], 9000, 42); /* MODE.Exec */
    check_cycles(&points[12], 9000, 42); /* TIP, in the same cycle */
}

/* Somebody wrote the TSC; and traces without what time needs. */
static void odd_traces(void)
{
    static const uint8_t back[] = {TSC_AT(900000), TIP16, TSC_AT(5000), TIP16};
    static const uint8_t none[] = {0x59, 7, CYC1(3), TIP16};
    struct ptd_time_point points[8];
    struct written written = {
        back, sizeof(back), {.max_nonturbo_ratio = 40}, points, COUNT(points)};

    CU_ASSERT_EQUAL_FATAL(read_points(&written), 4);
    CU_ASSERT_EQUAL(points[1].tsc, 900000);
    CU_ASSERT_EQUAL(points[2].tsc, 5000);
    CU_ASSERT_EQUAL(points[3].earliest, 5000);
    CU_ASSERT_EQUAL(points[3].latest, PTD_TIME_UNKNOWN);
    written.bytes = none;
    written.len = sizeof(none);
    CU_ASSERT_EQUAL_FATAL(read_points(&written), 3);
    CU_ASSERT_EQUAL(points[2].tsc, PTD_TIME_UNKNOWN);
    CU_ASSERT_EQUAL(points[2].cycles, 3);
}

/*
 * A PSB+ comes between an edge of the crystal clock and the MTC packet that tells it (33.4.2.12):
 * that count began before TMA, and the next one comes when it is due.
 */
static void late_mtc(void)
{
    static const uint8_t bytes[] = {
        TSC_AT(100000), 2, 0x73,  0x03, 0x04, 0, 0, 0, /* TMA: 0403H, 3 clocks behind the edge */
        0x59,           2, TIP16,                      /* MTC: 0400H */
        0x59,           3, TIP16,                      /* 0600H */
    };
    struct ptd_time_point points[8];
    const struct written written = {bytes,
                                    sizeof(bytes),
                                    {.max_nonturbo_ratio = 40,
                                     .tsc_num = 10,
                                     .tsc_den = 1,
                                     .mtc_freq = 9,
                                     .mtc_delay_ticks = 200},
                                    points,
                                    COUNT(points)};

    CU_ASSERT_EQUAL_FATAL(read_points(&written), 6);
    CU_ASSERT_EQUAL(points[2].earliest, 100000);
    CU_ASSERT_TRUE(points[2].latest >= 100170 && points[2].latest <= 100172);
    CU_ASSERT_TRUE(points[4].earliest >= 105088 && points[4].earliest <= 105090);
    CU_ASSERT_TRUE(points[4].latest >= 105290 && points[4].latest <= 105292);
    CU_ASSERT_TRUE(points[5].latest >= 110209 && points[5].latest <= 110212);
}

/* A cycle in which the ratio changes may be as long as it would have been without. */
static void ratio_changes(void)
{
    static const uint8_t bytes[] = {
        TSC_AT(100000),
        2,
        3,
        2,
        0,
        CYC1(1),
        TIP16, /* CBR 2: a cycle takes 10 to 40 ticks or so */
        2,
        3,
        40,
        0,
        CYC1(0),
        TIP16,
        CYC1(1),
        TIP16,
        CYC1(1),
        TIP16,
    };
    struct ptd_time_point points[16];
    const struct written written = {
        bytes, sizeof(bytes), {.max_nonturbo_ratio = 40}, points, COUNT(points)};

    CU_ASSERT_EQUAL_FATAL(read_points(&written), 11);
    CU_ASSERT_TRUE(points[6].latest >= points[3].latest); /* still in that cycle */
    CU_ASSERT_TRUE(points[8].latest >= points[6].latest); /* behind its end */
    CU_ASSERT_TRUE(points[10].latest <= points[8].latest + 2);
}

/* Whose offset and multiplier count: NR and VMCS, also where they stand behind the TSC. */
static void whose_tsc(void)
{
#define PIP_NR(nr) 2, 0x43, (nr), 0, 0, 0, 0, 0
#define VMCS(page) 2, 0xc8, (page), 0, 0, 0, 0
#define PSB        2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82
    static const uint8_t bytes[] = {
        TSC_AT(4096),  PIP_NR(0), TSC_AT(3000), PIP_NR(1), VMCS(7), TSC_AT(3600), PSB,
        TSC_AT(40000), PIP_NR(1), VMCS(8),      2,         0x23,    PIP_NR(0),    TSC_AT(30001),
    };
    static const struct ptd_time_vm vms[] = {
        {.vmcs = 0x7000, .offset = 500},
        {.vmcs = PTD_ANY_VMCS, .offset = 96, .multiplier = UINT64_C(2) << 48},
    };
    const struct ptd_time_config config = {
        .tsc_high = 0, .nonroot = true, .vmcs = 0x9000, .vms = vms, .vm_count = 2};
    struct ptd_time_point points[16];
    const struct written written = {bytes, sizeof(bytes), config, points, COUNT(points)};

    CU_ASSERT_EQUAL_FATAL(read_points(&written), 13);
    CU_ASSERT_EQUAL(points[0].tsc, 2000); /* (4096 - 96) / 2 */
    CU_ASSERT_EQUAL(points[2].tsc, 3000);
    CU_ASSERT_EQUAL(points[5].tsc, 3100);   /* 3600 - 500 */
    CU_ASSERT_EQUAL(points[7].tsc, 3100);   /* it waits for PIP and VMCS */
    CU_ASSERT_EQUAL(points[10].tsc, 19952); /* (40000 - 96) / 2 */
    CU_ASSERT_EQUAL(points[12].tsc, 30001);
}

/* Behind an overflow nobody knows how many cycles were counted, until the next TSC. */
static void overflow(void)
{
    static const uint8_t bytes[] = {
        TSC_AT(5000), 2,       3,     40,           0,       CYC1(2), TIP16, 2,
        0xf3,         CYC1(3), TIP16, TSC_AT(9000), CYC1(3), TIP16,
    };
    struct ptd_time_point points[16];
    const struct written written = {
        bytes, sizeof(bytes), {.max_nonturbo_ratio = 40}, points, COUNT(points)};

    CU_ASSERT_EQUAL_FATAL(read_points(&written), 10);
    CU_ASSERT_TRUE(points[3].latest < 5010);
    CU_ASSERT_EQUAL(points[4].latest, PTD_TIME_UNKNOWN);
    CU_ASSERT_EQUAL(points[6].latest, PTD_TIME_UNKNOWN);
    CU_ASSERT_TRUE(points[9].earliest >= 9000 && points[9].latest < 9010);
}

/* Bits that no packet has. */
static void high_bits(void)
{
    static const uint8_t bytes[] = {TSC_AT(4096), TSC_AT(4095)};
    struct ptd_time_point points[2];
    const struct written written = {bytes, sizeof(bytes), {.tsc_high = 0x12}, points, 2};

    CU_ASSERT_EQUAL_FATAL(read_points(&written), 2);
    CU_ASSERT_EQUAL(points[0].tsc, 0x1200000000001000);
    CU_ASSERT_EQUAL(points[1].tsc, 0x1200000000000fff);
}

static void bad_configurations(void)
{
    static const struct ptd_time_vm steep = {.multiplier = UINT64_MAX}, flat = {.multiplier = 1};
    static const struct ptd_time_config bad[] = {
        {.mtc_freq = 16},
        {.cyc_threshold = 16},
        {.tsc_den = 3, .tsc_num = 2},
        {.vms = &steep, .vm_count = 1},
        {.vms = &flat, .vm_count = 1},
    };
    struct ptd_time *time;

    for (size_t i = 0; i < COUNT(bad); i++)
        CU_ASSERT_PTR_NULL(ptd_time_new(&bad[i]));
    time = ptd_time_new(NULL);
    CU_ASSERT_PTR_NOT_NULL(time);
    ptd_time_free(time);
}

static void nanoseconds(void)
{
    const struct ptd_time_conv perf = {.zero = 1000, .mult = 512, .shift = 10};
    struct ptd_time_conv conv;

    CU_ASSERT_EQUAL(ptd_time_ns(&perf, 4000), 3000);
    CU_ASSERT_EQUAL(ptd_time_conv_khz(0, &conv), PTD_E_ARG);
    for (uint64_t khz = 1; khz < 10000000; khz = khz * 3 + 1) {
        const uint64_t minute = khz * 60000;

        CU_ASSERT_EQUAL(ptd_time_conv_khz(khz, &conv), PTD_OK);
        CU_ASSERT_TRUE(ptd_time_ns(&conv, minute) <= UINT64_C(60000000000));
        CU_ASSERT_TRUE(ptd_time_ns(&conv, minute) >= UINT64_C(59999900000));
    }
}

/* The same as the model, which has the formula from chapter 26. */
static void guest_values(void)
{
    uint64_t random = 77;

    for (unsigned i = 0; i < 1000; i++) {
        const struct ptd_time_vm vm = {
            .offset = draw(&random, UINT64_MAX),
            .multiplier = i % 3 ? (UINT64_C(1) << 40) + draw(&random, UINT64_C(1) << 50) : 0,
        };
        const uint64_t tsc = draw(&random, UINT64_MAX);

        CU_ASSERT_EQUAL(ptd_time_guest_tsc(&vm, tsc), vpt_guest_tsc(tsc, vm.multiplier, vm.offset));
    }
}

/* ---- A real trace ---- */

#define DELAY 8 /* ticks: of an MTC packet */

static struct pt_insn_decoder *open_libipt(uint8_t *bytes, size_t len_bytes)
{
    struct pt_insn_decoder *decoder;
    struct pt_config pt;

    pt_config_init(&pt);
    pt.begin = bytes;
    pt.end = bytes + len_bytes;
    pt.cpu = (struct pt_cpu){.vendor = pcv_intel, .family = 6, .model = 85, .stepping = 7};
    pt.cpuid_0x15_eax = 2;
    pt.cpuid_0x15_ebx = 168;
    pt.mtc_freq = 3;
    pt.nom_freq = 21;
    (void)pt_cpu_errata(&pt.errata, &pt.cpu);
    decoder = pt_insn_alloc_decoder(&pt);
    if (decoder)
        CU_ASSERT_EQUAL(pt_image_add_file(pt_insn_get_image(decoder),
                                          trace_path("hello-timed/hello"), 0x1000, 0x87000, NULL,
                                          0x401000),
                        0);
    return decoder;
}

#define LAG 4 /* so many CYC packets may lie between what libipt has read and the time it tells */

struct comparison {
    size_t asked, agreed;
    uint64_t earliest[LAG]; /* at the last CYC packets */
};

/* libipt tells a time, and says that it has read so far. */
static void compare(struct ptd_time *time, struct ptd_packets *packets, uint64_t offset,
                    uint64_t theirs, struct comparison *comparison)
{
    uint64_t *const earliest = comparison->earliest;
    struct ptd_time_point point;
    struct ptd_packet packet;

    while (ptd_packets_offset(packets) < offset && ptd_packets_next(packets, &packet) == PTD_OK) {
        ptd_time_packet(time, &packet);
        if (packet.type != PTD_CYC)
            continue;
        ptd_time_point(time, &point);
        memmove(earliest, earliest + 1, (LAG - 1) * sizeof(*earliest));
        earliest[LAG - 1] = point.earliest;
    }
    ptd_time_point_ahead(time, packets, &point);
    comparison->asked++;
    comparison->agreed += theirs + DELAY >= earliest[0] && theirs <= point.latest + DELAY;
}

/* libipt calibrates by the last two MTC packets alone: now and then it is off by more. */
static void same_as_libipt(void)
{
    static const struct ptd_time_config config = {
        .tsc_den = 2,
        .tsc_num = 168,
        .mtc_freq = 3,
        .max_nonturbo_ratio = 21,
        .mtc_delay_ticks = DELAY,
    };
    struct comparison comparison = {0};
    struct pt_insn_decoder *decoder;
    struct ptd_packets packets;
    size_t len_bytes = 0;
    uint8_t *const bytes = read_trace_file("hello-timed/pt.bin", &len_bytes);
    struct ptd_time *const time = ptd_time_new(&config);
    int status;

    if (!bytes) {
        report_skip("time of hello-timed", "the trace is not there (set VPT_TRACES)");
        ptd_time_free(time);
        return;
    }
    decoder = open_libipt(bytes, len_bytes);
    CU_ASSERT_TRUE_FATAL(decoder && time);
    ptd_packets_init(&packets, bytes, len_bytes);
    status = pt_insn_sync_forward(decoder);
    while (status >= 0) {
        struct pt_insn insn;
        struct pt_event event;
        uint64_t offset, tsc;

        while (status >= 0 && status & pts_event_pending)
            status = pt_insn_event(decoder, &event, sizeof(event));
        if (status < 0 || (status = pt_insn_next(decoder, &insn, sizeof(insn))) < 0)
            break;
        if (pt_insn_get_offset(decoder, &offset) == 0 &&
            pt_insn_time(decoder, &tsc, NULL, NULL) == 0)
            compare(time, &packets, offset, tsc, &comparison);
    }
    CU_ASSERT_EQUAL(status, -pte_eos);
    CU_ASSERT_TRUE(comparison.asked > 10000);
    CU_ASSERT_TRUE(comparison.agreed * 100 >= comparison.asked * 99);
    pt_insn_free_decoder(decoder);
    ptd_time_free(time);
    free(bytes);
}

void add_time_suite(void)
{
    CU_pSuite const suite = CU_add_suite("time", NULL, NULL);

    CU_add_test(suite, "the true TSC: profiles, MTCFreq, CycThresh", every_profile);
    CU_add_test(suite, "the true TSC: MTC, CYC or TSC alone", fewer_packets);
    CU_add_test(suite, "narrow intervals", narrow);
    CU_add_test(suite, "Example 33-1", example_33_1);
    CU_add_test(suite, "Example 33-2", example_33_2);
    CU_add_test(suite, "odd traces", odd_traces);
    CU_add_test(suite, "an MTC that is later than a PSB+", late_mtc);
    CU_add_test(suite, "a cycle in which the ratio changes", ratio_changes);
    CU_add_test(suite, "whose TSC", whose_tsc);
    CU_add_test(suite, "overflow", overflow);
    CU_add_test(suite, "bits 63:56", high_bits);
    CU_add_test(suite, "configurations out of range", bad_configurations);
    CU_add_test(suite, "nanoseconds", nanoseconds);
    CU_add_test(suite, "offset and multiplier", guest_values);
    CU_add_test(suite, "real trace, as libipt", same_as_libipt);
}
