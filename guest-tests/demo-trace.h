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

/* One kind of trace: Intel PT, or RTIT. */
struct tracer {
    /* Prints what the processor can do. */
    void (*print_caps)(void);
    /* Allocates buffers and tables, and says in a line for which output scheme. */
    void (*init)(enum pmi_mode pmi_mode);
    /* Starts tracing, with these bits of the control MSR besides what the demo needs. False: #GP.
     */
    bool (*start)(uint64_t extra_ctl);
    /* Hands over what is there, where no PMI does it: call it often. */
    void (*poll)(void);
    /* Stops and hands over the rest. */
    void (*stop)(void);
    const struct trace_stats *(*stats)(void);
};
extern const struct tracer pt_tracer, rtit_tracer;

#endif
