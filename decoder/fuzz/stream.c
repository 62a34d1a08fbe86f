/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes traces that come in pieces: a stream must give the items of ptd_flow_next(), wherever the
 * pieces end, and their times. Errata are tolerated, and the index is looked at. Four bytes say
 * how, how many bytes of code follow, how long pieces are, and which errata are tolerated; code
 * stands at 0. A PSB is put in front.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "tests/referee.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define HEAD_BYTES   4
#define HOW_MODE     0x03u
#define HOW_AT_START 0x04u
#define HOW_PSB      0x08u /* and TIP.PGE at 0 in front of the trace */
#define HOW_TIME     0x10u
#define HOW_ERRATA   0x60u /* bits 9:8 of them */
#define HOW_FILTER   0x80u

struct input {
    uint8_t *trace;
    size_t trace_bytes, piece_bytes;
    struct ptd_image *image;
    struct ptd_flow_config config;
    bool timed;
};

static void build(struct input *input, const uint8_t *bytes, size_t len)
{
    static const uint8_t start[] = {2,    0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2, 0x82, 2,
                                    0x82, 2,    0x82, 2,    0x82, 2,    0x23, 0x31, 0, 0};
    const uint8_t how = bytes[0];
    const size_t rest = len - HEAD_BYTES, code_bytes = bytes[1] < rest ? bytes[1] : rest;
    const size_t head = how & HOW_PSB ? sizeof(start) : 0;

    *input = (struct input){
        .trace = malloc(head + rest - code_bytes + 1),
        .trace_bytes = head + rest - code_bytes,
        .piece_bytes = 1 + bytes[2] % 64u,
        .image = ptd_image_new(),
        .config = {.mode = (enum ptd_mode)((how & HOW_MODE) % 3),
                   .at_start = how & HOW_AT_START,
                   .errata = bytes[3] | (uint32_t)(how & HOW_ERRATA) << 3,
                   .filters = how & HOW_FILTER ? 1 : 0,
                   .filter = {{.first = 0, .last = code_bytes / 2}},
                   .resync = bytes[2] & 0x80u ? PTD_RESYNC_IP : PTD_RESYNC_PSB},
        .timed = how & HOW_TIME,
    };
    if (!input->trace || !input->image)
        abort();
    memcpy(input->trace, start, head);
    memcpy(input->trace + head, bytes + HEAD_BYTES + code_bytes, rest - code_bytes);
    if (code_bytes > 0)
        (void)ptd_image_add_bytes(input->image, "all", 0, bytes + HEAD_BYTES, code_bytes,
                                  PTD_ANY_CR3);
}

static void expect_same(struct referee_verdict verdict)
{
    if (verdict.same)
        return;
    (void)fprintf(stderr, "%s\n", verdict.difference);
    abort();
}

static void compare(const struct input *input)
{
    const struct ptd_time_config time = {.tsc_den = 2, .tsc_num = 168, .mtc_freq = 3};
    const struct referee_trace trace = {.bytes = input->trace,
                                        .len_bytes = input->trace_bytes,
                                        .image = input->image,
                                        .config = &input->config};

    expect_same(referee_stream(&trace, 1 + input->trace_bytes, input->piece_bytes,
                               input->timed ? &time : NULL));
    expect_same(referee_run(&trace, PTD_RUN_ROOM));
}

static void check_index(const struct input *input)
{
    struct ptd_sync_point *points = NULL;
    size_t count = 0;

    if (ptd_index(input->trace, input->trace_bytes, &points, &count) != PTD_OK)
        abort();
    for (size_t i = 0; i < count; i++) {
        if (points[i].offset + 16 > input->trace_bytes ||
            (i > 0 && points[i].offset <= points[i - 1].offset) ||
            ptd_index_at(points, count, points[i].offset) != i)
            abort();
        if (points[i].has_tsc && ptd_index_before(points, count, points[i].tsc) > count)
            abort();
    }
    free(points);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct input input;

    if (len_bytes < HEAD_BYTES)
        return 0;
    build(&input, bytes, len_bytes);
    compare(&input);
    check_index(&input);
    ptd_image_free(input.image);
    free(input.trace);
    return 0;
}
