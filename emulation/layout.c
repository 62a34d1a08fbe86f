/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where packets may stand on processors that lay them out in lines (enum vpt_layout), and the PADs
 * that fill what stays empty (33.4.2.20).
 */
#include "layout.h"

#include <string.h>

/* So many PADs in front of the last bytes of the buffer. */
static void put_pads(struct vpt_cpu *cpu, uint32_t count, uint32_t last_bytes)
{
    uint8_t *at = cpu->buf + cpu->buf_len - last_bytes;

    memmove(at + count, at, last_bytes);
    memset(at, PT_OPC_PAD, count);
    cpu->buf_len += count;
    cpu->bytes_since_psb += count;
    cpu->packet_count += count;
}

static void fill_line(struct vpt_cpu *cpu)
{
    put_pads(cpu, (VPT_LINE_BYTES - vpt_line_at(cpu, cpu->buf_len)) % VPT_LINE_BYTES, 0);
}

/* How many bytes of a packet stand in front of its payload; the first of a TSC's is with them. */
static uint32_t head_bytes(uint8_t opcode, uint32_t len)
{
    if (opcode == PT_OPC_EXT || opcode == PT_OPC_TSC)
        return len > 2 + VPT_LINE_BYTES ? len - VPT_LINE_BYTES : 2;
    return 1;
}

/* PADs in front of a packet and of what belongs to it, so that it stands where it has to. */
static void make_place_split(struct vpt_cpu *cpu, uint8_t opcode, uint32_t len)
{
    const bool split = len > VPT_LINE_PACKET_MAX;
    const uint32_t in_line = split ? head_bytes(opcode, len) : len;
    uint32_t left, pads;

    if (cpu->line_group > cpu->buf_len || cpu->line_group + in_line > VPT_LINE_BYTES)
        cpu->line_group = 0;
    left = VPT_LINE_BYTES - vpt_line_at(cpu, cpu->buf_len - cpu->line_group);
    pads = left < cpu->line_group + in_line ? left : 0;
    if (split)
        pads += (pads ? VPT_LINE_BYTES : left) - cpu->line_group - in_line;
    put_pads(cpu, pads, cpu->line_group);
}

static void make_place_whole(struct vpt_cpu *cpu, bool psbend, uint32_t len)
{
    if (len > VPT_LINE_PACKET_MAX || psbend ||
        vpt_line_at(cpu, cpu->buf_len) + len > VPT_LINE_BYTES)
        fill_line(cpu);
}

void vpt_layout_before(struct vpt_cpu *cpu, const uint8_t *bytes, uint32_t len)
{
    if (cpu->caps.choices.layout == VPT_LAYOUT_WHOLE)
        make_place_whole(cpu, bytes[0] == PT_OPC_EXT && bytes[1] == PT_EXT_PSBEND, len);
    else
        make_place_split(cpu, bytes[0], len);
}

void vpt_layout_behind(struct vpt_cpu *cpu, uint8_t opcode, uint32_t len)
{
    const bool joins = cpu->caps.choices.layout == VPT_LAYOUT_SPLIT && len <= VPT_LINE_PACKET_MAX &&
                       ((opcode & PT_CYC_MASK) == PT_CYC || opcode == PT_OPC_MODE);

    cpu->line_group = joins ? (uint8_t)(cpu->line_group + len) : 0;
    if (len > VPT_LINE_PACKET_MAX)
        fill_line(cpu);
}
