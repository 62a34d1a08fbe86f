/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds and lengths of packets: see packets.h. Implements the headers of 33.4.2.1 to 33.4.2.30.
 */
#include "packets.h"
#include "string.h"

#define PSB_BYTES 16

/* Packets that begin with 02H, by their second byte. */
static const struct {
    enum packet_kind kind;
    uint8_t opcode;
    uint8_t len_bytes;
} extended[] = {
    {PACKET_CBR, 0x03, 4},    {PACKET_PIP, 0x43, 8},    {PACKET_PSBEND, 0x23, 2},
    {PACKET_TMA, 0x73, 7},    {PACKET_TNT, 0xa3, 8},    {PACKET_TRACESTOP, 0x83, 2},
    {PACKET_VMCS, 0xc8, 7},   {PACKET_OVF, 0xf3, 2},    {PACKET_OTHER, 0x13, 4}, /* CFE */
    {PACKET_OTHER, 0x53, 11},                                                    /* EVD */
    {PACKET_OTHER, 0x63, 3},                                                     /* BBP */
    {PACKET_OTHER, 0x33, 2},                            /* BEP, without and with a FUP to follow */
    {PACKET_OTHER, 0xb3, 2},  {PACKET_OTHER, 0x62, 2},  /* EXSTOP, likewise */
    {PACKET_OTHER, 0xe2, 2},  {PACKET_OTHER, 0xc2, 10}, /* MWAIT */
    {PACKET_OTHER, 0x22, 4},                            /* PWRE */
    {PACKET_OTHER, 0xa2, 7},                            /* PWRX */
    {PACKET_OTHER, 0x12, 6}, /* PTW of 4 and of 8 bytes, without and with a FUP to follow */
    {PACKET_OTHER, 0x32, 10}, {PACKET_OTHER, 0x92, 6},  {PACKET_OTHER, 0xb2, 10},
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
