/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose each trace of a perf.data is, and the code of processes.
 */
#include "view/perf-job.h"
#include "common/list.h"
#include "common/table.h"
#include "trace/cpu.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_VMCS 1 /* no VMCS pointer is that */

/* Code that is loaded: that of a process, or of all processes on CPUs by CR3. */
struct code {
    uint32_t pid;
    bool by_cr3; /* of a thread, whose image is that of all */
    uint32_t tid;
    /* Shared by all that are by_cr3. */
    struct ptd_image *image;
    struct code_changes *changes;
};

struct perf_job {
    struct decode_options *options;
    struct ptd_perf_session *session;
    struct ptd_perf_guests *guests; /* NULL: nobody tells */
    struct code *codes;
    size_t code_count, code_room;
    struct table where;  /* in codes, plus 1, by enum code_key and number */
    uint64_t maps_left;  /* that may still be given to processes, inherited ones too */
    struct code of_cpus; /* .image NULL: not needed so far */
    struct reason *why;  /* the caller's */
};

/* What a code is looked for by; then comes the number. */
enum code_key { OF_PROCESS, OF_THREAD, FIRST_OF_PROCESS /* thread, of those by CR3 */ };

#define MAPS_LEFT            ((uint64_t)1 << 16)
#define MAPS_LEFT_PER_RECORD 16u

static bool has_map(const struct perf_job *job)
{
    return job->options->map.contexts != NULL;
}

/* ---- Code ---- */

/* NULL: not there yet. */
static const struct code *find_code(const struct perf_job *job, enum code_key key, uint32_t number)
{
    const struct sum *const found = table_find(&job->where, key, number, 0);

    return found ? &job->codes[found->count - 1] : NULL;
}

static void free_code(struct code *code)
{
    ptd_image_free(code->image);
    code_changes_free(code->changes);
}

static void free_codes(struct perf_job *job)
{
    for (size_t i = 0; i < job->code_count; i++) {
        if (!job->codes[i].by_cr3)
            free_code(&job->codes[i]);
    }
    if (job->of_cpus.image == job->options->image)
        job->of_cpus.image = NULL; /* the options' own */
    free_code(&job->of_cpus);
    free(job->codes);
    table_free(&job->where);
}

static int count_map(void *owner, const struct ptd_perf_map *map)
{
    uint64_t *const left = owner;

    (void)map;
    if (*left == 0)
        return 1;
    --*left;
    return 0;
}

/*
 * Each process has the maps of those that made it, so that a file can make many out of few. False:
 * there are too many.
 */
static bool spend_maps(struct perf_job *job, uint32_t pid)
{
    const bool had_some = job->maps_left > 0;

    if (had_some && ptd_perf_each_map(job->session, pid, count_map, &job->maps_left) == 0)
        return true;
    if (had_some)
        remark(job->options->code.remark,
               "too many processes have too many maps: the code of process %" PRIu32
               " and of those behind it is not known",
               pid);
    return false;
}

/* The code of a process (UINT32_MAX: of the kernel) too. 0 or -errno. */
static int load(struct perf_job *job, struct code *code, uint32_t pid, uint64_t cr3)
{
    if (!spend_maps(job, pid))
        return 0;
    if (!code_changes_add(code->changes, pid, cr3))
        return reason_no_memory(job->why);
    return perf_data_load_code(job->session, pid, &job->options->code, code->image, cr3, job->why);
}

/* A VM of which nothing is known: guests without a map are not taken for the host. */
static bool add_nobodys_vm(struct ptd_image *image)
{
    const int vm = ptd_image_add_vm(image);

    return vm > 0 && ptd_image_bind_vmcs(image, (unsigned)vm, NO_VMCS) == PTD_OK;
}

/* With the kernel in it; with a map, on what it says. 0 or -errno. */
static int begin_code(struct perf_job *job, struct code *code)
{
    code->image = has_map(job) ? job->options->image : ptd_image_new();
    if (code->image && !has_map(job) && !add_nobodys_vm(code->image))
        return reason_no_memory(job->why);
    code->changes = code_changes_new(job->session, &job->options->code);
    if (!code->image || !code->changes)
        return reason_no_memory(job->why);
    return load(job, code, UINT32_MAX, PTD_ANY_CR3);
}

/* The first one of its key stays. False: no memory. */
static bool note_code(struct perf_job *job, enum code_key key, uint32_t number)
{
    struct sum *const sum = table_at(&job->where, key, number, 0);

    if (sum && sum->count == 0)
        sum->count = job->code_count + 1;
    return sum;
}

static int add_code(struct perf_job *job, const struct code *code)
{
    struct code *const grown =
        list_grow(job->codes, job->code_count, &job->code_room, sizeof(*grown));

    if (!grown)
        return reason_no_memory(job->why);
    job->codes = grown;
    if (!note_code(job, code->by_cr3 ? FIRST_OF_PROCESS : OF_PROCESS, code->pid) ||
        (code->by_cr3 && !note_code(job, OF_THREAD, code->tid)))
        return reason_no_memory(job->why);
    job->codes[job->code_count++] = *code;
    return 0;
}

/* The code of a process alone. 0 or -errno. */
static int code_of_process(struct perf_job *job, uint32_t pid, struct code *code)
{
    const struct code *const found = find_code(job, OF_PROCESS, pid);
    int error;

    *code = found ? *found : (struct code){.pid = pid};
    if (found)
        return 0;
    error = begin_code(job, code);
    if (!error)
        error = load(job, code, pid, PTD_ANY_CR3);
    if (!error)
        error = add_code(job, code);
    if (error)
        free_code(code);
    return error;
}

/* A thread has the address space of the first thread of its process that was seen. */
static int add_thread(struct perf_job *job, const struct ptd_perf_thread *thread)
{
    struct code *const shared = &job->of_cpus;
    const struct code *const of_process = find_code(job, FIRST_OF_PROCESS, thread->pid);
    const char *comm;
    int error = 0;

    if (find_code(job, OF_THREAD, thread->tid))
        return 0;
    comm = ptd_perf_comm_of(job->session, thread->pid, thread->tid, UINT64_MAX);
    if (has_map(job) &&
        ptd_contexts_add_process(job->options->map.contexts, 0, PTD_PERF_CR3(thread->tid), comm,
                                 thread->pid) != PTD_OK)
        return reason_no_memory(job->why);
    if (!of_process)
        error = load(job, shared, thread->pid, PTD_PERF_CR3(thread->tid));
    else if (ptd_image_alias(shared->image, PTD_PERF_CR3(thread->tid),
                             PTD_PERF_CR3(of_process->tid)) == PTD_E_NOMEM)
        error = reason_no_memory(job->why);
    if (error)
        return error;
    return add_code(job, &(struct code){.pid = thread->pid, .tid = thread->tid, .by_cr3 = true});
}

/* The code of all CPUs, with these threads in it. 0 or -errno. */
static int code_of_cpu(struct perf_job *job, const struct ptd_perf_cpu_trace *copy,
                       struct code *code)
{
    struct code *const shared = &job->of_cpus;
    int error = 0;

    if (!shared->image)
        error = begin_code(job, shared);
    for (size_t i = 0; !error && i < copy->thread_count; i++)
        error = add_thread(job, &copy->threads[i]);
    *code = *shared;
    return error;
}

/* ---- Traces ---- */

static uint64_t time_of_tsc(const void *owner, uint64_t tsc)
{
    return ptd_perf_time_of_tsc(owner, tsc);
}

/* Of a time in front of all names, the last one. NULL: none was told. */
static const char *name_at(const struct ptd_perf_session *session, uint32_t pid, uint32_t tid,
                           uint64_t ns)
{
    const char *const name = ptd_perf_comm_of(session, pid, tid, ns);

    return name ? name : ptd_perf_comm_of(session, pid, tid, UINT64_MAX);
}

static const char *name_of_thread(const void *owner, const struct out_thread *thread, uint64_t ns)
{
    const struct perf_job *const job = owner;
    const char *const name = name_at(job->session, thread->pid, thread->tid, ns);

    return name ? name : "?";
}

/* The first name behind a time, of whatever thread. */
static uint64_t names_until(const void *owner, uint64_t ns)
{
    const struct ptd_perf_session *const session = ((const struct perf_job *)owner)->session;
    size_t first = 0, behind = session->comm_count;

    while (first < behind) {
        const size_t middle = first + (behind - first) / 2;

        if (session->comms[middle].time <= ns)
            first = middle + 1;
        else
            behind = middle;
    }
    return first < session->comm_count ? session->comms[first].time : UINT64_MAX;
}

/* Who ran in an address space of a copy: a thread, or something in a guest. */
static void who_ran(const void *owner, uint64_t cr3, uint64_t ns, struct out_who *who)
{
    const struct perf_job *const job = owner;
    struct ptd_context context = {0};

    if (ptd_space_vm(cr3)) {
        *who = (struct out_who){.comm = "guest", .vm = "?", .cr3 = ptd_space_cr3(cr3)};
        if (!has_map(job))
            return;
        ptd_contexts_find(job->options->map.contexts, cr3, 0, &context);
        if (context.process || context.vm_name)
            who->comm = context.process ? context.process : context.vm_name;
        if (context.vm_name)
            who->vm = context.vm_name;
        return;
    }
    if (cr3 == PTD_ANY_CR3) { /* behind a gap, in front of the PIP that each PSB+ has */
        *who = (struct out_who){.comm = "?"};
        return;
    }
    who->tid = (uint32_t)(cr3 >> 12);
    who->pid = ptd_perf_pid_of(job->session, who->tid);
    who->comm = name_at(job->session, who->pid, who->tid, ns);
    if (!who->comm)
        who->comm = who->tid ? "?" : "swapper";
}

static int take_code(struct stream *stream, int error, const struct code *code)
{
    stream->image = code->image;
    stream->changes = code->changes;
    return error;
}

static int no_memory_for(const struct perf_job *job, const struct ptd_perf_trace *trace)
{
    return reason_set(job->why, -ENOMEM, "no memory for the trace of buffer %" PRIu32, trace->idx);
}

/* The buffer of one thread: the code is that of its process, whatever CR3 says. */
static int prepare_thread(struct perf_job *job, const struct ptd_perf_trace *trace,
                          struct stream *stream, struct ptd_perf_whole *whole)
{
    struct out_thread *const thread = &stream->thread;
    struct code code;

    if (ptd_perf_whole(job->session, trace, whole) != PTD_OK)
        return no_memory_for(job, trace);
    stream->packets = (struct bytes){.data = (uint8_t *)whole->bytes, .len = whole->len_bytes};
    thread->pid = ptd_perf_pid_of(job->session, thread->tid);
    thread->comm = name_of_thread(job, thread, UINT64_MAX);
    thread->comm_at = name_of_thread;
    thread->names_until = names_until;
    thread->who_owner = job;
    if (job->options->have_images)
        return 0;
    return take_code(stream, code_of_process(job, thread->pid, &code), &code);
}

/* What a decoder cannot know of a CPU's trace. */
static void remark_of_copy(const struct perf_job *job, const struct ptd_perf_trace *trace,
                           const struct ptd_perf_cpu_trace *copy)
{
    const remark_fn tell = job->options->code.remark;

    if (copy->guests && !has_map(job) && !job->options->have_images)
        remark(tell, "buffer %" PRIu32 ": guests ran, whose code only --map can tell", trace->idx);
    if (trace->cpu >= 0 && !copy->switched && job->session->comm_count > 1)
        remark(tell, "no context switches of CPU %d were recorded: who ran is a guess", trace->cpu);
}

/* CR3 is made to say which thread ran. */
static int prepare_copy(struct perf_job *job, const struct ptd_perf_trace *trace,
                        struct stream *stream, struct ptd_perf_cpu_trace *copy)
{
    struct out_thread *const thread = &stream->thread;
    struct code code;

    if (ptd_perf_cpu_trace(job->session, trace, copy) != PTD_OK)
        return no_memory_for(job, trace);
    remark_of_copy(job, trace, copy);
    stream->packets = (struct bytes){.data = copy->bytes, .len = copy->len_bytes};
    stream->cpu_trace = copy;
    thread->comm = "any"; /* who_ran says who */
    thread->who = who_ran;
    thread->names_until = names_until;
    thread->who_owner = job;
    if (job->options->have_images && !has_map(job))
        return 0;
    return take_code(stream, code_of_cpu(job, copy, &code), &code);
}

void perf_packets_free(struct perf_packets *packets)
{
    ptd_perf_whole_free(&packets->whole);
    ptd_perf_cpu_trace_free(&packets->copy);
}

int perf_job_prepare(struct perf_job *job, const struct ptd_perf_trace *trace,
                     struct stream *stream, struct perf_packets *packets)
{
    *stream = (struct stream){
        .image = job->options->image,
        .out = job->options->out,
        .why = job->why,
        .thread = {.tid = (uint32_t)trace->tid,
                   .cpu = trace->cpu,
                   .processor = trace->cpu,
                   .to_ns = job->session->pt.has_time ? time_of_tsc : NULL,
                   .to_ns_owner = &job->session->pt},
    };
    ptd_perf_clocks(job->session, &stream->clocks);
    return trace->cpu < 0 && !has_map(job) ? prepare_thread(job, trace, stream, &packets->whole)
                                           : prepare_copy(job, trace, stream, &packets->copy);
}

/* ---- The file ---- */

/* Whose guests ran, by the threads that a map names. 0 or -errno. */
static int find_guests(struct perf_job *job)
{
    const struct map *const map = &job->options->map;
    const struct ptd_perf_guest_sums *sums;

    if (map->vcpu_count == 0)
        return 0;
    if (ptd_perf_guests_new(job->session, map->vcpus, map->vcpu_count, &job->guests) != PTD_OK)
        return reason_no_memory(job->why);
    job->session->guests = job->guests;
    sums = ptd_perf_guests_sums(job->guests);
    if (sums->unknown)
        remark(job->options->code.remark,
               "a guest ran %" PRIu64 " times, and %" PRIu64 " times nothing tells which one",
               sums->runs, sums->unknown);
    return 0;
}

int perf_job_open(struct decode_options *options, const char *file, const struct bytes *bytes,
                  struct perf_job **job, struct reason *why)
{
    struct perf_job *const made = calloc(1, sizeof(*made));
    int error;

    if (!made)
        return reason_no_memory(why);
    *made = (struct perf_job){.options = options, .why = why};
    error =
        perf_data_open(file, bytes, options->scratch, options->code.remark, &made->session, why);
    if (error) {
        free(made);
        return error;
    }
    made->maps_left = MAPS_LEFT + MAPS_LEFT_PER_RECORD * made->session->record_count;
    if (!options->have_cpu)
        config_of_cpuid(made->session->cpuid, &options->config);
    if (options->have_resync)
        options->config.resync = options->resync;
    if (has_map(made))
        made->session->vms = ptd_contexts_time_vms(options->map.contexts, &made->session->vm_count);
    if (!options->have_images || has_map(made))
        perf_data_warn_kernel(file, made->session, &options->code);
    error = find_guests(made);
    if (error)
        (void)perf_job_close(made, error);
    else
        *job = made;
    return error;
}

const struct ptd_perf_session *perf_job_session(const struct perf_job *job)
{
    return job->session;
}

int perf_job_close(struct perf_job *job, int error)
{
    free_codes(job);
    if (!error && job->session->error)
        error = -EBADMSG;
    ptd_perf_guests_free(job->guests);
    ptd_perf_session_free(job->session);
    free(job);
    return error;
}
