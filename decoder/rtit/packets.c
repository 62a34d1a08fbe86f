/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT: bytes to packets, and packets to text ("Real Time Instruction Trace Programming Reference"
 * v1.05, 4.1 and 4.2). As in packets.c, no byte at or behind the end of the buffer is read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "ptdec_rtit.h"
#include "rtit_packets.h"

#define FIRST_EXT 0xc0u /* Figure 2: FUP below, extended packets from here on */
#define MTC_MASK  0xfcu
#define STS_MASK  0xf0u
#define PIP_MASK  0xfeu
#define LIP_BITS  48
#define LIP_MASK  ((UINT64_C(1) << LIP_BITS) - 1)

static const uint8_t psb_pattern[RTIT_PSB_LEN] = {RTIT_PSB};

/* Figure 4: the highest 1 is the stop bit. */
static int decode_tnt(uint8_t header, struct ptd_rtit_packet *packet)
{
    unsigned count = 6;

    if (header < 2)
        return PTD_E_OPCODE; /* no result behind the stop bit, or none */
    while (!(header >> count & 1))
        count--;
    packet->type = PTD_RTIT_TNT;
    packet->size_bytes = 1;
    packet->tnt.count = (uint8_t)count;
    packet->tnt.bits = (uint8_t)(header & ((1u << count) - 1));
    packet->has_cycles = count == 6;
    return PTD_OK;
}

/* Figures 5 and 8, Table 18. */
static int decode_lip(const uint8_t *pos, size_t left, struct ptd_rtit_packet *packet)
{
    static const uint8_t types[8] = {
        [RTIT_EVENT_PGE] = PTD_RTIT_PGE, [RTIT_EVENT_PGD] = PTD_RTIT_PGD,
        [RTIT_EVENT_OVF] = PTD_RTIT_OVF, [RTIT_EVENT_PCC] = PTD_RTIT_PCC,
        [RTIT_EVENT_TIP] = PTD_RTIT_TIP, [RTIT_EVENT_FAR] = PTD_RTIT_FAR,
    };
    const unsigned type = types[pos[0] >> RTIT_EVENT_SHR & 7];
    const unsigned payload_bytes = 2 * ((pos[0] & 3u) + 1);
    const bool zero_extended = pos[0] & RTIT_ZEXT;

    if (type == PTD_RTIT_PSB)
        return PTD_E_OPCODE;
    if (payload_bytes > 6 || (payload_bytes == 6 && zero_extended))
        return PTD_E_PAYLOAD;
    if (left < 1 + payload_bytes)
        return PTD_E_TRUNCATED;
    packet->type = (uint8_t)type;
    packet->size_bytes = (uint8_t)(1 + payload_bytes);
    packet->has_cycles = true;
    packet->lip.payload = little_endian(pos + 1, payload_bytes);
    packet->lip.payload_bytes = (uint8_t)payload_bytes;
    packet->lip.zero_extended = zero_extended;
    return PTD_OK;
}

/* Type, size and whether a cycle count follows, of an extended packet. */
static int identify(const uint8_t *pos, size_t left, struct ptd_rtit_packet *packet)
{
    packet->has_cycles = true;
    if (pos[0] == RTIT_PSB) {
        if (memcmp(pos, psb_pattern, left < RTIT_PSB_LEN ? left : RTIT_PSB_LEN) != 0)
            return PTD_E_OPCODE;
        packet->type = PTD_RTIT_PSB;
        packet->size_bytes = RTIT_PSB_LEN;
        packet->has_cycles = false;
    } else if (pos[0] == RTIT_STOP) {
        packet->type = PTD_RTIT_STOP;
        packet->size_bytes = 1;
        packet->has_cycles = false;
    } else if ((pos[0] & PIP_MASK) == RTIT_PIP) {
        packet->type = PTD_RTIT_PIP;
        packet->size_bytes = RTIT_PIP_LEN;
    } else if ((pos[0] & MTC_MASK) == RTIT_MTC) {
        packet->type = PTD_RTIT_MTC;
        packet->size_bytes = RTIT_MTC_LEN;
    } else if ((pos[0] & STS_MASK) == RTIT_STS) {
        packet->type = PTD_RTIT_STS;
        packet->size_bytes = RTIT_STS_LEN;
    } else {
        return PTD_E_OPCODE;
    }
    return left < packet->size_bytes ? PTD_E_TRUNCATED : PTD_OK;
}

static int decode_ext(const uint8_t *pos, size_t left, struct ptd_rtit_packet *packet)
{
    const int status = identify(pos, left, packet);

    if (status != PTD_OK)
        return status;
    switch (packet->type) {
    case PTD_RTIT_PIP:
        packet->pip.cr3 = little_endian(pos + 1, RTIT_PIP_LEN - 1);
        packet->pip.paging = pos[0] & 1;
        break;
    case PTD_RTIT_MTC:
        packet->mtc.range = pos[0] & 3;
        packet->mtc.tsc = pos[1];
        break;
    case PTD_RTIT_STS:
        packet->sts.actual_ratio = (uint8_t)((pos[0] & 0xf) << 2 | pos[1] >> 6);
        packet->sts.effective_ratio = pos[1] & 0x3f;
        packet->sts.tsc = little_endian(pos + 2, RTIT_STS_LEN - 2);
        break;
    default:
        break;
    }
    return PTD_OK;
}

/* The cycle count at pos (4.2.14), which becomes a part of the packet. */
static int decode_cycles(const uint8_t *pos, size_t left, struct ptd_rtit_packet *packet)
{
    if (left == 0)
        return PTD_E_TRUNCATED;

    const unsigned size = pos[0] & 3;

    if (size == 0)
        return PTD_E_PAYLOAD;
    if (left < size)
        return PTD_E_TRUNCATED;
    packet->cycles = (uint32_t)(pos[0] >> 2 | little_endian(pos + 1, size - 1) << 6);
    packet->size_bytes = (uint8_t)(packet->size_bytes + size);
    return PTD_OK;
}

/* ---- The iterator ---- */

void ptd_rtit_packets_init(struct ptd_rtit_packets *packets, const void *bytes, size_t len_bytes,
                           bool cycle_acc)
{
    packets->begin = packets->pos = bytes;
    packets->end = packets->begin + len_bytes;
    packets->cycle_acc = cycle_acc;
}

/* A PSB's zero bytes are more than any other packets have in a row (4.2.1). */
int ptd_rtit_packets_sync(struct ptd_rtit_packets *packets)
{
    const uint8_t *psb = NULL;

    if (packets->pos != packets->end)
        psb = memmem(packets->pos, (size_t)(packets->end - packets->pos), psb_pattern,
                     sizeof(psb_pattern));
    packets->pos = psb ? psb : packets->end;
    return psb ? PTD_OK : PTD_E_NOSYNC;
}

int ptd_rtit_packets_resync(struct ptd_rtit_packets *packets)
{
    packets->pos += packets->pos < packets->end;
    return ptd_rtit_packets_sync(packets);
}

int ptd_rtit_packets_seek(struct ptd_rtit_packets *packets, uint64_t offset)
{
    if (offset > (uint64_t)(packets->end - packets->begin))
        return PTD_E_ARG;
    packets->pos = packets->begin + offset;
    return PTD_OK;
}

uint64_t ptd_rtit_packets_offset(const struct ptd_rtit_packets *packets)
{
    return (uint64_t)(packets->pos - packets->begin);
}

int ptd_rtit_packets_next(struct ptd_rtit_packets *packets, struct ptd_rtit_packet *packet)
{
    const uint8_t *const pos = packets->pos;
    const size_t left = (size_t)(packets->end - pos);
    int status;

    if (left == 0)
        return PTD_END;
    packet->offset = ptd_rtit_packets_offset(packets);
    packet->cycles = 0;
    if (pos[0] < RTIT_FUP)
        status = decode_tnt(pos[0], packet);
    else if (pos[0] < FIRST_EXT)
        status = decode_lip(pos, left, packet);
    else
        status = decode_ext(pos, left, packet);
    if (status != PTD_OK)
        return status;
    packet->has_cycles &= packets->cycle_acc;
    if (packet->has_cycles) {
        status = decode_cycles(pos + packet->size_bytes, left - packet->size_bytes, packet);
        if (status != PTD_OK)
            return status;
    }
    packets->pos += packet->size_bytes;
    return PTD_OK;
}

/* ---- LIPs ---- */

int ptd_rtit_packet_lip(const struct ptd_rtit_packet *packet, struct ptd_rtit_last_lip *last,
                        uint64_t *lip)
{
    const uint64_t sent =
        packet->lip.zero_extended ? LIP_MASK : (UINT64_C(1) << 8 * packet->lip.payload_bytes) - 1;

    last->lip = (last->lip & ~sent) | packet->lip.payload;
    last->known |= sent;
    if (last->known != LIP_MASK)
        return PTD_END;
    *lip = last->lip | (last->lip >> (LIP_BITS - 1) ? ~LIP_MASK : 0);
    return PTD_OK;
}

/* ---- Text ---- */

const char *ptd_rtit_packet_name(enum ptd_rtit_type type)
{
    static const char *const names[PTD_RTIT_TYPES] = {
        [PTD_RTIT_PSB] = "PSB",     [PTD_RTIT_TNT] = "TNT",        [PTD_RTIT_TIP] = "TIP",
        [PTD_RTIT_PGE] = "FUP.PGE", [PTD_RTIT_PGD] = "FUP.PGD",    [PTD_RTIT_OVF] = "FUP.BuffOvf",
        [PTD_RTIT_PCC] = "FUP.PCC", [PTD_RTIT_FAR] = "FUP.FAR",    [PTD_RTIT_PIP] = "PIP",
        [PTD_RTIT_MTC] = "MTC",     [PTD_RTIT_STOP] = "TraceSTOP", [PTD_RTIT_STS] = "STS",
    };

    if ((unsigned)type >= PTD_RTIT_TYPES)
        return "?";
    return names[type];
}

static void format_payload(const struct ptd_rtit_packet *packet, char *text, size_t text_bytes)
{
    switch (packet->type) {
    case PTD_RTIT_TNT: {
        char results[8] = "";

        for (unsigned i = 0; i < packet->tnt.count && i < 6; i++)
            results[i] = packet->tnt.bits >> (packet->tnt.count - 1 - i) & 1 ? 'T' : 'N';
        (void)snprintf(text, text_bytes, " %s (%u)", results, packet->tnt.count);
        break;
    }
    case PTD_RTIT_PSB:
    case PTD_RTIT_STOP:
        break;
    case PTD_RTIT_PIP:
        (void)snprintf(text, text_bytes, " CR3 0x%" PRIx64 "%s", packet->pip.cr3,
                       packet->pip.paging ? ", PG" : "");
        break;
    case PTD_RTIT_MTC:
        (void)snprintf(text, text_bytes, " 0x%x (TSC[%u:%u])", packet->mtc.tsc,
                       14u + 2u * packet->mtc.range, 7u + 2u * packet->mtc.range);
        break;
    case PTD_RTIT_STS:
        (void)snprintf(text, text_bytes, " TSC 0x%" PRIx64 ", ratio %u, effective %u",
                       packet->sts.tsc, packet->sts.actual_ratio, packet->sts.effective_ratio);
        break;
    default:
        (void)snprintf(text, text_bytes, " 0x%" PRIx64 " (%u bits%s)", packet->lip.payload,
                       8u * packet->lip.payload_bytes,
                       packet->lip.zero_extended ? ", zero-extended" : "");
        break;
    }
}

int ptd_rtit_packet_format(const struct ptd_rtit_packet *packet, char *text, size_t text_bytes)
{
    const char *const name = ptd_rtit_packet_name((enum ptd_rtit_type)packet->type);
    char payload[64] = "";

    format_payload(packet, payload, sizeof(payload));
    if (packet->has_cycles)
        return snprintf(text, text_bytes, "%s%s, %" PRIu32 " cycles", name, payload,
                        packet->cycles);
    return snprintf(text, text_bytes, "%s%s", name, payload);
}
