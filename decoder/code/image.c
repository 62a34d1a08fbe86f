/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code and symbols of address spaces. Each address space keeps disjoint segments in ascending order
 * (an addition cuts what it hides), so that both lookups are binary searches.
 *
 * A PIP says which address space runs (SDM 33.4.2.7).
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "code/code_log.h"
#include "code/image.h"

#define CR3_ADDRESS_BITS 0x000ffffffffff000u
#define VM_SHIFT         52
#define CR3_BITS         ((UINT64_C(1) << VM_SHIFT) - 1)

/* Ranges are [first, last]: the last byte of the address space can be in one. */
struct segment {
    uint64_t first, last;
    const uint8_t *bytes;
    bool is_patch; /* the names below it hold */
};

struct symbol {
    uint64_t first, last; /* last < first: size unknown */
    char *name;
    uint8_t rank;
};

struct space {
    uint64_t cr3;
    uint64_t same_as; /* not 0: another address space, in place of this */
    struct segment *segments;
    size_t segment_count, segment_room;
    struct symbol *symbols;
    size_t symbol_count, symbol_room;
};

struct vmcs {
    uint64_t pointer;
    unsigned vm;
};

struct guest_memory {
    const struct ptd_memory *memory;
    unsigned vm;
    enum ptd_paging paging;
};

struct ptd_image {
    const struct ptd_image *base; /* has what is not here; NULL: nothing has */
    struct space *spaces;         /* ascending; PTD_ANY_CR3 is the last */
    size_t space_count, space_room;
    struct vmcs *vmcs;
    size_t vmcs_count, vmcs_room;
    struct guest_memory *memories;
    size_t memory_count, memory_room;
    unsigned vm_count;
    struct code_log *code_log; /* of the host; or NULL */
    uint64_t generation;       /* how often code changed */
    void **owned;              /* to be freed: code and names */
    size_t owned_count, owned_room;
};

static bool own(struct ptd_image *image, void *memory)
{
    if (!array_grow((void **)&image->owned, &image->owned_room, image->owned_count,
                    sizeof(*image->owned)))
        return false;
    image->owned[image->owned_count++] = memory;
    return true;
}

struct ptd_image *ptd_image_new(void)
{
    return calloc(1, sizeof(struct ptd_image));
}

struct ptd_image *ptd_image_new_on(const struct ptd_image *base)
{
    struct ptd_image *const image = base->base ? NULL : ptd_image_new();

    if (image)
        image->base = base;
    return image;
}

void ptd_image_free(struct ptd_image *image)
{
    if (!image)
        return;
    for (size_t i = 0; i < image->space_count; i++) {
        free(image->spaces[i].segments);
        free(image->spaces[i].symbols);
    }
    for (size_t i = 0; i < image->owned_count; i++)
        free(image->owned[i]);
    free(image->spaces);
    free(image->vmcs);
    free(image->memories);
    ptd_code_log_free(image->code_log);
    free(image->owned);
    free(image);
}

/* ---- Address spaces ---- */

uint64_t ptd_space(unsigned vm, uint64_t cr3)
{
    if (vm == 0)
        return cr3 == PTD_ANY_CR3 ? cr3 : cr3 & CR3_BITS;
    return (uint64_t)vm << VM_SHIFT | (cr3 & CR3_BITS);
}

unsigned ptd_space_vm(uint64_t space)
{
    return space == PTD_ANY_CR3 ? 0 : (unsigned)(space >> VM_SHIFT);
}

uint64_t ptd_space_cr3(uint64_t space)
{
    return (space & CR3_BITS) == CR3_BITS ? PTD_ANY_CR3 : space & CR3_BITS;
}

static bool is_any(uint64_t space)
{
    return ptd_space_cr3(space) == PTD_ANY_CR3;
}

static uint64_t any_of_same_vm(uint64_t space)
{
    return ptd_space(ptd_space_vm(space), PTD_ANY_CR3);
}

static uint64_t space_key(uint64_t space)
{
    return is_any(space) ? space : space & ~(CR3_BITS ^ CR3_ADDRESS_BITS);
}

/* Index of the first space whose CR3 is not below key. */
static size_t space_index(const struct ptd_image *image, uint64_t key)
{
    size_t low = 0, high = image->space_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (image->spaces[middle].cr3 < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct space *find_space(const struct ptd_image *image, uint64_t cr3)
{
    const uint64_t key = space_key(cr3);
    const size_t index = space_index(image, key);

    if (index == image->space_count || image->spaces[index].cr3 != key)
        return NULL;
    return &image->spaces[index];
}

static struct space *get_space(struct ptd_image *image, uint64_t cr3)
{
    struct space *const found = find_space(image, cr3);

    if (found)
        return found;
    if (!array_grow((void **)&image->spaces, &image->space_room, image->space_count,
                    sizeof(*image->spaces)))
        return NULL;

    const uint64_t key = space_key(cr3);
    const size_t index = space_index(image, key);
    struct space *const space = &image->spaces[index];

    memmove(space + 1, space, (image->space_count - index) * sizeof(*space));
    image->space_count++;
    memset(space, 0, sizeof(*space));
    space->cr3 = key;
    return space;
}

int ptd_image_alias(struct ptd_image *image, uint64_t cr3, uint64_t same_as)
{
    struct space *space = find_space(image, same_as);

    if (is_any(cr3) || is_any(same_as) || space_key(same_as) == 0 ||
        space_key(cr3) == space_key(same_as) || (space && space->same_as))
        return PTD_E_ARG;
    space = get_space(image, cr3);
    if (!space)
        return PTD_E_NOMEM;
    space->same_as = space_key(same_as);
    image->generation++;
    return PTD_OK;
}

/* The address space that counts in place of another. */
static uint64_t real_space(const struct ptd_image *image, uint64_t cr3)
{
    for (; image; image = image->base) {
        const struct space *const space = find_space(image, cr3);

        if (space && space->same_as)
            return space->same_as;
    }
    return cr3;
}

/* ---- Segments ---- */

/* Index of the first segment that ends at or above vaddr. */
static size_t segment_index(const struct space *space, uint64_t vaddr)
{
    size_t low = 0, high = space->segment_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (space->segments[middle].last < vaddr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert_segment(struct space *space, size_t index, struct segment segment)
{
    struct segment *const at = &space->segments[index];

    memmove(at + 1, at, (space->segment_count - index) * sizeof(*at));
    *at = segment;
    space->segment_count++;
}

/* Cuts [first, last] out of the segments. Room for one more segment is there. */
static void hide_segments(struct space *space, uint64_t first, uint64_t last)
{
    size_t i = segment_index(space, first);

    if (i < space->segment_count && space->segments[i].first < first) {
        struct segment *const left = &space->segments[i];
        const struct segment whole = *left;

        left->last = first - 1;
        i++;
        if (whole.last > last) {
            const struct segment right = {last + 1, whole.last,
                                          whole.bytes + (last + 1 - whole.first), whole.is_patch};

            insert_segment(space, i, right);
            return;
        }
    }

    size_t end = i;

    while (end < space->segment_count && space->segments[end].last <= last)
        end++;
    memmove(&space->segments[i], &space->segments[end],
            (space->segment_count - end) * sizeof(*space->segments));
    space->segment_count -= end - i;
    if (i < space->segment_count && space->segments[i].first <= last) {
        struct segment *const right = &space->segments[i];

        right->bytes += last + 1 - right->first;
        right->first = last + 1;
    }
}

static void hide_symbols(struct space *space, uint64_t first, uint64_t last)
{
    size_t kept = 0;

    for (size_t i = 0; i < space->symbol_count; i++)
        if (space->symbols[i].first < first || space->symbols[i].first > last)
            space->symbols[kept++] = space->symbols[i];
    space->symbol_count = kept;
}

static int add_segment(struct ptd_image *image, uint64_t vaddr, uint8_t *bytes, size_t len_bytes,
                       uint64_t cr3, bool is_patch)
{
    if (len_bytes == 0) {
        free(bytes);
        return PTD_OK;
    }

    const uint64_t last = vaddr + (len_bytes - 1);

    if (last < vaddr) {
        free(bytes);
        return PTD_E_ARG;
    }
    if (!own(image, bytes)) {
        free(bytes);
        return PTD_E_NOMEM;
    }

    struct space *const space = get_space(image, cr3);

    /* Two more at most: the right part of one that is split, and the new one. */
    if (!space || !array_grow((void **)&space->segments, &space->segment_room,
                              space->segment_count + 1, sizeof(*space->segments)))
        return PTD_E_NOMEM;
    hide_segments(space, vaddr, last);
    if (!is_patch)
        hide_symbols(space, vaddr, last);
    insert_segment(space, segment_index(space, vaddr),
                   (struct segment){vaddr, last, bytes, is_patch});
    image->generation++;
    return PTD_OK;
}

int ptd_image_add_owned(struct ptd_image *image, uint64_t vaddr, uint8_t *bytes, size_t len_bytes,
                        uint64_t cr3)
{
    return add_segment(image, vaddr, bytes, len_bytes, cr3, false);
}

static int add_copy(struct ptd_image *image, uint64_t vaddr, const void *bytes, size_t len_bytes,
                    uint64_t cr3, bool is_patch)
{
    if (!bytes || len_bytes == 0)
        return PTD_E_ARG;

    uint8_t *const copy = malloc(len_bytes);

    if (!copy)
        return PTD_E_NOMEM;
    memcpy(copy, bytes, len_bytes);
    return add_segment(image, vaddr, copy, len_bytes, cr3, is_patch);
}

int ptd_image_patch(struct ptd_image *image, uint64_t vaddr, const void *bytes, size_t len_bytes,
                    uint64_t cr3)
{
    return add_copy(image, vaddr, bytes, len_bytes, cr3, true);
}

int ptd_image_add_bytes(struct ptd_image *image, const char *name, uint64_t vaddr,
                        const void *bytes, size_t len_bytes, uint64_t cr3)
{
    int status = add_copy(image, vaddr, bytes, len_bytes, cr3, false);

    if (status == PTD_OK && name)
        status = ptd_image_add_symbol(image, name, vaddr, len_bytes, SYMBOL_LOCAL, cr3);
    ptd_image_sort_symbols(image, cr3);
    return status;
}

static const struct segment *find_segment(const struct space *space, uint64_t vaddr)
{
    if (!space)
        return NULL;

    const size_t i = segment_index(space, vaddr);

    if (i == space->segment_count || space->segments[i].first > vaddr)
        return NULL;
    return &space->segments[i];
}

static size_t length(uint64_t vaddr, uint64_t last)
{
    return last - vaddr == SIZE_MAX ? SIZE_MAX : (size_t)(last - vaddr) + 1;
}

/* Up to where the address space has something of its own. */
static uint64_t cut(const struct space *space, uint64_t vaddr, uint64_t last)
{
    const size_t next = segment_index(space, vaddr);

    if (next < space->segment_count && space->segments[next].first <= last)
        return space->segments[next].first - 1;
    return last;
}

static const struct guest_memory *find_memory(const struct ptd_image *image, unsigned vm)
{
    for (; image; image = image->base) {
        for (size_t i = 0; i < image->memory_count; i++)
            if (image->memories[i].vm == vm)
                return &image->memories[i];
    }
    return NULL;
}

static int find_in_memory(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr,
                          const uint8_t **bytes, size_t *len_bytes)
{
    const struct guest_memory *const guest = find_memory(image, ptd_space_vm(cr3));
    size_t page_bytes;
    uint64_t paddr;

    if (!guest || is_any(cr3) ||
        ptd_memory_walk(guest->memory, guest->paging, ptd_space_cr3(cr3), vaddr, &paddr,
                        &page_bytes) != PTD_OK ||
        ptd_memory_find(guest->memory, paddr, bytes, len_bytes) != PTD_OK)
        return PTD_E_NOMAP;
    if (*len_bytes > page_bytes)
        *len_bytes = page_bytes;
    return PTD_OK;
}

#define PLACES 4 /* an address space and its VM, each in an image and its base */

/* Where the code of an address space is looked up, in this order. How many places. */
static unsigned places_of(const struct ptd_image *image, uint64_t cr3,
                          const struct space *places[PLACES])
{
    const uint64_t keys[] = {real_space(image, cr3), any_of_same_vm(cr3)};
    unsigned count = 0;

    for (unsigned i = is_any(cr3); i < 2; i++) {
        for (const struct ptd_image *each = image; each; each = each->base) {
            const struct space *const space = find_space(each, keys[i]);

            if (space)
                places[count++] = space;
        }
    }
    return count;
}

int ptd_image_find(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr,
                   const uint8_t **bytes, size_t *len_bytes)
{
    const struct space *places[PLACES];
    const unsigned count = places_of(image, cr3, places);
    const struct segment *segment = NULL;
    unsigned at = 0;
    uint64_t last;

    if (image->code_log && ptd_space_vm(cr3) == 0 &&
        ptd_code_log_find(image->code_log, cr3, vaddr, bytes, len_bytes) == PTD_OK)
        return PTD_OK;
    while (at < count && !(segment = find_segment(places[at], vaddr)))
        at++;
    if (segment) {
        last = segment->last;
        *bytes = segment->bytes + (vaddr - segment->first);
    } else {
        if (find_in_memory(image, cr3, vaddr, bytes, len_bytes) != PTD_OK)
            return PTD_E_NOMAP;
        last = vaddr + (*len_bytes - 1);
    }
    while (at-- > 0)
        last = cut(places[at], vaddr, last);
    *len_bytes = length(vaddr, last);
    return PTD_OK;
}

/* ---- VMs ---- */

int ptd_image_add_vm(struct ptd_image *image)
{
    if (image->vm_count == PTD_VM_UNKNOWN - 1)
        return PTD_E_ARG;
    return (int)++image->vm_count;
}

int ptd_image_bind_vmcs(struct ptd_image *image, unsigned vm, uint64_t vmcs)
{
    if (vm == 0 || vm > image->vm_count)
        return PTD_E_ARG;
    for (size_t i = 0; i < image->vmcs_count; i++)
        if (image->vmcs[i].pointer == vmcs) {
            image->vmcs[i].vm = vm;
            return PTD_OK;
        }
    if (!array_grow((void **)&image->vmcs, &image->vmcs_room, image->vmcs_count,
                    sizeof(*image->vmcs)))
        return PTD_E_NOMEM;
    image->vmcs[image->vmcs_count++] = (struct vmcs){vmcs, vm};
    return PTD_OK;
}

uint64_t ptd_image_space(const struct ptd_image *image, bool nr, uint64_t vmcs, uint64_t cr3)
{
    if (image->base)
        return ptd_image_space(image->base, nr, vmcs, cr3);
    if (!nr || image->vmcs_count == 0)
        return ptd_space(0, cr3);
    for (size_t i = 0; i < image->vmcs_count; i++)
        if (image->vmcs[i].pointer == vmcs)
            return ptd_space(image->vmcs[i].vm, cr3);
    return ptd_space(PTD_VM_UNKNOWN, cr3);
}

int ptd_image_add_memory(struct ptd_image *image, unsigned vm, const struct ptd_memory *memory,
                         enum ptd_paging paging)
{
    if (vm > image->vm_count || paging == PTD_PAGING_UNKNOWN || find_memory(image, vm))
        return PTD_E_ARG;
    if (!array_grow((void **)&image->memories, &image->memory_room, image->memory_count,
                    sizeof(*image->memories)))
        return PTD_E_NOMEM;
    image->memories[image->memory_count++] = (struct guest_memory){memory, vm, paging};
    image->generation++;
    return PTD_OK;
}

int ptd_image_add_code_log(struct ptd_image *image, const void *bytes, size_t len_bytes)
{
    int status;

    if (image->code_log)
        return PTD_E_ARG;
    status = ptd_code_log_new(bytes, len_bytes, &image->code_log);
    image->generation += status == PTD_OK;
    return status;
}

struct code_log *ptd_image_code_log(const struct ptd_image *image)
{
    return image->code_log;
}

const uint64_t *ptd_image_generation(const struct ptd_image *image)
{
    return &image->generation;
}

/* ---- Symbols ---- */

int ptd_image_add_symbol(struct ptd_image *image, const char *name, uint64_t vaddr,
                         uint64_t size_bytes, enum symbol_rank rank, uint64_t cr3)
{
    struct space *const space = get_space(image, cr3);

    if (!space || !array_grow((void **)&space->symbols, &space->symbol_room, space->symbol_count,
                              sizeof(*space->symbols)))
        return PTD_E_NOMEM;

    char *const copy = strdup(name);

    if (!copy || !own(image, copy)) {
        free(copy);
        return PTD_E_NOMEM;
    }

    uint64_t last = vaddr + size_bytes - 1;

    if (size_bytes == 0)
        last = vaddr - 1;
    else if (last < vaddr)
        last = UINT64_MAX;
    space->symbols[space->symbol_count++] = (struct symbol){
        .first = vaddr,
        .last = last,
        .name = copy,
        .rank = (uint8_t)rank,
    };
    return PTD_OK;
}

static bool sized(const struct symbol *symbol)
{
    return symbol->last >= symbol->first;
}

/* By address; in front stands the one to keep of those at one address. */
static int compare_symbols(const void *left, const void *right)
{
    const struct symbol *const a = left, *const b = right;

    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (sized(a) != sized(b))
        return sized(a) ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Drops second names, and labels inside functions. */
void ptd_image_sort_symbols(struct ptd_image *image, uint64_t cr3)
{
    struct space *const space = find_space(image, cr3);

    if (!space || space->symbol_count == 0)
        return;
    qsort(space->symbols, space->symbol_count, sizeof(*space->symbols), compare_symbols);

    const struct symbol *function = NULL; /* the last one whose size is known */
    size_t kept = 0;

    for (size_t i = 0; i < space->symbol_count; i++) {
        const struct symbol symbol = space->symbols[i];

        if (kept > 0 && space->symbols[kept - 1].first == symbol.first)
            continue;
        if (symbol.rank == SYMBOL_LABEL && function && symbol.first <= function->last)
            continue;
        space->symbols[kept] = symbol;
        if (sized(&symbol))
            function = &space->symbols[kept];
        kept++;
    }
    space->symbol_count = kept;
}

static const struct symbol *find_symbol(const struct space *space, uint64_t vaddr)
{
    size_t low = 0, high = space->symbol_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (space->symbols[middle].first <= vaddr)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;

    const struct symbol *const symbol = &space->symbols[low - 1];

    return sized(symbol) && symbol->last < vaddr ? NULL : symbol;
}

const char *ptd_image_symbol(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr,
                             uint64_t *offset)
{
    const struct space *places[PLACES];
    const unsigned count = places_of(image, cr3, places);

    for (unsigned i = 0; i < count; i++) {
        const struct segment *const segment = find_segment(places[i], vaddr);
        const struct symbol *const symbol = segment ? find_symbol(places[i], vaddr) : NULL;

        if (symbol && offset)
            *offset = vaddr - symbol->first;
        if (symbol)
            return symbol->name;
        /* The place that gives the code gives the symbol. */
        if (segment && !segment->is_patch)
            return NULL;
    }
    return NULL;
}
