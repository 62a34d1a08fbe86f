/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMCOREINFO: lines that a Linux kernel keeps for whoever reads its memory after a crash. They name
 * the addresses at which everything else begins, where the kernel really stands (KASLR).
 */
#ifndef VMM_LINUX_VMCOREINFO_H
#define VMM_LINUX_VMCOREINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VMCOREINFO_BYTES_MAX 4096u /* a page in the kernel */
#define RELEASE_BYTES        65u   /* of uname's release */

/* What the lines begin with, and where in a page: they stand there alone, or as a note. */
#define VMCOREINFO_BEGIN   "OSRELEASE="
#define VMCOREINFO_IN_NOTE 24u

struct vmcoreinfo {
    char release[RELEASE_BYTES];
    uint64_t page_table;   /* linear address of the kernel's own */
    uint64_t phys_base;    /* how far the kernel's image stands from where it was linked for */
    uint64_t ignored_bits; /* of page-table entries: that of encrypted memory (SME) */
    bool has_five_levels;
    uint64_t text; /* of _stext */
    /* The tables of kallsyms. */
    uint64_t names, name_count, tokens, token_index, offsets, relative_base;
};

/* False: these are not the lines of a kernel of Linux 6.0 or later. */
bool vmcoreinfo_parse(struct vmcoreinfo *info, const char *text, size_t len_bytes);
/*
 * Whether a page begins as the page or the note does in which kernels keep the lines: where they
 * begin, else NULL.
 */
const char *vmcoreinfo_in_page(const uint8_t *page, size_t len_bytes);

#endif
