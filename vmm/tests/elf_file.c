/* SPDX-License-Identifier: BSD-3-Clause */
#include "elf_file.h"
#include "common/file.h"

#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1, SYMTAB, STRTAB, SECTIONS };

#define NAME_BYTES 64u

struct layout {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    Elf64_Shdr sections[SECTIONS];
    Elf64_Sym symbols[2];
    char names[1 + NAME_BYTES];
};

static void fill(struct layout *layout, const char *name, size_t len)
{
    layout->header = (Elf64_Ehdr){.e_type = ET_DYN,
                                  .e_machine = EM_X86_64,
                                  .e_version = EV_CURRENT,
                                  .e_phoff = offsetof(struct layout, segment),
                                  .e_shoff = offsetof(struct layout, sections),
                                  .e_ehsize = sizeof(Elf64_Ehdr),
                                  .e_phentsize = sizeof(Elf64_Phdr),
                                  .e_phnum = 1,
                                  .e_shentsize = sizeof(Elf64_Shdr),
                                  .e_shnum = SECTIONS};
    memcpy(layout->header.e_ident,
           (const char[]){0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT}, 7);
    layout->segment = (Elf64_Phdr){.p_type = PT_LOAD,
                                   .p_flags = PF_R | PF_X,
                                   .p_offset = ELF_FILE_OFFSET,
                                   .p_vaddr = ELF_FILE_OFFSET,
                                   .p_filesz = len,
                                   .p_memsz = len};
    layout->sections[TEXT] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                                          .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                          .sh_addr = ELF_FILE_OFFSET,
                                          .sh_offset = ELF_FILE_OFFSET,
                                          .sh_size = len};
    layout->sections[SYMTAB] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                            .sh_link = STRTAB,
                                            .sh_offset = offsetof(struct layout, symbols),
                                            .sh_size = sizeof(layout->symbols),
                                            .sh_entsize = sizeof(Elf64_Sym)};
    layout->sections[STRTAB] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                            .sh_offset = offsetof(struct layout, names),
                                            .sh_size = sizeof(layout->names)};
    layout->symbols[1] = (Elf64_Sym){.st_name = 1,
                                     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                     .st_shndx = TEXT,
                                     .st_value = ELF_FILE_OFFSET,
                                     .st_size = len};
    strncpy(layout->names + 1, name, NAME_BYTES - 1);
}

bool elf_file(struct bytes *file, const char *name, const void *code, size_t len)
{
    static const uint8_t padding[ELF_FILE_OFFSET - sizeof(struct layout)];
    struct layout layout;

    memset(&layout, 0, sizeof(layout));
    fill(&layout, name, len);
    return bytes_add(file, &layout, sizeof(layout)) && bytes_add(file, padding, sizeof(padding)) &&
           bytes_add(file, code, len);
}

void write_elf_file(const char *path, const char *name, const void *code, size_t len)
{
    struct bytes file = {0};

    if (!elf_file(&file, name, code, len) || write_file(path, file.data, file.len) != 0)
        abort();
    bytes_free(&file);
}
