/* SPDX-License-Identifier: BSD-3-Clause */
/* Code logs as pages, see flat-code.h. */
#include "trace/flat-code.h"
#include "common/list.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC          "vptcode1"
#define MAGIC_BYTES    8u
#define RECORD_BYTES   32u
#define SPACE_PHYSICAL UINT64_MAX
#define SPACE_SEGMENT  (UINT64_MAX - 1)
#define PAGES_MAX      65536u /* 256 MiB of code */
#define GAP_PAGES      16u    /* a run goes on behind so many pages that nobody told */
#define UPPER_HALF     63

/* A physical page of one of the logs. */
struct frame {
    uint64_t address;
    uint32_t log;
};

/* A page of addresses that leads to a physical one. */
struct place {
    struct frame frame;
    uint64_t address;
    uint32_t owner;
    size_t order;
};

/* Bytes of a physical page. */
struct text {
    struct frame frame;
    unsigned from, len;
    const uint8_t *bytes;
    size_t order;
};

/* All that was told of a physical page. */
struct content {
    struct frame frame;
    bool is_unclear;
    uint8_t bytes[FLAT_PAGE_BYTES];
    bool known[FLAT_PAGE_BYTES];
};

struct list {
    void *elements;
    size_t count, room;
};

struct flat_code {
    uint32_t logs;
    struct list places, texts;
    struct content *contents;
    size_t content_count;
    struct list runs;
};

static void *add(struct list *list, size_t element_bytes)
{
    void *const grown = list_grow(list->elements, list->count, &list->room, element_bytes);

    if (!grown)
        return NULL;
    list->elements = grown;
    return (uint8_t *)grown + element_bytes * list->count++;
}

struct flat_code *flat_code_new(void)
{
    return calloc(1, sizeof(struct flat_code));
}

void flat_code_free(struct flat_code *code)
{
    if (!code)
        return;
    free(code->places.elements);
    free(code->texts.elements);
    free(code->runs.elements);
    free(code->contents);
    free(code);
}

/* ---- Logs ---- */

static uint64_t word(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static int add_place(struct flat_code *code, uint32_t owner, uint64_t address, uint64_t physical)
{
    struct place *place;

    if (address % FLAT_PAGE_BYTES || physical % FLAT_PAGE_BYTES)
        return -EBADMSG;
    place = add(&code->places, sizeof(*place));
    if (!place)
        return -ENOMEM;
    *place = (struct place){.frame = {physical, code->logs},
                            .address = address,
                            .owner = address >> UPPER_HALF ? FLAT_OWNER_UPPER : owner,
                            .order = code->places.count};
    return 0;
}

/* How long the bytes are, padding included; or -errno. */
static int64_t add_text(struct flat_code *code, uint64_t physical, uint64_t len, const uint8_t *at,
                        size_t left)
{
    const unsigned from = (unsigned)(physical % FLAT_PAGE_BYTES);
    const uint64_t padded = (len + 7) & ~UINT64_C(7);
    struct text *text;

    if (len == 0 || len > FLAT_PAGE_BYTES - from || padded > left)
        return -EBADMSG;
    text = add(&code->texts, sizeof(*text));
    if (!text)
        return -ENOMEM;
    *text = (struct text){.frame = {physical - from, code->logs},
                          .from = from,
                          .len = (unsigned)len,
                          .bytes = at,
                          .order = code->texts.count};
    return (int64_t)padded;
}

int flat_code_add(struct flat_code *code, const struct bytes *log, uint32_t owner)
{
    size_t at = MAGIC_BYTES;

    if (log->len < MAGIC_BYTES || memcmp(log->data, MAGIC, MAGIC_BYTES) != 0)
        return -EBADMSG;
    while (at < log->len) {
        const uint8_t *const record = log->data + at;
        int64_t more = 0;

        if (log->len - at < RECORD_BYTES)
            return -EBADMSG;
        at += RECORD_BYTES;
        if (word(record + 8) == SPACE_PHYSICAL)
            more =
                add_text(code, word(record + 16), word(record + 24), log->data + at, log->len - at);
        else if (word(record + 8) != SPACE_SEGMENT)
            more = add_place(code, owner, word(record + 16), word(record + 24));
        if (more < 0)
            return (int)more;
        at += (size_t)more;
    }
    code->logs++;
    return 0;
}

/* ---- Layout ---- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_frames(const struct frame *a, const struct frame *b)
{
    const int log = compare(a->log, b->log);

    return log ? log : compare(a->address, b->address);
}

static int by_frame(const void *left, const void *right)
{
    const struct text *const a = left, *const b = right;
    const int frame = compare_frames(&a->frame, &b->frame);

    return frame ? frame : compare(a->order, b->order);
}

static int by_where(const struct place *a, const struct place *b)
{
    const int owner = compare(a->owner, b->owner);

    return owner ? owner : compare(a->address, b->address);
}

static int by_target(const void *left, const void *right)
{
    const struct place *const a = left, *const b = right;
    const int where = by_where(a, b);
    const int target = where ? where : compare_frames(&a->frame, &b->frame);

    return target ? target : compare(a->order, b->order);
}

static int by_order(const void *left, const void *right)
{
    const struct place *const a = left, *const b = right;
    const int where = by_where(a, b);

    return where ? where : compare(a->order, b->order);
}

/* What was told first stays. */
static void overlay(uint8_t *bytes, bool *known, const uint8_t *more, const bool *more_known,
                    unsigned len, bool *is_unclear)
{
    for (unsigned i = 0; i < len; i++) {
        if (more_known && !more_known[i])
            continue;
        if (!known[i])
            bytes[i] = more[i];
        else if (bytes[i] != more[i])
            *is_unclear = true;
        known[i] = true;
    }
}

/* Texts come in the order of pages. */
static int fill_contents(struct flat_code *code)
{
    const struct text *const texts = code->texts.elements;
    struct content *content = NULL;
    size_t count = 0;

    for (size_t i = 0; i < code->texts.count; i++)
        count += i == 0 || compare_frames(&texts[i].frame, &texts[i - 1].frame) != 0;
    if (count > PAGES_MAX)
        return -EFBIG;
    code->contents = calloc(count + 1, sizeof(*code->contents));
    if (!code->contents)
        return -ENOMEM;
    for (size_t i = 0; i < code->texts.count; i++) {
        const struct text *const text = &texts[i];

        if (!content || compare_frames(&content->frame, &text->frame) != 0) {
            content = &code->contents[code->content_count++];
            content->frame = text->frame;
        }
        overlay(content->bytes + text->from, content->known + text->from, text->bytes, NULL,
                text->len, &content->is_unclear);
    }
    return 0;
}

/* One of each page and target, in the order in which they were told. */
static int tidy_places(struct flat_code *code)
{
    struct place *const places = code->places.elements;
    size_t kept = 0;

    if (code->places.count == 0)
        return 0;
    qsort(places, code->places.count, sizeof(*places), by_target);
    for (size_t i = 0; i < code->places.count; i++)
        if (kept == 0 || by_where(&places[kept - 1], &places[i]) != 0 ||
            compare_frames(&places[kept - 1].frame, &places[i].frame) != 0)
            places[kept++] = places[i];
    code->places.count = kept;
    qsort(places, kept, sizeof(*places), by_order);
    return kept > PAGES_MAX ? -EFBIG : 0;
}

static uint64_t end_of(const struct flat_run *run)
{
    return run->address + run->len_bytes;
}

static int make_runs(struct flat_code *code)
{
    const struct place *const places = code->places.elements;
    struct flat_run *run = NULL;

    for (size_t i = 0; i < code->places.count; i++) {
        const struct place *const place = &places[i];

        if (run && run->owner == place->owner && place->address < end_of(run))
            continue; /* the same page */
        if (!run || run->owner != place->owner ||
            place->address - end_of(run) > GAP_PAGES * FLAT_PAGE_BYTES) {
            run = add(&code->runs, sizeof(*run));
            if (!run)
                return -ENOMEM;
            *run = (struct flat_run){.address = place->address, .owner = place->owner, .first = i};
        }
        run->len_bytes = place->address + FLAT_PAGE_BYTES - run->address;
    }
    return 0;
}

int flat_code_lay_out(struct flat_code *code, const struct flat_run **runs, size_t *count)
{
    int error;

    if (code->texts.count > 0)
        qsort(code->texts.elements, code->texts.count, sizeof(struct text), by_frame);
    error = fill_contents(code);
    if (!error)
        error = tidy_places(code);
    if (!error)
        error = make_runs(code);
    *runs = code->runs.elements;
    *count = code->runs.count;
    return error;
}

/* ---- Pages ---- */

static int compare_content(const void *key, const void *element)
{
    return compare_frames(key, &((const struct content *)element)->frame);
}

/* What stands at the page of places[i], and how many of them are of it. */
static size_t fill_page(const struct flat_code *code, size_t i, uint8_t *bytes, bool *is_unclear)
{
    const struct place *const places = code->places.elements;
    bool known[FLAT_PAGE_BYTES] = {false};
    size_t count = 0;

    memset(bytes, 0, FLAT_PAGE_BYTES);
    for (; i + count < code->places.count && by_where(&places[i], &places[i + count]) == 0;
         count++) {
        const struct content *const content =
            bsearch(&places[i + count].frame, code->contents, code->content_count, sizeof(*content),
                    compare_content);

        if (!content)
            continue; /* nothing of it ran */
        overlay(bytes, known, content->bytes, content->known, FLAT_PAGE_BYTES, is_unclear);
        *is_unclear = *is_unclear || content->is_unclear;
    }
    return count;
}

int flat_code_write(const struct flat_code *code, const struct flat_run *run,
                    int (*put)(void *owner, const void *page), void *owner, struct flat_sums *sums)
{
    static const uint8_t nothing[FLAT_PAGE_BYTES];
    const struct place *const places = code->places.elements;
    uint8_t bytes[FLAT_PAGE_BYTES];
    size_t place = run->first;
    int error = 0;

    for (uint64_t done = 0; !error && done < run->len_bytes; done += FLAT_PAGE_BYTES) {
        bool is_unclear = false;

        if (places[place].address != run->address + done) {
            error = put(owner, nothing);
            continue;
        }
        place += fill_page(code, place, bytes, &is_unclear);
        sums->pages++;
        sums->unclear += is_unclear;
        error = put(owner, bytes);
    }
    return error;
}
