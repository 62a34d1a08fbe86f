/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debug information by libdw. Whoever made the file chose all of it, so that what libdw would do
 * without asking is done here, or bounded before it begins:
 *   - it opens no file by a name: what dwz took out is handed to it, or in its place a file without
 *     anything; split files (.dwo) are never asked for, so functions of these are not known;
 *   - sections are counted before they are read and unpacked; tables of abbreviations and of lines
 *     before they are read, by what the greatest number of entries in them would take;
 *   - trees are walked here, by steps that lead forward, to a greatest depth.
 */
#include "symbols/dwarf-file.h"

#ifdef VPT_LIBDW

#include "common/list.h"
#include "symbols/dwarf-tables.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX  64u        /* of blocks in a function, of namespaces */
#define STEPS_MAX  65536u     /* entries that are looked at for one address; ranges of one entry */
#define RANGES_MAX (1u << 20) /* of the units of a file; of the functions of all that are kept */
#define CHAIN_MAX  16u        /* from an entry to the one with its name */

/* Addresses from first up to end. */
struct range {
    uint64_t first, end;
    uint64_t of; /* units: the number of it; functions: the offset of its entry */
};

struct ranges {
    struct range *list;
    size_t count, room;
};

/* A compilation unit. */
struct unit {
    Dwarf_Off die;
    uint64_t bytes; /* as many entries at most */
    struct ranges functions;
    bool is_read;
    enum { LINES_UNKNOWN, LINES_REFUSED, LINES_THERE } lines;
};

struct dwarf_file {
    Elf *elf, *other_elf;
    Dwarf *dwarf, *other; /* what dwz took out, or nothing */
    struct dwarf_tables tables;
    struct unit *units;
    size_t unit_count, unit_room;
    struct ranges ranges;  /* of units */
    size_t function_count; /* ranges of functions that are kept */
};

bool dwarf_is_there(void)
{
    return true;
}

/* ---- Ranges ---- */

static bool add_range(struct ranges *ranges, struct range range)
{
    struct range *grown;

    if (range.first == 0 || range.first >= range.end) /* of code that the linker left out */
        return true;
    grown = list_grow(ranges->list, ranges->count, &ranges->room, sizeof(*grown));
    if (!grown)
        return false;
    ranges->list = grown;
    ranges->list[ranges->count++] = range;
    return true;
}

/* The ranges of an entry. False: too many, or no memory. */
static bool add_ranges(struct ranges *ranges, Dwarf_Die *die, uint64_t of)
{
    Dwarf_Addr base, first, end;
    ptrdiff_t at = 0;

    for (unsigned steps = 0; (at = dwarf_ranges(die, at, &base, &first, &end)) > 0; steps++) {
        if (steps == STEPS_MAX || ranges->count == RANGES_MAX ||
            !add_range(ranges, (struct range){first, end, of}))
            return false;
    }
    return true;
}

static int by_first(const void *left, const void *right)
{
    const struct range *const a = left, *const b = right;

    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->of < b->of ? -1 : a->of > b->of;
}

static void sort_ranges(struct ranges *ranges)
{
    if (ranges->count)
        qsort(ranges->list, ranges->count, sizeof(*ranges->list), by_first);
}

/* NULL: the address is in none. Of some that begin at one address, the first one. */
static const struct range *find_range(const struct ranges *ranges, uint64_t address)
{
    size_t low = 0, high = ranges->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (ranges->list[middle].first <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    while (low > 1 && ranges->list[low - 2].first == ranges->list[low - 1].first)
        low--;
    return address < ranges->list[low - 1].end ? &ranges->list[low - 1] : NULL;
}

/* ---- Entries ---- */

/* The next entry of the same parent, which has to stand behind it. */
static bool next_sibling(Dwarf_Die *die)
{
    const Dwarf_Off before = dwarf_dieoffset(die);
    Dwarf_Die next;

    if (dwarf_siblingof(die, &next) != 0 || dwarf_dieoffset(&next) <= before)
        return false;
    *die = next;
    return true;
}

static int go_on(Dwarf_Attribute *attribute, void *context)
{
    (void)attribute;
    (void)context;
    return DWARF_CB_OK;
}

/*
 * A text that stands in the entry itself may have no end in the section: libdw looks for the end
 * only where it goes on behind the text. Others stand in sections that end with an end.
 */
static const char *text_of(Dwarf_Die *die, unsigned name)
{
    Dwarf *const dwarf = dwarf_cu_getdwarf(die->cu);
    Dwarf_Attribute attribute;
    const char *text;

    if (!dwarf_attr(die, name, &attribute))
        return NULL;
    text = dwarf_formstring(&attribute);
    if (dwarf_whatform(&attribute) == DW_FORM_string)
        return dwarf_getattrs(die, go_on, NULL, 0) == 1 ? text : NULL;
    return dwarf_tables_holds(dwarf_getelf(dwarf), text) ||
                   dwarf_tables_holds(dwarf_getelf(dwarf_getalt(dwarf)), text)
               ? text
               : NULL;
}

/* The entry that one refers to, as the place where its name stands. */
static bool follow(Dwarf_Die *die)
{
    static const unsigned ways[] = {DW_AT_abstract_origin, DW_AT_specification};
    Dwarf_Attribute attribute;
    Dwarf_Die next;

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (dwarf_attr(die, ways[i], &attribute) && dwarf_formref_die(&attribute, &next)) {
            *die = next;
            return true;
        }
    }
    return false;
}

/* As linkers know it, else as the source has it. */
static const char *name_of(const Dwarf_Die *of)
{
    Dwarf_Die die = *of;
    const char *name = NULL, *linkage = NULL;

    for (unsigned i = 0; !linkage && i < CHAIN_MAX; i++) {
        linkage = text_of(&die, DW_AT_linkage_name);
        if (!linkage)
            linkage = text_of(&die, DW_AT_MIPS_linkage_name);
        if (!name)
            name = text_of(&die, DW_AT_name);
        if (!follow(&die))
            break;
    }
    return linkage ? linkage : name;
}

/* ---- Functions ---- */

struct walk {
    struct unit *unit;
    uint64_t steps;
    bool is_full;
};

static bool holds_functions(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
           tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type || tag == DW_TAG_module;
}

/* A unit cannot hold more entries than bytes; one whose entries lead back and forth ends there. */
static void collect(struct walk *walk, Dwarf_Die *parent, unsigned depth)
{
    Dwarf_Die child;

    if (depth == DEPTH_MAX || dwarf_child(parent, &child) != 0)
        return;
    do {
        const int tag = dwarf_tag(&child);

        if (tag == DW_TAG_subprogram)
            walk->is_full |= !add_ranges(&walk->unit->functions, &child, dwarf_dieoffset(&child));
        else if (holds_functions(tag))
            collect(walk, &child, depth + 1);
    } while (!walk->is_full && ++walk->steps < walk->unit->bytes && next_sibling(&child));
}

static void forget_functions(struct dwarf_file *file)
{
    for (size_t i = 0; i < file->unit_count; i++) {
        free(file->units[i].functions.list);
        file->units[i].functions = (struct ranges){0};
        file->units[i].is_read = false;
    }
    file->function_count = 0;
}

static void read_functions(struct dwarf_file *file, struct unit *unit, Dwarf_Die *die)
{
    struct walk walk = {.unit = unit};

    if (unit->is_read)
        return;
    if (file->function_count >= RANGES_MAX)
        forget_functions(file);
    unit->is_read = true;
    collect(&walk, die, 0);
    sort_ranges(&unit->functions);
    file->function_count += unit->functions.count;
}

/* ---- What is in a function ---- */

static bool is_block(int tag)
{
    return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
           tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

/* The block of an entry that holds an address, in place of it. */
static bool enter_block(Dwarf_Die *die, uint64_t address, unsigned *steps)
{
    Dwarf_Die child;

    if (dwarf_child(die, &child) != 0)
        return false;
    do {
        if (is_block(dwarf_tag(&child)) && dwarf_haspc(&child, address) > 0) {
            *die = child;
            return true;
        }
    } while (++*steps < STEPS_MAX && next_sibling(&child));
    return false;
}

/* The function at an address and what was compiled into it there, the outermost first. */
static size_t find_inlined(Dwarf_Die *function, uint64_t address, Dwarf_Die found[FRAMES_MAX])
{
    Dwarf_Die die = *function;
    unsigned steps = 0;
    size_t count = 1;

    found[0] = *function;
    for (unsigned depth = 0; depth < DEPTH_MAX && enter_block(&die, address, &steps); depth++) {
        if (dwarf_tag(&die) != DW_TAG_inlined_subroutine)
            continue;
        if (count == FRAMES_MAX)
            break;
        found[count++] = die;
    }
    return count;
}

/* ---- Lines ---- */

static bool may_read_lines(struct dwarf_file *file, struct unit *unit, Dwarf_Die *die,
                           uint64_t *left)
{
    Dwarf_Attribute attribute;
    size_t count, file_count;
    Dwarf_Lines *lines;
    Dwarf_Files *files;
    Dwarf_Word offset;
    uint64_t kept;

    if (unit->lines != LINES_UNKNOWN)
        return unit->lines == LINES_THERE;
    unit->lines = LINES_REFUSED;
    if (!dwarf_attr(die, DW_AT_stmt_list, &attribute) ||
        dwarf_formudata(&attribute, &offset) != 0 ||
        dwarf_tables_lines(&file->tables, offset) > *left ||
        dwarf_getsrclines(die, &lines, &count) != 0 ||
        dwarf_getsrcfiles(die, &files, &file_count) != 0)
        return false;
    kept = dwarf_tables_kept(count, files, file_count);
    *left -= kept < *left ? kept : *left;
    unit->lines = LINES_THERE;
    return true;
}

static void find_line(Dwarf_Die *unit, uint64_t address, struct source_frame *frame)
{
    Dwarf_Line *const line = dwarf_getsrc_die(unit, address);
    int number;

    if (!line)
        return;
    frame->file = dwarf_linesrc(line, NULL, NULL);
    frame->line = dwarf_lineno(line, &number) == 0 && number > 0 ? (unsigned)number : 0;
}

static uint64_t number_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    return dwarf_attr(die, name, &attribute) && dwarf_formudata(&attribute, &value) == 0 ? value
                                                                                         : 0;
}

/* Where a function was called that was compiled into its caller. */
static void find_call(Dwarf_Die *unit, Dwarf_Die *inlined, struct source_frame *frame)
{
    const uint64_t index = number_of(inlined, DW_AT_call_file);
    Dwarf_Files *files;
    size_t count;

    if (dwarf_getsrcfiles(unit, &files, &count) == 0 && index < count)
        frame->file = dwarf_filesrc(files, index, NULL, NULL);
    frame->line = (unsigned)number_of(inlined, DW_AT_call_line);
}

/* ---- An address ---- */

static size_t frames_of(struct dwarf_file *file, struct unit *unit, uint64_t address,
                        uint64_t *left, struct source_frame frames[FRAMES_MAX])
{
    Dwarf_Die found[FRAMES_MAX], die, function;
    const struct range *range;
    bool has_lines;
    size_t count;

    if (!dwarf_offdie(file->dwarf, unit->die, &die))
        return 0;
    read_functions(file, unit, &die);
    range = find_range(&unit->functions, address);
    count = range && dwarf_offdie(file->dwarf, range->of, &function)
                ? find_inlined(&function, address, found)
                : 0;
    has_lines = may_read_lines(file, unit, &die, left);
    for (size_t i = 0; i < count || i == 0; i++) {
        frames[i] = (struct source_frame){0};
        if (count)
            frames[i].function = name_of(&found[count - 1 - i]);
        if (has_lines && i == 0)
            find_line(&die, address, &frames[0]);
        else if (has_lines)
            find_call(&die, &found[count - i], &frames[i]);
    }
    return count ? count : 1;
}

size_t dwarf_file_frames(struct dwarf_file *file, uint64_t address, uint64_t *left,
                         struct source_frame frames[FRAMES_MAX])
{
    const struct range *const range = find_range(&file->ranges, address);

    return range ? frames_of(file, &file->units[range->of], address, left, frames) : 0;
}

/* ---- Files ---- */

/* False: no memory, or too many. */
static bool add_unit(struct dwarf_file *file, Dwarf_Off offset, uint64_t bytes)
{
    Dwarf_Die die;
    struct unit *grown;

    if (!dwarf_offdie(file->dwarf, offset, &die))
        return true;
    grown = list_grow(file->units, file->unit_count, &file->unit_room, sizeof(*grown));
    if (!grown)
        return false;
    file->units = grown;
    file->units[file->unit_count] = (struct unit){.die = offset, .bytes = bytes};
    return add_ranges(&file->ranges, &die, file->unit_count++);
}

/* All units, by the addresses of their code. */
static bool read_units(struct dwarf_file *file, uint64_t *left)
{
    Dwarf_Off offset = 0, next, abbreviations;
    size_t header_bytes;
    Dwarf_Half version;
    bool ok = true;

    while (ok && dwarf_next_unit(file->dwarf, offset, &next, &header_bytes, &version,
                                 &abbreviations, NULL, NULL, NULL, NULL) == 0) {
        const uint64_t cost = dwarf_tables_abbreviations(&file->tables, abbreviations);

        ok = next > offset && cost <= *left && add_unit(file, offset + header_bytes, next - offset);
        *left -= ok ? cost : 0;
        offset = next;
    }
    sort_ranges(&file->ranges);
    return ok;
}

static Elf *open_elf(int fd)
{
    Elf *const elf = elf_version(EV_CURRENT) != EV_NONE ? elf_begin(fd, ELF_C_READ, NULL) : NULL;

    if (!elf || elf_kind(elf) == ELF_K_ELF)
        return elf;
    (void)elf_end(elf);
    return NULL;
}

/* From what fd is, whose sections are read now. NULL: there are none, or more than *left. */
static Dwarf *open_dwarf(int fd, Elf **elf, struct dwarf_tables *tables, uint64_t *left)
{
    Dwarf *dwarf = NULL;
    uint64_t bytes;

    *elf = open_elf(fd);
    bytes = *elf ? dwarf_tables_measure(*elf) : 0;
    if (bytes > 0 && bytes <= *left)
        dwarf = dwarf_begin_elf(*elf, DWARF_C_READ, NULL);
    if (dwarf)
        dwarf_tables_find(*elf, tables);
    if (dwarf && !tables->is_damaged) {
        *left -= bytes;
        (void)elf_cntl(*elf, ELF_C_FDDONE);
        return dwarf;
    }
    (void)dwarf_end(dwarf);
    if (*elf)
        (void)elf_end(*elf);
    *elf = NULL;
    return NULL;
}

/* What dwz took out of several files, or in its place nothing: else libdw would look for it. */
static bool open_other(struct dwarf_file *file, const struct debug_places *places,
                       const struct file_name *name, uint64_t *left)
{
    struct dwarf_tables unused;
    const char *path;
    const void *bytes;
    const ssize_t len = dwelf_dwarf_gnu_debugaltlink(file->dwarf, &path, &bytes);
    struct elf_id id = {0};
    int fd = -1;

    if (len > 0 && len <= (ssize_t)ELF_ID_BYTES_MAX) {
        id.len = (uint8_t)len;
        memcpy(id.bytes, bytes, id.len);
        fd = debug_file_beside(places, name, path, &id);
    }
    if (fd >= 0) {
        file->other = open_dwarf(fd, &file->other_elf, &unused, left);
        (void)close(fd);
    }
    if (!file->other)
        file->other = dwarf_tables_nothing(&file->other_elf);
    if (file->other)
        dwarf_setalt(file->dwarf, file->other);
    return file->other != NULL;
}

static struct dwarf_file *open_file(const struct debug_places *places, const struct file_name *name,
                                    int fd, uint64_t *left)
{
    struct dwarf_file *const file = calloc(1, sizeof(*file));

    if (!file)
        return NULL;
    file->dwarf = open_dwarf(fd, &file->elf, &file->tables, left);
    if (file->dwarf && open_other(file, places, name, left) && read_units(file, left))
        return file;
    dwarf_file_close(file);
    return NULL;
}

struct dwarf_file *dwarf_file_open(const struct debug_places *places, const struct file_name *name,
                                   int fd, uint64_t *left)
{
    struct dwarf_file *file = open_file(places, name, fd, left);
    Elf *const elf = file ? NULL : open_elf(fd);
    struct debug_name found;
    int other = -1;

    if (elf) {
        other = debug_file_of(places, name, elf, &found);
        (void)elf_end(elf);
    }
    if (other >= 0) {
        const struct file_name of_other = debug_name_of(&found);

        file = open_file(places, &of_other, other, left);
        (void)close(other);
    }
    return file;
}

void dwarf_file_close(struct dwarf_file *file)
{
    if (!file)
        return;
    forget_functions(file);
    free(file->units);
    free(file->ranges.list);
    (void)dwarf_end(file->dwarf);
    (void)dwarf_end(file->other);
    if (file->elf)
        (void)elf_end(file->elf);
    if (file->other_elf)
        (void)elf_end(file->other_elf);
    free(file);
}

#else

bool dwarf_is_there(void)
{
    return false;
}

struct dwarf_file *dwarf_file_open(const struct debug_places *places, const struct file_name *name,
                                   int fd, uint64_t *left)
{
    (void)places;
    (void)name;
    (void)fd;
    (void)left;
    return NULL;
}

void dwarf_file_close(struct dwarf_file *file)
{
    (void)file;
}

size_t dwarf_file_frames(struct dwarf_file *file, uint64_t address, uint64_t *left,
                         struct source_frame frames[FRAMES_MAX])
{
    (void)file;
    (void)address;
    (void)left;
    (void)frames;
    return 0;
}

#endif
