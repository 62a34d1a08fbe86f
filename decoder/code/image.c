/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code and symbols of address spaces. Each address space keeps disjoint segments in order (an
 * addition cuts what it hides), and names in order, so that both lookups are binary searches.
 *
 * A PIP says which address space runs (SDM 33.4.2.7).
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "code/code_log.h"
#include "code/image.h"
#include "code/symbols.h"

#define CR3_ADDRESS_BITS 0x000ffffffffff000u
#define VM_SHIFT         52
#define CR3_BITS         ((UINT64_C(1) << VM_SHIFT) - 1)

struct space {
    uint64_t same_as;             /* not 0: another address space, in place of this */
    struct extents segments;      /* disjoint; .number is how far from the address its byte is */
    struct symbols symbols;       /* of ranges of bytes */
    struct extents ranges;        /* disjoint, as they were added; .what is a struct range */
    struct extents regions;       /* disjoint; .what is a struct region */
    const struct symbols **lists; /* of symbols that came without code, the oldest first */
    size_t list_count, list_room;
};

/* The symbols of a range of code. A patch changes nothing of them. */
struct range {
    const struct symbols *symbols; /* NULL: none of its own */
    uint64_t bias;                 /* how far below the code the symbols are */
    size_t hidden;                 /* so many of the address space's lists are older */
};

/* The names of addresses whose code comes from elsewhere. */
struct region {
    char *name;                    /* of all of it */
    const struct symbols *symbols; /* or NULL */
    uint64_t bias;                 /* how far below the addresses the symbols are */
};

enum segment_kind { SEGMENT, SEGMENT_PATCH /* the names below it hold */ };

struct guest_memory {
    const struct ptd_memory *memory;
    unsigned vm;
    enum ptd_paging paging;
};

struct ptd_image {
    const struct ptd_image *base; /* has what is not here; NULL: nothing has */
    struct extents spaces;        /* struct space, by their keys */
    struct space *any;            /* that of PTD_ANY_CR3 among them, which is looked into most */
    bool has_aliases;
    struct extents vmcs; /* numbers of VMs, by VMCS pointers */
    struct guest_memory *memories;
    size_t memory_count, memory_room;
    unsigned vm_count;
    struct code_log *code_log; /* of the host; or NULL */
    uint64_t generation;       /* how often code changed */
    void **owned;              /* to be freed: code, names, spaces */
    size_t owned_count, owned_room;
    struct ptd_file **files; /* to be freed too */
    size_t file_count, file_room;
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

static void free_spaces(struct ptd_image *image)
{
    struct extent_place place;
    struct extent *each = ptd_extents_first(&image->spaces, &place);

    for (; each; each = ptd_extents_next(&image->spaces, &place)) {
        struct space *const space = each->what;

        ptd_extents_free(&space->segments);
        ptd_symbols_free(&space->symbols);
        ptd_extents_free(&space->regions);
        ptd_extents_free(&space->ranges);
        free(space->lists);
    }
    ptd_extents_free(&image->spaces);
}

void ptd_image_free(struct ptd_image *image)
{
    if (!image)
        return;
    free_spaces(image);
    for (size_t i = 0; i < image->owned_count; i++)
        free(image->owned[i]);
    for (size_t i = 0; i < image->file_count; i++)
        ptd_file_free(image->files[i]);
    free(image->files);
    ptd_extents_free(&image->vmcs);
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

static struct space *find_space(const struct ptd_image *image, uint64_t cr3)
{
    const struct extent *found;

    if (cr3 == PTD_ANY_CR3)
        return image->any;
    found = ptd_extents_at(&image->spaces, space_key(cr3));
    return found ? found->what : NULL;
}

static struct space *get_space(struct ptd_image *image, uint64_t cr3)
{
    const uint64_t key = space_key(cr3);
    struct space *space = find_space(image, cr3);

    if (space)
        return space;
    space = calloc(1, sizeof(*space));
    if (!space || !own(image, space)) {
        free(space);
        return NULL;
    }
    if (!ptd_extents_add(&image->spaces, (struct extent){.first = key, .last = key, .what = space}))
        return NULL;
    if (cr3 == PTD_ANY_CR3)
        image->any = space;
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
    image->has_aliases = true;
    image->generation++;
    return PTD_OK;
}

/* The address space that counts in place of another. */
static uint64_t real_space(const struct ptd_image *image, uint64_t cr3)
{
    for (; image; image = image->base) {
        const struct space *const space = image->has_aliases ? find_space(image, cr3) : NULL;

        if (space && space->same_as)
            return space->same_as;
    }
    return cr3;
}

/* ---- Segments ---- */

static struct extent *find_segment(const struct space *space, uint64_t vaddr)
{
    struct extent *const segment = space ? ptd_extents_below(&space->segments, vaddr, NULL) : NULL;

    return segment && segment->last >= vaddr ? segment : NULL;
}

/* A segment keeps this when it is cut. */
static uint64_t distance(uint64_t vaddr, const uint8_t *bytes)
{
    return (uint64_t)(uintptr_t)bytes - vaddr;
}

static const uint8_t *bytes_at(const struct extent *segment, uint64_t vaddr)
{
    return (const uint8_t *)(uintptr_t)(segment->number + vaddr);
}

/* The symbols of a segment that is no patch, in place of what was there. False: no memory. */
static bool add_range(struct ptd_image *image, struct space *space, const struct extent *segment,
                      const struct symbols *symbols, uint64_t bias)
{
    struct range *const range = malloc(sizeof(*range));

    if (!range || !own(image, range)) {
        free(range);
        return false;
    }
    *range = (struct range){symbols, bias, space->list_count};
    ptd_symbols_hide(&space->symbols, segment->first, segment->last);
    return ptd_extents_cut(&space->ranges, segment->first, segment->last) &&
           ptd_extents_add(
               &space->ranges,
               (struct extent){.first = segment->first, .last = segment->last, .what = range});
}

/* The bytes outlive the image. */
static int add_segment(struct ptd_image *image, uint64_t vaddr, const uint8_t *bytes,
                       size_t len_bytes, const struct range *of, uint64_t cr3,
                       enum segment_kind kind)
{
    const struct extent segment = {.first = vaddr,
                                   .last = vaddr + (len_bytes - 1),
                                   .number = distance(vaddr, bytes),
                                   .kind = kind};
    struct space *const space = get_space(image, cr3);

    if (!space || !ptd_extents_cut(&space->segments, segment.first, segment.last))
        return PTD_E_NOMEM;
    image->generation++;
    if (kind != SEGMENT_PATCH && !add_range(image, space, &segment, of->symbols, of->bias))
        return PTD_E_NOMEM;
    return ptd_extents_add(&space->segments, segment) ? PTD_OK : PTD_E_NOMEM;
}

int ptd_image_add_shared(struct ptd_image *image, uint64_t vaddr, const uint8_t *bytes,
                         size_t len_bytes, const struct symbols *symbols, uint64_t bias,
                         uint64_t cr3)
{
    const struct range range = {.symbols = symbols, .bias = bias};

    if (len_bytes == 0)
        return PTD_OK;
    if (vaddr + (len_bytes - 1) < vaddr)
        return PTD_E_ARG;
    return add_segment(image, vaddr, bytes, len_bytes, &range, cr3, SEGMENT);
}

int ptd_image_own_file(struct ptd_image *image, struct ptd_file *file)
{
    if (!array_grow((void **)&image->files, &image->file_room, image->file_count,
                    sizeof(struct ptd_file *)))
        return PTD_E_NOMEM;
    image->files[image->file_count++] = file;
    return PTD_OK;
}

static int add_copy(struct ptd_image *image, uint64_t vaddr, const void *bytes, size_t len_bytes,
                    uint64_t cr3, enum segment_kind kind)
{
    static const struct range nameless;
    uint8_t *copy;

    if (!bytes || len_bytes == 0 || vaddr + (len_bytes - 1) < vaddr)
        return PTD_E_ARG;
    copy = malloc(len_bytes);
    if (!copy || !own(image, copy)) {
        free(copy);
        return PTD_E_NOMEM;
    }
    memcpy(copy, bytes, len_bytes);
    return add_segment(image, vaddr, copy, len_bytes, &nameless, cr3, kind);
}

int ptd_image_patch(struct ptd_image *image, uint64_t vaddr, const void *bytes, size_t len_bytes,
                    uint64_t cr3)
{
    return add_copy(image, vaddr, bytes, len_bytes, cr3, SEGMENT_PATCH);
}

/* A copy that lives as long as the image. NULL: no memory. */
static char *own_text(struct ptd_image *image, const char *text)
{
    char *const copy = strdup(text);

    if (copy && own(image, copy))
        return copy;
    free(copy);
    return NULL;
}

/* The name of a whole range. It outlives the image's symbols. */
static int name_all(struct ptd_image *image, const char *name, uint64_t vaddr, size_t len_bytes,
                    uint64_t cr3)
{
    struct space *const space = get_space(image, cr3);
    char *const copy = own_text(image, name);
    const struct symbol symbol = {.first = vaddr,
                                  .last = vaddr + (len_bytes - 1),
                                  .name = copy,
                                  .rank = SYMBOL_LOCAL,
                                  .is_sized = true};

    return copy && space && ptd_symbols_add(&space->symbols, &symbol) ? PTD_OK : PTD_E_NOMEM;
}

int ptd_image_add_bytes(struct ptd_image *image, const char *name, uint64_t vaddr,
                        const void *bytes, size_t len_bytes, uint64_t cr3)
{
    const int status = add_copy(image, vaddr, bytes, len_bytes, cr3, SEGMENT);

    return status == PTD_OK && name ? name_all(image, name, vaddr, len_bytes, cr3) : status;
}

int ptd_image_name_region(struct ptd_image *image, const char *name, uint64_t vaddr,
                          uint64_t len_bytes, const struct symbols *symbols, uint64_t bias,
                          uint64_t cr3)
{
    const uint64_t last = vaddr + (len_bytes - 1);
    struct region *region;
    struct space *space;

    if (len_bytes == 0 || last < vaddr)
        return PTD_E_ARG;
    space = get_space(image, cr3);
    region = malloc(sizeof(*region));
    if (!space || !region || !own(image, region)) {
        free(region);
        return PTD_E_NOMEM;
    }
    *region = (struct region){own_text(image, name), symbols, bias};
    return region->name && ptd_extents_cut(&space->regions, vaddr, last) &&
                   ptd_extents_add(&space->regions,
                                   (struct extent){.first = vaddr, .last = last, .what = region})
               ? PTD_OK
               : PTD_E_NOMEM;
}

int ptd_image_drop_regions(struct ptd_image *image, uint64_t cr3)
{
    struct space *const space = find_space(image, cr3);

    return !space || ptd_extents_cut(&space->regions, 0, UINT64_MAX) ? PTD_OK : PTD_E_NOMEM;
}

static size_t length(uint64_t vaddr, uint64_t last)
{
    return last - vaddr == SIZE_MAX ? SIZE_MAX : (size_t)(last - vaddr) + 1;
}

/* Up to where the address space has something of its own. It has nothing at vaddr. */
static uint64_t cut(const struct space *space, uint64_t vaddr, uint64_t last)
{
    struct extent_place place;
    const struct extent *const next = ptd_extents_above(&space->segments, vaddr, &place);

    return next && next->first <= last ? next->first - 1 : last;
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
    const struct extent *segment = NULL;
    unsigned at = 0;
    uint64_t last;

    if (image->code_log && ptd_space_vm(cr3) == 0 &&
        ptd_code_log_find(image->code_log, cr3, vaddr, bytes, len_bytes) == PTD_OK)
        return PTD_OK;
    while (at < count && !(segment = find_segment(places[at], vaddr)))
        at++;
    if (segment) {
        last = segment->last;
        *bytes = bytes_at(segment, vaddr);
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
    struct extent *bound;

    if (vm == 0 || vm > image->vm_count)
        return PTD_E_ARG;
    bound = ptd_extents_at(&image->vmcs, vmcs);
    if (bound)
        bound->number = vm;
    else if (!ptd_extents_add(&image->vmcs,
                              (struct extent){.first = vmcs, .last = vmcs, .number = vm}))
        return PTD_E_NOMEM;
    return PTD_OK;
}

uint64_t ptd_image_space(const struct ptd_image *image, bool nr, uint64_t vmcs, uint64_t cr3)
{
    const struct extent *bound;

    if (image->base)
        return ptd_image_space(image->base, nr, vmcs, cr3);
    if (!nr || image->vmcs.leaf_count == 0)
        return ptd_space(0, cr3);
    bound = ptd_extents_at(&image->vmcs, vmcs);
    return ptd_space(bound ? (unsigned)bound->number : PTD_VM_UNKNOWN, cr3);
}

uint64_t ptd_image_unknown_space(const struct ptd_image *image)
{
    if (image->base)
        return ptd_image_unknown_space(image->base);
    /* Where VMs are told apart, the host's code may not be what ran. */
    return image->vmcs.leaf_count == 0 ? PTD_ANY_CR3 : ptd_space(PTD_VM_UNKNOWN, PTD_ANY_CR3);
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

uint64_t ptd_image_changes(const struct ptd_image *image)
{
    return image->generation + (image->code_log ? ptd_code_log_changes(image->code_log) : 0);
}

const uint64_t *ptd_image_generation(const struct ptd_image *image)
{
    return &image->generation;
}

/* ---- Symbols ---- */

int ptd_image_add_symbols(struct ptd_image *image, const struct symbols *symbols, uint64_t cr3)
{
    struct space *const space = get_space(image, cr3);

    if (!space || !array_grow((void **)&space->lists, &space->list_room, space->list_count,
                              sizeof(const struct symbols *)))
        return PTD_E_NOMEM;
    space->lists[space->list_count++] = symbols;
    return PTD_OK;
}

/* Of what came without code, from the number `from` on: those that begin at lowest or above. */
static const char *name_in_lists(const struct space *space, size_t from, uint64_t lowest,
                                 uint64_t vaddr, uint64_t *first)
{
    for (size_t i = space->list_count; i-- > from;) {
        const char *const name = ptd_symbols_find(space->lists[i], vaddr, first);

        if (name && *first >= lowest)
            return name;
    }
    return NULL;
}

/* What the address space calls the code at an address that it has; NULL: nothing. */
static const char *name_in(const struct space *space, uint64_t vaddr, uint64_t *first)
{
    const struct extent *const place = ptd_extents_below(&space->ranges, vaddr, NULL);
    const char *name = ptd_symbols_find(&space->symbols, vaddr, first);
    const struct range *range;

    if (name || !place || place->last < vaddr)
        return name;
    range = place->what;
    name = range->symbols ? ptd_symbols_find(range->symbols, vaddr - range->bias, first) : NULL;
    if (!name) /* a symbol is not beyond the code that it is in */
        return name_in_lists(space, range->hidden, place->first, vaddr, first);
    *first += range->bias;
    return *first <= vaddr ? name : NULL; /* none of above the end of the address space */
}

/* The place that gives the code gives the symbol; beneath a patch, that is the next one. */
static const char *name_with_code(const struct space *const *places, unsigned count, uint64_t vaddr,
                                  uint64_t *first, bool *has_code)
{
    *has_code = false;
    for (unsigned i = 0; i < count; i++) {
        const struct extent *const segment = find_segment(places[i], vaddr);
        const char *const name = segment ? name_in(places[i], vaddr, first) : NULL;

        *has_code = *has_code || segment;
        if (name)
            return name;
        if (segment && segment->kind != SEGMENT_PATCH)
            return NULL;
    }
    return NULL;
}

/* Of code that comes from memory or from a code log. */
static const char *name_without_code(const struct space *const *places, unsigned count,
                                     uint64_t vaddr, uint64_t *first)
{
    for (unsigned i = 0; i < count; i++) {
        const char *const name = name_in_lists(places[i], 0, 0, vaddr, first);

        if (name)
            return name;
    }
    return NULL;
}

/* What a region calls an address of it: by a symbol, else by its own name. */
static const char *name_in_region(const struct extent *place, uint64_t vaddr, uint64_t *first)
{
    const struct region *const region = place->what;
    const char *const name =
        region->symbols ? ptd_symbols_find(region->symbols, vaddr - region->bias, first) : NULL;

    if (name && *first + region->bias <= vaddr && *first + region->bias >= place->first) {
        *first += region->bias;
        return name;
    }
    *first = place->first;
    return region->name;
}

static const char *name_of_region(const struct space *const *places, unsigned count, uint64_t vaddr,
                                  uint64_t *first)
{
    for (unsigned i = 0; i < count; i++) {
        const struct extent *const place = ptd_extents_below(&places[i]->regions, vaddr, NULL);

        if (place && place->last >= vaddr)
            return name_in_region(place, vaddr, first);
    }
    return NULL;
}

const char *ptd_image_symbol(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr,
                             uint64_t *offset)
{
    const struct space *places[PLACES];
    const unsigned count = places_of(image, cr3, places);
    uint64_t first = 0;
    bool has_code;
    const char *name = name_with_code(places, count, vaddr, &first, &has_code);

    if (!name && !has_code)
        name = name_without_code(places, count, vaddr, &first);
    if (!name)
        name = name_of_region(places, count, vaddr, &first);
    if (name && offset)
        *offset = vaddr - first;
    return name;
}

/* The symbols of the place that gives the code, or beneath a patch of the next one. */
static const struct symbols *symbols_with_code(const struct space *const *places, unsigned count,
                                               uint64_t vaddr, uint64_t *address, bool *has_code)
{
    *has_code = false;
    for (unsigned i = 0; i < count; i++) {
        const struct extent *const segment = find_segment(places[i], vaddr);
        const struct extent *const of =
            segment ? ptd_extents_below(&places[i]->ranges, vaddr, NULL) : NULL;
        const struct range *const range = of && of->last >= vaddr ? of->what : NULL;

        *has_code = *has_code || segment;
        if (range && range->symbols) {
            *address = vaddr - range->bias;
            return range->symbols;
        }
        if (segment && segment->kind != SEGMENT_PATCH)
            return NULL;
    }
    return NULL;
}

const struct symbols *ptd_image_symbols_at(const struct ptd_image *image, uint64_t cr3,
                                           uint64_t vaddr, uint64_t *address)
{
    const struct space *places[PLACES];
    const unsigned count = places_of(image, cr3, places);
    bool has_code;
    const struct symbols *const found = symbols_with_code(places, count, vaddr, address, &has_code);

    for (unsigned i = 0; !found && !has_code && i < count; i++) {
        const struct extent *const place = ptd_extents_below(&places[i]->regions, vaddr, NULL);
        const struct region *const region = place && place->last >= vaddr ? place->what : NULL;

        if (!region)
            continue;
        *address = vaddr - region->bias;
        return region->symbols;
    }
    return found;
}
