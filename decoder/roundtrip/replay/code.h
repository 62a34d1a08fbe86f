/* SPDX-License-Identifier: BSD-3-Clause */
/* Files, and code from those that are no ELF files. */
#ifndef REPLAY_CODE_H
#define REPLAY_CODE_H

#include "ptdec.h"

/* A file, mapped. PTD_OK; PTD_E_IO; PTD_E_FORMAT: it is empty. */
struct mapped {
    const uint8_t *bytes;
    size_t len_bytes;
};
int code_map(const char *path, struct mapped *file);
void code_unmap(struct mapped *file);

/*
 * The lowest address that an ELF file of 32 or 64 bits is linked for, as the start of a page.
 * PTD_OK, PTD_E_IO; PTD_E_FORMAT: it is none, or has nothing to load.
 */
int code_lowest(const char *path, uint64_t *vaddr);

/* Bytes of a file from offset on, as many as there are, to stand at vaddr. */
int code_add_raw(struct ptd_image *image, const char *path, uint64_t offset, uint64_t len_bytes,
                 uint64_t vaddr);
/*
 * A page cache as fuzzers of VMs keep them: NAME.addr holds one address of 8 bytes for each page of
 * 4 KiB in NAME.dump; one with a bit of 11:0 set was not there. PTD_E_FORMAT: the files do not fit.
 */
int code_add_pages(struct ptd_image *image, const char *name);

#endif
