/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ELF files: loadable segments and function symbols, 32- and 64-bit x86. The file is hostile:
 * every offset and size in it is checked against the file before it is used, and what is kept is
 * at most a small multiple of its size.
 */
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code/file.h"
#include "code/image.h"

/* What is loaded of a file: its bytes, not over and over. */
#define LOADED_MAX 2u

struct input {
    struct ptd_file *into;
    Elf *elf;
    int fd;
    uint64_t file_bytes;
    uint64_t loaded_bytes; /* so far */
    uint64_t symbol_bytes; /* the same of symbol tables and texts */
    size_t first_text;     /* of into: those before are another file's */
};

static bool in_file(const struct input *input, uint64_t offset, uint64_t len_bytes)
{
    return offset <= input->file_bytes && len_bytes <= input->file_bytes - offset;
}

/* ---- Segments ---- */

static int read_segment(struct input *input, const GElf_Phdr *header)
{
    struct ptd_file *const into = input->into;
    struct file_part *part;
    int status;

    if (header->p_filesz > header->p_memsz || !in_file(input, header->p_offset, header->p_filesz))
        return PTD_E_FORMAT;
    if (header->p_filesz == 0)
        return PTD_OK;
    input->loaded_bytes += header->p_filesz;
    if (input->loaded_bytes > LOADED_MAX * input->file_bytes)
        return PTD_E_FORMAT;
    if (ptd_file_grow(into) != PTD_OK)
        return PTD_E_NOMEM;
    part = &into->parts[into->part_count];
    part->vaddr = header->p_vaddr;
    part->len_bytes = header->p_filesz;
    status = ptd_file_read(into, input->fd, header->p_offset, header->p_filesz, &part->bytes);
    into->part_count += status == PTD_OK;
    return status;
}

static int read_segments(struct input *input)
{
    size_t count;

    if (elf_getphdrnum(input->elf, &count) != 0)
        return PTD_E_FORMAT;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr header;

        if (i > INT32_MAX || !gelf_getphdr(input->elf, (int)i, &header))
            return PTD_E_FORMAT;
        if (header.p_type != PT_LOAD)
            continue;

        const int status = read_segment(input, &header);

        if (status != PTD_OK)
            return status;
    }
    return PTD_OK;
}

/* ---- Symbols ---- */

static bool in_code(const struct input *input, const GElf_Sym *symbol)
{
    GElf_Shdr header;
    Elf_Scn *const section = elf_getscn(input->elf, symbol->st_shndx);

    return section && gelf_getshdr(section, &header) && (header.sh_flags & SHF_EXECINSTR);
}

/* Whether a symbol names code, and how good a name it is. */
static bool rank_symbol(const struct input *input, const GElf_Sym *symbol, enum symbol_rank *rank)
{
    const unsigned type = GELF_ST_TYPE(symbol->st_info);
    const unsigned binding = GELF_ST_BIND(symbol->st_info);

    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE)
        return false;
    if (type == STT_NOTYPE) {
        *rank = SYMBOL_LABEL; /* assembly code often lacks types */
        return in_code(input, symbol);
    }
    if (type != STT_FUNC && type != STT_GNU_IFUNC)
        return false;
    *rank = binding == STB_GLOBAL ? SYMBOL_GLOBAL
            : binding == STB_WEAK ? SYMBOL_WEAK
                                  : SYMBOL_LOCAL;
    return true;
}

/* Symbol tables that lie over each other would cost more than the file is long. */
static int count_symbols(struct input *input, const GElf_Shdr *header)
{
    if (!in_file(input, header->sh_offset, header->sh_size))
        return PTD_E_FORMAT;
    input->symbol_bytes += header->sh_size;
    return input->symbol_bytes > LOADED_MAX * input->file_bytes ? PTD_E_FORMAT : PTD_OK;
}

/* The string table of a symbol table. */
static int find_texts(struct input *input, size_t section, const struct file_texts **found)
{
    struct ptd_file *const into = input->into;
    Elf_Scn *const at = elf_getscn(input->elf, section);
    struct file_texts *texts;
    GElf_Shdr header;
    uint8_t *bytes;
    int status;

    for (size_t i = input->first_text; i < into->texts_count; i++) {
        *found = &into->texts[i];
        if ((*found)->section == section)
            return PTD_OK;
    }
    if (!at || !gelf_getshdr(at, &header) || header.sh_type != SHT_STRTAB)
        return PTD_E_FORMAT;
    status = count_symbols(input, &header);
    if (status == PTD_OK)
        status = ptd_file_grow(into);
    if (status == PTD_OK)
        status = ptd_file_read(into, input->fd, header.sh_offset, header.sh_size, &bytes);
    if (status != PTD_OK)
        return status;
    texts = &into->texts[into->texts_count++];
    *texts = (struct file_texts){section, (char *)bytes, header.sh_size};
    *found = texts;
    return PTD_OK;
}

/* The last address of the section that holds a symbol; UINT64_MAX if sections do not tell. */
static uint64_t section_last(const struct input *input, const GElf_Sym *symbol)
{
    GElf_Shdr header;
    Elf_Scn *const section = elf_getscn(input->elf, symbol->st_shndx);

    if (!section || !gelf_getshdr(section, &header) ||
        symbol->st_value - header.sh_addr >= header.sh_size)
        return UINT64_MAX;
    return header.sh_addr + (header.sh_size - 1);
}

/* The last address that a symbol can hold. Without a size, it ends with the code that it is in. */
static uint64_t symbol_last(const struct input *input, const GElf_Sym *symbol)
{
    const uint64_t first = symbol->st_value, limit = section_last(input, symbol);

    if (symbol->st_size > 0)
        return symbol->st_size - 1 > UINT64_MAX - first ? UINT64_MAX
                                                        : first + (symbol->st_size - 1);
    for (size_t i = 0; i < input->into->part_count; i++) {
        const struct file_part *const part = &input->into->parts[i];
        const uint64_t last = part->vaddr + (part->len_bytes - 1);

        if (first - part->vaddr < part->len_bytes)
            return last < limit ? last : limit;
    }
    return first;
}

static int add_symbol(struct input *input, const GElf_Sym *symbol, const struct file_texts *texts)
{
    struct symbol named = {.first = symbol->st_value, .is_sized = symbol->st_size > 0};

    if (!rank_symbol(input, symbol, &named.rank) || symbol->st_name >= texts->len_bytes ||
        texts->bytes[symbol->st_name] == '\0')
        return PTD_OK;
    named.last = symbol_last(input, symbol);
    named.name = texts->bytes + symbol->st_name;
    return ptd_file_add_symbol(input->into, &named);
}

static int read_symbols(struct input *input, Elf_Scn *section, const GElf_Shdr *header)
{
    const size_t entry_bytes = gelf_fsize(input->elf, ELF_T_SYM, 1, EV_CURRENT);
    const struct file_texts *texts = NULL;
    int status = count_symbols(input, header);
    Elf_Data *data;

    if (status != PTD_OK)
        return status;
    data = elf_getdata(section, NULL);
    if (!data || entry_bytes == 0)
        return PTD_E_FORMAT;
    if (data->d_size < entry_bytes)
        return PTD_OK;
    status = find_texts(input, header->sh_link, &texts);
    if (status == PTD_E_FORMAT)
        return PTD_OK; /* symbols without names */
    for (size_t i = 0; status == PTD_OK && i < data->d_size / entry_bytes && i < INT32_MAX; i++) {
        GElf_Sym symbol;

        status =
            gelf_getsym(data, (int)i, &symbol) ? add_symbol(input, &symbol, texts) : PTD_E_FORMAT;
    }
    return status;
}

static int read_all_symbols(struct input *input)
{
    Elf_Scn *section = NULL;

    while ((section = elf_nextscn(input->elf, section))) {
        GElf_Shdr header;

        if (!gelf_getshdr(section, &header))
            return PTD_E_FORMAT;
        if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)
            continue;

        const int status = read_symbols(input, section, &header);

        if (status != PTD_OK)
            return status;
    }
    return PTD_OK;
}

/* ---- Files ---- */

/* Whether it is one that code or names are taken from. */
static bool is_wanted(const struct input *input)
{
    GElf_Ehdr header;

    if (elf_kind(input->elf) != ELF_K_ELF || !gelf_getehdr(input->elf, &header))
        return false;
    return (header.e_machine == EM_X86_64 || header.e_machine == EM_386) &&
           (header.e_type == ET_EXEC || header.e_type == ET_DYN || header.e_type == ET_CORE);
}

static int read_elf(struct input *input, bool with_code)
{
    int status = PTD_OK;

    if (!is_wanted(input))
        return PTD_E_FORMAT;
    if (with_code)
        status = read_segments(input);
    return status == PTD_OK ? read_all_symbols(input) : status;
}

static int read_file(struct ptd_file *into, int fd, bool with_code)
{
    struct input input = {.fd = fd, .into = into, .first_text = into->texts_count};
    struct stat info;
    int status = PTD_E_FORMAT;

    if (elf_version(EV_CURRENT) == EV_NONE)
        return PTD_E_FORMAT;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return PTD_E_IO;
    input.file_bytes = (uint64_t)info.st_size;
    input.elf = elf_begin(fd, ELF_C_READ, NULL);
    if (input.elf) {
        status = read_elf(&input, with_code);
        (void)elf_end(input.elf);
    }
    return status;
}

static int new_file(int fd, uint64_t max_bytes, bool with_code, struct ptd_file **file)
{
    struct ptd_file *const into = ptd_file_new(max_bytes);
    int status;

    if (!into)
        return PTD_E_NOMEM;
    status = read_file(into, fd, with_code);
    if (status == PTD_OK)
        *file = into;
    else
        ptd_file_free(into);
    return status;
}

int ptd_file_new_elf(int fd, uint64_t max_bytes, struct ptd_file **file)
{
    return new_file(fd, max_bytes, true, file);
}

int ptd_file_new_symbols(int fd, uint64_t max_bytes, struct ptd_file **file)
{
    return new_file(fd, max_bytes, false, file);
}

int ptd_file_add_symbols(struct ptd_file *file, int fd)
{
    return read_file(file, fd, false);
}

int ptd_image_add_elf(struct ptd_image *image, const char *path, uint64_t bias, uint64_t cr3)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct ptd_file *file;
    int status;

    if (fd < 0)
        return PTD_E_IO;
    status = ptd_file_new_elf(fd, UINT64_MAX, &file);
    (void)close(fd);
    return status == PTD_OK ? ptd_image_take_file(image, file, bias, cr3) : status;
}
