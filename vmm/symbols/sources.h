/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources of code: the functions and lines that an address of a file is from. Debug information is
 * opened when it is first asked for, by the name that the file had, if it is still the same file.
 */
#ifndef VMM_SOURCES_H
#define VMM_SOURCES_H

#include "ptdec.h"
#include "symbols/dwarf-file.h"

struct sources;

/* places outlives it. NULL: no memory. */
struct sources *sources_new(const struct debug_places *places);
void sources_free(struct sources *sources);
/* A file that was read from fd, which was opened by that name. False: no memory. */
bool sources_add(struct sources *sources, const struct ptd_file *file, const struct file_name *name,
                 int fd);
/* As dwarf_file_frames(). What was asked lately is remembered, 2^12 addresses at most. */
size_t sources_frames(struct sources *sources, const struct ptd_file *file, uint64_t address,
                      uint64_t *left, struct source_frame frames[FRAMES_MAX]);

#endif
