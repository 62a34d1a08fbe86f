/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a guest that runs. The window is a set-associative cache: a piece of memory has a few
 * places where it may stand, and takes that of the one that was not used for the longest time.
 */
#include "linux/live.h"
#include "common/json.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGES_MAX     4096u
#define PROCESSORS_MAX 4096u
#define FIND_BYTES_MAX (UINT64_C(256) << 20) /* as QEMU does at once */
#define EFER_LMA       (INT64_C(1) << 10)
#define PIECE_MASK     (LIVE_PIECE_BYTES - 1)

static const int waiting[] = {SIGHUP, SIGINT, SIGTERM};

/* ---- Questions to QEMU ---- */

/* What QEMU answers, to be put. NULL: the reason says why there is nothing. */
static json_object *ask(struct live *live, const char *command, json_object *arguments,
                        struct reason *why)
{
    json_object *const answer = monitor_execute(live->monitor, command, arguments);

    if (!answer)
        (void)reason_set(why, -EREMOTEIO, "%s", live->monitor->why);
    return answer;
}

static int ask_for_nothing(struct live *live, const char *command, json_object *arguments,
                           struct reason *why)
{
    json_object *const answer = ask(live, command, arguments, why);

    json_object_put(answer);
    return answer ? 0 : -EREMOTEIO;
}

static json_object *member(json_object *object, const char *key, json_type type)
{
    json_object *value;

    return json_object_object_get_ex(object, key, &value) && json_object_is_type(value, type)
               ? value
               : NULL;
}

static uint64_t number(json_object *object, const char *key)
{
    json_object *const value = member(object, key, json_type_int);

    return value ? json_object_get_uint64(value) : 0;
}

/* ---- What there is ---- */

static int no_answer(struct reason *why)
{
    return reason_set(why, -EREMOTEIO, "what QEMU says of the guest's memory makes no sense");
}

static int take_ranges(struct live *live, json_object *list, struct reason *why)
{
    const size_t count = list ? json_object_array_length(list) : 0;
    uint64_t end = 0;

    if (count == 0 || count > RANGES_MAX)
        return no_answer(why);
    live->ranges = calloc(count, sizeof(*live->ranges));
    if (!live->ranges)
        return reason_no_memory(why);
    for (size_t i = 0; i < count; i++) {
        json_object *const one = json_object_array_get_idx(list, i);
        const struct live_range range = {number(one, "address"), number(one, "bytes")};

        if (range.paddr < end || range.len_bytes > UINT64_MAX - range.paddr)
            return no_answer(why);
        end = range.paddr + range.len_bytes;
        live->ranges[live->range_count++] = range;
    }
    return 0;
}

/* Linux for x86-64 runs on no processor before one is in its mode: there is nothing to look for. */
static bool has_64_bit(json_object *list)
{
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        if (number(json_object_array_get_idx(list, i), "efer") & EFER_LMA)
            return true;
    return false;
}

/* Where processors enter their kernel: those that have been told. */
static int take_entries(struct live *live, json_object *list, struct reason *why)
{
    const size_t count = json_object_array_length(list);

    if (count > PROCESSORS_MAX)
        return no_answer(why);
    live->entries = calloc(count, sizeof(*live->entries));
    if (!live->entries)
        return reason_no_memory(why);
    for (size_t i = 0; i < count; i++) {
        const uint64_t entry = number(json_object_array_get_idx(list, i), "lstar");

        if (entry)
            live->entries[live->entry_count++] = entry;
    }
    return 0;
}

static int take_memory(struct live *live, json_object *memory, struct reason *why)
{
    json_object *const encrypted = member(memory, "encrypted", json_type_boolean);
    json_object *const processors = member(memory, "processors", json_type_array);
    int error;

    if (encrypted && json_object_get_boolean(encrypted))
        return reason_set(why, -EINVAL,
                          "the guest's memory is encrypted, and nobody else reads it");
    if (!has_64_bit(processors))
        return reason_set(why, -EINVAL, "no processor of the guest runs a 64-bit system");
    error = take_entries(live, processors, why);
    return error ? error : take_ranges(live, member(memory, "ram", json_type_array), why);
}

/* Where the guest says that its note is. */
static void take_lines(struct live *live, json_object *memory)
{
    const struct guest_source source = live_source(live);
    json_object *const note = member(memory, "vmcoreinfo", json_type_object);
    const uint64_t paddr = number(note, "address");
    uint8_t page[LOOK_PAGE_BYTES];
    const char *lines;

    if (!note || !look_physical(&source.memory, paddr, page, sizeof(page)))
        return;
    lines = vmcoreinfo_in_page(page, sizeof(page));
    if (!lines)
        return;
    live->lines_bytes = sizeof(page) - (size_t)((const uint8_t *)lines - page);
    memcpy(live->lines, lines, live->lines_bytes);
}

/* ---- The window ---- */

/* Its size is for good: what is mapped here stays, whatever QEMU does. */
static int make_window(struct live *live, struct reason *why)
{
    json_object *set;
    void *window;

    live->fd = memfd_create("vpt", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (live->fd < 0)
        return reason_of_file(why, -errno, "memfd_create");
    window = MAP_FAILED;
    if (ftruncate(live->fd, LIVE_BYTES) == 0 &&
        fcntl(live->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        window = mmap(NULL, LIVE_BYTES, PROT_READ, MAP_SHARED, live->fd, 0);
    if (window == MAP_FAILED) {
        const int error = -errno;

        (void)close(live->fd);
        return reason_of_file(why, error, "memfd_create");
    }
    live->window = window;
    set = monitor_execute_with(live->monitor, "add-fd", NULL, live->fd);
    if (!set)
        return reason_set(why, -EREMOTEIO, "%s", live->monitor->why);
    live->fdset = (int64_t)number(set, "fdset-id");
    json_object_put(set);
    return 0;
}

static const uint8_t *bytes_of(const struct live *live, const struct live_piece *piece)
{
    return live->window + (size_t)(piece - &live->pieces[0][0]) * LIVE_PIECE_BYTES;
}

/* The piece of memory around an address: as much as there is. False: there is none. */
static bool piece_around(const struct live *live, uint64_t paddr, struct live_piece *piece)
{
    size_t low = 0, high = live->range_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct live_range *const range = &live->ranges[middle];
        const uint64_t first = paddr & ~(uint64_t)PIECE_MASK;

        if (paddr < range->paddr) {
            high = middle;
        } else if (paddr - range->paddr >= range->len_bytes) {
            low = middle + 1;
        } else {
            piece->paddr = first > range->paddr ? first : range->paddr;
            piece->len_bytes = range->paddr + range->len_bytes - piece->paddr;
            if (piece->len_bytes > first + LIVE_PIECE_BYTES - piece->paddr)
                piece->len_bytes = first + LIVE_PIECE_BYTES - piece->paddr;
            return true;
        }
    }
    return false;
}

/* Lets QEMU copy a piece to its place. False: nothing more can be read. */
static bool fetch(struct live *live, struct live_piece *at, struct live_piece piece)
{
    json_object *const arguments = json_object_new_object();
    const size_t place = (size_t)(at - &live->pieces[0][0]);

    if (!arguments) {
        (void)reason_no_memory(&live->lost);
        return false;
    }
    json_add_number(arguments, "address", piece.paddr);
    json_add_number(arguments, "bytes", piece.len_bytes);
    json_add_number(arguments, "fdset", (uint64_t)live->fdset);
    json_add_number(arguments, "offset", (uint64_t)place * LIVE_PIECE_BYTES);
    at->len_bytes = 0;
    if (ask_for_nothing(live, "x-vpt-read", arguments, &live->lost) != 0)
        return false;
    *at = piece;
    return true;
}

/* The piece that holds an address. NULL: there is no memory, or it cannot be read. */
static const struct live_piece *piece_at(struct live *live, uint64_t paddr)
{
    /* Neighbours go to different sets, and so do places that are far from each other. */
    const uint64_t chunk = paddr / LIVE_PIECE_BYTES;
    struct live_piece *const set =
        live->pieces[(chunk ^ chunk / LIVE_SETS ^ chunk / LIVE_SETS / LIVE_SETS) % LIVE_SETS];
    struct live_piece *oldest = set, piece = {0};

    live->clock++;
    for (unsigned i = 0; i < LIVE_WAYS; i++) {
        if (paddr - set[i].paddr < set[i].len_bytes) {
            set[i].used = live->clock;
            return &set[i];
        }
        if (set[i].used < oldest->used)
            oldest = &set[i];
    }
    if (live->lost.text[0] || !piece_around(live, paddr, &piece))
        return NULL;
    piece.used = live->clock;
    return fetch(live, oldest, piece) ? oldest : NULL;
}

static bool read_memory(void *owner, uint64_t paddr, void *into, size_t len_bytes)
{
    struct live *const live = owner;
    const struct live_piece *const piece = piece_at(live, paddr);

    if (!piece || piece->len_bytes - (paddr - piece->paddr) < len_bytes)
        return false;
    memcpy(into, bytes_of(live, piece) + (paddr - piece->paddr), len_bytes);
    return true;
}

void live_forget(struct live *live)
{
    memset(live->pieces, 0, sizeof(live->pieces));
}

/* ---- Search ---- */

/* The first page of a part that has the text at an offset; UINT64_MAX: none. 0 or -errno. */
static int find_text(struct live *live, struct live_range part, uint64_t offset, uint64_t *paddr,
                     struct reason *why)
{
    json_object *const arguments = json_object_new_object();
    json_object *found, *list;

    *paddr = UINT64_MAX;
    if (!arguments)
        return reason_no_memory(why);
    json_add_number(arguments, "address", part.paddr);
    json_add_number(arguments, "bytes", part.len_bytes);
    json_add_number(arguments, "offset", offset);
    (void)json_add(arguments, "text", json_object_new_string(VMCOREINFO_BEGIN));
    found = ask(live, "x-vpt-find", arguments, why);
    if (!found)
        return -EREMOTEIO;
    list = member(found, "addresses", json_type_array);
    if (list && json_object_array_length(list) > 0)
        *paddr = json_object_get_uint64(json_object_array_get_idx(list, 0));
    json_object_put(found);
    if (*paddr != UINT64_MAX &&
        (*paddr - part.paddr >= part.len_bytes || *paddr % LOOK_PAGE_BYTES != 0))
        return no_answer(why);
    return 0;
}

static int find_in(struct live *live, struct live_range part, uint64_t *paddr, struct reason *why)
{
    uint64_t in_note = UINT64_MAX;
    int error = find_text(live, part, 0, paddr, why);

    if (!error)
        error = find_text(live, part, VMCOREINFO_IN_NOTE, &in_note, why);
    if (!error && in_note < *paddr)
        *paddr = in_note;
    return error;
}

/* QEMU looks at the pages, so that none has to be copied for it. */
static int find_page(void *owner, struct source_place *place, uint64_t *paddr, struct reason *why)
{
    struct live *const live = owner;

    for (; place->range < live->range_count; place->range++, place->offset = 0) {
        const struct live_range *const range = &live->ranges[place->range];

        while (place->offset < range->len_bytes) {
            struct live_range part = {range->paddr + place->offset,
                                      range->len_bytes - place->offset};
            uint64_t at;
            int error;

            if (part.len_bytes > FIND_BYTES_MAX)
                part.len_bytes = FIND_BYTES_MAX - part.paddr % LOOK_PAGE_BYTES;
            error = find_in(live, part, &at, why);
            if (error)
                return error;
            if (at != UINT64_MAX) {
                place->offset = at - range->paddr + LOOK_PAGE_BYTES;
                *paddr = at;
                return 0;
            }
            place->offset += part.len_bytes;
        }
    }
    return -ENOENT;
}

/* ---- Begin and end ---- */

static int take_status(struct live *live, struct reason *why)
{
    json_object *const status = ask(live, "query-status", NULL, why);
    json_object *running;

    if (!status)
        return -EREMOTEIO;
    running = member(status, "running", json_type_boolean);
    live->is_running = !running || json_object_get_boolean(running);
    json_object_put(status);
    return 0;
}

int live_open(struct live *live, struct monitor *monitor, struct reason *why)
{
    json_object *memory;
    int error;

    *live = (struct live){.monitor = monitor, .fdset = -1};
    error = take_status(live, why);
    if (error)
        return error;
    memory = ask(live, "x-vpt-memory", NULL, why);
    if (!memory)
        return -EREMOTEIO;
    error = take_memory(live, memory, why);
    if (!error)
        error = make_window(live, why);
    if (!error)
        take_lines(live, memory);
    json_object_put(memory);
    return error;
}

void live_close(struct live *live)
{
    json_object *const arguments = live->fdset >= 0 ? json_object_new_object() : NULL;
    struct reason why;

    live_go(live);
    if (arguments && !live->monitor->gone) {
        json_add_number(arguments, "fdset-id", (uint64_t)live->fdset);
        (void)ask_for_nothing(live, "remove-fd", arguments, &why);
    } else {
        json_object_put(arguments);
    }
    if (live->window) {
        (void)munmap(live->window, LIVE_BYTES);
        (void)close(live->fd);
    }
    free(live->ranges);
    free(live->entries);
    *live = (struct live){.fdset = -1};
}

static bool enters(void *owner, uint64_t address)
{
    const struct live *const live = owner;

    for (size_t i = 0; i < live->entry_count; i++)
        if (live->entries[i] == address)
            return true;
    return false;
}

struct guest_source live_source(const struct live *live)
{
    return (struct guest_source){
        .memory = {(void *)live, read_memory},
        .lines = live->lines,
        .lines_bytes = live->lines_bytes,
        .find = find_page,
        .enters = live->entry_count > 0 ? enters : NULL,
    };
}

/* ---- Stopping the guest ---- */

static void set_waiting(int how)
{
    sigset_t signals;

    (void)sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        (void)sigaddset(&signals, waiting[i]);
    (void)sigprocmask(how, &signals, NULL);
}

int live_stop(struct live *live, struct reason *why)
{
    if (!live->is_running)
        return 0;
    set_waiting(SIG_BLOCK);
    if (ask_for_nothing(live, "stop", NULL, why) != 0) {
        set_waiting(SIG_UNBLOCK);
        return -EREMOTEIO;
    }
    live->is_running = false;
    live->is_stopped = true;
    live_forget(live);
    return 0;
}

void live_go(struct live *live)
{
    struct reason why;

    if (!live->is_stopped)
        return;
    if (!live->monitor->gone)
        (void)ask_for_nothing(live, "cont", NULL, &why);
    live->is_stopped = false;
    live->is_running = true;
    set_waiting(SIG_UNBLOCK);
}
