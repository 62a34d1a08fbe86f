/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracing for the demo: buffers, start and stop, and the way of the trace to the host.
 */
#ifndef GUEST_DEMO_TRACE_H
#define GUEST_DEMO_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "apic.h"

struct trace_stats {
    uint64_t bytes;  /* handed over */
    uint64_t pmis;   /* interrupts with Trace_ToPA_PMI set */
    uint64_t stops;  /* times that the buffer was full, so trace may be lost */
    uint64_t errors; /* times that STATUS.Error was set */
};

/* Prints what CPUID enumerates. */
void trace_print_caps(void);
/* Allocates buffers and tables, and says in a line for which output scheme. */
void trace_init(enum pmi_mode pmi_mode);
/* Starts tracing, with these bits of IA32_RTIT_CTL besides what the demo needs. False: #GP. */
bool trace_start(uint64_t extra_ctl);
/* Hands over what is there, where no PMI does it: call it often. */
void trace_poll(void);
/* Stops and hands over the rest. */
void trace_stop(void);
const struct trace_stats *trace_stats(void);

#endif
