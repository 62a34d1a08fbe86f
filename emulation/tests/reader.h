/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A packet reader for the model's tests, written from the tables of 33.4.2 alone: it shares
 * neither the decoder nor pt_packets.h with what it checks.
 */
#ifndef VPT_TESTS_READER_H
#define VPT_TESTS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_kind {
    PACKET_PAD,
    PACKET_TNT,
    PACKET_TIP,
    PACKET_PGE,
    PACKET_PGD,
    PACKET_FUP,
    PACKET_PIP,
    PACKET_EXEC, /* MODE.Exec */
    PACKET_TSX,  /* MODE.TSX */
    PACKET_STOP, /* TraceStop */
    PACKET_CBR,
    PACKET_TSC,
    PACKET_MTC,
    PACKET_TMA,
    PACKET_CYC,
    PACKET_VMCS,
    PACKET_OVF,
    PACKET_PSB,
    PACKET_PSBEND,
    PACKET_MNT,
    PACKET_PTW,
    PACKET_CFE,
    PACKET_EVD,
    PACKET_EXSTOP,
    PACKET_MWAIT,
    PACKET_PWRE,
    PACKET_PWRX,
    PACKET_BBP,
    PACKET_BIP,
    PACKET_BEP,
    PACKET_TRIG, /* newer than the tables */
};

struct packet {
    enum packet_kind kind;
    size_t offset;     /* of its first byte */
    size_t len_bytes;  /* header and payload */
    unsigned ip_bytes; /* IP packets: the IPBytes field */
    unsigned bits;     /* TNT: how many results; PTW: payload bytes; TRIG: flags */
    bool flag;      /* IP bit of PTW, CFE, EXSTOP, BEP and TRIG, NR of PIP, HW of PWRE, SZ of BBP */
    uint64_t value; /* IP as reconstructed, TNT results (youngest at bit 0), payload */
    uint64_t extra; /* TMA: FastCounter; CFE: vector; MWAIT: EXT; PWRX: wake reason; BIP: ID */
};

struct reader {
    const uint8_t *bytes;
    size_t len_bytes;
    size_t at;
    uint64_t last_ip;
    unsigned item_bytes; /* of a block item; 0 outside blocks */
    bool bad;            /* bytes at .at are no packet, or a packet is cut off */
};

void reader_open(struct reader *reader, const uint8_t *bytes, size_t len_bytes);

/* The next packet; false at the end, or at something that is no packet (.bad is then set). */
bool reader_next(struct reader *reader, struct packet *packet);

/*
 * Writes the packets that begin at or after byte `from` as words, "TIP(401000) TNT(TN) PGD()".
 * PSB+ becomes the one word PSB+ unless spell_psb; neighbouring CYC packets are added up; PAD is
 * left out. Ends with BAD(offset) if the reader stopped early. False: out was too small.
 */
bool reader_text(const uint8_t *bytes, size_t len_bytes, size_t from, bool spell_psb, char *out,
                 size_t out_bytes);

/*
 * Whether words match a pattern: the same words in order, where "word?" is optional, "a|b" allows
 * either and a word that ends in '*' stands for all words that begin so.
 */
bool words_match(const char *pattern, const char *words);

#endif
