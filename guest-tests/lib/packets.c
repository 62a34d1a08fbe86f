/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of packets: see packets.h. Implements the formats of 33.4.2.1 to 33.4.2.30 and Table
 * 33-18.
 */
#include "packets.h"
#include "string.h"

#define PSB_BYTES 16
#define PAD       0x00

/* Packets that begin with 02H, by their second byte. */
static const struct {
    enum packet_kind kind;
    uint8_t opcode;
    uint8_t len_bytes;
} extended[] = {
    {PACKET_CBR, 0x03, 4},    {PACKET_PIP, 0x43, 8},    {PACKET_PSBEND, 0x23, 2},
    {PACKET_TMA, 0x73, 7},    {PACKET_TNT, 0xa3, 8},    {PACKET_TRACESTOP, 0x83, 2},
    {PACKET_VMCS, 0xc8, 7},   {PACKET_OVF, 0xf3, 2},    {PACKET_CFE, 0x13, 4},
    {PACKET_EVD, 0x53, 11},   {PACKET_OTHER, 0x63, 3},  /* BBP */
    {PACKET_OTHER, 0x33, 2},                            /* BEP, without and with a FUP to follow */
    {PACKET_OTHER, 0xb3, 2},  {PACKET_EXSTOP, 0x62, 2}, /* likewise */
    {PACKET_EXSTOP, 0xe2, 2}, {PACKET_MWAIT, 0xc2, 10}, {PACKET_PWRE, 0x22, 4},
    {PACKET_PWRX, 0xa2, 7},   {PACKET_PTW, 0x12, 6}, /* of 4 and of 8 bytes, without and with a FUP
                                                      */
    {PACKET_PTW, 0x32, 10},   {PACKET_PTW, 0x92, 6},    {PACKET_PTW, 0xb2, 10},
};

static bool is_psb(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < PSB_BYTES)
        return false;
    for (size_t i = 0; i < PSB_BYTES; i++)
        if (bytes[i] != (i % 2 ? 0x82 : 0x02))
            return false;
    return true;
}

static bool extended_packet(const uint8_t *bytes, size_t len_bytes, struct packet *packet)
{
    if (is_psb(bytes, len_bytes)) {
        packet->kind = PACKET_PSB;
        packet->len_bytes = PSB_BYTES;
        return true;
    }
    if (len_bytes >= 3 && bytes[1] == 0xc3 && bytes[2] == 0x88) {
        packet->kind = PACKET_OTHER; /* MNT */
        packet->len_bytes = 11;
        return true;
    }
    for (size_t i = 0; i < sizeof(extended) / sizeof(extended[0]); i++) {
        if (len_bytes >= 2 && extended[i].opcode == bytes[1]) {
            packet->kind = extended[i].kind;
            packet->len_bytes = extended[i].len_bytes;
            return true;
        }
    }
    return false;
}

unsigned packet_ip_payload_bytes(unsigned ip_bytes)
{
    static const uint8_t payload_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};

    return payload_bytes[ip_bytes & 7];
}

/* TIP, TIP.PGE, TIP.PGD and FUP: 5 bits of header, then IPBytes (Table 33-18). */
static bool ip_packet(uint8_t header, struct packet *packet)
{
    switch (header & 0x1f) {
    case 0x0d:
        packet->kind = PACKET_TIP;
        break;
    case 0x11:
        packet->kind = PACKET_TIP_PGE;
        break;
    case 0x01:
        packet->kind = PACKET_TIP_PGD;
        break;
    case 0x1d:
        packet->kind = PACKET_FUP;
        break;
    default:
        return false;
    }
    packet->sub = header >> 5;
    packet->len_bytes = 1u + packet_ip_payload_bytes(packet->sub);
    return packet->sub != 5 && packet->sub != 7;
}

static size_t cyc_len(const uint8_t *bytes, size_t len_bytes)
{
    size_t len = 1;

    /* Bit 2 of the first byte and bit 0 of the others say that one more follows. */
    for (bool more = bytes[0] & 4; more && len < len_bytes; len++)
        more = bytes[len] & 1;
    return len;
}

/* Kind and length. */
static bool find_packet(const uint8_t *bytes, size_t len_bytes, struct packet *packet)
{
    const uint8_t header = bytes[0];

    packet->len_bytes = 1;
    if (header == 0x02)
        return extended_packet(bytes, len_bytes, packet);
    if (header == PAD) {
        packet->kind = PACKET_PAD;
    } else if (header == 0x19) {
        packet->kind = PACKET_TSC;
        packet->len_bytes = 8;
    } else if (header == 0x59) {
        packet->kind = PACKET_MTC;
        packet->len_bytes = 2;
    } else if (header == 0x99) {
        packet->kind = PACKET_MODE;
        packet->len_bytes = 2;
    } else if ((header & 3) == 3) {
        packet->kind = PACKET_CYC;
        packet->len_bytes = cyc_len(bytes, len_bytes);
    } else if ((header & 1) == 0) {
        packet->kind = PACKET_TNT;
    } else {
        return ip_packet(header, packet);
    }
    return true;
}

static uint64_t little_endian(const uint8_t *bytes, size_t count)
{
    uint64_t value = 0;

    for (size_t i = 0; i < count && i < sizeof(value); i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

/* The results in a TNT: those below the highest bit that is set. */
static void read_tnt(const uint8_t *bytes, struct packet *packet)
{
    uint64_t payload = packet->len_bytes == 8 ? little_endian(bytes + 2, 6) : bytes[0] >> 1;

    while (payload >> packet->bits > 1)
        packet->bits++;
    packet->value = payload & ((1ull << packet->bits) - 1);
}

static uint64_t read_cyc(const uint8_t *bytes, size_t len_bytes)
{
    uint64_t value = bytes[0] >> 3;

    for (size_t i = 1; i < len_bytes; i++)
        value |= (uint64_t)(bytes[i] >> 1) << (5 + 7 * (i - 1));
    return value;
}

static void read_payload(const uint8_t *bytes, struct packet *packet)
{
    switch (packet->kind) {
    case PACKET_TNT:
        read_tnt(bytes, packet);
        break;
    case PACKET_TIP:
    case PACKET_TIP_PGE:
    case PACKET_TIP_PGD:
    case PACKET_FUP:
    case PACKET_TSC:
    case PACKET_MTC:
    case PACKET_MODE:
        packet->value = little_endian(bytes + 1, packet->len_bytes - 1);
        break;
    case PACKET_PIP: /* CR3[11:5] stand above the NR bit: bit 1 of the payload is CR3[5] */
        packet->value = little_endian(bytes + 2, 6) >> 1 << 5;
        packet->flag = bytes[2] & 1;
        break;
    case PACKET_CBR:
        packet->value = bytes[2];
        break;
    case PACKET_TMA:
        packet->value = little_endian(bytes + 2, 2);
        packet->sub = bytes[5] | (bytes[6] & 1u) << 8;
        break;
    case PACKET_CYC:
        packet->value = read_cyc(bytes, packet->len_bytes);
        break;
    case PACKET_PTW:
        packet->sub = (unsigned)packet->len_bytes - 2;
        packet->flag = bytes[1] >> 7;
        packet->value = little_endian(bytes + 2, packet->sub);
        break;
    case PACKET_CFE:
        packet->sub = bytes[2] & 0x1f;
        packet->flag = bytes[2] >> 7;
        packet->value = bytes[3];
        break;
    case PACKET_EVD:
        packet->sub = bytes[2] & 0x3f;
        packet->value = little_endian(bytes + 3, 8);
        break;
    case PACKET_EXSTOP:
        packet->flag = bytes[1] >> 7;
        break;
    default:
        packet->value = packet->len_bytes > 2 ? little_endian(bytes + 2, packet->len_bytes - 2) : 0;
        break;
    }
}

bool packet_at(const uint8_t *bytes, size_t len_bytes, struct packet *packet)
{
    *packet = (struct packet){0};
    if (len_bytes == 0 || !find_packet(bytes, len_bytes, packet) || packet->len_bytes > len_bytes)
        return false;
    read_payload(bytes, packet);
    return true;
}

/* ---- The walk ----------------------------------------------------------------------------- */

static bool is_ip_packet(enum packet_kind kind)
{
    return kind == PACKET_TIP || kind == PACKET_TIP_PGE || kind == PACKET_TIP_PGD ||
           kind == PACKET_FUP;
}

bool packet_has_ip(const struct packet *packet)
{
    return is_ip_packet(packet->kind) && packet->sub != 0;
}

static uint64_t sign_extend_48(uint64_t ip)
{
    return (uint64_t)((int64_t)(ip << 16) >> 16);
}

/* Table 33-18 */
static uint64_t reconstruct_ip(const struct packet *packet)
{
    switch (packet->sub) {
    case 1:
        return (packet->last_ip & ~0xffffull) | packet->value;
    case 2:
        return (packet->last_ip & ~0xffffffffull) | packet->value;
    case 3:
        return sign_extend_48(packet->value);
    case 4:
        return (packet->last_ip & ~0xffffffffffffull) | packet->value;
    default:
        return packet->value;
    }
}

/* Not as packets: where supervisor code is interpreted, that would take most of the time. */
static void skip_pads(struct packet_reader *reader)
{
    while (reader->at < reader->len_bytes && reader->bytes[reader->at] == PAD)
        reader->at++;
}

bool packet_next(struct packet_reader *reader, struct packet *packet)
{
    if (!reader->damaged)
        skip_pads(reader);
    if (reader->damaged || reader->at == reader->len_bytes)
        return false;
    if (!packet_at(reader->bytes + reader->at, reader->len_bytes - reader->at, packet)) {
        reader->damaged = true;
        return false;
    }
    packet->at = reader->at;
    reader->at += packet->len_bytes;
    if (packet->kind == PACKET_PSB) {
        reader->in_psb = true;
        reader->last_ip = 0; /* 33.4.2.2 */
    }
    packet->in_psb = reader->in_psb;
    if (packet->kind == PACKET_PSBEND || packet->kind == PACKET_OVF) /* 33.3.7 */
        reader->in_psb = false;
    packet->last_ip = reader->last_ip;
    if (packet_has_ip(packet)) {
        packet->ip = reconstruct_ip(packet);
        reader->last_ip = packet->ip;
    }
    return true;
}

struct packet_counts packets_count(const uint8_t *bytes, size_t len_bytes)
{
    struct packet_reader reader = {.bytes = bytes, .len_bytes = len_bytes};
    struct packet_counts counts = {0};
    struct packet packet;

    while (packet_next(&reader, &packet)) {
        counts.of[packet.kind]++;
        counts.tnt_bits += packet.bits;
        if (packet.kind == PACKET_PIP && !packet.in_psb)
            counts.pip_between++;
    }
    counts.damaged = reader.damaged;
    return counts;
}
