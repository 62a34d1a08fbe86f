/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For those who look for other packets than most of a trace has, and want to know the time where
 * they are: the rest is passed by its bytes, and time is told marks of it, as of ptd_flow_run().
 */
#include "packets/mark.h"
#include "pt_packets.h"
#include "time/time.h"

#define MARKS 256u /* told at once */

struct passing {
    struct ptd_time *time;   /* NULL: nobody's */
    struct ptd_packets told; /* up to where it was */
    uint32_t since_mark;
    size_t count;
    struct ptd_mark marks[MARKS];
};

static void tell_marks(struct passing *passing)
{
    struct ptd_time_point points[MARKS];

    ptd_time_marks(passing->time, &passing->told, passing->marks, passing->count, points);
    passing->count = 0;
}

/* A packet of time that ends at pos. */
static void put_mark(struct passing *passing, const uint8_t *pos, uint32_t what)
{
    const struct ptd_packets *const told = &passing->told;

    if (!passing->time)
        return;
    passing->marks[passing->count++] = (struct ptd_mark){
        .offset = told->base + (uint64_t)(pos - told->begin), .what = passing->since_mark | what};
    passing->since_mark = 0;
    if (passing->count == MARKS)
        tell_marks(passing);
}

/* The bytes of a packet that is passed, or 0. */
static inline unsigned pass_packet(struct passing *passing, const uint8_t *pos)
{
    const uint8_t byte = *pos;
    const uint32_t cycles = byte >> PT_CYC_SHR0;

    if (pt_is_tnt8(byte)) {
        passing->since_mark |= MARK_TNT;
        return 1;
    }
    if ((byte & PT_TIP_MASK) == PT_TIP && pt_ip_payload_bytes(byte) > 0) {
        passing->since_mark |= MARK_TIP;
        return 1 + pt_ip_payload_bytes(byte);
    }
    if (byte == PT_OPC_MTC) {
        put_mark(passing, pos + PT_MTC_LEN, MARK_PACKET | PT_MTC_LEN << MARK_VALUE_SHR);
        return PT_MTC_LEN;
    }
    if ((byte & PT_CYC_MASK) != PT_CYC)
        return 0;
    if (!(byte & PT_CYC_EXP0)) {
        put_mark(passing, pos + 1, cycles << MARK_VALUE_SHR);
        return 1;
    }
    if ((pos[1] & PT_CYC_EXP) || (passing->told.errata & PTD_SKD007))
        return 0;
    put_mark(passing, pos + 2,
             (cycles | (uint32_t)(pos[1] >> PT_CYC_SHR) << (8 - PT_CYC_SHR0)) << MARK_VALUE_SHR);
    return 2;
}

void ptd_time_pass(struct ptd_time *time, struct ptd_packets *packets, const uint8_t *end)
{
    struct passing passing;
    const uint8_t *pos = packets->pos;
    unsigned len;

    if (packets->bip_bytes)
        return;
    passing.time = time;
    passing.told = *packets;
    passing.since_mark = 0;
    passing.count = 0;
    while (pos < end && (len = pass_packet(&passing, pos)) > 0)
        pos += len;
    packets->pos = pos;
    if (!time)
        return;
    tell_marks(&passing);
    ptd_time_branches(time, &passing.told, ptd_packets_offset(packets));
}
