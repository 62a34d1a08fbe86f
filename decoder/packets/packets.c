/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes to packets (SDM 33.4.2), by two charts: one for the first byte of a packet and one for the
 * second byte of the two-byte opcodes. Also PSB search (33.4.2.17), the context of packet blocks
 * (33.4.1.1) and the reconstruction of compressed IPs (Table 33-18).
 *
 * No byte at or behind the end of the buffer is read, whatever the bytes say.
 */
#include <endian.h>
#include <string.h>

#include "base/array.h"
#include "packets/packets.h"
#include "ptdec.h"
#include "pt_packets.h"

/* ---- First byte ---- */

enum first {
    BAD, /* starts no packet */
    PAD,
    EXT, /* two-byte opcode */
    TNT,
    CYC, /* of one byte */
    CYX, /* CYC that goes on */
    TIP,
    PGE,
    PGD,
    FUP,
    TSC,
    MTC,
    MOD,
    TRG,
};

/* clang-format off */
static const uint8_t first_chart[256] = {
/*        0    1    2    3    4    5    6    7    8    9    a    b    c    d    e    f */
/* 0 */ PAD, PGD, EXT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, TIP, TNT, CYX,
/* 1 */ TNT, PGE, TNT, CYC, TNT, BAD, TNT, CYX, TNT, TSC, TNT, CYC, TNT, FUP, TNT, CYX,
/* 2 */ TNT, PGD, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, TIP, TNT, CYX,
/* 3 */ TNT, PGE, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, FUP, TNT, CYX,
/* 4 */ TNT, PGD, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, TIP, TNT, CYX,
/* 5 */ TNT, PGE, TNT, CYC, TNT, BAD, TNT, CYX, TNT, MTC, TNT, CYC, TNT, FUP, TNT, CYX,
/* 6 */ TNT, PGD, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, TIP, TNT, CYX,
/* 7 */ TNT, PGE, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, FUP, TNT, CYX,
/* 8 */ TNT, PGD, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, TIP, TNT, CYX,
/* 9 */ TNT, PGE, TNT, CYC, TNT, BAD, TNT, CYX, TNT, MOD, TNT, CYC, TNT, FUP, TNT, CYX,
/* a */ TNT, PGD, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, TIP, TNT, CYX,
/* b */ TNT, PGE, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, FUP, TNT, CYX,
/* c */ TNT, PGD, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, TIP, TNT, CYX,
/* d */ TNT, PGE, TNT, CYC, TNT, BAD, TNT, CYX, TNT, TRG, TNT, CYC, TNT, FUP, TNT, CYX,
/* e */ TNT, PGD, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, TIP, TNT, CYX,
/* f */ TNT, PGE, TNT, CYC, TNT, BAD, TNT, CYX, TNT, BAD, TNT, CYC, TNT, FUP, TNT, CYX,
};

/* Bytes of payload by IPBytes (Table 33-18). */
#define RESERVED 0xffu
static const uint8_t ip_payload_bytes[8] = {0, 2, 4, 6, 6, RESERVED, 8, RESERVED};

/* ---- Second byte ---- */

#define PTW_ROW(byte, bytes)    [byte] = {PTD_PTW, 2 + (bytes)}, [(byte) | PT_EXT_IP] = {PTD_PTW, 2 + (bytes)}
#define EXT_PTW4                PT_EXT_PTW
#define EXT_PTW8                (PT_EXT_PTW | 1u << 5)
#define EXT_PTW_RESERVED2       (PT_EXT_PTW | 2u << 5)
#define EXT_PTW_RESERVED3       (PT_EXT_PTW | 3u << 5)

/* Size 0: no packet; size 1: a packet with a reserved encoding. */
static const struct {
    uint8_t type, size_bytes;
} ext_chart[256] = {
    [PT_EXT_PSB]       = {PTD_PSB, PT_PSB_LEN},
    [PT_EXT_PSBEND]    = {PTD_PSBEND, PT_EXT_LEN},
    [PT_EXT_TNT64]     = {PTD_TNT, PT_TNT64_LEN},
    [PT_EXT_PIP]       = {PTD_PIP, PT_PIP_LEN},
    [PT_EXT_TRACESTOP] = {PTD_TRACESTOP, PT_EXT_LEN},
    [PT_EXT_CBR]       = {PTD_CBR, PT_CBR_LEN},
    [PT_EXT_TMA]       = {PTD_TMA, PT_TMA_LEN},
    [PT_EXT_VMCS]      = {PTD_VMCS, PT_VMCS_LEN},
    [PT_EXT_OVF]       = {PTD_OVF, PT_EXT_LEN},
    [PT_EXT_MNT]       = {PTD_MNT, PT_MNT_LEN},
    PTW_ROW(EXT_PTW4, 4),
    PTW_ROW(EXT_PTW8, 8),
    PTW_ROW(EXT_PTW_RESERVED2, -1),
    PTW_ROW(EXT_PTW_RESERVED3, -1),
    [PT_EXT_EXSTOP]    = {PTD_EXSTOP, PT_EXT_LEN},
    [PT_EXT_EXSTOP_IP] = {PTD_EXSTOP, PT_EXT_LEN},
    [PT_EXT_MWAIT]     = {PTD_MWAIT, PT_MWAIT_LEN},
    [PT_EXT_PWRE]      = {PTD_PWRE, PT_PWRE_LEN},
    [PT_EXT_PWRX]      = {PTD_PWRX, PT_PWRX_LEN},
    [PT_EXT_BBP]       = {PTD_BBP, PT_BBP_LEN},
    [PT_EXT_BEP]       = {PTD_BEP, PT_EXT_LEN},
    [PT_EXT_BEP_IP]    = {PTD_BEP, PT_EXT_LEN},
    [PT_EXT_CFE]       = {PTD_CFE, PT_CFE_LEN},
    [PT_EXT_EVD]       = {PTD_EVD, PT_EVD_LEN},
};
/* clang-format on */

static const uint8_t psb_pattern[PT_PSB_LEN] = {
    PT_OPC_EXT, PT_EXT_PSB, PT_OPC_EXT, PT_EXT_PSB, PT_OPC_EXT, PT_EXT_PSB, PT_OPC_EXT, PT_EXT_PSB,
    PT_OPC_EXT, PT_EXT_PSB, PT_OPC_EXT, PT_EXT_PSB, PT_OPC_EXT, PT_EXT_PSB, PT_OPC_EXT, PT_EXT_PSB,
};

/* ---- Payloads ---- */

/* The same of up to 8 bytes; of the left bytes from there on, no other is read. */
static uint64_t load(const uint8_t *bytes, size_t left, unsigned count)
{
    uint64_t value;

    if (count == 0)
        return 0;
    if (left < sizeof(value))
        return little_endian(bytes, count);
    memcpy(&value, bytes, sizeof(value)); /* one load instead of a loop: IPs are half of a trace */
    return le64toh(value) & UINT64_MAX >> (64 - 8 * count);
}

static unsigned highest_bit(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

/* Splits the stop bit off (Table 33-16). stopped is not 0. */
static void set_tnt(struct ptd_packet *packet, uint64_t stopped)
{
    const unsigned count = highest_bit(stopped);

    packet->type = PTD_TNT;
    packet->tnt.count = (uint8_t)count;
    packet->tnt.bits = stopped & (((uint64_t)1 << count) - 1);
}

static int decode_ip(const uint8_t *pos, size_t left, enum ptd_packet_type type,
                     struct ptd_packet *packet)
{
    const unsigned ip_bytes = pos[0] >> PT_IPBYTES_SHR;
    const unsigned payload_bytes = ip_payload_bytes[ip_bytes];

    if (payload_bytes == RESERVED)
        return PTD_E_PAYLOAD;
    if (left < 1 + payload_bytes)
        return PTD_E_TRUNCATED;
    packet->type = (uint8_t)type;
    packet->size_bytes = (uint8_t)(1 + payload_bytes);
    packet->ip.ip_bytes = (uint8_t)ip_bytes;
    packet->ip.payload = load(pos + 1, left - 1, payload_bytes);
    return PTD_OK;
}

/* SKD007: a CYC that goes on with an OVF is but a byte long. */
static bool is_cut_cyc(const uint8_t *pos, size_t left)
{
    return left >= 3 && pos[1] == PT_OPC_EXT && pos[2] == PT_EXT_OVF;
}

static int decode_cyc(const uint8_t *pos, size_t left, struct ptd_packet *packet)
{
    uint64_t value = pos[0] >> PT_CYC_SHR0;
    unsigned shift = 8 - PT_CYC_SHR0;
    unsigned size = 1;
    bool more = pos[0] & PT_CYC_EXP0;

    for (; more; size++, shift += 8 - PT_CYC_SHR) {
        if (size == PT_CYC_MAX_LEN)
            return PTD_E_PAYLOAD;
        if (size == left)
            return PTD_E_TRUNCATED;
        const uint64_t part = pos[size] >> PT_CYC_SHR;

        if (part && (shift >= 64 || part > UINT64_MAX >> shift))
            return PTD_E_PAYLOAD;
        if (part)
            value |= part << shift;
        more = pos[size] & PT_CYC_EXP;
    }
    packet->type = PTD_CYC;
    packet->size_bytes = (uint8_t)size;
    packet->cyc = value;
    return PTD_OK;
}

static int decode_mode(const uint8_t *pos, size_t left, struct ptd_packet *packet)
{
    if (left < PT_MODE_LEN)
        return PTD_E_TRUNCATED;
    packet->size_bytes = PT_MODE_LEN;
    switch (pos[1] >> PT_MODE_LEAF_SHR) {
    case PT_MODE_EXEC:
        packet->type = PTD_MODE_EXEC;
        packet->mode_exec.csl = pos[1] & PT_MODE_EXEC_CSL;
        packet->mode_exec.csd = pos[1] & PT_MODE_EXEC_CSD;
        packet->mode_exec.interrupts = pos[1] & PT_MODE_EXEC_IF;
        return packet->mode_exec.csl && packet->mode_exec.csd ? PTD_E_PAYLOAD : PTD_OK;
    case PT_MODE_TSX:
        packet->type = PTD_MODE_TSX;
        packet->mode_tsx.in_tx = pos[1] & PT_MODE_TSX_INTX;
        packet->mode_tsx.abort = pos[1] & PT_MODE_TSX_ABRT;
        return packet->mode_tsx.in_tx && packet->mode_tsx.abort ? PTD_E_PAYLOAD : PTD_OK;
    default:
        return PTD_E_PAYLOAD;
    }
}

static int decode_trig(const uint8_t *pos, size_t left, struct ptd_packet *packet)
{
    const bool has_icnt = left > 1 && (pos[1] & PT_TRIG_ICNTV);
    const unsigned size = has_icnt ? PT_TRIG5_LEN : PT_TRIG_LEN;

    if (left < size)
        return PTD_E_TRUNCATED;
    packet->type = PTD_TRIG;
    packet->size_bytes = (uint8_t)size;
    packet->trig.icnt = has_icnt ? (uint16_t)little_endian(pos + PT_TRIG_LEN, 2) : 0;
    packet->trig.fired = pos[2];
    packet->trig.has_icnt = has_icnt;
    packet->trig.more = pos[1] & PT_TRIG_MULT;
    packet->trig.ip = pos[1] & PT_TRIG_IP;
    return PTD_OK;
}

static int decode_bip(const uint8_t *pos, size_t left, unsigned item_bytes,
                      struct ptd_packet *packet)
{
    if (left < 1 + item_bytes)
        return PTD_E_TRUNCATED;
    packet->type = PTD_BIP;
    packet->size_bytes = (uint8_t)(1 + item_bytes);
    packet->bip.id = pos[0] >> PT_BIP_ID_SHR;
    packet->bip.payload = little_endian(pos + 1, item_bytes);
    return PTD_OK;
}

static bool is_cbr(const uint8_t *pos)
{
    return pos[0] == PT_OPC_EXT && pos[1] == PT_EXT_CBR;
}

/* SKZ84: a TMA stands in front of the CBR of PSB+, but for a byte that is no packet. */
static bool is_corrupt_tma(const uint8_t *pos, size_t left)
{
    return left >= PT_TMA_LEN + 3 && !is_cbr(pos + PT_TMA_LEN) && is_cbr(pos + PT_TMA_LEN + 1);
}

/* A two-byte opcode whose bytes are all there, and whose type and size are set. */
static int decode_ext_payload(struct ptd_packets *packets, const uint8_t *pos,
                              struct ptd_packet *packet)
{
    const uint8_t *payload = pos + PT_EXT_LEN;

    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PSB: /* its pattern was compared already */
    case PTD_OVF:
        packets->bip_bytes = 0; /* 33.4.1.1 */
        break;
    case PTD_TNT: {
        const uint64_t stopped = little_endian(payload, 6);

        if (stopped < 2)
            return PTD_E_PAYLOAD;
        set_tnt(packet, stopped);
        packet->tnt.is_long = true;
        break;
    }
    case PTD_PIP:
        packet->pip.nr = payload[0] & PT_PIP_NR;
        packet->pip.cr3 = little_endian(payload, 6) >> PT_PIP_SHL << PT_PIP_CR3_SHR;
        break;
    case PTD_CBR:
        packet->cbr = payload[0];
        break;
    case PTD_TMA:
        packet->tma.ctc = (uint16_t)little_endian(payload, 2);
        packet->tma.fast = (uint16_t)(little_endian(payload + 3, 2) & 0x1ffu);
        packet->tma.corrupt =
            (packets->errata & PTD_SKZ84) && is_corrupt_tma(pos, (size_t)(packets->end - pos));
        packet->size_bytes += packet->tma.corrupt;
        break;
    case PTD_VMCS:
        packet->vmcs = little_endian(payload, 5) << 12;
        break;
    case PTD_MNT:
        packet->mnt = little_endian(payload + 1, 8);
        break;
    case PTD_PTW:
        packet->ptw.payload_bytes = (uint8_t)(packet->size_bytes - PT_EXT_LEN);
        packet->ptw.payload = little_endian(payload, packet->ptw.payload_bytes);
        packet->ptw.ip = pos[1] & PT_EXT_IP;
        break;
    case PTD_EXSTOP:
        packet->exstop_ip = pos[1] & PT_EXT_IP;
        break;
    case PTD_MWAIT:
        packet->mwait.hints = payload[0];
        packet->mwait.ext = payload[4] & 3u;
        break;
    case PTD_PWRE:
        packet->pwre.hw = payload[0] & PT_PWRE_HW;
        packet->pwre.state = payload[1] >> 4;
        packet->pwre.sub_state = payload[1] & 0xfu;
        break;
    case PTD_PWRX:
        packet->pwrx.last = payload[0] >> 4;
        packet->pwrx.deepest = payload[0] & 0xfu;
        packet->pwrx.wake_reason = payload[1] & 0xfu;
        break;
    case PTD_BBP:
        packet->bbp.type = payload[0] & PT_BBP_TYPE_MASK;
        packet->bbp.item_bytes = payload[0] & PT_BBP_SZ4 ? 4 : 8;
        packets->bip_bytes = packet->bbp.item_bytes;
        break;
    case PTD_BEP:
        packet->bep_ip = pos[1] & PT_EXT_IP;
        packets->bip_bytes = 0;
        break;
    case PTD_CFE:
        packet->cfe.type = payload[0] & PT_CFE_TYPE_MASK;
        packet->cfe.ip = payload[0] & PT_CFE_IP;
        packet->cfe.vector = payload[1];
        break;
    case PTD_EVD:
        packet->evd.type = payload[0] & PT_EVD_TYPE_MASK;
        packet->evd.payload = little_endian(payload + 1, 8);
        break;
    default: /* nothing behind the opcode */
        break;
    }
    return PTD_OK;
}

static int decode_ext(struct ptd_packets *packets, const uint8_t *pos, size_t left,
                      struct ptd_packet *packet)
{
    if (left < PT_EXT_LEN)
        return PTD_E_TRUNCATED;

    const uint8_t type = ext_chart[pos[1]].type;
    const uint8_t size = ext_chart[pos[1]].size_bytes;

    if (size == 0)
        return PTD_E_OPCODE;
    if (size == 1)
        return PTD_E_PAYLOAD;
    if (type == PTD_PSB && memcmp(pos, psb_pattern, left < size ? left : size) != 0)
        return PTD_E_OPCODE;
    if (type == PTD_MNT && left > PT_EXT_LEN && pos[PT_EXT_LEN] != PT_EXT3_MNT)
        return PTD_E_OPCODE;
    if (left < size)
        return PTD_E_TRUNCATED;
    packet->type = type;
    packet->size_bytes = size;
    return decode_ext_payload(packets, pos, packet);
}

/* ---- The iterator ---- */

void ptd_packets_init(struct ptd_packets *packets, const void *bytes, size_t len_bytes)
{
    packets->begin = packets->pos = bytes;
    packets->end = packets->begin + len_bytes;
    packets->base = 0;
    packets->bip_bytes = 0;
    packets->errata = 0;
}

void ptd_packets_set_errata(struct ptd_packets *packets, uint32_t errata)
{
    packets->errata = errata;
}

/* Pairs 02 82 from pos on, counted up to limit. */
static unsigned psb_pairs(const uint8_t *pos, const uint8_t *end, unsigned limit)
{
    unsigned pairs = 0;

    while (pairs < limit && end - pos >= 2 && pos[0] == PT_OPC_EXT && pos[1] == PT_EXT_PSB) {
        pairs++;
        pos += 2;
    }
    return pairs;
}

int ptd_packets_sync(struct ptd_packets *packets)
{
    packets->bip_bytes = 0;
    if (packets->pos == packets->end)
        return PTD_E_NOSYNC;

    const uint8_t *psb = memmem(packets->pos, (size_t)(packets->end - packets->pos), psb_pattern,
                                sizeof(psb_pattern));

    if (!psb) {
        packets->pos = packets->end;
        return PTD_E_NOSYNC;
    }
    /* A payload in front of the PSB may end in the same bytes: then the run is longer than a PSB.
     */
    const unsigned extra = psb_pairs(psb + PT_PSB_LEN, packets->end, PT_PSB_REPEAT);

    packets->pos = extra < PT_PSB_REPEAT ? psb + (size_t)2 * extra : psb;
    return PTD_OK;
}

void ptd_packets_skip_byte(struct ptd_packets *packets)
{
    packets->pos += packets->pos < packets->end;
}

int ptd_packets_resync(struct ptd_packets *packets)
{
    ptd_packets_skip_byte(packets);
    return ptd_packets_sync(packets);
}

int ptd_packets_seek(struct ptd_packets *packets, uint64_t offset)
{
    if (offset < packets->base || offset - packets->base > (size_t)(packets->end - packets->begin))
        return PTD_E_ARG;
    packets->pos = packets->begin + (offset - packets->base);
    packets->bip_bytes = 0;
    return PTD_OK;
}

uint64_t ptd_packets_offset(const struct ptd_packets *packets)
{
    return packets->base + (uint64_t)(packets->pos - packets->begin);
}

void ptd_packets_slide(struct ptd_packets *packets, const void *bytes, size_t len_bytes,
                       uint64_t base)
{
    const uint64_t offset = ptd_packets_offset(packets);

    packets->begin = bytes;
    packets->end = packets->begin + len_bytes;
    packets->base = base;
    packets->pos = packets->begin + (offset - base);
}

bool ptd_packets_sync_part(struct ptd_packets *packets)
{
    struct ptd_packets found = *packets;
    const uint8_t *const last = packets->end - packets->begin < (ptrdiff_t)PT_PSB_LEN
                                    ? packets->begin
                                    : packets->end - (PT_PSB_LEN - 1);

    if (ptd_packets_sync(&found) != PTD_OK) {
        if (packets->pos < last)
            packets->pos = last;
        return false;
    }
    if (found.end - found.pos < (ptrdiff_t)(2 * PT_PSB_LEN)) /* it may be a longer run */
        return false;
    *packets = found;
    return true;
}

static int decode(struct ptd_packets *packets, const uint8_t *pos, size_t left,
                  struct ptd_packet *packet)
{
    if (packets->bip_bytes && (pos[0] & PT_BIP_MASK) == PT_BIP)
        return decode_bip(pos, left, packets->bip_bytes, packet);

    packet->size_bytes = 1;
    switch ((enum first)first_chart[pos[0]]) {
    case TNT:
        set_tnt(packet, pos[0] >> PT_TNT8_SHR);
        packet->tnt.is_long = false;
        return PTD_OK;
    case CYX:
        if (!(packets->errata & PTD_SKD007) || !is_cut_cyc(pos, left))
            return decode_cyc(pos, left, packet);
        /* fall through */
    case CYC:
        packet->type = PTD_CYC;
        packet->cyc = pos[0] >> PT_CYC_SHR0;
        return PTD_OK;
    case TIP:
        return decode_ip(pos, left, PTD_TIP, packet);
    case PGE:
        return decode_ip(pos, left, PTD_TIP_PGE, packet);
    case PGD:
        return decode_ip(pos, left, PTD_TIP_PGD, packet);
    case FUP:
        return decode_ip(pos, left, PTD_FUP, packet);
    case EXT:
        return decode_ext(packets, pos, left, packet);
    case MTC:
        if (left < PT_MTC_LEN)
            return PTD_E_TRUNCATED;
        packet->type = PTD_MTC;
        packet->size_bytes = PT_MTC_LEN;
        packet->mtc = pos[1];
        return PTD_OK;
    case TSC:
        if (left < PT_TSC_LEN)
            return PTD_E_TRUNCATED;
        packet->type = PTD_TSC;
        packet->size_bytes = PT_TSC_LEN;
        packet->tsc = little_endian(pos + 1, PT_TSC_LEN - 1);
        return PTD_OK;
    case MOD:
        return decode_mode(pos, left, packet);
    case TRG:
        return decode_trig(pos, left, packet);
    case PAD:
        packet->type = PTD_PAD;
        return PTD_OK;
    case BAD:
        break;
    }
    return PTD_E_OPCODE;
}

int ptd_packets_next_any(struct ptd_packets *packets, struct ptd_packet *packet)
{
    const uint8_t *pos = packets->pos;

    if (pos == packets->end)
        return PTD_END;
    packet->offset = packets->base + (uint64_t)(pos - packets->begin);

    const int status = decode(packets, pos, (size_t)(packets->end - pos), packet);

    if (status == PTD_OK)
        packets->pos = pos + packet->size_bytes;
    return status;
}

/* ---- IPs ---- */

int ptd_packet_ip(const struct ptd_packet *packet, uint64_t *last_ip, uint64_t *ip)
{
    const uint64_t payload = packet->ip.payload;
    const uint64_t low16 = 0xffffu, low32 = 0xffffffffu, low48 = 0xffffffffffffu;

    switch (packet->ip.ip_bytes) {
    case PT_IPB_UPD16:
        *last_ip = (*last_ip & ~low16) | (payload & low16);
        break;
    case PT_IPB_UPD32:
        *last_ip = (*last_ip & ~low32) | (payload & low32);
        break;
    case PT_IPB_SEXT48:
        *last_ip = (payload & low48) | (payload >> 47 & 1 ? ~low48 : 0);
        break;
    case PT_IPB_UPD48:
        *last_ip = (*last_ip & ~low48) | (payload & low48);
        break;
    case PT_IPB_FULL:
        *last_ip = payload;
        break;
    default:
        return PTD_END;
    }
    *ip = *last_ip;
    return PTD_OK;
}
