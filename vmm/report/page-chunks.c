/* SPDX-License-Identifier: BSD-3-Clause */
/* Spans, compressed, in levels of detail. */
#include "report/page-chunks.h"
#include "common/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define LEVEL_BITS   2u   /* pieces of time of a level are so many powers of two longer */
#define LEVEL_ENOUGH 512u /* spans of a track that no level more is made for */
#define SHIFT_MAX    60u
/* All coarser levels take up to a third of the finest one. */
#define FINEST_BYTES_MAX (CHUNKS_BYTES_MAX / 4 * 3)

#define COLUMNS 5u

struct maker {
    struct chunks *chunks;
    const uint32_t *names;
    uint64_t first;
    uint32_t line;
    size_t *shown; /* of each track: how many spans its last level has */
    struct bytes plain, packed;
};

/* ---- One chunk ---- */

static bool put_number(struct bytes *to, uint64_t value)
{
    uint8_t text[10];
    size_t len = 0;

    for (; value > 0x7f; value >>= 7)
        text[len++] = (uint8_t)(value | 0x80);
    text[len++] = (uint8_t)value;
    return bytes_add(to, text, len);
}

static uint64_t since(uint64_t time, uint64_t first)
{
    return time > first ? time - first : 0;
}

static uint64_t number_in(const struct maker *maker, const struct span *list, size_t i,
                          unsigned column)
{
    const uint64_t start = since(list[i].start, maker->first);

    switch (column) {
    case 0:
        return i ? start - since(list[i - 1].start, maker->first) : 0;
    case 1:
        return since(list[i].end, maker->first) - start;
    case 2:
        return list[i].depth;
    case 3:
        return maker->names[list[i].name];
    default:
        return list[i].count - 1;
    }
}

static bool pack(struct maker *maker)
{
    uLongf len = compressBound(maker->plain.len);
    uint8_t *const room = malloc(len);
    bool ok = room && compress2(room, &len, maker->plain.data, maker->plain.len,
                                Z_DEFAULT_COMPRESSION) == Z_OK;

    maker->packed.len = 0;
    ok = ok && bytes_add(&maker->packed, room, len);
    free(room);
    return ok;
}

/* As RFC 4648 says, and a newline. */
static bool put_base64(struct bytes *to, const struct bytes *from)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bool ok = true;

    for (size_t at = 0; ok && at < from->len; at += 3) {
        const size_t left = from->len - at;
        const uint32_t bits = (uint32_t)from->data[at] << 16 |
                              (uint32_t)(left > 1 ? from->data[at + 1] : 0) << 8 |
                              (left > 2 ? from->data[at + 2] : 0);
        const char text[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                              left > 1 ? digits[bits >> 6 & 63] : '=',
                              left > 2 ? digits[bits & 63] : '='};

        ok = bytes_add(to, text, sizeof(text));
    }
    return ok && bytes_add(to, "\n", 1);
}

static bool add_to_list(struct chunks *chunks, const struct chunk *chunk)
{
    struct chunk *const grown =
        list_grow(chunks->list, chunks->count, &chunks->room, sizeof(*grown));

    if (!grown)
        return false;
    chunks->list = grown;
    grown[chunks->count++] = *chunk;
    return true;
}

static bool make_chunk(struct maker *maker, const struct span *list, size_t count, unsigned shift)
{
    struct chunk chunk = {.track = list[0].track,
                          .line = maker->line++,
                          .shift = shift,
                          .count = (uint32_t)count,
                          .start = since(list[0].start, maker->first)};
    bool ok = true;

    maker->plain.len = 0;
    for (unsigned column = 0; column < COLUMNS; column++) {
        for (size_t i = 0; ok && i < count; i++)
            ok = put_number(&maker->plain, number_in(maker, list, i, column));
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t end = since(list[i].end, maker->first);

        if (end > chunk.end)
            chunk.end = end;
    }
    return ok && pack(maker) && put_base64(&maker->chunks->text, &maker->packed) &&
           add_to_list(maker->chunks, &chunk);
}

/* ---- Levels ---- */

/* A level that has hardly less than the last one is of no use. */
static bool is_worth_it(const struct maker *maker, uint32_t track, size_t count)
{
    return maker->shown[track] == 0 || count < maker->shown[track] / 10 * 7;
}

/* One level of all tracks. *most: how many spans some track has. */
static bool make_level(struct maker *maker, const struct spans *spans, size_t *most)
{
    bool ok = true;
    size_t count;

    *most = 0;
    for (size_t i = 0; ok && i < spans->count; i += count) {
        const uint32_t track = spans->list[i].track;

        for (count = 1; i + count < spans->count && spans->list[i + count].track == track;)
            count++;
        if (count > *most)
            *most = count;
        if (!is_worth_it(maker, track, count))
            continue;
        maker->shown[track] = count;
        for (size_t done = 0; ok && done < count; done += CHUNK_SPANS)
            ok = make_chunk(maker, spans->list + i + done,
                            count - done < CHUNK_SPANS ? count - done : CHUNK_SPANS, spans->shift);
    }
    return ok;
}

/* As fine as there is room for. */
static bool make_finest(struct maker *maker, struct spans *spans, size_t track_count, size_t *most)
{
    struct chunks *const chunks = maker->chunks;

    for (;;) {
        chunks->count = chunks->text.len = maker->line = 0;
        memset(maker->shown, 0, track_count * sizeof(*maker->shown));
        if (!make_level(maker, spans, most))
            return false;
        if (chunks->text.len <= FINEST_BYTES_MAX || spans->shift >= SHIFT_MAX)
            return true;
        if (!spans_merge(spans, spans->shift + 1))
            return false;
    }
}

static bool make_levels(struct maker *maker, struct spans *spans, size_t track_count)
{
    size_t most;

    spans_sort(spans);
    if (!make_finest(maker, spans, track_count, &most))
        return false;
    while (most > LEVEL_ENOUGH && spans->shift < SHIFT_MAX) {
        if (!spans_merge(spans, spans->shift + LEVEL_BITS) || !make_level(maker, spans, &most))
            return false;
    }
    return true;
}

static int by_place(const void *left, const void *right)
{
    const struct chunk *const a = left, *const b = right;

    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

int chunks_make(struct chunks *chunks, struct spans *spans, uint64_t first, const uint32_t *names,
                size_t track_count)
{
    struct maker maker = {.chunks = chunks,
                          .names = names,
                          .first = first,
                          .shown = calloc(track_count, sizeof(*maker.shown))};
    const bool ok = maker.shown && make_levels(&maker, spans, track_count);

    if (ok && chunks->count > 0)
        qsort(chunks->list, chunks->count, sizeof(*chunks->list), by_place);
    bytes_free(&maker.plain);
    bytes_free(&maker.packed);
    free(maker.shown);
    return ok ? 0 : -ENOMEM;
}

void chunks_free(struct chunks *chunks)
{
    bytes_free(&chunks->text);
    free(chunks->list);
}
