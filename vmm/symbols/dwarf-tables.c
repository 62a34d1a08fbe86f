/* SPDX-License-Identifier: BSD-3-Clause */
/* The size of what libdw makes of tables; numbers of bytes are those of elfutils 0.188, rounded up.
 */
#ifdef VPT_LIBDW

#include "symbols/dwarf-tables.h"

#include <elf.h>
#include <gelf.h>
#include <stdbool.h>
#include <string.h>

#define LINE_COST   112u /* of a line, while it is read */
#define LINE_KEPT   48u
#define FILE_KEPT   64u
#define ABBREV_COST 24u /* for each byte of abbreviations; an entry has three at least */
#define SOURCE_MIN  4u  /* bytes of a source in the header of lines */

/* ---- Sections ---- */

static const char *section_name(Elf *elf, size_t names, Elf_Scn *section, GElf_Shdr *header)
{
    const char *const name = gelf_getshdr(section, header) && header->sh_type != SHT_NOBITS
                                 ? elf_strptr(elf, names, header->sh_name)
                                 : NULL;

    return name ? name : "";
}

static bool is_debug(const char *name)
{
    return strncmp(name, ".debug_", 7) == 0 || strncmp(name, ".zdebug_", 8) == 0 ||
           strncmp(name, ".gnu.debuglto_.debug_", 21) == 0;
}

/* Older than compressed sections of ELF: "ZLIB" and the size in front of the data. */
static uint64_t size_of_old(Elf_Scn *section)
{
    const Elf_Data *const data = elf_rawdata(section, NULL);
    const uint8_t *const bytes = data ? data->d_buf : NULL;
    uint64_t size = 0;

    if (!bytes || data->d_size < 12 || memcmp(bytes, "ZLIB", 4) != 0)
        return 0;
    for (unsigned i = 4; i < 12; i++)
        size = size << 8 | bytes[i];
    return size;
}

/* As long as it is, and as long as it will be. */
static uint64_t size_of(Elf_Scn *section, const GElf_Shdr *header, const char *name)
{
    uint64_t size = header->sh_size, unpacked = 0;
    GElf_Chdr packed;

    if (header->sh_flags & SHF_COMPRESSED)
        unpacked = gelf_getchdr(section, &packed) ? packed.ch_size : UINT64_MAX;
    else if (strncmp(name, ".zdebug_", 8) == 0)
        unpacked = size_of_old(section);
    return unpacked > UINT64_MAX - size ? UINT64_MAX : size + unpacked;
}

uint64_t dwarf_tables_measure(Elf *elf)
{
    Elf_Scn *section = NULL;
    uint64_t sum = 0;
    size_t names;

    if (elf_getshdrstrndx(elf, &names) != 0)
        return 0;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *const name = section_name(elf, names, section, &header);
        const uint64_t size = is_debug(name) ? size_of(section, &header, name) : 0;

        if (size > UINT64_MAX - sum)
            return UINT64_MAX;
        sum += size;
    }
    return sum;
}

/* The longest text in a section of them. */
static uint64_t longest_text(const uint8_t *bytes, size_t len)
{
    uint64_t longest = 0;

    while (len > 0) {
        const size_t text = strnlen((const char *)bytes, len), step = text < len ? text + 1 : len;

        longest = text > longest ? text : longest;
        bytes += step;
        len -= step;
    }
    return longest;
}

static bool is_named(const char *name, const char *wanted)
{
    if (*name++ != '.')
        return false;
    if (*name == 'z') /* compressed, the old way */
        name++;
    return strcmp(name, wanted) == 0;
}

static bool is_text(const char *name)
{
    return is_named(name, "debug_str") || is_named(name, "debug_line_str");
}

/* libdw takes the first of each name, too. */
static void see_section(struct dwarf_tables *tables, const char *name, Elf_Scn *section)
{
    struct dwarf_table *const table = is_named(name, "debug_abbrev") ? &tables->abbreviations
                                      : is_named(name, "debug_line") ? &tables->lines
                                                                     : NULL;
    const Elf_Data *const data =
        is_text(name) || (table && !table->bytes) ? elf_getdata(section, NULL) : NULL;
    uint64_t longest;

    if (!data || !data->d_buf)
        return;
    if (table) {
        *table = (struct dwarf_table){data->d_buf, data->d_size};
        return;
    }
    tables->is_damaged |= data->d_size > 0 && ((const char *)data->d_buf)[data->d_size - 1];
    longest = longest_text(data->d_buf, data->d_size);
    tables->longest = longest > tables->longest ? longest : tables->longest;
}

void dwarf_tables_find(Elf *elf, struct dwarf_tables *tables)
{
    Elf_Scn *section = NULL;
    size_t names;

    *tables = (struct dwarf_tables){.longest = 0};
    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *const name = section_name(elf, names, section, &header);

        if (is_debug(name))
            see_section(tables, name, section);
    }
}

bool dwarf_tables_holds(Elf *elf, const char *text)
{
    const uintptr_t at = (uintptr_t)text;
    Elf_Scn *section = NULL;
    size_t names;

    if (!elf || elf_getshdrstrndx(elf, &names) != 0)
        return false;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const Elf_Data *const data =
            is_text(section_name(elf, names, section, &header)) ? elf_getdata(section, NULL) : NULL;

        if (data && data->d_buf && at - (uintptr_t)data->d_buf < data->d_size)
            return true;
    }
    return false;
}

/* ---- Abbreviations ---- */

/* The number at *at, in 7 bits a byte; what does not fit is cut off. False: the end. */
static bool take_number(const struct dwarf_table *table, uint64_t *at, uint64_t *value)
{
    unsigned shift = 0;

    *value = 0;
    while (*at < table->len) {
        const uint8_t byte = table->bytes[(*at)++];

        if (shift < 64)
            *value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

#define FORM_IMPLICIT_CONST 0x21u /* a number follows */

/* Behind the attributes of an entry. */
static bool skip_attributes(const struct dwarf_table *table, uint64_t *at)
{
    uint64_t name, form, value;

    do {
        if (!take_number(table, at, &name) || !take_number(table, at, &form) ||
            (form == FORM_IMPLICIT_CONST && !take_number(table, at, &value)))
            return false;
    } while (name || form);
    return true;
}

uint64_t dwarf_tables_abbreviations(const struct dwarf_tables *tables, uint64_t offset)
{
    const struct dwarf_table *const table = &tables->abbreviations;
    uint64_t at = offset, code, tag;

    while (take_number(table, &at, &code) && code != 0) {
        if (!take_number(table, &at, &tag) || at++ >= table->len || !skip_attributes(table, &at))
            break;
    }
    return at > offset ? (at - offset) * ABBREV_COST : UINT64_MAX;
}

/* ---- Lines ---- */

static bool take_bytes(const struct dwarf_table *table, uint64_t *at, unsigned count,
                       uint64_t *value)
{
    *value = 0;
    if (table->len < count || *at > table->len - count)
        return false;
    for (unsigned i = 0; i < count; i++)
        *value |= (uint64_t)table->bytes[*at + i] << 8 * i;
    *at += count;
    return true;
}

uint64_t dwarf_tables_lines(const struct dwarf_tables *tables, uint64_t offset)
{
    const struct dwarf_table *const table = &tables->lines;
    uint64_t at = offset, unit, end, version, header, longest = tables->longest, in_header;
    unsigned word = 4;

    if (!take_bytes(table, &at, 4, &unit))
        return UINT64_MAX;
    if (unit == UINT32_MAX) {
        word = 8;
        if (!take_bytes(table, &at, word, &unit))
            return UINT64_MAX;
    }
    if (unit > table->len - at)
        return UINT64_MAX;
    end = at + unit;
    if (!take_bytes(table, &at, 2, &version))
        return UINT64_MAX;
    at += version >= 5 ? 2 : 0;
    if (!take_bytes(table, &at, word, &header) || at > end || header > end - at)
        return UINT64_MAX;
    in_header = longest_text(table->bytes + at, header);
    longest = in_header > longest ? in_header : longest;
    return (end - at) * LINE_COST + header / SOURCE_MIN * (longest + FILE_KEPT);
}

uint64_t dwarf_tables_kept(size_t lines, Dwarf_Files *files, size_t file_count)
{
    uint64_t sum = (uint64_t)lines * LINE_KEPT;

    for (size_t i = 0; i < file_count; i++) {
        const char *const name = dwarf_filesrc(files, i, NULL, NULL);

        sum += FILE_KEPT + (name ? strlen(name) : 0);
    }
    return sum;
}

/* ---- Nothing ---- */

enum { NAMES = 1, INFO, SECTIONS };

static const char section_names[] = "\0.shstrtab\0.debug_info";

struct nothing {
    Elf64_Ehdr header;
    Elf64_Shdr sections[SECTIONS];
    char names[sizeof(section_names)];
};

Dwarf *dwarf_tables_nothing(Elf **elf)
{
    static struct nothing nothing = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_DYN,
                   .e_machine = EM_X86_64,
                   .e_version = EV_CURRENT,
                   .e_shoff = offsetof(struct nothing, sections),
                   .e_ehsize = sizeof(Elf64_Ehdr),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = SECTIONS,
                   .e_shstrndx = NAMES},
        .sections = {[NAMES] = {.sh_name = 1,
                                .sh_type = SHT_STRTAB,
                                .sh_offset = offsetof(struct nothing, names),
                                .sh_size = sizeof(section_names)},
                     [INFO] = {.sh_name = 11,
                               .sh_type = SHT_PROGBITS,
                               .sh_offset = offsetof(struct nothing, names),
                               .sh_size = 1}},
    };
    Dwarf *dwarf;

    memcpy(nothing.names, section_names, sizeof(section_names));
    *elf = elf_memory((char *)&nothing, sizeof(nothing));
    dwarf = *elf ? dwarf_begin_elf(*elf, DWARF_C_READ, NULL) : NULL;
    if (!dwarf && *elf) {
        (void)elf_end(*elf);
        *elf = NULL;
    }
    return dwarf;
}

#else

typedef int nothing_here; /* an empty file is none of C */

#endif
