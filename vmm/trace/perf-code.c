/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code of a perf.data as it was at each part of a trace.
 *
 * All traces share an image with everything that was ever mapped. What was replaced while the file
 * was recorded stands in an image of the trace's own on top of it, which begins with the oldest
 * code and changes where the trace comes to the times of the changes.
 */
#include "trace/perf-data.h"
#include "common/bytes.h"
#include "common/list.h"
#include "trace/jitdump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_PID       UINT32_MAX
#define CHANGES_FREE     64u
#define CHANGES_PER_BYTE 4u

struct change {
    uint64_t time;
    uint64_t cr3;
    const struct ptd_perf_map *map; /* one of the three */
    const struct ptd_perf_poke *poke;
    const struct jit_code *jit;
    bool is_first; /* nothing else was there before */
};

struct code_changes {
    const struct ptd_perf_session *session;
    const struct code_options *options;
    struct change *list;
    size_t count, capacity;
    size_t jit_pages;  /* of 4 KiB: of code that each trace has to copy */
    bool pokes_wait;   /* to be added, */
    uint64_t poke_cr3; /* for this address space */
    bool warned;
    bool warned_of_many;
    bool sorted;
};

struct code_timeline {
    struct code_changes *changes;
    struct ptd_image *image;
    struct ptd_perf_change *places;
    size_t next;
    uint64_t renames; /* changes of whole maps, which have other symbols */
    int error;
    struct reason why;
};

/* ---- Changes ---- */

struct code_changes *code_changes_new(const struct ptd_perf_session *session,
                                      const struct code_options *options)
{
    struct code_changes *const changes = calloc(1, sizeof(*changes));

    if (changes)
        *changes = (struct code_changes){.session = session, .options = options};
    return changes;
}

void code_changes_free(struct code_changes *changes)
{
    if (changes)
        free(changes->list);
    free(changes);
}

static bool add(struct code_changes *changes, struct change change)
{
    struct change *const grown =
        list_grow(changes->list, changes->count, &changes->capacity, sizeof(*grown));

    if (!grown)
        return false;
    changes->list = grown;
    changes->list[changes->count++] = change;
    changes->sorted = false;
    return true;
}

/* The code of a process, in order of time, and by address. */
struct maps {
    struct mapped {
        uint64_t start, last;
        struct change change;
        size_t order;
        size_t group; /* of maps that overlap, one with the next */
    } * list;
    size_t count, capacity;
};

/* 0, or not: no memory. */
static int collect(struct maps *maps, uint64_t start, uint64_t len, const struct change *change)
{
    const uint64_t last = len - 1 > UINT64_MAX - start ? UINT64_MAX : start + (len - 1);
    struct mapped *const grown =
        list_grow(maps->list, maps->count, &maps->capacity, sizeof(*grown));

    if (!grown)
        return 1;
    maps->list = grown;
    maps->list[maps->count] =
        (struct mapped){.start = start, .last = last, .change = *change, .order = maps->count};
    maps->count++;
    return 0;
}

static int collect_map(void *owner, const struct ptd_perf_map *map)
{
    const struct change change = {.time = map->time, .map = map};

    return map->executable && map->len > 0 ? collect(owner, map->start, map->len, &change) : 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_address(const void *left, const void *right)
{
    const struct mapped *const a = left, *const b = right;

    return compare(a->start, b->start);
}

static int by_group(const void *left, const void *right)
{
    const struct mapped *const a = left, *const b = right;
    const int order = compare(a->group, b->group);

    return order ? order : compare(a->order, b->order);
}

static void find_groups(struct maps *maps)
{
    uint64_t last = 0; /* address of the group so far */
    size_t group = 0;

    qsort(maps->list, maps->count, sizeof(*maps->list), by_address);
    for (size_t i = 0; i < maps->count; i++) {
        struct mapped *const mapped = &maps->list[i];

        if (i && mapped->start > last)
            group++;
        if (i == 0 || mapped->last > last)
            last = mapped->last;
        mapped->group = group;
    }
    qsort(maps->list, maps->count, sizeof(*maps->list), by_group);
}

static bool is_same_map(const struct ptd_perf_map *a, const struct ptd_perf_map *b)
{
    return a->start - a->pgoff == b->start - b->pgoff && strcmp(a->file, b->file) == 0 &&
           a->build_id_bytes == b->build_id_bytes &&
           memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0;
}

static bool is_same_code(const struct change *a, const struct change *b)
{
    if (a->map)
        return is_same_map(a->map, b->map);
    return a->jit->start == b->jit->start && a->jit->len == b->jit->len &&
           strcmp(a->jit->name, b->jit->name) == 0 &&
           memcmp(a->jit->bytes, b->jit->bytes, a->jit->len) == 0;
}

/* The code of a group, unless they are all of the same code. */
static bool add_group(struct code_changes *changes, const struct mapped *group, size_t count,
                      uint64_t cr3)
{
    bool differ = false;

    for (size_t i = 1; i < count; i++)
        differ |= !is_same_code(&group[0].change, &group[i].change);
    for (size_t i = 0; differ && i < count; i++) {
        struct change change = group[i].change;

        change.cr3 = cr3;
        change.is_first = i == 0;
        changes->jit_pages += change.jit ? change.jit->len / 4096 : 0;
        if (!add(changes, change))
            return false;
    }
    return true;
}

/* What takes the place of something else. */
static bool add_groups(struct code_changes *changes, struct maps *maps, uint64_t cr3)
{
    bool ok = true;
    size_t count;

    if (maps->count)
        find_groups(maps);
    for (size_t i = 0; ok && i < maps->count; i += count) {
        for (count = 1; i + count < maps->count; count++) {
            if (maps->list[i + count].group != maps->list[i].group)
                break;
        }
        ok = add_group(changes, maps->list + i, count, cr3);
    }
    return ok;
}

static bool add_maps(struct code_changes *changes, uint32_t pid, uint64_t cr3)
{
    struct maps maps = {0};
    const bool ok = ptd_perf_each_map(changes->session, pid, collect_map, &maps) == 0 &&
                    add_groups(changes, &maps, cr3);

    free(maps.list);
    return ok;
}

/* Times of another clock than perf's and the TSC's say nothing. */
static uint64_t time_of(const struct ptd_perf_session *session, const struct jitdump *dump,
                        const struct jit_code *code)
{
    return dump->has_tsc && session->pt.has_time ? ptd_perf_time_of_tsc(&session->pt, code->time)
                                                 : 0;
}

static bool add_jitdump(struct code_changes *changes, uint32_t pid, uint64_t cr3)
{
    const struct jitdump *dump;
    struct maps codes = {0};
    struct reason why;
    bool ok = perf_data_jitdump(changes->session, pid, changes->options, &dump, &why) == 0;

    for (size_t i = 0; ok && dump && i < dump->count; i++) {
        const struct jit_code *const code = &dump->codes[i];
        const struct change change = {.time = time_of(changes->session, dump, code), .jit = code};

        ok = collect(&codes, code->start, code->len, &change) == 0;
    }
    ok = ok && add_groups(changes, &codes, cr3);
    free(codes.list);
    return ok;
}

bool code_changes_add(struct code_changes *changes, uint32_t pid, uint64_t cr3)
{
    if (pid != KERNEL_PID)
        return add_maps(changes, pid, cr3) && add_jitdump(changes, pid, cr3);
    changes->pokes_wait = changes->session->poke_count > 0;
    changes->poke_cr3 = cr3;
    return true;
}

/* Each process has those of the kernel: they are listed where a trace follows them. */
static bool add_pokes(struct code_changes *changes)
{
    for (size_t i = 0; changes->pokes_wait && i < changes->session->poke_count; i++) {
        const struct ptd_perf_poke *const poke = &changes->session->pokes[i];

        if (!add(changes,
                 (struct change){.time = poke->time, .cr3 = changes->poke_cr3, .poke = poke}))
            return false;
    }
    changes->pokes_wait = false;
    return true;
}

static size_t count_all(const struct code_changes *changes)
{
    return changes->count + (changes->pokes_wait ? changes->session->poke_count : 0);
}

static int by_time(const void *left, const void *right)
{
    const struct change *const a = left, *const b = right;
    const int order = compare(a->time, b->time);

    /* Those of one time: as they stand in their lists. */
    if (order)
        return order;
    if (a->map && b->map)
        return compare((uintptr_t)a->map, (uintptr_t)b->map);
    return a->jit && b->jit ? compare((uintptr_t)a->jit, (uintptr_t)b->jit)
                            : compare((uintptr_t)a->poke, (uintptr_t)b->poke);
}

/* ---- A trace ---- */

static int no_memory(struct code_timeline *timeline)
{
    return reason_set(&timeline->why, -ENOMEM, "no memory for code that changes");
}

/* Code in place of other code is a patch of a function; else it is a function of its own. */
static int poke(struct code_timeline *timeline, const struct change *change, bool before)
{
    const struct ptd_perf_poke *const poke = change->poke;
    const uint8_t *const bytes = before ? poke->before : poke->after;
    const size_t len = before ? poke->old_bytes : poke->new_bytes;
    int error = PTD_OK;

    if (len && poke->old_bytes)
        error = ptd_image_patch(timeline->image, poke->address, bytes, len, change->cr3);
    else if (len)
        error = ptd_image_add_bytes(timeline->image,
                                    ptd_perf_symbol_of(timeline->changes->session, poke->address),
                                    poke->address, bytes, len, change->cr3);
    if (error == PTD_E_NOMEM)
        return no_memory(timeline);
    return 0; /* an address that no code can have is of no consequence */
}

static int apply(struct code_timeline *timeline, const struct change *change)
{
    const struct jit_code *const jit = change->jit;

    if (change->poke)
        return poke(timeline, change, false);
    timeline->renames++;
    if (jit)
        return ptd_image_add_bytes(timeline->image, jit->name, jit->start, jit->bytes, jit->len,
                                   change->cr3) == PTD_E_NOMEM
                   ? no_memory(timeline)
                   : 0;
    return perf_data_load_map(change->map, timeline->changes->options, timeline->image, change->cr3,
                              &timeline->why);
}

/* The oldest code: of patches what was there before; of maps the first. */
static int begin(struct code_timeline *timeline)
{
    const struct code_changes *const changes = timeline->changes;
    int error = 0;

    for (size_t i = changes->count; !error && i-- > 0;) {
        const struct change *const change = &changes->list[i];

        if (change->poke)
            error = poke(timeline, change, change->poke->old_bytes != 0);
        else if (change->is_first)
            error = apply(timeline, change);
    }
    return error;
}

/*
 * Each trace follows all changes. Those of a file with many of both would never end, so what a
 * trace may follow grows with its length; packets of a page are worth thousands.
 */
static bool may_follow(struct code_changes *changes, const struct bytes *trace)
{
    if (count_all(changes) + changes->jit_pages <= CHANGES_FREE + CHANGES_PER_BYTE * trace->len)
        return true;
    if (!changes->warned_of_many)
        remark(changes->options->remark,
               "code changed %zu times, which is not followed in a trace of %zu bytes: it is taken "
               "as it was last",
               count_all(changes), trace->len);
    changes->warned_of_many = true;
    return false;
}

static void sort(struct code_changes *changes)
{
    if (!changes->sorted)
        qsort(changes->list, changes->count, sizeof(*changes->list), by_time);
    changes->sorted = true;
}

/* Without times, what changed has changed before the trace begins. */
static void warn_timeless(struct code_changes *changes)
{
    bool timeless = !changes->session->pt.has_time;

    for (size_t i = 0; i < changes->count; i++)
        timeless |= changes->list[i].time == 0 && !changes->list[i].is_first;
    if (timeless && !changes->warned)
        remark(changes->options->remark,
               "code changed, and the file does not say when (perf record "
               "--timestamp): it is taken as it was last");
    changes->warned |= timeless;
}

static int prepare(struct code_timeline *timeline, const struct bytes *trace)
{
    struct code_changes *const changes = timeline->changes;

    timeline->places = calloc(changes->count, sizeof(*timeline->places));
    if (!timeline->image || !timeline->places)
        return no_memory(timeline);
    for (size_t i = 0; i < changes->count; i++)
        timeline->places[i] = (struct ptd_perf_change){
            .time = changes->list[i].time, .of_kernel = changes->list[i].poke, .which = i};
    if (ptd_perf_place(changes->session, trace->data, trace->len, timeline->places,
                       changes->count) != PTD_OK)
        return no_memory(timeline);
    return begin(timeline);
}

int code_timeline_new(struct code_changes *changes, const struct bytes *trace,
                      const struct ptd_image *base, struct code_timeline **timeline,
                      struct reason *why)
{
    struct code_timeline *made;
    int error;

    *timeline = NULL;
    if (count_all(changes) == 0 || !may_follow(changes, trace))
        return 0;
    made = calloc(1, sizeof(*made));
    if (!made || !add_pokes(changes)) {
        free(made);
        return reason_set(why, -ENOMEM, "no memory for code that changes");
    }
    sort(changes);
    warn_timeless(changes);
    made->changes = changes;
    made->image = ptd_image_new_on(base);
    error = prepare(made, trace);
    if (!error) {
        *timeline = made;
        return 0;
    }
    *why = made->why;
    code_timeline_free(made);
    return error;
}

void code_timeline_free(struct code_timeline *timeline)
{
    if (!timeline)
        return;
    ptd_image_free(timeline->image);
    free(timeline->places);
    free(timeline);
}

const struct ptd_image *code_timeline_image(const struct code_timeline *timeline)
{
    return timeline->image;
}

uint64_t code_timeline_place(const struct code_timeline *timeline)
{
    return timeline->next < timeline->changes->count ? timeline->places[timeline->next].offset
                                                     : UINT64_MAX;
}

bool code_timeline_change(struct code_timeline *timeline)
{
    const struct ptd_perf_change *const place = &timeline->places[timeline->next++];

    timeline->error = apply(timeline, &timeline->changes->list[place->which]);
    return timeline->error == 0;
}

const uint64_t *code_timeline_renames(const struct code_timeline *timeline)
{
    return &timeline->renames;
}

int code_timeline_result(const struct code_timeline *timeline, struct reason *why)
{
    if (timeline->error)
        *why = timeline->why;
    return timeline->error;
}
