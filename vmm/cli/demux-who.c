/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual processors of a perf.data, see demux-who.h. */
#include "cli/demux-who.h"
#include "common/list.h"
#include "common/table.h"

#include <stdlib.h>

/* A thread that is a virtual processor. */
struct vcpu {
    unsigned vm, index;    /* index counts those of the VM, as the map has them */
    bool has_tsc;          /* at all times, and at one rate */
    uint64_t multiplier;   /* of its TSC */
    struct tenant *tenant; /* NULL: not seen yet */
    size_t first, count;   /* of its stays */
};

/* A thread that is a virtual processor had a processor of the host. */
struct stay {
    uint64_t from, to; /* TSC */
    uint32_t vcpu, cpu;
};

struct demux_who {
    struct demux_who_config config;
    struct ptd_time_vm *times; /* by VMCS pointer */
    size_t time_count;
    struct vcpu *vcpus;
    size_t vcpu_count;
    struct table of_thread; /* in vcpus, plus 1, by VM and thread */
    struct table of_vm;     /* how many of its threads, and pointers, have a number */
    struct stay *stays;     /* by virtual processor, then by time */
    size_t stay_count, stay_room;
    bool knows_stays; /* all of them are told */
};

/* ---- Who ---- */

static int by_vmcs(const void *left, const void *right)
{
    const struct ptd_time_vm *const a = left, *const b = right;

    return a->vmcs < b->vmcs ? -1 : a->vmcs > b->vmcs;
}

static const struct ptd_time_vm *time_of(const struct demux_who *who, uint64_t vmcs)
{
    const struct ptd_time_vm key = {.vmcs = vmcs};

    return who->time_count ? bsearch(&key, who->times, who->time_count, sizeof(key), by_vmcs)
                           : NULL;
}

/* The next number of a VM's processors. NULL: no memory. */
static struct sum *count_of(struct demux_who *who, unsigned vm)
{
    return table_at(&who->of_vm, vm, 0, 0);
}

/* False: no memory. */
static bool add_vcpu(struct demux_who *who, const struct ptd_perf_vcpu *entry)
{
    const unsigned vm = ptd_space_vm(ptd_image_space(who->config.image, true, entry->vmcs, 0));
    const struct ptd_time_vm *const time = time_of(who, entry->vmcs);
    const uint64_t multiplier = time ? time->multiplier : 0;
    struct sum *const place = table_at(&who->of_thread, vm, entry->tid, 0);
    struct sum *const count = count_of(who, vm);
    struct vcpu *vcpu;

    if (!place || !count)
        return false;
    if (place->count == 0) {
        who->vcpus[who->vcpu_count++] = (struct vcpu){
            .vm = vm, .index = (unsigned)count->count++, .has_tsc = true, .multiplier = multiplier};
        place->count = who->vcpu_count;
    }
    vcpu = &who->vcpus[place->count - 1];
    vcpu->has_tsc = vcpu->has_tsc && entry->has_tsc && time && multiplier == vcpu->multiplier;
    return true;
}

static bool take_map(struct demux_who *who)
{
    const struct ptd_perf_session *const session = who->config.session;

    who->vcpus = calloc(who->config.map->vcpu_count + 1, sizeof(*who->vcpus));
    who->times = calloc(session->vm_count + 1, sizeof(*who->times));
    if (!who->vcpus || !who->times)
        return false;
    for (; who->time_count < session->vm_count; who->time_count++)
        who->times[who->time_count] = session->vms[who->time_count];
    qsort(who->times, who->time_count, sizeof(*who->times), by_vmcs);
    for (size_t i = 0; i < who->config.map->vcpu_count; i++)
        if (!add_vcpu(who, &who->config.map->vcpus[i]))
            return false;
    return true;
}

/* ---- Where, as context switches tell ---- */

struct switched {
    struct demux_who *who;
    struct table open;    /* in stays, plus 1, by processor */
    struct table of_tid;  /* in vcpus, plus 1 */
    struct table had_one; /* processors with a switch */
};

static size_t vcpu_of(const struct switched *switched, uint32_t tid)
{
    const struct sum *const found = table_find(&switched->of_tid, tid, 0, 0);

    return found ? (size_t)found->count : 0;
}

static bool begin_stay(struct switched *switched, uint32_t cpu, size_t vcpu, uint64_t from)
{
    struct demux_who *const who = switched->who;
    struct sum *const open = table_at(&switched->open, cpu, 0, 0);
    struct stay *grown;

    if (!open)
        return false;
    open->count = 0;
    if (!vcpu)
        return true;
    grown = list_grow(who->stays, who->stay_count, &who->stay_room, sizeof(*grown));
    if (!grown)
        return false;
    who->stays = grown;
    who->stays[who->stay_count++] =
        (struct stay){.from = from, .to = UINT64_MAX, .vcpu = (uint32_t)(vcpu - 1), .cpu = cpu};
    open->count = who->stay_count;
    return true;
}

/* Whoever had the processor had it from the begin on if nothing tells since when. */
static bool end_stay(struct switched *switched, uint32_t cpu, size_t vcpu, uint64_t to)
{
    struct sum *const had_one = table_at(&switched->had_one, cpu, 0, 0);
    const struct sum *open;

    if (!had_one)
        return false;
    if (had_one->count++ == 0 && !begin_stay(switched, cpu, vcpu, 0))
        return false;
    open = table_find(&switched->open, cpu, 0, 0);
    if (open && open->count)
        switched->who->stays[open->count - 1].to = to;
    return true;
}

static bool add_switch(struct switched *switched, const struct ptd_perf_switch *at)
{
    const uint64_t tsc = ptd_perf_tsc_of_time(&switched->who->config.session->pt, at->time);
    const size_t that = vcpu_of(switched, at->tid);
    const size_t other = at->has_other ? vcpu_of(switched, at->other_tid) : 0;

    return end_stay(switched, at->cpu, at->out ? that : other, tsc) &&
           begin_stay(switched, at->cpu, at->out ? other : that, tsc);
}

static int by_vcpu(const void *left, const void *right)
{
    const struct stay *const a = left, *const b = right;

    if (a->vcpu != b->vcpu)
        return a->vcpu < b->vcpu ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

static bool add_switches(struct switched *switched)
{
    struct demux_who *const who = switched->who;
    const struct ptd_perf_session *const session = who->config.session;
    bool ok = true;

    for (size_t i = 0; ok && i < who->config.map->vcpu_count; i++) {
        const struct ptd_perf_vcpu *const entry = &who->config.map->vcpus[i];
        const unsigned vm = ptd_space_vm(ptd_image_space(who->config.image, true, entry->vmcs, 0));
        struct sum *const of_tid = table_at(&switched->of_tid, entry->tid, 0, 0);

        ok = of_tid;
        if (ok)
            of_tid->count = table_find(&who->of_thread, vm, entry->tid, 0)->count;
    }
    for (size_t i = 0; ok && i < session->switch_count; i++)
        ok = add_switch(switched, &session->switches[i]);
    if (ok && who->stay_count)
        qsort(who->stays, who->stay_count, sizeof(*who->stays), by_vcpu);
    for (size_t i = who->stay_count; ok && i-- > 0;) {
        who->vcpus[who->stays[i].vcpu].first = i;
        who->vcpus[who->stays[i].vcpu].count++;
    }
    return ok;
}

/* Where records were lost, a switch may be among them. */
static bool find_stays(struct demux_who *who)
{
    const struct ptd_perf_session *const session = who->config.session;
    struct switched switched = {.who = who};
    bool ok;

    if (!session->pt.has_time || session->switch_count == 0 || session->lost_count > 0 ||
        session->error)
        return true;
    ok = add_switches(&switched);
    who->knows_stays = ok;
    table_free(&switched.open);
    table_free(&switched.of_tid);
    table_free(&switched.had_one);
    return ok;
}

static const struct vcpu *vcpu_with(const struct demux_who *who, const struct tenant *tenant)
{
    for (size_t i = 0; i < who->vcpu_count; i++)
        if (who->vcpus[i].tenant == tenant)
            return &who->vcpus[i];
    return NULL;
}

/* A thread runs where the kernel has it run. */
bool demux_who_may_run(void *owner, const struct tenant *tenant, int cpu, uint64_t from,
                       uint64_t to)
{
    const struct demux_who *const who = owner;
    const struct vcpu *const vcpu = vcpu_with(who, tenant);
    size_t low, high;

    if (cpu < 0 || !who->knows_stays || !vcpu)
        return true;
    /* The first that is not over; a thread has one processor at a time. */
    for (low = vcpu->first, high = vcpu->first + vcpu->count; low < high;) {
        const size_t middle = low + (high - low) / 2;

        if (who->stays[middle].to < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < vcpu->first + vcpu->count && who->stays[low].from <= to; low++)
        if (who->stays[low].cpu == (uint32_t)cpu)
            return true;
    return false;
}

/* ---- What the VMCS pointer says ---- */

/* Of a pointer that no thread has. What a map with threads does not name may be anybody's. */
static int found_pointer(struct demux_who *who, unsigned vm, uint64_t vmcs,
                         const struct ptd_time_vm **time, struct tenant **tenant)
{
    const struct ptd_time_vm *const found = time_of(who, vmcs);
    struct sum *count;

    if (vmcs == PTD_PERF_VMCS_NOBODY || (vm == 0 && who->config.map->vcpu_count > 0))
        return 1;
    count = count_of(who, vm);
    if (!count)
        return reason_no_memory(&who->config.files->why);
    if (who->config.has_time && found && (found->offset || found->multiplier))
        *time = found;
    return demux_files_add(who->config.files, vm, (unsigned)count->count++, *time, tenant);
}

int demux_who_found(void *owner, unsigned vm, uint64_t vmcs, const struct ptd_time_vm **time,
                    struct tenant **tenant)
{
    struct demux_who *const who = owner;
    const uint64_t number = (vmcs - PTD_PERF_VMCS(0)) >> 12;
    const struct sum *place;
    struct vcpu *vcpu;
    int error = 0;

    if (who->config.files->vm && who->config.files->vm != vm)
        return 0;
    if (number >= who->config.map->vcpu_count || PTD_PERF_VMCS(number) != vmcs)
        return found_pointer(who, vm, vmcs, time, tenant);
    place = table_find(&who->of_thread, vm, who->config.map->vcpus[number].tid, 0);
    vcpu = &who->vcpus[place->count - 1]; /* take_map() has put all there */
    if (who->config.has_time && vcpu->has_tsc)
        *time = time_of(who, vmcs);
    if (!vcpu->tenant)
        error = demux_files_add(who->config.files, vm, vcpu->index, *time, &vcpu->tenant);
    *tenant = vcpu->tenant;
    return error;
}

/* ---- All of it ---- */

struct demux_who *demux_who_new(const struct demux_who_config *config)
{
    struct demux_who *const who = calloc(1, sizeof(*who));

    if (!who)
        return NULL;
    who->config = *config;
    if (take_map(who) && find_stays(who))
        return who;
    demux_who_free(who);
    return NULL;
}

void demux_who_free(struct demux_who *who)
{
    if (!who)
        return;
    free(who->times);
    free(who->stays);
    free(who->vcpus);
    table_free(&who->of_thread);
    table_free(&who->of_vm);
    free(who);
}
