/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items of the flow, to events of the guest that runs.
 *
 * What happened at the end of a block is told when the next block or event begins: only then it is
 * known who runs, in which address space and mode. Whose an item is, is asked of NR and of the VMCS
 * pointer. Behind a place where packets are missing, neither counts before it is told again; until
 * then nothing is anybody's.
 *
 * Of a run of steps, the first and the last are told as blocks, and so are those whose code is new.
 * Between them nothing happens but near branches, in one address space of one guest, or of nobody
 * whose trace is made.
 */
#include "demux/demux.h"
#include "demux/steps.h"
#include "demux/tell.h"

#include <errno.h>
#include <stdlib.h>

#define SEGMENT 0x10000u
#define SEEN    16384u              /* a power of two */
#define NO_VMCS 0x000ffffffffff000u /* a packet that says that there is none */

struct known {
    uint64_t vmcs;
    struct tenant *tenant;
    const struct ptd_time_vm *time; /* NULL: its TSC is not known */
    uint64_t space;                 /* whose code was told last */
};

/* A block whose code was told, and where it ends. */
struct seen {
    const struct tenant *tenant; /* NULL: free */
    uint64_t space, ip, last_ip, end, changes;
    uint8_t mode;
};

struct demux {
    struct demux_config config;
    struct seen seen[SEEN];
    struct demux_sums sums;
    struct last last;
    struct known all[DEMUX_TENANTS_MAX];
    size_t count;
    struct known *of_vmcs; /* NULL: none was asked for yet, or vmcs is not known */
    uint64_t vmcs;
    bool vmcs_known;
    uint8_t mode;
    struct known *inside; /* NULL: no guest runs whose trace is made */
    uint64_t tsc;         /* of the last item */
    uint64_t tsc_told;    /* to the guest that runs */
    uint64_t changes;     /* of the image, when the last item came */
    uint32_t epoch;       /* of the last run of steps */
    struct steps *steps;
    int error;
};

struct demux *demux_new(const struct demux_config *config)
{
    struct demux *const demux = calloc(1, sizeof(*demux));

    if (!demux)
        return NULL;
    demux->config = *config;
    demux->mode = PTD_MODE_64;
    demux->steps = steps_new();
    if (demux->steps)
        return demux;
    free(demux);
    return NULL;
}

void demux_free(struct demux *demux)
{
    if (demux)
        steps_free(demux->steps);
    free(demux);
}

/* ---- Who ---- */

/* Of a guest without offset and multiplier, the TSC would be the host's, or is not known. */
static const struct ptd_time_vm *time_of(const struct demux *demux, uint64_t vmcs)
{
    for (size_t i = 0; demux->config.has_time && i < demux->config.vm_count; i++) {
        const struct ptd_time_vm *const vm = &demux->config.vms[i];

        if (vm->vmcs == vmcs)
            return vm->offset || vm->multiplier ? vm : NULL;
    }
    return NULL;
}

static struct known *find(struct demux *demux)
{
    struct known *known;
    unsigned vm;

    for (size_t i = 0; i < demux->count; i++)
        if (demux->all[i].vmcs == demux->vmcs)
            return &demux->all[i];
    if (demux->count == DEMUX_TENANTS_MAX) {
        demux->error = -E2BIG;
        return NULL;
    }
    vm = ptd_space_vm(ptd_image_space(demux->config.image, true, demux->vmcs, 0));
    known = &demux->all[demux->count];
    known->vmcs = demux->vmcs;
    known->time = time_of(demux, demux->vmcs);
    demux->error = demux->config.found(demux->config.owner, vm == PTD_VM_UNKNOWN ? 0 : vm,
                                       demux->vmcs, known->time, &known->tenant);
    if (demux->error)
        return NULL;
    demux->count++;
    return known;
}

/* Who runs in VMX non-root operation. NULL: not known. */
static struct known *runs(struct demux *demux)
{
    if (!demux->of_vmcs && demux->vmcs_known && !demux->error)
        demux->of_vmcs = find(demux);
    return demux->of_vmcs;
}

static struct known *whose(struct demux *demux, const struct ptd_item *item)
{
    struct known *known;

    if (!item->nr || ptd_space_cr3(item->cr3) == PTD_ANY_CR3)
        return NULL;
    known = runs(demux);
    return known && known->tenant ? known : NULL;
}

static void set_vmcs(struct demux *demux, uint64_t vmcs)
{
    if (demux->vmcs_known && demux->vmcs == vmcs)
        return;
    demux->vmcs = vmcs;
    demux->vmcs_known = vmcs != NO_VMCS;
    demux->of_vmcs = NULL;
}

/* ---- Events of a guest ---- */

static uint64_t cr3_of(const struct tenant *tenant, uint64_t space)
{
    return tenant->hides_cr3 ? 0 : ptd_space_cr3(space);
}

/* No packet tells CPL. In a kernel of the upper half, the address does. */
static uint8_t cpl_of(const struct demux *demux, uint64_t space, uint64_t ip)
{
    struct ptd_context context;

    if (!demux->config.contexts)
        return ip >> 63 ? 0 : 3;
    ptd_contexts_find(demux->config.contexts, space, ip, &context);
    return context.who == PTD_GUEST_KERNEL || context.who == PTD_HOST_KERNEL ? 0 : 3;
}

static struct vpt_context context_at(const struct demux *demux, const struct tenant *tenant,
                                     uint64_t space, uint64_t ip)
{
    return (struct vpt_context){.cr3 = cr3_of(tenant, space),
                                .cpl = cpl_of(demux, space, ip),
                                .exec_mode = tell_exec_mode(demux->mode),
                                .pae = true,
                                .interrupts = true};
}

static struct seen *seen_at(struct demux *demux, const struct ptd_item *block)
{
    return &demux->seen[(block->ip ^ block->ip >> 14 ^ block->last_ip << 5 ^ block->cr3 >> 12) %
                        SEEN];
}

static bool is_seen(const struct demux *demux, const struct seen *seen,
                    const struct ptd_item *block)
{
    return seen->tenant == demux->inside->tenant && seen->ip == block->ip &&
           seen->last_ip == block->last_ip && seen->space == block->cr3 &&
           seen->mode == block->mode && seen->changes == demux->changes;
}

/* What happened last, in a guest that goes on at an address. */
static void tell_inside(struct demux *demux, const struct ptd_item *next, uint64_t ip)
{
    struct tenant *const tenant = demux->inside->tenant;
    const struct vpt_context after = context_at(demux, tenant, next->cr3, ip);

    demux->last.has_cr3 = demux->last.has_cr3 && !tenant->hides_cr3;
    switch (tell_last(&tenant->cpu, &demux->last, &after, ip)) {
    case TOLD_SAME:
        return;
    case TOLD_CR3:
        tenant->context.cr3 = after.cr3;
        break;
    case TOLD_CONTEXT:
        tenant->context = after;
        break;
    }
    tenant_moved(tenant);
}

/* ---- From one to another ---- */

static void set_time(struct demux *demux)
{
    const struct known *const known = demux->inside;

    if (known && known->time && demux->tsc != PTD_TIME_UNKNOWN && demux->tsc != demux->tsc_told) {
        demux->tsc_told = demux->tsc;
        tenant_time(known->tenant, ptd_time_guest_tsc(known->time, demux->tsc));
    }
}

static void enter(struct demux *demux, struct known *known, const struct ptd_item *next,
                  uint64_t ip)
{
    const struct vpt_context context = context_at(demux, known->tenant, next->cr3, ip);

    demux->inside = known;
    demux->tsc_told = PTD_TIME_UNKNOWN;
    set_time(demux);
    tenant_enter(known->tenant, ip, &context);
}

/*
 * The guest that ran does not run any more. What it did last has led to a VM exit, or to a place
 * that is not known.
 */
static void leave(struct demux *demux)
{
    const struct last *const last = &demux->last;
    struct tenant *const tenant = demux->inside->tenant;

    if (last->is_open && !last->is_block && last->has_from)
        tenant_leave(tenant, last->from);
    else
        tenant_lose(tenant, false);
    demux->inside = NULL;
}

/* The guest goes on. What no event has told, such as a mode that MOV CR0 changed, an entry tells.
 */
static void stay(struct demux *demux, const struct ptd_item *next, uint64_t ip)
{
    struct tenant *const tenant = demux->inside->tenant;
    struct vpt_context context;

    if (demux->last.is_open)
        tell_inside(demux, next, ip);
    if (tenant->context.cr3 == cr3_of(tenant, next->cr3) &&
        tenant->context.exec_mode == tell_exec_mode(demux->mode))
        return;
    context = context_at(demux, tenant, next->cr3, ip);
    tenant_leave(tenant, ip);
    tenant_enter(tenant, ip, &context);
}

/* The next block or event begins at an address. */
static void arrive(struct demux *demux, const struct ptd_item *next, uint64_t ip)
{
    struct known *const known = whose(demux, next);

    if (demux->inside && known == demux->inside)
        stay(demux, next, ip);
    else if (demux->inside)
        leave(demux);
    if (known && known != demux->inside)
        enter(demux, known, next, ip);
    demux->last = (struct last){.is_open = false};
}

/* A part of the trace is missing, or it was off: anybody may have run meanwhile. */
static void lose(struct demux *demux, bool off)
{
    for (size_t i = 0; i < demux->count; i++)
        if (demux->all[i].tenant)
            tenant_lose(demux->all[i].tenant, off);
    demux->inside = NULL;
    demux->last.is_open = demux->vmcs_known = false;
    demux->of_vmcs = NULL;
    demux->sums.losses += !off;
}

/* A near branch is over when the flow tells it, whatever comes then. */
static void settle_branch(struct demux *demux)
{
    const struct last *const last = &demux->last;

    if (!demux->inside || !last->is_open || !last->is_block || !last->has_to)
        return;
    (void)tell_near(&demux->inside->tenant->cpu, last, last->to);
    demux->last.is_open = false;
}

/* ---- Items ---- */

/* In 16-bit code, a near branch stays in its segment. */
static void put_base(struct demux *demux, const struct ptd_item *block, uint64_t end)
{
    const uint64_t from = block->to < end ? block->to : end;

    if (block->mode == PTD_MODE_16 && block->last_class >= PTD_INSN_COND &&
        block->last_class <= PTD_INSN_CALL_DIRECT && block->has_to &&
        (block->to > end ? block->to : end) - from < SEGMENT)
        tenant_base(demux->inside->tenant, end, from & ~UINT64_C(15));
}

/* Its code is known to whoever has the trace. The address behind it. */
static uint64_t put_code(struct demux *demux, const struct ptd_item *block)
{
    struct tenant *const tenant = demux->inside->tenant;
    struct seen *const seen = seen_at(demux, block);

    if (demux->inside->space != block->cr3 && !tenant_has_spaces(tenant))
        steps_forget(demux->steps); /* what stands in the log is the other's code */
    demux->inside->space = block->cr3;
    if (!is_seen(demux, seen, block) || !tenant_has_spaces(tenant)) {
        const uint64_t end = tell_block_end(demux->config.image, block);

        tenant_code(tenant, demux->config.image, block->cr3, block->ip, end);
        *seen = (struct seen){.tenant = tenant,
                              .space = block->cr3,
                              .ip = block->ip,
                              .last_ip = block->last_ip,
                              .end = end,
                              .changes = demux->changes,
                              .mode = block->mode};
    }
    put_base(demux, block, seen->end);
    return seen->end;
}

/* The address behind it, if it is a guest's whose trace is made. */
static uint64_t take_block(struct demux *demux, const struct ptd_item *block)
{
    uint64_t end = 0;

    demux->mode = block->mode;
    arrive(demux, block, block->ip);
    if (demux->inside) {
        demux->inside->tenant->insns += block->insns;
        end = put_code(demux, block);
    } else if (block->nr && !demux->of_vmcs) {
        demux->sums.unknown_insns += block->insns;
    }
    demux->last = last_block(block, end);
    return end;
}

static void take_async(struct demux *demux, const struct ptd_item *item)
{
    arrive(demux, item, item->from);
    demux->last = last_event(item);
}

/* PTWRITE, behind what was told last. */
static void take_ptwrite(struct demux *demux, const struct ptd_item *item)
{
    const struct last *const last = &demux->last;
    uint64_t ip = item->from;

    if (!demux->inside || (!item->has_from && !last->has_to))
        return;
    if (!item->has_from)
        ip = last->to;
    arrive(demux, item, last->is_open && last->has_to ? last->to : ip);
    if (demux->inside)
        vpt_ptwrite(&demux->inside->tenant->cpu, item->value, item->packet.ptw.payload_bytes, ip);
}

/* While the trace pauses, anybody may run. */
static void take_disabled(struct demux *demux, const struct ptd_item *item)
{
    if (demux->inside && item->has_from)
        arrive(demux, item, item->from);
    demux->last =
        (struct last){.is_open = item->has_from, .has_from = item->has_from, .from = item->from};
    if (demux->inside)
        leave(demux);
    lose(demux, true);
}

static void take_state(struct demux *demux, const struct ptd_item *item)
{
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_CR3:
        demux->last.has_cr3 = demux->last.has_cr3 || !item->in_psb;
        break;
    case PTD_ITEM_VMCS:
        set_vmcs(demux, item->value);
        break;
    case PTD_ITEM_MODE:
        demux->mode = (uint8_t)item->value;
        break;
    case PTD_ITEM_TSX:
        if (!item->in_psb) {
            demux->last.has_tsx = true;
            demux->last.tsx = item->value;
        }
        break;
    default:
        break;
    }
}

static void take_item(struct demux *demux, const struct ptd_item *item)
{
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_BLOCK:
        (void)take_block(demux, item);
        break;
    case PTD_ITEM_ASYNC:
        take_async(demux, item);
        break;
    case PTD_ITEM_DISABLED:
        take_disabled(demux, item);
        break;
    case PTD_ITEM_ENABLED:
        if (demux->inside) /* it cannot have been off */
            lose(demux, false);
        demux->last.is_open = false;
        break;
    case PTD_ITEM_OVERFLOW:
        settle_branch(demux);
        lose(demux, false);
        break;
    case PTD_ITEM_ERROR:
        if (item->error == PTD_E_NOMAP || item->error == PTD_E_RETSTACK)
            settle_branch(demux);
        lose(demux, false);
        break;
    case PTD_ITEM_PTWRITE:
        take_ptwrite(demux, item);
        break;
    default:
        take_state(demux, item);
        break;
    }
}

/* An output may fail at any time. */
static int error_of(const struct demux *demux)
{
    if (demux->inside && demux->inside->tenant->error)
        return demux->inside->tenant->error;
    return demux->error;
}

/* Whether code is as it was. */
static void see_changes(struct demux *demux)
{
    const uint64_t changes = ptd_image_changes(demux->config.image);

    if (demux->changes != changes)
        steps_forget(demux->steps);
    demux->changes = changes;
}

int demux_take(struct demux *demux, const struct ptd_item *item, const struct ptd_time_point *point)
{
    set_time(demux); /* of what happened last */
    demux->tsc = point ? point->tsc : PTD_TIME_UNKNOWN;
    see_changes(demux);
    take_item(demux, item);
    return error_of(demux);
}

/* ---- Steps ---- */

static uint8_t number_of(const struct demux *demux, const struct known *known)
{
    return (uint8_t)(known - demux->all);
}

/* The step with an index, as blocks. */
static void take_step(struct demux *demux, const struct ptd_flow *flow, const struct ptd_run *run,
                      size_t index)
{
    const bool is_last = index + 1 == run->count;
    struct ptd_item block;
    const struct known *inside = NULL;
    uint64_t end;

    for (size_t i = 0; ptd_step_block(flow, run->steps[index], i, &block) == PTD_OK; i++) {
        block.nr = run->nr;
        if (is_last && !block.has_to) {
            block.has_to = true;
            block.to = run->to;
        }
        end = take_block(demux, &block);
        set_time(demux);
        if (i == 0 && demux->inside) {
            inside = demux->inside;
            steps_begin(demux->steps, run->steps[index], number_of(demux, inside));
        }
        if (inside)
            steps_block(demux->steps, &block, end);
    }
    if (inside)
        steps_end(demux->steps);
}

/* Steps from an index on that nobody has: up to the last one. */
static size_t pass_foreign(struct demux *demux, const struct ptd_flow *flow,
                           const struct ptd_run *run, size_t index)
{
    const uint32_t *const insns = ptd_flow_insns(flow, NULL);

    if (run->nr && !demux->of_vmcs)
        for (size_t i = index; i + 1 < run->count; i++)
            demux->sums.unknown_insns += insns[run->steps[i] >> 2];
    return index + 1 < run->count ? run->count - 1 : index;
}

/* Behind a step that was taken as blocks: the next one that has to be. */
static size_t pass(struct demux *demux, const struct ptd_flow *flow, const struct ptd_run *run,
                   size_t index)
{
    if (!demux->inside)
        return pass_foreign(demux, flow, run, index);
    if (!step_is_near(demux->last.last_class))
        return index;
    return steps_tell(demux->steps, number_of(demux, demux->inside), &demux->inside->tenant->cpu,
                      run, index, &demux->last, &demux->inside->tenant->insns);
}

int demux_take_run(struct demux *demux, const struct ptd_flow *flow, const struct ptd_run *run,
                   const struct ptd_time_point *point)
{
    int error = 0;

    if (run->count > 0) {
        set_time(demux); /* of what happened last */
        demux->tsc = point ? point->tsc : PTD_TIME_UNKNOWN;
        see_changes(demux);
        if (run->epoch != demux->epoch)
            steps_forget(demux->steps);
        demux->epoch = run->epoch;
    }
    for (size_t i = 0; !error && i < run->count; i = pass(demux, flow, run, i + 1)) {
        take_step(demux, flow, run, i);
        error = error_of(demux);
    }
    return error || !run->has_item ? error : demux_take(demux, &run->item, point);
}

void demux_end(struct demux *demux, struct demux_sums *sums)
{
    settle_branch(demux); /* that the trace ends is no gap */
    *sums = demux->sums;
}
