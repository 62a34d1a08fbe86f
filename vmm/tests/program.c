/* SPDX-License-Identifier: BSD-3-Clause */
/* vpt trace: the host's end of the wire against guests of any kind, and what processors lack. */
#include "suites.h"
#include "program/features.h"
#include "program/session.h"

#include <CUnit/Basic.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS    200
#define LIMIT_MS 20000

/* A guest that has said everything before it is listened to. */
struct guest {
    int ends[2];
    struct session session;
    struct bytes kept;
    int saved_stdin;
};

static void begin(struct guest *guest)
{
    const int null = open("/dev/null", O_RDONLY);

    *guest = (struct guest){.session.signals = -1};
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, guest->ends), 0);
    CU_ASSERT_EQUAL_FATAL(fcntl(guest->ends[0], F_SETFL, O_NONBLOCK), 0);
    guest->saved_stdin = dup(STDIN_FILENO);
    CU_ASSERT_EQUAL_FATAL(dup2(null, STDIN_FILENO), STDIN_FILENO);
    (void)close(null);
}

static void end(struct guest *guest)
{
    (void)dup2(guest->saved_stdin, STDIN_FILENO);
    (void)close(guest->saved_stdin);
    (void)close(guest->ends[0]);
    if (guest->ends[1] >= 0)
        (void)close(guest->ends[1]);
    session_end(&guest->session);
    bytes_free(&guest->kept);
}

static void say_bytes(const struct guest *guest, const void *bytes, size_t len)
{
    CU_ASSERT_EQUAL(write(guest->ends[1], bytes, len), (ssize_t)len);
}

static void say(const struct guest *guest, uint32_t type, const void *bytes, uint32_t len)
{
    const struct wire_head head = {.type = type, .len = len};

    say_bytes(guest, &head, sizeof(head));
    say_bytes(guest, bytes, len);
}

static void hang_up(struct guest *guest)
{
    (void)shutdown(guest->ends[1], SHUT_WR);
}

static int keep(void *owner, const void *bytes, size_t len, struct reason *why)
{
    (void)why;
    return bytes_add(owner, bytes, len) ? 0 : -ENOMEM;
}

static char *const program[] = {(char *)"program", (char *)"an argument", NULL};
static char *const environment[] = {(char *)"A=b", NULL};

static int run(struct guest *guest, bool has_perf, struct reason *why)
{
    const struct session_job job = {.arguments = program,
                                    .environment = environment,
                                    .folder = "/a folder",
                                    .perf = has_perf ? "/usr/bin/perf" : NULL,
                                    .event = "event",
                                    .keep = keep,
                                    .owner = &guest->kept};
    int error;

    *why = (struct reason){0};
    error = session_prepare(&guest->session, guest->ends[0], &job, LIMIT_MS, why);
    return error ? error : session_run(&guest->session, LIMIT_MS, why);
}

/* ---- A guest as it should be ---- */

/* Whether the JOB has a record. */
static bool has_record(const char *job, size_t len, const char *record)
{
    for (const char *at = job; at < job + len; at += strlen(at) + 1) {
        if (strcmp(at, record) == 0)
            return true;
    }
    return false;
}

static void test_good_guest(void)
{
    static const char features[] = "flags : fpu avx";
    static char said[1 << 16];
    const uint32_t status = 7 << 8;
    struct wire_head head;
    struct guest guest;
    struct reason why;
    ssize_t len;

    begin(&guest);
    say(&guest, WIRE_HELLO, features, sizeof(features) - 1);
    say(&guest, WIRE_READY, "", 0);
    say(&guest, WIRE_TAKEN, "", 0);
    say(&guest, WIRE_ENDED, &status, sizeof(status));
    say(&guest, WIRE_PERF_DATA, "PERF", 4);
    say(&guest, WIRE_PERF_DATA, "FILE", 4);
    say(&guest, WIRE_PERF_DATA, "", 0);
    CU_ASSERT_EQUAL(run(&guest, true, &why), 0);
    CU_ASSERT_STRING_EQUAL(guest.session.features, features);
    CU_ASSERT_TRUE(guest.session.has_ended && guest.session.has_perf_data);
    CU_ASSERT_EQUAL(WEXITSTATUS(guest.session.status), 7);
    CU_ASSERT_EQUAL(guest.kept.len, 8);
    CU_ASSERT_EQUAL(memcmp(guest.kept.data, "PERFFILE", 8), 0);
    len = recv(guest.ends[1], said, sizeof(said), 0);
    CU_ASSERT_FATAL(len > (ssize_t)sizeof(head));
    memcpy(&head, said, sizeof(head));
    CU_ASSERT_EQUAL(head.type, WIRE_JOB);
    CU_ASSERT_FATAL(head.len + sizeof(head) <= (size_t)len);
    CU_ASSERT_TRUE(has_record(said + sizeof(head), head.len, "aan argument"));
    CU_ASSERT_TRUE(has_record(said + sizeof(head), head.len, "eA=b"));
    CU_ASSERT_TRUE(has_record(said + sizeof(head), head.len, "d/a folder"));
    CU_ASSERT_TRUE(has_record(said + sizeof(head), head.len, "p/usr/bin/perf"));
    CU_ASSERT_FALSE(has_record(said + sizeof(head), head.len, "n"));
    end(&guest);
}

/* ---- Others ---- */

struct frame {
    uint32_t type, len;
    uint32_t words[3];
};

static void test_bad_guests(void)
{
    static const struct {
        const char *what;
        struct frame frames[4]; /* to type 0 */
        int error;
    } cases[] = {
        {"nothing", {{0}}, -EPIPE},
        {"no HELLO", {{WIRE_READY, 0, {0}}}, -EBADMSG},
        {"a frame of no kind", {{77, 4, {0}}}, -EBADMSG},
        {"HELLO and nothing", {{WIRE_HELLO, 4, {0}}}, -EPIPE},
        {"a failure", {{WIRE_FAILED, 8, {ENODEV, 0}}}, -EIO},
        {"a failure for no reason", {{WIRE_FAILED, 8, {0, 0}}}, -EIO},
        {"a failure that is too short", {{WIRE_FAILED, 4, {ENODEV}}}, -EBADMSG},
        {"GO from the guest", {{WIRE_HELLO, 0, {0}}, {WIRE_GO, 0, {0}}}, -EBADMSG},
        {"output too early", {{WIRE_HELLO, 0, {0}}, {WIRE_STDOUT, 4, {0}}}, -EBADMSG},
        {"no program",
         {{WIRE_HELLO, 0, {0}}, {WIRE_READY, 0, {0}}, {WIRE_FAILED, 8, {ENOENT, 1}}},
         -ENOENT},
        {"none that can be executed",
         {{WIRE_HELLO, 0, {0}}, {WIRE_READY, 0, {0}}, {WIRE_FAILED, 8, {EACCES, 1}}},
         -ENOEXEC},
        {"an end that is too short",
         {{WIRE_HELLO, 0, {0}}, {WIRE_READY, 0, {0}}, {WIRE_ENDED, 3, {0}}},
         -EBADMSG},
        {"a perf.data that nobody wants",
         {{WIRE_HELLO, 0, {0}}, {WIRE_READY, 0, {0}}, {WIRE_PERF_DATA, 4, {0}}},
         -EBADMSG},
        {"it goes away while the program runs",
         {{WIRE_HELLO, 0, {0}}, {WIRE_READY, 0, {0}}, {WIRE_TAKEN, 0, {0}}},
         -EPIPE},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct guest guest;
        struct reason why;
        int error;

        begin(&guest);
        for (const struct frame *frame = cases[i].frames; frame->type; frame++)
            say(&guest, frame->type, frame->words, frame->len);
        hang_up(&guest);
        error = run(&guest, false, &why);
        if (error != cases[i].error)
            printf("%s: %d\n", cases[i].what, error);
        CU_ASSERT_EQUAL(error, cases[i].error);
        CU_ASSERT_TRUE(*why.text);
        end(&guest);
    }
}

/* Its head says more than any frame has: nothing is read that has no room. */
static void test_long_frame(void)
{
    const struct wire_head head = {.type = WIRE_HELLO, .len = WIRE_MAX_BYTES + 1};
    struct guest guest;
    struct reason why;

    begin(&guest);
    say_bytes(&guest, &head, sizeof(head));
    CU_ASSERT_EQUAL(run(&guest, false, &why), -EBADMSG);
    end(&guest);
}

/* The perf.data may not come before the program has ended. */
static void test_early_perf_data(void)
{
    struct guest guest;
    struct reason why;

    begin(&guest);
    say(&guest, WIRE_HELLO, "", 0);
    say(&guest, WIRE_READY, "", 0);
    say(&guest, WIRE_PERF_DATA, "", 0);
    CU_ASSERT_EQUAL(run(&guest, true, &why), -EBADMSG);
    end(&guest);
}

/* Bytes of no sense, behind a guest that began well: an end or an error, and no waiting. */
static void test_random_guests(void)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        uint32_t words[64];
        struct guest guest;
        struct reason why;

        srandom(seed);
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            /* Many are frames by chance; but none that prints. */
            words[i] = random() % 3 ? (uint32_t)random() % 14 : (uint32_t)random();
            if (words[i] == WIRE_STDOUT || words[i] == WIRE_STDERR)
                words[i] = WIRE_TAKEN;
        }
        begin(&guest);
        say(&guest, WIRE_HELLO, "", 0);
        say(&guest, WIRE_READY, "", 0);
        say_bytes(&guest, words, sizeof(words));
        hang_up(&guest);
        (void)run(&guest, seed % 2, &why);
        end(&guest);
    }
}

static void test_limit(void)
{
    struct session_job job = {.arguments = program, .environment = environment, .folder = "/"};
    struct guest guest;
    struct reason why = {0};

    begin(&guest);
    say(&guest, WIRE_HELLO, "", 0);
    CU_ASSERT_EQUAL(session_prepare(&guest.session, guest.ends[0], &job, 50, &why), -ETIMEDOUT);
    say(&guest, WIRE_READY, "", 0);
    CU_ASSERT_EQUAL(session_prepare(&guest.session, guest.ends[0], &job, 50, &why), -EBADMSG);
    CU_ASSERT_EQUAL(session_run(&guest.session, 50, &why), -ETIMEDOUT);
    end(&guest);
}

/* ---- Processors ---- */

static void test_features(void)
{
    static const struct {
        const char *here, *there, *missing;
    } cases[] = {
        {"flags\t\t: fpu avx2 avx512f avx512_bf16\n", "flags : fpu avx2", "avx512f avx512_bf16"},
        {"flags : fpu sha_ni bmi1 bmi2", "flags : fpu bmi1 bmi2", "sha_ni"},
        {"flags : sse4_1 sse4_2", "flags : sse4_1x sse4_2", "sse4_1"},
        {"flags : fpu vmx nx pti", "flags : fpu", ""}, /* nothing that a program executes */
        {"flags : avx2", "flags : avx2", ""},
        {"flags : avx2", "", "avx2"},
        {"", "flags : avx2", ""},
    };
    char text[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_EQUAL(features_missing(cases[i].here, cases[i].there, text, sizeof(text)),
                        *cases[i].missing != '\0');
        CU_ASSERT_STRING_EQUAL(text, cases[i].missing);
    }
    CU_ASSERT_TRUE(features_missing("flags : avx512f avx512dq", "", text, 9));
    CU_ASSERT_STRING_EQUAL(text, "avx512f"); /* what there is room for */
    features_here(text, sizeof(text));
    CU_ASSERT_EQUAL(strncmp(text, "flags", 5), 0);
}

void add_program_suite(void)
{
    CU_pSuite suite = CU_add_suite("a program in a guest", NULL, NULL);

    CU_add_test(suite, "a guest as it should be", test_good_guest);
    CU_add_test(suite, "guests that are none", test_bad_guests);
    CU_add_test(suite, "a frame that is too long", test_long_frame);
    CU_add_test(suite, "a perf.data too early", test_early_perf_data);
    CU_add_test(suite, "random guests", test_random_guests);
    CU_add_test(suite, "limits of time", test_limit);
    CU_add_test(suite, "what a processor lacks", test_features);
}
