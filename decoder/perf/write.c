/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A perf.data that stock perf decodes, from packets and what they are packets of. One event of the
 * intel_pt PMU; per-thread buffers if every trace names a thread, else per-CPU ones.
 */
#include <string.h>
#include <stdlib.h>

#include "perf/layout.h"
#include "ptdec_perf.h"

#define EVENT_ID          1u
#define PMU_TYPE          8u /* what the kernel gave intel_pt; perf compares it with the attr's */
#define SAMPLE_TYPE       (SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_IDENTIFIER)
#define INFO_WORDS        18u
#define NAME_BYTES_MAX    4096u
#define AUXTRACE_BYTES    48u /* an AUXTRACE record without its packets */
#define HEADER_BYTES      (PERF_HEADER_BYTES + 8 + PERF_ATTR_BYTES + 16) /* one id, one attr */
#define PROT_READ_EXECUTE 5u
#define MAP_IS_PRIVATE    2u

/* RTIT_CTL, as the attr's config has it (SDM vol. 3, 33.2.8.2). */
#define CONFIG_CYC      (1ull << 1)
#define CONFIG_MTC      (1ull << 9)
#define CONFIG_TSC      (1ull << 10)
#define CONFIG_NORETC   (1ull << 11)
#define CONFIG_BRANCH   (1ull << 13)
#define CONFIG_MTC_FREQ (0xfull << 14)

static size_t padded_bytes(const struct ptd_perf_trace *trace)
{
    return (trace->len_bytes + 7) & ~(size_t)7;
}

struct buffer {
    uint8_t *bytes;
    size_t len, capacity;
    bool no_memory;
};

static void put(struct buffer *buffer, const void *bytes, size_t len)
{
    if (len > buffer->capacity - buffer->len) {
        const size_t capacity = 2 * buffer->capacity + len + 4096;
        uint8_t *const grown = realloc(buffer->bytes, capacity);

        if (!grown) {
            buffer->no_memory = true;
            return;
        }
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    if (len)
        memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
}

static void put_le(struct buffer *buffer, uint64_t value, unsigned count)
{
    uint8_t bytes[8];

    for (unsigned i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    put(buffer, bytes, count);
}

static void put16(struct buffer *buffer, uint16_t value)
{
    put_le(buffer, value, 2);
}

static void put32(struct buffer *buffer, uint32_t value)
{
    put_le(buffer, value, 4);
}

static void put64(struct buffer *buffer, uint64_t value)
{
    put_le(buffer, value, 8);
}

/* A string with its zero, filled up to a multiple of 8. */
static void put_string(struct buffer *buffer, const char *text)
{
    static const char zeros[8];
    size_t len = strlen(text);

    len = len < NAME_BYTES_MAX ? len : NAME_BYTES_MAX - 1;
    put(buffer, text, len);
    put(buffer, zeros, 8 - len % 8);
}

static size_t begin_record(struct buffer *buffer, uint32_t type, uint16_t misc)
{
    const size_t at = buffer->len;

    put32(buffer, type);
    put16(buffer, misc);
    put16(buffer, 0); /* size, later */
    return at;
}

static void end_record(struct buffer *buffer, size_t at)
{
    const size_t size = buffer->len - at;

    if (buffer->no_memory)
        return;
    buffer->bytes[at + 6] = (uint8_t)size;
    buffer->bytes[at + 7] = (uint8_t)(size >> 8);
}

/* Ends a record with what sample_id_all puts behind it. */
static void end_sampled(struct buffer *buffer, size_t at, uint32_t pid, uint32_t tid, uint64_t time,
                        uint32_t cpu)
{
    put32(buffer, pid);
    put32(buffer, tid);
    put64(buffer, time);
    put32(buffer, cpu);
    put32(buffer, 0);
    put64(buffer, EVENT_ID);
    end_record(buffer, at);
}

static bool per_cpu(const struct ptd_perf_out *out)
{
    for (size_t i = 0; i < out->trace_count; i++) {
        if (out->traces[i].cpu >= 0)
            return true;
    }
    return false;
}

/* ---- Records ---- */

static void put_info(struct buffer *buffer, const struct ptd_perf_out *out)
{
    const size_t at = begin_record(buffer, PTD_PERF_AUXTRACE_INFO, 0);
    const struct ptd_perf_pt *const pt = &out->pt;
    const uint64_t words[INFO_WORDS] = {
        PMU_TYPE,
        pt->time_shift,
        pt->time_mult,
        pt->time_zero,
        pt->has_time,
        CONFIG_TSC,
        CONFIG_NORETC,
        out->switch_count ? 3 : 0, /* 3: context switch records of the kernel */
        0,                         /* snapshot mode */
        per_cpu(out),
        CONFIG_MTC,
        CONFIG_MTC_FREQ,
        pt->tsc_ctc_num,
        pt->tsc_ctc_den,
        CONFIG_CYC,
        pt->max_nonturbo_ratio,
        0, /* length of the filter */
        0, /* event trace */
    };

    put32(buffer, PERF_AUXTRACE_INTEL_PT);
    put32(buffer, 0);
    for (size_t i = 0; i < INFO_WORDS; i++)
        put64(buffer, words[i]);
    end_record(buffer, at);
}

static void put_comm(struct buffer *buffer, const struct ptd_perf_comm *comm)
{
    const size_t at = begin_record(buffer, PTD_PERF_COMM, 0);

    put32(buffer, comm->pid);
    put32(buffer, comm->tid);
    put_string(buffer, comm->name);
    end_sampled(buffer, at, comm->pid, comm->tid, comm->time, 0);
}

/* The kernel's code comes in MMAP, without a process; that of others in MMAP2. */
static void put_map(struct buffer *buffer, const struct ptd_perf_map *map)
{
    const bool kernel = map->pid == UINT32_MAX;
    const bool has_id = !kernel && map->build_id_bytes;
    const uint16_t misc = kernel ? PTD_PERF_MISC_KERNEL
                                 : PTD_PERF_MISC_USER | (has_id ? PTD_PERF_MISC_MMAP_BUILD_ID : 0);
    const size_t at = begin_record(buffer, kernel ? PTD_PERF_MMAP : PTD_PERF_MMAP2, misc);

    put32(buffer, map->pid);
    put32(buffer, kernel ? 0 : map->pid);
    put64(buffer, map->start);
    put64(buffer, map->len);
    put64(buffer, map->pgoff);
    if (has_id) {
        put32(buffer, map->build_id_bytes);
        put(buffer, map->build_id, sizeof(map->build_id));
    } else if (!kernel) {
        put64(buffer, 0); /* device */
        put64(buffer, 0); /* inode */
        put64(buffer, 0);
    }
    if (!kernel) {
        put32(buffer, PROT_READ_EXECUTE);
        put32(buffer, MAP_IS_PRIVATE);
    }
    put_string(buffer, map->file);
    end_sampled(buffer, at, map->pid, map->pid, map->time, 0);
}

static void put_fork(struct buffer *buffer, const struct ptd_perf_task *task)
{
    const size_t at = begin_record(buffer, PTD_PERF_FORK, 0);

    put32(buffer, task->pid);
    put32(buffer, task->parent_pid);
    put32(buffer, task->tid);
    put32(buffer, task->parent_tid);
    put64(buffer, task->time);
    end_sampled(buffer, at, task->parent_pid, task->parent_tid, task->time, 0);
}

static void put_switch(struct buffer *buffer, const struct ptd_perf_switch *each)
{
    const size_t at =
        begin_record(buffer, each->has_other ? PTD_PERF_SWITCH_CPU_WIDE : PTD_PERF_SWITCH,
                     each->out ? PTD_PERF_MISC_SWITCH_OUT : 0);

    if (each->has_other) {
        put32(buffer, each->other_pid);
        put32(buffer, each->other_tid);
    }
    end_sampled(buffer, at, each->pid, each->tid, each->time, each->cpu);
}

/* Without a process: as the kernel tells it. */
static void put_symbol(struct buffer *buffer, const struct ptd_perf_symbol *symbol)
{
    const size_t at = begin_record(buffer, PTD_PERF_KSYMBOL, 0);

    put64(buffer, symbol->start);
    put32(buffer, symbol->len);
    put16(buffer, symbol->kind);
    put16(buffer, symbol->gone);
    put_string(buffer, symbol->name);
    end_sampled(buffer, at, 0, 0, symbol->time, 0);
}

static void put_poke(struct buffer *buffer, const struct ptd_perf_poke *poke)
{
    static const char zeros[8];
    const size_t at = begin_record(buffer, PTD_PERF_TEXT_POKE, PTD_PERF_MISC_KERNEL);

    put64(buffer, poke->address);
    put16(buffer, poke->old_bytes);
    put16(buffer, poke->new_bytes);
    put(buffer, poke->before, poke->old_bytes);
    put(buffer, poke->after, poke->new_bytes);
    put(buffer, zeros, (8 - (buffer->len - at) % 8) % 8);
    end_sampled(buffer, at, 0, 0, poke->time, 0);
}

static void put_itrace_start(struct buffer *buffer, const struct ptd_perf_out *out,
                             const struct ptd_perf_trace *trace)
{
    const size_t at = begin_record(buffer, PTD_PERF_ITRACE_START, 0);
    uint32_t pid = (uint32_t)trace->tid;

    for (size_t i = 0; i < out->comm_count; i++) {
        if (out->comms[i].tid == (uint32_t)trace->tid)
            pid = out->comms[i].pid;
    }
    put32(buffer, pid);
    put32(buffer, (uint32_t)trace->tid);
    end_sampled(buffer, at, pid, (uint32_t)trace->tid, 0,
                trace->cpu < 0 ? 0 : (uint32_t)trace->cpu);
}

static void put_auxtrace(struct buffer *buffer, const struct ptd_perf_trace *trace, size_t padded)
{
    const size_t at = begin_record(buffer, PTD_PERF_AUXTRACE, 0);

    put64(buffer, padded);
    put64(buffer, trace->aux_offset);
    put64(buffer, trace->reference ? trace->reference : 1); /* perf takes 0 for "none" */
    put32(buffer, trace->idx);
    put32(buffer, (uint32_t)trace->tid);
    put32(buffer, (uint32_t)trace->cpu);
    put32(buffer, 0);
    end_record(buffer, at);
}

static void put_metadata(struct buffer *buffer, const struct ptd_perf_out *out)
{
    put_info(buffer, out);
    for (size_t i = 0; i < out->fork_count; i++)
        put_fork(buffer, &out->forks[i]);
    for (size_t i = 0; i < out->comm_count; i++)
        put_comm(buffer, &out->comms[i]);
    for (size_t i = 0; i < out->map_count; i++)
        put_map(buffer, &out->maps[i]);
    for (size_t i = 0; i < out->trace_count; i++) {
        if (out->traces[i].tid >= 0)
            put_itrace_start(buffer, out, &out->traces[i]);
    }
    for (size_t i = 0; i < out->switch_count; i++)
        put_switch(buffer, &out->switches[i]);
    for (size_t i = 0; i < out->symbol_count; i++)
        put_symbol(buffer, &out->symbols[i]);
    for (size_t i = 0; i < out->poke_count; i++)
        put_poke(buffer, &out->pokes[i]);
}

/* ---- Header ---- */

/* struct perf_event_attr, PERF_ATTR_BYTES long. */
static void put_attr(struct buffer *buffer, const struct ptd_perf_out *out)
{
    const size_t at = buffer->len;

    put32(buffer, PMU_TYPE);
    put32(buffer, PERF_ATTR_BYTES);
    put64(buffer, out->config | CONFIG_BRANCH);
    put64(buffer, 1); /* period */
    put64(buffer, SAMPLE_TYPE);
    put64(buffer, 0); /* read_format */
    put64(buffer, ATTR_MMAP | ATTR_COMM | ATTR_SAMPLE_ID_ALL | ATTR_MMAP2 | ATTR_COMM_EXEC |
                      (out->switch_count ? ATTR_CONTEXT_SWITCH : 0) |
                      (out->symbol_count ? ATTR_KSYMBOL : 0) |
                      (out->poke_count ? ATTR_TEXT_POKE : 0));
    while (buffer->len < at + PERF_ATTR_BYTES && !buffer->no_memory)
        put64(buffer, 0);
}

struct feature {
    unsigned bit;
    struct buffer bytes;
};

/* Where each AUXTRACE record stands, the first of them `at`, and its own size. */
static void build_index(const struct ptd_perf_out *out, uint64_t at, struct feature *auxtrace)
{
    auxtrace->bit = FEATURE_AUXTRACE;
    put64(&auxtrace->bytes, out->trace_count);
    for (size_t i = 0; i < out->trace_count; i++) {
        put64(&auxtrace->bytes, at);
        put64(&auxtrace->bytes, AUXTRACE_BYTES);
        at += AUXTRACE_BYTES + padded_bytes(&out->traces[i]);
    }
}

/* Whose processor it was, and what the event is called. */
static void build_features(const struct ptd_perf_out *out, struct feature *cpuid,
                           struct feature *names)
{
    cpuid->bit = FEATURE_CPUID;
    if (out->cpuid && *out->cpuid) {
        put32(&cpuid->bytes, (uint32_t)(strlen(out->cpuid) / 8 * 8 + 8));
        put_string(&cpuid->bytes, out->cpuid);
    }
    names->bit = FEATURE_EVENT_DESC;
    put32(&names->bytes, 1);
    put32(&names->bytes, PERF_ATTR_BYTES);
    put_attr(&names->bytes, out);
    put32(&names->bytes, 1); /* ids */
    put32(&names->bytes, 16);
    put_string(&names->bytes, "intel_pt//");
    put64(&names->bytes, EVENT_ID);
}

/* The file's header, the attr and its id: data_bytes of records follow. */
static void put_header(struct buffer *buffer, const struct ptd_perf_out *out, uint64_t data_bytes,
                       const struct feature *features, size_t feature_count)
{
    const uint64_t ids = PERF_HEADER_BYTES, attrs = ids + 8;
    uint8_t bits[PERF_FEATURE_BITS / 8] = {0};

    put(buffer, PERF_MAGIC, 8);
    put64(buffer, PERF_HEADER_BYTES);
    put64(buffer, PERF_ATTR_BYTES + 16);
    put64(buffer, attrs);
    put64(buffer, PERF_ATTR_BYTES + 16);
    put64(buffer, attrs + PERF_ATTR_BYTES + 16);
    put64(buffer, data_bytes);
    put64(buffer, 0); /* event types */
    put64(buffer, 0);
    for (size_t i = 0; i < feature_count; i++) {
        if (features[i].bytes.len)
            bits[features[i].bit / 8] |= (uint8_t)(1u << features[i].bit % 8);
    }
    put(buffer, bits, sizeof(bits));
    put64(buffer, EVENT_ID);
    put_attr(buffer, out);
    put64(buffer, ids);
    put64(buffer, 8);
}

/* The table and the sections, behind `at` bytes of file. Features are in order of their bits. */
static void put_features(struct buffer *buffer, uint64_t at, const struct feature *features,
                         size_t feature_count)
{
    size_t count = 0;

    for (size_t i = 0; i < feature_count; i++)
        count += features[i].bytes.len != 0;
    at += count * 16;
    for (size_t i = 0; i < feature_count; i++) {
        if (features[i].bytes.len == 0)
            continue;
        put64(buffer, at);
        put64(buffer, features[i].bytes.len);
        at += features[i].bytes.len;
    }
    for (size_t i = 0; i < feature_count; i++)
        put(buffer, features[i].bytes.bytes, features[i].bytes.len);
}

/* ---- The file ---- */

static int emit(const struct ptd_perf_out *out, const void *bytes, size_t len)
{
    return len == 0 || out->write(out->owner, bytes, len) == 0 ? PTD_OK : PTD_E_IO;
}

static int emit_packets(const struct ptd_perf_out *out, const struct ptd_perf_trace *trace)
{
    int error = PTD_OK;

    if (trace->bytes)
        return emit(out, trace->bytes, trace->len_bytes);
    for (size_t i = 0; !error && i < trace->piece_count; i++)
        error = emit(out, trace->pieces[i].bytes, trace->pieces[i].len_bytes);
    return error;
}

static int emit_traces(const struct ptd_perf_out *out)
{
    static const uint8_t pad[8]; /* PAD packets */
    int error = PTD_OK;

    for (size_t i = 0; !error && i < out->trace_count; i++) {
        const struct ptd_perf_trace *const trace = &out->traces[i];
        struct buffer record = {0};

        put_auxtrace(&record, trace, padded_bytes(trace));
        error = record.no_memory ? PTD_E_NOMEM : emit(out, record.bytes, record.len);
        free(record.bytes);
        if (!error)
            error = emit_packets(out, trace);
        if (!error)
            error = emit(out, pad, padded_bytes(trace) - trace->len_bytes);
    }
    return error;
}

int ptd_perf_write(const struct ptd_perf_out *out)
{
    static const uint8_t round[8] = {PTD_PERF_FINISHED_ROUND, [6] = 8};
    struct feature features[3] = {0}; /* in order of their bits */
    struct buffer metadata = {0}, header = {0}, tail = {0};
    uint64_t data_bytes;
    int error = PTD_E_NOMEM;

    put_metadata(&metadata, out);
    data_bytes = metadata.len + sizeof(round);
    for (size_t i = 0; i < out->trace_count; i++)
        data_bytes += AUXTRACE_BYTES + padded_bytes(&out->traces[i]);
    build_features(out, &features[0], &features[1]);
    build_index(out, HEADER_BYTES + metadata.len, &features[2]);
    put_header(&header, out, data_bytes, features, 3);
    put_features(&tail, header.len + data_bytes, features, 3);
    if (!metadata.no_memory && !header.no_memory && !tail.no_memory &&
        !features[0].bytes.no_memory && !features[1].bytes.no_memory &&
        !features[2].bytes.no_memory)
        error = emit(out, header.bytes, header.len);
    if (!error)
        error = emit(out, metadata.bytes, metadata.len);
    if (!error)
        error = emit_traces(out);
    if (!error)
        error = emit(out, round, sizeof(round));
    if (!error)
        error = emit(out, tail.bytes, tail.len);
    free(metadata.bytes);
    free(header.bytes);
    free(tail.bytes);
    for (size_t i = 0; i < 3; i++)
        free(features[i].bytes.bytes);
    return error;
}
