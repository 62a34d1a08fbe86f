/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <sys/mman.h>

#include "base/pages.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* munmap() wants whole pages, of one size or the other. */
static size_t whole_pages(size_t len_bytes)
{
    return (len_bytes + HUGE_PAGE_BYTES - 1) & -HUGE_PAGE_BYTES;
}

void *ptd_pages_new(size_t len_bytes, size_t huge_bytes)
{
    const size_t len = whole_pages(len_bytes);
    uint8_t *const all = mmap(NULL, len + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (all == MAP_FAILED)
        return NULL;

    const size_t before = -(uintptr_t)all % HUGE_PAGE_BYTES;

    if (before > 0)
        (void)munmap(all, before);
    (void)munmap(all + before + len, HUGE_PAGE_BYTES - before);
    if (huge_bytes >= HUGE_PAGE_BYTES)
        (void)madvise(all + before, huge_bytes & -HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    return all + before;
}

void ptd_pages_free(void *pages, size_t len_bytes)
{
    if (pages)
        (void)munmap(pages, whole_pages(len_bytes));
}
