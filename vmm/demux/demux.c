/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items of the flow, to events of the guest that runs.
 *
 * What happened at the end of a block is told when the next block or event begins: only then it is
 * known who runs, in which address space and mode. Whose an item is, is asked of NR and of the VMCS
 * pointer. Behind a place where packets are missing, neither counts before it is told again; until
 * then nothing is anybody's.
 *
 * A virtual processor runs on one processor of the host at a time. So what is lost of one does not
 * concern those that run on others all the while.
 *
 * Of a run of steps, the first is told as blocks, unless it goes on where the run before ended, and
 * so are those whose code is new. Between them nothing happens but near branches, in one address
 * space of one guest, or of nobody whose trace is made.
 */
#include "demux/demux.h"
#include "common/list.h"
#include "common/table.h"
#include "demux/steps.h"
#include "demux/tell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT 0x10000u
#define SEEN    16384u              /* a power of two */
#define NO_VMCS 0x000ffffffffff000u /* a packet that says that there is none */

/* A virtual processor. */
struct guest {
    struct tenant *tenant;
    struct demux_cpu *on;           /* that it runs on; NULL: none */
    const struct demux_cpu *last;   /* that it ran on last; NULL: none */
    const struct ptd_time_vm *time; /* how its TSC differs, as was told last */
    uint64_t left;                  /* when it ran last: TSC, 0: never */
    uint64_t space;                 /* whose code was told last */
    uint8_t number;
};

/* What a VMCS pointer stands for. One virtual processor may have several. */
struct known {
    struct guest *guest;            /* NULL: its trace is not made */
    const struct ptd_time_vm *time; /* NULL: its TSC is not known */
};

/* A block whose code was told. */
struct seen {
    const struct tenant *tenant; /* NULL: free */
    uint64_t space, ip, last_ip, changes;
    uint8_t mode;
};

struct demux {
    struct demux_config config;
    struct demux_sums sums;
    struct guest guests[DEMUX_TENANTS_MAX];
    size_t guest_count;
    struct known *all;
    size_t count, room;
    struct table of_vmcs; /* in .all, plus 1 */
    uint64_t spaces;      /* how often the code of a guest became that of another address space */
    struct demux_cpu *cpus;
    size_t lost; /* of them, those of which it is not known what runs */
};

struct demux_cpu {
    struct demux *demux;
    struct demux_cpu *next; /* of the host's */
    const struct ptd_image *image;
    struct seen seen[SEEN];
    struct last last;
    uint64_t vmcs;
    struct known of_vmcs;           /* .guest NULL: nobody whose trace is made */
    struct guest *inside;           /* NULL: no guest runs whose trace is made */
    const struct ptd_time_vm *time; /* of the guest that runs */
    uint64_t lost_at;               /* if .is_lost, since when: TSC */
    uint64_t tsc;                   /* of the last item */
    uint64_t tsc_told;              /* to the guest that runs */
    uint64_t changes;               /* of the image, when the last item came */
    uint64_t spaces;                /* of demux, when it was looked at last */
    struct steps *steps;
    int number, error;
    uint8_t mode;
    bool is_timed; /* its trace tells the time */
    bool vmcs_known;
    bool is_found;   /* .of_vmcs was asked for */
    bool is_nobodys; /* nobody knows whose the VMCS pointer is */
    bool is_unknown; /* so is who ran last */
    bool is_lost;    /* what runs is not known, */
    bool is_cut;     /*   and that is not because the trace was off */
    bool goes_on;    /* behind the last step of a guest, nothing but time has passed */
};

struct demux *demux_new(const struct demux_config *config)
{
    struct demux *const demux = calloc(1, sizeof(*demux));

    if (demux)
        demux->config = *config;
    return demux;
}

void demux_free(struct demux *demux)
{
    if (!demux)
        return;
    table_free(&demux->of_vmcs);
    free(demux->all);
    free(demux);
}

struct demux_cpu *demux_cpu_new(struct demux *demux, int number)
{
    struct demux_cpu *const cpu = calloc(1, sizeof(*cpu));

    if (!cpu)
        return NULL;
    cpu->steps = steps_new();
    if (!cpu->steps) {
        free(cpu);
        return NULL;
    }
    cpu->demux = demux;
    cpu->number = number;
    cpu->next = demux->cpus;
    demux->cpus = cpu;
    cpu->tsc = PTD_TIME_UNKNOWN;
    cpu->is_lost = true; /* in front of its trace */
    demux->lost++;
    return cpu;
}

void demux_cpu_free(struct demux_cpu *cpu)
{
    if (cpu)
        steps_free(cpu->steps);
    free(cpu);
}

/* ---- Who ---- */

/* NULL: there are too many. */
static struct guest *guest_of(struct demux *demux, struct tenant *tenant)
{
    struct guest *guest = demux->guests;

    while (guest < demux->guests + demux->guest_count && guest->tenant != tenant)
        guest++;
    if (guest < demux->guests + demux->guest_count)
        return guest;
    if (demux->guest_count == DEMUX_TENANTS_MAX)
        return NULL;
    *guest = (struct guest){.tenant = tenant, .number = (uint8_t)demux->guest_count++};
    return guest;
}

/* Asks the owner. False: nobody knows whose it is, or *error says what failed. */
static bool ask(struct demux *demux, const struct ptd_image *image, uint64_t vmcs,
                struct known *known, int *error)
{
    const unsigned vm = ptd_space_vm(ptd_image_space(image, true, vmcs, 0));
    const struct ptd_time_vm *time = NULL;
    struct tenant *tenant = NULL;
    const int status = demux->config.found(demux->config.owner, vm == PTD_VM_UNKNOWN ? 0 : vm, vmcs,
                                           &time, &tenant);

    if (status != 0) {
        *error = status < 0 ? status : 0;
        return false;
    }
    *known = (struct known){.guest = tenant ? guest_of(demux, tenant) : NULL, .time = time};
    if (tenant && !known->guest)
        *error = -E2BIG;
    return *error == 0;
}

/* Those whose trace is made are kept. False: no memory. */
static bool keep(struct demux *demux, uint64_t vmcs, const struct known *known)
{
    struct sum *place;
    struct known *grown;

    if (!known->guest)
        return true;
    grown = list_grow(demux->all, demux->count, &demux->room, sizeof(*grown));
    if (!grown)
        return false;
    demux->all = grown;
    place = table_at(&demux->of_vmcs, vmcs, 0, 0);
    if (!place)
        return false;
    demux->all[demux->count++] = *known;
    place->count = demux->count;
    return true;
}

/* Who runs in VMX non-root operation. False: not known. */
static bool runs(struct demux_cpu *cpu)
{
    const struct sum *place;

    if (!cpu->vmcs_known || cpu->is_nobodys || cpu->error)
        return false;
    if (cpu->is_found)
        return true;
    place = table_find(&cpu->demux->of_vmcs, cpu->vmcs, 0, 0);
    if (place) {
        cpu->of_vmcs = cpu->demux->all[place->count - 1];
    } else if (!ask(cpu->demux, cpu->image, cpu->vmcs, &cpu->of_vmcs, &cpu->error)) {
        cpu->is_nobodys = cpu->error == 0;
        return false;
    } else if (!keep(cpu->demux, cpu->vmcs, &cpu->of_vmcs)) {
        cpu->error = -ENOMEM;
        return false;
    }
    cpu->is_found = true;
    return true;
}

/* Whether it is known who runs. */
static bool is_known(struct demux_cpu *cpu, bool nr, uint64_t space)
{
    return !nr || (ptd_space_cr3(space) != PTD_ANY_CR3 && runs(cpu));
}

/* NULL: nobody whose trace is made. */
static struct guest *whose(struct demux_cpu *cpu, const struct ptd_item *item)
{
    return item->nr && is_known(cpu, true, item->cr3) ? cpu->of_vmcs.guest : NULL;
}

static void set_vmcs(struct demux_cpu *cpu, uint64_t vmcs)
{
    if (cpu->vmcs_known && cpu->vmcs == vmcs)
        return;
    cpu->vmcs = vmcs;
    cpu->vmcs_known = vmcs != NO_VMCS;
    cpu->is_found = cpu->is_nobodys = false;
}

/* ---- Events of a guest ---- */

static uint64_t cr3_of(const struct tenant *tenant, uint64_t space)
{
    return tenant->hides_cr3 ? 0 : ptd_space_cr3(space);
}

/* No packet tells CPL. In a kernel of the upper half, the address does. */
static uint8_t cpl_of(const struct demux_cpu *cpu, uint64_t space, uint64_t ip)
{
    struct ptd_context context;

    if (!cpu->demux->config.contexts)
        return ip >> 63 ? 0 : 3;
    ptd_contexts_find(cpu->demux->config.contexts, space, ip, &context);
    return context.who == PTD_GUEST_KERNEL || context.who == PTD_HOST_KERNEL ? 0 : 3;
}

static struct vpt_context context_at(const struct demux_cpu *cpu, const struct tenant *tenant,
                                     uint64_t space, uint64_t ip)
{
    return (struct vpt_context){.cr3 = cr3_of(tenant, space),
                                .cpl = cpl_of(cpu, space, ip),
                                .exec_mode = tell_exec_mode(cpu->mode),
                                .pae = true,
                                .interrupts = true};
}

static struct seen *seen_at(struct demux_cpu *cpu, const struct ptd_item *block)
{
    return &cpu->seen[(block->ip ^ block->ip >> 14 ^ block->last_ip << 5 ^ block->cr3 >> 12) %
                      SEEN];
}

static bool is_seen(const struct demux_cpu *cpu, const struct seen *seen,
                    const struct ptd_item *block)
{
    return seen->tenant == cpu->inside->tenant && seen->ip == block->ip &&
           seen->last_ip == block->last_ip && seen->space == block->cr3 &&
           seen->mode == block->mode && seen->changes == cpu->changes;
}

/* What happened last, in a guest that goes on at an address. */
static void tell_inside(struct demux_cpu *cpu, const struct ptd_item *next, uint64_t ip)
{
    struct tenant *const tenant = cpu->inside->tenant;
    struct vpt_context after;

    if (cpu->last.is_block && !cpu->last.has_tsx && tell_near(&tenant->cpu, &cpu->last, ip))
        return; /* most of them: nothing of the state is another one */
    after = context_at(cpu, tenant, next->cr3, ip);
    cpu->last.has_cr3 = cpu->last.has_cr3 && !tenant->hides_cr3;
    switch (tell_last(&tenant->cpu, &cpu->last, &after, ip)) {
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

static void set_time(struct demux_cpu *cpu)
{
    struct guest *const guest = cpu->inside;
    const struct ptd_time_vm *const time = cpu->time;

    if (!guest || !time || cpu->tsc == PTD_TIME_UNKNOWN || cpu->tsc == cpu->tsc_told)
        return;
    if (guest->time && guest->time != time)
        tenant_new_time(guest->tenant);
    guest->time = time;
    cpu->tsc_told = cpu->tsc;
    tenant_time(guest->tenant, ptd_time_guest_tsc(time, cpu->tsc));
}

/* Whether it may have run on a processor while it was not known what runs there, up to now. */
static bool may_have_run(const struct guest *guest, const struct demux_cpu *lost, uint64_t now)
{
    const struct demux_config *const config = &lost->demux->config;
    const uint64_t from = guest->left > lost->lost_at ? guest->left : lost->lost_at;

    return !config->may_run || now == PTD_TIME_UNKNOWN ||
           config->may_run(config->owner, guest->tenant, lost->number, from, now);
}

static bool is_missed(const struct guest *guest, const struct demux_cpu *cpu)
{
    const struct demux *const demux = cpu->demux;
    const struct demux_cpu *lost = demux->lost > 0 ? demux->cpus : NULL;

    while (lost && !(lost->is_lost && may_have_run(guest, lost, cpu->tsc)))
        lost = lost->next;
    return lost;
}

/*
 * It may have run before, unseen, where it is not known what runs. Where another processor's trace
 * has not told that it left, the order of the two is not known either.
 */
static void enter(struct demux_cpu *cpu, struct guest *guest, const struct ptd_item *next,
                  uint64_t ip)
{
    const struct vpt_context context = context_at(cpu, guest->tenant, next->cr3, ip);

    if (guest->last && guest->last != cpu && !(guest->last->is_timed && cpu->is_timed))
        cpu->error = -EILSEQ;
    if (guest->on) {
        guest->on->inside = NULL;
        tenant_lose(guest->tenant, false);
    } else if (is_missed(guest, cpu)) {
        tenant_miss(guest->tenant, true);
    }
    guest->on = cpu;
    guest->last = cpu;
    cpu->inside = guest;
    cpu->time = cpu->of_vmcs.time;
    cpu->tsc_told = PTD_TIME_UNKNOWN;
    set_time(cpu);
    tenant_enter(guest->tenant, ip, &context);
}

static void set_out(struct demux_cpu *cpu)
{
    cpu->inside->on = NULL;
    if (cpu->tsc != PTD_TIME_UNKNOWN)
        cpu->inside->left = cpu->tsc;
    cpu->inside = NULL;
}

/*
 * The guest that ran does not run any more. What it did last has led to a VM exit, or to a place
 * that is not known.
 */
static void leave(struct demux_cpu *cpu)
{
    const struct last *const last = &cpu->last;
    struct tenant *const tenant = cpu->inside->tenant;

    if (last->is_open && !last->is_block && last->has_from)
        tenant_leave(tenant, last->from);
    else
        tenant_lose(tenant, false);
    set_out(cpu);
}

/* The guest goes on. What no event has told, such as a mode that MOV CR0 changed, an entry tells.
 */
static void stay(struct demux_cpu *cpu, const struct ptd_item *next, uint64_t ip)
{
    struct tenant *const tenant = cpu->inside->tenant;
    struct vpt_context context;

    if (cpu->last.is_open)
        tell_inside(cpu, next, ip);
    if (tenant->context.cr3 == cr3_of(tenant, next->cr3) &&
        tenant->context.exec_mode == tell_exec_mode(cpu->mode))
        return;
    context = context_at(cpu, tenant, next->cr3, ip);
    tenant_leave(tenant, ip);
    tenant_enter(tenant, ip, &context);
}

/* Whoever ran nowhere else may have run here meanwhile. */
static void tell_lost(struct demux_cpu *cpu)
{
    struct demux *const demux = cpu->demux;

    for (size_t i = 0; i < demux->guest_count; i++)
        if (!demux->guests[i].on && may_have_run(&demux->guests[i], cpu, cpu->tsc))
            tenant_miss(demux->guests[i].tenant, !cpu->is_cut);
}

/* It is known again who runs. */
static void find(struct demux_cpu *cpu)
{
    tell_lost(cpu);
    cpu->is_lost = cpu->is_cut = false;
    cpu->demux->lost--;
}

/* What an item is of runs. */
static void see(struct demux_cpu *cpu, const struct ptd_item *item)
{
    if (cpu->is_lost && (is_known(cpu, item->nr, item->cr3) || cpu->is_nobodys))
        find(cpu);
}

/* The next block or event begins at an address. */
static void arrive(struct demux_cpu *cpu, const struct ptd_item *next, uint64_t ip)
{
    struct guest *const guest = whose(cpu, next);

    see(cpu, next);
    cpu->is_unknown = !is_known(cpu, next->nr, next->cr3);
    if (cpu->inside && guest == cpu->inside) {
        stay(cpu, next, ip);
        cpu->time = cpu->of_vmcs.time;
    } else if (cpu->inside) {
        leave(cpu);
    }
    if (guest && guest != cpu->inside)
        enter(cpu, guest, next, ip);
    cpu->last = (struct last){.is_open = false};
}

/* From here on it is not known who runs. */
static void set_lost(struct demux_cpu *cpu, bool off)
{
    if (cpu->inside)
        set_out(cpu);
    cpu->last.is_open = cpu->vmcs_known = false;
    if (!cpu->is_lost) {
        cpu->demux->lost++;
        cpu->lost_at = cpu->tsc == PTD_TIME_UNKNOWN ? 0 : cpu->tsc;
    }
    cpu->is_lost = true;
    cpu->is_cut |= !off;
}

/* A part of the trace is missing, or it was off: anybody may run meanwhile. */
static void lose(struct demux_cpu *cpu, bool off)
{
    if (cpu->inside)
        tenant_lose(cpu->inside->tenant, off);
    set_lost(cpu, off);
    cpu->demux->sums.losses += !off;
}

/* A near branch is over when the flow tells it, whatever comes then. */
static void settle_branch(struct demux_cpu *cpu)
{
    const struct last *const last = &cpu->last;

    if (!cpu->inside || !last->is_open || !last->is_block || !last->has_to)
        return;
    (void)tell_near(&cpu->inside->tenant->cpu, last, last->to);
    cpu->last.is_open = false;
}

/* ---- Items ---- */

/* In 16-bit code, a near branch stays in its segment. */
static void put_base(struct demux_cpu *cpu, const struct ptd_item *block)
{
    const uint64_t end = tell_block_end(block);
    const uint64_t from = block->to < end ? block->to : end;

    if (block->mode == PTD_MODE_16 && block->last_class >= PTD_INSN_COND &&
        block->last_class <= PTD_INSN_CALL_DIRECT && block->has_to &&
        (block->to > end ? block->to : end) - from < SEGMENT)
        tenant_base(cpu->inside->tenant, end, from & ~UINT64_C(15));
}

/* Its code is known to whoever has the trace. */
static void put_code(struct demux_cpu *cpu, const struct ptd_item *block)
{
    struct tenant *const tenant = cpu->inside->tenant;
    struct seen *const seen = seen_at(cpu, block);

    if (cpu->inside->space != block->cr3 && !tenant_has_spaces(tenant)) {
        cpu->spaces = ++cpu->demux->spaces;
        steps_forget(cpu->steps); /* what stands in the log is the other's code */
    }
    cpu->inside->space = block->cr3;
    if (!tenant_wants_code(tenant))
        return;
    if (!is_seen(cpu, seen, block) || !tenant_has_spaces(tenant)) {
        tenant_code(tenant, cpu->image, block->cr3, block->ip, tell_block_end(block));
        *seen = (struct seen){.tenant = tenant,
                              .space = block->cr3,
                              .ip = block->ip,
                              .last_ip = block->last_ip,
                              .changes = cpu->changes,
                              .mode = block->mode};
    }
    put_base(cpu, block);
}

static void take_block(struct demux_cpu *cpu, const struct ptd_item *block)
{
    __builtin_prefetch(seen_at(cpu, block));
    cpu->mode = block->mode;
    arrive(cpu, block, block->ip);
    if (cpu->inside) {
        cpu->inside->tenant->insns += block->insns;
        put_code(cpu, block);
    } else if (cpu->is_unknown) {
        cpu->demux->sums.unknown_insns += block->insns;
    }
    cpu->last = last_block(block);
}

static void take_async(struct demux_cpu *cpu, const struct ptd_item *item)
{
    arrive(cpu, item, item->from);
    cpu->last = last_event(item);
}

/* PTWRITE, behind what was told last. */
static void take_ptwrite(struct demux_cpu *cpu, const struct ptd_item *item)
{
    const struct last *const last = &cpu->last;
    uint64_t ip = item->from;

    if (!cpu->inside || (!item->has_from && !last->has_to))
        return;
    if (!item->has_from)
        ip = last->to;
    arrive(cpu, item, last->is_open && last->has_to ? last->to : ip);
    if (cpu->inside)
        vpt_ptwrite(&cpu->inside->tenant->cpu, item->value, item->packet.ptw.payload_bytes, ip);
}

/* While the trace pauses, anybody may run. */
static void take_disabled(struct demux_cpu *cpu, const struct ptd_item *item)
{
    if (cpu->inside && item->has_from)
        arrive(cpu, item, item->from);
    cpu->last =
        (struct last){.is_open = item->has_from, .has_from = item->has_from, .from = item->from};
    if (cpu->inside)
        leave(cpu);
    lose(cpu, true);
}

static void take_state(struct demux_cpu *cpu, const struct ptd_item *item)
{
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_CR3:
        cpu->last.has_cr3 = cpu->last.has_cr3 || !item->in_psb;
        break;
    case PTD_ITEM_VMCS:
        set_vmcs(cpu, item->value);
        break;
    case PTD_ITEM_MODE:
        cpu->mode = (uint8_t)item->value;
        break;
    case PTD_ITEM_TSX:
        if (!item->in_psb) {
            cpu->last.has_tsx = true;
            cpu->last.tsx = item->value;
        }
        break;
    default:
        break;
    }
}

static void take_item(struct demux_cpu *cpu, const struct ptd_item *item)
{
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_BLOCK:
        take_block(cpu, item);
        break;
    case PTD_ITEM_ASYNC:
        take_async(cpu, item);
        break;
    case PTD_ITEM_DISABLED:
        take_disabled(cpu, item);
        break;
    case PTD_ITEM_ENABLED:
        if (cpu->inside) /* it cannot have been off */
            lose(cpu, false);
        cpu->last.is_open = false;
        see(cpu, item);
        break;
    case PTD_ITEM_OVERFLOW:
        settle_branch(cpu);
        lose(cpu, false);
        break;
    case PTD_ITEM_ERROR:
        if (item->error == PTD_E_NOMAP || item->error == PTD_E_RETSTACK)
            settle_branch(cpu);
        lose(cpu, false);
        break;
    case PTD_ITEM_PTWRITE:
        take_ptwrite(cpu, item);
        break;
    default:
        take_state(cpu, item);
        break;
    }
}

/* An output may fail at any time. */
static int error_of(const struct demux_cpu *cpu)
{
    if (cpu->inside && cpu->inside->tenant->error)
        return cpu->inside->tenant->error;
    return cpu->error;
}

/* Whether code is as it was, and what is told of it. */
static void see_changes(struct demux_cpu *cpu)
{
    const uint64_t changes = ptd_image_changes(cpu->image);

    if (cpu->changes != changes || cpu->spaces != cpu->demux->spaces)
        steps_forget(cpu->steps);
    cpu->changes = changes;
    cpu->spaces = cpu->demux->spaces;
}

int demux_take(struct demux_cpu *cpu, const struct ptd_item *item,
               const struct ptd_time_point *point)
{
    set_time(cpu); /* of what happened last */
    cpu->tsc = point ? point->tsc : PTD_TIME_UNKNOWN;
    cpu->goes_on = cpu->goes_on && (item->type == PTD_ITEM_TSC || item->type == PTD_ITEM_PACKET);
    see_changes(cpu);
    take_item(cpu, item);
    return error_of(cpu);
}

/* ---- Steps ---- */

/* The step with an index, as blocks. */
static void take_step(struct demux_cpu *cpu, const struct ptd_flow *flow, const struct ptd_run *run,
                      size_t index)
{
    const bool is_last = index + 1 == run->count;
    struct ptd_item block;
    const struct guest *inside = NULL;

    for (size_t i = 0; ptd_step_block(flow, run->steps[index], i, &block) == PTD_OK; i++) {
        block.nr = run->nr;
        if (is_last && !block.has_to) {
            block.has_to = true;
            block.to = run->to;
        }
        take_block(cpu, &block);
        set_time(cpu);
        if (i == 0 && cpu->inside) {
            inside = cpu->inside;
            steps_begin(cpu->steps, run->steps[index], inside->number);
        }
        if (inside)
            steps_block(cpu->steps, &block);
    }
    if (inside)
        steps_end(cpu->steps);
}

/* Steps from an index on that nobody has: up to the last one. */
static size_t pass_foreign(struct demux_cpu *cpu, const struct ptd_flow *flow,
                           const struct ptd_run *run, size_t index)
{
    const uint32_t *const insns = ptd_flow_insns(flow, NULL);

    if (cpu->is_unknown)
        for (size_t i = index; i + 1 < run->count; i++)
            cpu->demux->sums.unknown_insns += insns[run->steps[i] >> 2];
    return index + 1 < run->count ? run->count - 1 : index;
}

/* Behind a step that was taken as blocks: the next one that has to be. */
static size_t pass(struct demux_cpu *cpu, const struct ptd_flow *flow, const struct ptd_run *run,
                   size_t index)
{
    if (!cpu->inside)
        return pass_foreign(cpu, flow, run, index);
    if (!step_is_near(cpu->last.last_class))
        return index;
    return steps_tell(cpu->steps, cpu->inside->number, &cpu->inside->tenant->cpu, run, index,
                      &cpu->last, &cpu->inside->tenant->insns);
}

/*
 * The first steps of a run that goes on where the run before ended: the first one that has to be
 * taken as blocks.
 */
static size_t go_on(struct demux_cpu *cpu, const struct ptd_flow *flow, const struct ptd_run *run)
{
    uint64_t ip;

    if (!cpu->goes_on || !cpu->inside || !run->nr ||
        !steps_know(cpu->steps, run->steps[0], cpu->inside->number, &ip))
        return 0;
    (void)tell_near(&cpu->inside->tenant->cpu, &cpu->last, ip);
    cpu->last.is_open = false;
    set_time(cpu);
    return pass(cpu, flow, run, 0);
}

/* Whether the next run can go on there. */
static bool can_go_on(const struct demux_cpu *cpu)
{
    const struct last *const last = &cpu->last;

    return cpu->inside && last->is_open && last->is_block && step_is_near(last->last_class);
}

/* All steps of a run, of which there is one. */
static int take_steps(struct demux_cpu *cpu, const struct ptd_flow *flow, const struct ptd_run *run)
{
    size_t i;
    int error;

    if (run->nr && !steps_begin_run(cpu->steps, flow, run))
        return -ENOMEM;
    i = go_on(cpu, flow, run);
    error = error_of(cpu);

    while (!error && i < run->count) {
        take_step(cpu, flow, run, i);
        error = error_of(cpu);
        i = pass(cpu, flow, run, i + 1);
    }
    cpu->goes_on = can_go_on(cpu);
    return error;
}

int demux_take_run(struct demux_cpu *cpu, const struct ptd_flow *flow, const struct ptd_run *run,
                   const struct ptd_time_point *point)
{
    int error = 0;

    if (run->count > 0) {
        set_time(cpu); /* of what happened last */
        cpu->tsc = point ? point->tsc : PTD_TIME_UNKNOWN;
        see_changes(cpu);
        error = take_steps(cpu, flow, run);
    }
    return error || !run->has_item ? error : demux_take(cpu, &run->item, point);
}

/* ---- Traces ---- */

struct demux_cpu *demux_waits_for(struct demux_cpu *cpu, const struct ptd_run *run)
{
    const struct guest *guest;

    if (run->count > 0 ? !run->nr : !run->has_item || !run->item.nr)
        return NULL;
    guest = runs(cpu) ? cpu->of_vmcs.guest : NULL;
    return guest && guest->on != cpu ? guest->on : NULL;
}

void demux_cpu_begin(struct demux_cpu *cpu, const struct ptd_image *image, bool is_timed)
{
    cpu->is_cut = cpu->image != NULL; /* what lies between two traces is missing */
    cpu->image = image;
    cpu->is_timed = is_timed;
    cpu->mode = PTD_MODE_64;
    cpu->goes_on = false;
    cpu->changes = ptd_image_changes(image);
    memset(cpu->seen, 0, sizeof(cpu->seen));
    steps_forget(cpu->steps);
}

void demux_cpu_end(struct demux_cpu *cpu)
{
    struct guest *const inside = cpu->inside;

    settle_branch(cpu);
    if (cpu->is_lost && cpu->is_cut)
        tell_lost(cpu);
    set_lost(cpu, true);
    if (inside) /* that the trace ends is no gap, unless it runs again */
        tenant_miss(inside->tenant, true);
}

const struct demux_sums *demux_sums(const struct demux *demux)
{
    return &demux->sums;
}
