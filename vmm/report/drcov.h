/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which blocks of code ran, by module, as a drcov file has it (DynamoRIO's code coverage;
 * Lighthouse, Cartographer and others read it). It is told blocks as they are seen and counted, and
 * keeps what a file says of them, so that images come and go.
 */
#ifndef VMM_REPORT_DRCOV_H
#define VMM_REPORT_DRCOV_H

#include "common/output.h"
#include "common/table.h"
#include "ptdec.h"

#define DRCOV_ELSEWHERE   0u         /* the number of blocks that found the list full */
#define DRCOV_BLOCKS_MAX  (1u << 22) /* blocks of all modules */
#define DRCOV_MODULES_MAX 65535u     /* as 16 bits number them */

/* A file with code, or another region, as it stands in memory. */
struct drcov_module {
    const char *path;
    uint64_t base, end; /* the byte behind its last */
};

/* The module of an address; texts hold until the next call. False: no memory. */
typedef bool (*drcov_module_fn)(void *owner, const struct ptd_image *image, uint64_t cr3,
                                uint64_t ip, struct drcov_module *module);

/* Begins as zeros, but for the first two. */
struct drcov {
    drcov_module_fn module_of;
    void *owner;
    struct names paths;
    struct table modules; /* key: path, base; count: end */
    struct table blocks;  /* key: module, offset, bytes; count: how often it ran */
    bool is_cut;          /* a bound was reached: something is missing */
};

/* The number of a block, as image has its code now; UINT32_MAX: no memory. */
uint32_t drcov_see(struct drcov *drcov, const struct ptd_image *image,
                   const struct ptd_item *block);
/* It ran so often. */
void drcov_add(struct drcov *drcov, uint32_t block, uint64_t count);
/* All blocks that ran. *count: how many. 0, or -errno and why. */
int drcov_write(const struct drcov *drcov, struct output *output, size_t *count,
                struct reason *why);
void drcov_free(struct drcov *drcov);

#endif
