/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a jitdump. Whoever wrote it is not trusted: each length is checked against the bytes that
 * are there. Code that was moved is listed at its new place, too, so that a short file could stand
 * for any amount of it; all that was moved may be as much as the file is long.
 */
#include "trace/jitdump.h"
#include "common/list.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC         0x4a695444u /* "JiTD", as a little-endian machine writes it */
#define VERSION       1u
#define HEAD_BYTES    40u
#define RECORD_BYTES  16u /* that all records begin with */
#define LOAD_BYTES    56u /* of a load, in front of the name */
#define MOVE_BYTES    64u
#define FLAG_OF_TSC   1u
#define ADDRESSES_END (UINT64_C(1) << 63) /* of user code */

enum record { CODE_LOAD, CODE_MOVE };

/* What a move tells a piece of code by. */
struct by_index {
    uint64_t index;
    size_t code; /* the last one of it, in codes */
};

struct reader {
    const char *name;
    struct jitdump *dump;
    size_t room;
    uint64_t moved_bytes;
    void *indices; /* a tree */
    struct reason *why;
};

static uint32_t u32_at(const uint8_t *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof(value));
    return value;
}

static uint64_t u64_at(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return value;
}

static int wrong(const struct reader *reader, size_t at, const char *what)
{
    return reason_set(reader->why, -EBADMSG, "%.300s: at %#zx: %s", reader->name, at, what);
}

/* ---- Pieces of code ---- */

static int by_index(const void *left, const void *right)
{
    const struct by_index *const a = left, *const b = right;

    return a->index < b->index ? -1 : a->index > b->index;
}

/* The last code of an index is this one. False: no memory. */
static bool note_index(struct reader *reader, uint64_t index, size_t code)
{
    struct by_index *const made = malloc(sizeof(*made));
    void *found;

    if (!made)
        return false;
    *made = (struct by_index){index, code};
    found = tsearch(made, &reader->indices, by_index);
    if (!found || *(struct by_index **)found != made)
        free(made);
    if (found)
        (*(struct by_index **)found)->code = code;
    return found;
}

static const struct jit_code *find_index(const struct reader *reader, uint64_t index)
{
    const struct by_index key = {.index = index};
    void *const found = tfind(&key, &reader->indices, by_index);

    return found ? &reader->dump->codes[(*(struct by_index **)found)->code] : NULL;
}

static bool is_of_user(const struct jit_code *code)
{
    return code->len > 0 && code->start < ADDRESSES_END && code->len <= ADDRESSES_END - code->start;
}

/* 0 or -ENOMEM. */
static int add_code(struct reader *reader, const struct jit_code *code, uint64_t index)
{
    struct jitdump *const dump = reader->dump;
    struct jit_code *grown;

    if (dump->count == JITDUMP_CODES_MAX) {
        dump->is_cut = true;
        return 0;
    }
    grown = list_grow(dump->codes, dump->count, &reader->room, sizeof(*grown));
    if (!grown)
        return reason_no_memory(reader->why);
    dump->codes = grown;
    dump->codes[dump->count++] = *code;
    return note_index(reader, index, dump->count - 1) ? 0 : reason_no_memory(reader->why);
}

/* ---- Records ---- */

static int take_load(struct reader *reader, size_t at, const uint8_t *record, size_t len)
{
    struct jit_code code = {.time = u64_at(record + 8)};
    const uint8_t *end;

    if (len < LOAD_BYTES)
        return wrong(reader, at, "a record of code is too short");
    code.start = u64_at(record + 32);
    code.len = u64_at(record + 40);
    end = memchr(record + LOAD_BYTES, 0, len - LOAD_BYTES);
    if (!end || code.len > (size_t)(record + len - (end + 1)))
        return wrong(reader, at, "a name or its code does not end in its record");
    code.name = record[LOAD_BYTES] ? (const char *)record + LOAD_BYTES : "?";
    code.bytes = end + 1;
    if (!is_of_user(&code))
        return wrong(reader, at, "code at an address that no program has");
    return add_code(reader, &code, u64_at(record + 48));
}

/* Of code that is not known, nothing can be told. */
static int take_move(struct reader *reader, size_t at, const uint8_t *record, size_t len)
{
    const struct jit_code *found;
    struct jit_code code;

    if (len < MOVE_BYTES)
        return wrong(reader, at, "a record of a move is too short");
    found = find_index(reader, u64_at(record + 56));
    if (!found)
        return 0;
    code = *found;
    code.time = u64_at(record + 8);
    code.start = u64_at(record + 40);
    if (!is_of_user(&code))
        return wrong(reader, at, "code at an address that no program has");
    if (code.len > reader->dump->file.len - reader->moved_bytes) {
        reader->dump->is_cut = true;
        return 0;
    }
    reader->moved_bytes += code.len;
    return add_code(reader, &code, u64_at(record + 56));
}

static int take_records(struct reader *reader, size_t at)
{
    const struct bytes *const file = &reader->dump->file;
    int error = 0;

    while (!error && file->len - at >= RECORD_BYTES) {
        const uint8_t *const record = file->data + at;
        const uint32_t id = u32_at(record), len = u32_at(record + 4);

        if (len < RECORD_BYTES)
            return wrong(reader, at, "a record is too short");
        if (len > file->len - at)
            break; /* it was not written to its end */
        if (id == CODE_LOAD)
            error = take_load(reader, at, record, len);
        else if (id == CODE_MOVE)
            error = take_move(reader, at, record, len);
        at += len;
    }
    return error;
}

/* ---- The file ---- */

/* Where records begin. 0 or -EBADMSG. */
static int take_head(struct reader *reader, size_t *at)
{
    struct jitdump *const dump = reader->dump;
    const uint8_t *const head = dump->file.data;

    if (dump->file.len < HEAD_BYTES || u32_at(head) != MAGIC)
        return wrong(reader, 0, "no jitdump");
    if (u32_at(head + 4) != VERSION)
        return wrong(reader, 4, "a jitdump of a version that is not known");
    *at = u32_at(head + 8);
    if (*at < HEAD_BYTES || *at > dump->file.len)
        return wrong(reader, 8, "the head of the jitdump has another length");
    if (u32_at(head + 12) != EM_X86_64)
        return wrong(reader, 12, "a jitdump of another processor");
    dump->pid = u32_at(head + 20);
    dump->has_tsc = u64_at(head + 32) & FLAG_OF_TSC;
    return 0;
}

/* Of one time, as they stand in the file: codes of a later record follow. */
static int by_time(const void *left, const void *right)
{
    const struct jit_code *const a = left, *const b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

int jitdump_parse(const char *name, struct bytes *file, struct jitdump **dump, struct reason *why)
{
    struct reader reader = {.name = name, .dump = calloc(1, sizeof(**dump)), .why = why};
    size_t at = 0;
    int error;

    *dump = NULL;
    if (!reader.dump) {
        bytes_free(file);
        return reason_no_memory(why);
    }
    reader.dump->file = *file;
    *file = (struct bytes){0};
    error = take_head(&reader, &at);
    if (!error)
        error = take_records(&reader, at);
    tdestroy(reader.indices, free);
    if (error) {
        jitdump_free(reader.dump);
        return error;
    }
    if (reader.dump->count > 0)
        qsort(reader.dump->codes, reader.dump->count, sizeof(*reader.dump->codes), by_time);
    *dump = reader.dump;
    return 0;
}

void jitdump_free(struct jitdump *dump)
{
    if (!dump)
        return;
    bytes_free(&dump->file);
    free(dump->codes);
    free(dump);
}
