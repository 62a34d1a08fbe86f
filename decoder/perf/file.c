/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.data as a sequence of records: the header of a file or of a pipe, the feature sections, the
 * records one after the other, compressed ones opened.
 */
#include <string.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "perf/file.h"
#include "base/array.h"
#include "perf/build_id.h"
#include "perf/event.h"
#include "perf/inflate.h"
#include "perf/layout.h"
#include "perf/record.h"
#include "perf/span.h"
#include "ptdec_perf.h"

/* What one compressed record may hold, if the file does not say (perf's default ring is 512 KiB).
 */
#define INFLATED_BYTES     (1ull << 20)
#define INFLATED_BYTES_MAX (64ull << 20)
/* zstd reaches 32,768 on zeros; records differ in their times at least, and reach some tens. */
#define INFLATED_RATIO_MAX 1024u
#define INFLATED_SLACK     (64u * 1024)

struct ptd_perf {
    const uint8_t *bytes;
    uint64_t len_bytes;
    uint64_t pos, end; /* the records */
    bool cut;          /* the header promises more records than the file holds */
    struct perf_events events;
    struct perf_build_ids build_ids;
    char cpuid[64];
    uint64_t inflated_bytes; /* limit for one compressed record */
    struct perf_inflate *inflate;
    uint64_t inflate_offset;
    int error; /* reading is over */
    struct ptd_perf_fault fault;
};

static int fail(struct ptd_perf *perf, int error, uint64_t offset, const char *text)
{
    perf->error = error;
    perf->fault.offset = offset;
    (void)snprintf(perf->fault.text, sizeof(perf->fault.text), "%s", text);
    return error;
}

static bool in_file(const struct ptd_perf *perf, uint64_t offset, uint64_t len)
{
    return offset <= perf->len_bytes && len <= perf->len_bytes - offset;
}

/* ---- Header ---- */

bool ptd_perf_detect(const void *bytes, size_t len_bytes)
{
    /* The other byte order is perf.data too: it is refused, not taken for packets. */
    return len_bytes >= 8 &&
           (memcmp(bytes, PERF_MAGIC, 8) == 0 || memcmp(bytes, "2ELIFREP", 8) == 0 ||
            memcmp(bytes, "PERFFILE", 8) == 0);
}

static int add_ids(struct ptd_perf *perf, const uint8_t *ids, uint64_t len_bytes)
{
    for (uint64_t i = 0; i + 8 <= len_bytes; i += 8) {
        if (!ptd_perf_events_add_id(&perf->events, little_endian(ids + i, 8)))
            return fail(perf, PTD_E_NOMEM, 0, ptd_strerror(PTD_E_NOMEM));
    }
    return PTD_OK;
}

static int add_event(struct ptd_perf *perf, const uint8_t *attr, size_t attr_bytes)
{
    const int error = ptd_perf_events_add(&perf->events, attr, attr_bytes);

    return error ? fail(perf, error, (uint64_t)(attr - perf->bytes), "an event that is cut off")
                 : PTD_OK;
}

/* The events: attrs of attr_bytes each, with the section of their ids behind each. */
static int read_events(struct ptd_perf *perf, uint64_t attr_bytes, uint64_t offset, uint64_t len)
{
    if (!in_file(perf, offset, len))
        return fail(perf, PTD_E_TRUNCATED, offset, "the events lie behind the end of the file");
    if (attr_bytes < PERF_ATTR_BYTES_MIN + 16)
        return fail(perf, PTD_E_FORMAT, 16, "the size of an event is too small");
    for (; len >= attr_bytes; offset += attr_bytes, len -= attr_bytes) {
        const uint8_t *const attr = perf->bytes + offset;
        const uint64_t ids = little_endian(attr + attr_bytes - 16, 8);
        const uint64_t ids_bytes = little_endian(attr + attr_bytes - 8, 8);
        int error;

        if (!in_file(perf, ids, ids_bytes))
            return fail(perf, PTD_E_TRUNCATED, offset, "ids lie behind the end of the file");
        /* Hostile files could name the same ids for each event. */
        if (perf->events.id_count + ids_bytes / 8 > perf->len_bytes / 8)
            return fail(perf, PTD_E_FORMAT, offset, "more ids than the file has room for");
        error = add_event(perf, attr, (size_t)attr_bytes - 16);
        if (!error)
            error = add_ids(perf, perf->bytes + ids, ids_bytes);
        if (error)
            return error;
    }
    return PTD_OK;
}

/* A feature section, or what follows the number in a HEADER_FEATURE record. */
static int read_feature(struct ptd_perf *perf, unsigned feature, const uint8_t *bytes, size_t len,
                        uint64_t offset)
{
    struct span span = {.pos = bytes, .end = bytes + len};
    uint64_t mmap_bytes;
    uint32_t text_bytes;
    const uint8_t *text;
    int error;

    switch (feature) {
    case FEATURE_BUILD_ID:
        error = ptd_perf_build_ids_add_section(&perf->build_ids, &span);
        if (error)
            return fail(perf, error, offset, "a build id that is cut off");
        break;
    case FEATURE_CPUID:
        text_bytes = take32(&span);
        text = span_take(&span, text_bytes);
        if (text)
            (void)snprintf(perf->cpuid, sizeof(perf->cpuid), "%.*s",
                           (int)(text_bytes < 63 ? text_bytes : 63), (const char *)text);
        break;
    case FEATURE_EVENT_DESC:
        (void)ptd_perf_events_name(&perf->events, &span);
        break;
    case FEATURE_COMPRESSED: /* version, type, level, ratio, mmap_len */
        (void)span_take(&span, 16);
        mmap_bytes = take32(&span);
        if (!span.missing)
            perf->inflated_bytes =
                mmap_bytes < INFLATED_BYTES_MAX ? mmap_bytes : INFLATED_BYTES_MAX;
        break;
    default:
        break;
    }
    return span.missing ? fail(perf, PTD_E_FORMAT, offset, "a feature section that is cut off")
                        : PTD_OK;
}

/* Their sections stand in a table behind the records, in the order of the bits. */
static int read_features(struct ptd_perf *perf, const uint8_t *bits, uint64_t table)
{
    for (unsigned feature = 0; feature < PERF_FEATURE_BITS; feature++) {
        uint64_t offset, len;
        int error;

        if (!(bits[feature / 8] & 1u << feature % 8))
            continue;
        if (!in_file(perf, table, 16))
            return fail(perf, PTD_E_TRUNCATED, table, "the table of features is cut off");
        offset = little_endian(perf->bytes + table, 8);
        len = little_endian(perf->bytes + table + 8, 8);
        if (!in_file(perf, offset, len))
            return fail(perf, PTD_E_TRUNCATED, table, "a feature lies behind the end of the file");
        error = read_feature(perf, feature, perf->bytes + offset, (size_t)len, offset);
        if (error)
            return error;
        table += 16;
    }
    return PTD_OK;
}

static int read_file_header(struct ptd_perf *perf)
{
    struct span span = {.pos = perf->bytes + 16, .end = perf->bytes + perf->len_bytes};
    uint64_t attr_bytes, attrs, attrs_bytes, data, data_bytes;
    const uint8_t *features;
    int error;

    attr_bytes = take64(&span);
    attrs = take64(&span);
    attrs_bytes = take64(&span);
    data = take64(&span);
    data_bytes = take64(&span);
    (void)span_take(&span, 16); /* event types, no longer used */
    features = span_take(&span, PERF_FEATURE_BITS / 8);
    if (!features)
        return fail(perf, PTD_E_TRUNCATED, perf->len_bytes, "the file ends inside its header");
    error = read_events(perf, attr_bytes, attrs, attrs_bytes);
    if (error)
        return error;
    if (data > perf->len_bytes)
        return fail(perf, PTD_E_TRUNCATED, data, "the records lie behind the end of the file");
    perf->pos = data;
    perf->cut = data_bytes > perf->len_bytes - data;
    perf->end = perf->cut ? perf->len_bytes : data + data_bytes;
    if (data_bytes == 0) /* perf record was killed: neither length nor features were written */
        perf->end = perf->len_bytes;
    else if (!perf->cut)
        return read_features(perf, features, perf->end);
    return PTD_OK;
}

static int read_header(struct ptd_perf *perf)
{
    uint64_t size;

    if (perf->len_bytes < PERF_PIPE_HEADER_BYTES)
        return fail(perf, PTD_E_TRUNCATED, perf->len_bytes, "the file ends inside its header");
    if (memcmp(perf->bytes, "2ELIFREP", 8) == 0)
        return fail(perf, PTD_E_FORMAT, 0, "a perf.data of a big-endian machine");
    if (memcmp(perf->bytes, "PERFFILE", 8) == 0)
        return fail(perf, PTD_E_FORMAT, 0, "a perf.data of version 1 (before Linux 2.6.34)");
    if (memcmp(perf->bytes, PERF_MAGIC, 8) != 0)
        return fail(perf, PTD_E_FORMAT, 0, "not a perf.data");
    size = little_endian(perf->bytes + 8, 8);
    if (size == PERF_PIPE_HEADER_BYTES) {
        perf->pos = PERF_PIPE_HEADER_BYTES;
        perf->end = perf->len_bytes;
        return PTD_OK;
    }
    if (size < PERF_HEADER_BYTES)
        return fail(perf, PTD_E_FORMAT, 8, "a header of an unknown size");
    return read_file_header(perf);
}

int ptd_perf_open(const void *bytes, size_t len_bytes, struct ptd_perf **perf,
                  struct ptd_perf_fault *fault)
{
    struct ptd_perf *const opened = calloc(1, sizeof(*opened));
    int error;

    if (!opened)
        return PTD_E_NOMEM;
    opened->bytes = bytes;
    opened->len_bytes = len_bytes;
    opened->inflated_bytes = INFLATED_BYTES;
    error = read_header(opened);
    if (error) {
        *fault = opened->fault;
        ptd_perf_close(opened);
        return error;
    }
    *perf = opened;
    return PTD_OK;
}

void ptd_perf_close(struct ptd_perf *perf)
{
    if (!perf)
        return;
    ptd_perf_events_free(&perf->events);
    ptd_perf_build_ids_free(&perf->build_ids);
    ptd_perf_inflate_free(perf->inflate);
    free(perf);
}

const struct ptd_perf_fault *ptd_perf_fault(const struct ptd_perf *perf)
{
    return &perf->fault;
}

const struct ptd_perf_event *ptd_perf_events(const struct ptd_perf *perf, size_t *count)
{
    *count = perf->events.count;
    return perf->events.list;
}

const struct ptd_perf_event *ptd_perf_event_of(const struct ptd_perf *perf, uint64_t id)
{
    const struct extent *const found = ptd_extents_at(&perf->events.ids, id);

    return found ? &perf->events.list[found->number] : NULL;
}

const char *ptd_perf_cpuid(const struct ptd_perf *perf)
{
    return perf->cpuid;
}

/* ---- Records ---- */

/* HEADER_ATTR: an attr, whose size stands in it, and its ids. */
static int take_attr(struct ptd_perf *perf, const struct ptd_perf_record *record)
{
    const size_t size =
        record->body_bytes >= PERF_ATTR_BYTES_MIN ? (size_t)little_endian(record->body + 4, 4) : 0;
    int error;

    if (size < PERF_ATTR_BYTES_MIN || size > record->body_bytes)
        return fail(perf, PTD_E_FORMAT, record->offset, "an event that is cut off");
    error = add_event(perf, record->body, size);
    return error ? error : add_ids(perf, record->body + size, record->body_bytes - size);
}

static int take_build_id(struct ptd_perf *perf, const struct ptd_perf_record *record)
{
    struct span body = {.pos = record->body, .end = record->body + record->body_bytes};
    const int error = ptd_perf_build_ids_add(&perf->build_ids, record->misc, &body);

    return error ? fail(perf, error, record->offset, "a build id that is cut off") : PTD_OK;
}

struct perf_build_ids *ptd_perf_file_build_ids(struct ptd_perf *perf)
{
    return &perf->build_ids;
}

/* Bytes that follow a record and do not count in its size. */
static int take_payload(struct ptd_perf *perf, struct ptd_perf_record *record)
{
    uint64_t len = 0;

    if (record->type == PTD_PERF_AUXTRACE) {
        len = record->auxtrace.size;
    } else if (record->type == PTD_PERF_HEADER_TRACING_DATA && record->body_bytes >= 4) {
        len = (little_endian(record->body, 4) + 7) & ~7ull;
    }
    if (len == 0)
        return PTD_OK;
    if (record->compressed)
        return fail(perf, PTD_E_FORMAT, record->offset, "a compressed record with bytes behind it");
    if (len > perf->end - perf->pos)
        return fail(perf, PTD_E_TRUNCATED, record->offset,
                    "the bytes that follow a record are cut off");
    if (record->type == PTD_PERF_AUXTRACE)
        record->auxtrace.bytes = perf->bytes + perf->pos;
    perf->pos += len;
    return PTD_OK;
}

/* A record of which the header was checked. */
static int deliver(struct ptd_perf *perf, const uint8_t *at, size_t size, uint64_t offset,
                   bool compressed, struct ptd_perf_record *record)
{
    const char *why;
    char text[160];
    int error;

    *record = (struct ptd_perf_record){
        .offset = offset,
        .type = (uint32_t)little_endian(at, 4),
        .misc = (uint16_t)little_endian(at + 4, 2),
        .compressed = compressed,
        .body = at + PERF_RECORD_HEADER,
        .body_bytes = size - PERF_RECORD_HEADER,
    };
    error = ptd_perf_record_parse(&perf->events, record, &why);
    if (error) {
        (void)snprintf(text, sizeof(text), "%s of %zu bytes: %s", ptd_perf_type_name(record->type),
                       size, why);
        return fail(perf, error, offset, text);
    }
    if (record->type == PTD_PERF_HEADER_ATTR)
        return take_attr(perf, record);
    if (record->type == PTD_PERF_HEADER_BUILD_ID)
        return take_build_id(perf, record);
    if (record->type == PTD_PERF_HEADER_FEATURE)
        return read_feature(perf,
                            record->feature < PERF_FEATURE_BITS ? (unsigned)record->feature
                                                                : PERF_FEATURE_BITS,
                            record->body + 8, record->body_bytes - 8, offset);
    return take_payload(perf, record);
}

/* The next record of the file itself, header checked. PTD_OK, PTD_END or an error. */
static int outer_record(struct ptd_perf *perf, const uint8_t **at, size_t *size)
{
    const uint64_t left = perf->end - perf->pos;

    if (left == 0)
        return perf->cut ? fail(perf, PTD_E_TRUNCATED, perf->end, "the file ends early") : PTD_END;
    *at = perf->bytes + perf->pos;
    *size = left >= PERF_RECORD_HEADER ? (size_t)little_endian(*at + 6, 2) : 0;
    if (left < PERF_RECORD_HEADER || *size > left)
        return fail(perf, PTD_E_TRUNCATED, perf->pos, "the file ends inside a record");
    if (*size < PERF_RECORD_HEADER)
        return fail(perf, PTD_E_FORMAT, perf->pos, "a record that is smaller than its header");
    perf->pos += *size;
    return PTD_OK;
}

static int begin_inflate(struct ptd_perf *perf, const uint8_t *at, size_t size, uint64_t offset)
{
    struct span span = {.pos = at + PERF_RECORD_HEADER, .end = at + size};
    uint64_t len = span_left(&span), limit;

    if (little_endian(at, 4) == PTD_PERF_COMPRESSED2) { /* padded: says how much of it counts */
        len = take64(&span);
        if (span.missing || len > span_left(&span))
            return fail(perf, PTD_E_FORMAT, offset, "a compressed record that is cut off");
    }
    if (!perf->inflate)
        perf->inflate = ptd_perf_inflate_new();
    if (!perf->inflate)
        return fail(perf, PTD_E_NOMEM, offset, ptd_strerror(PTD_E_NOMEM));
    perf->inflate_offset = offset;
    limit = len * INFLATED_RATIO_MAX + INFLATED_SLACK;
    ptd_perf_inflate_feed(perf->inflate, span.pos, (size_t)len,
                          limit < perf->inflated_bytes ? limit : perf->inflated_bytes);
    return PTD_OK;
}

/* A record out of compressed ones. PTD_END: go on with the file. */
static int inner_record(struct ptd_perf *perf, struct ptd_perf_record *record)
{
    const uint8_t *at;
    const char *why;
    size_t size;
    int error;

    if (!perf->inflate)
        return PTD_END;
    error = ptd_perf_inflate_record(perf->inflate, &at, &size, &why);
    if (error == PTD_END)
        return PTD_END;
    if (error)
        return fail(perf, error, perf->inflate_offset, why);
    error = deliver(perf, at, size, perf->inflate_offset, true, record);
    if (!error && (record->type == PTD_PERF_COMPRESSED || record->type == PTD_PERF_COMPRESSED2))
        error = fail(perf, PTD_E_FORMAT, perf->inflate_offset,
                     "compressed records inside compressed ones");
    return error;
}

int ptd_perf_next(struct ptd_perf *perf, struct ptd_perf_record *record)
{
    while (!perf->error) {
        const uint8_t *at;
        size_t size;
        int error = inner_record(perf, record);

        if (error != PTD_END)
            return error;

        const uint64_t offset = perf->pos;

        error = outer_record(perf, &at, &size);
        if (error == PTD_END && perf->inflate && ptd_perf_inflate_left(perf->inflate) > 0)
            return fail(perf, PTD_E_TRUNCATED, offset, "the last compressed record is cut off");
        if (error)
            return perf->error = error;
        if (little_endian(at, 4) != PTD_PERF_COMPRESSED &&
            little_endian(at, 4) != PTD_PERF_COMPRESSED2)
            return deliver(perf, at, size, offset, false, record);
        if (begin_inflate(perf, at, size, offset) != PTD_OK)
            break;
    }
    return perf->error;
}
