/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads symbols of ELF files in a guest's page cache. The table of all symbols (.symtab) is taken
 * if the guest has it in memory; else that of the dynamic linker, which every running program has,
 * and which is found by the program headers alone, as the linker does.
 */
#include "linux/file-symbols.h"
#include "common/list.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOADS_MAX        16u
#define PHDRS_MAX        64u
#define SECTIONS_MAX     128u
#define DYNAMICS_MAX     128u
#define NAME_BYTES       512u /* of a symbol; what is longer is cut off */
#define FILE_SYMBOLS_MAX (1u << 18)
#define SYMBOLS_MAX      (1u << 21) /* of all files */
#define TEXT_BYTES_MAX   (128u << 20)
#define FILE_BITS        40u /* of addresses in a file */
#define FILES_MAX        (1u << 20)
#define ELF_NAMES        "\0.symtab\0.strtab"
#define SYMTAB_NAME      1u
#define STRTAB_NAME      9u

/* A file whose headers were read. */
struct source {
    const struct look_kernel *kernel;
    uint64_t cache;
    Elf64_Ehdr head;
    Elf64_Phdr loads[LOADS_MAX];
    unsigned load_count;
    Elf64_Phdr dynamic; /* p_type 0: it has none */
    /* The table that was chosen: places in the file. */
    uint64_t symbols, count, texts, text_bytes;
};

static bool read_at(const struct source *source, uint64_t offset, void *into, size_t len_bytes)
{
    return offset < UINT64_MAX - len_bytes &&
           look_file(source->kernel, source->cache, offset, into, len_bytes);
}

/* ---- Headers ---- */

static bool read_headers(struct source *source)
{
    Elf64_Ehdr *const head = &source->head;

    if (!read_at(source, 0, head, sizeof(*head)) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (unsigned i = 0; i < head->e_phnum && i < PHDRS_MAX; i++) {
        Elf64_Phdr segment;

        if (!read_at(source, head->e_phoff + i * sizeof(segment), &segment, sizeof(segment)))
            return false;
        if (segment.p_type == PT_DYNAMIC)
            source->dynamic = segment;
        if (segment.p_type == PT_LOAD && source->load_count < LOADS_MAX)
            source->loads[source->load_count++] = segment;
    }
    return true;
}

/* Where an address that the file was linked for stands in it; UINT64_MAX: nowhere. */
static uint64_t offset_of(const struct source *source, uint64_t vaddr)
{
    for (unsigned i = 0; i < source->load_count; i++)
        if (vaddr - source->loads[i].p_vaddr < source->loads[i].p_filesz)
            return vaddr - source->loads[i].p_vaddr + source->loads[i].p_offset;
    return UINT64_MAX;
}

/* The address that a page of the file is linked for; UINT64_MAX: none. */
static uint64_t address_of(const struct source *source, uint64_t offset)
{
    const uint64_t in_page = LOOK_PAGE_BYTES - 1;

    for (unsigned i = 0; i < source->load_count; i++) {
        const Elf64_Phdr *const load = &source->loads[i];
        const uint64_t first = load->p_offset & ~in_page;

        if (load->p_flags & PF_X && offset >= first &&
            offset - first < load->p_filesz + (load->p_offset & in_page))
            return (load->p_vaddr & ~in_page) + (offset - first);
    }
    return UINT64_MAX;
}

/* ---- The table of all symbols ---- */

static bool find_symtab(struct source *source)
{
    const Elf64_Ehdr *const head = &source->head;
    Elf64_Shdr section, texts;

    if (head->e_shentsize != sizeof(section))
        return false;
    for (unsigned i = 0; i < head->e_shnum && i < SECTIONS_MAX; i++) {
        if (!read_at(source, head->e_shoff + i * sizeof(section), &section, sizeof(section)))
            return false;
        if (section.sh_type != SHT_SYMTAB)
            continue;
        if (section.sh_link >= head->e_shnum ||
            !read_at(source, head->e_shoff + section.sh_link * sizeof(texts), &texts,
                     sizeof(texts)))
            return false;
        source->symbols = section.sh_offset;
        source->count = section.sh_size / sizeof(Elf64_Sym);
        source->texts = texts.sh_offset;
        source->text_bytes = texts.sh_size;
        return true;
    }
    return false;
}

/* ---- The table of the dynamic linker ---- */

struct dynamics {
    uint64_t symbols, texts, text_bytes, hash, gnu_hash;
};

static void take_dynamic(struct dynamics *dynamics, const Elf64_Dyn *entry)
{
    switch (entry->d_tag) {
    case DT_SYMTAB:
        dynamics->symbols = entry->d_un.d_ptr;
        break;
    case DT_STRTAB:
        dynamics->texts = entry->d_un.d_ptr;
        break;
    case DT_STRSZ:
        dynamics->text_bytes = entry->d_un.d_val;
        break;
    case DT_HASH:
        dynamics->hash = entry->d_un.d_ptr;
        break;
    case DT_GNU_HASH:
        dynamics->gnu_hash = entry->d_un.d_ptr;
        break;
    default:
        break;
    }
}

/* The last symbol is that which ends the last chain. */
static uint64_t count_by_gnu_hash(const struct source *source, uint64_t offset)
{
    uint32_t head[4], link = 0, highest = 0;
    uint64_t chains;

    if (!read_at(source, offset, head, sizeof(head)) || head[0] > FILE_SYMBOLS_MAX ||
        head[2] > FILE_SYMBOLS_MAX)
        return 0;
    offset += sizeof(head) + (uint64_t)head[2] * 8;
    for (uint32_t i = 0; i < head[0]; i++) {
        if (!read_at(source, offset + (uint64_t)i * 4, &link, sizeof(link)))
            return 0;
        highest = link > highest ? link : highest;
    }
    chains = offset + (uint64_t)head[0] * 4;
    if (highest < head[1])
        return head[1] <= FILE_SYMBOLS_MAX ? head[1] : 0;
    for (; highest < FILE_SYMBOLS_MAX; highest++) {
        if (!read_at(source, chains + (uint64_t)(highest - head[1]) * 4, &link, sizeof(link)))
            return 0;
        if (link & 1)
            return highest + 1;
    }
    return 0;
}

static uint64_t count_dynamic(const struct source *source, const struct dynamics *dynamics)
{
    uint32_t head[2];

    if (dynamics->hash && read_at(source, offset_of(source, dynamics->hash), head, sizeof(head)))
        return head[1];
    return dynamics->gnu_hash ? count_by_gnu_hash(source, offset_of(source, dynamics->gnu_hash))
                              : 0;
}

static bool find_dynsym(struct source *source)
{
    struct dynamics dynamics = {0};

    for (unsigned i = 0; i < DYNAMICS_MAX && i < source->dynamic.p_filesz / sizeof(Elf64_Dyn);
         i++) {
        Elf64_Dyn entry;

        if (!read_at(source, source->dynamic.p_offset + i * sizeof(entry), &entry, sizeof(entry)))
            return false;
        if (entry.d_tag == DT_NULL)
            break;
        take_dynamic(&dynamics, &entry);
    }
    source->symbols = offset_of(source, dynamics.symbols);
    source->texts = offset_of(source, dynamics.texts);
    source->text_bytes = dynamics.text_bytes;
    source->count = count_dynamic(source, &dynamics);
    return source->symbols != UINT64_MAX && source->texts != UINT64_MAX && source->count > 0;
}

/* ---- Symbols ---- */

/* A name, or as much of it as is in the same page as its beginning, or in the next. */
static bool read_name(const struct source *source, uint32_t name, char text[NAME_BYTES])
{
    const uint64_t offset = source->texts + name;
    size_t at = 0;

    if (name >= source->text_bytes || offset < source->texts)
        return false;
    while (at < NAME_BYTES - 1) {
        const size_t left = LOOK_PAGE_BYTES - (size_t)((offset + at) % LOOK_PAGE_BYTES);
        const size_t part = left < NAME_BYTES - 1 - at ? left : NAME_BYTES - 1 - at;

        if (!read_at(source, offset + at, text + at, part))
            break;
        if (memchr(text + at, 0, part))
            return text[0] != 0;
        at += part;
    }
    text[at] = 0;
    return at > 0;
}

static bool is_code(const Elf64_Sym *symbol)
{
    const unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_value >> FILE_BITS == 0;
}

static int add_symbol(struct file_symbols *symbols, const struct source *source, Elf64_Sym symbol,
                      uint64_t base)
{
    char name[NAME_BYTES];

    if (!is_code(&symbol) || !read_name(source, symbol.st_name, name))
        return 0;
    symbol.st_name = (uint32_t)symbols->texts.len;
    symbol.st_value += base;
    symbol.st_size = symbol.st_size >> FILE_BITS ? 0 : symbol.st_size;
    symbol.st_shndx = 1; /* any section will do: it is an address of its own */
    return bytes_add(&symbols->texts, name, strlen(name) + 1) &&
                   bytes_add(&symbols->symbols, &symbol, sizeof(symbol))
               ? 0
               : -ENOMEM;
}

/* An ELF file's table begins with a symbol that is none, and its texts with an empty one. */
static bool begin(struct file_symbols *symbols)
{
    static const Elf64_Sym none;

    return symbols->texts.len > 0 || (bytes_add(&symbols->texts, ELF_NAMES, sizeof(ELF_NAMES)) &&
                                      bytes_add(&symbols->symbols, &none, sizeof(none)));
}

static int add_symbols(struct file_symbols *symbols, const struct source *source, uint64_t base)
{
    int error = 0;

    for (uint64_t i = 0; !error && i < source->count && i < FILE_SYMBOLS_MAX; i++) {
        Elf64_Sym symbol;

        if (symbols->symbols.len / sizeof(symbol) >= SYMBOLS_MAX ||
            symbols->texts.len >= TEXT_BYTES_MAX ||
            !read_at(source, source->symbols + i * sizeof(symbol), &symbol, sizeof(symbol)))
            break;
        error = add_symbol(symbols, source, symbol, base);
    }
    return error;
}

static int read_file_symbols(struct file_symbols *symbols, struct source *source,
                             struct file_place *place)
{
    const uint64_t base = (uint64_t)symbols->count << FILE_BITS;
    const size_t before = symbols->symbols.len;
    int error;

    if (!find_symtab(source) && !find_dynsym(source))
        return 0;
    error = add_symbols(symbols, source, base);
    place->count = (symbols->symbols.len - before) / sizeof(Elf64_Sym);
    if (place->count > 0)
        place->base = base;
    return error;
}

/* ---- Files ---- */

/*
 * The place of a file, known by its contents in memory, and by numbers of its head: in a guest that
 * runs, another file may have come there. NULL: no memory, or too many.
 */
static struct file_place *place_of(struct file_symbols *symbols, uint64_t cache,
                                   const Elf64_Ehdr *head, bool *is_new)
{
    struct sum *const known = table_at(&symbols->places, cache, head->e_shoff, head->e_entry);
    struct file_place *grown;

    if (!known)
        return NULL;
    *is_new = known->count == 0;
    if (!*is_new)
        return &symbols->list[known->count - 1];
    grown = list_grow(symbols->list, symbols->count, &symbols->room, sizeof(*grown));
    if (!grown)
        return NULL;
    symbols->list = grown;
    symbols->list[symbols->count] = (struct file_place){0};
    known->count = ++symbols->count;
    return &symbols->list[symbols->count - 1];
}

int file_symbols_take(struct file_symbols *symbols, const struct look_kernel *kernel,
                      uint64_t cache, uint64_t offset, uint64_t *at)
{
    struct source source = {.kernel = kernel, .cache = cache};
    struct file_place *place;
    uint64_t address;
    bool is_new;
    int error = 0;

    *at = 0;
    if (symbols->count == FILES_MAX || !read_headers(&source))
        return 0;
    if (!begin(symbols))
        return -ENOMEM;
    place = place_of(symbols, cache, &source.head, &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new)
        error = read_file_symbols(symbols, &source, place);
    address = address_of(&source, offset);
    if (!error && place->base && address >> FILE_BITS == 0)
        *at = place->base + address;
    return error;
}

uint64_t file_symbols_count(const struct file_symbols *symbols)
{
    const size_t all = symbols->symbols.len / sizeof(Elf64_Sym);

    return all > 0 ? all - 1 : 0; /* the first one is none */
}

int file_symbols_write(const struct file_symbols *symbols, struct output *output,
                       struct reason *why)
{
    Elf64_Ehdr head = {.e_type = ET_DYN,
                       .e_machine = EM_X86_64,
                       .e_version = EV_CURRENT,
                       .e_shoff = sizeof(head),
                       .e_ehsize = sizeof(head),
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = 3,
                       .e_shstrndx = 2};
    const uint64_t data = sizeof(head) + 3 * sizeof(Elf64_Shdr);
    const Elf64_Shdr sections[3] = {
        {.sh_type = SHT_NULL},
        {.sh_name = SYMTAB_NAME,
         .sh_type = SHT_SYMTAB,
         .sh_offset = data,
         .sh_size = symbols->symbols.len,
         .sh_link = 2,
         .sh_info = (uint32_t)(symbols->symbols.len / sizeof(Elf64_Sym)), /* no order is promised */
         .sh_addralign = 8,
         .sh_entsize = sizeof(Elf64_Sym)},
        {.sh_name = STRTAB_NAME,
         .sh_type = SHT_STRTAB,
         .sh_offset = data + symbols->symbols.len,
         .sh_size = symbols->texts.len,
         .sh_addralign = 1},
    };
    int error;

    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    head.e_ident[EI_OSABI] = ELFOSABI_GNU; /* there are indirect functions */
    error = output_write(output, &head, sizeof(head), why);
    if (!error)
        error = output_write(output, sections, sizeof(sections), why);
    if (!error)
        error = output_write(output, symbols->symbols.data, symbols->symbols.len, why);
    return error ? error : output_write(output, symbols->texts.data, symbols->texts.len, why);
}

void file_symbols_free(struct file_symbols *symbols)
{
    bytes_free(&symbols->symbols);
    bytes_free(&symbols->texts);
    table_free(&symbols->places);
    free(symbols->list);
    *symbols = (struct file_symbols){0};
}
