/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several traces on one time line: whose next item is the earliest comes first.
 */
#ifndef VMM_MERGE_H
#define VMM_MERGE_H

#include "view/decode.h"

/* One of them: a stream, or several that follow each other. */
struct lane {
    struct decode_options *options; /* of the stream */
    struct stream *stream;          /* NULL: the lane has ended */
    size_t order;                   /* of those with the same time, the least comes first */
    /* The stream has ended: the next one takes its place, at its first item, or NULL. 0 or -errno.
     */
    int (*next)(void *owner, struct lane *lane);
    void *owner;
};

/*
 * Opens a stream that is to be merged, with an output of its own if there is a format. *has_item:
 * it stands at its first item. 0 or -errno. To be closed in either case.
 */
int merge_open(struct decode_options *options, struct stream *stream, bool *has_item);
/* error, or if that is 0, -errno of what fails at the end. What is not open may be closed, too. */
int merge_close(struct decode_options *options, struct stream *stream, int error);
/*
 * Puts all items of the lanes, each of which stands at an item that was not put yet. The pointers
 * are moved about. 0 or -errno.
 */
int merge_lanes(struct lane **lanes, size_t count);

#endif
