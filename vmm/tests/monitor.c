/* SPDX-License-Identifier: BSD-3-Clause */
/* QEMU's monitor (vmm/monitor/monitor.h) against a socket that answers as it should, and as it
 * should not.
 */
#include "common/file.h"
#include "monitor/capture-files.h"
#include "monitor/dump.h"
#include "monitor/monitor.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n"
#define READY    "{\"return\": {}}\r\n"
#define EVENT    "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": \"RESUME\"}\r\n"

/*
 * What stands at the other end: it says one text at first, and one more for each line it hears. One
 * that is no whole line is its last.
 */
struct server {
    int fd;
    int got;                  /* the descriptor that came along last */
    const char *const *texts; /* up to NULL: then it closes */
    pthread_t thread;
};

static char folder[] = "/tmp/vpt-monitor-XXXXXX";
static char path[64];

static int make_folder(void)
{
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/qmp", folder);
    return 0;
}

static int remove_folder(void)
{
    return rmdir(folder);
}

/* *got: what came along, if something did. */
static bool hear_line(int fd, int *got)
{
    char byte = 0, control[CMSG_SPACE(sizeof(*got))];
    struct iovec part = {.iov_base = &byte, .iov_len = 1};

    while (byte != '\n') {
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        const struct cmsghdr *header;

        if (recvmsg(fd, &message, 0) != 1)
            return false;
        header = CMSG_FIRSTHDR(&message);
        if (header && header->cmsg_type == SCM_RIGHTS)
            memcpy(got, CMSG_DATA(header), sizeof(*got));
    }
    return true;
}

static void *serve(void *argument)
{
    struct server *const server = argument;
    const int fd = accept(server->fd, NULL, NULL);
    const char *const *text = server->texts;

    while (*text && send(fd, *text, strlen(*text), MSG_NOSIGNAL) >= 0) {
        if (!strchr(*text++, '\n') || !hear_line(fd, &server->got))
            break;
    }
    (void)close(fd);
    return NULL;
}

static void start(struct server *server, const char *const *texts)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    server->texts = texts;
    server->got = -1;
    server->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, path, strlen(path));
    CU_ASSERT_EQUAL_FATAL(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    CU_ASSERT_EQUAL_FATAL(listen(server->fd, 1), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void end(struct server *server)
{
    (void)pthread_join(server->thread, NULL);
    (void)close(server->fd);
    (void)unlink(path);
}

/* What one command gives: a value as JSON, or why there is none. */
static void expect(const char *const *texts, const char *want, bool gone)
{
    struct server server;
    struct monitor monitor;
    json_object *value = NULL;

    start(&server, texts);
    if (monitor_open_socket(&monitor, path)) {
        value = monitor_execute(&monitor, "x-vpt-query", NULL);
        CU_ASSERT_EQUAL(monitor.gone, gone);
        CU_ASSERT_STRING_EQUAL(value ? json_object_to_json_string_ext(value, 0) : monitor.why,
                               want);
        monitor_close(&monitor);
    } else {
        CU_ASSERT_STRING_EQUAL(monitor.why, want);
    }
    json_object_put(value);
    end(&server);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void answers(void)
{
    expect(TEXTS(GREETING, READY, "{\"return\": [1, 2]}\r\n"), "[1,2]", false);
    expect(
        TEXTS(GREETING EVENT, EVENT READY EVENT, EVENT EVENT "{\"return\": {\"a\": 1}}\r\n" EVENT),
        "{\"a\":1}", false);
    expect(
        TEXTS(GREETING, READY, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}\r\n"),
        "QEMU: no", false);
}

/* A descriptor goes along with one command, and with no other. */
static void a_descriptor(void)
{
    struct server server;
    struct monitor monitor;
    int ends[2];
    char byte = 0;

    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    start(&server,
          TEXTS(GREETING, READY, "{\"return\": {\"fdset-id\": 3}}\r\n", "{\"return\": {}}\r\n"));
    CU_ASSERT_TRUE_FATAL(monitor_open_socket(&monitor, path));
    json_object_put(monitor_execute_with(&monitor, "add-fd", NULL, ends[1]));
    json_object_put(monitor_execute(&monitor, "x-vpt-query", NULL));
    monitor_close(&monitor);
    end(&server);
    CU_ASSERT_TRUE_FATAL(server.got >= 0);
    CU_ASSERT_EQUAL(write(server.got, "x", 1), 1);
    CU_ASSERT_EQUAL(read(ends[0], &byte, 1), 1);
    CU_ASSERT_EQUAL(byte, 'x');
    (void)close(server.got);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void what_is_no_answer(void)
{
    expect(TEXTS(GREETING, READY, "{\"return\": \r\n"),
           "QEMU's answer: not JSON: it ends too early", false);
    expect(TEXTS(GREETING, READY, "{\"return\": null}\r\n"),
           "QEMU's answer is neither result nor error", false);
    expect(TEXTS(GREETING, READY, "{\"error\": 5}\r\n"),
           "QEMU's answer is neither result nor error", false);
}

static void what_ends(void)
{
    expect(TEXTS(GREETING), "QEMU's monitor: it is closed", false);
    expect(TEXTS(GREETING, READY), "QEMU's monitor: it is closed", true);
    expect(TEXTS(GREETING, READY, "{\"return\""), "QEMU's monitor: it is closed", true);
}

static void what_is_no_monitor(void)
{
    struct monitor monitor;

    expect(TEXTS("SSH-2.0\n"), "QEMU's monitor: this is none", false);
    expect(TEXTS(GREETING, "{\"error\": {\"desc\": \"busy\"}}\n"), "QEMU's monitor: it is in use",
           false);
    CU_ASSERT_FALSE(monitor_open_socket(&monitor, folder));
    CU_ASSERT_PTR_NOT_NULL(strstr(monitor.why, "Connection refused"));
}

/* More than any answer has, and no end of the line. */
static void a_line_without_end(void)
{
    const size_t len = 3u << 20;
    char *const text = malloc(len + 1);

    CU_ASSERT_PTR_NOT_NULL(text);
    if (!text)
        return;
    memset(text, 'x', len);
    text[len] = 0;
    expect(TEXTS(text), "QEMU's monitor: a line that is too long", false);
    free(text);
}

/* A record, one with five bytes of code, and what a QEMU that was killed left of the next. */
static void code_that_is_cut(void)
{
    static const uint64_t log[] = {0x3165646f63747076, /* vptcode1 */
                                   1,
                                   0x1000,
                                   0x2000,
                                   0x3000,
                                   2,
                                   UINT64_MAX,
                                   0x3000,
                                   5,
                                   0x9090909090,
                                   3,
                                   UINT64_MAX,
                                   0x4000,
                                   9,
                                   0x9090909090};
    static const struct {
        size_t len_bytes, whole_bytes;
    } cases[] = {{120, 80}, {119, 80}, {112, 80}, {81, 80}, {80, 80}, {79, 40},
                 {72, 40},  {41, 40},  {40, 40},  {39, 8},  {8, 8},   {3, 3}};
    char trace[300], code[310];

    (void)snprintf(trace, sizeof(trace), "%s/t", folder);
    (void)snprintf(code, sizeof(code), "%s.code", trace);
    capture_cut_code(trace); /* there is none */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes left = {0};

        CU_ASSERT_EQUAL(write_file(code, log, cases[i].len_bytes), 0);
        capture_cut_code(trace);
        CU_ASSERT_EQUAL(read_file(code, &left), 0);
        CU_ASSERT_EQUAL(left.len, cases[i].whole_bytes);
        bytes_free(&left);
    }
    (void)unlink(code);
}

static uint64_t dumped;

static void turn(uint64_t done, uint64_t all)
{
    CU_ASSERT_EQUAL(all, 9);
    dumped = done;
}

#define DONE        "{\"return\": {}}\r\n"
#define NO          "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}\r\n"
#define DUMP_RUNS   "{\"return\": {\"status\": \"active\", \"completed\": 4, \"total\": 9}}\r\n"
#define DUMP_ENDED  "{\"return\": {\"status\": \"completed\", \"completed\": 4, \"total\": 9}}\r\n"
#define DUMP_FAILED "{\"return\": {\"status\": \"failed\", \"completed\": 4, \"total\": 9}}\r\n"

/* QEMU gets the descriptor, writes for some time, and says how it went. */
static void a_dump(void)
{
    const struct {
        const char *const *texts;
        const char *why; /* NULL: it is written */
    } cases[] = {
        {TEXTS(GREETING, READY, DONE, DONE, DUMP_RUNS, DUMP_ENDED), NULL},
        {TEXTS(GREETING, READY, DONE, DONE, DUMP_FAILED), "QEMU could not write"},
        {TEXTS(GREETING, READY, DONE, DONE, DONE), "QEMU could not write"},
        {TEXTS(GREETING, READY, DONE, NO), "QEMU: no"},
        {TEXTS(GREETING, READY, NO), "QEMU: no"},
        {TEXTS(GREETING, READY, DONE, DONE, DUMP_RUNS), "it is closed"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct reason why = {0};
        struct monitor monitor;
        struct server server;
        char core[64];

        (void)snprintf(core, sizeof(core), "%s/core", folder);
        start(&server, cases[i].texts);
        CU_ASSERT_TRUE_FATAL(monitor_open_socket(&monitor, path));
        CU_ASSERT_EQUAL(dump_write(&monitor, core, i == 0 ? turn : NULL, &why),
                        cases[i].why ? -EREMOTEIO : 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(why.text, cases[i].why ? cases[i].why : ""));
        monitor_close(&monitor);
        end(&server);
        CU_ASSERT_TRUE(server.got >= 0);
        (void)close(server.got);
        CU_ASSERT_EQUAL(unlink(core), cases[i].why ? -1 : 0);
    }
    CU_ASSERT_EQUAL(dumped, 4);
}

static void what_is_dumped(void)
{
    struct reason why = {0};
    struct monitor monitor;
    struct server server;
    char name[8];

    start(&server, TEXTS(GREETING, READY, "{\"return\": {\"name\": \"a guest\"}}\r\n", DONE,
                         "{\"return\": {\"base-memory\": 5, \"plugged-memory\": 2}}\r\n", NO, NO));
    CU_ASSERT_TRUE_FATAL(monitor_open_socket(&monitor, path));
    CU_ASSERT_EQUAL(dump_name(&monitor, name, sizeof(name), &why), 0);
    CU_ASSERT_STRING_EQUAL(name, "a guest");
    CU_ASSERT_EQUAL(dump_name(&monitor, name, sizeof(name), &why), 0);
    CU_ASSERT_STRING_EQUAL(name, "");
    CU_ASSERT_EQUAL(dump_size(&monitor), 7);
    CU_ASSERT_EQUAL(dump_size(&monitor), 0);
    CU_ASSERT_EQUAL(dump_name(&monitor, name, sizeof(name), &why), -EREMOTEIO);
    monitor_close(&monitor);
    end(&server);
}

void add_monitor_suite(void)
{
    CU_pSuite const suite = CU_add_suite("monitor", make_folder, remove_folder);

    CU_add_test(suite, "answers", answers);
    CU_add_test(suite, "a descriptor that goes along", a_descriptor);
    CU_add_test(suite, "what is no answer", what_is_no_answer);
    CU_add_test(suite, "what ends", what_ends);
    CU_add_test(suite, "what is no monitor", what_is_no_monitor);
    CU_add_test(suite, "a line without end", a_line_without_end);
    CU_add_test(suite, "code that is cut off", code_that_is_cut);
    CU_add_test(suite, "a dump of memory", a_dump);
    CU_add_test(suite, "whose memory, and how much", what_is_dumped);
}
