/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.data: each record's layout by hand, files and pipes, compressed records, what a session
 * makes of them, what the writer wrote, and files that are cut off or wrong.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/array.h"
#include "perf_file.h"
#include "ptdec_perf.h"
#include "suites.h"

/* The text of each record, one a line; then the error if there was one. */
static const char *records_of(const uint8_t *bytes, size_t len)
{
    static char text[16384];
    struct ptd_perf_fault fault = {0};
    struct ptd_perf_record each;
    struct ptd_perf *perf;
    size_t at = 0;
    int error = ptd_perf_open(bytes, len, &perf, &fault);

    text[0] = 0;
    if (!error) {
        while ((error = ptd_perf_next(perf, &each)) == PTD_OK && at < sizeof(text) - 300) {
            at += (size_t)ptd_perf_format(&each, text + at, 256);
            at += (size_t)snprintf(text + at, 8, "\n");
        }
        fault = *ptd_perf_fault(perf);
        ptd_perf_close(perf);
    }
    if (error != PTD_END)
        (void)snprintf(text + at, 256, "%d at %#llx: %s", error, (unsigned long long)fault.offset,
                       fault.text);
    return text;
}

/* ---- Records ---- */

static void every_record(void)
{
    static struct file file;
    const uint8_t build_id[24] = {20, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

    file_pipe_header(&file);
    file_attr_record(&file, 8, 5);
    file_record(&file, 1, 1, "ddqqqsi", N(-1), N(0), N(0x1000), N(0x200), N(0x1000), "[k]_text",
                N(-1), N(0), N(7));
    file_record(&file, 10, 0x4002, "ddqqqqqqddsi", N(3), N(4), N(0x400000), N(0x1000), N(0), N(0),
                N(0), N(0), N(5), N(2), "/bin/true", N(3), N(4), N(8));
    memcpy(file.bytes + file.len - 32 - 16 - 8 - 24, build_id, 24);
    file_record(&file, 3, 0x2000, "ddsi", N(3), N(4), "true", N(3), N(4), N(9));
    file_record(&file, 7, 0, "ddddqi", N(6), N(3), N(7), N(4), N(10), N(3), N(4), N(10));
    file_record(&file, 4, 0, "ddddqi", N(6), N(3), N(7), N(4), N(11), N(6), N(7), N(11));
    file_record(&file, 2, 0, "qqi", N(5), N(17), N(6), N(7), N(12));
    file_record(&file, 11, 0, "qqqi", N(0x80), N(0x40), N(0xd), N(6), N(7), N(13));
    file_record(&file, 12, 0, "ddi", N(6), N(7), N(6), N(7), N(14));
    file_record(&file, 14, 0x2000, "i", N(6), N(7), N(15));
    file_record(&file, 15, 0, "ddi", N(1), N(2), N(6), N(7), N(16));
    file_record(&file, 17, 0, "qdwwsi", N(0xfff0), N(32), N(1), N(0), "bpf_prog", N(6), N(7),
                N(17));
    file_record(&file, 20, 1, "qwwdi", N(0xfff8), N(2), N(2), N(0x11229090), N(6), N(7), N(18));
    file_record(&file, 9, 1, "qddqdd", N(5), N(6), N(7), N(19), N(1), N(0));
    file_record(&file, 79, 0, "qqq", N(2), N(3), N(4));
    file_record(&file, 70, 0, "ddq", N(1), N(0), N(8));
    file_record(&file, 71, 0, "qqqdddd", N(8), N(0x80), N(99), N(2), N(-1), N(1), N(0));
    file_put(&file, "\2\x82\2\x82\2\x82\2\x82", 8);
    file_record(&file, 68, 0, "");
    file_record(&file, 60000, 0, "");
    CU_ASSERT_STRING_EQUAL(records_of(file.bytes, file.len),
                           "ATTR\n"
                           "MMAP -1/0 0x1000+0x200 @ 0x1000 [k]_text [-1/0] 7 ns\n"
                           "MMAP2 3/4 0x400000+0x1000 @ 0 /bin/true [3/4] 8 ns\n"
                           "COMM 3/4 true (exec) [3/4] 9 ns\n"
                           "FORK 6/7 of 3/4 [3/4] 10 ns\n"
                           "EXIT 6/7 of 3/4 [6/7] 11 ns\n"
                           "LOST 17 [6/7] 12 ns\n"
                           "AUX 0x80+0x40 truncated partial collision [6/7] 13 ns\n"
                           "ITRACE_START [6/7] 14 ns\n"
                           "SWITCH out [6/7] 15 ns\n"
                           "SWITCH_CPU_WIDE in 1/2 [6/7] 16 ns\n"
                           "KSYMBOL 0xfff0+0x20 bpf_prog [6/7] 17 ns\n"
                           "TEXT_POKE 0xfff8 2 -> 2 bytes [6/7] 18 ns\n"
                           "SAMPLE [6/7] 19 ns\n"
                           "TIME_CONV\n"
                           "AUXTRACE_INFO type 1 (Intel PT)\n"
                           "AUXTRACE 0x80+0x8 ref 0x63 idx 2 tid -1 cpu 1\n"
                           "FINISHED_ROUND\n"
                           "? 60000\n");
    /* Whatever is cut off, something clear is said. */
    for (size_t len = 0; len < file.len; len++) {
        uint8_t *const exact = malloc(len ? len : 1);

        memcpy(exact, file.bytes, len);
        (void)records_of(exact, len);
        free(exact);
    }
}

static void samples_choose_their_event(void)
{
    static struct file file;
    struct ptd_perf_fault fault;
    struct ptd_perf_record each;
    struct ptd_perf *perf;
    const uint32_t events[] = {0, 0, 1, 0, 1, 0};

    file_pipe_header(&file);
    file_attr_record(&file, 8, 5);
    file_attr_record(&file, 1, 6);
    file_record(&file, 9, 1, "qddqdd", N(6), N(1), N(1), N(1), N(1), N(0));
    file_record(&file, 9, 1, "qddqdd", N(5), N(1), N(1), N(1), N(1), N(0));
    file_record(&file, 14, 0, "ddqddq", N(1), N(1), N(1), N(1), N(0), N(6));
    file_record(&file, 14, 0, "ddqddq", N(1), N(1), N(1), N(1), N(0), N(0)); /* made up by perf */
    CU_ASSERT_EQUAL_FATAL(ptd_perf_open(file.bytes, file.len, &perf, &fault), PTD_OK);
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
        CU_ASSERT_EQUAL(ptd_perf_next(perf, &each), PTD_OK);
        CU_ASSERT_EQUAL(each.event, events[i]);
    }
    CU_ASSERT_EQUAL(ptd_perf_next(perf, &each), PTD_END);
    ptd_perf_close(perf);
}

/* ---- Compressed records ---- */

static void compressed(void)
{
    static struct file plain, file;
    ZSTD_CStream *const zstd = ZSTD_createCStream();
    const size_t cuts[] = {3, 50, 51, 300};
    size_t from = 0;
    char expected[16384];

    file_pipe_header(&plain);
    file_attr_record(&plain, 8, 5);
    file_pipe_header(&file);
    file_attr_record(&file, 8, 5);
    from = plain.len;
    for (unsigned i = 0; i < 12; i++)
        file_record(&plain, 3, 0,
                    "dds"
                    "ddqddq",
                    N(i), N(i), "a name", N(i), N(i), N(i), N(0), N(0), N(5));
    (void)snprintf(expected, sizeof(expected), "%s", records_of(plain.bytes, plain.len));
    for (size_t i = 0; i <= sizeof(cuts) / sizeof(*cuts); i++) {
        const size_t end = i < sizeof(cuts) / sizeof(*cuts) ? from + cuts[i] : plain.len;
        uint8_t out[4096] = {0};
        ZSTD_inBuffer input = {.src = plain.bytes + from, .size = end - from};
        ZSTD_outBuffer output = {.dst = out, .size = sizeof(out)};
        const size_t at = file.len;
        uint16_t size;

        (void)ZSTD_compressStream(zstd, &output, &input);
        (void)ZSTD_flushStream(zstd, &output);
        if (i % 2) { /* the newer kind */
            file_record(&file, 83, 0, "q", N(output.pos));
            file_put(&file, out, output.pos);
            file_put(&file, "garbage!", 8);
        } else {
            file_record(&file, 81, 0, "");
            file_put(&file, out, output.pos);
        }
        size = (uint16_t)(file.len - at);
        memcpy(file.bytes + at + 6, &size, 2);
        from = end;
    }
    ZSTD_freeCStream(zstd);
    CU_ASSERT_STRING_EQUAL(records_of(file.bytes, file.len), expected);
    for (size_t len = 0; len < file.len; len++)
        (void)records_of(file.bytes, len);
    for (size_t at = 120; at < file.len; at++) { /* damage: it ends, and says something */
        file.bytes[at] ^= 0x10;
        (void)records_of(file.bytes, file.len);
        file.bytes[at] ^= 0x10;
    }
}

static void compressed_too_well(void)
{
    static struct file file;
    static uint8_t zeros[1 << 20];
    uint8_t out[4096] = {0};
    ZSTD_CStream *const zstd = ZSTD_createCStream();
    ZSTD_inBuffer input = {.src = zeros, .size = sizeof(zeros)};
    ZSTD_outBuffer output = {.dst = out, .size = sizeof(out)};
    uint16_t size;

    for (size_t i = 0; i < sizeof(zeros); i += 8) { /* a million bytes of FINISHED_ROUND */
        zeros[i] = 68;
        zeros[i + 6] = 8;
    }
    (void)ZSTD_compressStream(zstd, &output, &input);
    (void)ZSTD_endStream(zstd, &output);
    ZSTD_freeCStream(zstd);
    file_pipe_header(&file);
    file_record(&file, 81, 0, "");
    file_put(&file, out, output.pos);
    size = (uint16_t)(output.pos + 8);
    memcpy(file.bytes + 16 + 6, &size, 2);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(records_of(file.bytes, file.len), "more comes out of a compressed record"));
}

/* More names than a file of this size can mean: refused before memory is gone. */
static void too_much(void)
{
    static struct file file;
    static uint8_t comms[60000];
    uint8_t out[8 + 4096] = {81};
    ZSTD_CStream *const zstd = ZSTD_createCStream();
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    for (size_t i = 0; i + 24 <= sizeof(comms); i += 24) {
        comms[i] = 3;
        comms[i + 6] = 24;
    }
    file_pipe_header(&file);
    for (unsigned i = 0; i < 1000; i++) {
        ZSTD_inBuffer input = {.src = comms, .size = sizeof(comms)};
        ZSTD_outBuffer output = {.dst = out, .size = sizeof(out), .pos = 8};

        (void)ZSTD_compressStream(zstd, &output, &input);
        (void)ZSTD_flushStream(zstd, &output);
        out[6] = (uint8_t)output.pos;
        out[7] = (uint8_t)(output.pos >> 8);
        if (file.len + output.pos > FILE_MAX)
            break;
        file_put(&file, out, output.pos);
    }
    (void)ZSTD_freeCStream(zstd);
    CU_ASSERT_EQUAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_E_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(fault.text, "more than a recording of this size"));
}

/* ---- What is wrong with a file ---- */

static void faults(void)
{
    static struct file file;
    static const struct {
        const char *bytes;
        size_t len;
        const char *says;
    } cases[] = {
        {"", 0, "ends inside its header"},
        {"PERFILE2", 8, "ends inside its header"},
        {"2ELIFREP\0\0\0\0\0\0\0\20", 16, "big-endian"},
        {"PERFFILE\20\0\0\0\0\0\0\0", 16, "version 1"},
        {"notperf!\20\0\0\0\0\0\0\0", 16, "not a perf.data"},
        {"PERFILE2\21\0\0\0\0\0\0\0", 16, "unknown size"},
        {"PERFILE2\150\0\0\0\0\0\0\0", 16, "ends inside its header"},
        {"PERFILE2\20\0\0\0\0\0\0\0\1\0\0\0\0\0\7\0", 24, "smaller than its header"},
        {"PERFILE2\20\0\0\0\0\0\0\0\1\0\0\0\0\0\20\0", 24, "inside a record"},
        {"PERFILE2\20\0\0\0\0\0\0\0\3\0\0\0\0\0\10\0", 24,
         "COMM of 8 bytes: the record is too short"},
        {"PERFILE2\20\0\0\0\0\0\0\0\100\0\0\0\0\0\10\0", 24, "an event that is cut off"},
        {"PERFILE2\20\0\0\0\0\0\0\0\120\0\0\0\0\0\20\0\11\0\0\0\0\0\0\0", 32, "feature section"},
        {"PERFILE2\20\0\0\0\0\0\0\0\121\0\0\0\0\0\20\0abcdefgh", 32, "nknown frame"},
        {"PERFILE2\20\0\0\0\0\0\0\0\123\0\0\0\0\0\20\0abcdefgh", 32, "is cut off"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *const text = records_of((const uint8_t *)cases[i].bytes, cases[i].len);

        CU_ASSERT_PTR_NOT_NULL(strstr(text, cases[i].says));
        if (!strstr(text, cases[i].says))
            printf("\n    case %zu: '%s'", i, text);
    }
    file_pipe_header(&file); /* a string without an end */
    file_record(&file, 3, 0, "ddq", N(1), N(1), 0x4141414141414141ull);
    CU_ASSERT_PTR_NOT_NULL(strstr(records_of(file.bytes, file.len), "-13 at 0x10: COMM"));
    file_pipe_header(&file); /* packets that are not there */
    file_record(&file, 71, 0, "qqqdddd", ~0ull, N(0), N(0), N(0), N(0), N(0), N(0));
    CU_ASSERT_PTR_NOT_NULL(strstr(records_of(file.bytes, file.len), "-2 at 0x10: the bytes"));
}

/* ---- Sessions ---- */

static int list_map(void *owner, const struct ptd_perf_map *map)
{
    char *const text = owner;

    (void)snprintf(text + strlen(text), 64, "%s@%llx ", map->file, (unsigned long long)map->start);
    return 0;
}

static void mmap2(struct file *file, unsigned pid, unsigned time, unsigned start, const char *name)
{
    file_record(file, 10, 2,
                "ddqqqqqqdds"
                "ddqddq",
                N(pid), N(pid), N(start), N(0x1000), N(0), N(0), N(0), N(0), N(5), N(2), name,
                N(pid), N(pid), N(time), N(0), N(0), N(5));
}

static void fork_at(struct file *file, unsigned parent, unsigned child, unsigned time)
{
    file_record(file, 7, 0,
                "ddddq"
                "ddqddq",
                N(child), N(parent), N(child), N(parent), N(time), N(parent), N(parent), N(time),
                N(0), N(0), N(5));
}

static void comm(struct file *file, unsigned pid, unsigned tid, unsigned time, const char *name)
{
    file_record(file, 3, 0,
                "dds"
                "ddqddq",
                N(pid), N(tid), name, N(pid), N(tid), N(time), N(0), N(0), N(5));
}

static void who_ran_what(void)
{
    static struct file file;
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    char text[256] = "";

    file_pipe_header(&file);
    file_attr_record(&file, 8, 5);
    mmap2(&file, 10, 30, 0x3000, "late"); /* rounds come out of order */
    mmap2(&file, 10, 0, 0x1000, "a");
    mmap2(&file, 10, 10, 0x2000, "b");
    fork_at(&file, 10, 11, 20);
    mmap2(&file, 11, 25, 0x5000, "own");
    mmap2(&file, 11, 5, 0x6000, "other"); /* of a process 11 before */
    comm(&file, 10, 10, 0, "main");
    comm(&file, 10, 12, 5, "worker");
    comm(&file, 10, 12, 15, "renamed");
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL(session->error, PTD_OK);
    CU_ASSERT_FALSE(session->has_pt);
    CU_ASSERT_EQUAL(ptd_perf_each_map(session, 10, list_map, text), 0);
    CU_ASSERT_STRING_EQUAL(text, "a@1000 b@2000 late@3000 ");
    text[0] = 0;
    CU_ASSERT_EQUAL(ptd_perf_each_map(session, 11, list_map, text), 0);
    CU_ASSERT_STRING_EQUAL(text, "a@1000 b@2000 own@5000 ");
    CU_ASSERT_EQUAL(ptd_perf_pid_of(session, 12), 10);
    CU_ASSERT_EQUAL(ptd_perf_pid_of(session, 11), 11);
    CU_ASSERT_EQUAL(ptd_perf_pid_of(session, 99), 99);
    CU_ASSERT_STRING_EQUAL(ptd_perf_comm_of(session, 10, 12, 14), "worker");
    CU_ASSERT_STRING_EQUAL(ptd_perf_comm_of(session, 10, 12, 15), "renamed");
    CU_ASSERT_STRING_EQUAL(ptd_perf_comm_of(session, 10, 13, 15), "main");
    CU_ASSERT_STRING_EQUAL(ptd_perf_comm_of(session, 10, 12, 0), "main"); /* its process's */
    CU_ASSERT_PTR_NULL(ptd_perf_comm_of(session, 77, 77, 15));
    CU_ASSERT_PTR_NULL(ptd_perf_comm_of(session, 11, 11, 19));
    CU_ASSERT_STRING_EQUAL(ptd_perf_comm_of(session, 11, 11, 20), "main"); /* inherited */
    ptd_perf_session_free(session);
}

/* In a pipe they are records; in a file, a section behind the records. */
static void build_ids(void)
{
    static struct file file;
    const uint8_t id[24] = {1, 2, 3, 4, [20] = 4}; /* of four bytes */
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    for (unsigned kind = 0; kind < 2; kind++) {
        size_t data;

        file.len = 0;
        if (kind == 0) {
            file_pipe_header(&file);
        } else {
            const uint64_t header[] = {
                0x32454c4946524550, 104, 80, 104, 0, 104, 0, 0, 0, 4, 0, 0, 0};

            file_put(&file, header, sizeof(header));
        }
        data = file.len;
        file_record(&file, 10, 2, "ddqqqqqqdds", N(7), N(7), N(0x1000), N(16), N(0), N(0), N(0),
                    N(0), N(5), N(2), "/bin/a");
        file_record(&file, 10, 2, "ddqqqqqqdds", N(7), N(7), N(0x2000), N(16), N(0), N(0), N(0),
                    N(0), N(5), N(2), "/bin/b");
        if (kind == 1) {
            const uint64_t len = file.len - data;
            const uint64_t section[] = {file.len + 16, 8 + 4 + 24 + 8};

            memcpy(file.bytes + 48, &len, 8);
            file_put(&file, section, sizeof(section));
        }
        file_record(&file, 67, 0x8000, "dqqqs", N(-1), N(0), N(0), N(0), "/bin/b");
        memcpy(file.bytes + file.len - 8 - 24, id, 24);
        CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
        CU_ASSERT_EQUAL(session->error, PTD_OK);
        CU_ASSERT_EQUAL_FATAL(session->map_count, 2);
        CU_ASSERT_EQUAL(session->maps[0].build_id_bytes, 0);
        CU_ASSERT_EQUAL(session->maps[1].build_id_bytes, 4);
        CU_ASSERT_EQUAL(memcmp(session->maps[1].build_id, id, 4), 0);
        ptd_perf_session_free(session);
    }
    for (size_t len = 100; len < file.len; len++) {
        if (ptd_perf_session_new(file.bytes, len, &session, &fault) == PTD_OK)
            ptd_perf_session_free(session);
    }
}

/* A process that forks itself, and one forked for ever: it ends. */
static void endless_forks(void)
{
    static struct file file;
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    char text[256] = "";

    file_pipe_header(&file);
    file_attr_record(&file, 8, 5);
    fork_at(&file, 10, 11, 20);
    fork_at(&file, 11, 10, 20);
    mmap2(&file, 11, 25, 0x5000, "own");
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL(ptd_perf_each_map(session, 11, list_map, text), 0);
    CU_ASSERT_STRING_EQUAL(text, "own@5000 ");
    ptd_perf_session_free(session);
}

static void auxtrace(struct file *file, unsigned idx, uint64_t offset, const char *bytes)
{
    file_record(file, 71, 0, "qqqdddd", N(strlen(bytes)), offset, N(1), N(idx), N(7), N(-1), N(0));
    file_put(file, bytes, strlen(bytes));
}

/* A store that counts the bytes that it keeps. */
static void *resize_counted(void *owner, void *bytes, size_t old_bytes, size_t new_bytes)
{
    size_t *const kept = owner;

    *kept += new_bytes - old_bytes;
    if (new_bytes)
        return realloc(bytes, new_bytes);
    free(bytes);
    return NULL;
}

static void traces_of_pieces(void)
{
    size_t kept = 0;
    const struct ptd_perf_store store = {.resize = resize_counted, .owner = &kept};
    static struct file file;
    static const struct {
        unsigned idx;
        uint64_t offset;
        const char *bytes;
    } expected[] = {{0, 0, "abcdefghABCD"}, {0, 100, "gap"}, {1, 0, "otherback"}, {1, 90, "x"}};
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    file_pipe_header(&file);
    auxtrace(&file, 0, 0, "abcdefgh");
    auxtrace(&file, 1, 0, "other");
    auxtrace(&file, 0, 6, "ABCD"); /* two bytes of the piece before are padding */
    auxtrace(&file, 0, 100, "gap");
    auxtrace(&file, 1, 3, "back");
    auxtrace(&file, 1, 9, "");
    auxtrace(&file, 1, 90, "x");
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 4);
    for (size_t i = 0; i < 4; i++) {
        struct ptd_perf_whole whole;

        CU_ASSERT_EQUAL(session->traces[i].idx, expected[i].idx);
        CU_ASSERT_EQUAL(session->traces[i].aux_offset, expected[i].offset);
        session->store = i % 2 ? &store : NULL;
        CU_ASSERT_EQUAL_FATAL(ptd_perf_whole(session, &session->traces[i], &whole), PTD_OK);
        CU_ASSERT_EQUAL(whole.len_bytes, strlen(expected[i].bytes));
        CU_ASSERT_NSTRING_EQUAL(whole.bytes, expected[i].bytes, strlen(expected[i].bytes));
        CU_ASSERT_EQUAL(kept > 0, i % 2 && !session->traces[i].bytes);
        ptd_perf_whole_free(&whole);
        CU_ASSERT_EQUAL(kept, 0);
    }
    ptd_perf_session_free(session);
}

/* One of 2,000 bytes that do not repeat, but for a PSB every 250 bytes. */
static uint8_t byte_of_trace(unsigned at)
{
    const uint32_t random = (at + 1) * 2654435761u;

    if (at % 250 < 16)
        return at % 250 % 2 ? 0x82 : 2;
    return (uint8_t)((random >> 13 ^ random >> 24) | 1);
}

/* A part of them as a snapshot; its end is padded to 8 bytes. */
static void snapshot(struct file *file, unsigned from, unsigned to)
{
    uint8_t bytes[2008] = {0};

    for (unsigned i = from; i < to; i++)
        bytes[i - from] = byte_of_trace(i);
    file_record(file, 71, 0, "qqqdddd", N((to - from + 7) / 8 * 8), N(0), N(1), N(0), N(7), N(-1),
                N(0));
    file_put(file, bytes, (to - from + 7) / 8 * 8);
}

static void snapshots(void)
{
    static struct file file;
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    file_pipe_header(&file);
    file_record(&file, 70, 0, "ddqqqqqqqqqq", N(1), N(0), N(8), N(0), N(0), N(0), N(0), N(0), N(0),
                N(0), N(1), N(0));
    snapshot(&file, 0, 1000);
    snapshot(&file, 500, 1203); /* 500 of these bytes are known, and 3 of the file's are padding */
    snapshot(&file, 600, 1203); /* nothing new: its end may be that of the one before */
    snapshot(&file, 1500, 2000);
    snapshot(&file, 1990, 2000); /* too little to be sure */
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_TRUE(session->pt.snapshot);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 3);
    CU_ASSERT_EQUAL(session->traces[0].len_bytes, 1000 + 204 + 5);
    CU_ASSERT_EQUAL(session->traces[1].len_bytes, 504);
    CU_ASSERT_EQUAL(session->traces[2].len_bytes, 16);
    ptd_perf_session_free(session);
}

/* HEADER_ATTR with the fields that say how long a sample's fields are. */
static void sampling_attr(struct file *file, uint64_t type, uint64_t id, uint64_t sample_type,
                          uint64_t read_format)
{
    file_record(file, 64, 0, "ddqqqqqqqqqqqqq", type, N(104), N(0x2001), N(1), sample_type,
                read_format, ID_ALL, N(0), N(0), N(0), N(1u << 17), N(5), N(0), N(3), id);
}

#define ALL_FIELDS      0xffffffu
#define AUX_FIELD       (1u << 20)
#define ID_TIME_AND_AUX (1u << 16 | 1u << 2 | AUX_FIELD)

/* Packets stand behind all else that a sample can have. */
static void sample_with_everything(void)
{
    static struct file file;
    struct ptd_perf_fault fault;
    struct ptd_perf_record each;
    struct ptd_perf *perf;
    size_t begin;

    file_pipe_header(&file);
    sampling_attr(&file, 1, 5, ALL_FIELDS, 1 | 4 | 8 | 16);
    begin = file.len;
    file_record(&file, 9, 1,
                "qqddqqqqddq" /* up to PERIOD */
                "qqqqqqqq"    /* READ: two events, with ids and what was lost */
                "qqq"         /* CALLCHAIN */
                "dd"          /* RAW */
                "qqqqq"       /* BRANCH_STACK with an index */
                "qqq"         /* REGS_USER: two of them */
                "qqq"         /* STACK_USER */
                "qqq"         /* WEIGHT, DATA_SRC, TRANSACTION */
                "q"           /* REGS_INTR: none */
                "qqqq"        /* PHYS_ADDR to CODE_PAGE_SIZE */
                "qqq",        /* AUX */
                N(5), N(0x1000), N(1), N(2), N(77), N(0), N(5), N(0), N(3), N(0), N(1), /* PERIOD */
                N(2), N(0), N(1), N(2), N(3), N(4), N(5), N(6), N(2), N(0x1000), N(0x2000), N(4),
                N(0xabcd), N(1), N(0), N(0), N(0), N(0), N(1), N(0), N(0), N(8), N(0), N(8), N(0),
                N(0), N(0), N(0), N(0), N(0), N(0), N(0), N(16), N(0x1122), N(0x3344));
    CU_ASSERT_EQUAL_FATAL(ptd_perf_open(file.bytes, file.len, &perf, &fault), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_next(perf, &each), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_next(perf, &each), PTD_OK);
    CU_ASSERT_EQUAL(each.sample.ip, 0x1000);
    CU_ASSERT_EQUAL(each.time, 77);
    CU_ASSERT_EQUAL(each.cpu, 3);
    CU_ASSERT_EQUAL_FATAL(each.sample.aux_bytes, 16);
    CU_ASSERT_EQUAL(little_endian(each.sample.aux, 8), 0x1122);
    ptd_perf_close(perf);
    /* A length that reaches out of the record: that of the packets, and that of RAW. */
    for (unsigned i = 0; i < 2; i++) {
        uint8_t *const len = file.bytes + (i ? begin + 8 + 72 + 64 + 24 : file.len - 24);
        const uint8_t before = *len;

        CU_ASSERT_EQUAL(before, i ? 4 : 16);
        *len = 250;
        CU_ASSERT_PTR_NOT_NULL(strstr(records_of(file.bytes, file.len), "too short"));
        *len = before;
    }
}

/* A part of them in a sample. */
static void sample(struct file *file, uint64_t id, uint64_t time, unsigned from, unsigned to)
{
    const size_t at = file->len;
    uint16_t size;

    file_record(file, 9, 1, "qqq", id, time, N((to - from + 7) / 8 * 8));
    for (unsigned i = from; i < from + (to - from + 7) / 8 * 8; i++) {
        const uint8_t byte = i < to ? byte_of_trace(i) : 0;

        file_put(file, &byte, 1);
    }
    size = (uint16_t)(file->len - at);
    memcpy(file->bytes + at + 6, &size, 2);
}

static void traces_of_samples(void)
{
    static struct file file;
    const struct {
        int cpu, tid;
        size_t len;
    } expected[] = {{2, -1, 1000 + 4}, {2, -1, 200}, {3, -1, 96}, {-1, 11, 80}};
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    file_pipe_header(&file);
    sampling_attr(&file, 1, 5, ID_TIME_AND_AUX, 0);
    file_record(&file, 69, 0, "qqqqqqqqq", N(2), N(5), N(0), N(2), N(-1), N(6), N(0), N(3), N(-1));
    file_record(&file, 70, 0, "ddqqqqqq", N(1), N(0), N(8), N(0), N(1), N(0), N(1), N(0x400));
    sampling_attr(&file, 1, 6, ID_TIME_AND_AUX, 0);
    sampling_attr(&file, 1, 7, ID_TIME_AND_AUX | 2u, 0); /* of a thread */
    sample(&file, 5, 500, 0, 1000);
    sample(&file, 6, 300, 1500, 1596);
    sample(&file, 5, 900, 1400, 1600);
    sample(&file, 5, 600, 740, 1004); /* the file is not in order of time */
    file_record(&file, 9, 1, "qddqqqqqqqqqqqq", N(7), N(10), N(11), N(700), N(80), N(1), N(2), N(3),
                N(4), N(5), N(6), N(7), N(8), N(9), N(10));
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL(session->error, PTD_OK);
    CU_ASSERT_EQUAL(session->aux_sample_count, 5);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 4);
    for (size_t i = 0; i < 4; i++) { /* by CPU or thread, then by time */
        const struct ptd_perf_trace *const trace = &session->traces[i];
        CU_ASSERT_EQUAL(trace->cpu, expected[i].cpu);
        CU_ASSERT_EQUAL(trace->tid, expected[i].tid);
        CU_ASSERT_EQUAL(trace->len_bytes, expected[i].len);
    }
    CU_ASSERT_EQUAL(session->traces[1].reference, 900);
    ptd_perf_session_free(session);
}

/* The packets of a loop are alike again and again: that is no overlap. */
static void loops_are_no_overlap(void)
{
    static struct file file;
    static const uint8_t loop[200] = {0};
    uint8_t tnt[200];
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    memset(tnt, 6, sizeof(tnt));
    file_pipe_header(&file);
    file_record(&file, 70, 0, "ddqqqqqqqqqq", N(1), N(0), N(8), N(0), N(0), N(0), N(0), N(0), N(0),
                N(0), N(1), N(0));
    for (unsigned i = 0; i < 2; i++) {
        file_record(&file, 71, 0, "qqqdddd", N(400), N(0), N(1), N(0), N(7), N(-1), N(0));
        file_put(&file, i ? tnt : loop, 200);
        file_put(&file, i ? loop : tnt, 200);
    }
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL(session->trace_count, 2);
    ptd_perf_session_free(session);
}

static void time_conversion(void)
{
    const struct ptd_perf_pt pt = {
        .time_shift = 10, .time_mult = 341, .time_zero = 1000000, .has_time = true}; /* 3 GHz */
    const struct ptd_perf_pt none = {0};

    CU_ASSERT_EQUAL(ptd_perf_time_of_tsc(&pt, 0), 1000000);
    CU_ASSERT_EQUAL(ptd_perf_time_of_tsc(&pt, 1024), 1000341);
    CU_ASSERT_EQUAL(ptd_perf_time_of_tsc(&pt, 1024ull << 30), 1000000 + (341ull << 30));
    CU_ASSERT_EQUAL(ptd_perf_tsc_of_time(&pt, 1000341), 1024);
    CU_ASSERT_EQUAL(ptd_perf_tsc_of_time(&pt, 1000000 + (341ull << 30)), 1024ull << 30);
    CU_ASSERT_EQUAL(ptd_perf_time_of_tsc(&none, 1024), 0);
    CU_ASSERT_EQUAL(ptd_perf_tsc_of_time(&none, 1024), 0);
}

/* ---- The writer ---- */

static int to_file(void *owner, const void *bytes, size_t len)
{
    file_put(owner, bytes, len);
    return 0;
}

static int to_nowhere(void *owner, const void *bytes, size_t len)
{
    (void)owner;
    (void)bytes;
    return len > 20 ? -1 : 0;
}

static void written_is_read(void)
{
    static struct file file;
    const struct ptd_perf_map maps[] = {
        {.start = 0x400000,
         .len = 0x2000,
         .pgoff = 0x1000,
         .pid = 10,
         .file = "/bin/program",
         .build_id = {1, 2, 3},
         .build_id_bytes = 20},
        {.start = 0xffffffff81000000,
         .len = 0x1000,
         .pgoff = 0xffffffff81000000,
         .pid = UINT32_MAX,
         .file = "[kernel.kallsyms]_text"},
    };
    const struct ptd_perf_comm name = {.pid = 10, .tid = 11, .name = "eightchr"};
    const struct ptd_perf_task task = {
        .time = 4, .pid = 10, .tid = 11, .parent_pid = 10, .parent_tid = 10};
    const struct ptd_perf_switch switches[] = {
        {.time = 5, .cpu = 3, .pid = 10, .tid = 11, .out = true},
        {.time = 6, .cpu = 3, .pid = 10, .tid = 11, .has_other = true, .other_pid = 1},
    };
    const struct ptd_perf_symbol symbol = {
        .time = 7, .start = 0xffffffff81000800, .len = 16, .kind = 2, .name = "trampoline"};
    const struct ptd_perf_poke pokes[] = {
        {.time = 9,
         .address = 0xffffffff81000010,
         .old_bytes = 2,
         .new_bytes = 5,
         .before = (const uint8_t *)"\x66\x90",
         .after = (const uint8_t *)"\xe9\1\2\3\4"},
        {.time = 8,
         .address = 0xffffffff81000800,
         .new_bytes = 1,
         .before = (const uint8_t *)"",
         .after = (const uint8_t *)"\xc3"},
    };
    const struct ptd_perf_trace trace = {.idx = 0,
                                         .cpu = -1,
                                         .tid = 11,
                                         .reference = 77,
                                         .bytes = (const uint8_t *)"packets",
                                         .len_bytes = 7};
    struct ptd_perf_out out = {
        .pt = {.time_mult = 3,
               .time_shift = 2,
               .time_zero = 1,
               .has_time = true,
               .tsc_ctc_num = 168,
               .tsc_ctc_den = 2,
               .max_nonturbo_ratio = 24},
        .config = 0x400,
        .cpuid = "GenuineIntel,6,85,7",
        .traces = &trace,
        .maps = maps,
        .comms = &name,
        .forks = &task,
        .switches = switches,
        .symbols = &symbol,
        .pokes = pokes,
        .symbol_count = 1,
        .poke_count = 2,
        .trace_count = 1,
        .map_count = 2,
        .comm_count = 1,
        .fork_count = 1,
        .switch_count = 2,
        .write = to_file,
        .owner = &file,
    };
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    char names[64];

    file.len = 0;
    CU_ASSERT_EQUAL_FATAL(ptd_perf_write(&out), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL(session->error, PTD_OK);
    CU_ASSERT_TRUE(session->has_pt);
    CU_ASSERT_EQUAL(session->pt.time_mult, 3);
    CU_ASSERT_EQUAL(session->pt.time_shift, 2);
    CU_ASSERT_EQUAL(session->pt.time_zero, 1);
    CU_ASSERT_EQUAL(session->pt.tsc_ctc_num, 168);
    CU_ASSERT_EQUAL(session->pt.tsc_ctc_den, 2);
    CU_ASSERT_EQUAL(session->pt.max_nonturbo_ratio, 24);
    CU_ASSERT_EQUAL(session->pt.tsc_bit, 0x400);
    CU_ASSERT_FALSE(session->pt.per_cpu);
    CU_ASSERT_EQUAL_FATAL(session->event_count, 1);
    CU_ASSERT_EQUAL(session->events[0].config, 0x2400); /* and BranchEn */
    CU_ASSERT_EQUAL(session->events[0].type, session->pt.pmu_type);
    CU_ASSERT_STRING_EQUAL(session->cpuid, "GenuineIntel,6,85,7");
    ptd_perf_event_names(session, names, sizeof(names));
    CU_ASSERT_STRING_EQUAL(names, "intel_pt//");
    CU_ASSERT_EQUAL_FATAL(session->map_count, 2);
    CU_ASSERT_EQUAL(session->maps[0].start, 0x400000);
    CU_ASSERT_EQUAL(session->maps[0].pgoff, 0x1000);
    CU_ASSERT_STRING_EQUAL(session->maps[0].file, "/bin/program");
    CU_ASSERT_EQUAL(session->maps[0].build_id_bytes, 20);
    CU_ASSERT_EQUAL(session->maps[0].build_id[2], 3);
    CU_ASSERT_EQUAL(session->maps[1].pid, UINT32_MAX);
    CU_ASSERT_EQUAL_FATAL(session->comm_count, 1);
    CU_ASSERT_STRING_EQUAL(session->comms[0].name, "eightchr");
    CU_ASSERT_EQUAL_FATAL(session->fork_count, 1);
    CU_ASSERT_EQUAL(session->forks[0].parent_tid, 10);
    CU_ASSERT_EQUAL_FATAL(session->switch_count, 2);
    CU_ASSERT_TRUE(session->switches[0].out);
    CU_ASSERT_EQUAL(session->switches[0].cpu, 3);
    CU_ASSERT_EQUAL(session->switches[1].other_pid, 1);
    CU_ASSERT_EQUAL_FATAL(session->symbol_count, 1);
    CU_ASSERT_EQUAL(session->symbols[0].len, 16);
    CU_ASSERT_EQUAL(session->symbols[0].kind, 2);
    CU_ASSERT_FALSE(session->symbols[0].gone);
    CU_ASSERT_STRING_EQUAL(session->symbols[0].name, "trampoline");
    CU_ASSERT_EQUAL_FATAL(session->poke_count, 2);
    CU_ASSERT_EQUAL(session->pokes[0].time, 8); /* in order of time */
    CU_ASSERT_EQUAL(session->pokes[0].old_bytes, 0);
    CU_ASSERT_EQUAL(session->pokes[0].after[0], 0xc3);
    CU_ASSERT_EQUAL(session->pokes[1].address, 0xffffffff81000010);
    CU_ASSERT_EQUAL(session->pokes[1].old_bytes, 2);
    CU_ASSERT_EQUAL(session->pokes[1].new_bytes, 5);
    CU_ASSERT_EQUAL(memcmp(session->pokes[1].before, "\x66\x90", 2), 0);
    CU_ASSERT_EQUAL(memcmp(session->pokes[1].after, "\xe9\1\2\3\4", 5), 0);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 1);
    CU_ASSERT_EQUAL(session->traces[0].reference, 77);
    CU_ASSERT_EQUAL(session->traces[0].len_bytes, 8);
    CU_ASSERT_NSTRING_EQUAL(session->traces[0].bytes, "packets\0", 8);
    ptd_perf_session_free(session);
    for (size_t len = 0; len < file.len; len++) {
        if (ptd_perf_session_new(file.bytes, len, &session, &fault) != PTD_OK) {
            CU_ASSERT_NOT_EQUAL(fault.text[0], 0);
            continue;
        }
        CU_ASSERT_NOT_EQUAL(session->error, PTD_OK);
        ptd_perf_session_free(session);
    }
    out.write = to_nowhere;
    CU_ASSERT_EQUAL(ptd_perf_write(&out), PTD_E_IO);
}

void add_perf_suite(void)
{
    const CU_pSuite suite = CU_add_suite("perf.data", NULL, NULL);

    CU_add_test(suite, "every record", every_record);
    CU_add_test(suite, "samples and trailers choose their event", samples_choose_their_event);
    CU_add_test(suite, "compressed records", compressed);
    CU_add_test(suite, "compressed too well", compressed_too_well);
    CU_add_test(suite, "too much out of compressed records", too_much);
    CU_add_test(suite, "what is wrong with a file", faults);
    CU_add_test(suite, "who ran what", who_ran_what);
    CU_add_test(suite, "build ids", build_ids);
    CU_add_test(suite, "endless forks", endless_forks);
    CU_add_test(suite, "traces of pieces", traces_of_pieces);
    CU_add_test(suite, "snapshots overlap", snapshots);
    CU_add_test(suite, "time conversion", time_conversion);
    CU_add_test(suite, "loops are no overlap", loops_are_no_overlap);
    CU_add_test(suite, "a sample with everything", sample_with_everything);
    CU_add_test(suite, "traces of samples", traces_of_samples);
    CU_add_test(suite, "what is written is read", written_is_read);
}
