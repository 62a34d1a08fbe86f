/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data and the flow: which thread a part of a CPU's trace belongs to, and when code changed.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "perf_file.h"
#include "ptdec_perf.h"
#include "suites.h"

#define LONG_BYTES (1u << 20)

/* ---- Traces of a CPU ---- */

/* Blocks as "pid:instructions ", by the processes that ptd_perf_cpu_trace() found. */
static const char *who_ran(const struct ptd_perf_session *session)
{
    static char text[256];
    static const uint8_t one[] = {0x90, 0xeb, 0xfd}, two[] = {0x90, 0x90, 0x90, 0xeb, 0xfb};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_perf_cpu_trace copy;
    struct ptd_flow *flow;
    struct ptd_item item;
    size_t len = 0;

    text[0] = 0;
    CU_ASSERT_EQUAL_FATAL(ptd_perf_cpu_trace(session, &session->traces[0], &copy), PTD_OK);
    (void)ptd_image_add_bytes(image, "one", 0x1000, one, sizeof(one), PTD_PERF_CR3(10));
    (void)ptd_image_add_bytes(image, "two", 0x1000, two, sizeof(two), PTD_PERF_CR3(20));
    flow = ptd_flow_new(copy.bytes, copy.len_bytes, image, NULL);
    while (ptd_flow_next(flow, &item) == PTD_OK && len < sizeof(text) - 32) {
        if (item.type == PTD_ITEM_BLOCK)
            len += (size_t)snprintf(text + len, 32, "%llu:%u ", (unsigned long long)item.cr3 >> 12,
                                    item.insns);
        else if (item.type == PTD_ITEM_ERROR)
            len +=
                (size_t)snprintf(text + len, 32, "error@%llx ",
                                 (unsigned long long)ptd_perf_cpu_trace_offset(&copy, item.offset));
    }
    for (size_t i = 0; i < copy.inserted_count; i++)
        CU_ASSERT_EQUAL(ptd_perf_cpu_trace_offset(&copy, copy.inserted[i] + 8),
                        copy.inserted[i] - 8 * i);
    ptd_flow_free(flow);
    ptd_perf_cpu_trace_free(&copy);
    ptd_image_free(image);
    return text;
}

static void packet_tsc(struct file *file, uint64_t tsc)
{
    file_put(file, "\x19", 1);
    file_put(file, &tsc, 7);
}

/* Tracing begins at 0x1000, and ends where an interrupt comes, `last` bytes behind it. */
static void ran(struct file *file, uint64_t from, uint64_t to, uint8_t last)
{
    const uint8_t fup[] = {0x5d, 0, 0x10, 0, 0, 0, 0}; /* 6 bytes, sign-extended */
    uint8_t pge[7], there[7];

    memcpy(pge, fup, 7);
    memcpy(there, fup, 7);
    pge[0] = 0x71;
    there[0] = 0x7d;
    there[1] = last;
    packet_tsc(file, from);
    file_put(file, pge, 7);
    packet_tsc(file, to);
    file_put(file, there, 7);
    file_put(file, "\x01", 1); /* TIP.PGD without an address */
}

/* Behind the PSB+ that a trace begins with. */
static void begin_packets(struct file *packets)
{
    packets->len = 0;
    file_put(packets, "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x23", 18);
}

/* A file whose times are TSCs. */
static void begin_file(struct file *file)
{
    file_pipe_header(file);
    file_attr_record(file, 8, 5);
    file_record(file, 70, 0, "ddqqqqqq", N(1), N(0), N(8), N(0), N(1), N(0), N(1), N(0x400));
}

/* tid: whose trace of the CPU it is, or UINT32_MAX. */
static void put_trace(struct file *file, const struct file *packets, unsigned tid)
{
    file_record(file, 71, 0, "qqqdddd", N(packets->len), N(0), N(1), N(0), N(tid), N(1), N(0));
    file_put(file, packets->bytes, packets->len);
}

/* A process has code. */
static void put_map(struct file *file, unsigned pid)
{
    file_record(file, 10, 2, "ddqqqqqqddsi", N(pid), N(pid), N(0x1000), N(16), N(0), N(0), N(0),
                N(0), N(5), N(2), "one", N(pid), N(pid), N(1));
}

static void check_who_ran(const struct file *file, const char *want)
{
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file->bytes, file->len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 1);
    CU_ASSERT_STRING_EQUAL(who_ran(session), want);
    ptd_perf_session_free(session);
}

static void cpu_file(struct file *file, bool switches, unsigned tid)
{
    static struct file packets;

    begin_packets(&packets);
    ran(&packets, 1000, 1100, 1);
    ran(&packets, 2010, 2900, 2); /* after the switch, although its time is before it */
    ran(&packets, 3005, 3100, 1);
    begin_file(file);
    if (tid != 10)
        file_record(file, 12, 0, "ddi", N(10), N(10), N(10), N(10), N(500));
    if (switches) {
        file_record(file, 15, 0x2000, "ddi", N(20), N(20), N(10), N(10), N(2000));
        file_record(file, 15, 0, "ddi", N(10), N(10), N(20), N(20), N(2020));
        file_record(file, 15, 0, "ddddqddq", N(10), N(10), N(20), N(20), N(2500), N(0), N(0), N(5));
        file_record(file, 14, 0x2000, "i", N(20), N(20), N(2990));
        file_record(file, 14, 0, "i", N(10), N(10), N(3050));
    }
    put_trace(file, &packets, tid);
}

static void cpu_trace(void)
{
    static struct file file;
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    cpu_file(&file, true, UINT32_MAX);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 1);
    CU_ASSERT_STRING_EQUAL(who_ran(session), "10:1 20:2 10:1 ");
    ptd_perf_session_free(session);
    for (unsigned i = 0; i < 2; i++) { /* who was there at the start, or who was to be traced */
        cpu_file(&file, false, i ? 10 : UINT32_MAX);
        CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
        CU_ASSERT_EQUAL_FATAL(session->trace_count, 1);
        CU_ASSERT_EQUAL(session->switch_count, 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(who_ran(session), "10:1 "));
        CU_ASSERT_PTR_NULL(strstr(who_ran(session), "20:"));
        ptd_perf_session_free(session);
    }
}

struct long_file {
    uint8_t bytes[LONG_BYTES + 4096];
    size_t len;
};

static int put_long(void *owner, const void *bytes, size_t len)
{
    struct long_file *const file = owner;

    if (len > sizeof(file->bytes) - file->len)
        return 1;
    memcpy(file->bytes + file->len, bytes, len);
    file->len += len;
    return 0;
}

/* The copy of a trace is the trace, but for what was put in. */
static void check_copy(const struct ptd_perf_session *session, const uint8_t *bytes)
{
    struct ptd_perf_cpu_trace copy;
    size_t from = 0;
    bool same = true;

    CU_ASSERT_EQUAL_FATAL(ptd_perf_cpu_trace(session, &session->traces[0], &copy), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(copy.len_bytes, LONG_BYTES + 8 * copy.inserted_count);
    for (size_t i = 0; i <= copy.inserted_count; i++) {
        const size_t to = i < copy.inserted_count ? copy.inserted[i] : copy.len_bytes;

        same = same && memcmp(copy.bytes + from, bytes + (from - 8 * i), to - from) == 0;
        from = to + 8;
    }
    CU_ASSERT_TRUE(same);
    ptd_perf_cpu_trace_free(&copy);
}

/* Behind what is no packet, a PSB is looked for, further than what is kept of a trace at a time. */
static void long_damage(void)
{
    static const uint8_t damage[] = {2, 0xff}, sound[] = {0x80, 0x80};
    static uint8_t bytes[LONG_BYTES];
    static struct file packets;
    static struct long_file file;
    const struct ptd_perf_trace trace = {
        .cpu = 1, .tid = -1, .bytes = bytes, .len_bytes = LONG_BYTES};

    for (size_t i = 0; i < LONG_BYTES; i++)
        bytes[i] = (uint8_t)(i / 64 << 1 & 0x7e) | 0x80; /* short TNTs */
    begin_packets(&packets);
    memcpy(bytes, packets.bytes, packets.len);
    for (size_t at = LONG_BYTES / 8; at < LONG_BYTES; at += LONG_BYTES / 8) {
        const struct ptd_perf_out out = {
            .traces = &trace, .trace_count = 1, .write = put_long, .owner = &file};
        struct ptd_perf_session *session;
        struct ptd_perf_fault fault;

        memcpy(bytes + at, damage, sizeof(damage));
        file.len = 0;
        CU_ASSERT_EQUAL_FATAL(ptd_perf_write(&out), PTD_OK);
        CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
        check_copy(session, bytes);
        ptd_perf_session_free(session);
        memcpy(bytes + at, sound, sizeof(sound));
    }
}

/* A snapshot or a sample begins in the midst: who ran long before it does not count. */
static void late_trace(void)
{
    const struct ptd_time_vm vm = {.vmcs = 0x1000, .offset = 1ull << 40};
    static struct file file, packets;
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    packets.len = 0;
    file_put(&packets, "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82", 16);
    packet_tsc(&packets, 5000);
    file_put(&packets, "\x7d\0\x10\0\0\0\0\2\x23", 9);
    packet_tsc(&packets, 5100);
    file_put(&packets, "\x7d\2\x10\0\0\0\0\1", 8);
    begin_file(&file);
    file_record(&file, 14, 0, "i", N(10), N(10), N(100));
    file_record(&file, 14, 0, "i", N(20), N(20), N(4900));
    file_record(&file, 14, 0, "i", N(30), N(30), N(9000));
    put_trace(&file, &packets, UINT32_MAX);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 1);
    CU_ASSERT_STRING_EQUAL(who_ran(session), "20:2 ");
    session->vms = &vm; /* only PSBEND tells now that the TSC is the host's */
    session->vm_count = 1;
    CU_ASSERT_STRING_EQUAL(who_ran(session), "20:2 ");
    ptd_perf_session_free(session);
}

/*
 * One stretch: a process, the idle task for most of the time, and the process again. Linux writes
 * no CR3 for a task of the kernel's, so what runs is the code of the process.
 */
static void kernel_threads(void)
{
    static const struct {
        bool mapped, forked; /* the process has code; it is a child of one that has */
        const char *want;
    } cases[] = {{true, false, "10:1 "}, {false, true, "10:1 "}, {false, false, "error@29 "}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static struct file file, packets;
        const unsigned pid = cases[i].mapped ? 10 : 9;

        begin_packets(&packets);
        ran(&packets, 1000, 3100, 1);
        begin_file(&file);
        put_map(&file, pid);
        if (cases[i].forked)
            file_record(&file, 7, 0, "ddddqi", N(10), N(9), N(10), N(9), N(10), N(10), N(10),
                        N(10));
        file_record(&file, 15, 0x2000, "ddi", N(10), N(10), N(0), N(0), N(900));
        file_record(&file, 15, 0x2000, "ddi", N(0), N(0), N(10), N(10), N(1150));
        file_record(&file, 15, 0x2000, "ddi", N(10), N(10), N(0), N(0), N(3000));
        put_trace(&file, &packets, UINT32_MAX);
        check_who_ran(&file, cases[i].want);
    }
}

/*
 * One process stops long before it has written CR3, and long before another one begins: the time
 * in between is neither's. If it is not known when the other one began, it is the other one's.
 */
static void between_threads(void)
{
    static const struct {
        unsigned begins; /* the record of the begin is this process's; 0: there is none */
        const char *want;
    } cases[] = {{20, "10:1 20:2 "}, {0, "20:1 20:2 "}, {30, "20:1 error@48 "}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static struct file file, packets;
        const unsigned begins = cases[i].begins;

        begin_packets(&packets);
        ran(&packets, 1000, 1900, 1);
        ran(&packets, 1910, 3500, 2);
        begin_file(&file);
        for (unsigned pid = 10; pid <= 30; pid += 10)
            put_map(&file, pid);
        file_record(&file, 15, 0, "ddi", N(20), N(20), N(10), N(10), N(900));
        file_record(&file, 15, 0x2000, "ddi", N(20), N(20), N(10), N(10), N(1300));
        if (begins)
            file_record(&file, 15, 0, "ddi", N(10), N(10), N(begins), N(begins), N(2500));
        put_trace(&file, &packets, UINT32_MAX);
        check_who_ran(&file, cases[i].want);
    }
}

/* ---- Code that changes ---- */

/* A packet with a whole address (6 bytes, sign-extended). */
static void packet_ip(struct file *file, uint8_t opcode, uint64_t ip)
{
    const uint8_t byte = (uint8_t)(opcode | 3 << 5);

    file_put(file, &byte, 1);
    file_put(file, &ip, 6);
}

#define TIP     0x0d
#define TIP_PGE 0x11
#define NEVER   UINT64_MAX

/*
 * User code runs in [1000, 1100], [2000, 2100] and, behind the kernel, [3000, 3100]; TSC and ns are
 * the same. Its stretches begin at the offsets in begin.
 */
static void changing_file(struct file *file, size_t begin[3], bool has_time)
{
    static struct file packets;

    begin_packets(&packets);
    for (unsigned i = 0; i < 3; i++) {
        packet_tsc(&packets, 1000 * (i + 1));
        begin[i] = packets.len;
        packet_ip(&packets, i == 2 ? TIP : TIP_PGE, 0x401000);
        packet_tsc(&packets, 1000 * (i + 1) + 10);
        packet_tsc(&packets, 1000 * (i + 1) + 100);
        if (i == 1) /* a system call */
            packet_ip(&packets, TIP, 0xffffffff81000000);
        else
            file_put(&packets, "\x01", 1); /* TIP.PGD */
    }
    file_pipe_header(file);
    file_attr_record(file, 8, 5);
    file_record(file, 70, 0, "ddqqqqqq", N(1), N(0), N(8), N(0), N(1), N(0), N(has_time), N(0x400));
    file_record(file, 71, 0, "qqqdddd", N(packets.len), N(0), N(1), N(0), N(9), N(-1), N(0));
    file_put(file, packets.bytes, packets.len);
}

static void changes_at_their_time(void)
{
    static struct file file;
    size_t begin[3];
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    changing_file(&file, begin, true);

    const struct {
        uint64_t time;
        bool of_kernel;
        uint64_t offset;
    } cases[] = {
        {0, true, 18},
        {0, false, begin[0]},         /* before all */
        {1050, false, begin[0] + 15}, /* by another thread: at the packet that is as late */
        {1500, true, begin[1] - 8},   /* the TSC packet with 2000 */
        {1500, false, begin[1]},
        {1999, false, begin[1]},
        {2500, false, begin[2]},
        {2600, false, begin[2]}, /* and in this order */
        {3100, true, begin[2] + 15},
        {3101, true, NEVER},
    };
    const size_t count = sizeof(cases) / sizeof(cases[0]);
    struct ptd_perf_change changes[sizeof(cases) / sizeof(cases[0])];

    for (size_t i = 0; i < count; i++)
        changes[i] = (struct ptd_perf_change){
            .time = cases[i].time, .of_kernel = cases[i].of_kernel, .which = i};
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(session->trace_count, 1);
    CU_ASSERT_EQUAL(ptd_perf_place(session, session->traces[0].bytes, session->traces[0].len_bytes,
                                   changes, count),
                    PTD_OK);
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(changes[i].offset, cases[changes[i].which].offset);
        CU_ASSERT_TRUE(i == 0 || changes[i].offset >= changes[i - 1].offset);
        CU_ASSERT_TRUE(i == 0 || changes[i].offset != changes[i - 1].offset ||
                       changes[i].time >= changes[i - 1].time);
    }
    CU_ASSERT_EQUAL(ptd_perf_place(session, NULL, 0, changes, count), PTD_OK);
    CU_ASSERT_EQUAL(changes[0].offset, NEVER);
    CU_ASSERT_EQUAL(ptd_perf_place(session, NULL, 0, NULL, 0), PTD_OK);
    ptd_perf_session_free(session);

    changing_file(&file, begin, false);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.bytes, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_EQUAL(ptd_perf_place(session, session->traces[0].bytes, session->traces[0].len_bytes,
                                   changes, count),
                    PTD_OK);
    for (size_t i = 0; i < count; i++)
        CU_ASSERT_EQUAL(changes[i].offset, 0);
    ptd_perf_session_free(session);
}

void add_perf_flow_suite(void)
{
    const CU_pSuite suite = CU_add_suite("perf.data and the flow", NULL, NULL);

    CU_add_test(suite, "the trace of a CPU", cpu_trace);
    CU_add_test(suite, "damage in a long trace", long_damage);
    CU_add_test(suite, "a trace that begins late", late_trace);
    CU_add_test(suite, "tasks of the kernel", kernel_threads);
    CU_add_test(suite, "between two threads", between_threads);
    CU_add_test(suite, "code changes at its time", changes_at_their_time);
}
