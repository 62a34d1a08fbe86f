/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When an item of the flow took place.
 */
#ifndef VMM_CLOCK_H
#define VMM_CLOCK_H

#include "ptdec.h"

#include <stdbool.h>
#include <stdint.h>

/* Of one trace: TSC if its packets tell of time that passes, else instructions executed so far. */
struct clock {
    bool is_tsc;
    uint64_t insns;
    uint64_t tsc;    /* 0: no TSC packet yet */
    uint64_t cycles; /* that CYC packets counted so far */
    struct ptd_time *time;
    struct ptd_packets packets; /* those that time does not know yet */
};

/*
 * config NULL: instructions. is_timeless: it is known that the packets tell no time, so that they
 * need not be asked. bytes must outlive the clock. False: no memory.
 */
bool clock_open(struct clock *clock, const uint8_t *bytes, size_t len,
                const struct ptd_time_config *config, bool is_timeless);
void clock_close(struct clock *clock);
/*
 * Of a trace of which only the first bytes are there: is_tsc and tsc, as far as they tell. For
 * clock_at_point() alone; nothing is to be closed. False: more bytes may tell more.
 */
bool clock_begin(struct clock *clock, const uint8_t *bytes, size_t len,
                 const struct ptd_time_config *config);
/* As clock_at(), of an item whose time is known (ptd_stream_next()). */
uint64_t clock_at_point(struct clock *clock, const struct ptd_item *item,
                        const struct ptd_time_point *point);
/* The time at the start of the trace. */
uint64_t clock_start(struct clock *clock);
/* The time at an item; items come in the order of the flow. Of a block: at its end. */
uint64_t clock_at(struct clock *clock, const struct ptd_item *item);

#endif
