/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a clock: time.c takes packets, marks.c the marks of ptd_flow_run(). */
#ifndef PTD_TIMING_H
#define PTD_TIMING_H

#include "base/extents.h"
#include "ptdec.h"

__extension__ typedef __int128 ticks; /* 2^-32 TSC ticks */

#define FRACTION 32
#define NEVER    ((ticks)1 << 120)
#define TOO_LATE ((ticks)1 << (64 + FRACTION)) /* no TSC is so high */

/* Ratios are 1 to 255, so no rate is beyond these. */
#define RATE_MIN ((UINT64_C(1) << FRACTION) / 255)
#define RATE_MAX (UINT64_C(255) << FRACTION)

struct span {
    ticks first, last;
};

struct rate {
    uint64_t least, most;
};

/* A count of cycles: cycles to cycles + slack. */
struct count {
    uint64_t cycles, slack;
};

/* A point in time whose count of cycles is known too. */
struct anchor {
    struct span time;
    struct count at;
};

struct ptd_time {
    struct ptd_time_config config;
    struct extents vms;   /* those of config by VMCS; .number is the index */
    uint64_t period;      /* crystal clocks from one MTC to the next */
    uint64_t clock_ticks; /* 2^-32 TSC ticks a crystal clock, if that is exact; else 0 */
    uint64_t cyc_slack;   /* cycles that may pass uncounted below the threshold */

    /* Of the last packet. */
    ticks earliest, latest, estimate;
    ticks counted; /* latest by CYC packets alone */

    /* From TSC and MTC packets only. */
    ticks floor, ceiling;
    struct span hard; /* the last of these packets, and how many there were */
    uint64_t hard_count, set_backs;

    struct span tsc;          /* the last TSC packet */
    struct span phase;        /* when the crystal clock was at art_base */
    uint64_t art_base, art;   /* art: at the last TMA or MTC */
    struct span base;         /* the edge of the core clock that the last CYC counted to */
    ticks guess;              /* in base */
    ticks before_base;        /* base.first one CYC earlier */
    uint64_t cycles;          /* counted so far */
    uint64_t offset;          /* of the last packet */
    struct rate rate;         /* TSC ticks a core cycle */
    struct rate next_rate;    /* of the CYC that a CBR packet divides */
    struct anchor anchor;     /* where calibration began */
    struct anchor tsc_anchor; /* the last TSC packet */

    uint64_t vmcs;
    struct ptd_packet waiting_tsc, waiting_tma;
    struct count waiting_at;

    /* The TSC or MTC packet that stands next in the trace. */
    uint64_t look_offset;
    struct span look;
    ticks told; /* the last estimate that was given away, what stands ahead being known */
    bool looked;

    bool known; /* some TSC packet was read */
    bool tma_due, tsc_since_mtc;
    bool floor_by_mtc; /* floor is the earliest edge that art can have */
    bool phase_known, phase_by_tma, mtc_seen;
    bool cyc_seen, exact, base_known, calibrating;
    bool nonroot, in_psb, psb_has_fup, psb_has_tsc, tsc_waits, tma_waits;
    uint8_t type;     /* of the last packet */
    uint8_t art_bits; /* so many low bits of art are those of the hardware */
    uint8_t cbr;
};

static inline ticks later(ticks a, ticks b)
{
    return a > b ? a : b;
}

static inline ticks sooner(ticks a, ticks b)
{
    return a < b ? a : b;
}

#endif
