/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where packets may stand, with a layout other than VPT_LAYOUT_DENSE.
 */
#ifndef VPT_LAYOUT_H
#define VPT_LAYOUT_H

#include "processor.h"
#include "pt_packets.h"

#include <string.h>

#define VPT_LINE_BYTES      8u
#define VPT_LINE_PACKET_MAX 5u /* bytes of a packet that shares its line with others */

/* The packet that begins with bytes, of which there are two at least, is about to be put. */
void vpt_layout_before(struct vpt_cpu *cpu, const uint8_t *bytes, uint32_t len);
/* And it was put. */
void vpt_layout_behind(struct vpt_cpu *cpu, uint8_t opcode, uint32_t len);

static inline uint32_t vpt_line_at(const struct vpt_cpu *cpu, uint32_t buf_at)
{
    return (vpt_output_offset(cpu) + buf_at) % VPT_LINE_BYTES;
}

/*
 * The place of a short IP packet with nothing in front of it, as most are: all layouts agree on it.
 * False: vpt_layout_before() knows.
 */
static inline bool vpt_layout_short_ip(struct vpt_cpu *cpu, unsigned kind)
{
    const uint32_t left = VPT_LINE_BYTES - vpt_line_at(cpu, cpu->buf_len);

    if (kind > PT_IPB_UPD32 || cpu->line_group ||
        cpu->buf_len > VPT_BUFFER_BYTES - 2 * VPT_LINE_BYTES)
        return false;
    if (left < (kind == PT_IPB_UPD16 ? 3u : VPT_LINE_PACKET_MAX)) {
        /* One store; what is too much the packet covers now. */
        memset(cpu->buf + cpu->buf_len, PT_OPC_PAD, VPT_LINE_BYTES);
        cpu->buf_len += left;
        cpu->bytes_since_psb += left;
        cpu->packet_count += left;
    }
    return true;
}

#endif
