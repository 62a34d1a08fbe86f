/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest that runs, looked at through a monitor that tests made: what is told of it is what a dump
 * tells; memory that changes is looked at again; what QEMU should not answer is an error.
 */
#include "common/json.h"
#include "linux/core.h"
#include "linux/names.h"
#include "made_linux.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECES (MADE_BYTES / LIVE_PIECE_BYTES)

/* ---- A monitor ---- */

/* What stands at the other end of it. */
struct other_end {
    struct monitor monitor;
    struct made_linux *made; /* NULL: memory has nothing but its addresses, in each page */
    int window;              /* -1: none was handed over */
    const char *memory;      /* what x-vpt-memory says; NULL: as it is */
    const char *fails;       /* the command that does not work; NULL: all do */
    uint64_t entry;          /* where system calls lead */
    bool is_running;
    unsigned stops, goes, reads, removed;
    uint64_t read_first;                /* the first page of what was read last */
    void (*before)(struct other_end *); /* of each read */
    unsigned times[PIECES];             /* how often each piece was read */
    uint64_t mend_at, mend_with;        /* for before */
};

static uint64_t argument(json_object *request, const char *key)
{
    json_object *arguments;

    return json_object_object_get_ex(request, "arguments", &arguments)
               ? (uint64_t)json_number(arguments, key)
               : 0;
}

static const char *memory_of(const struct other_end *end)
{
    static char text[512];

    if (end->memory)
        return end->memory;
    (void)snprintf(text, sizeof(text),
                   "{\"ram\": [{\"address\": 0, \"bytes\": %llu}, {\"address\": 4294967296, "
                   "\"bytes\": 4096}], \"encrypted\": false, \"processors\": [{\"vcpu\": 0, "
                   "\"cr3\": 4096, \"cr4\": 32, \"efer\": 3329, \"lstar\": %llu}]}",
                   end->made ? (unsigned long long)MADE_BYTES : 1ull << 30,
                   (unsigned long long)end->entry);
    return text;
}

static void put_pages(const struct other_end *end, uint64_t address, uint64_t bytes,
                      uint64_t offset)
{
    for (uint64_t at = 0; at < bytes; at += LOOK_PAGE_BYTES) {
        const uint64_t page = address + at;

        CU_ASSERT_EQUAL(pwrite(end->window, &page, sizeof(page), (off_t)(offset + at)),
                        sizeof(page));
    }
}

static const char *do_read(struct other_end *end, json_object *request)
{
    const uint64_t address = argument(request, "address"), bytes = argument(request, "bytes");
    const uint64_t offset = argument(request, "offset");

    CU_ASSERT_EQUAL(argument(request, "fdset"), 7);
    CU_ASSERT_TRUE(bytes <= LIVE_PIECE_BYTES && offset + bytes <= LIVE_BYTES);
    end->reads++;
    end->read_first = address;
    if (!end->made) {
        put_pages(end, address, bytes, offset);
        return "{}";
    }
    if (address >= MADE_BYTES || bytes > MADE_BYTES - address)
        return NULL;
    end->times[address / LIVE_PIECE_BYTES]++;
    if (end->before)
        end->before(end);
    if (end->fails)
        return NULL;
    CU_ASSERT_EQUAL(pwrite(end->window, end->made->ram + address, bytes, (off_t)offset), bytes);
    return "{}";
}

static const char *do_find(struct other_end *end, json_object *request)
{
    static char text[64];
    const uint64_t offset = argument(request, "offset"), first = argument(request, "address");
    const uint64_t last = first + argument(request, "bytes");
    json_object *arguments, *what;
    const char *wanted;

    (void)json_object_object_get_ex(request, "arguments", &arguments);
    (void)json_object_object_get_ex(arguments, "text", &what);
    wanted = json_object_get_string(what);
    for (uint64_t at = first; end->made && at + LOOK_PAGE_BYTES <= last && at < MADE_BYTES;
         at += LOOK_PAGE_BYTES)
        if (memcmp(end->made->ram + at + offset, wanted, strlen(wanted)) == 0) {
            (void)snprintf(text, sizeof(text), "{\"addresses\": [%llu]}", (unsigned long long)at);
            return text;
        }
    return "{\"addresses\": []}";
}

static const char *answer(struct other_end *end, const char *command, json_object *request, int fd)
{
    if (end->fails && strcmp(command, end->fails) == 0)
        return NULL;
    if (strcmp(command, "query-status") == 0)
        return end->is_running ? "{\"running\": true}" : "{\"running\": false}";
    if (strcmp(command, "x-vpt-memory") == 0)
        return memory_of(end);
    if (strcmp(command, "x-vpt-read") == 0)
        return do_read(end, request);
    if (strcmp(command, "x-vpt-find") == 0)
        return do_find(end, request);
    end->stops += strcmp(command, "stop") == 0;
    end->goes += strcmp(command, "cont") == 0;
    end->removed += strcmp(command, "remove-fd") == 0 && argument(request, "fdset-id") == 7;
    if (strcmp(command, "add-fd") == 0)
        end->window = dup(fd);
    return strcmp(command, "add-fd") == 0 ? "{\"fdset-id\": 7, \"fd\": 20}" : "{}";
}

static char *other_send(struct monitor *monitor, const char *text, int fd)
{
    struct other_end *const end = monitor->backend;
    char why[128], *line = NULL;
    json_object *const request = json_parse(text, strlen(text), why, sizeof(why));
    json_object *command;
    const char *value;

    CU_ASSERT_TRUE_FATAL(json_object_object_get_ex(request, "execute", &command));
    value = answer(end, json_object_get_string(command), request, fd);
    if (asprintf(&line, "{\"%s\": %s}", value ? "return" : "error",
                 value ? value : "{\"desc\": \"it does not\"}") < 0)
        abort();
    json_object_put(request);
    return line;
}

static struct other_end *new_end(struct made_linux *made)
{
    struct other_end *const end = calloc(1, sizeof(*end));

    if (!end)
        abort();
    end->monitor = (struct monitor){.send = other_send, .backend = end};
    end->made = made;
    end->window = -1;
    end->is_running = true;
    return end;
}

static void free_end(struct other_end *end)
{
    if (end->window >= 0)
        (void)close(end->window);
    free(end);
}

/* ---- Looks ---- */

static unsigned remarks;

static void count_remark(const char *line)
{
    (void)line;
    remarks++;
}

/* What a guest tells while it runs; 0 or -errno. */
static int look_live(struct other_end *end, struct guest_names *names, bool is_paused)
{
    struct linux_guest guest = {0};
    struct guest_source source;
    struct reason why = {0};
    struct live live;
    int error = live_open(&live, &end->monitor, &why);

    remarks = 0;
    source = live_source(&live);
    if (!error && is_paused)
        error = live_stop(&live, &why);
    if (!error)
        error = guest_open(&guest, &source, &why);
    if (!error)
        error = names_look_live(names, &guest, &live, count_remark, &why);
    CU_ASSERT_TRUE(!error || why.text[0]);
    live_close(&live);
    guest_close(&guest);
    return error;
}

static void look_at_core(const struct made_linux *made, struct guest_names *names)
{
    struct linux_guest guest = {0};
    struct guest_source source;
    struct reason why = {0};
    struct core core;

    made_core(made, &core);
    source = core_source(&core);
    CU_ASSERT_EQUAL_FATAL(guest_open(&guest, &source, &why), 0);
    CU_ASSERT_EQUAL(names_look(names, &guest, NULL, &why), 0);
    guest_close(&guest);
    core_close(&core);
}

static bool has_process(const struct guest_names *names, int64_t pid)
{
    for (size_t i = 0; i < json_object_array_length(names->processes); i++)
        if (json_number(json_object_array_get_idx(names->processes, i), "pid") == pid)
            return true;
    return false;
}

static void same_as_a_dump(void)
{
    static const struct made_kind kinds[] = {{0}, {.has_rb_tree = true}, {.has_five_levels = true}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct guest_names of_live = {0}, of_core = {0};
        struct made_linux made;
        struct other_end *end;

        made_linux(&made, kinds[i]);
        end = new_end(&made);
        CU_ASSERT_EQUAL_FATAL(look_live(end, &of_live, i == 1), 0);
        look_at_core(&made, &of_core);
        CU_ASSERT_TRUE(json_object_equal(of_live.processes, of_core.processes));
        CU_ASSERT_EQUAL(of_live.code.count, of_core.code.count);
        CU_ASSERT_EQUAL(memcmp(&of_live.sum, &of_core.sum, sizeof(of_live.sum)), 0);
        CU_ASSERT_TRUE(of_live.sum.processes == 2 && of_live.sum.file_symbols == 1);
        CU_ASSERT_EQUAL(remarks, 0);
        CU_ASSERT_EQUAL(end->removed, 1);
        CU_ASSERT_TRUE(end->stops == (i == 1) && end->goes == (i == 1));
        guest_names_free(&of_live);
        guest_names_free(&of_core);
        free_end(end);
        made_linux_free(&made);
    }
}

/* When a piece is read for the second time, its second look has begun. */
static void mend(struct other_end *end)
{
    if (end->times[end->read_first / LIVE_PIECE_BYTES] == 2)
        made_put(end->made, end->mend_at, end->mend_with);
}

/* A list that was about to change is whole when it is looked at again. */
static void list_that_changes(void)
{
    struct guest_names names = {0};
    struct made_linux made;
    struct other_end *end;

    made_linux(&made, (struct made_kind){0});
    end = new_end(&made);
    end->mend_at = made.tasks[1] + 0x10;
    end->mend_with = made_get(&made, end->mend_at);
    end->before = mend;
    made_put(&made, end->mend_at, 0);
    CU_ASSERT_EQUAL(look_live(end, &names, false), 0);
    CU_ASSERT_TRUE(has_process(&names, 1) && has_process(&names, 41));
    CU_ASSERT_EQUAL(remarks, 0);
    guest_names_free(&names);
    free_end(end);
    made_linux_free(&made);
}

/* Each look finds the list broken: looks end, and it is told once. A guest that stands is looked at
 * once. */
static void list_that_is_broken(void)
{
    struct made_linux made;

    made_linux(&made, (struct made_kind){0});
    made_put(&made, made.tasks[1] + 0x10, 0);
    for (unsigned i = 0; i < 2; i++) {
        struct guest_names names = {0};
        struct other_end *const end = new_end(&made);

        end->is_running = i == 0;
        CU_ASSERT_EQUAL(look_live(end, &names, false), 0);
        CU_ASSERT_TRUE(has_process(&names, 1) && !has_process(&names, 41));
        CU_ASSERT_EQUAL(remarks, 1);
        CU_ASSERT_EQUAL(end->times[0], i == 0 ? NAMES_LOOKS_MAX : 1);
        guest_names_free(&names);
        free_end(end);
    }
    made_linux_free(&made);
}

/* A process that ends between two looks stays, and so does a file that it unmaps. */
static void processes_that_end(void)
{
    struct guest_names names = {0};
    struct made_linux made;
    struct other_end *end;
    const char *text;

    made_linux(&made, (struct made_kind){0});
    end = new_end(&made);
    CU_ASSERT_EQUAL(look_live(end, &names, false), 0);
    /* "init" is no longer in the list. */
    made_put(&made, made.tasks[0] + 0x10, made_get(&made, made.tasks[1] + 0x10));
    made_put(&made, made.tasks[2] + 0x18, made_get(&made, made.tasks[1] + 0x18));
    CU_ASSERT_EQUAL(look_live(end, &names, false), 0);
    CU_ASSERT_TRUE(has_process(&names, 1) && has_process(&names, 41));
    CU_ASSERT_EQUAL(names.sum.processes, 2);
    made_put(&made, made.maps[1] + 0x20, 0); /* mapped no more */
    CU_ASSERT_EQUAL(look_live(end, &names, false), 0);
    text = json_object_to_json_string(names.processes);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "libc.so"));
    guest_names_free(&names);
    free_end(end);
    made_linux_free(&made);
}

/* ---- The window ---- */

/* More than it holds: what was pushed out is copied again, and is what it was. */
static void window(void)
{
    struct other_end *const end = new_end(NULL);
    struct guest_source source;
    struct reason why = {0};
    struct live live;
    uint64_t value;

    CU_ASSERT_EQUAL_FATAL(live_open(&live, &end->monitor, &why), 0);
    source = live_source(&live);
    for (unsigned round = 0; round < 2; round++)
        for (uint64_t at = 0; at < UINT64_C(3) * LIVE_BYTES; at += LIVE_PIECE_BYTES / 2) {
            if (!look_physical(&source.memory, at, &value, sizeof(value)) || value != at)
                CU_FAIL("another page");
        }
    CU_ASSERT_EQUAL(end->reads, 2 * 3 * LIVE_SETS * LIVE_WAYS);
    /* What is used again and again stays, however much comes and goes beside it. */
    end->reads = 0;
    for (uint64_t at = 0; at < UINT64_C(2) * LIVE_BYTES; at += LIVE_PIECE_BYTES)
        CU_ASSERT_TRUE(look_physical(&source.memory, 0x1000, &value, sizeof(value)) &&
                       look_physical(&source.memory, at, &value, sizeof(value)) && value == at);
    CU_ASSERT_TRUE(end->reads <= 2 * LIVE_SETS * LIVE_WAYS);
    /* A range of its own, its end, and what is none. */
    CU_ASSERT_TRUE(look_physical(&source.memory, UINT64_C(1) << 32, &value, sizeof(value)));
    CU_ASSERT_EQUAL(value, UINT64_C(1) << 32);
    CU_ASSERT_FALSE(look_physical(&source.memory, (UINT64_C(1) << 32) + 4092, &value, 8));
    CU_ASSERT_FALSE(look_physical(&source.memory, UINT64_C(1) << 31, &value, sizeof(value)));
    CU_ASSERT_FALSE(look_physical(&source.memory, UINT64_MAX - 7, &value, sizeof(value)));
    CU_ASSERT_STRING_EQUAL(live.lost.text, "");
    live_close(&live);
    free_end(end);
}

/* ---- What is no guest ---- */

static void no_guest(void)
{
    static const struct {
        const char *memory, *fails;
        int error;
    } cases[] = {
        {NULL, "query-status", -EREMOTEIO},
        {NULL, "x-vpt-memory", -EREMOTEIO},
        {NULL, "add-fd", -EREMOTEIO},
        {NULL, "x-vpt-find", -EREMOTEIO},
        {"{\"ram\": [], \"encrypted\": true}", NULL, -EINVAL},
        {"{\"ram\": [], \"encrypted\": false, \"processors\": [{\"efer\": 0}]}", NULL, -EINVAL},
        {"{\"encrypted\": false, \"processors\": [{\"efer\": 1024}]}", NULL, -EREMOTEIO},
        {"{\"ram\": [{\"address\": 8192, \"bytes\": 1}, {\"address\": 0, \"bytes\": 1}], "
         "\"processors\": [{\"efer\": 1024}]}",
         NULL, -EREMOTEIO},
        {"{\"ram\": [{\"address\": 18446744073709551615, \"bytes\": 2}], \"processors\": "
         "[{\"efer\": 1024}]}",
         NULL, -EREMOTEIO},
        {"{\"processors\": [{\"efer\": 1024, \"lstar\": \"x\"}]}", NULL, -EREMOTEIO},
        {"[]", NULL, -EINVAL},
    };
    struct made_linux made;

    made_linux(&made, (struct made_kind){0});
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct other_end *const end = new_end(&made);
        struct guest_names names = {0};

        end->memory = cases[i].memory;
        end->fails = cases[i].fails;
        CU_ASSERT_EQUAL(look_live(end, &names, true), cases[i].error);
        CU_ASSERT_EQUAL(end->stops, end->goes);
        guest_names_free(&names);
        free_end(end);
    }
    made_linux_free(&made);
}

static void fail_later(struct other_end *end)
{
    if (end->times[0] == 2)
        end->fails = "x-vpt-read";
}

/* A kernel that no processor runs is taken if there is no other, and is known as one. */
static void which_runs(void)
{
    static const struct {
        uint64_t entry;
        bool runs;
    } cases[] = {{MADE_ENTRY, true}, {MADE_ENTRY + 8, false}, {0, false}};
    struct made_linux made;

    made_linux(&made, (struct made_kind){0});
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct other_end *const end = new_end(&made);
        struct linux_guest guest = {0};
        struct guest_source source;
        struct reason why = {0};
        struct live live;

        end->entry = cases[i].entry;
        CU_ASSERT_EQUAL_FATAL(live_open(&live, &end->monitor, &why), 0);
        source = live_source(&live);
        CU_ASSERT_EQUAL(live.entry_count, cases[i].entry != 0);
        CU_ASSERT_EQUAL(guest_open(&guest, &source, &why), 0);
        CU_ASSERT_EQUAL(guest_runs(&guest, &source), cases[i].runs);
        live_close(&live);
        guest_close(&guest);
        free_end(end);
    }
    made_linux_free(&made);
}

/* Functions of a file that nobody has mapped any more, if it is still that file. */
static void file_that_was_mapped(void)
{
    uint8_t build_id[20];
    struct names_mapped mapped = {.path = "/gone\n",
                                  .start = 0x10000,
                                  .end = 0x11000,
                                  .build_id = build_id,
                                  .build_id_bytes = sizeof(build_id)};
    struct guest_names names = {0};
    struct linux_guest guest = {0};
    struct guest_source source;
    struct reason why = {0};
    struct made_linux made;
    struct core core;

    for (size_t i = 0; i < sizeof(build_id); i++)
        build_id[i] = (uint8_t)i; /* not yet as it is: that begins with 1 */
    made_linux(&made, (struct made_kind){0});
    made_core(&made, &core);
    source = core_source(&core);
    CU_ASSERT_EQUAL_FATAL(guest_open(&guest, &source, &why), 0);
    CU_ASSERT_TRUE(look_cache(&guest.kernel, MADE_KERNEL + made.file, &mapped.cache));
    CU_ASSERT_EQUAL(names_look_file(&names, &guest, &mapped, &why), 0);
    CU_ASSERT_PTR_NULL(names.files);
    for (size_t i = 0; i < sizeof(build_id); i++)
        build_id[i]++;
    for (unsigned i = 0; i < 2; i++) { /* it is told once */
        CU_ASSERT_EQUAL(names_look_file(&names, &guest, &mapped, &why), 0);
        CU_ASSERT_EQUAL(json_object_array_length(names.files), 1);
        CU_ASSERT_EQUAL(names.sum.file_symbols, 1);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(json_object_to_json_string(names.files), "\\\\x0a"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json_object_to_json_string(names.files), "\"symbols_at\""));
    mapped.build_id_bytes = 0;
    mapped.offset = 4096;
    CU_ASSERT_EQUAL(names_look_file(&names, &guest, &mapped, &why), 0);
    CU_ASSERT_EQUAL(json_object_array_length(names.files), 1);
    guest_names_free(&names);
    guest_close(&guest);
    core_close(&core);
    made_linux_free(&made);
}

/* QEMU goes away amid the second look: what the first one told is there. */
static void lost_guest(void)
{
    struct guest_names names = {0};
    struct made_linux made;
    struct other_end *end;

    made_linux(&made, (struct made_kind){0});
    end = new_end(&made);
    end->before = fail_later;
    CU_ASSERT_EQUAL(look_live(end, &names, false), -EREMOTEIO);
    CU_ASSERT_TRUE(has_process(&names, 1) && has_process(&names, 41));
    guest_names_free(&names);
    free_end(end);
    made_linux_free(&made);
}

/* Where the guest is stopped, a signal that would end the program waits until it goes on. */
static void signals_wait(void)
{
    struct other_end *const end = new_end(NULL);
    struct reason why = {0};
    struct live live;
    sigset_t pending;

    (void)signal(SIGHUP, SIG_IGN);
    CU_ASSERT_EQUAL_FATAL(live_open(&live, &end->monitor, &why), 0);
    CU_ASSERT_EQUAL(live_stop(&live, &why), 0);
    CU_ASSERT_EQUAL(sigprocmask(SIG_BLOCK, NULL, &pending), 0);
    CU_ASSERT_TRUE(sigismember(&pending, SIGINT) && sigismember(&pending, SIGTERM));
    CU_ASSERT_EQUAL(end->goes, 0);
    live_close(&live);
    CU_ASSERT_EQUAL(end->goes, 1);
    CU_ASSERT_EQUAL(sigprocmask(SIG_BLOCK, NULL, &pending), 0);
    CU_ASSERT_FALSE(sigismember(&pending, SIGINT));
    free_end(end);
}

void add_linux_live_suite(void)
{
    CU_pSuite const suite = CU_add_suite("Linux guests that run", NULL, NULL);

    CU_add_test(suite, "the same as a dump", same_as_a_dump);
    CU_add_test(suite, "a list that changes", list_that_changes);
    CU_add_test(suite, "a list that is broken", list_that_is_broken);
    CU_add_test(suite, "processes that end", processes_that_end);
    CU_add_test(suite, "the window", window);
    CU_add_test(suite, "what is no guest", no_guest);
    CU_add_test(suite, "a guest that is lost", lost_guest);
    CU_add_test(suite, "which kernel runs", which_runs);
    CU_add_test(suite, "a file that was mapped", file_that_was_mapped);
    CU_add_test(suite, "signals wait", signals_wait);
}
