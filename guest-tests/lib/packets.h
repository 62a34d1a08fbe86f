/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reader of the packets in the guest's own buffer (33.4.2): kinds, lengths, payloads, and IPs as
 * Table 33-18 reconstructs them. It shares nothing with the encoder and the decoder on the host.
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
    PACKET_PTW,
    PACKET_CFE,
    PACKET_EVD,
    PACKET_EXSTOP,
    PACKET_MWAIT,
    PACKET_PWRE,
    PACKET_PWRX,
    PACKET_OTHER, /* known length, of no interest here */
    PACKET_KINDS,
};

/* What follows a packet's header. */
struct packet {
    enum packet_kind kind;
    size_t len_bytes;
    size_t at; /* offset in the trace, by packet_next() only */
    /*
     * TNT: the results, the first one in the highest of `bits` bits; IP packets: the payload as it
     * stands there; PIP: CR3; MODE: its second byte; TSC, CBR, MTC, CYC, PTW, EVD: the value; TMA:
     * CTC; CFE: vector; others: the bytes.
     */
    uint64_t value;
    unsigned bits; /* TNT */
    unsigned
        sub;     /* IP packets: IPBytes; CFE, EVD: type; PTW: bytes of payload; TMA: fast counter */
    bool flag;   /* PIP: NR; PTW, CFE, EXSTOP: the IP bit */
    uint64_t ip; /* IP packets with an IP, by packet_next() only */
    uint64_t last_ip; /* what it was compressed against */
    bool in_psb;      /* between PSB and PSBEND, by packet_next() only */
};

/* A walk over the packets of a trace that begins at a packet. */
struct packet_reader {
    const uint8_t *bytes;
    size_t len_bytes, at;
    uint64_t last_ip;
    bool in_psb;
    bool damaged; /* bytes that are no packet, or a packet cut off */
};

struct packet_counts {
    size_t of[PACKET_KINDS];
    size_t tnt_bits;
    size_t pip_between; /* PIPs that are not part of a PSB+ */
    bool damaged;       /* bytes that are no packet, or a packet cut off */
};

/* The packet at bytes; false: none, or more than len_bytes long. */
bool packet_at(const uint8_t *bytes, size_t len_bytes, struct packet *packet);
/* The next packet that is no PAD. False: the trace is at its end, or damaged. */
bool packet_next(struct packet_reader *reader, struct packet *packet);
bool packet_has_ip(const struct packet *packet);
/* Bytes of payload for an IPBytes field (Table 33-18); reserved ones have none. */
unsigned packet_ip_payload_bytes(unsigned ip_bytes);
/* Counts the packets of a trace that begins at a packet. */
struct packet_counts packets_count(const uint8_t *bytes, size_t len_bytes);

#endif
