/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ELF files into an image: loadable segments and function symbols, 32- and 64-bit x86. The file is
 * hostile: every offset and size in it is checked against the file before it is used.
 */
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code/image.h"

struct input {
    struct ptd_image *image;
    Elf *elf;
    int fd;
    uint64_t file_bytes;
    uint64_t loaded_bytes; /* so far; a sane file does not load its bytes over and over */
    uint64_t bias, cr3;
};

static int read_fully(int fd, uint8_t *bytes, size_t len_bytes, uint64_t offset)
{
    while (len_bytes > 0) {
        const ssize_t got = pread(fd, bytes, len_bytes, (off_t)offset);

        if (got <= 0)
            return PTD_E_IO;
        bytes += got;
        offset += (uint64_t)got;
        len_bytes -= (size_t)got;
    }
    return PTD_OK;
}

static int add_segment(struct input *input, const GElf_Phdr *header)
{
    if (header->p_filesz > header->p_memsz || header->p_offset > input->file_bytes ||
        header->p_filesz > input->file_bytes - header->p_offset)
        return PTD_E_FORMAT;
    if (header->p_filesz == 0)
        return PTD_OK;
    input->loaded_bytes += header->p_filesz;
    if (input->loaded_bytes > 2 * input->file_bytes)
        return PTD_E_FORMAT;

    uint8_t *const bytes = malloc(header->p_filesz);

    if (!bytes)
        return PTD_E_NOMEM;

    int status = read_fully(input->fd, bytes, header->p_filesz, header->p_offset);

    if (status != PTD_OK) {
        free(bytes);
        return status;
    }
    status = ptd_image_add_owned(input->image, header->p_vaddr + input->bias, bytes,
                                 header->p_filesz, input->cr3);
    return status == PTD_E_ARG ? PTD_E_FORMAT : status;
}

static int add_segments(struct input *input)
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

        const int status = add_segment(input, &header);

        if (status != PTD_OK)
            return status;
    }
    return PTD_OK;
}

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

/* The last address of the section that holds a symbol; UINT64_MAX if sections do not tell. */
static uint64_t section_last(const struct input *input, const GElf_Sym *symbol)
{
    GElf_Shdr header;
    Elf_Scn *const section = elf_getscn(input->elf, symbol->st_shndx);

    if (!section || !gelf_getshdr(section, &header) ||
        symbol->st_value - header.sh_addr >= header.sh_size)
        return UINT64_MAX;
    return header.sh_addr + (header.sh_size - 1) + input->bias;
}

static int add_symbol(const struct input *input, const GElf_Sym *symbol, const char *name,
                      enum symbol_rank rank)
{
    return ptd_image_add_symbol(input->image, name, symbol->st_value + input->bias, symbol->st_size,
                                symbol->st_size > 0 ? 0 : section_last(input, symbol), rank,
                                input->cr3);
}

static int add_symbols(const struct input *input, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *const data = elf_getdata(section, NULL);
    const size_t entry_bytes = gelf_fsize(input->elf, ELF_T_SYM, 1, EV_CURRENT);

    if (!data || entry_bytes == 0)
        return PTD_E_FORMAT;

    const size_t count = data->d_size / entry_bytes;

    for (size_t i = 0; i < count && i < INT32_MAX; i++) {
        GElf_Sym symbol;
        enum symbol_rank rank;

        if (!gelf_getsym(data, (int)i, &symbol))
            return PTD_E_FORMAT;
        if (!rank_symbol(input, &symbol, &rank))
            continue;

        const char *const name = elf_strptr(input->elf, header->sh_link, symbol.st_name);

        if (!name || name[0] == '\0')
            continue;

        const int status = add_symbol(input, &symbol, name, rank);

        if (status != PTD_OK)
            return status;
    }
    return PTD_OK;
}

static int add_all_symbols(const struct input *input)
{
    Elf_Scn *section = NULL;

    while ((section = elf_nextscn(input->elf, section))) {
        GElf_Shdr header;

        if (!gelf_getshdr(section, &header))
            return PTD_E_FORMAT;
        if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)
            continue;

        const int status = add_symbols(input, section, &header);

        if (status != PTD_OK)
            return status;
    }
    return PTD_OK;
}

static int add_elf(struct input *input)
{
    GElf_Ehdr header;

    if (elf_kind(input->elf) != ELF_K_ELF || !gelf_getehdr(input->elf, &header))
        return PTD_E_FORMAT;
    if (header.e_machine != EM_X86_64 && header.e_machine != EM_386)
        return PTD_E_FORMAT;
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN && header.e_type != ET_CORE)
        return PTD_E_FORMAT;

    int status = add_segments(input);

    if (status == PTD_OK)
        status = add_all_symbols(input);
    return status;
}

int ptd_image_add_elf(struct ptd_image *image, const char *path, uint64_t bias, uint64_t cr3)
{
    struct stat info;
    struct input input = {.image = image, .bias = bias, .cr3 = cr3};
    int status = PTD_E_FORMAT;

    if (elf_version(EV_CURRENT) == EV_NONE)
        return PTD_E_FORMAT;
    input.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (input.fd < 0)
        return PTD_E_IO;
    if (fstat(input.fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(input.fd);
        return PTD_E_IO;
    }
    input.file_bytes = (uint64_t)info.st_size;
    input.elf = elf_begin(input.fd, ELF_C_READ, NULL);
    if (input.elf) {
        status = add_elf(&input);
        elf_end(input.elf);
    }
    close(input.fd);
    return status;
}
