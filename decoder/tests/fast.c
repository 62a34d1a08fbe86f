/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The other ways to decode, the fast ones and in pieces, on traces that are longer or worse than
 * the golden ones (which all go through them too): a real trace in segments, whole and damaged,
 * noise, more address spaces than the graph of code holds.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "ptdec.h"
#include "referee_coverage.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HELLO_OFFSET 0x1000u
#define HELLO_SIZE   0x87000u
#define HELLO_VADDR  0x401000u
#define COPIES       6u
#define DAMAGES      150u
#define NOISES       200u
#define NOISE_BYTES  3000u
#define SPACES       2500u

/* Of the real trace. */
static const struct ptd_time_config clocks = {
    .tsc_den = 2, .tsc_num = 168, .mtc_freq = 3, .max_nonturbo_ratio = 21};

static void expect_same(const char *what, struct referee_verdict verdict)
{
    CU_ASSERT_TRUE(verdict.same);
    if (!verdict.same)
        printf("\n    %s: %s", what, verdict.difference);
}

static void check_all(const char *what, struct referee_trace trace)
{
    for (unsigned timing = 0; timing < 3; timing++) {
        trace.timing = timing;
        expect_same(what, referee_run(&trace, PTD_RUN_ROOM));
        expect_same(what, referee_run(&trace, 5000));
        expect_same(what, referee_parallel(&trace, 1, 1));
        expect_same(what, referee_parallel(&trace, 3, 20000));
    }
    trace.timing = PTD_TIMING_NONE; /* it is all the same to coverage */
    expect_same(what, referee_coverage(&trace, 5));
    expect_same(what, referee_stream(&trace, 3, 100, &clocks));
    expect_same(what, referee_stream(&trace, 5, 20000, &clocks));
}

/* Copies of the real trace, one behind the other: several segments. False: it is not there. */
static bool load_hello(uint8_t **bytes, size_t *len, struct ptd_image **image)
{
    size_t program_bytes = 0, one = 0;
    uint8_t *const program = read_trace_file("hello-timed/hello", &program_bytes);
    uint8_t *const trace = read_trace_file("hello-timed/pt.bin", &one);

    *len = one * COPIES;
    *bytes = malloc(*len + 1);
    *image = ptd_image_new();
    if (program && trace && *bytes && *image && program_bytes >= HELLO_OFFSET + HELLO_SIZE &&
        ptd_image_add_bytes(*image, NULL, HELLO_VADDR, program + HELLO_OFFSET, HELLO_SIZE,
                            PTD_ANY_CR3) == PTD_OK) {
        for (unsigned i = 0; i < COPIES; i++)
            memcpy(*bytes + i * one, trace, one);
        free(program);
        free(trace);
        return true;
    }
    free(program);
    free(trace);
    free(*bytes);
    ptd_image_free(*image);
    report_skip("fast ways", "the trace is not there (set VPT_TRACES)");
    return false;
}

static void real_trace(void)
{
    struct ptd_image *image;
    uint8_t *bytes;
    size_t len;

    if (!load_hello(&bytes, &len, &image))
        return;

    const struct referee_trace trace = {.bytes = bytes, .len_bytes = len, .image = image};
    const struct referee_trace untimed = {
        .bytes = bytes, .len_bytes = len, .image = image, .timing = PTD_TIMING_NONE};
    struct referee_verdict verdict;

    check_all("whole", trace);
    verdict = referee_run(&untimed, 5000);
    /* Or else the comparison says nothing about steps. */
    CU_ASSERT_TRUE(verdict.in_steps > verdict.items / 10 * 9);
    free(bytes);
    ptd_image_free(image);
}

static void damaged_trace(void)
{
    uint64_t random = 0x2545f4914f6cdd1d;
    struct ptd_image *image;
    uint8_t *bytes;
    size_t len;

    if (!load_hello(&bytes, &len, &image))
        return;
    for (unsigned i = 0; i < DAMAGES; i++) {
        const size_t at = next_random(&random) % len;
        const uint8_t was = bytes[at];
        struct referee_trace trace = {
            .bytes = bytes, .len_bytes = len, .image = image, .timing = i % 4 % 3};

        bytes[at] = (uint8_t)(i % 3 ? next_random(&random) : was ^ 1u << i % 8);
        if (i % 5 == 0)
            trace.len_bytes = len - len / COPIES + at / COPIES; /* and cut off */
        expect_same("damaged", referee_run(&trace, PTD_RUN_ROOM + i));
        expect_same("damaged", referee_parallel(&trace, 2, i % 2 ? 1 : 32768));
        if (i % 32 == 0)
            expect_same("damaged", referee_coverage(&trace, i / 32));
        expect_same("damaged, in pieces", referee_stream(&trace, i + 1, i * i + 1, &clocks));
        bytes[at] = was;
    }
    free(bytes);
    ptd_image_free(image);
}

/* ---- Noise ---- */

/* Code that has every class of instruction in it, and packets that make some sense of it. */
static size_t make_noise(uint64_t *random, uint8_t *bytes, size_t code_bytes)
{
    static const uint8_t sync[] = {SYNC};
    static const uint8_t psb[] = {PSB};
    size_t len = 0;

    while (len + 64 < NOISE_BYTES) {
        const uint64_t value = next_random(random);
        const uint8_t ip = (uint8_t)(value >> 8);
        const uint64_t to = CODE + ip % code_bytes;
        const uint8_t start[] = {START(to)}, tip[] = {TIP(to)}, pgd[] = {PGD(to)},
                      fup[] = {FUP(to)};
        const uint8_t at_psb[] = {FUP(to), MODE64, PSBEND};
        const uint8_t pip[] = {PIP(ip & 1 ? CR3_A : CR3_B)};

        switch (value % 24) {
        case 0:
            memcpy(bytes + len, start, sizeof(start));
            len += sizeof(start);
            break;
        case 1:
            memcpy(bytes + len, psb, sizeof(psb));
            memcpy(bytes + len + sizeof(psb), at_psb, sizeof(at_psb));
            len += sizeof(psb) + sizeof(at_psb);
            break;
        case 2:
            memcpy(bytes + len, sync, sizeof(sync));
            len += sizeof(sync);
            break;
        case 3:
            memcpy(bytes + len, value & 256 ? pgd : fup, sizeof(pgd));
            len += sizeof(pgd);
            break;
        case 4:
            memcpy(bytes + len, pip, sizeof(pip));
            len += sizeof(pip);
            break;
        case 5:
            bytes[len++] = ip;
            break;
        case 6:
            memcpy(bytes + len, (const uint8_t[]){OVF, CYC, PAD}, 4);
            len += 4;
            break;
        case 7:
        case 8:
        case 9:
        case 10:
        case 11:
        case 12:
            memcpy(bytes + len, tip, sizeof(tip));
            len += sizeof(tip);
            break;
        case 13: /* a long TNT */
            bytes[len] = 2;
            bytes[len + 1] = 0xa3;
            memcpy(bytes + len + 2, &value, 6);
            len += 8;
            break;
        default:
            bytes[len++] = (uint8_t)((value >> 16 & 0xfe) | 4);
            break;
        }
    }
    return len;
}

/* Random code of branches, CALLs and RETs: many of them loop, meet, or leave the code. */
static void make_code(uint64_t *random, uint8_t *code, size_t len)
{
    static const uint8_t opcodes[] = {0x90, 0x74, 0x75, 0xeb, 0xe8, 0xc3, 0xff, 0x90, 0x90, 0xcc};

    for (size_t i = 0; i < len;) {
        const uint64_t value = next_random(random);
        const uint8_t opcode = opcodes[value % sizeof(opcodes)];

        code[i++] = opcode;
        if ((opcode == 0x74 || opcode == 0x75 || opcode == 0xeb) && i < len)
            code[i++] = (uint8_t)((value >> 8) % 64 - 32);
        if (opcode == 0xff && i < len)
            code[i++] = value & 256 ? 0xd0 : 0xe0; /* CALL RAX, JMP RAX */
        if (opcode == 0xe8 && i + 4 <= len) {
            const int32_t distance = (int32_t)((value >> 8) % 128) - 64;

            memcpy(code + i, &distance, sizeof(distance));
            i += sizeof(distance);
        }
    }
}

static void noise(void)
{
    static uint8_t bytes[NOISE_BYTES];
    uint64_t random = 0x9e3779b97f4a7c15;
    uint64_t in_steps = 0;

    for (unsigned i = 0; i < NOISES; i++) {
        struct ptd_image *const image = ptd_image_new();
        const struct ptd_flow_config config = {
            .mode = i % 16 ? PTD_MODE_64 : PTD_MODE_32, .cr3 = CR3_A, .at_start = i & 1};
        uint8_t code[200];
        struct referee_trace trace = {
            .bytes = bytes, .image = image, .config = &config, .timing = i % 3};

        make_code(&random, code, sizeof(code));
        CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code), PTD_ANY_CR3),
                        PTD_OK);
        make_code(&random, code, sizeof(code) / 2);
        CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code) / 2, CR3_B),
                        PTD_OK);
        trace.len_bytes = make_noise(&random, bytes, sizeof(code));

        const struct referee_verdict verdict = referee_run(&trace, PTD_RUN_ROOM);

        in_steps += verdict.in_steps;
        expect_same("noise", verdict);
        expect_same("noise", referee_parallel(&trace, 2, 1 + i % 4 * 100));
        expect_same("noise", referee_coverage(&trace, i));
        expect_same("noise, in pieces", referee_stream(&trace, i + 1, 1 + i * 3, NULL));
        expect_same("noise, in pieces", referee_stream(&trace, i + 1, 1 + i * 3, &clocks));
        ptd_image_free(image);
    }
    CU_ASSERT_TRUE(in_steps > 1000);
}

/* ---- More than the graph holds ---- */

static void many_address_spaces(void)
{
    static const uint8_t code[] = {0x75, 0xfe, 0xff, 0xe0}; /* JNE itself; JMP RAX */
    static uint8_t bytes[SPACES * 40u];
    struct ptd_image *const image = ptd_image_new();
    const struct referee_trace trace = {.bytes = bytes, .image = image};
    struct referee_trace whole = trace;
    uint32_t steps[PTD_RUN_ROOM];
    struct ptd_run run = {.steps = steps, .room = PTD_RUN_ROOM};
    size_t len = 0;

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code), PTD_ANY_CR3),
                    PTD_OK);
    memcpy(bytes, (const uint8_t[]){SYNC}, 18);
    len = 18;
    for (uint64_t i = 1; i <= SPACES; i++) {
        const uint64_t cr3 = i << 12;
        const uint8_t one[] = {PIP(cr3), PGE(CODE), TNT_TN, TIP(CODE), PGD_NO_IP};
        const uint8_t psb[] = {PSB, PIP(cr3), PSBEND};

        if (i % 50 == 0) { /* a segment for another thread */
            memcpy(bytes + len, psb, sizeof(psb));
            len += sizeof(psb);
        }
        memcpy(bytes + len, one, sizeof(one));
        len += sizeof(one);
    }
    whole.len_bytes = len;
    expect_same("many address spaces", referee_run(&whole, PTD_RUN_ROOM));
    expect_same("many address spaces", referee_coverage(&whole, 0));
    expect_same("many address spaces", referee_parallel(&whole, 2, 1000));
    expect_same("many address spaces", referee_parallel(&whole, 5, 5000));

    struct ptd_flow *const flow = ptd_flow_new(bytes, len, image, NULL);

    while (ptd_flow_run(flow, &run) == PTD_OK)
        continue;
    CU_ASSERT_TRUE(run.epoch > 1); /* or else it was never emptied */
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* ---- Guests ---- */

/* What a PSB+ says is no news, or news, by the VMCS and PIP of the segment before. */
static void guests_on_threads(void)
{
    static const uint8_t code[] = {0x75, 0xfe, 0xff, 0xe0}; /* JNE itself; JMP RAX */
    static const uint64_t vmcs[] = {0x1000, 0x1000, 0x2000, 0x9000, 0x2000};
    static uint8_t bytes[COUNT(vmcs) * 200];
    struct ptd_image *const image = ptd_image_new();
    struct referee_trace trace = {.bytes = bytes, .image = image};
    size_t len = 0;

    for (uint64_t i = 1; i <= 2; i++) {
        const int vm = ptd_image_add_vm(image);

        CU_ASSERT_EQUAL(ptd_image_bind_vmcs(image, (unsigned)vm, i << 12), PTD_OK);
        CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code),
                                            ptd_space((unsigned)vm, PTD_ANY_CR3)),
                        PTD_OK);
    }
    for (size_t i = 0; i < COUNT(vmcs); i++) {
        const uint8_t psb[] = {PSB, PIP_NR(CR3_A), VMCS(vmcs[i]), PSBEND};
        const uint8_t psb_host[] = {PSB, PIP(CR3_A), PSBEND};
        const uint8_t one[] = {PGE(CODE), TNT_TN, TIP(CODE), PGD_NO_IP};

        memcpy(bytes + len, psb, sizeof(psb));
        memcpy(bytes + len + sizeof(psb), one, sizeof(one));
        memcpy(bytes + len + sizeof(psb) + sizeof(one), psb_host, sizeof(psb_host));
        len += sizeof(psb) + sizeof(one) + sizeof(psb_host);
    }
    trace.len_bytes = len;
    expect_same("guests", referee_run(&trace, PTD_RUN_ROOM));
    expect_same("guests", referee_coverage(&trace, 0));
    for (unsigned threads = 1; threads <= 3; threads++)
        expect_same("guests on threads", referee_parallel(&trace, threads, 1));
    ptd_image_free(image);
}

/* What is lost in front of a PSB makes its time less certain, even if it is one byte. */
static void byte_lost_before_psb(void)
{
    static const uint8_t bytes[] = {SYNC, PGE(CODE), TSC, 0x02, PSB};
    struct ptd_image *const image = ptd_image_new();
    const struct referee_trace trace = {.bytes = bytes, .len_bytes = sizeof(bytes), .image = image};

    for (size_t most = 1; most <= sizeof(bytes); most++)
        expect_same("in pieces", referee_stream(&trace, most, most, &clocks));
    ptd_image_free(image);
}

/*
 * A PSB that a damaged TSC covers: the flow goes on there, time at the PSB far behind it. That is
 * the time of all items between, also if it comes in pieces.
 */
static void psb_covered(void)
{
    static const uint8_t far[] = {PSB, TSC};
    uint8_t bytes[5000] = {SYNC, PGE(CODE), TSC, 0x19, 9, PSB, TSC, CYC, PSBEND, PGE(CODE), 0xb9};
    struct ptd_image *const image = ptd_image_new();
    const struct referee_trace trace = {.bytes = bytes, .len_bytes = sizeof(bytes), .image = image};

    memcpy(bytes + sizeof(bytes) / 2, far, sizeof(far));
    for (size_t most = 1; most <= 80; most++)
        expect_same("in pieces", referee_stream(&trace, most, most, &clocks));
    ptd_image_free(image);
}

/* BDM70: what is behind another PSB says nothing of one that does not come to its end. */
static void psb_in_psb(void)
{
    static const uint8_t bytes[] = {SYNC,      PGE(CODE), 0x02, PSB,    FUP(CODE), PSB,
                                    FUP(CODE), TSC,       TSC,  TSC,    TSC,       TSC,
                                    TSC,       TSC,       TSC,  PSBEND, PGE(CODE)};
    static const struct ptd_flow_config config = {.mode = PTD_MODE_64, .errata = PTD_BDM70};
    struct ptd_image *const image = ptd_image_new();
    const struct referee_trace trace = {
        .bytes = bytes, .len_bytes = sizeof(bytes), .image = image, .config = &config};

    for (size_t most = 1; most <= sizeof(bytes); most++)
        expect_same("in pieces", referee_stream(&trace, most, most, NULL));
    ptd_image_free(image);
}

/* ---- Packets ---- */

/*
 * A packet behind which nothing follows is read without the table of common ones, unless it has 9
 * bytes: it must be the same. The reader stands in front of it.
 */
static void compare_alone(const struct ptd_packets *reader, const uint8_t *bytes,
                          const struct ptd_packet *packet)
{
    struct ptd_packets alone = *reader;
    struct ptd_packet again;
    char want[128], got[128];

    ptd_packets_slide(&alone, bytes, (size_t)packet->offset + packet->size_bytes, 0);
    CU_ASSERT_EQUAL(ptd_packets_next(&alone, &again), PTD_OK);
    (void)ptd_packet_format(&again, want, sizeof(want));
    (void)ptd_packet_format(packet, got, sizeof(got));
    CU_ASSERT_STRING_EQUAL(got, want);
    CU_ASSERT_EQUAL(packet->offset, again.offset);
    CU_ASSERT_EQUAL(packet->size_bytes, again.size_bytes);
}

/* Both ways to read packets, up to an error and on behind it. */
static void compare_packets(const uint8_t *bytes, size_t len)
{
    struct ptd_packets singly, many;
    struct ptd_packet list[7], packet;
    int status = PTD_OK, expected = PTD_OK;

    ptd_packets_init(&singly, bytes, len);
    ptd_packets_init(&many, bytes, len);
    while (status != PTD_END) {
        const size_t count = ptd_packets_read(&many, list, COUNT(list), &status);

        CU_ASSERT_TRUE(count <= COUNT(list) && (status != PTD_OK || count == COUNT(list)));
        for (size_t i = 0; i < count; i++) {
            const struct ptd_packets before = singly;
            char want[128], got[128];

            expected = ptd_packets_next(&singly, &packet);
            CU_ASSERT_EQUAL(expected, PTD_OK);
            if (expected != PTD_OK)
                return;
            compare_alone(&before, bytes, &list[i]);
            (void)ptd_packet_format(&packet, want, sizeof(want));
            (void)ptd_packet_format(&list[i], got, sizeof(got));
            CU_ASSERT_STRING_EQUAL(got, want);
            CU_ASSERT_EQUAL(list[i].offset, packet.offset);
            CU_ASSERT_EQUAL(list[i].size_bytes, packet.size_bytes);
        }
        if (status == PTD_OK)
            continue;
        CU_ASSERT_EQUAL(ptd_packets_next(&singly, &packet), status);
        CU_ASSERT_EQUAL(ptd_packets_offset(&singly), ptd_packets_offset(&many));
        if (status != PTD_END) { /* one byte on */
            (void)ptd_packets_seek(&singly, ptd_packets_offset(&singly) + 1);
            (void)ptd_packets_seek(&many, ptd_packets_offset(&many) + 1);
        }
    }
}

static void packets_in_batches(void)
{
    uint64_t random = 0x123456789abcdef;
    uint8_t bytes[64];

    /* Each first byte, with all kinds of bytes behind it, at each distance from the end. */
    for (unsigned first = 0; first < 256; first++) {
        for (size_t len = 1; len < 24; len++) {
            bytes[0] = (uint8_t)first;
            for (size_t i = 1; i < len; i++)
                bytes[i] = (uint8_t)next_random(&random);
            compare_packets(bytes, len);
        }
    }
    for (unsigned i = 0; i < 5000; i++) {
        static const uint8_t block[] = {2, 0x63, 0x84, 4, 1, 2, 3, 4, 5, 6, 7, 8};

        for (size_t j = 0; j < sizeof(bytes); j++)
            bytes[j] = (uint8_t)next_random(&random);
        if (i % 2)
            memcpy(bytes, block, sizeof(block));
        compare_packets(bytes, sizeof(bytes));
    }
}

/* ---- The interface ---- */

static int stop_at_once(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    (void)flow;
    (void)run;
    ++*(unsigned *)context;
    return 7;
}

static void arguments(void)
{
    static const uint8_t bytes[] = {START(CODE), TNT_N};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow *const flow = ptd_flow_new(bytes, sizeof(bytes), image, NULL);
    uint32_t steps[PTD_RUN_ROOM];
    struct ptd_run run = {.steps = steps, .room = PTD_RUN_ROOM - 1};
    struct ptd_item item;
    unsigned calls = 0;

    CU_ASSERT_EQUAL(ptd_flow_run(flow, &run), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_step_block(flow, 2, 0, &item), PTD_E_ARG);
    CU_ASSERT_PTR_NULL(ptd_flow_insns(flow, NULL));
    run.room = PTD_RUN_ROOM;
    while (ptd_flow_run(flow, &run) == PTD_OK)
        calls++;
    CU_ASSERT_EQUAL(calls, 3); /* PSB, enabled, and an error: there is no code */
    CU_ASSERT_EQUAL(ptd_step_block(flow, 0, 0, &item), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_step_block(flow, 1000, 0, &item), PTD_E_ARG);
    ptd_flow_free(flow);

    calls = 0;
    CU_ASSERT_EQUAL(
        ptd_flow_parallel(bytes, sizeof(bytes), image, NULL, false, 0, stop_at_once, &calls),
        PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_flow_parallel(bytes, sizeof(bytes), image, NULL, false, 1, NULL, NULL),
                    PTD_E_ARG);
    CU_ASSERT_EQUAL(
        ptd_flow_parallel(bytes, sizeof(bytes), image, NULL, false, 4, stop_at_once, &calls), 7);
    CU_ASSERT_EQUAL(calls, 1);
    CU_ASSERT_EQUAL(ptd_flow_parallel("", 0, image, NULL, false, 4, stop_at_once, &calls), PTD_OK);
    CU_ASSERT_EQUAL(calls, 1);
    ptd_image_free(image);
}

void add_fast_suite(void)
{
    CU_pSuite const suite = CU_add_suite("fast ways", NULL, NULL);

    CU_add_test(suite, "a real trace", real_trace);
    CU_add_test(suite, "the same, damaged", damaged_trace);
    CU_add_test(suite, "noise", noise);
    CU_add_test(suite, "many address spaces", many_address_spaces);
    CU_add_test(suite, "guests on threads", guests_on_threads);
    CU_add_test(suite, "a byte lost in front of a PSB", byte_lost_before_psb);
    CU_add_test(suite, "a PSB that a packet covers", psb_covered);
    CU_add_test(suite, "a PSB in a PSB+", psb_in_psb);
    CU_add_test(suite, "packets in batches", packets_in_batches);
    CU_add_test(suite, "arguments", arguments);
}
