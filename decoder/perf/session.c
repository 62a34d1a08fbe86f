/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a decoder of Intel PT needs of a perf.data, collected from all its records: the packets of
 * each buffer, the code of each process, names, context switches, the conversion of time.
 */
#include <string.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/extents.h"
#include "perf/build_id.h"
#include "perf/file.h"
#include "perf/layout.h"
#include "perf/lookup.h"
#include "perf/sort.h"
#include "perf/span.h"
#include "pt_packets.h"
#include "ptdec_perf.h"

#define PROT_EXECUTE    4u
#define KERNEL_PID      UINT32_MAX
#define PRIV_WORDS      17 /* of AUXTRACE_INFO, up to the length of the filter */
#define BUDGET_BYTES    (64ull << 20)
#define BUDGET_PER_BYTE 16u
#define SAME_BYTES_MIN  64u
#define AUXTRACE_ALIGN  8u /* perf pads what it reads with zeros, which are PAD packets */

/* An AUXTRACE record: a part of a trace. */
struct piece {
    uint32_t idx;
    int32_t cpu, tid;
    uint64_t offset, reference;
    const uint8_t *bytes;
    uint64_t size;
    uint64_t known; /* of its bytes, those in front that the piece before has too */
    size_t order;   /* in the file */
    bool of_sample;
    uint64_t time; /* of the sample */
};

struct collector {
    struct ptd_perf_session session; /* first: the user's pointer is this one */
    struct ptd_perf *perf;
    struct ptd_perf_trace *traces;
    struct ptd_perf_map *maps;
    struct ptd_perf_comm *comms;
    struct ptd_perf_task *forks;
    struct ptd_perf_switch *switches;
    struct ptd_perf_switch *starts;
    struct ptd_perf_symbol *symbols;
    struct ptd_perf_poke *pokes;
    struct piece *pieces;
    struct ptd_perf_piece *parts; /* of traces: the bytes of pieces */
    void **kept;                  /* names and code */
    size_t trace_capacity, map_capacity, comm_capacity, fork_capacity, switch_capacity;
    size_t symbol_capacity, piece_count, piece_capacity, part_count, kept_count, kept_capacity;
    size_t start_capacity, poke_capacity;
    struct extents origins; /* CPUs of events by their ids, from ID_INDEX */
    struct ptd_perf_lookup *lookup;
    bool no_memory, too_much;
    uint64_t budget_bytes; /* what a hostile file may still make us keep */
};

/* ---- Collecting ---- */

static bool spend(struct collector *collector, size_t bytes)
{
    if (bytes > collector->budget_bytes) {
        collector->too_much = true;
        return false;
    }
    collector->budget_bytes -= bytes;
    return true;
}

/* A copy that lives as long as the session. NULL: no memory. */
static const void *keep_bytes(struct collector *collector, const void *bytes, size_t len)
{
    void *copy;

    if (!spend(collector, len + sizeof(copy)) ||
        !array_grow((void **)&collector->kept, &collector->kept_capacity, collector->kept_count,
                    sizeof(copy)) ||
        !(copy = malloc(len + 1)))
        return NULL;
    if (len)
        memcpy(copy, bytes, len);
    collector->kept[collector->kept_count++] = copy;
    return copy;
}

static const char *keep(struct collector *collector, const char *text)
{
    return keep_bytes(collector, text, strlen(text) + 1);
}

/* Room in one of the lists, within the budget. */
static bool room(struct collector *collector, void *list, size_t count, size_t *capacity,
                 size_t element_bytes)
{
    return spend(collector, element_bytes) && array_grow(list, capacity, count, element_bytes);
}

static bool add_map(struct collector *collector, const struct ptd_perf_record *record)
{
    const unsigned mode = record->misc & PTD_PERF_MISC_CPUMODE;
    const bool of_kernel = record->mmap.pid == KERNEL_PID || mode == PTD_PERF_MISC_KERNEL;
    struct ptd_perf_map map = {
        .time = record->time,
        .start = record->mmap.start,
        .len = record->mmap.len,
        .pgoff = record->mmap.pgoff,
        .pid = of_kernel ? KERNEL_PID : record->mmap.pid,
        .prot = record->mmap.prot,
        .executable =
            record->type == PTD_PERF_MMAP || (record->mmap.prot & PROT_EXECUTE) || of_kernel,
        .build_id_bytes = record->mmap.build_id_bytes,
    };

    /* The process is that of the virtual machine, in which this code is not. */
    if (mode == PTD_PERF_MISC_GUEST_KERNEL || mode == PTD_PERF_MISC_GUEST_USER) {
        collector->session.guest_map_count++;
        return true;
    }
    memcpy(map.build_id, record->mmap.build_id, sizeof(map.build_id));
    map.file = keep(collector, record->mmap.file);
    if (!map.file || !room(collector, &collector->maps, collector->session.map_count,
                           &collector->map_capacity, sizeof(map)))
        return false;
    collector->maps[collector->session.map_count++] = map;
    return true;
}

static bool add_comm(struct collector *collector, const struct ptd_perf_record *record)
{
    struct ptd_perf_comm comm = {
        .time = record->time,
        .pid = record->comm.pid,
        .tid = record->comm.tid,
        .exec = record->misc & PTD_PERF_MISC_COMM_EXEC,
    };

    comm.name = keep(collector, record->comm.name);
    if (!comm.name || !room(collector, &collector->comms, collector->session.comm_count,
                            &collector->comm_capacity, sizeof(comm)))
        return false;
    collector->comms[collector->session.comm_count++] = comm;
    return true;
}

static bool add_fork(struct collector *collector, const struct ptd_perf_record *record)
{
    if (!room(collector, &collector->forks, collector->session.fork_count,
              &collector->fork_capacity, sizeof(*collector->forks)))
        return false;
    collector->forks[collector->session.fork_count++] = (struct ptd_perf_task){
        .time = record->task.time,
        .pid = record->task.pid,
        .tid = record->task.tid,
        .parent_pid = record->task.parent_pid,
        .parent_tid = record->task.parent_tid,
    };
    return true;
}

static bool add_switch(struct collector *collector, const struct ptd_perf_record *record)
{
    if (!room(collector, &collector->switches, collector->session.switch_count,
              &collector->switch_capacity, sizeof(*collector->switches)))
        return false;
    collector->switches[collector->session.switch_count++] = (struct ptd_perf_switch){
        .time = record->time,
        .cpu = record->has_cpu ? record->cpu : UINT32_MAX,
        .pid = record->pid,
        .tid = record->tid,
        .out = record->context_switch.out,
        .has_other = record->context_switch.has_other,
        .other_pid = record->context_switch.other_pid,
        .other_tid = record->context_switch.other_tid,
    };
    return true;
}

static bool add_start(struct collector *collector, const struct ptd_perf_record *record)
{
    if (!room(collector, &collector->starts, collector->session.start_count,
              &collector->start_capacity, sizeof(*collector->starts)))
        return false;
    collector->starts[collector->session.start_count++] = (struct ptd_perf_switch){
        .time = record->time,
        .cpu = record->has_cpu ? record->cpu : UINT32_MAX,
        .pid = record->itrace_start.pid,
        .tid = record->itrace_start.tid,
    };
    return true;
}

static bool add_symbol(struct collector *collector, const struct ptd_perf_record *record)
{
    struct ptd_perf_symbol symbol = {
        .time = record->time,
        .start = record->ksymbol.start,
        .len = record->ksymbol.len,
        .kind = record->ksymbol.kind,
        .gone = record->ksymbol.flags & 1,
    };

    symbol.name = keep(collector, record->ksymbol.name);
    if (!symbol.name || !room(collector, &collector->symbols, collector->session.symbol_count,
                              &collector->symbol_capacity, sizeof(symbol)))
        return false;
    collector->symbols[collector->session.symbol_count++] = symbol;
    return true;
}

static bool add_poke(struct collector *collector, const struct ptd_perf_record *record)
{
    struct ptd_perf_poke poke = {
        .time = record->time,
        .address = record->text_poke.address,
        .old_bytes = record->text_poke.old_bytes,
        .new_bytes = record->text_poke.new_bytes,
    };

    poke.before = keep_bytes(collector, record->text_poke.before, poke.old_bytes);
    poke.after = keep_bytes(collector, record->text_poke.after, poke.new_bytes);
    if (!poke.before || !poke.after ||
        !room(collector, &collector->pokes, collector->session.poke_count,
              &collector->poke_capacity, sizeof(poke)))
        return false;
    collector->pokes[collector->session.poke_count++] = poke;
    return true;
}

static bool add_piece(struct collector *collector, const struct ptd_perf_record *record)
{
    if (record->auxtrace.size == 0)
        return true;
    if (!room(collector, &collector->pieces, collector->piece_count, &collector->piece_capacity,
              sizeof(*collector->pieces)))
        return false;
    collector->pieces[collector->piece_count] = (struct piece){
        .idx = record->auxtrace.idx,
        .cpu = record->auxtrace.cpu,
        .tid = record->auxtrace.tid,
        .offset = record->auxtrace.offset,
        .reference = record->auxtrace.reference,
        .bytes = record->auxtrace.bytes,
        .size = record->auxtrace.size,
        .order = collector->piece_count,
    };
    collector->piece_count++;
    return true;
}

static bool add_origins(struct collector *collector, const struct ptd_perf_record *record)
{
    struct span span = {.pos = record->id_index.entries, .end = record->body + record->body_bytes};

    for (uint64_t i = 0; i < record->id_index.count; i++) {
        struct extent origin = {.first = take64(&span)};
        struct extent *known;

        (void)take64(&span); /* index */
        origin.number = take64(&span);
        (void)take64(&span); /* thread */
        known = ptd_extents_at(&collector->origins, origin.first);
        if (known)
            *known = origin; /* the last one counts */
        else if (!spend(collector, sizeof(origin)) || !ptd_extents_add(&collector->origins, origin))
            return false;
    }
    return true;
}

/* What a sample does not say of its CPU, ID_INDEX says of its event. */
static void locate_sample(const struct collector *collector, const struct ptd_perf_record *record,
                          struct piece *piece)
{
    const struct extent *const origin =
        record->has_id ? ptd_extents_at(&collector->origins, record->id) : NULL;

    piece->cpu = record->has_cpu ? (int32_t)record->cpu : -1;
    piece->tid = -1;
    if (piece->cpu < 0 && origin)
        piece->cpu = (int32_t)origin->number;
    if (piece->cpu < 0 && record->has_tid)
        piece->tid = (int32_t)record->tid;
    piece->idx = (uint32_t)(piece->cpu < 0 ? piece->tid : piece->cpu);
}

/* The packets of a sample. Its bytes may be gone with the next record. */
static bool add_sample(struct collector *collector, const struct ptd_perf_record *record)
{
    struct piece piece = {
        .of_sample = true,
        .time = record->time,
        .bytes = record->sample.aux,
        .size = record->sample.aux_bytes,
        .order = collector->piece_count,
    };

    collector->session.sample_count++;
    if (!record->sample.aux)
        return true;
    collector->session.aux_sample_count++;
    locate_sample(collector, record, &piece);
    if (record->compressed)
        piece.bytes = keep_bytes(collector, record->sample.aux, record->sample.aux_bytes);
    if (!piece.bytes || !room(collector, &collector->pieces, collector->piece_count,
                              &collector->piece_capacity, sizeof(piece)))
        return false;
    if (piece.size)
        collector->pieces[collector->piece_count++] = piece;
    return true;
}

/* The layout is that of `enum` in tools/perf/util/intel-pt.h, INTEL_PT_PMU_TYPE and following. */
static void take_pt(struct ptd_perf_session *session, const struct ptd_perf_record *record)
{
    struct span span = {.pos = record->auxtrace_info.priv,
                        .end = record->auxtrace_info.priv + record->auxtrace_info.priv_bytes};
    struct ptd_perf_pt *const pt = &session->pt;
    uint64_t words[PRIV_WORDS] = {0};

    if (record->auxtrace_info.kind != PERF_AUXTRACE_INTEL_PT)
        return;
    for (size_t i = 0; i < PRIV_WORDS && span_left(&span) >= 8; i++) /* perf of old has fewer */
        words[i] = take64(&span);
    session->has_pt = true;
    *pt = (struct ptd_perf_pt){
        .pmu_type = (uint32_t)words[0],
        .time_shift = words[1],
        .time_mult = words[2],
        .time_zero = words[3],
        .has_time = words[4] && words[1] < 64 && words[2] != 0,
        .tsc_bit = words[5],
        .noretcomp_bit = words[6],
        .sched_switch = words[7],
        .snapshot = words[8] != 0,
        .per_cpu = words[9] != 0,
        .mtc_bit = words[10],
        .mtc_freq_bits = words[11],
        .tsc_ctc_num = words[12],
        .tsc_ctc_den = words[13],
        .cyc_bit = words[14],
        .max_nonturbo_ratio = words[15],
    };
}

static void take_time_conv(struct ptd_perf_pt *pt, const struct ptd_perf_record *record)
{
    if (pt->has_time || record->time_conv.shift >= 64 || record->time_conv.mult == 0)
        return;
    pt->time_shift = record->time_conv.shift;
    pt->time_mult = record->time_conv.mult;
    pt->time_zero = record->time_conv.zero;
    pt->has_time = true;
}

static void count_aux(struct ptd_perf_session *session, uint64_t flags)
{
    session->truncated += (flags & PTD_PERF_AUX_TRUNCATED) != 0;
    session->partial += (flags & PTD_PERF_AUX_PARTIAL) != 0;
    session->collisions += (flags & PTD_PERF_AUX_COLLISION) != 0;
}

static bool collect(struct collector *collector, const struct ptd_perf_record *record)
{
    struct ptd_perf_session *const session = &collector->session;

    session->record_count++;
    switch (record->type) {
    case PTD_PERF_MMAP:
    case PTD_PERF_MMAP2:
        return add_map(collector, record);
    case PTD_PERF_COMM:
        return add_comm(collector, record);
    case PTD_PERF_FORK:
        return add_fork(collector, record);
    case PTD_PERF_SWITCH:
    case PTD_PERF_SWITCH_CPU_WIDE:
        return add_switch(collector, record);
    case PTD_PERF_ITRACE_START:
        return add_start(collector, record);
    case PTD_PERF_KSYMBOL:
        return add_symbol(collector, record);
    case PTD_PERF_AUXTRACE:
        return add_piece(collector, record);
    case PTD_PERF_AUXTRACE_INFO:
        take_pt(session, record);
        return true;
    case PTD_PERF_TIME_CONV:
        take_time_conv(&session->pt, record);
        return true;
    case PTD_PERF_AUX:
        count_aux(session, record->aux.flags);
        return true;
    case PTD_PERF_LOST:
    case PTD_PERF_LOST_SAMPLES:
        session->lost_count += record->lost.lost;
        return true;
    case PTD_PERF_TEXT_POKE:
        return add_poke(collector, record);
    case PTD_PERF_AUXTRACE_ERROR:
        session->error_count++;
        return true;
    case PTD_PERF_SAMPLE:
        return add_sample(collector, record);
    case PTD_PERF_ID_INDEX:
        return add_origins(collector, record);
    default:
        return true;
    }
}

/* ---- Order ---- */

static int compare_pieces(const void *left, const void *right)
{
    const struct piece *const a = left, *const b = right;

    if (a->of_sample != b->of_sample)
        return a->of_sample ? 1 : -1;
    if (a->idx != b->idx)
        return a->idx < b->idx ? -1 : 1;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/*
 * How many bytes at the end of a are those at the start of b: the longest border, by the failure
 * function of Knuth, Morris and Pratt. False: no memory.
 */
static bool overlap(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes,
                    uint64_t *known)
{
    uint32_t *const fail = calloc(b_bytes + 1, sizeof(*fail));
    size_t matched = 0;

    if (!fail)
        return false;
    for (size_t i = 1; i < b_bytes; i++) {
        while (matched && b[matched] != b[i])
            matched = fail[matched - 1];
        matched += b[matched] == b[i];
        fail[i] = (uint32_t)matched;
    }
    matched = 0;
    for (size_t i = 0; i < a_bytes; i++) {
        while (matched && (matched == b_bytes || b[matched] != a[i]))
            matched = fail[matched - 1];
        matched += b[matched] == a[i];
    }
    free(fail);
    *known = matched;
    return true;
}

/* Whether a PSB is among the packets, and something behind it. */
static bool holds_psb(const uint8_t *bytes, size_t len)
{
    struct ptd_packets packets;

    ptd_packets_init(&packets, bytes, len);
    return ptd_packets_sync(&packets) == PTD_OK && len - ptd_packets_offset(&packets) > PT_PSB_LEN;
}

/*
 * Two snapshots of a ring buffer share what was not overwritten in between. Packets of a loop that
 * are alike prove nothing, but a PSB and all that stands behind it do, for its TSC comes but once.
 * Without one among them nothing is lost: decoding would begin at the next.
 */
static bool follows_in_ring(struct collector *collector, const struct piece *a, struct piece *b)
{
    const size_t b_bytes = (size_t)(b->size < a->size ? b->size : a->size);
    size_t a_bytes = (size_t)a->size;

    if (a->size > UINT32_MAX || b->size > UINT32_MAX)
        return false;
    for (unsigned i = 1; i < AUXTRACE_ALIGN && a_bytes && a->bytes[a_bytes - 1] == 0; i++)
        a_bytes--;
    if (!overlap(a->bytes, a_bytes, b->bytes, b_bytes, &b->known)) {
        collector->no_memory = true;
        return false;
    }
    if (b->known < SAME_BYTES_MIN || !holds_psb(b->bytes, (size_t)b->known))
        b->known = 0;
    return b->known != 0;
}

/* Whether b's bytes (but for those that are known) stand right behind a's. */
static bool follows(struct collector *collector, const struct piece *a, struct piece *b)
{
    const uint64_t end = a->offset + a->size;

    if (a->idx != b->idx || a->cpu != b->cpu || a->tid != b->tid)
        return false;
    if (a->of_sample != b->of_sample)
        return false;
    if (collector->session.pt.snapshot || a->of_sample)
        return follows_in_ring(collector, a, b);
    return b->offset <= end && end - b->offset < AUXTRACE_ALIGN;
}

/* One trace of the pieces from first on, `count` of them. */
static bool add_trace(struct collector *collector, const struct piece *first, size_t count)
{
    struct ptd_perf_piece *const parts = &collector->parts[collector->part_count];
    struct ptd_perf_trace trace = {
        .idx = first->idx,
        .cpu = first->cpu,
        .tid = first->tid,
        .aux_offset = first->offset,
        .reference = first->of_sample ? ptd_perf_tsc_of_time(&collector->session.pt, first->time)
                                      : first->reference,
        .pieces = parts,
    };

    if (!array_grow((void **)&collector->traces, &collector->trace_capacity,
                    collector->session.trace_count, sizeof(trace)))
        return false;
    for (size_t i = 0; i < count; i++) {
        const size_t fresh = (size_t)(first[i].size - first[i].known);

        if (fresh > 0)
            parts[trace.piece_count++] =
                (struct ptd_perf_piece){first[i].bytes + first[i].known, fresh};
        trace.len_bytes += fresh;
    }
    if (trace.piece_count == 1)
        trace.bytes = parts[0].bytes;
    collector->part_count += trace.piece_count;
    collector->traces[collector->session.trace_count++] = trace;
    return true;
}

static bool join_pieces(struct collector *collector)
{
    size_t count;

    collector->parts = calloc(collector->piece_count + 1, sizeof(*collector->parts));
    if (!collector->parts)
        return false;
    if (collector->piece_count)
        qsort(collector->pieces, collector->piece_count, sizeof(*collector->pieces),
              compare_pieces);
    for (size_t i = 0; i < collector->piece_count; i += count) {
        struct piece *const first = &collector->pieces[i];

        for (count = 1; i + count < collector->piece_count; count++) {
            if (!follows(collector, &first[count - 1], &first[count]))
                break;
        }
        if (collector->no_memory || !add_trace(collector, first, count))
            return false;
    }
    return true;
}

/* Build ids of maps that came without one. */
static void identify(struct collector *collector)
{
    static const char kernel[] =
        "[kernel.kallsyms]"; /* its map has the name of a symbol behind it */
    struct perf_build_ids *const ids = ptd_perf_file_build_ids(collector->perf);

    for (size_t i = 0; i < collector->session.map_count; i++) {
        struct ptd_perf_map *const map = &collector->maps[i];
        const bool of_kernel = strncmp(map->file, kernel, sizeof(kernel) - 1) == 0;
        const struct perf_build_id *const id =
            map->build_id_bytes ? NULL
                                : ptd_perf_build_ids_find(ids, of_kernel ? kernel : map->file);

        if (!id)
            continue;
        memcpy(map->build_id, id->bytes, sizeof(map->build_id));
        map->build_id_bytes = id->len_bytes;
    }
}

static bool finish(struct collector *collector)
{
    struct ptd_perf_session *const session = &collector->session;

    if (!join_pieces(collector) ||
        !ptd_perf_sort(collector->maps, session->map_count, sizeof(*collector->maps)) ||
        !ptd_perf_sort(collector->comms, session->comm_count, sizeof(*collector->comms)) ||
        !ptd_perf_sort(collector->forks, session->fork_count, sizeof(*collector->forks)) ||
        !ptd_perf_sort(collector->switches, session->switch_count, sizeof(*collector->switches)) ||
        !ptd_perf_sort(collector->pokes, session->poke_count, sizeof(*collector->pokes)) ||
        !ptd_perf_sort(collector->starts, session->start_count, sizeof(*collector->starts)) ||
        !ptd_perf_sort(collector->symbols, session->symbol_count, sizeof(*collector->symbols)))
        return false;
    identify(collector);
    session->traces = collector->traces;
    session->maps = collector->maps;
    session->comms = collector->comms;
    session->forks = collector->forks;
    session->switches = collector->switches;
    session->starts = collector->starts;
    session->symbols = collector->symbols;
    session->pokes = collector->pokes;
    session->events = ptd_perf_events(collector->perf, &session->event_count);
    session->cpuid = ptd_perf_cpuid(collector->perf);
    collector->lookup = ptd_perf_lookup_new(session);
    session->lookup = collector->lookup;
    return session->lookup != NULL;
}

/* ---- Public ---- */

int ptd_perf_session_new(const void *bytes, size_t len_bytes, struct ptd_perf_session **session,
                         struct ptd_perf_fault *fault)
{
    struct collector *const collector = calloc(1, sizeof(*collector));
    struct ptd_perf_record record = {0};
    int error = PTD_E_NOMEM;

    *fault = (struct ptd_perf_fault){0};
    if (!collector)
        return error;
    collector->budget_bytes = BUDGET_BYTES + (uint64_t)len_bytes * BUDGET_PER_BYTE;
    error = ptd_perf_open(bytes, len_bytes, &collector->perf, fault);
    while (!error) {
        error = ptd_perf_next(collector->perf, &record);
        if (!error && !collect(collector, &record))
            error = PTD_E_NOMEM;
        else if (error && error != PTD_E_NOMEM && finish(collector)) {
            collector->session.error = error == PTD_END ? PTD_OK : error;
            collector->session.fault = *ptd_perf_fault(collector->perf);
            *session = &collector->session;
            return PTD_OK;
        }
    }
    if (collector->too_much) {
        error = PTD_E_FORMAT;
        fault->offset = record.offset;
        (void)snprintf(fault->text, sizeof(fault->text),
                       "compressed records hold more than a recording of this size can");
    }
    ptd_perf_session_free(&collector->session);
    return error == PTD_END ? PTD_E_NOMEM : error;
}

void ptd_perf_session_free(struct ptd_perf_session *session)
{
    struct collector *const collector = (struct collector *)session;

    if (!collector)
        return;
    ptd_perf_close(collector->perf);
    for (size_t i = 0; i < collector->kept_count; i++)
        free(collector->kept[i]);
    ptd_perf_lookup_free(collector->lookup);
    free(collector->kept);
    free(collector->parts);
    free(collector->traces);
    free(collector->maps);
    free(collector->comms);
    free(collector->forks);
    free(collector->switches);
    free(collector->starts);
    free(collector->symbols);
    free(collector->pokes);
    free(collector->pieces);
    ptd_extents_free(&collector->origins);
    free(collector);
}
