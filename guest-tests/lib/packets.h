/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test wants to know of the packets in its own buffer (33.4.2): how many of which kind.
 */
#ifndef GUEST_PACKETS_H
#define GUEST_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_kind {
    PACKET_PAD,
    PACKET_TNT,
    PACKET_TIP,
    PACKET_TIP_PGE,
    PACKET_TIP_PGD,
    PACKET_FUP,
    PACKET_PIP,
    PACKET_MODE,
    PACKET_TRACESTOP,
    PACKET_CBR,
    PACKET_TSC,
    PACKET_TMA,
    PACKET_MTC,
    PACKET_CYC,
    PACKET_VMCS,
    PACKET_OVF,
    PACKET_PSB,
    PACKET_PSBEND,
    PACKET_OTHER, /* known length, of no interest here */
    PACKET_KINDS,
};

struct packet {
    enum packet_kind kind;
    size_t len_bytes;
};

struct packet_counts {
    size_t of[PACKET_KINDS];
    size_t tnt_bits;
    size_t pip_between; /* PIPs that are not part of a PSB+ */
    bool damaged;       /* bytes that are no packet, or a packet cut off */
};

/* The packet at bytes; false: none, or more than len_bytes long. */
bool packet_at(const uint8_t *bytes, size_t len_bytes, struct packet *packet);
/* Counts the packets of a trace that begins at a packet. */
struct packet_counts packets_count(const uint8_t *bytes, size_t len_bytes);

#endif
