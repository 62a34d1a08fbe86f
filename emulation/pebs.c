/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PEBS records by way of the trace: packet blocks (33.4.1.1, 33.4.2.26 to 33.4.2.28).
 *
 * A record may be larger than the internal buffer, so room is made packet by packet. Where there is
 * none, an overflow ends the block, and nothing of the record follows it.
 */
#include "little_endian.h"
#include "packets.h"
#include "processor.h"
#include "pt_packets.h"

#define MAX_TYPE 0x1fu
#define MAX_ID   0x1fu

static bool put_item(struct vpt_cpu *cpu, const struct vpt_block_item *item, unsigned bytes)
{
    uint8_t bip[1 + 8] = {(uint8_t)((item->id & MAX_ID) << PT_BIP_ID_SHR | PT_BIP)};

    vpt_put_le(bip + 1, item->value, bytes);
    if (!vpt_make_room(cpu, VPT_EVENT_MAX_BYTES))
        return false;
    vpt_emit_bytes(cpu, bip, 1 + bytes, false);
    return true;
}

static bool put_block(struct vpt_cpu *cpu, const struct vpt_block *block)
{
    const uint8_t size = block->four_byte_items ? PT_BBP_SZ4 : 0;

    if (!vpt_make_room(cpu, VPT_EVENT_MAX_BYTES))
        return false;
    vpt_emit_bytes(
        cpu, (const uint8_t[]){PT_OPC_EXT, PT_EXT_BBP, (uint8_t)(size | (block->type & MAX_TYPE))},
        PT_BBP_LEN, false);
    for (size_t i = 0; i < block->count; i++)
        if (!put_item(cpu, &block->items[i], block->four_byte_items ? 4 : 8))
            return false;
    return true;
}

void vpt_pebs(struct vpt_cpu *cpu, const struct vpt_block *blocks, size_t count, uint64_t ip)
{
    bool complete = count > 0;

    if (!cpu->caps.pebs || !cpu->trigger_en)
        return;
    vpt_begin_event(cpu);
    for (size_t i = 0; i < count && complete; i++)
        complete = put_block(cpu, &blocks[i]) && cpu->trigger_en;
    if (complete && cpu->context_en) {
        vpt_emit_bytes(cpu, (const uint8_t[]){PT_OPC_EXT, PT_EXT_BEP_IP}, PT_EXT_LEN, false);
        vpt_emit_ip(cpu, PT_FUP, ip);
    } else if (complete) {
        vpt_emit_bytes(cpu, (const uint8_t[]){PT_OPC_EXT, PT_EXT_BEP}, PT_EXT_LEN, false);
    }
    vpt_end_quietly(cpu);
}
