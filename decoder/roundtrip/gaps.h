/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether what is told of a trace is right when a part of its code is missing: each item has to be
 * one that is found with all code, at the same place of the trace, and between two errors nothing
 * may be left out.
 */
#ifndef ROUNDTRIP_GAPS_H
#define ROUNDTRIP_GAPS_H

#include "ptdec.h"

struct gaps_trace {
    const void *bytes;
    size_t len_bytes;
    const struct ptd_image *whole, *part; /* all code, and what is left of it */
    struct ptd_flow_config config;        /* .resync is what is tried */
};

struct gaps_verdict {
    uint64_t known, told; /* instructions in code that is left: that ran, that were told */
    uint64_t gaps, lost_bytes;
    uint64_t wrong;       /* items that were told and did not happen */
    char difference[160]; /* the first of them, in words */
};

struct gaps_verdict gaps_check(const struct gaps_trace *trace);

#endif
