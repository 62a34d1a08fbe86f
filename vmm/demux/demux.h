/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a trace of a host and its guests to one trace a virtual processor. The flow of the host's
 * trace is told to the model as events of the guest alone (docs/demux.md).
 */
#ifndef VMM_DEMUX_DEMUX_H
#define VMM_DEMUX_DEMUX_H

#include "demux/tenant.h"

#define DEMUX_TENANTS_MAX 256u

struct demux;

struct demux_config {
    const struct ptd_image *image;
    const struct ptd_contexts *contexts; /* NULL: VMs have no names */
    const struct ptd_time_vm *vms;       /* whose TSC is known */
    size_t vm_count;
    bool has_time; /* items have their time */
    /*
     * A virtual processor is seen for the first time: vm is its VM's number, 0 if it is not known,
     * and vmcs its VMCS pointer, which is nobody else's business. *tenant is NULL for one that is
     * not wanted. 0 or -errno; then demux_take() returns it.
     */
    int (*found)(void *owner, unsigned vm, uint64_t vmcs, const struct ptd_time_vm *time,
                 struct tenant **tenant);
    void *owner;
};

/* What no trace has, since nobody knows whose it is. */
struct demux_sums {
    uint64_t losses;        /* places where a part of the host's trace is missing */
    uint64_t unknown_insns; /* of guests whose VMCS was not told */
};

/* config is copied. NULL: no memory. */
struct demux *demux_new(const struct demux_config *config);
void demux_free(struct demux *demux);
/* The next item of the flow, and its time. 0 or -errno. */
int demux_take(struct demux *demux, const struct ptd_item *item,
               const struct ptd_time_point *point);
/*
 * The same of a run of steps and the item behind them, as ptd_stream_run() gave them: flow is
 * ptd_stream_flow(), and point their time.
 */
int demux_take_run(struct demux *demux, const struct ptd_flow *flow, const struct ptd_run *run,
                   const struct ptd_time_point *point);
/* There are no more. */
void demux_end(struct demux *demux, struct demux_sums *sums);

#endif
