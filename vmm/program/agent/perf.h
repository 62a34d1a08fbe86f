/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest's own perf, which records the program besides. */
#ifndef VMM_PROGRAM_AGENT_PERF_H
#define VMM_PROGRAM_AGENT_PERF_H

#include "job.h"

/*
 * Starts perf on a program that has stopped in front of its first instruction, and lets that go on
 * when perf records it. Fails by port_fail().
 */
void perf_begin(const struct job *job, pid_t program);
/* Ends it, and sends what it wrote. Fails by port_fail(). */
void perf_end(void);

#endif
