/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of code that a process made, as run times write them for perf into perf-PID.map: lines of
 * address, length and name, a later one in place of those before it.
 */
#ifndef VMM_PERF_MAP_H
#define VMM_PERF_MAP_H

#include "common/reason.h"
#include "ptdec.h"

#include <stddef.h>

#define PERF_MAP_LINES_MAX (1u << 20)
#define PERF_MAP_NAME_MAX  4096u /* bytes; the rest of a name is left out */

/*
 * Adds them to an image, for cr3; name is for messages. 0; -EBADMSG and the reason: a line is none,
 * or there are too many, and those in front are used; -ENOMEM. A last line that does not end in a
 * newline is left out.
 */
int perf_map_add(const char *name, const char *text, size_t len_bytes, struct ptd_image *image,
                 uint64_t cr3, struct reason *why);

#endif
