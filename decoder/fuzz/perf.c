/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the reader of perf.data, the session and the writer. The first byte says what the others
 * are: a file; the records of a pipe; records that get compressed; changes (where: 16 bits, what:
 * 8 bits) to a sound file, which the writer makes: so every layout is close from the first input
 * on, and no corpus is needed; or packets, which are repeated to a long trace. What a session holds
 * is written again and must come back. Copies of a long trace must not depend on its pieces.
 */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "ptdec_perf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define HOW      3u
#define SAMPLING 4u /* and: a pipe begins with an event whose samples have all fields */
#define RAW      0u
#define PIPE     1u
#define COMPRESS 2u
#define LONG     8u /* instead of these: packets of a trace that is so long: */
#define LONG_LEN 6000u

struct file {
    uint8_t *bytes;
    size_t len, capacity;
};

static int put(void *owner, const void *bytes, size_t len)
{
    struct file *const file = owner;

    if (len > file->capacity - file->len) {
        file->capacity = 2 * file->capacity + len;
        file->bytes = realloc(file->bytes, file->capacity);
        if (!file->bytes)
            abort();
    }
    memcpy(file->bytes + file->len, bytes, len);
    file->len += len;
    return 0;
}

static void put_pipe_header(struct file *file)
{
    (void)put(file, "PERFILE2\x10\0\0\0\0\0\0\0", 16);
}

/* HEADER_ATTR with every field of a sample, and with what says how long those are. */
static void put_sampling_attr(struct file *file)
{
    const uint64_t words[] = {64 | 120ull << 48,
                              1 | 104ull << 32,
                              0,
                              1,
                              0xffffff,
                              0x1f,
                              1u << 18,
                              0,
                              0,
                              0,
                              1u << 17,
                              5,
                              0,
                              3,
                              5};

    (void)put(file, words, sizeof(words));
}

/* Compressed records, each of up to `step` bytes of what is compressed. */
static void put_compressed(struct file *file, const uint8_t *bytes, size_t len, size_t step)
{
    ZSTD_CStream *const zstd = ZSTD_createCStream();

    for (size_t at = 0; at < len; at += step) {
        uint8_t out[8 + 4096] = {81};
        ZSTD_inBuffer input = {.src = bytes + at, .size = len - at < step ? len - at : step};
        ZSTD_outBuffer output = {.dst = out, .size = sizeof(out), .pos = 8};

        (void)ZSTD_compressStream(zstd, &output, &input);
        (void)ZSTD_flushStream(zstd, &output);
        out[6] = (uint8_t)output.pos;
        out[7] = (uint8_t)(output.pos >> 8);
        (void)put(file, out, output.pos);
    }
    (void)ZSTD_freeCStream(zstd);
}

/* One of everything. */
static void put_sound(struct file *file)
{
    const struct ptd_perf_map maps[] = {
        {.start = 0x400000, .len = 0x1000, .pid = 10, .file = "/bin/a", .build_id_bytes = 20},
        {.start = 0x81000000, .len = 0x1000, .pid = UINT32_MAX, .file = "[kernel.kallsyms]_text"},
        {.time = 9, .start = 0x500000, .len = 0x1000, .pid = 12, .file = "/lib/b"},
    };
    const struct ptd_perf_comm comms[] = {
        {.pid = 10, .tid = 11, .name = "one"},
        {.pid = 12, .tid = 12, .time = 8, .name = "two"},
    };
    const struct ptd_perf_task fork = {
        .time = 7, .pid = 12, .tid = 12, .parent_pid = 10, .parent_tid = 11};
    const struct ptd_perf_switch switches[] = {
        {.time = 5, .pid = 10, .tid = 11, .out = true},
        {.time = 6, .pid = 10, .tid = 11, .has_other = true, .other_pid = 1},
    };
    const struct ptd_perf_symbol symbol = {
        .time = 6, .start = 0x81000800, .len = 16, .kind = 2, .name = "trampoline"};
    const struct ptd_perf_poke poke = {.time = 8,
                                       .address = 0x81000010,
                                       .old_bytes = 2,
                                       .new_bytes = 5,
                                       .before = (const uint8_t *)"\x66\x90",
                                       .after = (const uint8_t *)"\xe9\1\2\3\4"};
    const uint8_t packets[20] = {2,    0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2,
                                 0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2,    0x23};
    const struct ptd_perf_trace traces[] = {
        {.cpu = -1, .tid = 11, .reference = 7, .bytes = packets, .len_bytes = 20},
        {.aux_offset = 24, .cpu = -1, .tid = 11, .bytes = packets, .len_bytes = 20},
        {.idx = 1, .cpu = 3, .tid = -1, .bytes = packets, .len_bytes = 18},
    };
    const struct ptd_perf_out out = {
        .pt = {.time_mult = 3,
               .time_shift = 2,
               .time_zero = 1,
               .has_time = true,
               .tsc_ctc_num = 168,
               .tsc_ctc_den = 2},
        .cpuid = "GenuineIntel,6,85,7",
        .traces = traces,
        .maps = maps,
        .comms = comms,
        .forks = &fork,
        .switches = switches,
        .symbols = &symbol,
        .pokes = &poke,
        .symbol_count = 1,
        .poke_count = 1,
        .trace_count = 3,
        .map_count = 3,
        .comm_count = 2,
        .fork_count = 1,
        .switch_count = 2,
        .write = put,
        .owner = file,
    };

    if (ptd_perf_write(&out) != PTD_OK)
        abort();
}

static int touch(void *owner, const struct ptd_perf_map *map)
{
    *(size_t *)owner += strlen(map->file);
    return 0;
}

/* What a session holds, as a file again. */
static void put_again(struct file *file, const struct ptd_perf_session *session)
{
    struct ptd_perf_out out;

    ptd_perf_out_of(session, &out);
    out.write = put;
    out.owner = file;
    if (ptd_perf_write(&out) != PTD_OK)
        abort();
}

/* Changes of the code: in order, and within the trace or nowhere. */
static void check_places(const struct ptd_perf_session *session,
                         const struct ptd_perf_cpu_trace *copy)
{
    struct ptd_perf_change changes[16];
    size_t count = 0;

    for (; count < session->map_count && count < 16; count++)
        changes[count] = (struct ptd_perf_change){.time = session->maps[count].time,
                                                  .of_kernel = count % 3 == 0};
    if (ptd_perf_place(session, copy->bytes, copy->len_bytes, changes, count) != PTD_OK)
        abort();
    for (size_t i = 0; i < count; i++) {
        if ((i && changes[i].offset < changes[i - 1].offset) ||
            (changes[i].offset != UINT64_MAX && changes[i].offset > copy->len_bytes))
            abort();
    }
}

static void check_copies(const struct ptd_perf_session *session)
{
    for (size_t i = 0; i < session->trace_count && i < 4; i++) {
        struct ptd_perf_cpu_trace copy;

        if (ptd_perf_cpu_trace(session, &session->traces[i], &copy) != PTD_OK)
            abort();
        if (copy.len_bytes != session->traces[i].len_bytes + 8 * copy.inserted_count ||
            ptd_perf_cpu_trace_offset(&copy, copy.len_bytes) != session->traces[i].len_bytes)
            abort();
        check_places(session, &copy);
        ptd_perf_cpu_trace_free(&copy);
    }
}

/* The same with the first threads as virtual processors. */
static void check_guests(struct ptd_perf_session *session)
{
    const struct ptd_time_vm vms[] = {{.vmcs = PTD_PERF_VMCS(0), .offset = 1000}};
    const struct ptd_perf_guest_sums *sums;
    struct ptd_perf_vcpu vcpus[8];
    struct ptd_perf_guests *guests;
    size_t count = 0;

    for (; count < session->switch_count && count < 8; count++)
        vcpus[count] = (struct ptd_perf_vcpu){.tid = session->switches[count].tid,
                                              .has_tsc = count == 0,
                                              .from = count * 1000,
                                              .vmcs = PTD_PERF_VMCS(count)};
    session->vms = vms;
    session->vm_count = 1;
    if (ptd_perf_guests_new(session, vcpus, count, &guests) != PTD_OK)
        abort();
    sums = ptd_perf_guests_sums(guests);
    if (sums->by_both + sums->by_vmcs + sums->by_thread + sums->unknown != sums->runs)
        abort();
    session->guests = guests;
    check_copies(session);
    session->guests = NULL;
    session->vms = NULL;
    session->vm_count = 0;
    ptd_perf_guests_free(guests);
}

static void check_again(struct ptd_perf_session *session)
{
    struct ptd_perf_session *again;
    struct ptd_perf_fault fault;
    struct file file = {0};
    size_t letters = 0;

    for (size_t i = 0; i < session->map_count && i < 8; i++)
        (void)ptd_perf_each_map(session, session->maps[i].pid, touch, &letters);
    check_copies(session);
    check_guests(session);
    put_again(&file, session);
    if (ptd_perf_session_new(file.bytes, file.len, &again, &fault) != PTD_OK)
        abort();
    if (again->error || again->map_count != session->map_count ||
        again->comm_count != session->comm_count || again->fork_count != session->fork_count ||
        again->switch_count != session->switch_count ||
        again->symbol_count != session->symbol_count || again->poke_count != session->poke_count ||
        again->trace_count > session->trace_count)
        abort();
    ptd_perf_session_free(again);
    free(file.bytes);
}

/* ---- A long trace ---- */

/* Two threads by turns, of which each is a virtual processor. */
static struct ptd_perf_session *session_of(const uint8_t *bytes, size_t piece_len,
                                           struct file *file)
{
    static struct ptd_perf_trace traces[LONG_LEN / 8 + 1];
    struct ptd_perf_switch switches[8];
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    struct ptd_perf_out out = {.pt = {.time_mult = 1,
                                      .has_time = true,
                                      .tsc_ctc_num = 168,
                                      .tsc_ctc_den = 2,
                                      .max_nonturbo_ratio = 32},
                               .config = 1u << 10 | 1u << 9 | 2 | 3u << 14,
                               .traces = traces,
                               .switches = switches,
                               .switch_count = 8,
                               .write = put,
                               .owner = file};

    for (uint32_t i = 0; i < 8; i++)
        switches[i] = (struct ptd_perf_switch){.time = 1000u * i + 1,
                                               .cpu = 1,
                                               .pid = 10 + i % 2,
                                               .tid = 10 + i % 2,
                                               .out = true,
                                               .has_other = true,
                                               .other_pid = 11 - i % 2,
                                               .other_tid = 11 - i % 2};
    for (size_t at = 0; at < LONG_LEN; at += piece_len)
        traces[out.trace_count++] = (struct ptd_perf_trace){
            .cpu = 1,
            .tid = -1,
            .reference = 1,
            .aux_offset = at,
            .bytes = bytes + at,
            .len_bytes = piece_len < LONG_LEN - at ? piece_len : LONG_LEN - at,
        };
    if (ptd_perf_write(&out) != PTD_OK ||
        ptd_perf_session_new(file->bytes, file->len, &session, &fault) != PTD_OK)
        abort();
    if (session->trace_count != 1 || session->traces[0].len_bytes != LONG_LEN ||
        session->traces[0].piece_count != out.trace_count)
        abort();
    return session;
}

static void copy_of(struct ptd_perf_session *session, struct ptd_perf_cpu_trace *copy,
                    struct ptd_perf_guest_sums *sums)
{
    static const struct ptd_time_vm vms[] = {{.vmcs = PTD_PERF_VMCS(0), .offset = 1000},
                                             {.vmcs = PTD_PERF_VMCS(1), .offset = 5000}};
    const struct ptd_perf_vcpu vcpus[] = {{.tid = 10, .vmcs = PTD_PERF_VMCS(0), .has_tsc = true},
                                          {.tid = 11, .vmcs = PTD_PERF_VMCS(1), .has_tsc = true}};
    struct ptd_perf_guests *guests;

    session->vms = vms;
    session->vm_count = 2;
    if (ptd_perf_guests_new(session, vcpus, 2, &guests) != PTD_OK)
        abort();
    *sums = *ptd_perf_guests_sums(guests);
    session->guests = guests;
    if (ptd_perf_cpu_trace(session, &session->traces[0], copy) != PTD_OK)
        abort();
    ptd_perf_guests_free(guests);
}

/* In pieces as in one. */
static void check_long(size_t piece_len, const uint8_t *unit, size_t unit_len)
{
    static const uint8_t psb[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                  2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
    static uint8_t bytes[LONG_LEN];
    struct ptd_perf_cpu_trace one, several;
    struct ptd_perf_guest_sums sums, other_sums;
    struct file file = {0}, other = {0};
    struct ptd_perf_session *whole, *parts;

    memcpy(bytes, psb, sizeof(psb));
    for (size_t at = sizeof(psb); at < LONG_LEN; at += unit_len)
        memcpy(bytes + at, unit, unit_len < LONG_LEN - at ? unit_len : LONG_LEN - at);
    whole = session_of(bytes, LONG_LEN, &file);
    parts = session_of(bytes, piece_len, &other);
    copy_of(whole, &one, &sums);
    copy_of(parts, &several, &other_sums);
    if (memcmp(&sums, &other_sums, sizeof(sums)) != 0 || one.len_bytes != several.len_bytes ||
        memcmp(one.bytes, several.bytes, one.len_bytes) != 0 ||
        one.inserted_count != several.inserted_count ||
        (one.inserted_count > 0 &&
         memcmp(one.inserted, several.inserted, one.inserted_count * sizeof(*one.inserted)) != 0))
        abort();
    ptd_perf_cpu_trace_free(&one);
    ptd_perf_cpu_trace_free(&several);
    ptd_perf_session_free(whole);
    ptd_perf_session_free(parts);
    free(file.bytes);
    free(other.bytes);
}

static void walk(const struct file *file)
{
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    struct ptd_perf_record record;
    struct ptd_perf *perf;
    char text[300];

    if (ptd_perf_open(file->bytes, file->len, &perf, &fault) == PTD_OK) {
        while (ptd_perf_next(perf, &record) == PTD_OK) {
            if (record.offset > file->len || ptd_perf_format(&record, text, sizeof(text)) < 0)
                abort();
        }
        ptd_perf_close(perf);
    }
    if (ptd_perf_session_new(file->bytes, file->len, &session, &fault) == PTD_OK) {
        check_again(session);
        ptd_perf_session_free(session);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct file file = {0};

    if (len_bytes < 2)
        return 0;
    if (bytes[0] & LONG) {
        if (len_bytes > 2)
            check_long(8u * (bytes[1] + 1u), bytes + 2, len_bytes - 2);
        return 0;
    }
    if ((bytes[0] & HOW) == RAW) {
        (void)put(&file, bytes + 1, len_bytes - 1);
    } else if ((bytes[0] & HOW) == PIPE) {
        put_pipe_header(&file);
        if (bytes[0] & SAMPLING)
            put_sampling_attr(&file);
        (void)put(&file, bytes + 1, len_bytes - 1);
    } else if ((bytes[0] & HOW) == COMPRESS) {
        put_pipe_header(&file);
        if (bytes[0] & SAMPLING)
            put_sampling_attr(&file);
        put_compressed(&file, bytes + 2, len_bytes - 2, bytes[1] * 8u + 1);
    } else {
        put_sound(&file);
        for (size_t i = 1; i + 2 < len_bytes; i += 3)
            file.bytes[(bytes[i] | bytes[i + 1] << 8) % file.len] ^= bytes[i + 2];
        if (len_bytes % 3 == 0) /* and cut off */
            file.len = file.len * bytes[len_bytes - 1] / 256;
    }
    file.bytes = realloc(file.bytes, file.len ? file.len : 1); /* of exactly its size */
    if (!file.bytes)
        abort();
    walk(&file);
    free(file.bytes);
    return 0;
}
