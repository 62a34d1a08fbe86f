/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace of a CPU, on which threads took turns. perf.data does not tell the CR3 values of their
 * processes, but when they were switched. So the flow decoder gets a copy of the trace in which CR3
 * is what we choose: each PIP says which thread runs, and where tracing begins again without one,
 * one is put in. The PIPs of guests stay as they are.
 *
 * The time of a packet is an estimate, and so is the conversion of perf's. Therefore a stretch of
 * trace, from a PIP or a TIP.PGE to the next PIP, TIP.PGE or TIP.PGD, belongs as a whole to the
 * thread that ran longest in its time. The trace of a thread is all its own.
 */
#include <string.h>
#include <stdlib.h>

#include "base/array.h"
#include "perf/clock.h"
#include "perf/lookup.h"
#include "perf/threads.h"
#include "perf/turns.h"
#include "pt_packets.h"
#include "ptdec_perf.h"

#define NO_ID UINT32_MAX

static const struct ptd_perf_thread nobody = {NO_ID, NO_ID};

struct stretch {
    uint64_t offset; /* of its first packet: PIP, TIP.PGE, or the start of the trace */
    uint64_t from, to;
    struct ptd_perf_thread thread;
};

struct builder {
    const struct ptd_perf_trace *trace;
    struct perf_cpu_turns turns;
    struct stretch *stretches;
    size_t stretch_count, stretch_capacity;
    struct ptd_perf_cpu_trace out;
    size_t out_capacity, inserted_capacity, thread_capacity;
    uint32_t current; /* the thread in the copy so far */
    bool nr;          /* VMX non-root operation */
};

/* ---- Stretches ---- */

static bool add_stretch(struct builder *builder, uint64_t offset, uint64_t from)
{
    if (!array_grow((void **)&builder->stretches, &builder->stretch_capacity,
                    builder->stretch_count, sizeof(*builder->stretches)))
        return false;
    builder->stretches[builder->stretch_count++] =
        (struct stretch){.offset = offset, .from = from, .to = from, .thread = nobody};
    return true;
}

static bool find_stretches(struct builder *builder, struct ptd_time *time)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    bool open = true, timed = false;

    ptd_packets_init(&packets, builder->trace->bytes, builder->trace->len_bytes);
    if (!add_stretch(builder, 0, 0))
        return false;
    while (ptd_time_next(time, &packets, &packet)) {
        struct ptd_time_point point;

        ptd_time_packet(time, &packet);
        if (!timed) { /* what is in front of the first TSC cannot be decoded */
            ptd_time_point(time, &point);
            timed =
                point.tsc != PTD_TIME_UNKNOWN; /* where there are VMs, PSBEND tells whose it is */
            if (timed)
                builder->stretches[0].from = point.tsc;
        }
        if (packet.type != PTD_PIP && packet.type != PTD_TIP_PGE && packet.type != PTD_TIP_PGD)
            continue;
        ptd_time_point_ahead(time, &packets, &point);
        if (point.tsc == PTD_TIME_UNKNOWN)
            point.tsc = 0;
        if (open)
            builder->stretches[builder->stretch_count - 1].to = point.tsc;
        open = packet.type != PTD_TIP_PGD;
        if (open && !add_stretch(builder, packet.offset, point.tsc))
            return false;
    }
    if (open)
        builder->stretches[builder->stretch_count - 1].to = UINT64_MAX;
    return true;
}

/* Each stretch goes to the turn that covers most of it. Both are in order of time. */
static void match(struct builder *builder)
{
    uint64_t from = 0;

    for (size_t i = 0; i < builder->stretch_count; i++) {
        struct stretch *const stretch = &builder->stretches[i];

        if (stretch->from > from)
            from = stretch->from;
        stretch->thread = ptd_perf_turns_most(&builder->turns, from, stretch->to);
    }
}

/* ---- The copy ---- */

static bool put(struct builder *builder, const uint8_t *bytes, size_t len)
{
    struct ptd_perf_cpu_trace *const out = &builder->out;

    if (len > builder->out_capacity - out->len_bytes) {
        const size_t capacity = 2 * builder->out_capacity + len;
        uint8_t *const grown = realloc(out->bytes, capacity);

        if (!grown)
            return false;
        out->bytes = grown;
        builder->out_capacity = capacity;
    }
    if (len)
        memcpy(out->bytes + out->len_bytes, bytes, len);
    out->len_bytes += len;
    return true;
}

static bool put_pip(struct builder *builder, uint32_t tid)
{
    const uint64_t cr3 = tid == NO_ID ? 0 : PTD_PERF_CR3(tid);
    const uint64_t payload = (cr3 >> PT_PIP_CR3_SHR) << PT_PIP_SHL;
    uint8_t bytes[PT_PIP_LEN] = {PT_OPC_EXT, PT_EXT_PIP};

    for (unsigned i = 2; i < PT_PIP_LEN; i++)
        bytes[i] = (uint8_t)(payload >> (8 * (i - 2)));
    builder->current = tid;
    return put(builder, bytes, sizeof(bytes));
}

static bool insert_pip(struct builder *builder, uint32_t tid)
{
    struct ptd_perf_cpu_trace *const out = &builder->out;

    if (!array_grow((void **)&out->inserted, &builder->inserted_capacity, out->inserted_count,
                    sizeof(*out->inserted)))
        return false;
    out->inserted[out->inserted_count++] = out->len_bytes;
    return put_pip(builder, tid);
}

static bool copy_packet(struct builder *builder, const struct ptd_packet *packet, uint32_t tid)
{
    const uint8_t *const bytes = builder->trace->bytes + packet->offset;

    switch (packet->type) {
    case PTD_PIP:
        builder->nr = packet->pip.nr;
        builder->out.guests |= builder->nr;
        return builder->nr ? put(builder, bytes, packet->size_bytes) : put_pip(builder, tid);
    case PTD_TIP_PGE:
        return (builder->nr || tid == builder->current || insert_pip(builder, tid)) &&
               put(builder, bytes, packet->size_bytes);
    case PTD_PSB: /* decoding may begin here; if a guest runs, PSB+ says so */
        builder->nr = false;
        return put(builder, bytes, packet->size_bytes) && insert_pip(builder, tid);
    default:
        return put(builder, bytes, packet->size_bytes);
    }
}

static bool copy(struct builder *builder)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    uint64_t done = 0; /* bytes of the original that are in the copy */
    size_t at = 0;

    ptd_packets_init(&packets, builder->trace->bytes, builder->trace->len_bytes);
    while (ptd_time_next(NULL, &packets, &packet)) {
        while (at + 1 < builder->stretch_count &&
               builder->stretches[at + 1].offset <= packet.offset)
            at++;
        /* What was skipped as damaged stays as it is. */
        if (!put(builder, builder->trace->bytes + done, (size_t)(packet.offset - done)) ||
            !copy_packet(builder, &packet, builder->stretches[at].thread.tid))
            return false;
        done = packet.offset + packet.size_bytes;
    }
    return put(builder, builder->trace->bytes + done, (size_t)(builder->trace->len_bytes - done));
}

static int compare_threads(const void *left, const void *right)
{
    const struct ptd_perf_thread *const a = left, *const b = right;

    return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* The threads of all stretches, each once. */
static bool list_threads(struct builder *builder)
{
    struct ptd_perf_cpu_trace *const out = &builder->out;
    size_t kept = 0;

    for (size_t i = 0; i < builder->stretch_count; i++) {
        const struct ptd_perf_thread thread = builder->stretches[i].thread;

        if (thread.tid == NO_ID || (i && thread.tid == builder->stretches[i - 1].thread.tid))
            continue;
        if (!array_grow((void **)&out->threads, &builder->thread_capacity, out->thread_count,
                        sizeof(*out->threads)))
            return false;
        out->threads[out->thread_count++] = thread;
    }
    if (out->thread_count)
        qsort(out->threads, out->thread_count, sizeof(*out->threads), compare_threads);
    for (size_t i = 0; i < out->thread_count; i++) {
        if (i == 0 || out->threads[i].tid != out->threads[kept - 1].tid)
            out->threads[kept++] = out->threads[i];
    }
    out->thread_count = kept;
    return true;
}

/* What was put in by both: the offsets of the first in its own copy become those of the last one.
 */
static bool join_inserted(struct ptd_perf_cpu_trace *out, const struct ptd_perf_guest_trace *under)
{
    const size_t count = out->inserted_count + under->inserted_count;
    uint64_t *const all = count ? calloc(count, sizeof(*all)) : NULL;
    size_t of_out = 0, of_under = 0;

    if (count && !all)
        return false;
    while (of_out + of_under < count) {
        const bool is_under =
            of_under < under->inserted_count &&
            (of_out == out->inserted_count ||
             under->inserted[of_under] + of_out * PT_PIP_LEN < out->inserted[of_out]);

        all[of_out + of_under] =
            is_under ? under->inserted[of_under] + of_out * PT_PIP_LEN : out->inserted[of_out];
        of_under += is_under;
        of_out += !is_under;
    }
    free(out->inserted);
    out->inserted = all;
    out->inserted_count = count;
    return true;
}

static int make_copy(const struct ptd_perf_session *session, const struct ptd_perf_trace *trace,
                     struct ptd_perf_cpu_trace *out)
{
    struct builder builder = {.trace = trace, .current = NO_ID};
    struct ptd_time *const time = ptd_perf_time_new(session);
    bool ok;

    ok = time && find_stretches(&builder, time);
    if (ok) {
        builder.turns = ptd_perf_threads_of(session, trace);
        match(&builder);
        ok = copy(&builder) && list_threads(&builder);
    }
    ptd_time_free(time);
    free(builder.stretches);
    builder.out.switched = builder.turns.end > builder.turns.begin;
    *out = builder.out;
    if (ok)
        return PTD_OK;
    ptd_perf_cpu_trace_free(out);
    return PTD_E_NOMEM;
}

int ptd_perf_cpu_trace(const struct ptd_perf_session *session, const struct ptd_perf_trace *trace,
                       struct ptd_perf_cpu_trace *out)
{
    struct ptd_perf_guest_trace guests;
    struct ptd_perf_trace told = *trace;
    int error;

    if (!session->guests)
        return make_copy(session, trace, out);
    error = ptd_perf_guest_trace(session, trace, &guests);
    if (error)
        return error;
    told.bytes = guests.bytes;
    told.len_bytes = guests.len_bytes;
    error = make_copy(session, &told, out);
    if (!error && !join_inserted(out, &guests)) {
        ptd_perf_cpu_trace_free(out);
        error = PTD_E_NOMEM;
    }
    ptd_perf_guest_trace_free(&guests);
    return error;
}

void ptd_perf_cpu_trace_free(struct ptd_perf_cpu_trace *trace)
{
    free(trace->bytes);
    free(trace->threads);
    free(trace->inserted);
    *trace = (struct ptd_perf_cpu_trace){0};
}

uint64_t ptd_perf_cpu_trace_offset(const struct ptd_perf_cpu_trace *trace, uint64_t offset)
{
    size_t low = 0, high = trace->inserted_count; /* how many were put in before offset */

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (trace->inserted[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return offset - (uint64_t)low * PT_PIP_LEN;
}
