/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libipt's ways to decode a trace: by blocks, as fast as it can, and packets. For tests,
 * tests/libipt.h has it tell each instruction.
 */
#ifndef PTD_BENCH_LIBIPT_H
#define PTD_BENCH_LIBIPT_H

#include "trace.h"

/* The number of instructions, by its block decoder; 0 after an error. */
uint64_t run_libipt(const struct trace *trace);
/* Blocks that run_libipt() found when it was called last. */
extern uint64_t libipt_blocks;
/* The number of packets; 0 after an error. */
uint64_t run_libipt_packets(const struct trace *trace);

#endif
