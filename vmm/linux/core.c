/* SPDX-License-Identifier: BSD-3-Clause */
/* Core dumps of guests: libptdec maps the memory; here are the note of VMCOREINFO, and the ranges.
 */
#include "linux/core.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_NAME       "VMCOREINFO"
#define NOTES_BYTES_MAX (16u << 20) /* QEMU writes about a kilobyte for each processor */

/* ---- What the file says ---- */

static void take_notes(struct core *core, Elf *elf, const GElf_Phdr *header)
{
    Elf_Data *const data = header->p_filesz > NOTES_BYTES_MAX
                               ? NULL
                               : elf_getdata_rawchunk(elf, (int64_t)header->p_offset,
                                                      (size_t)header->p_filesz, ELF_T_NHDR);
    size_t offset = 0, name_at, text_at;
    GElf_Nhdr note;

    while (data && (offset = gelf_getnote(data, offset, &note, &name_at, &text_at)) > 0) {
        const char *const bytes = data->d_buf;

        if (note.n_namesz != sizeof(NOTE_NAME) ||
            memcmp(bytes + name_at, NOTE_NAME, sizeof(NOTE_NAME)) != 0)
            continue;
        core->vmcoreinfo_bytes =
            note.n_descsz < sizeof(core->vmcoreinfo) ? note.n_descsz : sizeof(core->vmcoreinfo);
        memcpy(core->vmcoreinfo, bytes + text_at, core->vmcoreinfo_bytes);
        return;
    }
}

/* libptdec has read these headers before, and bounded their number. */
static int take_headers(struct core *core, Elf *elf, struct reason *why)
{
    GElf_Ehdr file;
    size_t count;

    if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &file) || file.e_machine != EM_X86_64 ||
        elf_getphdrnum(elf, &count) != 0)
        return reason_set(why, -EINVAL, "not a core dump of a 64-bit guest");
    core->ranges = calloc(count + 1, sizeof(*core->ranges));
    if (!core->ranges)
        return reason_no_memory(why);
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr header;

        if (!gelf_getphdr(elf, (int)i, &header))
            continue;
        if (header.p_type == PT_NOTE)
            take_notes(core, elf, &header);
        else if (header.p_type == PT_LOAD && header.p_filesz > 0)
            core->ranges[core->range_count++] =
                (struct core_range){header.p_paddr, header.p_filesz};
    }
    return 0;
}

int core_open(struct core *core, int fd, const char *name, struct reason *why)
{
    enum ptd_paging paging;
    int status, error;
    Elf *elf;

    *core = (struct core){.memory = ptd_memory_new()};
    if (!core->memory)
        return reason_no_memory(why);
    status = ptd_memory_add_core_fd(core->memory, fd, &paging);
    if (status == PTD_E_NOMEM)
        return reason_no_memory(why);
    if (status != PTD_OK)
        return reason_set(why, status == PTD_E_IO ? -EIO : -EINVAL,
                          "%.300s: not an ELF core dump of a guest: %s", name,
                          ptd_strerror(status));
    (void)elf_version(EV_CURRENT);
    elf = elf_begin(fd, ELF_C_READ, NULL);
    if (!elf)
        return reason_set(why, -EINVAL, "%.300s: not an ELF file", name);
    error = take_headers(core, elf, why);
    (void)elf_end(elf);
    return error;
}

void core_close(struct core *core)
{
    ptd_memory_free(core->memory);
    free(core->ranges);
    *core = (struct core){0};
}

/* ---- Memory ---- */

static bool read_memory(void *owner, uint64_t paddr, void *into, size_t len_bytes)
{
    const struct core *const core = owner;
    const uint8_t *bytes;
    size_t there;

    if (ptd_memory_find(core->memory, paddr, &bytes, &there) != PTD_OK || there < len_bytes)
        return false;
    memcpy(into, bytes, len_bytes);
    return true;
}

/* Looks at the beginning of each page. */
static int find_page(void *owner, struct source_place *place, uint64_t *paddr, struct reason *why)
{
    const struct core *const core = owner;

    (void)why;
    for (; place->range < core->range_count; place->range++, place->offset = 0) {
        const struct core_range *const range = &core->ranges[place->range];
        const uint64_t lead = -range->paddr & (LOOK_PAGE_BYTES - 1); /* up to the first page */

        while (place->offset < range->len_bytes && lead < range->len_bytes - place->offset) {
            const uint64_t at = range->paddr + lead + place->offset;
            const uint8_t *page;
            size_t there;

            place->offset += LOOK_PAGE_BYTES;
            if (ptd_memory_find(core->memory, at, &page, &there) == PTD_OK &&
                there >= LOOK_PAGE_BYTES && vmcoreinfo_in_page(page, LOOK_PAGE_BYTES)) {
                *paddr = at;
                return 0;
            }
        }
    }
    return -ENOENT;
}

struct guest_source core_source(const struct core *core)
{
    return (struct guest_source){
        .memory = {(void *)core, read_memory},
        .lines = core->vmcoreinfo,
        .lines_bytes = core->vmcoreinfo_bytes,
        .find = find_page,
    };
}
