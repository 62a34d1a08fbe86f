/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The traces of a host's processors, merged by time: whose next run of steps is the earliest comes
 * first. Times are estimates, and the packets say more: a virtual processor that is told to enter
 * on one processor, and has not left another one, is followed there before.
 *
 * A virtual processor is a thread of the host, as the map says, or else a VMCS pointer.
 */
#include "cli/demux-perf.h"
#include "common/progress.h"
#include "common/table.h"

#include <errno.h>
#include <stdlib.h>

#define BUFFERS_MAX 1024u
#define RUN_STEPS   4096u

/* A thread that is a virtual processor. */
struct vcpu {
    unsigned vm, index;    /* index counts those of the VM, as the map has them */
    bool has_tsc;          /* at all times, and at one rate */
    uint64_t multiplier;   /* of its TSC */
    struct tenant *tenant; /* NULL: not seen yet */
};

struct who {
    struct demux_files *files;
    const struct map *map;
    const struct ptd_image *image;
    bool has_time;
    struct ptd_time_vm *times; /* by VMCS pointer */
    size_t time_count;
    struct vcpu *vcpus;
    size_t vcpu_count;
    struct table of_thread; /* in vcpus, plus 1, by VM and thread */
    struct table of_vm;     /* how many of its threads, and pointers, have a number */
};

/* One of the session's traces. */
struct source {
    struct stream stream;
    struct perf_packets packets;
    bool is_open;
};

/* A processor, whose traces follow each other. */
struct lane {
    struct source *source; /* that it is in, or NULL: it has ended */
    size_t left;           /* sources that come behind */
    struct demux_cpu *cpu;
    struct ptd_run run; /* the next one, with its time */
    uint64_t time;
};

struct hosts {
    struct decode_options *options;
    struct perf_job *job;
    const struct ptd_perf_session *session;
    struct who who;
    struct demux *demux;
    struct source *sources;
    struct lane *lanes;
    size_t lane_count;
    struct reason *why;
};

/* ---- Who ---- */

static int by_vmcs(const void *left, const void *right)
{
    const struct ptd_time_vm *const a = left, *const b = right;

    return a->vmcs < b->vmcs ? -1 : a->vmcs > b->vmcs;
}

static const struct ptd_time_vm *time_of(const struct who *who, uint64_t vmcs)
{
    const struct ptd_time_vm key = {.vmcs = vmcs};

    return who->time_count ? bsearch(&key, who->times, who->time_count, sizeof(key), by_vmcs)
                           : NULL;
}

/* The next number of a VM's processors. NULL: no memory. */
static struct sum *count_of(struct who *who, unsigned vm)
{
    return table_at(&who->of_vm, vm, 0, 0);
}

/* False: no memory. */
static bool add_vcpu(struct who *who, const struct ptd_perf_vcpu *entry)
{
    const unsigned vm = ptd_space_vm(ptd_image_space(who->image, true, entry->vmcs, 0));
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

static bool take_map(struct who *who, const struct ptd_perf_session *session)
{
    who->vcpus = calloc(who->map->vcpu_count + 1, sizeof(*who->vcpus));
    who->times = calloc(session->vm_count + 1, sizeof(*who->times));
    if (!who->vcpus || !who->times)
        return false;
    for (; who->time_count < session->vm_count; who->time_count++)
        who->times[who->time_count] = session->vms[who->time_count];
    qsort(who->times, who->time_count, sizeof(*who->times), by_vmcs);
    for (size_t i = 0; i < who->map->vcpu_count; i++)
        if (!add_vcpu(who, &who->map->vcpus[i]))
            return false;
    return true;
}

/* Of a pointer that no thread has. What a map with threads does not name may be anybody's. */
static int found_pointer(struct who *who, unsigned vm, uint64_t vmcs,
                         const struct ptd_time_vm **time, struct tenant **tenant)
{
    const struct ptd_time_vm *const found = time_of(who, vmcs);
    struct sum *count;

    if (vmcs == PTD_PERF_VMCS_NOBODY || (vm == 0 && who->map->vcpu_count > 0))
        return 1;
    count = count_of(who, vm);
    if (!count)
        return reason_no_memory(&who->files->why);
    if (who->has_time && found && (found->offset || found->multiplier))
        *time = found;
    return demux_files_add(who->files, vm, (unsigned)count->count++, *time, tenant);
}

/* Of struct demux_config. */
static int found(void *owner, unsigned vm, uint64_t vmcs, const struct ptd_time_vm **time,
                 struct tenant **tenant)
{
    struct who *const who = owner;
    const uint64_t number = (vmcs - PTD_PERF_VMCS(0)) >> 12;
    const struct sum *place;
    struct vcpu *vcpu;
    int error = 0;

    if (who->files->vm && who->files->vm != vm)
        return 0;
    if (number >= who->map->vcpu_count || PTD_PERF_VMCS(number) != vmcs)
        return found_pointer(who, vm, vmcs, time, tenant);
    place = table_find(&who->of_thread, vm, who->map->vcpus[number].tid, 0);
    vcpu = &who->vcpus[place->count - 1]; /* take_map() has put all there */
    if (who->has_time && vcpu->has_tsc)
        *time = time_of(who, vmcs);
    if (!vcpu->tenant)
        error = demux_files_add(who->files, vm, vcpu->index, *time, &vcpu->tenant);
    *tenant = vcpu->tenant;
    return error;
}

static void free_who(struct who *who)
{
    free(who->times);
    free(who->vcpus);
    table_free(&who->of_thread);
    table_free(&who->of_vm);
}

/* ---- A processor ---- */

/* The next run into lane->run. PTD_OK, PTD_END, or what went wrong. */
static int run_on(struct hosts *hosts, struct lane *lane)
{
    struct stream *const stream = &lane->source->stream;
    int status;

    do {
        const uint64_t place =
            stream->timeline ? code_timeline_place(stream->timeline) : UINT64_MAX;

        status = ptd_flow_run_before(stream->flow.pt, place, &lane->run);
        if (status == 1 && !stream_change_code(hosts->options, stream))
            return PTD_END; /* which stream_close() says */
    } while (status == 1);
    if (status != PTD_OK || !lane->run.has_item)
        return status;
    lane->time = clock_at(&stream->clock, &lane->run.item);
    stream_pass(hosts->options, stream, lane->run.item.offset);
    return PTD_OK;
}

static int open_source(struct hosts *hosts, struct lane *lane)
{
    struct source *const source = lane->source;
    const int error = stream_open(hosts->options, &source->stream);

    if (error)
        return error;
    source->is_open = true;
    demux_cpu_begin(lane->cpu, source->stream.image, source->stream.clock.is_tsc);
    lane->time = clock_start(&source->stream.clock);
    return 0;
}

static int close_source(struct hosts *hosts, struct lane *lane)
{
    struct source *const source = lane->source;

    demux_cpu_end(lane->cpu);
    source->is_open = false;
    lane->source = lane->left > 0 ? source + 1 : NULL;
    lane->left -= lane->left > 0;
    return stream_close(hosts->options, &source->stream, 0);
}

/* To the next run, in the next source if there is none in this one. 0 or -errno. */
static int go_on(struct hosts *hosts, struct lane *lane)
{
    int error = 0, status;

    while (!error && lane->source) {
        if (!lane->source->is_open)
            error = open_source(hosts, lane);
        if (error)
            break;
        status = run_on(hosts, lane);
        if (status == PTD_OK)
            return 0;
        error = status == PTD_END ? close_source(hosts, lane) : reason_no_memory(hosts->why);
    }
    return error;
}

/* ---- All of them ---- */

static struct lane *earliest(const struct hosts *hosts)
{
    struct lane *first = NULL;

    for (struct lane *lane = hosts->lanes; lane < hosts->lanes + hosts->lane_count; lane++)
        if (lane->source && (!first || lane->time < first->time))
            first = lane;
    return first;
}

static struct lane *lane_of(const struct hosts *hosts, const struct demux_cpu *cpu)
{
    struct lane *lane = hosts->lanes;

    while (lane->cpu != cpu)
        lane++;
    return lane;
}

/* Whoever runs elsewhere leaves there first. Where each waits for another one, nobody does. */
static struct lane *first_to_go(const struct hosts *hosts)
{
    struct lane *const first = earliest(hosts);
    struct lane *lane = first;

    for (size_t i = 0; lane && i < hosts->lane_count; i++) {
        const struct demux_cpu *const other = demux_waits_for(lane->cpu, &lane->run);

        if (!other)
            return lane;
        lane = lane_of(hosts, other);
    }
    return first;
}

static int tell(struct hosts *hosts, struct lane *lane)
{
    const struct stream *const stream = &lane->source->stream;
    const struct ptd_time_point point = {.tsc = lane->time};
    const bool has_time = hosts->who.has_time && stream->clock.is_tsc && lane->time;
    const int error =
        demux_take_run(lane->cpu, stream->flow.pt, &lane->run, has_time ? &point : NULL);

    if (error == -EILSEQ)
        (void)reason_set(hosts->why, error,
                         "a virtual processor ran on several processors, and no packet tells the "
                         "time: what it did has no order");
    return error;
}

/* All code is there before a flow looks at it. 0 or -errno. */
static int open_sources(struct hosts *hosts)
{
    const struct ptd_perf_session *const session = hosts->session;
    uint64_t bytes = 0;
    int error = 0;

    for (size_t i = 0; !error && i < session->trace_count; i++) {
        error = perf_job_prepare(hosts->job, &session->traces[i], &hosts->sources[i].stream,
                                 &hosts->sources[i].packets);
        bytes += hosts->sources[i].stream.packets.len;
    }
    progress_begin("taking apart", bytes, PROGRESS_ALONE);
    return error;
}

/* Traces of one buffer follow each other. 0 or -errno. */
static int open_lane(struct hosts *hosts, size_t first, size_t count)
{
    struct lane *const lane = &hosts->lanes[hosts->lane_count];

    if (hosts->lane_count == BUFFERS_MAX)
        return reason_set(hosts->why, -E2BIG, "more than %u buffers", BUFFERS_MAX);
    hosts->lane_count++;
    *lane = (struct lane){.source = &hosts->sources[first],
                          .left = count - 1,
                          .cpu = demux_cpu_new(hosts->demux),
                          .run = {.room = RUN_STEPS, .timing = PTD_TIMING_ITEMS}};
    lane->run.steps = calloc(RUN_STEPS, sizeof(*lane->run.steps));
    if (!lane->cpu || !lane->run.steps)
        return reason_no_memory(hosts->why);
    return go_on(hosts, lane);
}

static int open_lanes(struct hosts *hosts)
{
    const struct ptd_perf_session *const session = hosts->session;
    size_t count;
    int error = 0;

    for (size_t i = 0; !error && i < session->trace_count; i += count) {
        for (count = 1; i + count < session->trace_count; count++)
            if (session->traces[i + count].idx != session->traces[i].idx)
                break;
        error = open_lane(hosts, i, count);
    }
    return error;
}

static void close_all(struct hosts *hosts)
{
    for (size_t i = 0; hosts->sources && i < hosts->session->trace_count; i++) {
        if (hosts->sources[i].is_open)
            (void)stream_close(hosts->options, &hosts->sources[i].stream, 0);
        perf_packets_free(&hosts->sources[i].packets);
    }
    for (size_t i = 0; i < hosts->lane_count; i++) {
        demux_cpu_free(hosts->lanes[i].cpu);
        free(hosts->lanes[i].run.steps);
    }
    demux_free(hosts->demux);
    free(hosts->sources);
    free(hosts->lanes);
    free_who(&hosts->who);
}

static int take_all(struct hosts *hosts)
{
    struct lane *lane;
    int error = open_sources(hosts);

    if (!error)
        error = open_lanes(hosts);
    while (!error && (lane = first_to_go(hosts))) {
        error = tell(hosts, lane);
        if (!error)
            error = go_on(hosts, lane);
    }
    progress_end();
    return error;
}

int demux_perf(struct perf_job *job, struct decode_options *options, bool has_time,
               struct demux_files *files, struct demux_sums *sums)
{
    struct hosts hosts = {.options = options,
                          .job = job,
                          .session = perf_job_session(job),
                          .who = {.files = files,
                                  .map = &options->map,
                                  .image = options->image,
                                  .has_time = has_time},
                          .why = &files->why};
    const struct demux_config config = {
        .contexts = options->map.contexts, .found = found, .owner = &hosts.who};
    int error = 0;

    hosts.sources = calloc(hosts.session->trace_count, sizeof(*hosts.sources));
    hosts.lanes = calloc(BUFFERS_MAX, sizeof(*hosts.lanes));
    hosts.demux = demux_new(&config);
    if (!hosts.sources || !hosts.lanes || !hosts.demux || !take_map(&hosts.who, hosts.session))
        error = reason_no_memory(hosts.why);
    options->by_time = true; /* streams have clocks */
    if (!error)
        error = take_all(&hosts);
    if (!error)
        *sums = *demux_sums(hosts.demux);
    close_all(&hosts);
    return error;
}
