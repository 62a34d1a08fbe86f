/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counts of functions' instructions. What is counted is blocks, by number; each is a list
 * of lines, and a line is an instruction of a function, in one version of its code.
 */
#include "report/annotate.h"
#include "common/list.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_MASK 4095u
#define PROBES    16u /* instructions by which functions at two places are compared */
#define NO_LINE   UINT32_MAX
#define ENDS_OUTSIDE                                                                               \
    (UINT64_C(1) << 63) /* in a block's count: its last instruction is elsewhere                   \
                         */

void annotate_begin(struct annotate *annotate, const char *name)
{
    *annotate = (struct annotate){.name = name};
}

void annotate_free(struct annotate *annotate)
{
    free(annotate->functions);
    free(annotate->codes);
    free(annotate->refs);
    table_free(&annotate->places);
    table_free(&annotate->lines);
    table_free(&annotate->frames);
    table_free(&annotate->blocks);
    names_free(&annotate->seen);
}

/* ---- Code ---- */

/* Where an instruction stands. */
struct spot {
    const struct ptd_image *image;
    uint64_t space, ip;
};

/* The instruction at ip, as the image has it now. False: it has none there. */
static bool code_at(const struct ptd_image *image, uint64_t space, uint64_t ip, uint8_t mode,
                    struct annotate_code *code)
{
    uint8_t bytes[sizeof(code->bytes)];
    struct ptd_insn insn;
    size_t len = 0;

    while (len < sizeof(bytes)) {
        const uint8_t *found;
        size_t more;

        if (ptd_image_find(image, space, ip + len, &found, &more) != PTD_OK)
            break;
        more = more < sizeof(bytes) - len ? more : sizeof(bytes) - len;
        memcpy(bytes + len, found, more);
        len += more;
    }
    if (len == 0 || ptd_insn_decode(mode, ip, bytes, len, &insn) != PTD_OK)
        return false;
    *code =
        (struct annotate_code){.size_bytes = insn.size_bytes, .iclass = insn.iclass, .mode = mode};
    memcpy(code->bytes, bytes, insn.size_bytes);
    return true;
}

static bool same_code(const struct annotate_code *a, const struct annotate_code *b)
{
    return a->size_bytes == b->size_bytes && a->mode == b->mode &&
           memcmp(a->bytes, b->bytes, a->size_bytes) == 0;
}

/* ---- Sources ---- */

/* A place that is called from another one, which is the number `outer` - 1; 0: from none. Its own
 * number plus 1; 0: no memory, or no room. */
static uint32_t add_frame(struct annotate *annotate, const struct source_frame *frame,
                          uint32_t outer)
{
    const uint64_t function = (uintptr_t)frame->function, file = (uintptr_t)frame->file;
    const uint64_t where = (uint64_t)outer << 32 | frame->line;
    const struct sum *sum = table_find(&annotate->frames, function, file, where);

    if (!sum && annotate->frames.count >= ANNOTATE_FRAMES_MAX) {
        annotate->is_cut = true;
        return 0;
    }
    if (!sum)
        sum = table_at(&annotate->frames, function, file, where);
    return sum ? (uint32_t)(sum - annotate->frames.sums) + 1 : 0;
}

/* Where the code of a spot is from. False: no memory. */
static bool find_source(struct annotate *annotate, const struct spot *spot,
                        struct annotate_code *code)
{
    struct source_frame frames[FRAMES_MAX];
    size_t count = 0;

    if (annotate->frames_of)
        count =
            annotate->frames_of(annotate->frames_owner, spot->image, spot->space, spot->ip, frames);
    while (count-- > 0) {
        code->frame = add_frame(annotate, &frames[count], code->frame);
        if (code->frame == 0)
            return annotate->is_cut;
    }
    return true;
}

size_t annotate_frames(const struct annotate *annotate, const struct annotate_code *code,
                       struct source_frame frames[FRAMES_MAX])
{
    uint32_t next = code->frame;
    size_t count = 0;

    while (next > 0 && count < FRAMES_MAX) {
        const uint64_t *const key = annotate->frames.sums[next - 1].key;

        frames[count++] = (struct source_frame){.function = (const char *)(uintptr_t)key[0],
                                                .file = (const char *)(uintptr_t)key[1],
                                                .line = (unsigned)key[2]};
        next = (uint32_t)(key[2] >> 32);
    }
    return count;
}

/* ---- Lines ---- */

/* A new line; NO_LINE: no memory. */
static uint32_t add_line(struct annotate *annotate, const struct spot *spot, uint64_t function,
                         uint64_t offset, uint64_t version, const struct annotate_code *code)
{
    struct annotate_code *const grown =
        list_grow(annotate->codes, annotate->lines.count, &annotate->code_room, sizeof(*grown));

    if (!grown)
        return NO_LINE;
    annotate->codes = grown;
    annotate->codes[annotate->lines.count] = *code;
    if (!table_at(&annotate->lines, function, offset, version) ||
        !find_source(annotate, spot, &annotate->codes[annotate->lines.count - 1]))
        return NO_LINE;
    return (uint32_t)(annotate->lines.count - 1);
}

/* Where a line stands in the list. */
static uint32_t number_of(const struct annotate *annotate, const struct sum *line)
{
    return (uint32_t)(line - annotate->lines.sums);
}

/* The line of an instruction, in the version that has this code; NO_LINE: no memory, or no room. */
static uint32_t line_of(struct annotate *annotate, const struct spot *spot, uint64_t function,
                        uint64_t offset, const struct annotate_code *code)
{
    for (uint64_t version = 0; version < ANNOTATE_VERSIONS_MAX; version++) {
        const struct sum *const line = table_find(&annotate->lines, function, offset, version);

        if (line && same_code(&annotate->codes[number_of(annotate, line)], code))
            return number_of(annotate, line);
        if (!line && annotate->lines.count < ANNOTATE_LINES_MAX)
            return add_line(annotate, spot, function, offset, version, code);
        if (!line)
            break;
    }
    annotate->is_cut = true;
    return NO_LINE;
}

/* ---- Functions ---- */

/* Of a demangled name, parameters may be left out. */
static bool is_named(const struct annotate *annotate, const char *name)
{
    const size_t len = annotate->name ? strlen(annotate->name) : 0;
    const char *shown;

    if (!annotate->name || strcmp(name, annotate->name) == 0)
        return true;
    shown = shown_name(annotate->shown, name);
    return shown != name && strncmp(shown, annotate->name, len) == 0 &&
           (shown[len] == 0 || shown[len] == '(');
}

static bool is_in(const struct annotate *annotate, const struct ptd_image *image, uint64_t space,
                  uint64_t ip, uint64_t *offset)
{
    const char *const name = ptd_image_symbol(image, space, ip, offset);

    return name && is_named(annotate, name);
}

/* The number of the name of a function that begins at an address; UINT32_MAX: no memory. */
static uint32_t name_at(struct annotate *annotate, const struct ptd_image *image, uint64_t space,
                        uint64_t start)
{
    const char *const name = ptd_image_symbol(image, space, start, NULL);

    if (name && is_named(annotate, name))
        return names_add(&annotate->seen, shown_name(annotate->shown, name));
    return names_add(&annotate->seen, annotate->name ? annotate->name : "?");
}

/* All of it, from its start on, for what does not run is shown, too. False: no memory. */
static bool sweep(struct annotate *annotate, const struct ptd_image *image,
                  const struct ptd_item *block, uint64_t function)
{
    const uint64_t start = annotate->functions[function].start;
    uint64_t offset = 0, found;
    struct annotate_code code;

    for (unsigned i = 0; i < ANNOTATE_SWEEP_MAX; i++) {
        const struct spot spot = {image, block->cr3, start + offset};

        if (!is_in(annotate, image, block->cr3, spot.ip, &found) || found != offset ||
            !code_at(image, block->cr3, spot.ip, block->mode, &code))
            return true;
        if (line_of(annotate, &spot, function, offset, &code) == NO_LINE)
            return annotate->is_cut;
        offset += code.size_bytes;
    }
    annotate->is_cut = true;
    return true;
}

/* Whether a function that is known is the one at start, by the code that it begins with. */
static bool is_same(const struct annotate *annotate, const struct ptd_image *image, uint64_t space,
                    uint64_t start, const struct annotate_function *function)
{
    const uint32_t probes = function->line_count < PROBES ? function->line_count : PROBES;

    if ((function->start ^ start) & PAGE_MASK)
        return false;
    for (uint32_t i = 0; i < probes; i++) {
        const uint32_t line = function->first_line + i;
        const struct annotate_code *const code = &annotate->codes[line];
        struct annotate_code other;

        if (!code_at(image, space, start + annotate->lines.sums[line].key[1], code->mode, &other) ||
            !same_code(code, &other))
            return false;
    }
    return probes > 0 || function->start == start;
}

static bool add_function(struct annotate *annotate, const struct ptd_image *image,
                         const struct ptd_item *block, uint64_t start, uint32_t name)
{
    const size_t number = annotate->function_count, first = annotate->lines.count;
    struct annotate_function *const grown =
        list_grow(annotate->functions, number, &annotate->function_room, sizeof(*grown));

    if (!grown)
        return false;
    annotate->functions = grown;
    annotate->functions[annotate->function_count++] =
        (struct annotate_function){.start = start, .name = name, .first_line = (uint32_t)first};
    if (!sweep(annotate, image, block, number))
        return false;
    annotate->functions[number].line_count = (uint32_t)(annotate->lines.count - first);
    return true;
}

/* A function ran at an address, in whatever address space. False: no memory. */
static bool count_address(struct annotate *annotate, size_t function, uint64_t start)
{
    struct sum *const address = table_at(&annotate->places, 0, start, function + 1);

    if (address && address->count++ == 0)
        annotate->functions[function].places++;
    return address;
}

/* The number of the function at start, plus 1; 0: there are too many. False: no memory. */
static bool function_at(struct annotate *annotate, const struct ptd_image *image,
                        const struct ptd_item *block, uint64_t start, uint64_t *number)
{
    struct sum *place;
    uint32_t name;
    size_t i = 0;

    *number = 0;
    if (annotate->places.count >= ANNOTATE_PLACES_MAX &&
        !table_find(&annotate->places, block->cr3, start, 0)) {
        annotate->is_cut = true;
        return true;
    }
    place = table_at(&annotate->places, block->cr3, start, 0);
    if (!place)
        return false;
    *number = place->count;
    if (*number)
        return true;
    name = name_at(annotate, image, block->cr3, start);
    if (name == UINT32_MAX)
        return false;
    while (i < annotate->function_count &&
           (annotate->functions[i].name != name ||
            !is_same(annotate, image, block->cr3, start, &annotate->functions[i])))
        i++;
    if (i == (annotate->name ? ANNOTATE_FUNCTIONS_MAX : ANNOTATE_ALL_MAX)) {
        annotate->is_cut = true;
        return true;
    }
    if (i == annotate->function_count && !add_function(annotate, image, block, start, name))
        return false;
    *number = place->count = i + 1;
    return count_address(annotate, i, start);
}

/* ---- Blocks ---- */

/* Adds the line of an instruction of the block to refs. False: no memory. */
static bool take_insn(struct annotate *annotate, const struct ptd_image *image,
                      const struct ptd_item *block, uint64_t ip, uint64_t offset)
{
    const struct spot spot = {image, block->cr3, ip};
    struct annotate_code code;
    uint64_t function;
    uint32_t line, *grown;

    if (!function_at(annotate, image, block, ip - offset, &function))
        return false;
    if (function == 0 || !code_at(image, block->cr3, ip, block->mode, &code))
        return true;
    line = line_of(annotate, &spot, function - 1, offset, &code);
    if (line == NO_LINE)
        return annotate->is_cut;
    if (annotate->ref_count == ANNOTATE_REFS_MAX) {
        annotate->is_cut = true;
        return true;
    }
    grown = list_grow(annotate->refs, annotate->ref_count, &annotate->ref_room, sizeof(*grown));
    if (!grown)
        return false;
    annotate->refs = grown;
    annotate->refs[annotate->ref_count++] = line;
    return true;
}

/* The lines behind `first` are a block: its number, the same if there was one like it. */
static uint32_t block_of(struct annotate *annotate, size_t first, bool ends_inside)
{
    const size_t count = annotate->ref_count - first;
    uint64_t sum = 0xcbf29ce484222325u;
    struct sum *block;

    if (count == 0)
        return ANNOTATE_ELSEWHERE;
    for (size_t i = first; i < annotate->ref_count; i++)
        sum = (sum ^ annotate->refs[i]) * 0x100000001b3u;
    block = table_at(&annotate->blocks, annotate->refs[first],
                     (uint64_t)annotate->refs[annotate->ref_count - 1] << 1 | ends_inside, sum);
    if (!block)
        return UINT32_MAX;
    if (block->count)
        annotate->ref_count = first;
    else
        *block = (struct sum){.key = {block->key[0], block->key[1], block->key[2]},
                              .count = count | (ends_inside ? 0 : ENDS_OUTSIDE),
                              .cost = first};
    return (uint32_t)(block - annotate->blocks.sums) + 1;
}

static bool note_name(struct annotate *annotate, const struct ptd_image *image,
                      const struct ptd_item *block)
{
    const char *const name =
        shown_name(annotate->shown, ptd_image_symbol(image, block->cr3, block->ip, NULL));

    return !name || names_add(&annotate->seen, name) != UINT32_MAX;
}

uint32_t annotate_see(struct annotate *annotate, const struct ptd_image *image,
                      const struct ptd_item *block)
{
    const size_t first = annotate->ref_count;
    uint64_t ip = block->ip, offset;
    bool inside = false;
    struct ptd_insn insn;

    if (!note_name(annotate, image, block))
        return UINT32_MAX;
    while (ptd_block_insn(image, block, &ip, &insn) == PTD_OK) {
        inside = is_in(annotate, image, block->cr3, insn.ip, &offset);
        if (inside && !take_insn(annotate, image, block, insn.ip, offset))
            return UINT32_MAX;
    }
    return block_of(annotate, first, inside);
}

void annotate_add(struct annotate *annotate, uint32_t block, uint8_t last_class, bool taken,
                  uint64_t count)
{
    const struct sum *const found =
        block == ANNOTATE_ELSEWHERE ? NULL : &annotate->blocks.sums[block - 1];
    const size_t lines = found ? (size_t)(found->count & ~ENDS_OUTSIDE) : 0;

    for (size_t i = 0; i < lines; i++)
        annotate->lines.sums[annotate->refs[found->cost + i]].count += count;
    if (found && !(found->count & ENDS_OUTSIDE) && last_class == PTD_INSN_COND && taken)
        annotate->lines.sums[annotate->refs[found->cost + lines - 1]].cost += count;
}
