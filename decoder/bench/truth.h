/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program did, in three numbers: recorded while it ran, and found again in its trace. */
#ifndef PTD_BENCH_TRUTH_H
#define PTD_BENCH_TRUTH_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Of the processor: its TSC counts instructions. The profile is "skylake". */
#define TRUTH_TSC_DEN  2u
#define TRUTH_TSC_NUM  216u
#define TRUTH_RATIO    26u
#define TRUTH_MTC_FREQ 3u

struct truth {
    uint64_t insns, branches;
    uint64_t sum; /* of the sequence of branches */
};

static inline void truth_start(struct truth *truth)
{
    *truth = (struct truth){.sum = 0xcbf29ce484222325u};
}

/* The branch at ip went to target (or was not taken: on to the next instruction). */
static inline void truth_add(struct truth *truth, uint64_t ip, uint64_t target)
{
    truth->branches++;
    truth->sum = (truth->sum ^ ip ^ (target << 32 | target >> 32)) * 0x100000001b3u;
}

static inline void truth_write(const struct truth *truth, FILE *file)
{
    fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIx64 "\n", truth->insns, truth->branches,
            truth->sum);
}

static inline bool truth_read(struct truth *truth, FILE *file)
{
    return fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNx64, &truth->insns, &truth->branches,
                  &truth->sum) == 3;
}

static inline bool truth_equal(const struct truth *a, const struct truth *b)
{
    return a->insns == b->insns && a->branches == b->branches && a->sum == b->sum;
}

#endif
