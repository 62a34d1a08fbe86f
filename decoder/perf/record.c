/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of perf.data, each by itself: their layouts (include/uapi/linux/perf_event.h and
 * tools/lib/perf/include/perf/event.h) and the trailer that says who and when (sample_id_all).
 */
#include <string.h>
#include <inttypes.h>
#include <stdio.h>

#include "perf/record.h"
#include "base/array.h"
#include "perf/event.h"
#include "perf/layout.h"
#include "perf/sample.h"
#include "perf/span.h"
#include "ptdec_perf.h"

/* The fields of the trailer, in its order. */
static const uint32_t trailer_fields[] = {
    SAMPLE_TID, SAMPLE_TIME, SAMPLE_ID, SAMPLE_STREAM_ID, SAMPLE_CPU, SAMPLE_IDENTIFIER,
};

static bool is_of_kernel(uint32_t type)
{
    return type < PTD_PERF_HEADER_ATTR;
}

static size_t trailer_bytes(uint64_t sample_type)
{
    size_t bytes = 0;

    for (size_t i = 0; i < sizeof(trailer_fields) / sizeof(*trailer_fields); i++)
        bytes += sample_type & trailer_fields[i] ? 8 : 0;
    return bytes;
}

/* Where the id stands in a trailer, from its start; SIZE_MAX: nowhere. */
static size_t trailer_id_at(uint64_t sample_type)
{
    if (sample_type & SAMPLE_IDENTIFIER)
        return trailer_bytes(sample_type) - 8;
    if (sample_type & SAMPLE_ID)
        return trailer_bytes(sample_type & (SAMPLE_TID | SAMPLE_TIME));
    return SIZE_MAX;
}

static void take_field(struct span *span, uint32_t field, struct ptd_perf_record *record)
{
    switch (field) {
    case SAMPLE_TID:
        record->pid = take32(span);
        record->tid = take32(span);
        record->has_tid = true;
        break;
    case SAMPLE_TIME:
        record->time = take64(span);
        record->has_time = true;
        break;
    case SAMPLE_CPU:
        record->cpu = take32(span);
        (void)take32(span);
        record->has_cpu = true;
        break;
    case SAMPLE_ID:
    case SAMPLE_IDENTIFIER:
        record->id = take64(span);
        record->has_id = true;
        break;
    default: /* SAMPLE_STREAM_ID, SAMPLE_ADDR */
        (void)take64(span);
        break;
    }
}

/* Cuts the trailer off the end of the body. */
static bool take_trailer(struct perf_events *events, struct span *span,
                         struct ptd_perf_record *record)
{
    const struct ptd_perf_event *event = events->list;
    size_t bytes;
    struct span trailer;

    if (events->count == 0 || !(event->flags & ATTR_SAMPLE_ID_ALL))
        return true;
    bytes = trailer_bytes(event->sample_type);
    if (bytes > span_left(span))
        return false;
    if (events->count > 1 && trailer_id_at(event->sample_type) != SIZE_MAX) {
        const uint64_t id = little_endian(span->end - bytes + trailer_id_at(event->sample_type), 8);

        record->event = ptd_perf_events_of_id(events, id);
        event = &events->list[record->event];
        bytes = trailer_bytes(event->sample_type);
        if (bytes > span_left(span))
            return false;
    }
    trailer = (struct span){.pos = span->end - bytes, .end = span->end};
    span->end -= bytes;
    for (size_t i = 0; i < sizeof(trailer_fields) / sizeof(*trailer_fields); i++) {
        if (event->sample_type & trailer_fields[i])
            take_field(&trailer, trailer_fields[i], record);
    }
    return true;
}

/* A sample begins with the same fields, in another order. */
static void take_sample(struct perf_events *events, struct span *span,
                        struct ptd_perf_record *record)
{
    static const uint32_t fields[] = {SAMPLE_TID, SAMPLE_TIME,      SAMPLE_ADDR,
                                      SAMPLE_ID,  SAMPLE_STREAM_ID, SAMPLE_CPU};
    const struct ptd_perf_event *event = events->list;

    if (events->count == 0)
        return;
    if (events->count > 1 && event->sample_type & SAMPLE_IDENTIFIER && span_left(span) >= 8)
        record->event = ptd_perf_events_of_id(events, little_endian(span->pos, 8));
    event = &events->list[record->event];
    if (event->sample_type & SAMPLE_IDENTIFIER)
        take_field(span, SAMPLE_IDENTIFIER, record);
    if (event->sample_type & SAMPLE_IP) {
        record->sample.ip = take64(span);
        record->sample.has_ip = true;
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (event->sample_type & fields[i])
            take_field(span, fields[i], record);
    }
    ptd_perf_sample_take_rest(span, event, record);
}

/* ---- Bodies ---- */

static void take_mmap(struct span *span, struct ptd_perf_record *record)
{
    record->mmap.pid = take32(span);
    record->mmap.tid = take32(span);
    record->mmap.start = take64(span);
    record->mmap.len = take64(span);
    record->mmap.pgoff = take64(span);
    if (record->type == PTD_PERF_MMAP2) {
        const uint8_t *const inode = span_take(span, 24); /* device and inode, or build id */

        if (inode && record->misc & PTD_PERF_MISC_MMAP_BUILD_ID) {
            record->mmap.build_id_bytes =
                inode[0] < PTD_PERF_BUILD_ID_BYTES ? inode[0] : PTD_PERF_BUILD_ID_BYTES;
            memcpy(record->mmap.build_id, inode + 4, record->mmap.build_id_bytes);
        }
        record->mmap.prot = take32(span);
        record->mmap.flags = take32(span);
    }
    record->mmap.file = take_string(span);
}

static void take_text_poke(struct span *span, struct ptd_perf_record *record)
{
    record->text_poke.address = take64(span);
    record->text_poke.old_bytes = take16(span);
    record->text_poke.new_bytes = take16(span);
    if (record->text_poke.old_bytes + record->text_poke.new_bytes > (int)PTD_PERF_POKE_BYTES)
        span->missing = true;
    record->text_poke.before = span_take(span, record->text_poke.old_bytes);
    record->text_poke.after = span_take(span, record->text_poke.new_bytes);
}

static void take_auxtrace(struct span *span, struct ptd_perf_record *record)
{
    record->auxtrace.size = take64(span);
    record->auxtrace.offset = take64(span);
    record->auxtrace.reference = take64(span);
    record->auxtrace.idx = take32(span);
    record->auxtrace.tid = (int32_t)take32(span);
    record->auxtrace.cpu = (int32_t)take32(span);
    (void)take32(span);
}

static void take_switch(struct span *span, struct ptd_perf_record *record)
{
    record->context_switch.out = record->misc & PTD_PERF_MISC_SWITCH_OUT;
    if (record->type == PTD_PERF_SWITCH_CPU_WIDE) {
        record->context_switch.other_pid = take32(span);
        record->context_switch.other_tid = take32(span);
        record->context_switch.has_other = true;
    }
}

static void take_ksymbol(struct span *span, struct ptd_perf_record *record)
{
    record->ksymbol.start = take64(span);
    record->ksymbol.len = take32(span);
    record->ksymbol.kind = take16(span);
    record->ksymbol.flags = take16(span);
    record->ksymbol.name = take_string(span);
}

static void take_auxtrace_error(struct span *span, struct ptd_perf_record *record)
{
    (void)take32(span); /* type */
    record->auxtrace_error.code = take32(span);
    record->auxtrace_error.cpu = take32(span);
    record->auxtrace_error.pid = take32(span);
    record->auxtrace_error.tid = take32(span);
    (void)take32(span);
    record->auxtrace_error.ip = take64(span);
}

static void take_task(struct span *span, struct ptd_perf_record *record)
{
    record->task.pid = take32(span);
    record->task.parent_pid = take32(span);
    record->task.tid = take32(span);
    record->task.parent_tid = take32(span);
    record->task.time = take64(span);
}

static void take_body(struct span *span, struct ptd_perf_record *record)
{
    switch (record->type) {
    case PTD_PERF_MMAP:
    case PTD_PERF_MMAP2:
        take_mmap(span, record);
        break;
    case PTD_PERF_LOST:
        record->lost.id = take64(span);
        record->lost.lost = take64(span);
        break;
    case PTD_PERF_LOST_SAMPLES:
        record->lost.lost = take64(span);
        break;
    case PTD_PERF_COMM:
        record->comm.pid = take32(span);
        record->comm.tid = take32(span);
        record->comm.name = take_string(span);
        break;
    case PTD_PERF_FORK:
    case PTD_PERF_EXIT:
        take_task(span, record);
        break;
    case PTD_PERF_AUX:
        record->aux.offset = take64(span);
        record->aux.size = take64(span);
        record->aux.flags = take64(span);
        break;
    case PTD_PERF_ITRACE_START:
        record->itrace_start.pid = take32(span);
        record->itrace_start.tid = take32(span);
        break;
    case PTD_PERF_SWITCH:
    case PTD_PERF_SWITCH_CPU_WIDE:
        take_switch(span, record);
        break;
    case PTD_PERF_KSYMBOL:
        take_ksymbol(span, record);
        break;
    case PTD_PERF_TEXT_POKE:
        take_text_poke(span, record);
        break;
    case PTD_PERF_TIME_CONV:
        record->time_conv.shift = take64(span);
        record->time_conv.mult = take64(span);
        record->time_conv.zero = take64(span);
        break;
    case PTD_PERF_AUXTRACE_INFO:
        record->auxtrace_info.kind = take32(span);
        (void)take32(span);
        record->auxtrace_info.priv = span->pos;
        record->auxtrace_info.priv_bytes = span_left(span);
        break;
    case PTD_PERF_AUXTRACE:
        take_auxtrace(span, record);
        break;
    case PTD_PERF_AUXTRACE_ERROR:
        take_auxtrace_error(span, record);
        break;
    case PTD_PERF_HEADER_FEATURE:
        record->feature = take64(span);
        break;
    case PTD_PERF_ID_INDEX:
        record->id_index.count = take64(span);
        if (record->id_index.count > span_left(span) / PTD_PERF_ID_BYTES)
            span->missing = true;
        record->id_index.entries = span->pos;
        break;
    default:
        break;
    }
}

int ptd_perf_record_parse(struct perf_events *events, struct ptd_perf_record *record,
                          const char **why)
{
    struct span span = {.pos = record->body, .end = record->body + record->body_bytes};

    if (record->type == PTD_PERF_SAMPLE) {
        take_sample(events, &span, record);
    } else if (is_of_kernel(record->type) && !take_trailer(events, &span, record)) {
        *why = "the record is too short for its trailer";
        return PTD_E_FORMAT;
    }
    take_body(&span, record);
    if (span.missing) {
        *why = "the record is too short, or a string in it does not end";
        return PTD_E_FORMAT;
    }
    return PTD_OK;
}

/* ---- Text ---- */

const char *ptd_perf_type_name(uint32_t type)
{
    static const char *const names[] = {
        [PTD_PERF_MMAP] = "MMAP",
        [PTD_PERF_LOST] = "LOST",
        [PTD_PERF_COMM] = "COMM",
        [PTD_PERF_EXIT] = "EXIT",
        [PTD_PERF_THROTTLE] = "THROTTLE",
        [PTD_PERF_UNTHROTTLE] = "UNTHROTTLE",
        [PTD_PERF_FORK] = "FORK",
        [PTD_PERF_READ] = "READ",
        [PTD_PERF_SAMPLE] = "SAMPLE",
        [PTD_PERF_MMAP2] = "MMAP2",
        [PTD_PERF_AUX] = "AUX",
        [PTD_PERF_ITRACE_START] = "ITRACE_START",
        [PTD_PERF_LOST_SAMPLES] = "LOST_SAMPLES",
        [PTD_PERF_SWITCH] = "SWITCH",
        [PTD_PERF_SWITCH_CPU_WIDE] = "SWITCH_CPU_WIDE",
        [PTD_PERF_NAMESPACES] = "NAMESPACES",
        [PTD_PERF_KSYMBOL] = "KSYMBOL",
        [PTD_PERF_BPF_EVENT] = "BPF_EVENT",
        [PTD_PERF_CGROUP] = "CGROUP",
        [PTD_PERF_TEXT_POKE] = "TEXT_POKE",
        [PTD_PERF_AUX_OUTPUT_HW_ID] = "AUX_OUTPUT_HW_ID",
        [PTD_PERF_HEADER_ATTR] = "ATTR",
        [PTD_PERF_HEADER_EVENT_TYPE] = "EVENT_TYPE",
        [PTD_PERF_HEADER_TRACING_DATA] = "TRACING_DATA",
        [PTD_PERF_HEADER_BUILD_ID] = "BUILD_ID",
        [PTD_PERF_FINISHED_ROUND] = "FINISHED_ROUND",
        [PTD_PERF_ID_INDEX] = "ID_INDEX",
        [PTD_PERF_AUXTRACE_INFO] = "AUXTRACE_INFO",
        [PTD_PERF_AUXTRACE] = "AUXTRACE",
        [PTD_PERF_AUXTRACE_ERROR] = "AUXTRACE_ERROR",
        [PTD_PERF_THREAD_MAP] = "THREAD_MAP",
        [PTD_PERF_CPU_MAP] = "CPU_MAP",
        [PTD_PERF_STAT_CONFIG] = "STAT_CONFIG",
        [PTD_PERF_STAT] = "STAT",
        [PTD_PERF_STAT_ROUND] = "STAT_ROUND",
        [PTD_PERF_EVENT_UPDATE] = "EVENT_UPDATE",
        [PTD_PERF_TIME_CONV] = "TIME_CONV",
        [PTD_PERF_HEADER_FEATURE] = "FEATURE",
        [PTD_PERF_COMPRESSED] = "COMPRESSED",
        [PTD_PERF_FINISHED_INIT] = "FINISHED_INIT",
        [PTD_PERF_COMPRESSED2] = "COMPRESSED2",
    };

    return type < sizeof(names) / sizeof(*names) && names[type] ? names[type] : "?";
}

/* What stands behind the name of a record. */
static void format_body(const struct ptd_perf_record *record, char *text, size_t text_bytes)
{
    switch (record->type) {
    case PTD_PERF_MMAP:
    case PTD_PERF_MMAP2:
        snprintf(text, text_bytes, " %d/%d %#" PRIx64 "+%#" PRIx64 " @ %#" PRIx64 " %s",
                 (int32_t)record->mmap.pid, (int32_t)record->mmap.tid, record->mmap.start,
                 record->mmap.len, record->mmap.pgoff, record->mmap.file);
        break;
    case PTD_PERF_LOST:
    case PTD_PERF_LOST_SAMPLES:
        snprintf(text, text_bytes, " %" PRIu64, record->lost.lost);
        break;
    case PTD_PERF_COMM:
        snprintf(text, text_bytes, " %d/%d %s%s", (int32_t)record->comm.pid,
                 (int32_t)record->comm.tid, record->comm.name,
                 record->misc & PTD_PERF_MISC_COMM_EXEC ? " (exec)" : "");
        break;
    case PTD_PERF_FORK:
    case PTD_PERF_EXIT:
        snprintf(text, text_bytes, " %d/%d of %d/%d", (int32_t)record->task.pid,
                 (int32_t)record->task.tid, (int32_t)record->task.parent_pid,
                 (int32_t)record->task.parent_tid);
        break;
    case PTD_PERF_AUX:
        snprintf(text, text_bytes, " %#" PRIx64 "+%#" PRIx64 "%s%s%s%s", record->aux.offset,
                 record->aux.size, record->aux.flags & PTD_PERF_AUX_TRUNCATED ? " truncated" : "",
                 record->aux.flags & PTD_PERF_AUX_OVERWRITE ? " overwrite" : "",
                 record->aux.flags & PTD_PERF_AUX_PARTIAL ? " partial" : "",
                 record->aux.flags & PTD_PERF_AUX_COLLISION ? " collision" : "");
        break;
    case PTD_PERF_SWITCH:
    case PTD_PERF_SWITCH_CPU_WIDE:
        snprintf(text, text_bytes, record->context_switch.has_other ? " %s %d/%d" : " %s",
                 record->context_switch.out ? "out" : "in",
                 (int32_t)record->context_switch.other_pid,
                 (int32_t)record->context_switch.other_tid);
        break;
    case PTD_PERF_KSYMBOL:
        snprintf(text, text_bytes, " %#" PRIx64 "+%#x %s", record->ksymbol.start,
                 record->ksymbol.len, record->ksymbol.name);
        break;
    case PTD_PERF_TEXT_POKE:
        snprintf(text, text_bytes, " %#" PRIx64 " %u -> %u bytes", record->text_poke.address,
                 record->text_poke.old_bytes, record->text_poke.new_bytes);
        break;
    case PTD_PERF_AUXTRACE_INFO:
        snprintf(text, text_bytes, " type %u%s", record->auxtrace_info.kind,
                 record->auxtrace_info.kind == PERF_AUXTRACE_INTEL_PT ? " (Intel PT)" : "");
        break;
    case PTD_PERF_AUXTRACE:
        snprintf(text, text_bytes,
                 " %#" PRIx64 "+%#" PRIx64 " ref %#" PRIx64 " idx %u tid %d cpu %d",
                 record->auxtrace.offset, record->auxtrace.size, record->auxtrace.reference,
                 record->auxtrace.idx, record->auxtrace.tid, record->auxtrace.cpu);
        break;
    case PTD_PERF_SAMPLE:
        if (record->sample.has_ip && record->sample.aux)
            snprintf(text, text_bytes, " ip %#" PRIx64 ", %zu bytes of packets", record->sample.ip,
                     record->sample.aux_bytes);
        else if (record->sample.has_ip)
            snprintf(text, text_bytes, " ip %#" PRIx64, record->sample.ip);
        break;
    case PTD_PERF_HEADER_FEATURE:
        snprintf(text, text_bytes, " %" PRIu64, record->feature);
        break;
    default:
        break;
    }
}

int ptd_perf_format(const struct ptd_perf_record *record, char *text, size_t text_bytes)
{
    char body[4500] = "", who[80] = "", when[40] = "", number[16] = "";

    format_body(record, body, sizeof(body));
    if (record->has_tid)
        snprintf(who, sizeof(who), " [%d/%d]", (int32_t)record->pid, (int32_t)record->tid);
    if (record->has_time)
        snprintf(when, sizeof(when), " %" PRIu64 " ns", record->time);
    if (ptd_perf_type_name(record->type)[0] == '?')
        snprintf(number, sizeof(number), " %u", record->type);
    return snprintf(text, text_bytes, "%s%s%s%s%s", ptd_perf_type_name(record->type), number, body,
                    who, when);
}
