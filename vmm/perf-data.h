/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.data in the program: the code of a process from the files that it mapped.
 */
#ifndef VMM_PERF_DATA_H
#define VMM_PERF_DATA_H

#include "ptdec_perf.h"
#include "vmm.h"

#include <gelf.h>

struct code_options {
    const char *symfs;   /* the folder that holds the files of the traced machine; or NULL */
    const char *vmlinux; /* the kernel with its code; or NULL */
    const char *cache;   /* perf's copies of files, by build id; NULL: ~/.debug */
};

/*
 * Opens a perf.data that holds Intel PT. NULL: complained already, and *code says how to end.
 * Records that end early, and what was lost while recording, get a line on standard error.
 */
struct ptd_perf_session *perf_data_open(const char *path, const struct bytes *file, int *code);
/*
 * Adds the code of a process (UINT32_MAX: of the kernel) to image, for cr3. A file that is not
 * there or not what ran gets a line on standard error. 0, or an exit code if there is no memory.
 */
int perf_data_load_code(const struct ptd_perf_session *session, uint32_t pid,
                        const struct code_options *options, struct ptd_image *image, uint64_t cr3);
/* The build id of an ELF file into PTD_PERF_BUILD_ID_BYTES; its length, 0 if it has none. */
uint8_t perf_data_build_id(Elf *elf, uint8_t *id);

#endif
