/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A piece of the host's trace: what was traced while a guest ran once.
 */
#ifndef VMM_HOSTPT_PIECE_H
#define VMM_HOSTPT_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pt_piece {
    const uint8_t *bytes;
    size_t len;
    bool lost; /* trace is missing, all or the end of it */
    /*
     * It is of a processor's trace, not of the thread's, so that others may be in it. Then it
     * begins at .begin, in the host; what is in front is there to be known, from a PSB on. alone:
     * no other thread had the processor meanwhile.
     */
    bool is_shared, alone;
    size_t begin;
};

#endif
