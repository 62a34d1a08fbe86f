/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often each block of code ran, and how much time it took: the sums of a trace that is decoded
 * in bulk (ptd_flow_parallel()), or of items one by one. A step, which may be a compound one, is
 * counted by its number and looked at once, so that the cost is that of counting.
 *
 * The time between two packets that tell one is spread over what ran between them, by instructions.
 * What division leaves over belongs to the last of it, and is handed on by itself: so the sums do
 * not depend on how often the sink gets what was counted.
 * A CYC packet tells the time of the packet behind it, so what it counted belongs to what that
 * packet tells. Time in which nothing could run, since tracing was off, belongs to nobody.
 */
#ifndef VMM_REPORT_TALLY_H
#define VMM_REPORT_TALLY_H

#include "ptdec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TALLY_FRACTION 16 /* times are in parts of 2^-16 of a tick */

/* A block that was seen; the rest is told when it is counted. */
struct tally_block {
    uint32_t id; /* what .see of the sink said */
    uint32_t insns;
    uint8_t last_class; /* enum ptd_insn_class */
    bool taken;         /* private: its last branch, if it is part of a step */
    bool is_last;       /* private: of its step */
};

/* Who wants the sums. */
struct tally_sink {
    /*
     * A block is seen: what it is called from here on; UINT32_MAX: no memory. Names and code are
     * now those that hold for it. A block may be seen again.
     */
    uint32_t (*see)(void *owner, const struct ptd_item *block);
    /*
     * It ran so often since the last call, with its last branch taken or not, and took so much
     * time. count is 0 where only time is added. False: no memory.
     */
    bool (*add)(void *owner, const struct tally_block *block, bool taken, uint64_t count,
                uint64_t time);
    /* What stands for a block, whatever number it has here. NULL: nobody asks. */
    uint64_t (*fingerprint)(const void *owner, uint32_t id);
};

struct tally;

/* sink must outlive it. NULL: no memory. */
struct tally *tally_new(const struct tally_sink *sink, void *owner);
void tally_free(struct tally *tally);

/*
 * The next part of a trace, without its item. points are those of its marks (ptd_time_marks());
 * NULL: marks do not count. False: no memory, here and below.
 */
bool tally_steps(struct tally *tally, const struct ptd_flow *flow, const struct ptd_run *run,
                 const struct ptd_time_point *points);
/* The next item, of any type. */
bool tally_item(struct tally *tally, const struct ptd_item *item);
/* It is this time now: the TSC, and the core cycles that CYC packets counted up to here. */
bool tally_time(struct tally *tally, uint64_t tsc, uint64_t cycles);
/* The last time that was told; PTD_TIME_UNKNOWN: none. */
uint64_t tally_now(const struct tally *tally);
/* Instructions so far. */
uint64_t tally_insns(const struct tally *tally);
/*
 * The sink gets all that it does not have. To be called before names change, and at the end of a
 * trace; time that was not spread yet then is.
 */
bool tally_flush(struct tally *tally);
/* What blocks are called is something else from here on. tally_flush() came before. */
void tally_forget(struct tally *tally);
/* Another trace begins. tally_flush() came before. */
void tally_restart(struct tally *tally);
/*
 * The sink gets what was counted and has its time; what waits for one goes on to wait. While it is
 * muted, ticks that belong to nobody are not counted: then the sink is to forget what it gets.
 */
bool tally_mute(struct tally *tally, bool is_muted);
/* What waits for its time, and since when, as a number: the sink's fingerprints stand for blocks.
 */
uint64_t tally_fingerprint(const struct tally *tally);
/* Ticks that belong to nobody, of all traces. */
uint64_t tally_untraced(const struct tally *tally);

#endif
