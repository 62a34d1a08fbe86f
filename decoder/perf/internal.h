/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: what the reader, the session and the writer share. */
#ifndef PTD_PERF_INTERNAL_H
#define PTD_PERF_INTERNAL_H

#include <string.h>

#include "base/array.h"
#include "base/extents.h"
#include "ptdec_perf.h"

#define PERF_MAGIC             "PERFILE2"
#define PERF_HEADER_BYTES      104
#define PERF_PIPE_HEADER_BYTES 16
#define PERF_ATTR_BYTES_MIN    64 /* PERF_ATTR_SIZE_VER0 */
#define PERF_ATTR_BYTES        128
#define PERF_RECORD_HEADER     8
#define PERF_FEATURE_BITS      256
#define PERF_AUXTRACE_INTEL_PT 1

enum perf_feature {
    FEATURE_BUILD_ID = 2,
    FEATURE_CPUID = 9,
    FEATURE_EVENT_DESC = 12,
    FEATURE_AUXTRACE = 18,
    FEATURE_COMPRESSED = 27,
};

/* Bits of sample_type. */
#define SAMPLE_IP             (1u << 0)
#define SAMPLE_TID            (1u << 1)
#define SAMPLE_TIME           (1u << 2)
#define SAMPLE_ADDR           (1u << 3)
#define SAMPLE_READ           (1u << 4)
#define SAMPLE_CALLCHAIN      (1u << 5)
#define SAMPLE_ID             (1u << 6)
#define SAMPLE_CPU            (1u << 7)
#define SAMPLE_PERIOD         (1u << 8)
#define SAMPLE_STREAM_ID      (1u << 9)
#define SAMPLE_RAW            (1u << 10)
#define SAMPLE_BRANCH_STACK   (1u << 11)
#define SAMPLE_REGS_USER      (1u << 12)
#define SAMPLE_STACK_USER     (1u << 13)
#define SAMPLE_WEIGHT         (1u << 14)
#define SAMPLE_DATA_SRC       (1u << 15)
#define SAMPLE_IDENTIFIER     (1u << 16)
#define SAMPLE_TRANSACTION    (1u << 17)
#define SAMPLE_REGS_INTR      (1u << 18)
#define SAMPLE_PHYS_ADDR      (1u << 19)
#define SAMPLE_AUX            (1u << 20)
#define SAMPLE_CGROUP         (1u << 21)
#define SAMPLE_DATA_PAGE_SIZE (1u << 22)
#define SAMPLE_CODE_PAGE_SIZE (1u << 23)
#define SAMPLE_WEIGHT_STRUCT  (1u << 24)

/* Bits of an attr's flags. */
#define ATTR_MMAP           (1ull << 8)
#define ATTR_COMM           (1ull << 9)
#define ATTR_SAMPLE_ID_ALL  (1ull << 18)
#define ATTR_MMAP2          (1ull << 23)
#define ATTR_COMM_EXEC      (1ull << 24)
#define ATTR_CONTEXT_SWITCH (1ull << 26)
#define ATTR_KSYMBOL        (1ull << 29)
#define ATTR_TEXT_POKE      (1ull << 33)

/*
 * Bytes that are taken from the front. Taking more than there are gives zeros and sets `missing`,
 * so that a layout is read first and judged once.
 */
struct span {
    const uint8_t *pos, *end;
    bool missing;
};

static inline size_t span_left(const struct span *span)
{
    return (size_t)(span->end - span->pos);
}

static inline const uint8_t *span_take(struct span *span, size_t len)
{
    const uint8_t *const at = span->pos;

    if (len > span_left(span)) {
        span->missing = true;
        return NULL;
    }
    span->pos += len;
    return at;
}

static inline uint64_t take_le(struct span *span, unsigned count)
{
    const uint8_t *const at = span_take(span, count);

    return at ? little_endian(at, count) : 0;
}

static inline uint16_t take16(struct span *span)
{
    return (uint16_t)take_le(span, 2);
}

static inline uint32_t take32(struct span *span)
{
    return (uint32_t)take_le(span, 4);
}

static inline uint64_t take64(struct span *span)
{
    return take_le(span, 8);
}

/* A string that ends inside the span, which is then used up; NULL and missing if it does not. */
static inline const char *take_string(struct span *span)
{
    const char *const at = (const char *)span->pos;

    if (!at || !memchr(at, 0, span_left(span))) {
        span->missing = true;
        return "";
    }
    span->pos = span->end;
    return at;
}

/* sort.c: a stable order by the 64-bit key that stands first. False: no memory. */
bool ptd_perf_sort(void *list, size_t count, size_t element_bytes);
/* clock.c: the clocks of a session's traces. NULL: no memory. */
struct ptd_time *ptd_perf_time_new(const struct ptd_perf_session *session);

/* lookup.c: the lists of a session by who they are about; keys are 32 bits of a thread and so on.
 */
struct perf_entry {
    uint64_t key; /* first: what it is sorted by */
    uint64_t time;
    size_t at; /* in the list of the session; of pids the process */
};

/* Those of one key are in order of time. */
struct perf_order {
    struct perf_entry *list;
    size_t count, room;
};

/* turns.c: from this TSC on, the thread runs on the CPU. */
struct perf_turn {
    uint64_t tsc;
    uint32_t cpu;
    struct ptd_perf_thread thread;
};

/* By CPU and then by time. Begins as zeros. */
struct perf_turns {
    struct perf_turn *list;
    size_t count, room;
    size_t *longest;
};

/* Those of a CPU, and who ran in front of them. */
struct perf_cpu_turns {
    const struct perf_turns *turns;
    size_t begin, end;
    struct ptd_perf_thread first;
};

/* switches: those of the session by CPU. False: no memory. */
bool ptd_perf_turns_make(struct perf_turns *turns, const struct ptd_perf_session *session,
                         const struct perf_order *switches);
void ptd_perf_turns_free(struct perf_turns *turns);
/* .first is left to the caller. */
struct perf_cpu_turns ptd_perf_turns_of(const struct perf_turns *turns, uint32_t cpu);
/* Who had the CPU for the most of a time; the first of those who had it as long. */
struct ptd_perf_thread ptd_perf_turns_most(const struct perf_cpu_turns *of_cpu, uint64_t from,
                                           uint64_t to);

struct ptd_perf_lookup {
    struct perf_order comms;     /* by thread */
    struct perf_order processes; /* those of comms that are of a process's first thread, by it */
    struct perf_order births;    /* forks by the new thread */
    struct perf_order forks;     /* those that make a process, by it */
    struct perf_order pids;      /* processes of threads; the last one counts */
    struct perf_order maps;      /* by process */
    struct perf_order switches, starts; /* by CPU */
    struct extents symbols;             /* by address: the last name of each */
    struct perf_turns turns;
    uint64_t config; /* RTIT_CTL, as the attr of the Intel PT event has it */
};

/* NULL: no memory. */
struct ptd_perf_lookup *ptd_perf_lookup_new(const struct ptd_perf_session *session);
void ptd_perf_lookup_free(struct ptd_perf_lookup *lookup);
/* The index of the first entry of a key at or behind a time, if it is one of that key. */
size_t ptd_perf_order_begin(const struct perf_order *order, uint64_t key, uint64_t time);
/* The last entry of a key up to a time; NULL: there is none. */
const struct perf_entry *ptd_perf_order_last(const struct perf_order *order, uint64_t key,
                                             uint64_t time);

/* perf_event.c: the events of a file, and which of them an id means. */
struct perf_events {
    struct ptd_perf_event *list;
    size_t count, capacity;
    struct extents ids; /* the number is that of the event */
    uint64_t id_count;  /* how many the file told, again and again too */
};

void ptd_perf_events_free(struct perf_events *events);
/* Adds a perf_event_attr of attr_bytes. PTD_OK, PTD_E_FORMAT (too short), PTD_E_NOMEM. */
int ptd_perf_events_add(struct perf_events *events, const uint8_t *attr, size_t attr_bytes);
/* An id of the event that was added last. False: no memory. */
bool ptd_perf_events_add_id(struct perf_events *events, uint64_t id);
/* The index of the event of an id, 0 if there is none. */
uint32_t ptd_perf_events_of_id(struct perf_events *events, uint64_t id);
/* Names, from the feature EVENT_DESC: they come in the order of the events. False: malformed. */
bool ptd_perf_events_name(struct perf_events *events, struct span *description);

/* perf_build_id.c: build ids by the name of a file. */
struct perf_build_id {
    char *name;
    uint8_t bytes[PTD_PERF_BUILD_ID_BYTES];
    uint8_t len_bytes;
};

struct perf_build_ids {
    struct perf_build_id *list;
    size_t count, capacity;
    bool sorted;
};

void ptd_perf_build_ids_free(struct perf_build_ids *ids);
/* The body of a HEADER_BUILD_ID record, or many of them with headers. PTD_OK, _FORMAT, _NOMEM. */
int ptd_perf_build_ids_add(struct perf_build_ids *ids, uint16_t misc, struct span *body);
int ptd_perf_build_ids_add_section(struct perf_build_ids *ids, struct span *section);
/* NULL: there is none. */
const struct perf_build_id *ptd_perf_build_ids_find(struct perf_build_ids *ids, const char *name);

/* perf_file.c: those that a reader has seen so far. */
struct perf_build_ids *ptd_perf_file_build_ids(struct ptd_perf *perf);

/* perf_record.c: fills record from its body. PTD_OK, or PTD_E_FORMAT and a sentence in *why. */
int ptd_perf_record_parse(struct perf_events *events, struct ptd_perf_record *record,
                          const char **why);

/* perf_sample.c: the packets of a sample, behind its fields up to SAMPLE_CPU. */
void ptd_perf_sample_take_aux(struct span *span, const struct ptd_perf_event *event,
                              struct ptd_perf_record *record);

/* perf_inflate.c: compressed records, one zstd stream over all of them. */
struct perf_inflate;

struct perf_inflate *ptd_perf_inflate_new(void); /* NULL: no memory */
void ptd_perf_inflate_free(struct perf_inflate *inflate);
/* More compressed bytes; those before must be used up. limit_bytes: the most that may come out. */
void ptd_perf_inflate_feed(struct perf_inflate *inflate, const uint8_t *bytes, size_t len_bytes,
                           uint64_t limit_bytes);
/*
 * The next whole record, valid until the next call. PTD_OK; PTD_END: more input is needed;
 * PTD_E_FORMAT and a sentence in *why.
 */
int ptd_perf_inflate_record(struct perf_inflate *inflate, const uint8_t **record, size_t *len_bytes,
                            const char **why);
/* Bytes of a record that has begun and not ended. */
size_t ptd_perf_inflate_left(const struct perf_inflate *inflate);

#endif
