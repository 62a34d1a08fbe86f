/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes RTIT: its packets, as in packets.c, and its flow. Four bytes say how; then there is code,
 * which stands at 0, so that short LIPs find it; the rest is the trace. A PSB is put in front of
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "ptdec_rtit.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define HEAD_BYTES    4
#define HOW_MODE      0x03u
#define HOW_AT_START  0x04u
#define HOW_CYCLES    0x08u
#define HOW_MINUS_ONE 0x10u
#define HOW_PSB       0x20u /* and FUP.PGE at 0 in front of the trace */
#define HOW_OTHER     0x40u /* the second half of the code belongs to another address space */
#define OTHER_CR3     0x20u
#define RANGE_BYTES   16u
#define MAX_ITEMS     100000u /* for each byte of the trace there are far fewer */

/* ---- Packets ---- */

static void read_packets(struct ptd_rtit_packets *packets)
{
    struct ptd_rtit_packet packet;
    struct ptd_rtit_last_lip last = {0};
    uint64_t lip;
    char text[80];

    for (;;) {
        const uint64_t before = ptd_rtit_packets_offset(packets);

        if (ptd_rtit_packets_next(packets, &packet) != PTD_OK) {
            if (ptd_rtit_packets_offset(packets) != before)
                abort();
            return;
        }
        if (packet.offset != before || packet.size_bytes == 0 ||
            ptd_rtit_packets_offset(packets) != before + packet.size_bytes ||
            packet.type >= PTD_RTIT_TYPES ||
            ptd_rtit_packet_format(&packet, text, sizeof(text)) < 0)
            abort();
        if (packet.type >= PTD_RTIT_TIP && packet.type <= PTD_RTIT_FAR)
            (void)ptd_rtit_packet_lip(&packet, &last, &lip);
    }
}

static void check_packets(const uint8_t *bytes, size_t len_bytes, bool cycles)
{
    struct ptd_rtit_packets packets;

    ptd_rtit_packets_init(&packets, bytes, len_bytes, cycles);
    read_packets(&packets);
    (void)ptd_rtit_packets_seek(&packets, 0);
    while (ptd_rtit_packets_sync(&packets) == PTD_OK) {
        const uint64_t psb = ptd_rtit_packets_offset(&packets);

        read_packets(&packets);
        if (ptd_rtit_packets_offset(&packets) <= psb)
            abort();
    }
}

/* ---- Flow ---- */

static void check_block(const struct ptd_image *image, const struct ptd_item *block)
{
    uint64_t ip = block->ip;
    struct ptd_insn insn;
    uint32_t insns = 0;
    int status;

    while ((status = ptd_block_insn(image, block, &ip, &insn)) == PTD_OK)
        insns++;
    if (status != PTD_END || insns != block->insns || insns == 0)
        abort();
}

static void check_flow(const uint8_t *bytes, size_t len_bytes, const struct ptd_image *image,
                       const struct ptd_rtit_config *config)
{
    struct ptd_rtit_flow *const flow = ptd_rtit_flow_new(bytes, len_bytes, image, config);
    struct ptd_item item;
    uint64_t cycles = 0, items = 0;

    if (!flow)
        abort();
    while (ptd_rtit_flow_next(flow, &item) == PTD_OK) {
        if (item.offset > len_bytes || item.cycles < cycles || ++items > MAX_ITEMS)
            abort();
        cycles = item.cycles;
        if (item.type == PTD_ITEM_BLOCK)
            check_block(image, &item);
        if (item.type == PTD_ITEM_ERROR && item.offset + item.value > len_bytes)
            abort();
    }
    ptd_rtit_flow_free(flow);
}

/* ---- One input ---- */

/* The trace in memory of its own, of exactly its size. */
static uint8_t *build_trace(uint8_t how, const uint8_t *bytes, size_t *len_bytes)
{
    static const uint8_t start[] = {0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0x84, 0, 0};
    const size_t head = how & HOW_PSB ? sizeof(start) : 0;
    uint8_t *const trace = malloc(*len_bytes + head + 1);
    uint8_t *exact;

    if (!trace)
        abort();
    memcpy(trace, start, head);
    memcpy(trace + head, bytes, *len_bytes);
    *len_bytes += head;
    exact = realloc(trace, *len_bytes ? *len_bytes : 1);
    if (!exact)
        abort();
    return exact;
}

static struct ptd_image *build_image(uint8_t how, const uint8_t *code, size_t len_bytes)
{
    struct ptd_image *const image = ptd_image_new();
    const size_t shared = how & HOW_OTHER ? len_bytes / 2 : len_bytes;

    if (!image)
        abort();
    if (shared > 0)
        (void)ptd_image_add_bytes(image, "all", 0, code, shared, PTD_ANY_CR3);
    if (shared < len_bytes)
        (void)ptd_image_add_bytes(image, "own", shared / 2, code + shared, len_bytes - shared,
                                  OTHER_CR3);
    return image;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < HEAD_BYTES)
        return 0;

    const uint8_t how = bytes[0];
    const size_t rest = len_bytes - HEAD_BYTES;
    const size_t code_bytes = bytes[1] < rest ? bytes[1] : rest;
    const uint8_t *const code = bytes + HEAD_BYTES;
    const struct ptd_rtit_config config = {
        .mode = (enum ptd_mode)((how & HOW_MODE) % 3),
        .at_start = how & HOW_AT_START,
        .cycle_acc = how & HOW_CYCLES,
        .cycles_minus_one = how & HOW_MINUS_ONE,
        .tnt_buff = bytes[2],
        .filters = (bytes[3] & 3) % 3,
        .stops = (bytes[3] >> 2 & 3) % 3,
        .filter = {{0, RANGE_BYTES}, {2 * RANGE_BYTES, 3 * RANGE_BYTES}},
        .stop = {{code_bytes / 2, code_bytes}, {RANGE_BYTES, RANGE_BYTES + 1}},
    };
    struct ptd_image *const image = build_image(how, code, code_bytes);
    size_t trace_bytes = rest - code_bytes;
    uint8_t *const trace = build_trace(how, code + code_bytes, &trace_bytes);

    check_packets(trace, trace_bytes, config.cycle_acc);
    check_flow(trace, trace_bytes, image, &config);
    ptd_image_free(image);
    free(trace);
    return 0;
}
