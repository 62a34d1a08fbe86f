/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From traces of a host and its guests to one trace a virtual processor. The flow of the host's
 * traces is told to the model as events of the guest alone (docs/demux.md).
 */
#ifndef VMM_DEMUX_DEMUX_H
#define VMM_DEMUX_DEMUX_H

#include "demux/tenant.h"

#define DEMUX_TENANTS_MAX 256u

/* A host, and the virtual processors that were seen on its processors. */
struct demux;
/* A processor of the host, which has a trace, or several that follow each other. */
struct demux_cpu;

struct demux_config {
    const struct ptd_contexts *contexts; /* NULL: VMs have no names */
    /*
     * Whose VMCS pointer is it? vm is its VM's number, 0 if it is not known. The pointer itself is
     * nobody else's business. *tenant stays NULL for a virtual processor that is not wanted; *time
     * is how its TSC differs, and stays NULL if that is not known. 0; 1: nobody knows; or -errno,
     * which demux_take() then returns, as it does -E2BIG if there are more than DEMUX_TENANTS_MAX.
     */
    int (*found)(void *owner, unsigned vm, uint64_t vmcs, const struct ptd_time_vm **time,
                 struct tenant **tenant);
    /*
     * Whether a virtual processor may have run on a processor of the host at some time from one TSC
     * to another. NULL: that is not known, so that it may.
     */
    bool (*may_run)(void *owner, const struct tenant *tenant, int cpu, uint64_t from, uint64_t to);
    void *owner;
};

/* What no trace has, since nobody knows whose it is. */
struct demux_sums {
    uint64_t losses;        /* places where a part of the host's trace is missing */
    uint64_t unknown_insns; /* of guests of which nothing tells whose they are */
};

/* config is copied. NULL: no memory. */
struct demux *demux_new(const struct demux_config *config);
/* Behind its processors. */
void demux_free(struct demux *demux);
const struct demux_sums *demux_sums(const struct demux *demux);

/* number is for .may_run. Lives as long as the others. NULL: no memory. */
struct demux_cpu *demux_cpu_new(struct demux *demux, int number);
void demux_cpu_free(struct demux_cpu *cpu);
/* A trace of it begins, which is decoded with this image, and tells the time. */
void demux_cpu_begin(struct demux_cpu *cpu, const struct ptd_image *image, bool is_timed);
/* It ends. */
void demux_cpu_end(struct demux_cpu *cpu);
/*
 * The next item of the flow, and its time; NULL: not known. 0 or -errno; -EILSEQ: a virtual
 * processor ran on several processors, and without their times this has no order.
 */
int demux_take(struct demux_cpu *cpu, const struct ptd_item *item,
               const struct ptd_time_point *point);
/*
 * The same of a run of steps and the item behind them, as ptd_stream_run() gave them: flow is
 * that of the run, and point their time.
 */
int demux_take_run(struct demux_cpu *cpu, const struct ptd_flow *flow, const struct ptd_run *run,
                   const struct ptd_time_point *point);
/*
 * Of a run that was not told yet: whose virtual processor runs in it has not left another processor
 * of the host, as far as that one's trace was told. It is better told first. NULL: there is none.
 */
struct demux_cpu *demux_waits_for(struct demux_cpu *cpu, const struct ptd_run *run);

#endif
