/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace of a CPU, on which threads took turns. perf.data does not tell the CR3 values of their
 * processes, but when they were switched. So the flow decoder gets a copy of the trace in which CR3
 * is what we choose: each PIP says which thread runs, and where tracing begins again without one,
 * one is put in. The PIPs of guests stay as they are.
 *
 * The time of a packet is an estimate, and so is the conversion of perf's. Therefore a stretch of
 * trace, from a PIP or a TIP.PGE to the next PIP, TIP.PGE or TIP.PGD, belongs as a whole to the
 * thread that ran longest in its time, of those that have code. Others are the kernel's: they write
 * no CR3, and leave that of the process before, which may go on without a PIP. What is between two
 * threads counts for neither, since CR3 is written somewhere in it. The trace of a thread is all
 * its own.
 */
#include <string.h>
#include <stdlib.h>

#include "base/array.h"
#include "perf/clock.h"
#include "perf/copy.h"
#include "perf/guests.h"
#include "perf/lookup.h"
#include "perf/threads.h"
#include "perf/turns.h"
#include "pt_packets.h"
#include "ptdec_perf.h"

#define NO_ID UINT32_MAX

struct stretch {
    uint64_t offset; /* of its first packet: PIP, TIP.PGE, or the start of the trace */
    uint64_t from, to;
};

/* From this offset on, a thread has all stretches up to the next of these. */
struct share {
    uint64_t offset;
    struct ptd_perf_thread thread;
};

struct builder {
    const struct ptd_perf_session *session;
    const struct ptd_perf_trace *trace;
    /* What is copied: the trace, or with guests a copy of it. */
    struct perf_pieces pieces;
    struct perf_guest_copy *under;
    struct perf_cpu_turns turns;
    struct share *shares;
    size_t share_count, share_capacity;
    /* On the way over the stretches. */
    struct stretch stretch; /* that is open, or was last */
    uint64_t from;          /* nothing is earlier */
    bool is_timed;          /* a time is known */
    bool was_early;         /* stretches have ended before it was */
    /* The copy. */
    struct perf_copy copy;
    size_t at;        /* in shares */
    uint32_t current; /* the thread in the copy so far */
    bool nr;          /* VMX non-root operation */
    bool guests;
};

/* Begins anew. */
static bool begin_under(struct builder *builder, struct perf_source *source)
{
    if (!builder->session->guests) {
        *source = ptd_perf_pieces_source(&builder->pieces, builder->session, builder->trace);
        return true;
    }
    ptd_perf_guest_copy_free(builder->under);
    builder->under = ptd_perf_guest_copy_new(builder->session, builder->trace);
    if (!builder->under)
        return false;
    *source = ptd_perf_copy_source(ptd_perf_guest_copy_of(builder->under));
    return true;
}

/* ---- Stretches ---- */

/* It goes to whoever has its address space. Both come in order of time. */
static bool add_share(struct builder *builder, uint64_t offset, uint64_t from, uint64_t to)
{
    struct ptd_perf_thread thread;

    if (from > builder->from)
        builder->from = from;
    thread = ptd_perf_turns_space(&builder->turns, builder->from, to);
    if (builder->share_count && builder->shares[builder->share_count - 1].thread.tid == thread.tid)
        return true;
    if (!array_grow((void **)&builder->shares, &builder->share_capacity, builder->share_count,
                    sizeof(*builder->shares)))
        return false;
    builder->shares[builder->share_count++] = (struct share){offset, thread};
    return true;
}

/*
 * The last stretch is all there. What is in front of the first time cannot be decoded: it is taken
 * for the time's, as soon as that is known.
 */
static bool end_stretch(struct builder *builder, bool is_last)
{
    const struct stretch *const stretch = &builder->stretch;

    if (!builder->is_timed && !is_last) {
        builder->was_early = true;
        return true;
    }
    if (builder->was_early && builder->share_count == 0 && !add_share(builder, 0, 0, 0))
        return false;
    return add_share(builder, stretch->offset, stretch->from, stretch->to);
}

static bool begin_stretch(struct builder *builder, uint64_t offset, uint64_t tsc)
{
    if (!end_stretch(builder, false))
        return false;
    builder->stretch = (struct stretch){.offset = offset, .from = tsc, .to = tsc};
    return true;
}

/* Where there are VMs, PSBEND tells whose a time is. */
static void look_for_time(struct builder *builder, const struct ptd_time *time)
{
    struct ptd_time_point point;

    ptd_time_point(time, &point);
    builder->is_timed = point.tsc != PTD_TIME_UNKNOWN;
    if (builder->is_timed)
        builder->from = point.tsc;
}

static bool find_stretches(struct builder *builder, struct perf_scan *scan, struct ptd_time *time)
{
    struct ptd_packet packet;
    bool open = true;

    for (;;) {
        struct ptd_time_point point;

        if (builder->is_timed)
            ptd_perf_scan_pass(scan, time);
        if (!ptd_perf_scan_packet(scan, time, &packet))
            break;
        ptd_time_packet(time, &packet);
        if (!builder->is_timed)
            look_for_time(builder, time);
        if (packet.type != PTD_PIP && packet.type != PTD_TIP_PGE && packet.type != PTD_TIP_PGD)
            continue;
        ptd_perf_scan_point(scan, time, &point);
        if (point.tsc == PTD_TIME_UNKNOWN)
            point.tsc = 0;
        if (open)
            builder->stretch.to = point.tsc;
        open = packet.type != PTD_TIP_PGD;
        if (open && !begin_stretch(builder, packet.offset, point.tsc))
            return false;
    }
    if (open)
        builder->stretch.to = UINT64_MAX;
    return !scan->no_memory && end_stretch(builder, true);
}

static bool find_shares(struct builder *builder)
{
    struct ptd_time *const time = ptd_perf_time_new(builder->session);
    struct perf_scan scan = {0};
    struct perf_source source;
    bool ok;

    builder->turns = ptd_perf_threads_of(builder->session, builder->trace);
    ok = time && begin_under(builder, &source) && ptd_perf_scan_begin(&scan, source) &&
         find_stretches(builder, &scan, time);
    ptd_time_free(time);
    ptd_perf_scan_end(&scan);
    return ok;
}

/* ---- The copy ---- */

static void make_pip(struct builder *builder, uint32_t tid, uint8_t bytes[PT_PIP_LEN])
{
    const uint64_t cr3 = tid == NO_ID ? 0 : PTD_PERF_CR3(tid);
    const uint64_t payload = (cr3 >> PT_PIP_CR3_SHR) << PT_PIP_SHL;

    bytes[0] = PT_OPC_EXT;
    bytes[1] = PT_EXT_PIP;
    for (unsigned i = 2; i < PT_PIP_LEN; i++)
        bytes[i] = (uint8_t)(payload >> (8 * (i - 2)));
    builder->current = tid;
}

static bool put_pip(struct builder *builder, uint32_t tid)
{
    uint8_t bytes[PT_PIP_LEN];

    make_pip(builder, tid, bytes);
    return ptd_perf_copy_put(&builder->copy, bytes, sizeof(bytes));
}

static bool insert_pip(struct builder *builder, uint32_t tid)
{
    uint8_t bytes[PT_PIP_LEN];

    _Static_assert(PT_PIP_LEN == PERF_INSERTED_BYTES, "");
    make_pip(builder, tid, bytes);
    return ptd_perf_copy_insert(&builder->copy, bytes);
}

static bool take_packet(void *owner, const struct ptd_packet *packet)
{
    struct builder *const builder = owner;
    struct perf_copy *const copy = &builder->copy;
    uint32_t tid;

    while (builder->at + 1 < builder->share_count &&
           builder->shares[builder->at + 1].offset <= packet->offset)
        builder->at++;
    tid = builder->shares[builder->at].thread.tid;
    switch (packet->type) {
    case PTD_PIP:
        builder->nr = packet->pip.nr;
        builder->guests |= builder->nr;
        return builder->nr ? ptd_perf_copy_same(copy, packet) : put_pip(builder, tid);
    case PTD_TIP_PGE:
        return (builder->nr || tid == builder->current || insert_pip(builder, tid)) &&
               ptd_perf_copy_same(copy, packet);
    case PTD_PSB: /* decoding may begin here; if a guest runs, PSB+ says so */
        builder->nr = false;
        return ptd_perf_copy_same(copy, packet) && insert_pip(builder, tid);
    default:
        return ptd_perf_copy_same(copy, packet);
    }
}

static int compare_threads(const void *left, const void *right)
{
    const struct ptd_perf_thread *const a = left, *const b = right;

    return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* The threads of all stretches, each once. */
static bool list_threads(const struct builder *builder, struct ptd_perf_cpu_trace *out)
{
    size_t kept = 0;

    out->threads = calloc(builder->share_count + 1, sizeof(*out->threads));
    if (!out->threads)
        return false;
    for (size_t i = 0; i < builder->share_count; i++) {
        if (builder->shares[i].thread.tid != NO_ID)
            out->threads[out->thread_count++] = builder->shares[i].thread;
    }
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
static bool join_inserted(struct ptd_perf_cpu_trace *out, const struct perf_copy *copy,
                          const struct perf_copy *under)
{
    const size_t under_count = under ? under->inserted_count : 0;
    const size_t count = copy->inserted_count + under_count;
    uint64_t *const all = calloc(count + 1, sizeof(*all));
    size_t of_out = 0, of_under = 0;

    if (!all)
        return false;
    while (of_out + of_under < count) {
        const bool is_under =
            of_under < under_count &&
            (of_out == copy->inserted_count ||
             under->inserted[of_under] + of_out * PT_PIP_LEN < copy->inserted[of_out]);

        all[of_out + of_under] =
            is_under ? under->inserted[of_under] + of_out * PT_PIP_LEN : copy->inserted[of_out];
        of_under += is_under;
        of_out += !is_under;
    }
    out->inserted = all;
    out->inserted_count = count;
    return true;
}

static bool make_copy(struct builder *builder, struct ptd_perf_cpu_trace *out)
{
    struct perf_whole whole = {.store = builder->session->store};
    struct perf_source source;

    if (!find_shares(builder) || !begin_under(builder, &source) ||
        !ptd_perf_copy_begin(&builder->copy, source) ||
        !ptd_perf_copy_all(&whole, ptd_perf_copy_source(&builder->copy), builder->trace->len_bytes))
        return false;
    *out = (struct ptd_perf_cpu_trace){
        .bytes = whole.bytes,
        .len_bytes = whole.len,
        .switched = builder->turns.end > builder->turns.begin,
        .guests = builder->guests,
        .room = whole.room,
        .store = whole.store,
    };
    return list_threads(builder, out) &&
           join_inserted(out, &builder->copy,
                         builder->under ? ptd_perf_guest_copy_of(builder->under) : NULL);
}

int ptd_perf_cpu_trace(const struct ptd_perf_session *session, const struct ptd_perf_trace *trace,
                       struct ptd_perf_cpu_trace *out)
{
    struct builder builder = {.session = session, .trace = trace, .current = NO_ID};
    bool ok;

    *out = (struct ptd_perf_cpu_trace){0};
    builder.copy.packet = take_packet;
    builder.copy.owner = &builder;
    ok = make_copy(&builder, out);
    ptd_perf_copy_end(&builder.copy);
    ptd_perf_guest_copy_free(builder.under);
    free(builder.shares);
    if (ok)
        return PTD_OK;
    ptd_perf_cpu_trace_free(out);
    return PTD_E_NOMEM;
}

void ptd_perf_cpu_trace_free(struct ptd_perf_cpu_trace *trace)
{
    ptd_perf_copy_free(trace->store, trace->bytes, trace->room);
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
