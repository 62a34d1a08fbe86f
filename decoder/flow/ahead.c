/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the flow decoder has to know of packets that it does not read yet: PSB+ (SDM 33.3.7),
 * overflow (33.3.8) and some errata. A trace that comes in pieces must have that much of it.
 */
#include "flow/ahead.h"
#include "packets/part.h"

enum ahead ptd_ahead_psb_ip(struct ptd_packets packets, uint64_t *ip)
{
    struct ptd_packet packet;
    uint64_t last_ip = 0;

    if (ptd_packets_next(&packets, &packet) != PTD_OK)
        return AHEAD_LOST;
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_FUP && ptd_packet_ip(&packet, &last_ip, ip) == PTD_OK)
            return AHEAD_FUP;
        if (packet.type == PTD_PSBEND)
            return AHEAD_NOTHING;
        if (packet.type == PTD_OVF || packet.type == PTD_PSB)
            break;
    }
    return AHEAD_LOST;
}

/* What may stand between any two packets. */
static bool is_timing(const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PAD:
    case PTD_TSC:
    case PTD_TMA:
    case PTD_MTC:
    case PTD_CYC:
    case PTD_CBR:
    case PTD_MNT:
        return true;
    default:
        return false;
    }
}

/* Timing, and state that may stand in front of a TIP.PGE. */
static bool is_status(const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_MODE_EXEC:
    case PTD_MODE_TSX:
    case PTD_PIP:
    case PTD_VMCS:
        return true;
    default:
        return is_timing(packet);
    }
}

bool ptd_ahead_enabling(struct ptd_packets packets)
{
    struct ptd_packet packet;

    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (!is_status(&packet))
            return packet.type == PTD_TIP_PGE;
    }
    return false;
}

bool ptd_ahead_enabling_behind_psb(struct ptd_packets packets)
{
    struct ptd_packet packet;

    if (ptd_packets_next(&packets, &packet) != PTD_OK)
        return false;
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_PSBEND)
            return ptd_ahead_enabling(packets);
        if (packet.type == PTD_OVF || packet.type == PTD_PSB)
            return false;
    }
    return false;
}

/* Whether the next FUP belongs to this packet. */
static bool announces_fup(const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PTW:
        return packet->ptw.ip;
    case PTD_EXSTOP:
        return packet->exstop_ip;
    case PTD_BEP:
        return packet->bep_ip;
    case PTD_CFE:
        return packet->cfe.ip;
    case PTD_TRIG:
        return packet->trig.ip;
    default:
        return false;
    }
}

/* Whose the next FUP is, if not that of an overflow. */
struct claims {
    bool by_packet, by_mode;
    bool in_psb; /* where a MODE.Exec has none of its own */
};

/* Takes note of a packet. True: a FUP that belongs to a packet in front of it. */
static bool is_claimed(struct claims *claims, const struct ptd_packet *packet)
{
    const bool claimed = packet->type == PTD_FUP && (claims->by_packet || claims->by_mode);

    if (is_timing(packet))
        return false;
    claims->by_mode = packet->type == PTD_MODE_EXEC && !claims->in_psb;
    claims->by_packet = packet->type != PTD_FUP && (claims->by_packet || announces_fup(packet));
    if (packet->type == PTD_PSB || packet->type == PTD_PSBEND)
        claims->in_psb = packet->type == PTD_PSB;
    return claimed;
}

bool ptd_ahead_overflow_ip(struct ptd_packets packets, uint64_t last_ip, uint64_t *ip)
{
    const uint32_t errata = packets.errata;
    struct claims claims = {0};
    unsigned psbs = 0;
    struct ptd_packet packet;

    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (is_claimed(&claims, &packet)) {
            (void)ptd_packet_ip(&packet, &last_ip, ip);
            continue;
        }
        switch (packet.type) {
        case PTD_FUP:
            if ((errata & PTD_APL12) && ptd_ahead_enabling(packets))
                return false;
            return ptd_packet_ip(&packet, &last_ip, ip) == PTD_OK;
        case PTD_PSB:
            if (psbs++ > 0)
                return false;
            last_ip = 0;
            break;
        case PTD_TIP:
            return (errata & PTD_SKD010) && ptd_packet_ip(&packet, &last_ip, ip) == PTD_OK;
        case PTD_TNT:
            if (errata & PTD_SKD010)
                break;
            return false;
        case PTD_TIP_PGE:
        case PTD_TIP_PGD:
        case PTD_OVF:
            return false;
        default:
            break;
        }
    }
    return false;
}

/* Whether the search that begins at a PSB, OVF or FUP has its answer here, but for the errata's. */
static bool ends_search(uint32_t errata, uint8_t begin, uint8_t here, unsigned *psbs)
{
    switch ((enum ptd_packet_type)here) {
    case PTD_PSB:
        return begin != PTD_OVF || (*psbs)++ > 0;
    case PTD_OVF:
        return true;
    case PTD_PSBEND:
        return begin == PTD_PSB;
    case PTD_FUP:
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_TIP_PGD:
        return begin != PTD_PSB;
    case PTD_TNT:
        return begin != PTD_PSB && !(errata & PTD_SKD010);
    default:
        return begin == PTD_FUP;
    }
}

/* Whether what the functions above look for behind a packet is there, or cannot be. */
static bool sees_ahead(struct ptd_packets packets, const struct ptd_packet *begin)
{
    const bool has_errata = packets.errata & (PTD_BDM70 | PTD_APL12);
    bool ended = begin->type == PTD_FUP;
    struct claims claims = {0};
    struct ptd_packet packet;
    unsigned psbs = 0;

    while (ptd_packets_has_one(&packets)) {
        if (ptd_packets_next(&packets, &packet) != PTD_OK ||
            packet.offset - begin->offset > PTD_LOOK_AHEAD_MAX)
            return true;
        if (ended && !is_status(&packet))
            return true;
        if (!is_claimed(&claims, &packet) && !ended)
            ended = ends_search(packets.errata, begin->type, packet.type, &psbs);
        if (ended && !has_errata)
            return true;
    }
    return false;
}

bool ptd_ahead_is_there(struct ptd_packets packets)
{
    struct ptd_packet packet;

    if (!ptd_packets_has_one(&packets))
        return false;
    if (ptd_packets_next(&packets, &packet) != PTD_OK)
        return true;
    if (packet.type == PTD_PSB || packet.type == PTD_OVF ||
        (packet.type == PTD_FUP && (packets.errata & PTD_APL12)))
        return sees_ahead(packets, &packet);
    return true;
}
