/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Procedure linkage tables of x86. An entry is what it does: it jumps to where a slot of the global
 * offset table says, and a relocation of that slot names the symbol. Linkers lay entries out in
 * several ways, which need not be told apart. An entry for lazy binding that only says the number
 * of a relocation is named by that.
 */
#include "symbols/plt.h"
#include "common/list.h"

#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_BYTES 16u /* the longest */
#define STEP        8u  /* the shortest */

/* Far more than a program has, and of all sections together, which may lie over each other. */
#define ENTRIES_MAX    65536u
#define SYMBOL_MAX     1024u /* bytes of a name */
#define CODE_BYTES_MAX (UINT64_C(16) << 20)
#define TABLES_MAX     (UINT64_C(256) << 20) /* bytes: relocations, symbols, their names */

/* A slot of the global offset table. */
struct slot {
    uint64_t address;
    const char *symbol; /* in the file's string table */
};

struct slots {
    struct slot *list;
    size_t count, room;
};

struct entry {
    uint64_t address;
    const char *symbol;
};

struct plt {
    Elf *elf;
    bool is_64;
    uint64_t got;                     /* what %ebx holds in entries of 32 bits */
    uint64_t table_bytes, code_bytes; /* looked at so far */
    struct slots slots;
    struct slots lazy; /* those of .rela.plt, in its order */
    struct entry *entries;
    size_t entry_count, entry_room;
    bool no_memory;
};

/* ---- Slots ---- */

/* False: no memory. */
static bool add_slot(struct slots *slots, const struct slot *slot)
{
    struct slot *const grown = list_grow(slots->list, slots->count, &slots->room, sizeof(*grown));

    if (!grown)
        return false;
    slots->list = grown;
    slots->list[slots->count++] = *slot;
    return true;
}

/* The name of a symbol; NULL: it has none, or it is one that would not fit. */
static const char *symbol_of(const struct plt *plt, Elf_Data *symbols, size_t strings, size_t index)
{
    GElf_Sym symbol;
    const char *name;

    if (index == 0 || index > INT32_MAX || !gelf_getsym(symbols, (int)index, &symbol))
        return NULL;
    name = elf_strptr(plt->elf, strings, symbol.st_name);
    return name && name[0] && strnlen(name, SYMBOL_MAX) < SYMBOL_MAX ? name : NULL;
}

static void read_relocation(struct plt *plt, Elf_Data *data, const GElf_Shdr *header, int index,
                            Elf_Data *symbols, size_t strings, bool is_lazy)
{
    GElf_Rela rela = {0};
    GElf_Rel rel = {0};
    struct slot slot;

    if (header->sh_type == SHT_RELA && gelf_getrela(data, index, &rela))
        rel = (GElf_Rel){rela.r_offset, rela.r_info};
    else if (header->sh_type != SHT_REL || !gelf_getrel(data, index, &rel))
        return;
    slot = (struct slot){rel.r_offset, symbol_of(plt, symbols, strings, GELF_R_SYM(rel.r_info))};
    if (((slot.symbol || is_lazy) && !add_slot(&plt->slots, &slot)) ||
        (is_lazy && !add_slot(&plt->lazy, &slot)))
        plt->no_memory = true;
}

/* False: these would be too many. */
static bool count_table(struct plt *plt, const GElf_Shdr *header)
{
    if (header->sh_size > TABLES_MAX - plt->table_bytes)
        return false;
    plt->table_bytes += header->sh_size;
    return true;
}

/* Relocations of a table, if its symbols are those of the dynamic linker. */
static void read_relocations(struct plt *plt, Elf_Scn *section, const GElf_Shdr *header,
                             bool is_lazy)
{
    Elf_Scn *const linked = elf_getscn(plt->elf, header->sh_link);
    GElf_Shdr of_symbols, of_strings;
    Elf_Data *symbols, *data;
    size_t count;

    if (!linked || !gelf_getshdr(linked, &of_symbols) || of_symbols.sh_type != SHT_DYNSYM ||
        header->sh_entsize == 0 ||
        !gelf_getshdr(elf_getscn(plt->elf, of_symbols.sh_link), &of_strings) ||
        !count_table(plt, header) || !count_table(plt, &of_symbols) ||
        !count_table(plt, &of_strings))
        return;
    symbols = elf_getdata(linked, NULL);
    data = elf_getdata(section, NULL);
    count = data ? data->d_size / header->sh_entsize : 0;
    for (size_t i = 0; symbols && i < count && i < INT32_MAX && !plt->no_memory; i++)
        read_relocation(plt, data, header, (int)i, symbols, of_symbols.sh_link, is_lazy);
}

static int by_address(const void *left, const void *right)
{
    const struct slot *const a = left, *const b = right;

    return a->address < b->address ? -1 : a->address > b->address;
}

static const char *symbol_of_slot(const struct plt *plt, uint64_t address)
{
    const struct slot key = {.address = address};
    const struct slot *const found =
        plt->slots.count ? bsearch(&key, plt->slots.list, plt->slots.count, sizeof(key), by_address)
                         : NULL;

    return found ? found->symbol : NULL;
}

/* ---- Entries ---- */

static uint64_t word_at(const uint8_t *bytes)
{
    return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
           (uint64_t)bytes[3] << 24;
}

static uint64_t sign_extended(uint64_t word)
{
    return (uint64_t)(int64_t)(int32_t)(uint32_t)word;
}

/* How long ENDBR and a prefix BND are, in front of what counts. */
static size_t skip_front(const uint8_t *code, size_t len)
{
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e};
    size_t at = 0;

    if (len >= 4 && memcmp(code, endbr, 3) == 0 && (code[3] == 0xfa || code[3] == 0xfb))
        at = 4;
    return at < len && code[at] == 0xf2 ? at + 1 : at;
}

/* The symbol that the code at an address, which may be an entry, leads to; NULL: it is none. */
static const char *symbol_of_code(const struct plt *plt, const uint8_t *code, size_t len,
                                  uint64_t address)
{
    const size_t at = skip_front(code, len);
    uint64_t word;

    if (len - at < 6)
        return NULL;
    word = word_at(code + at + 2);
    if (code[at] == 0xff && code[at + 1] == 0x25)
        return symbol_of_slot(plt, plt->is_64 ? address + at + 6 + sign_extended(word) : word);
    if (code[at] == 0xff && code[at + 1] == 0xa3 && !plt->is_64)
        return symbol_of_slot(plt, (plt->got + word) & UINT32_MAX);
    word = word_at(code + at + 1);
    if (at >= 4 && code[at] == 0x68 && word < plt->lazy.count) /* ENDBR, PUSH number */
        return plt->lazy.list[word].symbol;
    return NULL;
}

static void read_entries(struct plt *plt, Elf_Scn *section, const GElf_Shdr *header)
{
    const bool is_known = header->sh_size <= CODE_BYTES_MAX - plt->code_bytes;
    const Elf_Data *const data = is_known ? elf_rawdata(section, NULL) : NULL;
    const uint8_t *const code = data ? data->d_buf : NULL;

    plt->code_bytes += is_known ? header->sh_size : 0;
    for (size_t at = 0; code && at < data->d_size && plt->entry_count < ENTRIES_MAX; at += STEP) {
        const uint64_t address = header->sh_addr + at;
        const char *const symbol = symbol_of_code(plt, code + at, data->d_size - at, address);
        struct entry *grown;

        if (!symbol)
            continue;
        grown = list_grow(plt->entries, plt->entry_count, &plt->entry_room, sizeof(*grown));
        if (!grown) {
            plt->no_memory = true;
            return;
        }
        plt->entries = grown;
        plt->entries[plt->entry_count++] = (struct entry){address, symbol};
    }
}

/* ---- Names ---- */

/* Up to the next entry. */
static uint64_t length_of(const struct plt *plt, size_t index)
{
    const struct entry *const entry = &plt->entries[index];

    return index + 1 < plt->entry_count && entry[1].address - entry->address < ENTRY_BYTES
               ? entry[1].address - entry->address
               : ENTRY_BYTES;
}

static int add_names(const struct plt *plt, struct ptd_file *file)
{
    struct ptd_name *const names = calloc(plt->entry_count + 1, sizeof(*names));
    char *texts = NULL, *next;
    size_t bytes = 1;
    int status = PTD_E_NOMEM;

    for (size_t i = 0; i < plt->entry_count; i++)
        bytes += strlen(plt->entries[i].symbol) + sizeof("@plt");
    next = texts = names ? malloc(bytes) : NULL;
    for (size_t i = 0; texts && i < plt->entry_count; i++) {
        names[i] = (struct ptd_name){next, plt->entries[i].address, length_of(plt, i)};
        next = stpcpy(stpcpy(next, plt->entries[i].symbol), "@plt") + 1;
    }
    if (texts)
        status = ptd_file_add_names(file, names, plt->entry_count);
    free(texts);
    free(names);
    return status;
}

/* What is told of each section, in the order of two walks: relocations first. */
static void see_section(struct plt *plt, Elf_Scn *section, const char *name, bool is_first)
{
    GElf_Shdr header;

    if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS ||
        header.sh_flags & SHF_COMPRESSED)
        return;
    if (is_first && (header.sh_type == SHT_RELA || header.sh_type == SHT_REL))
        read_relocations(plt, section, &header,
                         strcmp(name, ".rela.plt") == 0 || strcmp(name, ".rel.plt") == 0);
    else if (is_first && strcmp(name, ".got.plt") == 0)
        plt->got = header.sh_addr;
    else if (!is_first && header.sh_flags & SHF_EXECINSTR && strncmp(name, ".plt", 4) == 0)
        read_entries(plt, section, &header);
}

static void see_sections(struct plt *plt, bool is_first)
{
    Elf_Scn *section = NULL;
    size_t names;

    if (elf_getshdrstrndx(plt->elf, &names) != 0)
        return;
    while ((section = elf_nextscn(plt->elf, section))) {
        GElf_Shdr header;
        const char *const name =
            gelf_getshdr(section, &header) ? elf_strptr(plt->elf, names, header.sh_name) : NULL;

        if (name)
            see_section(plt, section, name, is_first);
    }
}

int plt_add_names(Elf *elf, struct ptd_file *file)
{
    struct plt plt = {.elf = elf, .is_64 = gelf_getclass(elf) == ELFCLASS64};
    int status = PTD_OK;

    see_sections(&plt, true);
    if (plt.slots.count)
        qsort(plt.slots.list, plt.slots.count, sizeof(*plt.slots.list), by_address);
    if (plt.slots.count)
        see_sections(&plt, false);
    if (plt.no_memory)
        status = PTD_E_NOMEM;
    else if (plt.entry_count)
        status = add_names(&plt, file);
    free(plt.slots.list);
    free(plt.lazy.list);
    free(plt.entries);
    return status;
}
