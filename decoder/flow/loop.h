/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds that a walk over code would never end (Brent's algorithm). Without packets the walk depends
 * on the IP alone: coming to one IP twice means for ever. The mark moves after 1, 2, 4, ... blocks,
 * so any cycle is found soon after it is entered.
 */
#ifndef PTD_LOOP_H
#define PTD_LOOP_H

#include <stdbool.h>
#include <stdint.h>

/* Blocks walked since the mark, all without a packet. */
struct loop {
    uint64_t mark, steps, limit;
};

/* A packet was used up at ip. */
static inline void loop_reset(struct loop *loop, uint64_t ip)
{
    *loop = (struct loop){.mark = ip, .limit = 1};
}

/* The walk is about to go over the block at ip. */
static inline bool loop_is_endless(struct loop *loop, uint64_t ip)
{
    if (loop->steps > 0 && ip == loop->mark)
        return true;
    if (loop->steps == loop->limit)
        *loop = (struct loop){.mark = ip, .limit = loop->limit * 2};
    loop->steps++;
    return false;
}

#endif
