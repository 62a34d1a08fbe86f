/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes core dumps of guests and page walks in them. 16 bytes say CR3 and an address; the rest is
 * the file.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdio.h>

#include "ptdec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define HEAD_BYTES 16
#define PAGES      64u /* that are asked for, one behind the other */

/* Every byte of an answer can be read. */
static unsigned touch(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes == 0)
        abort();
    return bytes[0] + bytes[len_bytes / 2] + bytes[len_bytes - 1];
}

static unsigned walk(const struct ptd_memory *memory, enum ptd_paging paging, uint64_t cr3,
                     uint64_t vaddr)
{
    struct ptd_image *const image = ptd_image_new();
    unsigned sum = 0;

    if (!image || ptd_image_add_memory(image, 0, memory, paging) != PTD_OK)
        abort();
    for (unsigned i = 0; i < PAGES; i++) {
        const uint8_t *found;
        size_t found_bytes;

        if (ptd_image_find(image, cr3, vaddr, &found, &found_bytes) == PTD_OK)
            sum += touch(found, found_bytes);
        vaddr += 4096;
    }
    ptd_image_free(image);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_memory *const memory = ptd_memory_new();
    enum ptd_paging paging;
    uint64_t cr3, vaddr;
    char path[64];
    int fd;

    if (len_bytes <= HEAD_BYTES || !memory) {
        ptd_memory_free(memory);
        return 0;
    }
    memcpy(&cr3, bytes, sizeof(cr3));
    memcpy(&vaddr, bytes + 8, sizeof(vaddr));
    fd = memfd_create("core", MFD_CLOEXEC);
    len_bytes -= HEAD_BYTES;
    if (fd < 0 || write(fd, bytes + HEAD_BYTES, len_bytes) != (ssize_t)len_bytes)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    (void)ptd_memory_add_core(memory, path, &paging);
    for (unsigned kind = PTD_PAGING_32; kind <= PTD_PAGING_5_LEVEL; kind++)
        (void)walk(memory, (enum ptd_paging)kind, cr3 & 0xfffffffffffff, vaddr);
    (void)close(fd);
    ptd_memory_free(memory);
    return 0;
}
