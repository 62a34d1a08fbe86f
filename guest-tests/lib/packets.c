/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds and lengths of packets: see packets.h. Implements the headers of 33.4.2.1 to 33.4.2.30.
 */
#include "packets.h"
#include "string.h"

#define PSB_BYTES 16

/* Packets that begin with 02H, by their second byte. */
static const struct {
    uint8_t opcode;
    enum packet_kind kind;
    uint8_t len_bytes;
} extended[] = {
    {0x03, PACKET_CBR, 4},    {0x23, PACKET_PSBEND, 2}, {0x33, PACKET_OTHER, 2 /* BEP */},
    {0x43, PACKET_PIP, 8},    {0x73, PACKET_TMA, 7},    {0x83, PACKET_TRACESTOP, 2},
    {0xc8, PACKET_VMCS, 7},   {0xf3, PACKET_OVF, 2},    {0xa3, PACKET_TNT, 8},
    {0x13, PACKET_OTHER, 4},  {0x53, PACKET_OTHER, 11}, {0x63, PACKET_OTHER, 3},
    {0xa2, PACKET_OTHER, 7},  {0x22, PACKET_OTHER, 4},  {0xc2, PACKET_OTHER, 10},
    {0x62, PACKET_OTHER, 2},  {0xe2, PACKET_OTHER, 2},  {0xb3, PACKET_OTHER, 2},
    {0x12, PACKET_OTHER, 6},  {0x32, PACKET_OTHER, 10}, {0x92, PACKET_OTHER, 6},
    {0xb2, PACKET_OTHER, 10},
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
        *packet = (struct packet){PACKET_PSB, PSB_BYTES};
        return true;
    }
    if (len_bytes >= 3 && bytes[1] == 0xc3 && bytes[2] == 0x88) {
        *packet = (struct packet){PACKET_OTHER, 11}; /* MNT */
        return true;
    }
    for (size_t i = 0; i < sizeof(extended) / sizeof(extended[0]); i++) {
        if (len_bytes >= 2 && extended[i].opcode == bytes[1]) {
            *packet = (struct packet){extended[i].kind, extended[i].len_bytes};
            return true;
        }
    }
    return false;
}

/* TIP, TIP.PGE, TIP.PGD and FUP: 5 bits of header, then IPBytes (Table 33-18). */
static bool ip_packet(uint8_t header, struct packet *packet)
{
    static const uint8_t payload_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};

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
    packet->len_bytes = 1u + payload_bytes[header >> 5];
    return true;
}

static size_t cyc_len(const uint8_t *bytes, size_t len_bytes)
{
    size_t len = 1;

    /* Bit 2 of the first byte and bit 0 of the others say that one more follows. */
    for (bool more = bytes[0] & 4; more && len < len_bytes; len++)
        more = bytes[len] & 1;
    return len;
}

bool packet_at(const uint8_t *bytes, size_t len_bytes, struct packet *packet)
{
    uint8_t header;

    if (len_bytes == 0)
        return false;
    header = bytes[0];
    if (header == 0x02) {
        if (!extended_packet(bytes, len_bytes, packet))
            return false;
    } else if (header == 0x00) {
        *packet = (struct packet){PACKET_PAD, 1};
    } else if (header == 0x19) {
        *packet = (struct packet){PACKET_TSC, 8};
    } else if (header == 0x59) {
        *packet = (struct packet){PACKET_MTC, 2};
    } else if (header == 0x99) {
        *packet = (struct packet){PACKET_MODE, 2};
    } else if ((header & 3) == 3) {
        *packet = (struct packet){PACKET_CYC, cyc_len(bytes, len_bytes)};
    } else if ((header & 1) == 0) {
        *packet = (struct packet){PACKET_TNT, 1};
    } else if (!ip_packet(header, packet)) {
        return false;
    }
    return packet->len_bytes <= len_bytes;
}

/* The results in a TNT: those below the highest bit that is set. */
static size_t tnt_bits(const uint8_t *bytes, size_t len_bytes)
{
    uint64_t payload = bytes[0] >> 1;
    size_t bits = 0;

    if (len_bytes == 8) {
        payload = 0;
        memcpy(&payload, bytes + 2, 6);
    }
    while (payload >> bits > 1)
        bits++;
    return bits;
}

struct packet_counts packets_count(const uint8_t *bytes, size_t len_bytes)
{
    struct packet_counts counts = {0};
    bool in_psb = false;
    struct packet packet;

    for (size_t at = 0; at < len_bytes; at += packet.len_bytes) {
        if (!packet_at(bytes + at, len_bytes - at, &packet)) {
            counts.damaged = true;
            return counts;
        }
        counts.of[packet.kind]++;
        if (packet.kind == PACKET_TNT)
            counts.tnt_bits += tnt_bits(bytes + at, packet.len_bytes);
        if (packet.kind == PACKET_PSB)
            in_psb = true;
        if (packet.kind == PACKET_PSBEND)
            in_psb = false;
        if (packet.kind == PACKET_PIP && !in_psb)
            counts.pip_between++;
    }
    return counts;
}
