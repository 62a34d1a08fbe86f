/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the flow decoder. The first byte chooses how, the second how many bytes of code follow;
 * the rest is the trace. Code stands at 0 (and a part of it again in an address space of its own),
 * so that short IPs find it. A PSB is hard to guess: it is put in front of the trace, and into it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "tests/referee_coverage.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define HOW_MODE     0x03u
#define HOW_AT_START 0x04u
#define HOW_HIGH     0x08u /* code at the end of the address space */
#define HOW_PSB      0x10u /* PSB+, TIP.PGE at 0 in front of the trace */
#define HOW_PSB_IN   0x20u /* PSB+ in the middle of it */
#define HOW_THREADS  0xc0u /* compare with decoding on threads too, */
#define SELDOM       7u    /* which takes so much longer that more has to be set for it */
#define OTHER_CR3    0x1000u
#define MAX_WALKED   1000u /* instructions of a block that are listed */

static void check_block(const struct ptd_image *image, const struct ptd_item *block)
{
    uint64_t ip = block->ip;
    struct ptd_insn insn;
    uint32_t insns = 0;
    int status = PTD_OK;

    if (block->insns == 0)
        abort();
    while (insns < MAX_WALKED && (status = ptd_block_insn(image, block, &ip, &insn)) == PTD_OK)
        insns++;
    if (status < PTD_END || (insns < MAX_WALKED && insns != block->insns))
        abort();
}

/* The trace in memory of its own, of exactly its size. */
static uint8_t *build_trace(uint8_t how, const uint8_t *bytes, size_t *len_bytes)
{
    static const uint8_t psb[] = {
        2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23,
    };
    static const uint8_t enable[] = {0x31, 0, 0};
    const size_t half = how & HOW_PSB_IN ? *len_bytes / 2 : *len_bytes;
    uint8_t *const trace = malloc(*len_bytes + 2 * sizeof(psb) + sizeof(enable) + 1);
    size_t len = 0;

    if (!trace)
        abort();
    if (how & HOW_PSB) {
        memcpy(trace, psb, sizeof(psb));
        memcpy(trace + sizeof(psb), enable, sizeof(enable));
        len = sizeof(psb) + sizeof(enable);
    }
    memcpy(trace + len, bytes, half);
    len += half;
    if (how & HOW_PSB_IN) {
        memcpy(trace + len, psb, sizeof(psb));
        len += sizeof(psb);
    }
    memcpy(trace + len, bytes + half, *len_bytes - half);
    len += *len_bytes - half;
    *len_bytes = len;

    uint8_t *const exact = realloc(trace, len ? len : 1);

    if (!exact)
        abort();
    return exact;
}

static void expect_same(struct referee_verdict verdict)
{
    if (verdict.same)
        return;
    (void)fprintf(stderr, "%s\n", verdict.difference);
    abort();
}

/* They must find the same. */
static void compare_other_ways(uint8_t how, bool threads, const uint8_t *bytes, size_t len_bytes,
                               const struct ptd_image *image, const struct ptd_flow_config *config)
{
    const struct ptd_time_config clocks = {
        .tsc_den = 2, .tsc_num = 84, .mtc_freq = how & 3, .max_nonturbo_ratio = 20};
    const struct referee_trace trace = {
        .bytes = bytes,
        .len_bytes = len_bytes,
        .image = image,
        .config = config,
        .timing = (enum ptd_timing)(len_bytes % 3),
        .clocks = &clocks,
    };

    expect_same(referee_run(&trace, PTD_RUN_ROOM));
    expect_same(referee_run_before(&trace, PTD_RUN_ROOM, 1u + how));
    expect_same(referee_stream(&trace, len_bytes + 1, how + 1, &clocks));
    if (threads) {
        expect_same(referee_parallel(&trace, 2, 1));
        expect_same(referee_coverage(&trace, how + (unsigned)len_bytes));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < 2)
        return 0;

    const uint8_t how = bytes[0];
    const size_t code_bytes = bytes[1] < len_bytes - 2 ? bytes[1] : len_bytes - 2;
    const uint8_t *const code = bytes + 2;
    size_t trace_bytes = len_bytes - 2 - code_bytes;
    uint8_t *const trace = build_trace(how, code + code_bytes, &trace_bytes);
    const uint64_t base = how & HOW_HIGH ? 0 - (uint64_t)code_bytes : 0;
    const struct ptd_flow_config config = {
        .mode = (enum ptd_mode)((how & HOW_MODE) % 3),
        .at_start = how & HOW_AT_START,
        .resync = bytes[1] & 1 ? PTD_RESYNC_IP : PTD_RESYNC_PSB,
    };
    struct ptd_image *const image = ptd_image_new();

    if (code_bytes > 0) {
        (void)ptd_image_add_bytes(image, "all", base, code, code_bytes, PTD_ANY_CR3);
        (void)ptd_image_add_bytes(image, "own", base, code, code_bytes / 2 + 1, OTHER_CR3);
    }

    struct ptd_flow *const flow = ptd_flow_new(trace, trace_bytes, image, &config);
    struct ptd_item item;
    uint64_t lost_end = 0;

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        if (item.offset > trace_bytes)
            abort();
        if (item.type == PTD_ITEM_BLOCK)
            check_block(image, &item);
        if (item.type == PTD_ITEM_ERROR) {
            if (item.offset + item.value > trace_bytes || item.offset + item.value < lost_end)
                abort();
            lost_end = item.offset + item.value; /* it never goes back */
        }
    }
    ptd_flow_free(flow);
    compare_other_ways(how, (how & HOW_THREADS) == HOW_THREADS && (bytes[1] & SELDOM) == SELDOM,
                       trace, trace_bytes, image, &config);
    ptd_image_free(image);
    free(trace);
    return 0;
}
