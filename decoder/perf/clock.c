/* SPDX-License-Identifier: BSD-3-Clause */
/* The clocks of the traces of a perf.data (RTIT_CTL: 33.2.8.2); perf's time and the TSC. */
#include "perf/clock.h"
#include "perf/lookup.h"
#include "ptdec_perf.h"

#define CYC_THRESHOLD (0xfull << 19) /* of RTIT_CTL */

/* The field of RTIT_CTL that a mask names. */
static uint8_t field_of(uint64_t config, uint64_t mask)
{
    while (mask && !(mask & 1)) {
        mask >>= 1;
        config >>= 1;
    }
    return (uint8_t)(config & mask);
}

void ptd_perf_clocks(const struct ptd_perf_session *session, struct ptd_time_config *config)
{
    const struct ptd_perf_pt *const pt = &session->pt;
    const uint64_t rtit_ctl = session->lookup->config;

    *config = (struct ptd_time_config){
        .mtc_freq = field_of(rtit_ctl, pt->mtc_freq_bits) & 15,
        .cyc_threshold = field_of(rtit_ctl, CYC_THRESHOLD),
        .max_nonturbo_ratio = (uint8_t)pt->max_nonturbo_ratio,
        .vms = session->vms,
        .vm_count = session->vm_count,
        .tsc_high = session->trace_count ? (uint8_t)(session->traces[0].reference >> 56) : 0,
    };
    if (pt->tsc_ctc_num <= UINT32_MAX && pt->tsc_ctc_den <= pt->tsc_ctc_num) {
        config->tsc_num = (uint32_t)pt->tsc_ctc_num;
        config->tsc_den = (uint32_t)pt->tsc_ctc_den;
    }
}

uint64_t ptd_perf_time_of_tsc(const struct ptd_perf_pt *pt, uint64_t tsc)
{
    if (!pt->has_time)
        return 0;

    const uint64_t high = tsc >> pt->time_shift;
    const uint64_t low = tsc & ((1ull << pt->time_shift) - 1);

    return pt->time_zero + high * pt->time_mult + ((low * pt->time_mult) >> pt->time_shift);
}

uint64_t ptd_perf_tsc_of_time(const struct ptd_perf_pt *pt, uint64_t time)
{
    if (!pt->has_time)
        return 0;

    const uint64_t since = time - pt->time_zero;

    return ((since / pt->time_mult) << pt->time_shift) +
           ((since % pt->time_mult) << pt->time_shift) / pt->time_mult;
}

struct ptd_time *ptd_perf_time_new(const struct ptd_perf_session *session)
{
    struct ptd_time_config clocks;
    struct ptd_time *time;

    ptd_perf_clocks(session, &clocks);
    time = ptd_time_new(&clocks);
    return time ? time : ptd_time_new(NULL); /* what the file says of clocks is out of range */
}
