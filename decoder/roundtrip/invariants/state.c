/* SPDX-License-Identifier: BSD-3-Clause */
/* Chance, and what is said for the report; see state.h. */
#include "roundtrip/invariants/state.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- Chance (splitmix64) -------------------------------------------------------------------- */

uint64_t dice_bits(struct dice *dice)
{
    uint64_t z = dice->state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

uint32_t dice_draw(struct dice *dice, uint32_t below)
{
    return (uint32_t)((dice_bits(dice) >> 32) * below >> 32);
}

bool dice_one_in(struct dice *dice, uint32_t n)
{
    return dice_draw(dice, n) == 0;
}

/* ---- The report ----------------------------------------------------------------------------- */

void run_say(struct run *run, const char *format, ...)
{
    const unsigned slot = run->said_count % LAST;
    va_list args;

    if (!run->saying)
        return;
    run->said[slot].event = run->event;
    run->said[slot].from = run->trace_len;
    run->said[slot].gap_at = run->gap_at;
    va_start(args, format);
    vsnprintf(run->said[slot].text, sizeof(run->said[slot].text), format, args);
    va_end(args);
    run->said_count++;
}
