/* SPDX-License-Identifier: BSD-3-Clause */
/* guest-core FILE: writes the memory of a small Linux guest, as a dump that `vpt names` reads. */
#include "tests/made_linux.h"

#include <elf.h>
#include <stdio.h>

#define RAM_AT 0x1000u /* in the file */

static bool write_core(const struct made_linux *made, FILE *file)
{
    const Elf64_Ehdr head = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof(head),
        .e_ehsize = sizeof(head),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 1,
    };
    const Elf64_Phdr ram = {
        .p_type = PT_LOAD, .p_offset = RAM_AT, .p_filesz = MADE_BYTES, .p_memsz = MADE_BYTES};

    return fwrite(&head, sizeof(head), 1, file) == 1 && fwrite(&ram, sizeof(ram), 1, file) == 1 &&
           fseek(file, RAM_AT, SEEK_SET) == 0 && fwrite(made->ram, MADE_BYTES, 1, file) == 1;
}

int main(int argc, char **argv)
{
    struct made_linux made;
    FILE *const file = argc == 2 ? fopen(argv[1], "wb") : NULL;
    bool is_written;

    if (!file) {
        (void)fprintf(stderr, "guest-core FILE\n");
        return 2;
    }
    made_linux(&made, (struct made_kind){0});
    is_written = write_core(&made, file);
    made_linux_free(&made);
    return fclose(file) == 0 && is_written ? 0 : 1;
}
