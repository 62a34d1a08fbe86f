/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt decode of a perf.data: whose each trace is, the code of processes, and all traces merged by
 * time where a format wants that.
 */
#include "decode.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTEL "GenuineIntel," /* then family, model and stepping */

/* Code that is loaded: that of a process, or of all processes on CPUs by CR3. */
struct code {
    uint32_t pid;
    bool by_cr3;
    /* Shared by all that are by_cr3. */
    struct ptd_image *image;
    struct code_changes *changes;
};

struct job {
    struct decode_options *options;
    const struct ptd_perf_session *session;
    struct code *codes;
    size_t code_count;
    struct code of_cpus; /* .image NULL: not needed so far */
};

/* ---- Code ---- */

static int no_memory(void)
{
    return complain(EXIT_CODE_HOST, "no memory for images");
}

static struct code *find_code(const struct job *job, uint32_t pid, bool by_cr3)
{
    for (size_t i = 0; i < job->code_count; i++) {
        if (job->codes[i].pid == pid && job->codes[i].by_cr3 == by_cr3)
            return &job->codes[i];
    }
    return NULL;
}

static void free_code(struct code *code)
{
    ptd_image_free(code->image);
    code_changes_free(code->changes);
}

static void free_codes(struct job *job)
{
    for (size_t i = 0; i < job->code_count; i++) {
        if (!job->codes[i].by_cr3)
            free_code(&job->codes[i]);
    }
    free_code(&job->of_cpus);
    free(job->codes);
}

/* The code of a process (UINT32_MAX: of the kernel) too. 0 or an exit code. */
static int load(const struct job *job, struct code *code, uint32_t pid, uint64_t cr3)
{
    if (!code_changes_add(code->changes, pid, cr3))
        return no_memory();
    return perf_data_load_code(job->session, pid, &job->options->code, code->image, cr3);
}

/* With the kernel in it. 0 or an exit code. */
static int begin_code(const struct job *job, struct code *code)
{
    code->image = ptd_image_new();
    code->changes = code_changes_new(job->session, &job->options->code);
    if (!code->image || !code->changes)
        return no_memory();
    return load(job, code, UINT32_MAX, PTD_ANY_CR3);
}

static int add_code(struct job *job, const struct code *code)
{
    struct code *const grown = reallocarray(job->codes, job->code_count + 1, sizeof(*job->codes));

    if (!grown)
        return no_memory();
    job->codes = grown;
    job->codes[job->code_count++] = *code;
    return 0;
}

/* The code of a process alone. 0 or an exit code. */
static int code_of_process(struct job *job, uint32_t pid, struct code *code)
{
    const struct code *const found = find_code(job, pid, false);
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

/* The code of all CPUs, with these processes in it. 0 or an exit code. */
static int code_of_cpu(struct job *job, const struct ptd_perf_cpu_trace *copy, struct code *code)
{
    struct code *const shared = &job->of_cpus;
    int error = 0;

    if (!shared->image)
        error = begin_code(job, shared);
    for (size_t i = 0; !error && i < copy->pid_count; i++) {
        const uint32_t pid = copy->pids[i];

        if (find_code(job, pid, true))
            continue;
        error = load(job, shared, pid, PTD_PERF_CR3(pid));
        if (!error)
            error = add_code(job, &(struct code){.pid = pid, .by_cr3 = true});
    }
    *code = *shared;
    return error;
}

/* ---- Traces ---- */

static uint64_t time_of_tsc(const void *owner, uint64_t tsc)
{
    return ptd_perf_time_of_tsc(owner, tsc);
}

static const char *comm_of_process(const void *owner, uint32_t pid)
{
    const char *const comm = ptd_perf_comm_of(owner, pid, pid, UINT64_MAX);

    return comm ? comm : "?";
}

static int take_code(struct stream *stream, int error, const struct code *code)
{
    stream->image = code->image;
    stream->changes = code->changes;
    return error;
}

/* The buffer of one thread: the code is that of its process, whatever CR3 says. */
static int prepare_thread(struct job *job, const struct ptd_perf_trace *trace,
                          struct stream *stream)
{
    struct out_thread *const thread = &stream->thread;
    struct code code;

    stream->packets = (struct bytes){.data = (uint8_t *)trace->bytes, .len = trace->len_bytes};
    thread->pid = ptd_perf_pid_of(job->session, thread->tid);
    thread->comm = ptd_perf_comm_of(job->session, thread->pid, thread->tid, UINT64_MAX);
    if (!thread->comm)
        thread->comm = "?";
    if (job->options->have_images)
        return 0;
    return take_code(stream, code_of_process(job, thread->pid, &code), &code);
}

/* The buffer of a CPU: CR3 is made to say which process ran. */
static int prepare_cpu(struct job *job, const struct ptd_perf_trace *trace, struct stream *stream,
                       struct ptd_perf_cpu_trace *copy)
{
    struct out_thread *const thread = &stream->thread;
    struct code code;

    if (ptd_perf_cpu_trace(job->session, trace, copy) != PTD_OK)
        return complain(EXIT_CODE_HOST, "no memory for the trace of CPU %d", trace->cpu);
    if (!copy->switched && job->session->comm_count > 1)
        complain(EXIT_CODE_OK, "no context switches of CPU %d were recorded: who ran is a guess",
                 trace->cpu);
    stream->packets = (struct bytes){.data = copy->bytes, .len = copy->len_bytes};
    stream->cpu_trace = copy;
    thread->comm = "any"; /* comm_of_process says who */
    thread->comm_of_process = comm_of_process;
    thread->comm_owner = job->session;
    if (job->options->have_images)
        return 0;
    return take_code(stream, code_of_cpu(job, copy, &code), &code);
}

static int prepare(struct job *job, const struct ptd_perf_trace *trace, struct stream *stream,
                   struct ptd_perf_cpu_trace *copy)
{
    *stream = (struct stream){
        .image = job->options->image,
        .out = job->options->out,
        .thread = {.tid = (uint32_t)trace->tid,
                   .cpu = trace->cpu,
                   .to_ns = job->session->pt.has_time ? time_of_tsc : NULL,
                   .to_ns_owner = &job->session->pt},
    };
    ptd_perf_clocks(job->session, &stream->clocks);
    return trace->cpu < 0 ? prepare_thread(job, trace, stream)
                          : prepare_cpu(job, trace, stream, copy);
}

/* Says whose trace begins. */
static void print_trace(const struct decode_options *options, const struct out_thread *thread,
                        const struct ptd_perf_trace *trace)
{
    if (!options->json) {
        printf("-- buffer %" PRIu32 ", cpu %d, tid %d (%s): %zu bytes\n", trace->idx, trace->cpu,
               trace->tid, thread->comm, trace->len_bytes);
        return;
    }
    json_object *line = json_object_new_object();
    json_object_object_add(line, "type", json_object_new_string("trace"));
    json_object_object_add(line, "buffer", json_object_new_int64(trace->idx));
    json_object_object_add(line, "cpu", json_object_new_int(trace->cpu));
    json_object_object_add(line, "pid", json_object_new_int64(thread->pid));
    json_object_object_add(line, "tid", json_object_new_int(trace->tid));
    json_object_object_add(line, "comm", json_object_new_string(thread->comm));
    printf("%s\n", json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN));
    json_object_put(line);
}

/* One trace after the other. */
static int decode_in_turn(struct job *job)
{
    int code = 0;

    for (size_t i = 0; !code && i < job->session->trace_count; i++) {
        struct ptd_perf_cpu_trace copy = {0};
        struct stream stream;

        code = prepare(job, &job->session->traces[i], &stream, &copy);
        if (!code && !job->options->format)
            print_trace(job->options, &stream.thread, &job->session->traces[i]);
        if (!code)
            code = stream_decode(job->options, &stream);
        ptd_perf_cpu_trace_free(&copy);
    }
    return code;
}

/* ---- All traces by time ---- */

#define BUFFERS_MAX 1024u /* that are merged */

struct merged {
    struct stream stream;
    struct ptd_perf_cpu_trace copy;
    size_t at; /* in session->traces */
    bool is_open, has_item;
};

/* Begins a trace, with a state of its own in the output, up to its first item. */
static int begin_merged(struct job *job, struct merged *merged)
{
    int code;

    merged->stream.out = job->options->format->open(stdout);
    if (!merged->stream.out)
        return no_memory();
    code = stream_open(job->options, &merged->stream);
    merged->is_open = code == 0;
    merged->has_item = merged->is_open && stream_next(job->options, &merged->stream);
    return code;
}

static int end_merged(struct job *job, struct merged *merged, int code)
{
    if (merged->is_open)
        code = stream_close(job->options, &merged->stream, code);
    merged->is_open = false;
    if (merged->stream.out)
        (void)job->options->format->close(merged->stream.out);
    merged->stream.out = NULL;
    return code;
}

/* Traces of one buffer follow each other. 0 or an exit code. */
static int advance(struct job *job, struct merged *traces, struct merged **head)
{
    int code = 0;

    while (!code && !(*head)->has_item) {
        struct merged *const next = *head + 1;

        code = end_merged(job, *head, 0);
        if (next == traces + job->session->trace_count ||
            job->session->traces[next->at].idx != job->session->traces[(*head)->at].idx) {
            *head = NULL;
            return code;
        }
        *head = next;
        if (!code)
            code = begin_merged(job, next);
    }
    return code;
}

/* heads: the trace of each buffer that is being decoded; NULL: the buffer is at its end. */
static int merge(struct job *job, struct merged *traces, struct merged **heads, size_t count)
{
    for (;;) {
        struct merged **earliest = NULL;
        int code;

        for (size_t i = 0; i < count; i++) {
            if (heads[i] && (!earliest || heads[i]->stream.time < (*earliest)->stream.time))
                earliest = &heads[i];
        }
        if (!earliest)
            return 0;
        code = stream_put(job->options, &(*earliest)->stream);
        (*earliest)->has_item = stream_next(job->options, &(*earliest)->stream);
        if (!code)
            code = advance(job, traces, earliest);
        if (code)
            return code;
    }
}

static size_t count_buffers(const struct ptd_perf_session *session)
{
    size_t count = 0;

    for (size_t i = 0; i < session->trace_count; i++)
        count += i == 0 || session->traces[i].idx != session->traces[i - 1].idx;
    return count;
}

static int decode_merged(struct job *job)
{
    const size_t count = job->session->trace_count;
    struct merged *const traces = calloc(count, sizeof(*traces));
    struct merged *heads[BUFFERS_MAX];
    size_t buffers = 0;
    int code = 0;

    if (!traces)
        return no_memory();
    /* All code is there before a flow looks at it. */
    for (size_t i = 0; !code && i < count; i++) {
        traces[i].at = i;
        code = prepare(job, &job->session->traces[i], &traces[i].stream, &traces[i].copy);
        traces[i].stream.out = NULL;
    }
    for (size_t i = 0; !code && i < count; i++) {
        if (i && job->session->traces[i].idx == job->session->traces[i - 1].idx)
            continue;
        heads[buffers] = &traces[i];
        code = begin_merged(job, &traces[i]);
        if (!code)
            code = advance(job, traces, &heads[buffers]);
        buffers++;
    }
    if (!code)
        code = merge(job, traces, heads, buffers);
    for (size_t i = 0; i < count; i++) {
        code = end_merged(job, &traces[i], code);
        ptd_perf_cpu_trace_free(&traces[i].copy);
    }
    free(traces);
    return code;
}

int decode_perf(struct decode_options *options, const char *file, const struct bytes *bytes)
{
    int code;
    struct ptd_perf_session *const session = perf_data_open(file, bytes, &code);
    struct job job = {.options = options, .session = session};

    if (!session)
        return code;
    if (!options->have_cpu && strncmp(session->cpuid, INTEL, strlen(INTEL)) == 0)
        (void)parse_cpu(session->cpuid + strlen(INTEL), ',', &options->config.errata);
    if (!options->have_images)
        perf_data_warn_kernel(file, session, &options->code);
    code = options->format && options->format->merges && count_buffers(session) <= BUFFERS_MAX
               ? decode_merged(&job)
               : decode_in_turn(&job);
    free_codes(&job);
    if (!code && session->error)
        code = EXIT_CODE_FILE; /* said already */
    ptd_perf_session_free(session);
    return code;
}
