/* SPDX-License-Identifier: BSD-3-Clause */
/* libipt: its decoders of instructions and of blocks. */
#include "roundtrip/same/peers.h"

#include <intel-pt.h>
#include <stdlib.h>
#include <string.h>

struct code {
    const struct scene *scene;
    uint64_t tsc;
};

/* The youngest of what stands at ip, the process's own before what all share. */
static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
                     void *context)
{
    const struct code *const code = context;

    for (size_t i = code->scene->place_count; i-- > 0;) {
        const struct place *const place = &code->scene->places[i];
        const uint64_t offset = ip - place->base;

        if (offset >= place->len_bytes || place->tsc > code->tsc ||
            (place->cr3 != PTD_ANY_CR3 && place->cr3 != asid->cr3))
            continue;
        if (size > place->len_bytes - offset)
            size = place->len_bytes - offset;
        memcpy(buffer, place->bytes + offset, size);
        return (int)size;
    }
    return -pte_nomap;
}

static void configure(const struct scene *scene, const struct trace *trace,
                      struct pt_config *config)
{
    pt_config_init(config);
    config->begin = trace->bytes;
    config->end = trace->bytes + trace->len_bytes;
    config->cpu = (struct pt_cpu){.vendor = scene->family ? pcv_intel : pcv_unknown,
                                  .family = scene->family,
                                  .model = scene->model,
                                  .stepping = scene->stepping};
    if (scene->family)
        (void)pt_cpu_errata(&config->errata, &config->cpu);
    config->mtc_freq = (uint8_t)(scene->ctl >> VPT_CTL_MTCFREQ_SHR & 15);
    config->nom_freq = scene->max_nonturbo_ratio;
    config->cpuid_0x15_eax = scene->tsc_den;
    config->cpuid_0x15_ebx = scene->tsc_num;
    config->addr_filter.config.ctl.addr0_cfg = scene->ranges[0].kind;
    config->addr_filter.addr0_a = scene->ranges[0].first;
    config->addr_filter.addr0_b = scene->ranges[0].last;
    config->addr_filter.config.ctl.addr1_cfg = scene->ranges[1].kind;
    config->addr_filter.addr1_a = scene->ranges[1].first;
    config->addr_filter.addr1_b = scene->ranges[1].last;
}

static bool is_branch(enum pt_insn_class iclass)
{
    return iclass != ptic_error && iclass != ptic_other && iclass != ptic_ptwrite;
}

static void take_event(struct code *code, const struct pt_event *event)
{
    if (event->has_tsc)
        code->tsc = event->tsc;
}

void by_libipt_insns(const struct scene *scene, const struct trace *trace, struct found *found)
{
    struct code code = {.scene = scene};
    struct pt_insn_decoder *decoder;
    struct pt_config config;
    uint64_t offset = 0;
    int status;

    configure(scene, trace, &config);
    decoder = pt_insn_alloc_decoder(&config);
    if (!decoder)
        abort();
    pt_image_set_callback(pt_insn_get_image(decoder), read_code, &code);
    status = pt_insn_sync_forward(decoder);
    while (status >= 0 && !(status & pts_eos)) {
        struct pt_insn insn = {.iclass = ptic_error};

        while (status >= 0 && status & pts_event_pending) {
            struct pt_event event;

            status = pt_insn_event(decoder, &event, sizeof(event));
            if (status >= 0)
                take_event(&code, &event);
        }
        if (status < 0 || status & pts_eos)
            break;
        status = pt_insn_next(decoder, &insn, sizeof(insn));
        if (insn.iclass == ptic_error)
            continue;
        list_add(&found->insns, insn.ip);
        found->branches += is_branch(insn.iclass);
    }
    (void)pt_insn_get_offset(decoder, &offset);
    if (status < 0 && status != -pte_eos)
        found_error(found, offset, pt_errstr(pt_errcode(status)));
    pt_insn_free_decoder(decoder);
}

void by_libipt_blocks(const struct scene *scene, const struct trace *trace, struct found *found)
{
    struct code code = {.scene = scene};
    struct pt_block_decoder *decoder;
    struct pt_config config;
    uint64_t offset = 0;
    int status;

    configure(scene, trace, &config);
    config.flags.variant.block.end_on_call = 1;
    config.flags.variant.block.end_on_jump = 1;
    decoder = pt_blk_alloc_decoder(&config);
    if (!decoder)
        abort();
    pt_image_set_callback(pt_blk_get_image(decoder), read_code, &code);
    status = pt_blk_sync_forward(decoder);
    while (status >= 0 && !(status & pts_eos)) {
        struct pt_block block = {.ninsn = 0};

        while (status >= 0 && status & pts_event_pending) {
            struct pt_event event;

            status = pt_blk_event(decoder, &event, sizeof(event));
            if (status >= 0)
                take_event(&code, &event);
        }
        if (status < 0 || status & pts_eos)
            break;
        status = pt_blk_next(decoder, &block, sizeof(block));
        if (block.ninsn == 0)
            continue;
        list_add(&found->blocks, block.ip);
        list_add(&found->block_insns, block.ninsn);
        list_add(&found->block_ends, is_branch(block.iclass));
        found->branches += is_branch(block.iclass);
    }
    (void)pt_blk_get_offset(decoder, &offset);
    if (status < 0 && status != -pte_eos)
        found_error(found, offset, pt_errstr(pt_errcode(status)));
    pt_blk_free_decoder(decoder);
}
