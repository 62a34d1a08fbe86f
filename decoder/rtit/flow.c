/* SPDX-License-Identifier: BSD-3-Clause */
/* The RTIT flow decoder's interface, and whose turn it is: to read packets, or to walk over code.
 */
#include <stdlib.h>

#include "rtit/read.h"
#include "rtit/walk.h"

struct ptd_rtit_flow *ptd_rtit_flow_new(const void *bytes, size_t len_bytes,
                                        const struct ptd_image *image,
                                        const struct ptd_rtit_config *config)
{
    struct ptd_rtit_flow *const flow = calloc(1, sizeof(*flow));

    if (!flow)
        return NULL;
    if (config)
        flow->config = *config;
    else
        flow->config.mode = PTD_MODE_64;
    if (flow->config.filters > 2)
        flow->config.filters = 2;
    if (flow->config.stops > 2)
        flow->config.stops = 2;
    ptd_rtit_packets_init(&flow->packets, bytes, len_bytes, flow->config.cycle_acc);
    ptd_blocks_init(&flow->blocks, image);
    flow->cr3 = flow->config.cr3;
    flow->paging = flow->time.doubtful = true;
    flow->since_psb = RTIT_PSB_SHADOW + 1;
    if (!flow->config.at_start && ptd_rtit_packets_sync(&flow->packets) != PTD_OK &&
        len_bytes > 0) {
        struct ptd_item *const item = ptd_rtit_push(flow, PTD_ITEM_ERROR, 0);

        item->error = PTD_E_NOSYNC;
        item->value = len_bytes;
    }
    return flow;
}

void ptd_rtit_flow_free(struct ptd_rtit_flow *flow)
{
    if (!flow)
        return;
    ptd_blocks_free(&flow->blocks);
    free(flow);
}

int ptd_rtit_flow_next(struct ptd_rtit_flow *flow, struct ptd_item *item)
{
    if (ptd_blocks_are_old(&flow->blocks))
        ptd_blocks_notice(&flow->blocks);
    while (flow->item_next == flow->item_count) {
        flow->item_next = flow->item_count = 0;
        if (flow->state == RTIT_TRACING && (flow->tnt_count > 0 || flow->bind.kind))
            ptd_rtit_walk(flow);
        else if (flow->ended)
            return PTD_END;
        else
            ptd_rtit_read(flow);
    }
    *item = flow->items[flow->item_next++];
    return PTD_OK;
}
