/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a trace that --from and --to name. */
#ifndef VMM_WINDOW_H
#define VMM_WINDOW_H

#include "ptdec.h"
#include "trace/input.h"

enum bound_kind { BOUND_NONE, BOUND_OFFSET, BOUND_TSC, BOUND_TIME };

struct bound {
    enum bound_kind kind;
    uint64_t value; /* bytes, TSC ticks, nanoseconds */
};

/* From .from on, up to what is in front of .to. */
struct window {
    struct bound from, to;
};

/* "0x4000" or "16384", "tsc:1000", "time:1.5": the value of an option. False: none of these. */
bool bound_parse(const char *text, struct bound *bound);
/* Whether a place in the trace comes before bound; not if there is none. Not of BOUND_TIME. */
bool bound_is_ahead(const struct bound *bound, uint64_t offset, uint64_t tsc);
/* Whether .to is not in front of .from, as far as one can say. */
bool window_is_valid(const struct window *window);
/* Whether clocks are needed; nanoseconds: whether TIME is. */
bool window_has_time(const struct window *window);
bool window_has_nanoseconds(const struct window *window);
/* The index of a file; *points is to be freed with free(). 0 or -errno. */
int index_file(const struct input *input, struct ptd_sync_point **points, size_t *count);
/*
 * Where to begin in a file, so that all in the window is as in the whole trace: at a PSB, or at 0.
 * 0 or -errno.
 */
int window_begin(const struct window *window, const struct input *input, bool has_vms,
                 uint64_t *offset);

#endif
