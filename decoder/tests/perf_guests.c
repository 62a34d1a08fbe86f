/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: whose guest ran, by VMCS packets, by threads, by both, and where neither says. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "perf_file.h"
#include "ptdec_perf.h"
#include "suites.h"

#define PSB_BYTES "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82"
#define FIRST     PTD_PERF_VMCS(0) /* of thread 10 */
#define SECOND    PTD_PERF_VMCS(1) /* of thread 20 */
#define NO_VMCS   0

static const struct ptd_perf_vcpu vcpus[] = {
    {.tid = 10, .vmcs = FIRST},
    {.tid = 20, .vmcs = SECOND},
};

static void packet_tsc(struct file *file, uint64_t tsc)
{
    file_put(file, "\x19", 1);
    file_put(file, &tsc, 7);
}

static void packet_vmcs(struct file *file, uint64_t vmcs)
{
    const uint64_t payload = vmcs >> 12;

    file_put(file, "\2\xc8", 2);
    file_put(file, &payload, 5);
}

static void packet_pip(struct file *file, bool nr)
{
    file_put(file, "\2\x43", 2);
    file_put(file, nr ? "\1\1\0\0\0\0" : "\0\1\0\0\0\0", 6);
}

/* The host runs, a guest, and the host again; with the pointer where the VMM loads it. */
static void run(struct file *file, uint64_t vmcs, uint64_t from, uint64_t to)
{
    packet_tsc(file, from);
    if (vmcs)
        packet_vmcs(file, vmcs);
    packet_pip(file, true);
    packet_pip(file, false);
    packet_tsc(file, to);
}

static void begin_file(struct file *file)
{
    file_pipe_header(file);
    file_attr_record(file, 8, 5);
    file_record(file, 70, 0, "ddqqqqqq", N(1), N(0), N(8), N(0), N(1), N(0), N(1), N(0x400));
}

/* At this time, another thread comes. */
static void switched(struct file *file, unsigned from, unsigned to, uint64_t time)
{
    file_record(file, 15, 0x2000, "ddi", N(to), N(to), N(from), N(from), N(time));
}

static struct ptd_perf_session *end_file(struct file *file, const struct file *packets)
{
    struct ptd_perf_session *session = NULL;
    struct ptd_perf_fault fault;

    file_record(file, 71, 0, "qqqdddd", N(packets->len), N(0), N(1), N(0), N(UINT32_MAX), N(1),
                N(0));
    file_put(file, packets->bytes, packets->len);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file->bytes, file->len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 1);
    return session;
}

/* "0 1 - x": what VMCS packets say in front of each VM entry; x: a pointer of the trace, -: nobody.
 */
static const char *whose(struct ptd_perf_session *session, struct ptd_perf_guest_sums *sums)
{
    static char text[128];
    struct ptd_perf_guest_trace copy;
    struct ptd_perf_guests *guests;
    struct ptd_packets packets;
    struct ptd_packet packet;
    uint64_t vmcs = NO_VMCS;
    bool in_psb = false;

    text[0] = 0;
    CU_ASSERT_EQUAL_FATAL(ptd_perf_guests_new(session, vcpus, 2, &guests), PTD_OK);
    session->guests = guests;
    *sums = *ptd_perf_guests_sums(guests);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_guest_trace(session, &session->traces[0], &copy), PTD_OK);
    CU_ASSERT_EQUAL(copy.len_bytes, session->traces[0].len_bytes + 8 * copy.inserted_count);
    ptd_packets_init(&packets, copy.bytes, copy.len_bytes);
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        in_psb = packet.type == PTD_PSB || (in_psb && packet.type != PTD_PSBEND);
        if (packet.type == PTD_VMCS)
            vmcs = packet.vmcs;
        if (packet.type == PTD_PIP && packet.pip.nr && !in_psb)
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ",
                           vmcs == FIRST                  ? "0"
                           : vmcs == SECOND               ? "1"
                           : vmcs == PTD_PERF_VMCS_NOBODY ? "-"
                                                          : "x");
    }
    ptd_perf_guest_trace_free(&copy);
    session->guests = NULL;
    ptd_perf_guests_free(guests);
    return text;
}

/* Who had the CPU, and what guests ran: up to a time of 0. */
struct scene {
    struct {
        unsigned from, to;
        uint64_t at;
    } turns[8];
    struct {
        uint64_t vmcs, from, to;
    } runs[12];
    /* Whose they are, as whose() has it, and how that was found; with the pointers, and without
     * them, as if the processor told none. NULL: that is not tried. */
    const char *with, *without;
    struct ptd_perf_guest_sums sums, sums_without;
};

static void play(const struct scene *scene, bool with_vmcs)
{
    const char *const want = with_vmcs ? scene->with : scene->without;
    const struct ptd_perf_guest_sums *const sums = with_vmcs ? &scene->sums : &scene->sums_without;
    static struct file file, packets;
    struct ptd_perf_session *session;
    struct ptd_perf_guest_sums found;

    if (!want)
        return;
    packets.len = 0;
    begin_file(&file);
    file_put(&packets, PSB_BYTES "\2\x23", 18);
    for (size_t i = 0; scene->turns[i].at; i++)
        switched(&file, scene->turns[i].from, scene->turns[i].to, scene->turns[i].at);
    for (size_t i = 0; scene->runs[i].from; i++)
        run(&packets, with_vmcs ? scene->runs[i].vmcs : NO_VMCS, scene->runs[i].from,
            scene->runs[i].to);
    session = end_file(&file, &packets);
    CU_ASSERT_STRING_EQUAL(whose(session, &found), want);
    CU_ASSERT_EQUAL(memcmp(&found, sums, sizeof(found)), 0);
    ptd_perf_session_free(session);
}

static void play_both(const struct scene *scene)
{
    play(scene, true);
    play(scene, false);
}

/* Of two threads, the first comes at odd thousands, and the second at even ones. */
#define SIX_TURNS                                                                                  \
    .turns = {{20, 10, 1000}, {10, 20, 2000}, {20, 10, 3000},                                      \
              {10, 20, 4000}, {20, 10, 5000}, {10, 20, 6000}}
#define SIX_RUNS                                                                                   \
    {0x5000, 1100, 1900}, {0x7000, 2100, 2900}, {0x5000, 3100, 3900}, {0x7000, 4100, 4900},        \
        {0x5000, 5100, 5900},                                                                      \
    {                                                                                              \
        0x7000, 6100, 6900                                                                         \
    }

static void by_threads(void)
{
    static const struct scene scene = {
        SIX_TURNS,
        .runs = {SIX_RUNS},
        .with = "0 1 0 1 0 1 ",
        .without = "0 1 0 1 0 1 ",
        .sums = {.runs = 6, .by_both = 6, .vmcs_count = 2},
        .sums_without = {.runs = 6, .by_thread = 6},
    };

    play_both(&scene);
}

/* A time that is a little wrong puts the last run into the turn of the second thread, it seems; its
 * pointer says better. */
static void near_a_switch(void)
{
    static const struct scene scene = {
        SIX_TURNS,
        .runs = {SIX_RUNS, {0x5000, 6910, 6990}},
        .with = "0 1 0 1 0 1 0 ",
        .sums = {.runs = 7, .by_both = 6, .by_vmcs = 1, .vmcs_count = 2},
    };

    play_both(&scene);
}

/* A VM ends, and the page of its VMCS becomes that of another one. */
static void pointer_goes_on(void)
{
    static const struct scene scene = {
        .turns = {{1, 10, 500}, {10, 20, 2000}},
        .runs = {{0x5000, 1000, 1050},
                 {0x5000, 1100, 1150},
                 {0x5000, 1200, 1250},
                 {0x5000, 1300, 1350},
                 {0x5000, 1400, 1450},
                 {0x5000, 1500, 1550},
                 {0x5000, 1600, 1650},
                 {0x5000, 1700, 1750},
                 {0x5000, 2100, 2200}},
        .with = "0 0 0 0 0 0 0 0 1 ",
        .sums = {.runs = 9, .by_both = 9, .vmcs_count = 1},
    };

    play_both(&scene);
}

/* A thread that is no virtual processor that was named. Its pointer stays; without one it is
 * nobody, and not who ran before. */
static void unknown(void)
{
    static const struct scene scene = {
        .turns = {{1, 10, 500}, {10, 30, 2000}},
        .runs = {{0x5000, 1000, 1100}, {0x9000, 2100, 2200}},
        .with = "0 x ",
        .without = "0 - ",
        .sums = {.runs = 2, .by_both = 1, .unknown = 1, .vmcs_count = 1},
        .sums_without = {.runs = 2, .by_thread = 1, .unknown = 1},
    };

    play_both(&scene);
}

/* A PSB+ in a guest gets a VMCS packet, where decoding may begin; the TSC of a guest of which
 * nobody knows how it differs goes away. */
static void in_psb(void)
{
    static struct file file, packets;
    struct ptd_perf_guests *guests;
    struct ptd_perf_guest_trace copy;
    struct ptd_perf_session *session;
    struct ptd_packets at;
    struct ptd_packet packet;
    unsigned tscs = 0, told = 0;

    packets.len = 0;
    begin_file(&file);
    switched(&file, 1, 10, 500);
    file_put(&packets, PSB_BYTES "\2\x23", 18);
    packet_tsc(&packets, 1000);
    packet_pip(&packets, true);
    file_put(&packets, PSB_BYTES, 16);
    packet_tsc(&packets, 7); /* the guest's */
    packet_pip(&packets, true);
    file_put(&packets, "\2\x23", 2);
    packet_pip(&packets, false);
    packet_tsc(&packets, 1100);
    session = end_file(&file, &packets);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_guests_new(session, vcpus, 2, &guests), PTD_OK);
    session->guests = guests;
    CU_ASSERT_EQUAL(ptd_perf_guests_sums(guests)->runs, 1);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_guest_trace(session, &session->traces[0], &copy), PTD_OK);
    CU_ASSERT_EQUAL(copy.inserted_count, 2);
    ptd_packets_init(&at, copy.bytes, copy.len_bytes);
    while (ptd_packets_next(&at, &packet) == PTD_OK) {
        tscs += packet.type == PTD_TSC;
        told += packet.type == PTD_VMCS && packet.vmcs == FIRST;
    }
    CU_ASSERT_EQUAL(tscs, 2);
    CU_ASSERT_EQUAL(told, 2);
    ptd_perf_guest_trace_free(&copy);
    session->guests = NULL;
    ptd_perf_guests_free(guests);
    ptd_perf_session_free(session);
}

/* Behind a pause of the trace, and behind an overflow, whoever decodes knows no VMCS any more. */
static void told_again(void)
{
    static const char *const between[] = {"", "\1", "\2\xf3"}; /* nothing, TIP.PGD, OVF */

    for (size_t i = 0; i < sizeof(between) / sizeof(between[0]); i++) {
        static struct file file, packets;
        struct ptd_perf_guests *guests;
        struct ptd_perf_guest_trace copy;
        struct ptd_perf_session *session;

        packets.len = 0;
        begin_file(&file);
        switched(&file, 1, 10, 500);
        file_put(&packets, PSB_BYTES "\2\x23", 18);
        run(&packets, NO_VMCS, 1000, 1100);
        file_put(&packets, between[i], strlen(between[i]));
        run(&packets, NO_VMCS, 1200, 1300);
        session = end_file(&file, &packets);
        CU_ASSERT_EQUAL_FATAL(ptd_perf_guests_new(session, vcpus, 2, &guests), PTD_OK);
        session->guests = guests;
        CU_ASSERT_EQUAL_FATAL(ptd_perf_guest_trace(session, &session->traces[0], &copy), PTD_OK);
        CU_ASSERT_EQUAL(copy.inserted_count, i == 0 ? 1 : 2);
        ptd_perf_guest_trace_free(&copy);
        session->guests = NULL;
        ptd_perf_guests_free(guests);
        ptd_perf_session_free(session);
    }
}

/* A ring that holds one guest alone: its TSC is that of one virtual processor that had the CPU
 * then.
 */
static void ring_of_a_guest(void)
{
    const struct ptd_time_vm vms[] = {{.vmcs = FIRST, .offset = 5000},
                                      {.vmcs = SECOND, .offset = 9000}};
    const struct ptd_perf_vcpu timed[] = {{.tid = 10, .has_tsc = true, .vmcs = FIRST},
                                          {.tid = 20, .has_tsc = true, .vmcs = SECOND}};
    static struct file file, packets;

    for (unsigned i = 0; i < 3; i++) { /* of the first; of the second; of both, or of none */
        const uint64_t tscs[] = {5000 + 1500, 9000 + 2500, 5000 + 2500};
        struct ptd_perf_session *session;
        struct ptd_perf_guests *guests;

        packets.len = 0;
        begin_file(&file);
        switched(&file, 1, 10, 1000);
        switched(&file, 10, 20, 2000);
        switched(&file, 20, 1, 3000);
        file_put(&packets, PSB_BYTES, 16);
        packet_tsc(&packets, tscs[i]);
        packet_pip(&packets, true);
        file_put(&packets, "\2\x23", 2);
        session = end_file(&file, &packets);
        session->vms = vms;
        session->vm_count = 2;
        CU_ASSERT_EQUAL_FATAL(ptd_perf_guests_new(session, timed, 2, &guests), PTD_OK);
        CU_ASSERT_EQUAL(ptd_perf_guests_sums(guests)->runs, 1);
        CU_ASSERT_EQUAL(ptd_perf_guests_sums(guests)->by_thread, i < 2);
        CU_ASSERT_EQUAL(ptd_perf_guests_sums(guests)->unknown, i == 2);
        ptd_perf_guests_free(guests);
        ptd_perf_session_free(session);
    }
}

/* Both copies of a trace: an offset of the second is one of the original. */
static void offsets(void)
{
    static struct file file, packets;
    struct ptd_perf_cpu_trace copy;
    struct ptd_perf_guests *guests;
    struct ptd_perf_session *session;
    struct ptd_packets at, of_original;
    struct ptd_packet packet, original;

    packets.len = 0;
    begin_file(&file);
    switched(&file, 1, 10, 500);
    file_put(&packets, PSB_BYTES "\2\x23", 18);
    for (unsigned i = 0; i < 3; i++) {
        run(&packets, NO_VMCS, 1000 + 100 * i, 1050 + 100 * i);
        file_put(&packets, PSB_BYTES "\2\x23", 18);
    }
    session = end_file(&file, &packets);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_guests_new(session, vcpus, 2, &guests), PTD_OK);
    session->guests = guests;
    CU_ASSERT_EQUAL_FATAL(ptd_perf_cpu_trace(session, &session->traces[0], &copy), PTD_OK);
    /* A VMCS packet for the first run, another one behind each PSB, which forgets; a PIP a PSB. */
    CU_ASSERT_EQUAL(copy.inserted_count, 3 + 4);
    ptd_packets_init(&at, copy.bytes, copy.len_bytes);
    ptd_packets_init(&of_original, packets.bytes, packets.len);
    while (ptd_packets_next(&at, &packet) == PTD_OK) {
        if (packet.type != PTD_TSC)
            continue;
        do {
            CU_ASSERT_EQUAL_FATAL(ptd_packets_next(&of_original, &original), PTD_OK);
        } while (original.type != PTD_TSC);
        CU_ASSERT_EQUAL(ptd_perf_cpu_trace_offset(&copy, packet.offset), original.offset);
    }
    ptd_perf_cpu_trace_free(&copy);
    session->guests = NULL;
    ptd_perf_guests_free(guests);
    ptd_perf_session_free(session);
}

void add_perf_guests_suite(void)
{
    const CU_pSuite suite = CU_add_suite("perf.data and guests", NULL, NULL);

    CU_add_test(suite, "by threads and pointers", by_threads);
    CU_add_test(suite, "near a switch", near_a_switch);
    CU_add_test(suite, "a pointer that goes on", pointer_goes_on);
    CU_add_test(suite, "whose it is not known", unknown);
    CU_add_test(suite, "in a PSB+", in_psb);
    CU_add_test(suite, "told again", told_again);
    CU_add_test(suite, "a ring of a guest", ring_of_a_guest);
    CU_add_test(suite, "offsets", offsets);
}
