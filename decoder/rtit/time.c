/* SPDX-License-Identifier: BSD-3-Clause */
/* Time in an RTIT trace: MTC (RTIT v1.05, 4.2.12), STS (4.2.13), cycle counts (4.2.14). */
#include "rtit/time.h"

#define STS_BITS 40
#define MTC_BITS 8

/* The next TSC that is not before the last one, and has value in its bits from shift on. */
static uint64_t next_tsc(uint64_t last, uint64_t value, unsigned shift, unsigned bits)
{
    const uint64_t period = UINT64_C(1) << (shift + bits);
    const uint64_t tsc = (last & ~(period - 1)) | value << shift;

    if (tsc >= last)
        return tsc;
    return tsc >> shift == last >> shift ? last : tsc + period;
}

static void set_tsc(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet, uint64_t tsc)
{
    flow->time.tsc = tsc;
    flow->time.has_tsc = true;
    ptd_rtit_push(flow, PTD_ITEM_TSC, packet->offset)->value = tsc;
}

static void read_mtc(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    struct rtit_time *const time = &flow->time;
    const unsigned shift = 7 + 2u * packet->mtc.range;

    if (time->doubtful)
        time->doubtful = false;
    else if (time->has_tsc)
        set_tsc(flow, packet, next_tsc(time->tsc, packet->mtc.tsc, shift, MTC_BITS));
    else
        (void)ptd_rtit_push_packet(flow, packet);
}

static void read_sts(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    struct rtit_time *const time = &flow->time;

    set_tsc(flow, packet,
            time->has_tsc ? next_tsc(time->tsc, packet->sts.tsc, 0, STS_BITS) : packet->sts.tsc);
    if (packet->sts.actual_ratio == time->ratio)
        return;
    time->ratio = packet->sts.actual_ratio;
    ptd_rtit_push(flow, PTD_ITEM_CBR, packet->offset)->value = time->ratio;
}

void ptd_rtit_read_time(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    if (packet->has_cycles) {
        flow->time.cycles += packet->cycles;
        if (flow->config.cycles_minus_one && packet->cycles > 0)
            flow->time.cycles++; /* erratum E6 */
    }
    if (packet->type == PTD_RTIT_MTC)
        read_mtc(flow, packet);
    else if (packet->type == PTD_RTIT_STS)
        read_sts(flow, packet);
}
