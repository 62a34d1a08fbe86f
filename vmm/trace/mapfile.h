/* SPDX-License-Identifier: BSD-3-Clause */
/* Map files: who is who in a trace of a host and its guests (docs/decoder.md, "The map file"). */
#ifndef VMM_MAPFILE_H
#define VMM_MAPFILE_H

#include "common/reason.h"
#include "common/table.h"
#include "ptdec.h"
#include "ptdec_perf.h"

#define MAP_BYTES_MAX (256u << 20) /* more than vpt names makes of any guest */

struct code_files;

/* Where the names of a mapped file are: of what stands at this offset of it. */
struct map_symbols {
    const struct ptd_file *symbols; /* NULL: there are none */
    uint64_t offset, address;       /* of the symbols */
};

/* What was read. Zero it before map_load(), and free it after the image. */
struct map {
    /*
     * Set by the caller: a trace names the map, and nobody vouches for it. It may name ELF files,
     * and files with names and core dumps beside it, but neither bare code nor bare memory.
     */
    bool is_of_trace;
    struct ptd_contexts *contexts;
    struct ptd_memory **memories;
    size_t memory_count;
    struct names mapped;         /* build ids and paths of mapped files, */
    struct map_symbols *symbols; /* and what each has */
    size_t symbols_room;
    struct ptd_perf_vcpu *vcpus; /* threads of the host that are virtual processors */
    size_t vcpu_count, vcpu_room;
    struct reason why; /* where something is wrong, and what; if a function below fails */
};

/*
 * Reads a map file into image. The files that it names are regular ones, looked for beside it; they
 * are ELF files unless it says where other bytes belong. 0, -ENOMEM, the error of reading the map,
 * or -EINVAL, and the reason in map->why; image may hold a part.
 */
int map_load(const char *path, struct code_files *files, struct ptd_image *image, struct map *map);
/* The same from a text; path is for messages, and to find other files by. */
int map_parse(const char *path, const char *text, size_t len_bytes, struct code_files *files,
              struct ptd_image *image, struct map *map);
void map_free(struct map *map);
/* The names of a file of the machine, by its build id in hexadecimal or else by its path. */
struct map_symbols map_symbols_of(const struct map *map, const char *name);

#endif
