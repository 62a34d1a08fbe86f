/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets in a sample (PERF_SAMPLE_AUX), and what a tracepoint says. Packets stand at its end,
 * behind fields whose sizes the event and the sample tell (include/uapi/linux/perf_event.h,
 * PERF_RECORD_SAMPLE).
 */
#include "perf/sample.h"
#include "perf/layout.h"
#include "perf/span.h"
#include "ptdec_perf.h"

#define READ_TIME_ENABLED (1u << 0)
#define READ_TIME_RUNNING (1u << 1)
#define READ_ID           (1u << 2)
#define READ_GROUP        (1u << 3)
#define READ_LOST         (1u << 4)

#define BRANCH_HW_INDEX (1ull << 17) /* of branch_sample_type */
#define BRANCH_BYTES    24u

static void skip(struct span *span, uint64_t count, size_t element_bytes)
{
    if (count > span_left(span) / element_bytes)
        span->missing = true;
    else
        (void)span_take(span, (size_t)count * element_bytes);
}

static unsigned bits(uint64_t value)
{
    return (unsigned)__builtin_popcountll(value);
}

static void skip_read(struct span *span, uint64_t format)
{
    const unsigned times = bits(format & (READ_TIME_ENABLED | READ_TIME_RUNNING));
    const unsigned of_each = 1 + bits(format & (READ_ID | READ_LOST));

    if (format & READ_GROUP) {
        const uint64_t count = take64(span);

        skip(span, times, 8);
        skip(span, count, 8 * of_each);
    } else {
        skip(span, times + of_each, 8);
    }
}

static void skip_registers(struct span *span, uint64_t registers)
{
    if (take64(span)) /* the ABI; 0: none are there */
        skip(span, bits(registers), 8);
}

static void skip_stack(struct span *span)
{
    const uint64_t len = take64(span);

    skip(span, len, 1);
    if (len)
        (void)take64(span); /* how much of it is valid */
}

static void skip_branches(struct span *span, uint64_t kinds)
{
    const uint64_t count = take64(span);

    if (kinds & BRANCH_HW_INDEX)
        (void)take64(span);
    skip(span, count, BRANCH_BYTES);
}

static void take_raw(struct span *span, struct ptd_perf_record *record)
{
    const uint64_t len = take32(span);

    if (span->missing || len > span_left(span)) {
        span->missing = true;
        return;
    }
    record->sample.raw_bytes = (size_t)len;
    record->sample.raw = span_take(span, (size_t)len);
}

static void take_field(struct span *span, uint32_t field, const struct ptd_perf_event *event,
                       struct ptd_perf_record *record)
{
    switch (field) {
    case SAMPLE_READ:
        skip_read(span, event->read_format);
        break;
    case SAMPLE_CALLCHAIN:
        skip(span, take64(span), 8);
        break;
    case SAMPLE_RAW:
        take_raw(span, record);
        break;
    case SAMPLE_BRANCH_STACK:
        skip_branches(span, event->branch_sample_type);
        break;
    case SAMPLE_REGS_USER:
        skip_registers(span, event->sample_regs_user);
        break;
    case SAMPLE_REGS_INTR:
        skip_registers(span, event->sample_regs_intr);
        break;
    case SAMPLE_STACK_USER:
        skip_stack(span);
        break;
    default:
        (void)take64(span);
        break;
    }
}

void ptd_perf_sample_take_rest(struct span *span, const struct ptd_perf_event *event,
                               struct ptd_perf_record *record)
{
    static const uint32_t fields[] = {
        SAMPLE_PERIOD,       SAMPLE_READ,           SAMPLE_CALLCHAIN,      SAMPLE_RAW,
        SAMPLE_BRANCH_STACK, SAMPLE_REGS_USER,      SAMPLE_STACK_USER,     SAMPLE_WEIGHT,
        SAMPLE_DATA_SRC,     SAMPLE_TRANSACTION,    SAMPLE_REGS_INTR,      SAMPLE_PHYS_ADDR,
        SAMPLE_CGROUP,       SAMPLE_DATA_PAGE_SIZE, SAMPLE_CODE_PAGE_SIZE,
    };
    uint64_t len;

    if (!(event->sample_type & (SAMPLE_AUX | SAMPLE_RAW)))
        return;
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        /* One of two layouts of the same size. */
        const uint32_t weight = fields[i] == SAMPLE_WEIGHT ? SAMPLE_WEIGHT_STRUCT : 0;

        if (event->sample_type & (fields[i] | weight))
            take_field(span, fields[i], event, record);
    }
    if (!(event->sample_type & SAMPLE_AUX))
        return;
    len = take64(span);
    if (span->missing || len > span_left(span)) {
        span->missing = true;
        return;
    }
    record->sample.aux_bytes = (size_t)len;
    record->sample.aux = span_take(span, (size_t)len);
}
