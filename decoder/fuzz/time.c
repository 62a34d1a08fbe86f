/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes time and partition: what they say of any packets whatever, and whether time in bulk says
 * the same. The first 16 bytes say how the clocks are; the rest is the trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "tests/referee.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define HEAD_BYTES 16
#define LOOP_IP    0x1000u

static void check_point(const struct ptd_time_point *point)
{
    if (point->tsc == PTD_TIME_UNKNOWN)
        return;
    if (point->earliest > point->tsc || point->tsc > point->latest)
        abort();
}

/* Never backwards, unless the TSC was set back. */
static void check_order(const struct ptd_time *time, const struct ptd_time_point *point,
                        struct ptd_time_point *last, uint64_t *set_backs)
{
    if (*set_backs == ptd_time_set_backs(time) && last->tsc != PTD_TIME_UNKNOWN &&
        point->tsc < last->tsc)
        abort();
    *set_backs = ptd_time_set_backs(time);
    *last = *point;
}

static void read_times(const struct ptd_time_config *config, const uint8_t *bytes, size_t len_bytes,
                       bool ahead)
{
    struct ptd_time *const time = ptd_time_new(config);
    struct ptd_time_point point, last = {.tsc = PTD_TIME_UNKNOWN};
    struct ptd_packets packets;
    struct ptd_packet packet;
    uint64_t set_backs = 0;

    if (!time)
        return;
    ptd_packets_init(&packets, bytes, len_bytes);
    while (ptd_time_next(time, &packets, &packet)) {
        ptd_time_packet(time, &packet);
        if (ahead)
            ptd_time_point_ahead(time, &packets, &point);
        else
            ptd_time_point(time, &point);
        check_point(&point);
        check_order(time, &point, &last, &set_backs);
    }
    ptd_time_free(time);
}

/* The trace of a loop, in which it is from its first byte on. */
static void compare_marks(const struct ptd_time_config *clocks, const uint8_t *bytes,
                          size_t len_bytes)
{
    static const uint8_t loop[] = {0x75, 0xfe, 0xff, 0xe0}; /* JNE itself; JMP RAX */
    struct ptd_image *const image = ptd_image_new();
    const struct ptd_flow_config config = {
        .mode = PTD_MODE_64, .at_start = true, .has_ip = true, .ip = LOOP_IP, .last_ip = LOOP_IP};
    const struct referee_trace trace = {.bytes = bytes,
                                        .len_bytes = len_bytes,
                                        .image = image,
                                        .config = &config,
                                        .timing = PTD_TIMING_MARKS,
                                        .clocks = clocks};
    struct referee_verdict verdict;

    if (!image || ptd_image_add_bytes(image, NULL, LOOP_IP, loop, sizeof(loop), PTD_ANY_CR3))
        abort();
    if (!referee_scan(&trace, 1 + len_bytes % 500))
        abort();
    verdict = referee_run(&trace, PTD_RUN_ROOM);
    if (!verdict.same) {
        (void)fprintf(stderr, "%s\n", verdict.difference);
        abort();
    }
    ptd_image_free(image);
}

/* Parts stand one behind the other, up to the end. */
static int check_part(void *owner, const struct ptd_part *part)
{
    uint64_t *const end = owner;

    if (part->begin != *end || part->end <= part->begin || part->segment > part->begin)
        abort();
    *end = part->end;
    return PTD_OK;
}

static bool is_guest(void *owner, const struct ptd_part *part)
{
    (void)owner;
    return part->known && part->nr;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_time_vm vms[2] = {{.vmcs = 0x1000}, {.vmcs = PTD_ANY_VMCS}};
    struct ptd_time_config config = {.vms = vms};
    struct ptd_range *ranges = NULL;
    uint64_t end = 0;
    uint8_t *trace;
    int count;

    if (len_bytes < HEAD_BYTES)
        return 0;
    config.tsc_den = 1 + bytes[0] % 4;
    config.tsc_num = config.tsc_den * (1 + bytes[1]);
    config.mtc_freq = bytes[2] & 15;
    config.cyc_threshold = bytes[3] & 15;
    config.max_nonturbo_ratio = bytes[4];
    config.tsc_high = bytes[5];
    config.mtc_delay_ticks = bytes[6];
    config.vm_count = bytes[7] % 3;
    memcpy(&vms[0].offset, bytes + 8, 4);
    vms[0].multiplier = (uint64_t)bytes[12] << 44;
    vms[1].multiplier = (uint64_t)bytes[13] << 48 | bytes[14];
    config.errata = bytes[15] & 1 ? PTD_SKL168 : 0;
    len_bytes -= HEAD_BYTES;
    trace = malloc(len_bytes + 1);
    if (!trace)
        abort();
    memcpy(trace, bytes + HEAD_BYTES, len_bytes);
    read_times(&config, trace, len_bytes, false);
    read_times(&config, trace, len_bytes, true);
    if (ptd_time_check(&config) == PTD_OK)
        compare_marks(&config, trace, len_bytes);
    if (ptd_partition(trace, len_bytes, NULL, check_part, &end) != PTD_OK || end != len_bytes)
        abort();
    count = ptd_partition_select(trace, len_bytes, NULL, is_guest, NULL, &ranges);
    for (int i = 0; i < count; i++)
        if (ranges[i].begin >= ranges[i].end || ranges[i].end > len_bytes ||
            (i > 0 && ranges[i].begin <= ranges[i - 1].end))
            abort();
    free(ranges);
    free(trace);
    return 0;
}
