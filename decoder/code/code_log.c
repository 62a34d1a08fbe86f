/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A code log tells three things, each from an offset in the trace on: which physical page a linear
 * page leads to in an address space, which bytes stand at a physical address, and the base of CS
 * where 16-bit code ends at a linear address.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "code/code_log.h"

#define MAGIC          "vptcode1"
#define MAGIC_BYTES    8u
#define RECORD_BYTES   32u
#define PAGE_BYTES     4096u
#define CHUNK_BYTES    256u
#define SPACE_PHYSICAL UINT64_MAX
#define SPACE_SEGMENT  (UINT64_MAX - 1)
#define CR3_ADDRESS    0x000ffffffffff000u
#define FIRST_ROOM     1024u
#define WORD_BITS      64u

struct record {
    uint64_t offset, space, address, value;
    const uint8_t *bytes; /* NULL: a place */
    size_t len_bytes;     /* of all of it */
};

/* Where a linear page is; with SPACE_PHYSICAL, the number of a chunk; or a base of CS. */
struct slot {
    uint64_t space, address;
    uint64_t value;
    bool used;
};

/* So small that a log of single bytes here and there takes no more than some times its size. */
struct chunk {
    uint8_t bytes[CHUNK_BYTES];
    uint64_t known[CHUNK_BYTES / WORD_BITS];
};

struct code_log {
    uint8_t *bytes;
    size_t len_bytes, pos;
    uint64_t next; /* offset of the record at pos */
    uint64_t changes;
    struct hash_key key;
    struct slot *slots;
    size_t slot_count, slot_room; /* a power of two */
    void **chunks;                /* struct chunk */
    size_t chunk_count, chunk_room;
};

/* ---- Records ---- */

/* False: malformed. */
static bool read_record(const struct code_log *log, size_t pos, struct record *record)
{
    const uint8_t *const at = log->bytes + pos;
    const size_t left = log->len_bytes - pos;

    if (left < RECORD_BYTES)
        return false;
    *record = (struct record){
        .offset = little_endian(at, 8),
        .space = little_endian(at + 8, 8),
        .address = little_endian(at + 16, 8),
        .value = little_endian(at + 24, 8),
        .len_bytes = RECORD_BYTES,
    };
    if (record->space == SPACE_SEGMENT)
        return true;
    if (record->space != SPACE_PHYSICAL)
        return (record->space & ~CR3_ADDRESS) == 0 && record->address % PAGE_BYTES == 0 &&
               record->value % PAGE_BYTES == 0;
    if (record->value == 0 || record->value > PAGE_BYTES - record->address % PAGE_BYTES)
        return false;
    record->bytes = at + RECORD_BYTES;
    record->len_bytes += (record->value + 7) / 8 * 8;
    return record->len_bytes <= left;
}

static bool is_valid(const struct code_log *log)
{
    struct record record;
    uint64_t offset = 0;
    size_t pos = MAGIC_BYTES;

    if (log->len_bytes < MAGIC_BYTES || memcmp(log->bytes, MAGIC, MAGIC_BYTES) != 0)
        return false;
    for (; pos < log->len_bytes; pos += record.len_bytes) {
        if (!read_record(log, pos, &record) || record.offset < offset ||
            record.offset == UINT64_MAX)
            return false;
        offset = record.offset;
    }
    return true;
}

static void move_to(struct code_log *log, size_t pos)
{
    log->pos = pos;
    log->next = pos < log->len_bytes ? little_endian(log->bytes + pos, 8) : UINT64_MAX;
}

int ptd_code_log_new(const void *bytes, size_t len_bytes, struct code_log **log)
{
    struct code_log *const made = calloc(1, sizeof(*made));

    if (made)
        made->bytes = malloc(len_bytes + 1); /* never 0 */
    if (!made || !made->bytes) {
        free(made);
        return PTD_E_NOMEM;
    }
    memcpy(made->bytes, bytes, len_bytes);
    made->len_bytes = len_bytes;
    made->key = ptd_hash_key_new();
    if (!is_valid(made)) {
        ptd_code_log_free(made);
        return PTD_E_FORMAT;
    }
    move_to(made, MAGIC_BYTES);
    *log = made;
    return PTD_OK;
}

static void forget(struct code_log *log)
{
    log->changes++;
    for (size_t i = 0; i < log->chunk_count; i++)
        free(log->chunks[i]);
    log->chunk_count = log->slot_count = 0;
    if (log->slots)
        memset(log->slots, 0, log->slot_room * sizeof(*log->slots));
}

void ptd_code_log_rewind(struct code_log *log)
{
    forget(log);
    move_to(log, MAGIC_BYTES);
}

void ptd_code_log_free(struct code_log *log)
{
    if (!log)
        return;
    forget(log);
    free(log->chunks);
    free(log->slots);
    free(log->bytes);
    free(log);
}

/* ---- The table ---- */

/* Its slot, or the free one where it belongs. There is one. */
static struct slot *find_slot(const struct code_log *log, uint64_t space, uint64_t address)
{
    for (size_t i = (size_t)hash_pair(&log->key, address, space);; i++) {
        struct slot *const slot = &log->slots[i & (log->slot_room - 1)];

        if (!slot->used || (slot->space == space && slot->address == address))
            return slot;
    }
}

/* Keeps the table less than half full. */
static bool make_room(struct code_log *log)
{
    if (log->slot_count < log->slot_room / 2)
        return true;

    const struct code_log old = *log;

    log->slot_room = old.slot_room ? old.slot_room * 2 : FIRST_ROOM;
    log->slots = calloc(log->slot_room, sizeof(*log->slots));
    if (!log->slots) {
        log->slots = old.slots;
        log->slot_room = old.slot_room;
        return false;
    }
    for (size_t i = 0; i < old.slot_room; i++) {
        if (old.slots[i].used)
            *find_slot(log, old.slots[i].space, old.slots[i].address) = old.slots[i];
    }
    free(old.slots);
    return true;
}

/* Its slot, made if it is not there. NULL: no memory. */
static struct slot *get_slot(struct code_log *log, uint64_t space, uint64_t address, bool *is_new)
{
    struct slot *slot;

    if (!make_room(log))
        return NULL;
    slot = find_slot(log, space, address);
    *is_new = !slot->used;
    if (*is_new) {
        *slot = (struct slot){.space = space, .address = address, .used = true};
        log->slot_count++;
    }
    return slot;
}

static struct chunk *get_chunk(struct code_log *log, uint64_t address)
{
    bool is_new;
    struct slot *slot;

    if (!array_grow((void **)&log->chunks, &log->chunk_room, log->chunk_count,
                    sizeof(*log->chunks)))
        return NULL;
    slot = get_slot(log, SPACE_PHYSICAL, address - address % CHUNK_BYTES, &is_new);
    if (!slot)
        return NULL;
    if (!is_new)
        return log->chunks[slot->value];

    struct chunk *const chunk = calloc(1, sizeof(*chunk));

    if (!chunk) {
        slot->used = false;
        log->slot_count--;
        return NULL;
    }
    slot->value = log->chunk_count;
    log->chunks[log->chunk_count++] = chunk;
    return chunk;
}

static bool is_known(const struct chunk *chunk, size_t at)
{
    return chunk->known[at / WORD_BITS] >> at % WORD_BITS & 1;
}

/* Behind the bytes that are known from begin on. */
static size_t known_end(const struct chunk *chunk, size_t begin)
{
    size_t word = begin / WORD_BITS;
    uint64_t missing = ~chunk->known[word] & UINT64_MAX << begin % WORD_BITS;

    while (!missing && ++word < CHUNK_BYTES / WORD_BITS)
        missing = ~chunk->known[word];
    return missing ? word * WORD_BITS + (size_t)__builtin_ctzll(missing) : CHUNK_BYTES;
}

/* ---- Replay ---- */

static int take_place(struct code_log *log, const struct record *record, bool *changed)
{
    bool is_new;
    struct slot *const slot = get_slot(log, record->space, record->address, &is_new);

    if (!slot)
        return PTD_E_NOMEM;
    *changed |= slot->value != record->value && (!is_new || record->space == SPACE_SEGMENT);
    slot->value = record->value;
    return PTD_OK;
}

static int take_bytes(struct code_log *log, const struct record *record, bool *changed)
{
    struct chunk *chunk = NULL;

    for (uint64_t i = 0; i < record->value; i++) {
        const size_t at = (record->address + i) % CHUNK_BYTES;

        if (at == 0 || !chunk)
            chunk = get_chunk(log, record->address + i);
        if (!chunk)
            return PTD_E_NOMEM;
        *changed |= is_known(chunk, at) && chunk->bytes[at] != record->bytes[i];
        chunk->bytes[at] = record->bytes[i];
        chunk->known[at / WORD_BITS] |= UINT64_C(1) << at % WORD_BITS;
    }
    return PTD_OK;
}

uint64_t ptd_code_log_next(const struct code_log *log)
{
    return log->next;
}

int ptd_code_log_advance(struct code_log *log, uint64_t offset, bool *changed)
{
    *changed = false;
    while (log->next <= offset && log->next != UINT64_MAX) {
        struct record record = {0};
        int status;

        (void)read_record(log, log->pos, &record); /* all were looked at before */
        status =
            record.bytes ? take_bytes(log, &record, changed) : take_place(log, &record, changed);
        if (status != PTD_OK)
            return status;
        move_to(log, log->pos + record.len_bytes);
    }
    log->changes += *changed;
    return PTD_OK;
}

uint64_t ptd_code_log_changes(const struct code_log *log)
{
    return log->changes;
}

uint64_t ptd_code_log_base(const struct code_log *log, uint64_t end)
{
    const struct slot *const slot = log->slots ? find_slot(log, SPACE_SEGMENT, end) : NULL;

    return slot && slot->used ? slot->value : 0;
}

int ptd_code_log_find(const struct code_log *log, uint64_t cr3, uint64_t vaddr,
                      const uint8_t **bytes, size_t *len_bytes)
{
    const size_t begin = vaddr % CHUNK_BYTES;
    const uint64_t in_page = vaddr % PAGE_BYTES;

    if (!log->slots)
        return PTD_E_NOMAP;

    const struct slot *slot = find_slot(log, cr3 & CR3_ADDRESS, vaddr - in_page);

    if (slot->used)
        slot = find_slot(log, SPACE_PHYSICAL, slot->value + (in_page - begin));
    if (!slot->used)
        return PTD_E_NOMAP;

    const struct chunk *const chunk = log->chunks[slot->value];
    const size_t end = known_end(chunk, begin);

    *bytes = chunk->bytes + begin;
    *len_bytes = end - begin;
    return end > begin ? PTD_OK : PTD_E_NOMAP;
}
