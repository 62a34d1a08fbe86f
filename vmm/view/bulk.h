/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace in bulk on one thread, part by part: what bulk.c and shards.c share. */
#ifndef VMM_VIEW_BULK_H
#define VMM_VIEW_BULK_H

#include "view/decode.h"

struct bulk {
    struct decode_options *options;
    struct stream *stream;
    struct ptd_flow *flow; /* of parts; NULL: threads have their own */
    struct ptd_run part;
    struct ptd_time *time; /* NULL: the trace tells none */
    struct ptd_packets packets;
    struct ptd_time_point *points;
    size_t point_room;
};

/* Of a stream that is open. False: no memory; to be closed in either case. */
bool bulk_open(struct bulk *bulk, struct decode_options *options, struct stream *stream);
/* The clock is brought to a place, from packets alone. */
void bulk_pass_time(struct bulk *bulk, uint64_t offset);
/* Up to where the flow ends. PTD_OK or PTD_E_NOMEM. */
int bulk_run(struct bulk *bulk);
void bulk_close(struct bulk *bulk);

#endif
