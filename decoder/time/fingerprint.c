/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a clock as a number: all that what follows can depend on, and nothing that merely
 * counts what was, or was found by looking ahead.
 */
#include "base/hash.h"
#include "time/timing.h"

static uint64_t add_ticks(uint64_t hash, ticks value)
{
    return hash_more(hash_more(hash, (uint64_t)value), (uint64_t)(value >> 64));
}

static uint64_t add_span(uint64_t hash, struct span span)
{
    return add_ticks(add_ticks(hash, span.first), span.last);
}

static uint64_t add_rate(uint64_t hash, struct rate rate)
{
    return hash_more(hash_more(hash, rate.least), rate.most);
}

static uint64_t add_anchor(uint64_t hash, const struct anchor *anchor)
{
    return hash_more(hash_more(add_span(hash, anchor->time), anchor->at.cycles), anchor->at.slack);
}

static uint64_t add_waiting(uint64_t hash, bool waits, const struct ptd_packet *packet)
{
    return hash_more(hash, waits ? packet->offset + 1 : 0);
}

/* What is yes or no, a bit each. */
static uint64_t flags(const struct ptd_time *time)
{
    const bool all[] = {time->known,       time->tma_due,  time->tsc_since_mtc, time->floor_by_mtc,
                        time->phase_known, time->mtc_seen, time->phase_by_tma,  time->cyc_seen,
                        time->exact,       time->nonroot,  time->base_known,    time->calibrating,
                        time->psb_has_fup, time->in_psb,   time->psb_has_tsc,   time->tsc_waits,
                        time->tma_waits};
    uint64_t bits = 0;

    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        bits |= (uint64_t)all[i] << i;
    return bits;
}

uint64_t ptd_time_fingerprint(const struct ptd_time *time)
{
    const ticks instants[] = {time->earliest, time->latest,  time->estimate, time->counted,
                              time->floor,    time->ceiling, time->guess,    time->before_base};
    const struct span spans[] = {time->hard, time->tsc, time->phase, time->base};
    uint64_t hash = flags(time);

    for (unsigned i = 0; i < sizeof(instants) / sizeof(instants[0]); i++)
        hash = add_ticks(hash, instants[i]);
    for (unsigned i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
        hash = add_span(hash, spans[i]);
    hash = add_rate(add_rate(hash, time->rate), time->next_rate);
    hash = add_anchor(add_anchor(hash, &time->anchor), &time->tsc_anchor);
    hash = add_waiting(hash, time->tsc_waits, &time->waiting_tsc);
    hash = add_waiting(hash, time->tma_waits, &time->waiting_tma);
    hash = hash_more(hash_more(hash, time->art_base), time->art);
    hash = hash_more(hash_more(hash, time->cycles), time->vmcs);
    return hash_more(hash, (uint64_t)time->art_bits << 8 | time->cbr);
}
