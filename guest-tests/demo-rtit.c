/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The demo's way to trace with RTIT: a ring in memory that wraps, emptied by polling.
 *
 * A WRMSR to RTIT_CTL, even of the value that it has, brings all packets to memory (3.3.2); and one
 * that clears OS and USER ends with a FUP.PGD, which clearing TraceActive need not. Trace_En and
 * TraceActive must not change in the same WRMSR.
 */
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "demo-trace.h"
#include "memory.h"
#include "rtit.h"

#define RING_BYTES 0x100000ull
#define POLL_EVERY 16

static struct trace_stats stats;
static uint64_t ring_phys, done;

static void print_caps(void)
{
    printf("RTIT: 2 address ranges\n");
}

static void init(enum pmi_mode mode)
{
    (void)mode; /* there is no PMI */
    ring_phys = phys_alloc(RING_BYTES, RING_BYTES);
    printf("output: a ring, polled\n");
}

/* Everything up to the position of the output, which must stand still. */
static void hand_over_new(void)
{
    uint64_t offset = rdmsr(MSR_RTIT_OFFSET) & (RING_BYTES - 1);

    if (offset < done) {
        note_trace(ring_phys + done, RING_BYTES - done);
        stats.bytes += RING_BYTES - done;
        done = 0;
    }
    if (offset > done) {
        note_trace(ring_phys + done, offset - done);
        stats.bytes += offset - done;
        done = offset;
    }
}

static bool start(uint64_t extra_ctl)
{
    uint64_t ctl = RTIT_TRACE_EN | RTIT_OS | RTIT_USER | RTIT_DEST | RTIT_MTC_EN | RTIT_STS_EN |
                   RTIT_CMPRS_RET | extra_ctl;

    wrmsr(MSR_RTIT_BASE_ADDR, ring_phys);
    wrmsr(MSR_RTIT_LIMIT_MASK, RING_BYTES - 1);
    wrmsr(MSR_RTIT_OFFSET, 0);
    wrmsr(MSR_RTIT_EVENTS, RTIT_EVENTS_OF(RTIT_ID_ON, RTIT_ID_OFF));
    return wrmsr_safe(MSR_RTIT_OLD_CTL, ctl) == 0 &&
           wrmsr_safe(MSR_RTIT_OLD_CTL, ctl | RTIT_TRACE_ACTIVE) == 0;
}

static void poll(void)
{
    static unsigned calls;

    if (++calls % POLL_EVERY)
        return;
    wrmsr(MSR_RTIT_OLD_CTL, rdmsr(MSR_RTIT_OLD_CTL));
    hand_over_new();
}

static void stop(void)
{
    uint64_t ctl = rdmsr(MSR_RTIT_OLD_CTL);

    wrmsr(MSR_RTIT_OLD_CTL, ctl & ~(RTIT_OS | RTIT_USER));
    wrmsr(MSR_RTIT_OLD_CTL, ctl & ~(RTIT_OS | RTIT_USER | RTIT_TRACE_ACTIVE));
    wrmsr(MSR_RTIT_OLD_CTL, 0);
    hand_over_new();
}

static const struct trace_stats *get_stats(void)
{
    return &stats;
}

const struct tracer rtit_tracer = {print_caps, init, start, poll, stop, get_stats};
