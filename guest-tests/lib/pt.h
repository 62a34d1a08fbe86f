/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel PT as a guest sees it: MSRs and their bits (33.2.8), ToPA entries (33.2.7.2), what CPUID
 * enumerates (33.3.1), and where output has got to.
 */
#ifndef GUEST_PT_H
#define GUEST_PT_H

#include <stdbool.h>
#include <stdint.h>

/* ---- MSRs --------------------------------------------------------------------------------- */

#define MSR_RTIT_OUTPUT_BASE      0x560u
#define MSR_RTIT_OUTPUT_MASK_PTRS 0x561u
#define MSR_RTIT_CTL              0x570u
#define MSR_RTIT_STATUS           0x571u
#define MSR_RTIT_CR3_MATCH        0x572u
#define MSR_RTIT_ADDR0_A          0x580u /* then ADDR0_B, ADDR1_A, ... */
#define MSR_PERF_GLOBAL_STATUS    0x38eu
#define MSR_PERF_GLOBAL_CTRL      0x38fu
#define MSR_PERF_GLOBAL_RESET     0x390u

#define PERF_TOPA_PMI (1ull << 55)

/* IA32_RTIT_CTL, Table 33-6 */
#define CTL_TRACEEN         (1ull << 0)
#define CTL_CYCEN           (1ull << 1)
#define CTL_OS              (1ull << 2)
#define CTL_USER            (1ull << 3)
#define CTL_PWREVTEN        (1ull << 4)
#define CTL_FUPONPTW        (1ull << 5)
#define CTL_FABRICEN        (1ull << 6)
#define CTL_CR3FILTER       (1ull << 7)
#define CTL_TOPA            (1ull << 8)
#define CTL_MTCEN           (1ull << 9)
#define CTL_TSCEN           (1ull << 10)
#define CTL_DISRETC         (1ull << 11)
#define CTL_PTWEN           (1ull << 12)
#define CTL_BRANCHEN        (1ull << 13)
#define CTL_MTCFREQ_SHIFT   14
#define CTL_CYCTHRESH_SHIFT 19
#define CTL_PSBFREQ_SHIFT   24
#define CTL_EVENTEN         (1ull << 31)
#define CTL_ADDR_CFG_SHIFT  32 /* 4 bits each */
#define CTL_DISTNT          (1ull << 55)
#define CTL_INJECT_PSB_PMI  (1ull << 56)
#define ADDR_CFG_FILTER     1ull
#define ADDR_CFG_TRACESTOP  2ull

/* IA32_RTIT_STATUS, Table 33-7 */
#define STATUS_FILTEREN      (1ull << 0)
#define STATUS_CONTEXTEN     (1ull << 1)
#define STATUS_TRIGGEREN     (1ull << 2)
#define STATUS_ENABLES       (7ull << 0)
#define STATUS_ERROR         (1ull << 4)
#define STATUS_STOPPED       (1ull << 5)
#define STATUS_PENDPSB       (1ull << 6)
#define STATUS_PENDTOPAPMI   (1ull << 7)
#define STATUS_BYTECNT_SHIFT 32
#define STATUS_BYTECNT       (0x1ffffull << STATUS_BYTECNT_SHIFT)

/* IA32_RTIT_OUTPUT_MASK_PTRS, Table 33-9 */
#define MASK_PTRS_FORCED 0x7full

/* ToPA entries, Table 33-3 */
#define TOPA_END        (1ull << 0)
#define TOPA_INT        (1ull << 2)
#define TOPA_STOP       (1ull << 4)
#define TOPA_SIZE_SHIFT 6 /* the region is 4 KiB << field */

/* ---- CPUID -------------------------------------------------------------------------------- */

struct pt_caps {
    bool present;    /* if not, everything of leaf 14H below is 0 */
    bool enumerated; /* CPUID.7.0:EBX[25] says so, as it should where it is present */
    /* CPUID.14H.0:EBX[0] to [8] */
    bool cr3_filter, psb_cyc, ip_filter, mtc, ptwrite, power, preserve, event, dis_tnt;
    /* CPUID.14H.0:ECX[0] to [3] and [31] */
    bool topa, multi_entry, single_range, fabric, lip;
    /* CPUID.14H.1 */
    unsigned ranges;
    uint16_t mtc_map, cyc_map, psb_map;
    /* From other leaves */
    unsigned phys_bits, linear_bits;
    unsigned perf_version, perf_counters, perf_fixed;
};

/* What this processor enumerates; the same object at each call. */
const struct pt_caps *pt_caps(void);
/* Whether output goes to memory at all, hence whether MSRs 560H and 561H exist. */
bool pt_memory_output(const struct pt_caps *caps);

/* ---- Output ------------------------------------------------------------------------------- */

/* A ToPA entry for a region of 4 KiB << size. */
static inline uint64_t topa_entry(uint64_t phys, unsigned size, uint64_t flags)
{
    return phys | (uint64_t)size << TOPA_SIZE_SHIFT | flags;
}

/* IA32_RTIT_OUTPUT_MASK_PTRS for the entry with this index, and an offset into its region. */
static inline uint64_t topa_pointers(unsigned index, uint32_t offset)
{
    return (uint64_t)offset << 32 | (uint64_t)index << 7 | MASK_PTRS_FORCED;
}

/* Where output stands, as the two MSRs say while TraceEn is 0. */
struct pt_position {
    uint64_t base;   /* of the table, or of the single range */
    unsigned index;  /* ToPA: entry of the table */
    uint32_t offset; /* into the region */
};

struct pt_position pt_position(void);

/*
 * Branches between two mappings of the same code, so that each of the `branches` costs a TIP packet
 * with a payload of 6 bytes or more, with BranchEn and OS. How many bytes of trace that is, is the
 * processor's choice: trace_branches() finds it out.
 */
void pt_spray(uint64_t branches);

#endif
