/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of random programs on several processors, of which a byte is changed or a packet is lost.
 * Whatever is told behind the next PSB has to be what is told of the whole trace: addresses, CR3,
 * modes, events, and times. Where only TNT bits or timing packets are lost, that holds behind the
 * first error already, if decoding goes on at the next IP and no TIP is deferred (SDM 33.4.2.3).
 * All ways to decode tell the same.
 */
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/referee.h"

#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "suites.h"

#define TRACE_BYTES 16384u
#define DAMAGES     6u /* of each kind, to each trace */
#define MAX_INSNS   200000u

/* A processor, and how it traced. */
struct setting {
    const char *profile;
    uint64_t ctl;
    bool deferred_tips;
};

#define CTL_ALL  (VPT_CTL_TRACEEN | VPT_CTL_TOPA | VPT_CTL_BRANCHEN | VPT_CTL_OS | VPT_CTL_USER)
#define CTL_TIME (VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN)

static const struct setting settings[] = {
    {"plain", CTL_ALL | VPT_CTL_TSCEN, false},
    {"broadwell", CTL_ALL | VPT_CTL_TSCEN, false},
    {"skylake", CTL_ALL | CTL_TIME | VPT_CTL_DISRETC, false},
    {"icelake-client", CTL_ALL | CTL_TIME, false},
    {"max", CTL_ALL | CTL_TIME | VPT_CTL_PWREVTEN | VPT_CTL_EVENTEN, false},
    {"max", CTL_ALL | VPT_CTL_PWREVTEN | VPT_CTL_DISRETC, false},
    {"max", CTL_ALL | VPT_CTL_PWREVTEN, true},
};

/* What was told: of what happened, and where a PSB or an error stands among it. */
struct tale {
    struct ptd_item *items;
    size_t count, room;
};

struct recording {
    const struct setting *setting;
    struct image user, kernel;
    struct ptd_image *code;
    struct vpt_caps caps;
    uint8_t trace[TRACE_BYTES], damaged[TRACE_BYTES];
    struct ptd_packet *packets;
    size_t packet_count, packet_room;
    struct tale whole;
};

static struct recording recording; /* large, and one at a time */

/* ---- A trace -------------------------------------------------------------------------------- */

static void run(struct fake *fake, struct walk *walk, struct random *random)
{
    const uint64_t ctl = recording.setting->ctl;

    for (unsigned i = 0; i < MAX_INSNS && fake->tap_len < TRACE_BYTES; i++) {
        struct vpt_context ctx = walk_context(walk);
        struct vpt_transfer transfer;

        vpt_clocks_from_tsc(&fake->caps, fake->clocks.tsc + draw(random, 4), &fake->clocks);
        if (i == 0 || draw(random, 1000) == 0) {
            const uint64_t next = vpt_trigger_en(&fake->cpu) ? ctl & ~VPT_CTL_TRACEEN : ctl;

            vpt_set_context(&fake->cpu, &ctx);
            vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, next, walk_ip(walk), walk_ip(walk));
        }
        if (draw(random, 500) == 0)
            vpt_exec_stop(&fake->cpu, walk_ip(walk));
        if (walk_interrupt(walk, &transfer))
            vpt_transfer(&fake->cpu, &transfer);
        walk_step(walk, &fake->cpu);
    }
    vpt_flush(&fake->cpu);
    CU_ASSERT_FATAL(fake->tap_len >= TRACE_BYTES);
}

static struct ptd_flow_config config_of(enum ptd_resync resync)
{
    return (struct ptd_flow_config){
        .mode = PTD_MODE_64,
        .errata = recording.caps.choices.psb_at_enable ? PTD_BDM70 : 0,
        .resync = (uint8_t)resync,
    };
}

static void list_packets(void)
{
    struct ptd_packets packets;
    struct ptd_packet packet;

    recording.packet_count = 0;
    ptd_packets_init(&packets, recording.trace, TRACE_BYTES);
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (recording.packet_count == recording.packet_room) {
            recording.packet_room = recording.packet_room ? 2 * recording.packet_room : 4096;
            recording.packets =
                realloc(recording.packets, recording.packet_room * sizeof(recording.packets[0]));
        }
        recording.packets[recording.packet_count++] = packet;
    }
    /* What is cut off at the end is no damage. */
    memset(recording.trace + ptd_packets_offset(&packets), 0,
           TRACE_BYTES - ptd_packets_offset(&packets));
}

static void add_code(const struct image *image)
{
    CU_ASSERT_EQUAL(ptd_image_add_bytes(recording.code, NULL, image->base, image->code,
                                        image->len_bytes, PTD_ANY_CR3),
                    PTD_OK);
}

static void record(const struct setting *setting, uint64_t seed)
{
    struct random random = {seed * 2654435761u + 88172645463325252ull};
    struct fake *fake;
    struct walk walk;

    recording.setting = setting;
    CU_ASSERT_TRUE_FATAL(vpt_profile(setting->profile, &recording.caps));
    recording.caps.tsx = false;
    recording.caps.deferred_tips = setting->deferred_tips;
    fake = fake_open_caps(&recording.caps);
    program_make(&recording.user, &recording.kernel, &random);
    walk_start(&walk, &recording.user, &recording.kernel, &random);
    walk.interrupts_per_1024 = 6;
    fake_output(fake);
    run(fake, &walk, &random);
    memcpy(recording.trace, fake->tap, TRACE_BYTES);
    fake_close(fake);
    recording.code = ptd_image_new();
    add_code(&recording.user);
    add_code(&recording.kernel);
    list_packets();
}

/* ---- What is told --------------------------------------------------------------------------- */

/* Not what a PSB+ tells as news: that depends on what was known before. */
static bool is_of_interest(const struct ptd_item *item)
{
    switch (item->type) {
    case PTD_ITEM_BLOCK:
    case PTD_ITEM_ENABLED:
    case PTD_ITEM_DISABLED:
    case PTD_ITEM_ASYNC:
    case PTD_ITEM_PSB:
    case PTD_ITEM_ERROR:
        return true;
    case PTD_ITEM_PACKET:
        return item->has_from;
    default:
        return false;
    }
}

static void decode(const uint8_t *bytes, enum ptd_resync resync, struct tale *tale)
{
    const struct ptd_flow_config config = config_of(resync);
    struct ptd_flow *const flow = ptd_flow_new(bytes, TRACE_BYTES, recording.code, &config);
    struct ptd_item item;

    tale->count = 0;
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        if (!is_of_interest(&item))
            continue;
        if (tale->count == tale->room) {
            tale->room = tale->room ? 2 * tale->room : 16384;
            tale->items = realloc(tale->items, tale->room * sizeof(tale->items[0]));
        }
        tale->items[tale->count++] = item;
    }
    ptd_flow_free(flow);
}

static bool is_same(const struct ptd_item *a, const struct ptd_item *b)
{
    return a->type == b->type && a->offset == b->offset && a->cr3 == b->cr3 && a->nr == b->nr &&
           a->mode == b->mode && a->ip == b->ip && a->last_ip == b->last_ip &&
           a->insns == b->insns && a->taken == b->taken && a->has_from == b->has_from &&
           a->from == b->from && a->has_to == b->has_to && a->to == b->to;
}

/* The first PSB at or behind an offset; count: there is none. */
static size_t psb_from(const struct tale *tale, uint64_t offset)
{
    size_t i = 0;

    while (i < tale->count &&
           (tale->items[i].type != PTD_ITEM_PSB || tale->items[i].offset < offset))
        i++;
    return i;
}

static void differs(const struct ptd_item *told, size_t at, const char *what)
{
    CU_FAIL("told wrongly");
    printf("\n%s, CTL %" PRIx64 ", damage at %zu: %s", recording.setting->profile,
           recording.setting->ctl, at, what);
    if (told)
        printf(": type %u, offset %" PRIu64 ", ip %" PRIx64 ", CR3 %" PRIx64, told->type,
               told->offset, told->ip, told->cr3);
}

/* From the first PSB behind the damage on, all is as it was. */
static bool check_behind(const struct tale *told, size_t at, size_t end)
{
    size_t want = psb_from(&recording.whole, end);
    size_t got = psb_from(told, end);

    /* Where the PSB stands is the same; in front of its PSB+, CR3 and mode need not be known. */
    if (want < recording.whole.count && got < told->count &&
        recording.whole.items[want].offset == told->items[got].offset) {
        want++;
        got++;
    }
    for (; want < recording.whole.count && got < told->count; want++, got++) {
        if (!is_same(&recording.whole.items[want], &told->items[got])) {
            differs(&told->items[got], at, "differs behind the next PSB");
            return false;
        }
    }
    if (want == recording.whole.count && got == told->count)
        return true;
    differs(NULL, at, "ends too early or too late");
    return false;
}

/* Between the first error and the next PSB: nothing that did not happen, and nothing left out. */
static bool check_between(const struct tale *told, size_t at, size_t end)
{
    const size_t behind = psb_from(told, end);
    bool in_gap = false, judged = false;
    size_t next = 0;

    for (size_t i = 0; i < behind; i++) {
        const struct ptd_item *const item = &told->items[i];

        if (item->type == PTD_ITEM_ERROR)
            in_gap = judged = true;
        if (item->type == PTD_ITEM_ERROR || !judged)
            continue;
        while (in_gap && next < recording.whole.count &&
               !is_same(&recording.whole.items[next], item))
            next++;
        in_gap = false;
        if (next >= recording.whole.count || !is_same(&recording.whole.items[next++], item)) {
            differs(item, at, "did not happen");
            return false;
        }
    }
    return true;
}

/* ---- Times ---------------------------------------------------------------------------------- */

struct clock {
    struct ptd_time *time;
    struct ptd_packets packets;
};

static void open_clock(struct clock *clock, const uint8_t *bytes)
{
    const struct ptd_time_config config = {
        .tsc_den = recording.caps.tsc_den,
        .tsc_num = recording.caps.tsc_num,
        .mtc_freq = (uint8_t)(recording.setting->ctl >> VPT_CTL_MTCFREQ_SHR & 15),
        .max_nonturbo_ratio = recording.caps.max_nonturbo_ratio,
        .errata = config_of(PTD_RESYNC_PSB).errata,
    };

    clock->time = ptd_time_new(&config);
    ptd_packets_init(&clock->packets, bytes, TRACE_BYTES);
}

/* Reads up to an offset. */
static struct ptd_time_point time_at(struct clock *clock, uint64_t offset)
{
    struct ptd_time_point point = {PTD_TIME_UNKNOWN, 0, PTD_TIME_UNKNOWN, 0};
    struct ptd_packet packet;

    while (ptd_packets_offset(&clock->packets) < offset &&
           ptd_time_next(clock->time, &clock->packets, &packet))
        ptd_time_packet(clock->time, &packet);
    ptd_time_point_ahead(clock->time, &clock->packets, &point);
    return point;
}

/* Behind the next TSC packet, the true time is in both intervals. */
static void check_times(size_t at, size_t end)
{
    bool is_exact = false;
    struct clock whole, part;

    open_clock(&whole, recording.trace);
    open_clock(&part, recording.damaged);
    for (size_t i = 0; i < recording.packet_count; i++) {
        const struct ptd_packet *const packet = &recording.packets[i];
        const uint64_t behind = packet->offset + packet->size_bytes;

        is_exact = is_exact || (packet->type == PTD_TSC && packet->offset >= end);
        if (!is_exact)
            continue;

        const struct ptd_time_point want = time_at(&whole, behind);
        const struct ptd_time_point got = time_at(&part, behind);

        if (got.earliest > want.latest || got.latest < want.earliest) {
            differs(NULL, at, "another time behind the next TSC packet");
            break;
        }
    }
    ptd_time_free(whole.time);
    ptd_time_free(part.time);
}

/* ---- Damage --------------------------------------------------------------------------------- */

static void check_ways(enum ptd_resync resync, uint64_t random, size_t at)
{
    const struct ptd_flow_config config = config_of(resync);
    const struct referee_trace trace = {.bytes = recording.damaged,
                                        .len_bytes = TRACE_BYTES,
                                        .image = recording.code,
                                        .config = &config,
                                        .timing = (enum ptd_timing)(random % 3)};
    const struct referee_verdict verdicts[] = {
        referee_run(&trace, 4096), referee_run_before(&trace, 4096, 1 + random % 100),
        referee_parallel(&trace, 2, 1024), referee_stream(&trace, random | 1, 300, NULL)};

    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
        CU_ASSERT_TRUE(verdicts[i].same);
        if (!verdicts[i].same)
            printf("\n%s, damage at %zu: %s", recording.setting->profile, at,
                   verdicts[i].difference);
    }
}

/* [at, end) of the trace is damaged; harmless: no packet of it tells an IP or a state. */
static void judge(size_t at, size_t end, bool harmless, uint64_t random)
{
    static struct tale told;

    for (unsigned resync = 0; resync < 2; resync++) {
        decode(recording.damaged, (enum ptd_resync)resync, &told);
        if (check_behind(&told, at, end) && harmless && !recording.setting->deferred_tips)
            (void)check_between(&told, at, end);
    }
    check_ways(random & 4 ? PTD_RESYNC_IP : PTD_RESYNC_PSB, random, at);
}

static void change_a_byte(struct random *random)
{
    const size_t at = draw(random, TRACE_BYTES);

    memcpy(recording.damaged, recording.trace, TRACE_BYTES);
    recording.damaged[at] ^= (uint8_t)(1 + draw(random, 255));
    judge(at, at + 1, false, draw(random, 1000));
}

/* A packet becomes PADs, so that all others stand where they stood. */
static const struct ptd_packet *lose_packet(struct random *random,
                                            bool (*is_wanted)(const struct ptd_packet *packet),
                                            bool harmless)
{
    const struct ptd_packet *packet;

    do
        packet = &recording.packets[draw(random, (uint32_t)recording.packet_count)];
    while (!is_wanted(packet));
    memcpy(recording.damaged, recording.trace, TRACE_BYTES);
    memset(recording.damaged + packet->offset, 0, packet->size_bytes);
    judge(packet->offset, packet->offset + packet->size_bytes, harmless, draw(random, 1000));
    return packet;
}

static bool is_tnt(const struct ptd_packet *packet)
{
    return packet->type == PTD_TNT;
}

static bool is_timing(const struct ptd_packet *packet)
{
    return packet->type == PTD_MTC || packet->type == PTD_CYC || packet->type == PTD_TSC;
}

static bool is_any(const struct ptd_packet *packet)
{
    return packet->type != PTD_PAD;
}

/* A trace of each setting, and damage of one kind. */
static void damage_all(void (*damage)(struct random *random))
{
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct random random = {i * 6364136223846793005ull + 1442695040888963407ull};

        record(&settings[i], i + 1);
        decode(recording.trace, PTD_RESYNC_PSB, &recording.whole);
        for (size_t j = 0; j < recording.whole.count; j++)
            CU_ASSERT_NOT_EQUAL(recording.whole.items[j].type, PTD_ITEM_ERROR);
        for (unsigned j = 0; j < DAMAGES; j++)
            damage(&random);
        ptd_image_free(recording.code);
    }
}

static void lose_tnt(struct random *random)
{
    (void)lose_packet(random, is_tnt, true);
}

static void lose_timing(struct random *random)
{
    const struct ptd_packet *lost;

    if (!(recording.setting->ctl & VPT_CTL_MTCEN))
        return;
    lost = lose_packet(random, is_timing, true);
    if (lost->type != PTD_CYC) /* nobody notices one, and it counts in how long cycles take */
        check_times(lost->offset, lost->offset + lost->size_bytes);
}

static void lose_any(struct random *random)
{
    (void)lose_packet(random, is_any, false);
}

static void changed_bytes(void)
{
    damage_all(change_a_byte);
}

static void lost_tnt(void)
{
    damage_all(lose_tnt);
}

static void lost_timing(void)
{
    damage_all(lose_timing);
}

static void lost_packets(void)
{
    damage_all(lose_any);
}

void add_damage_suite(void)
{
    CU_pSuite const suite = CU_add_suite("damaged traces", NULL, NULL);

    CU_add_test(suite, "changed bytes", changed_bytes);
    CU_add_test(suite, "lost TNT bits", lost_tnt);
    CU_add_test(suite, "lost timing packets", lost_timing);
    CU_add_test(suite, "lost packets", lost_packets);
}
