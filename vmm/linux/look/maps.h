/* SPDX-License-Identifier: BSD-3-Clause */
/* What is mapped in an address space, and the files behind it. */
#ifndef LOOK_MAPS_H
#define LOOK_MAPS_H

#include "linux/look/layout.h"

#define LOOK_PATH_BYTES     4096u
#define LOOK_BUILD_ID_BYTES 20u /* that of SHA-1, the longest in use */

struct look_map {
    uint64_t start, end;
    uint64_t offset; /* in the file */
    uint64_t file;   /* address of its struct file; 0: none */
    bool is_executable;
};

struct look_build_id {
    uint8_t bytes[LOOK_BUILD_ID_BYTES];
    uint8_t count; /* 0: none, or it is not in memory */
};

/*
 * The mapping that holds vaddr, else the first one above: so all of them are found by asking for
 * the end of the last, from 0 on. False: there is none, or what says so makes no sense.
 */
bool look_map(const struct look_kernel *kernel, uint64_t mm, uint64_t vaddr, struct look_map *map);
/* The name of a file, from the root of the guest. False: it cannot be told. */
bool look_path(const struct look_kernel *kernel, uint64_t file, char path[LOOK_PATH_BYTES]);
/*
 * The address of a file's page cache (struct address_space), which it keeps when nobody has the
 * file open any more. False: it cannot be told.
 */
bool look_cache(const struct look_kernel *kernel, uint64_t file, uint64_t *cache);
/* A part of a file that is in its page cache. False: not all of it is. */
bool look_file(const struct look_kernel *kernel, uint64_t cache, uint64_t offset, void *into,
               size_t len_bytes);
/* The build id of an ELF file. False: it has none, or the guest does not have it in memory. */
bool look_build_id(const struct look_kernel *kernel, uint64_t cache, struct look_build_id *id);

#endif
