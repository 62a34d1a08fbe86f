/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code log of a capture: the bytes that a vCPU ran, from when on they stood where it ran them.
 * Code is kept by its physical place, with the page that each linear address led to beside it: what
 * many address spaces share is told once.
 *
 * A vCPU looks blocks up whenever its page tables or the code may have changed since (capture.c).
 * So what was told of the block's bytes, and of where they are, is compared then. Bytes cannot
 * change without a new block, and a block whose bytes were told is marked.
 *
 * What is told are the bytes that the block was translated of. Memory may have others: a store of
 * another vCPU can come between translation and the moment from which on stores make the block
 * invalid. Such a block runs on as if nothing had been written. So when bytes turn out to be others
 * than were told, all blocks of them become invalid, the new one included, which is then
 * translated again: of blocks that can run, none contradicts the log.
 *
 * A guest can run code at as many places as it makes up. What was told is remembered up to a bound;
 * then all of it is forgotten, and told anew where it runs again.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "exec/exec-all.h"
#include "exec/ram_addr.h"
#include "qemu/error-report.h"
#include "qemu/guest-random.h"
#include "qemu/host-utils.h"
#include "compat.h"
#include "vpt-i386.h"

/* A record: bytes follow if the space is SPACE_PHYSICAL, padded to eight. */
struct record {
    uint64_t offset;  /* in the trace: from here on */
    uint64_t space;   /* CR3[51:12]; or one of those below */
    uint64_t address; /* a linear page; a physical address; a linear one behind 16-bit code */
    uint64_t value;   /* the physical page; how many bytes; the base of CS that it ran with */
};
#define SPACE_PHYSICAL UINT64_MAX
#define SPACE_SEGMENT  (UINT64_MAX - 1)
#define CR3_ADDRESS    0x000ffffffffff000ull

/* By address space and linear page, where the page is; or as a record of SPACE_SEGMENT. */
struct place {
    uint64_t space, page;
    uint64_t physical;
};

/* What was told of a physical page. */
struct page {
    uint64_t address;
    DECLARE_BITMAP(known, TARGET_PAGE_SIZE);
    uint8_t bytes[TARGET_PAGE_SIZE];
};

/* Places that were told lately, by bits of their address: a look there is quicker. */
#define SEEN_PLACES 1024

struct X86VptCode {
    FILE *file;              /* or */
    struct X86VptRing *ring; /* without a file */
    GHashTable *places, *pages;
    struct place seen[SEEN_PLACES];
    uint32_t mark;      /* on blocks whose bytes were told and not forgotten; no other log's */
    int error;          /* errno of the first write that failed */
    uint64_t forgotten; /* how often, since a bound was reached */
};

/* ---- The tables ---- */

/* A guest chooses places; that all of them fall together it cannot choose without this. */
static uint64_t place_key[2];

static guint place_hash(gconstpointer key)
{
    const struct place *place = key;
    uint64_t low, high;

    mulu64(&low, &high, place->space ^ place_key[0], place->page ^ place_key[1]);
    low = (low ^ high ^ (low ^ high) >> 32) * 0x9e3779b97f4a7c15ull;
    return low >> 32;
}

static gboolean place_equal(gconstpointer a, gconstpointer b)
{
    const struct place *left = a, *right = b;

    return left->space == right->space && left->page == right->page;
}

static struct page *page_at(struct X86VptCode *code, uint64_t address)
{
    struct page *page = g_hash_table_lookup(code->pages, &address);

    if (!page) {
        page = g_new0(struct page, 1);
        page->address = address;
        g_hash_table_insert(code->pages, &page->address, page);
    }
    return page;
}

/* The entry for a place, which may hold another one. */
static struct place *seen_at(struct X86VptCode *code, uint64_t space, uint64_t page)
{
    return &code->seen[((page ^ space * 5) >> TARGET_PAGE_BITS) % SEEN_PLACES];
}

/* A new log, or one of which all is forgotten. */
static void begin_anew(struct X86VptCode *code)
{
    static uint32_t marks;

    code->mark = qatomic_add_fetch(&marks, 1);
    for (size_t i = 0; i < SEEN_PLACES; i++) {
        code->seen[i].space = SPACE_PHYSICAL; /* of no place */
    }
}

/* ---- Begin and end ---- */

struct X86VptCode *x86_vpt_code_in_ring(struct X86VptRing *ring)
{
    struct X86VptCode *code = g_new0(struct X86VptCode, 1);

    if (!place_key[0]) {
        qemu_guest_getrandom_nofail(place_key, sizeof(place_key));
    }
    code->ring = ring;
    code->places = g_hash_table_new_full(place_hash, place_equal, g_free, NULL);
    code->pages = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
    begin_anew(code);
    return code;
}

struct X86VptCode *x86_vpt_code_new(struct X86VptFile *to, Error **errp)
{
    FILE *file = fdopen(to->fd, "wb");
    struct X86VptCode *code;

    if (!file) {
        error_setg_errno(errp, errno, "%s", to->name);
        return NULL;
    }
    to->fd = -1;
    code = x86_vpt_code_in_ring(NULL);
    code->file = file;
    if (fputs(X86_VPT_CODE_MAGIC, file) < 0) {
        code->error = errno;
    }
    return code;
}

int x86_vpt_code_free(struct X86VptCode *code)
{
    int error;

    if (!code) {
        return 0;
    }
    error = code->file && fclose(code->file) != 0 ? errno : 0;
    error = code->error ? code->error : error;
    g_hash_table_destroy(code->places);
    g_hash_table_destroy(code->pages);
    g_free(code);
    return error;
}

int x86_vpt_code_error(const struct X86VptCode *code)
{
    return code ? qatomic_read(&code->error) : 0;
}

void x86_vpt_code_forget(struct X86VptCode *code)
{
    g_hash_table_remove_all(code->places);
    g_hash_table_remove_all(code->pages);
    begin_anew(code);
}

bool x86_vpt_code_is_full(const struct X86VptCode *code)
{
    return g_hash_table_size(code->places) >= X86_VPT_PLACES_MAX ||
           g_hash_table_size(code->pages) >= X86_VPT_PAGES_MAX;
}

void x86_vpt_code_forget_full(struct X86VptCode *code)
{
    if (code->forgotten == 0) {
        warn_report("vpt capture: the guest runs code at more than %d places or in more than %d "
                    "pages: it is told anew",
                    X86_VPT_PLACES_MAX, X86_VPT_PAGES_MAX);
    }
    qatomic_set(&code->forgotten, code->forgotten + 1);
    x86_vpt_code_forget(code);
}

uint64_t x86_vpt_code_forgotten(const struct X86VptCode *code)
{
    return code ? qatomic_read(&code->forgotten) : 0;
}

/* ---- Records ---- */

static void put(struct X86VptCode *code, struct record record, const uint8_t *bytes)
{
    const size_t len = bytes ? record.value : 0, padded = ROUND_UP(len, 8);
    const size_t size = sizeof(record) + padded;
    struct {
        struct record record;
        uint8_t bytes[TARGET_PAGE_SIZE];
    } whole;

    whole.record = (struct record){
        .offset = cpu_to_le64(record.offset),
        .space = cpu_to_le64(record.space),
        .address = cpu_to_le64(record.address),
        .value = cpu_to_le64(record.value),
    };
    if (bytes) {
        memcpy(whole.bytes, bytes, len);
        memset(whole.bytes + len, 0, padded - len);
    }
    if (code->ring) {
        x86_vpt_ring_add_code(code->ring, (const uint8_t *)&whole, size);
    } else if (!code->error && fwrite(&whole, size, 1, code->file) != 1) {
        qatomic_set(&code->error, errno);
    }
}

void x86_vpt_code_copy(GByteArray *log, const GByteArray *records, uint64_t begin)
{
    struct record record;
    size_t size;

    for (size_t at = 0; at < records->len; at += size) {
        memcpy(&record, records->data + at, sizeof(record));
        size = sizeof(record);
        if (record.space == SPACE_PHYSICAL) { /* in any order of bytes */
            size += ROUND_UP(le64_to_cpu(record.value), 8);
        }
        record.offset = cpu_to_le64(MAX(le64_to_cpu(record.offset), begin) - begin);
        g_byte_array_append(log, (const uint8_t *)&record, sizeof(record));
        g_byte_array_append(log, records->data + at + sizeof(record), size - sizeof(record));
    }
}

/* Where records go: known once it is needed, and the trace is settled if it has to be. */
struct where {
    const struct X86VptTrace *trace;
    bool known, settled;
    uint64_t offset;
};

static uint64_t offset_of(struct where *where)
{
    if (!where->known) {
        where->offset = where->trace->offset(where->trace->owner);
        where->known = true;
    }
    return where->offset;
}

static void settle(struct where *where)
{
    if (!where->settled) {
        where->offset = where->trace->settle(where->trace->owner);
        where->known = where->settled = true;
    }
}

static void tell_place(struct X86VptCode *code, struct where *where, struct place told)
{
    struct place *seen = seen_at(code, told.space, told.page), *place;

    if (place_equal(seen, &told) && seen->physical == told.physical) {
        return;
    }
    *seen = told;
    place = g_hash_table_lookup(code->places, &told);
    if (place && place->physical == told.physical) {
        return;
    }
    if (place) {
        settle(where);
    } else {
        place = g_new(struct place, 1);
        *place = told;
        g_hash_table_add(code->places, place);
    }
    place->physical = told.physical;
    put(code, (struct record){offset_of(where), told.space, told.page, told.physical}, NULL);
}

/* All of them lie in one page. Blocks of what they were before are not used again. */
static void tell_bytes(struct X86VptCode *code, struct where *where, uint64_t address,
                       const uint8_t *bytes, size_t len)
{
    const size_t at = address % TARGET_PAGE_SIZE;
    struct page *page = page_at(code, address - at);
    bool all_known = find_next_zero_bit(page->known, at + len, at) == at + len;

    if (all_known && memcmp(page->bytes + at, bytes, len) == 0) {
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (page->bytes[at + i] != bytes[i] && test_bit(at + i, page->known)) {
            settle(where);
            x86_vpt_invalidate_code(address, len);
            break;
        }
    }
    memcpy(page->bytes + at, bytes, len);
    bitmap_set(page->known, at, len);
    put(code, (struct record){offset_of(where), SPACE_PHYSICAL, address, len}, bytes);
}

/* Branches of 16-bit code wrap within their segment, and packets do not tell where it is. */
static void tell_segment(struct X86VptCode *code, struct where *where, uint64_t end, uint64_t base)
{
    struct place told = {SPACE_SEGMENT, end, 0};
    struct place *place = g_hash_table_lookup(code->places, &told);

    if (place ? place->physical == base : base == 0 && !code->ring && !code->forgotten) {
        return; /* what was told before it was forgotten still holds */
    }
    settle(where);
    if (!place) {
        place = g_new(struct place, 1);
        *place = told;
        g_hash_table_add(code->places, place);
    }
    place->physical = base;
    put(code, (struct record){offset_of(where), SPACE_SEGMENT, end, base}, NULL);
}

/* Code of the block; bytes: those, unless they were told. */
static void tell(struct X86VptCode *code, struct where *where, const uint8_t *bytes, uint64_t cr3,
                 uint64_t pc, uint64_t physical, size_t len)
{
    if (bytes) {
        tell_bytes(code, where, physical, bytes, len);
    }
    tell_place(
        code, where,
        (struct place){cr3 & CR3_ADDRESS, pc & TARGET_PAGE_MASK, physical & TARGET_PAGE_MASK});
}

void x86_vpt_code_block(struct X86VptCode *code, TranslationBlock *tb, uint64_t cr3, uint64_t pc,
                        const struct X86VptTrace *trace)
{
    struct where where = {.trace = trace};
    const size_t left = TARGET_PAGE_SIZE - pc % TARGET_PAGE_SIZE, first = MIN(left, tb->size);
    const bool is_told = qatomic_read(&tb->use_mark) == code->mark;

    if (tb_page_addr0(tb) == -1) { /* not in memory: run from a device, once */
        return;
    }
    if (!(tb->flags & (HF_CS32_MASK | HF_CS64_MASK))) {
        tell_segment(code, &where, pc + tb->size, tb->cs_base);
    }
    tell(code, &where, is_told ? NULL : tb->code, cr3, pc, tb_page_addr0(tb), first);
    if (tb->size > first && tb_page_addr1(tb) != -1) {
        tell(code, &where, is_told ? NULL : tb->code + first, cr3, pc + first,
             tb_page_addr1(tb) & TARGET_PAGE_MASK, tb->size - first);
    }
    qatomic_set(&tb->use_mark, code->mark);
}
