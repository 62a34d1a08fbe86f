/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pages that ran, with the bytes of each that were told. When there are too many, all of them
 * are forgotten and told again as they run, so that memory has a bound.
 */
#include "demux/code-out.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MAGIC          "vptcode1"
#define MAGIC_BYTES    8u
#define RECORD_BYTES   32u
#define PAGE_BYTES     4096u
#define WORD_BITS      64u
#define SPACE_PHYSICAL UINT64_MAX
#define SPACE_SEGMENT  (UINT64_MAX - 1)
#define CR3_ADDRESS    0x000ffffffffff000u
#define PAGES_MAX      4096u /* 19 MiB */
#define SLOTS          (2 * PAGES_MAX)
#define BASES          1024u

struct page {
    uint64_t space, address;
    uint64_t number; /* of the physical page */
    uint64_t known[PAGE_BYTES / WORD_BITS];
    uint8_t bytes[PAGE_BYTES];
};

struct code_out {
    struct output *output;
    struct page *slots[SLOTS];
    size_t page_count;
    uint64_t secret[2]; /* so that nobody can choose pages that fall on one place */
    bool has_forgotten; /* what is not here may have been told otherwise */
    uint64_t next_number;
    struct {
        uint64_t end, base;
    } bases[BASES]; /* told last, each at a place that its address says */
};

struct code_out *code_out_new(struct output *output)
{
    struct code_out *const code = calloc(1, sizeof(*code));

    if (code) {
        code->secret[0] = 0x9e3779b97f4a7c15u; /* at boot, there is nothing random */
        code->secret[1] = 0xc2b2ae3d27d4eb4fu;
        (void)!getrandom(code->secret, sizeof(code->secret), GRND_NONBLOCK);
        code->output = output;
        code->next_number = 1;
    }
    return code;
}

static void forget(struct code_out *code)
{
    for (size_t i = 0; i < SLOTS; i++) {
        free(code->slots[i]);
        code->slots[i] = NULL;
    }
    code->page_count = 0;
    code->has_forgotten = true;
}

void code_out_free(struct code_out *code)
{
    if (!code)
        return;
    forget(code);
    free(code);
}

int code_out_begin(struct code_out *code, struct reason *why)
{
    return output_write(code->output, MAGIC, MAGIC_BYTES, why);
}

/* ---- Pages ---- */

static size_t slot_of(const struct code_out *code, uint64_t space, uint64_t address)
{
    __extension__ typedef unsigned __int128 product;

    const product both =
        (product)(space ^ code->secret[0]) * (address / PAGE_BYTES ^ code->secret[1]);
    size_t at = (size_t)((uint64_t)(both >> 64) ^ (uint64_t)both >> 7) % SLOTS;

    while (code->slots[at] &&
           (code->slots[at]->space != space || code->slots[at]->address != address))
        at = (at + 1) % SLOTS;
    return at;
}

/* Bytes of a page from one on that share a word of .known: how many, and their bits in it. */
static size_t bits_of(size_t at, size_t len, uint64_t *bits)
{
    const size_t left = WORD_BITS - at % WORD_BITS, count = len < left ? len : left;

    *bits = (count == WORD_BITS ? 0 : UINT64_C(1) << count) - 1;
    *bits <<= at % WORD_BITS;
    return count;
}

/* Whether those of some bytes that are known are the same: all of them, most of the time. */
static bool is_same(const struct page *page, size_t at, const uint8_t *bytes, size_t count,
                    uint64_t known)
{
    if (memcmp(page->bytes + at, bytes, count) == 0)
        return true;
    for (size_t i = 0; i < count; i++)
        if (known >> (at + i) % WORD_BITS & 1 && page->bytes[at + i] != bytes[i])
            return false;
    return true;
}

enum code_news code_out_look(const struct code_out *code, uint64_t space, uint64_t address,
                             const uint8_t *bytes, size_t len)
{
    const size_t begin = address % PAGE_BYTES;
    const struct page *const page =
        code->slots[slot_of(code, space & CR3_ADDRESS, address - begin)];
    enum code_news news = CODE_SAME;

    if (!page)
        return code->has_forgotten ? CODE_CHANGED : CODE_NEW;
    for (size_t done = 0, count; done < len; done += count) {
        const size_t at = begin + done;
        uint64_t bits, known;

        count = bits_of(at, len - done, &bits);
        known = page->known[at / WORD_BITS] & bits;
        if (known != bits && code->has_forgotten)
            return CODE_CHANGED;
        if (known != bits)
            news = CODE_NEW;
        if (!is_same(page, at, bytes + done, count, known))
            return CODE_CHANGED;
    }
    return news;
}

/* ---- Records ---- */

struct record {
    uint64_t words[4];
};
_Static_assert(sizeof(struct record) == RECORD_BYTES, "nothing between words");

static struct record record_of(uint64_t offset, uint64_t space, uint64_t address, uint64_t value)
{
    return (struct record){{htole64(offset), htole64(space), htole64(address), htole64(value)}};
}

static int put_record(struct code_out *code, uint64_t offset, uint64_t space, uint64_t address,
                      uint64_t value, struct reason *why)
{
    const struct record record = record_of(offset, space, address, value);

    return output_write(code->output, &record, sizeof(record), why);
}

/* The page that an address is in, told if it is a new one. NULL: *error says why. */
static struct page *get_page(struct code_out *code, uint64_t offset, uint64_t space,
                             uint64_t address, int *error, struct reason *why)
{
    size_t at = slot_of(code, space, address);
    struct page *page = code->slots[at];

    if (page)
        return page;
    if (code->page_count == PAGES_MAX) {
        forget(code);
        at = slot_of(code, space, address);
    }
    page = calloc(1, sizeof(*page));
    if (!page) {
        *error = reason_no_memory(why);
        return NULL;
    }
    page->space = space;
    page->address = address;
    page->number = code->next_number++ * PAGE_BYTES;
    *error = put_record(code, offset, space, address, page->number, why);
    if (*error) {
        free(page);
        return NULL;
    }
    code->page_count++;
    code->slots[at] = page;
    return page;
}

int code_out_add(struct code_out *code, uint64_t offset, uint64_t space, uint64_t address,
                 const uint8_t *bytes, size_t len, struct reason *why)
{
    struct {
        struct record record;
        uint8_t bytes[PAGE_BYTES];
    } told;
    const size_t begin = address % PAGE_BYTES;
    const size_t padded = (len + 7) / 8 * 8; /* records are whole words */
    int error = 0;
    struct page *const page =
        get_page(code, offset, space & CR3_ADDRESS, address - begin, &error, why);

    if (!page)
        return error;
    for (size_t done = 0, count; done < len; done += count) {
        uint64_t bits;

        count = bits_of(begin + done, len - done, &bits);
        page->known[(begin + done) / WORD_BITS] |= bits;
    }
    memcpy(page->bytes + begin, bytes, len);
    told.record = record_of(offset, SPACE_PHYSICAL, page->number + begin, len);
    memcpy(told.bytes, bytes, len);
    memset(told.bytes + len, 0, padded - len);
    return output_write(code->output, &told, sizeof(told.record) + padded, why);
}

int code_out_base(struct code_out *code, uint64_t offset, uint64_t end, uint64_t base,
                  struct reason *why)
{
    const size_t at = (size_t)(end % BASES);

    if (code->bases[at].end == end && code->bases[at].base == base)
        return 0;
    code->bases[at].end = end;
    code->bases[at].base = base;
    return put_record(code, offset, SPACE_SEGMENT, end, base, why);
}
