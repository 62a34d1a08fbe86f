/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What struct ptd_mark.what holds: flow writes it, and time reads it. It says what stands between
 * the mark before it and this one, and the cycles of a CYC packet or, with MARK_PACKET, the bytes
 * of another one.
 */
#ifndef PTD_MARK_H
#define PTD_MARK_H

#include "ptdec.h"

enum {
    MARK_TNT = 1,
    MARK_TIP = 2,
    MARK_OTHER = 4, /* anything: it has to be read, and this packet */
    MARK_PACKET = 8,
    MARK_VALUE_SHR = 4,
};

/* The byte at an offset, which a mark says. */
static inline const uint8_t *ptd_mark_place(const struct ptd_packets *packets, uint64_t offset)
{
    return packets->begin + (offset - packets->base);
}

#endif
