/* SPDX-License-Identifier: BSD-3-Clause */
/* Files and code, see code.h. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code.h"

#define PAGE_BYTES 4096u
#define PATH_BYTES 4096u

int code_map(const char *path, struct mapped *file)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    void *bytes;

    *file = (struct mapped){NULL, 0};
    if (fd < 0)
        return PTD_E_IO;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) {
        (void)close(fd);
        return PTD_E_FORMAT;
    }
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (bytes == MAP_FAILED)
        return PTD_E_IO;
    *file = (struct mapped){bytes, (size_t)status.st_size};
    return PTD_OK;
}

void code_unmap(struct mapped *file)
{
    if (file->bytes)
        (void)munmap((void *)(uintptr_t)file->bytes, file->len_bytes);
    *file = (struct mapped){NULL, 0};
}

/* ---- Addresses ---- */

/* A segment of either class, at p. */
static void look_at_segment(const uint8_t *p, bool is_64, uint64_t *vaddr)
{
    Elf64_Phdr wide;
    Elf32_Phdr narrow;

    if (is_64) {
        memcpy(&wide, p, sizeof(wide));
    } else {
        memcpy(&narrow, p, sizeof(narrow));
        wide.p_type = narrow.p_type;
        wide.p_vaddr = narrow.p_vaddr;
    }
    if (wide.p_type == PT_LOAD && wide.p_vaddr < *vaddr)
        *vaddr = wide.p_vaddr;
}

static int lowest(const struct mapped *file, uint64_t *vaddr)
{
    const bool is_64 = file->len_bytes > EI_CLASS && file->bytes[EI_CLASS] == ELFCLASS64;
    const size_t segment = is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    Elf64_Ehdr wide;
    Elf32_Ehdr narrow;

    if (file->len_bytes < sizeof(wide) || memcmp(file->bytes, ELFMAG, SELFMAG) != 0)
        return PTD_E_FORMAT;
    memcpy(&wide, file->bytes, sizeof(wide));
    if (!is_64) {
        memcpy(&narrow, file->bytes, sizeof(narrow));
        wide.e_phoff = narrow.e_phoff;
        wide.e_phnum = narrow.e_phnum;
    }
    if (wide.e_phoff > file->len_bytes || wide.e_phnum > (file->len_bytes - wide.e_phoff) / segment)
        return PTD_E_FORMAT;
    *vaddr = UINT64_MAX;
    for (size_t i = 0; i < wide.e_phnum; i++)
        look_at_segment(file->bytes + wide.e_phoff + i * segment, is_64, vaddr);
    if (*vaddr == UINT64_MAX)
        return PTD_E_FORMAT;
    *vaddr &= ~(uint64_t)(PAGE_BYTES - 1);
    return PTD_OK;
}

int code_lowest(const char *path, uint64_t *vaddr)
{
    struct mapped file;
    int status = code_map(path, &file);

    if (status == PTD_OK)
        status = lowest(&file, vaddr);
    code_unmap(&file);
    return status;
}

/* ---- Code ---- */

int code_add_raw(struct ptd_image *image, const char *path, uint64_t offset, uint64_t len_bytes,
                 uint64_t vaddr)
{
    struct mapped file;
    int status = code_map(path, &file);

    if (status != PTD_OK)
        return status;
    if (offset >= file.len_bytes) {
        code_unmap(&file);
        return PTD_E_ARG;
    }
    if (len_bytes > file.len_bytes - offset)
        len_bytes = file.len_bytes - offset;
    status = ptd_image_add_bytes(image, NULL, vaddr, file.bytes + offset, len_bytes, PTD_ANY_CR3);
    code_unmap(&file);
    return status;
}

/* Pages that stand one behind the other in the file and in memory are one piece of code. */
static int add_pages(struct ptd_image *image, const struct mapped *list, const struct mapped *pages)
{
    const size_t count = list->len_bytes / sizeof(uint64_t);
    int status = PTD_OK;

    for (size_t i = 0, next; i < count && status == PTD_OK; i = next) {
        uint64_t first, vaddr;

        memcpy(&first, list->bytes + i * sizeof(first), sizeof(first));
        for (next = i + 1; next < count; next++) {
            memcpy(&vaddr, list->bytes + next * sizeof(vaddr), sizeof(vaddr));
            if (vaddr != first + (next - i) * PAGE_BYTES)
                break;
        }
        if (first % PAGE_BYTES == 0)
            status = ptd_image_add_bytes(image, NULL, first, pages->bytes + i * PAGE_BYTES,
                                         (next - i) * PAGE_BYTES, PTD_ANY_CR3);
    }
    return status;
}

int code_add_pages(struct ptd_image *image, const char *name)
{
    char path[PATH_BYTES];
    struct mapped list, pages;
    int status;

    (void)snprintf(path, sizeof(path), "%s.addr", name);
    status = code_map(path, &list);
    if (status != PTD_OK)
        return status;
    (void)snprintf(path, sizeof(path), "%s.dump", name);
    status = code_map(path, &pages);
    if (status == PTD_OK) {
        status = list.len_bytes % sizeof(uint64_t) == 0 &&
                         pages.len_bytes / PAGE_BYTES >= list.len_bytes / sizeof(uint64_t)
                     ? add_pages(image, &list, &pages)
                     : PTD_E_FORMAT;
        code_unmap(&pages);
    }
    code_unmap(&list);
    return status;
}
