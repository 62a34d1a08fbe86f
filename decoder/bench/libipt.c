/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes a trace with libipt: its block decoder, and its packets. */
#include <intel-pt.h>

#include "libipt.h"

#define CACHE_BYTES (256u << 20) /* libipt crawls over large images without one */

uint64_t libipt_blocks;

static bool add_sections(struct pt_block_decoder *decoder, struct pt_image_section_cache *cache,
                         const struct trace *trace)
{
    struct pt_asid asid;
    char path[4096];

    pt_asid_init(&asid);
    if (snprintf(path, sizeof(path), "%s.code", trace->prefix) >= (int)sizeof(path))
        return false;
    for (size_t i = 0; i < trace->section_count; i++) {
        const struct section *const section = &trace->sections[i];
        const int id =
            pt_iscache_add_file(cache, path, section->offset, section->len_bytes, section->address);

        if (id < 0 || pt_image_add_cached(pt_blk_get_image(decoder), cache, id, &asid) < 0)
            return false;
    }
    return true;
}

/* 0 after an error. */
static uint64_t walk_libipt(struct pt_block_decoder *decoder)
{
    uint64_t insns = 0;
    int status = pt_blk_sync_forward(decoder);

    libipt_blocks = 0;
    while (status >= 0) {
        struct pt_event event;
        struct pt_block block = {.ninsn = 0};

        while (status >= 0 && status & pts_event_pending)
            status = pt_blk_event(decoder, &event, sizeof(event));
        if (status < 0)
            break;
        status = pt_blk_next(decoder, &block, sizeof(block));
        insns += block.ninsn;
        libipt_blocks += block.ninsn > 0;
    }
    return status == -pte_eos ? insns : 0;
}

static void configure(struct pt_config *config, const struct trace *trace)
{
    pt_config_init(config);
    config->begin = trace->bytes;
    config->end = trace->bytes + trace->len_bytes;
}

uint64_t run_libipt(const struct trace *trace)
{
    struct pt_image_section_cache *const cache = pt_iscache_alloc(NULL);
    struct pt_config config;
    uint64_t insns = 0;

    configure(&config, trace);

    struct pt_block_decoder *const decoder = pt_blk_alloc_decoder(&config);

    if (cache && decoder && pt_iscache_set_limit(cache, CACHE_BYTES) >= 0 &&
        add_sections(decoder, cache, trace))
        insns = walk_libipt(decoder);
    pt_blk_free_decoder(decoder);
    pt_iscache_free(cache);
    return insns;
}

uint64_t run_libipt_packets(const struct trace *trace)
{
    struct pt_config config;
    struct pt_packet packet;
    uint64_t count = 0;
    int status;

    configure(&config, trace);

    struct pt_packet_decoder *const decoder = pt_pkt_alloc_decoder(&config);

    if (!decoder || pt_pkt_sync_set(decoder, 0) < 0) {
        pt_pkt_free_decoder(decoder);
        return 0;
    }
    while ((status = pt_pkt_next(decoder, &packet, sizeof(packet))) > 0)
        count++;
    pt_pkt_free_decoder(decoder);
    return status == -pte_eos ? count : 0;
}
