/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of an ELF file made complete. All of them go into one table, that of the file, so that
 * to look one up costs what it costs without them.
 */
#include "symbols/complete.h"
#include "symbols/mini.h"
#include "symbols/plt.h"

#include <errno.h>
#include <gelf.h>
#include <limits.h>
#include <unistd.h>

static Elf *open_elf(int fd)
{
    Elf *const elf = elf_version(EV_CURRENT) != EV_NONE ? elf_begin(fd, ELF_C_READ, NULL) : NULL;

    if (!elf || elf_kind(elf) == ELF_K_ELF)
        return elf;
    (void)elf_end(elf);
    return NULL;
}

static bool has_symbols(Elf *elf)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(elf, section))) {
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
            return true;
    }
    return false;
}

/* Of a file that is closed. fd < 0: there is none. An enum ptd_error. */
static int add_symbols(struct ptd_file *file, int fd)
{
    int status = PTD_OK;

    if (fd >= 0) {
        status = ptd_file_add_symbols(file, fd);
        (void)close(fd);
    }
    return status;
}

/* What was stripped. An enum ptd_error. */
static int add_stripped(const struct debug_places *places, const struct file_name *name, Elf *elf,
                        uint64_t max_bytes, struct ptd_file *file)
{
    struct debug_name found;
    int fd = debug_file_of(places, name, elf, &found);

    if (fd < 0)
        fd = mini_open(elf, max_bytes);
    return fd == -ENOMEM ? PTD_E_NOMEM : fd == -EFBIG ? PTD_E_LIMIT : add_symbols(file, fd);
}

int complete_names(const struct debug_places *places, const struct file_name *name, int fd,
                   uint64_t max_bytes, struct ptd_file *file)
{
    Elf *const elf = open_elf(fd);
    int status;

    if (!elf)
        return 0;
    status = plt_add_names(elf, file);
    if ((status == PTD_OK || status == PTD_E_FORMAT) && !has_symbols(elf))
        status = add_stripped(places, name, elf, max_bytes, file);
    (void)elf_end(elf);
    if (status == PTD_E_LIMIT)
        remark(places->remark, "%s%s: it has more names than --max-code allows",
               name->root ? name->root : "", name->path);
    return status == PTD_E_NOMEM ? -ENOMEM : 0;
}

/* ---- Files that are not here ---- */

static uint64_t page_of(uint64_t address)
{
    return address & ~UINT64_C(0xfff);
}

/*
 * The address of the one segment of code that takes so many bytes as it is mapped. A debug file
 * need not tell any more where in the file a segment was.
 */
static bool find_segment(Elf *elf, uint64_t len_bytes, uint64_t *vaddr)
{
    size_t count, fitting = 0;

    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count && i < INT_MAX; i++) {
        GElf_Phdr header;

        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD ||
            !(header.p_flags & PF_X) ||
            page_of(header.p_vaddr + header.p_memsz + 0xfff) - page_of(header.p_vaddr) != len_bytes)
            continue;
        fitting++;
        *vaddr = page_of(header.p_vaddr);
    }
    return fitting == 1;
}

int names_by_id(const struct debug_places *places, const struct elf_id *id, uint64_t len_bytes,
                uint64_t max_bytes, struct sources *sources, struct ptd_file **file,
                uint64_t *vaddr)
{
    struct debug_name found;
    const int fd = debug_file_by_id(places, NULL, id, &found);
    const struct file_name name = debug_name_of(&found);
    Elf *const elf = fd < 0 ? NULL : open_elf(fd);
    int status = PTD_E_IO;

    if (elf && find_segment(elf, len_bytes, vaddr))
        status = ptd_file_new_symbols(fd, max_bytes, file);
    if (status == PTD_OK && sources)
        (void)sources_add(sources, *file, &name, fd); /* else it has no lines */
    if (elf)
        (void)elf_end(elf);
    if (fd >= 0)
        (void)close(fd);
    return status;
}
