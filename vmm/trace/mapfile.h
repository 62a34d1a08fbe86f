/* SPDX-License-Identifier: BSD-3-Clause */
/* Map files: who is who in a trace of a host and its guests (docs/decoder.md, "The map file"). */
#ifndef VMM_MAPFILE_H
#define VMM_MAPFILE_H

#include "ptdec.h"

/* What was read. Zero it before map_load(), and free it after the image. */
struct map {
    struct ptd_contexts *contexts;
    struct ptd_memory **memories;
    size_t memory_count;
    char why[512]; /* where something is wrong, and what; if a function below fails */
};

/*
 * Reads a map file into image. Files are looked for beside it. 0, -ENOMEM, the error of reading a
 * file, or -EINVAL, and then map->why says more; image may hold a part.
 */
int map_load(const char *path, struct ptd_image *image, struct map *map);
/* The same from a text; path is for messages, and to find other files by. */
int map_parse(const char *path, const char *text, size_t len_bytes, struct ptd_image *image,
              struct map *map);
void map_free(struct map *map);

#endif
