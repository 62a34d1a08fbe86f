/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT, the trace of Silvermont and Airmont from which PT descends: a part of libptdec.
 *
 *   packets  bytes -> packets                                   (ptd_rtit_packets_*)
 *   flow     packets + image -> blocks of executed instructions (ptd_rtit_flow_*)
 *
 * Its packets are not those of PT, but an image, an item and a block are. Chapters, sections,
 * tables and errata are those of "Real Time Instruction Trace Programming Reference" v1.05. The
 * conventions are those of ptdec.h.
 */
#ifndef PTDEC_RTIT_H
#define PTDEC_RTIT_H

#include "ptdec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Packets (chapter 4) ------------------------------------------------------------------- */

/* clang-format off */
enum ptd_rtit_type {
    PTD_RTIT_PSB, PTD_RTIT_TNT, PTD_RTIT_TIP,
    PTD_RTIT_PGE, PTD_RTIT_PGD, PTD_RTIT_OVF, PTD_RTIT_PCC, PTD_RTIT_FAR, /* FUP.* */
    PTD_RTIT_PIP, PTD_RTIT_STOP, PTD_RTIT_MTC, PTD_RTIT_STS,
    PTD_RTIT_TYPES
};
/* clang-format on */

/* One packet, with the cycle count behind it. Fields that a packet does not have are not set. */
struct ptd_rtit_packet {
    uint64_t offset; /* of its first byte in the buffer */
    uint32_t cycles; /* if has_cycles; as in the packet (erratum E6: one too small) */
    uint8_t type;    /* enum ptd_rtit_type */
    uint8_t size_bytes;
    bool has_cycles;
    union {
        struct {
            uint8_t bits, count; /* oldest result at bit count - 1; 1 = taken; count 1..6 */
        } tnt;
        struct {
            uint64_t payload;
            uint8_t payload_bytes; /* 2, 4 or 6 */
            bool zero_extended;    /* Zext */
        } lip;                     /* TIP and FUP.* */
        struct {
            uint64_t cr3; /* CR3[39:0] */
            bool paging;  /* CR0.PG */
        } pip;
        struct {
            uint8_t range, tsc; /* tsc: TSC[N+7:N], N = 7 + 2 * range */
        } mtc;
        struct {
            uint64_t tsc; /* 40 bits */
            uint8_t actual_ratio, effective_ratio;
        } sts;
    };
};

/* As struct ptd_packets. */
struct ptd_rtit_packets {
    const uint8_t *begin, *pos, *end;
    bool cycle_acc;
};

/*
 * As the functions of PT's packets, errors included. cycle_acc is RTIT_CTL.Cycle_Acc: only it says
 * whether cycle counts stand behind packets (4.2.15), the bytes do not.
 */
void ptd_rtit_packets_init(struct ptd_rtit_packets *packets, const void *bytes, size_t len_bytes,
                           bool cycle_acc);
int ptd_rtit_packets_sync(struct ptd_rtit_packets *packets);
int ptd_rtit_packets_seek(struct ptd_rtit_packets *packets, uint64_t offset);
int ptd_rtit_packets_resync(struct ptd_rtit_packets *packets);
uint64_t ptd_rtit_packets_offset(const struct ptd_rtit_packets *packets);
int ptd_rtit_packets_next(struct ptd_rtit_packets *packets, struct ptd_rtit_packet *packet);

const char *ptd_rtit_packet_name(enum ptd_rtit_type type);
int ptd_rtit_packet_format(const struct ptd_rtit_packet *packet, char *text, size_t text_bytes);

/* The LIP of the packet before, and which bits of it are known: at first all zero. */
struct ptd_rtit_last_lip {
    uint64_t lip, known;
};

/*
 * Completes the LIP of a TIP or FUP (4.2.3.1), sign-extended from 48 bits. PTD_OK and *lip, or
 * PTD_END if it is compressed against a LIP that is not known. *last is updated in both cases. It
 * need not be cleared at a PSB: what comes behind one is not compressed against what was before,
 * and where it is, by up to four packets (3.3.9), this is right.
 */
int ptd_rtit_packet_lip(const struct ptd_rtit_packet *packet, struct ptd_rtit_last_lip *last,
                        uint64_t *lip);

/* ---- Flow ---------------------------------------------------------------------------------- */

struct ptd_rtit_flow;

struct ptd_rtit_range {
    uint64_t base, limit; /* RTIT_LIP0 and 2, or 1 and 3: limit is behind the range */
};

/*
 * What the trace does not tell: the settings that it was made with. Without ranges of the filter,
 * no near branch leaves traced code. Errata E1 to E5, E7 and E8 need no setting.
 */
struct ptd_rtit_config {
    enum ptd_mode mode;     /* of the processor: RTIT tells no change of it */
    uint64_t cr3;           /* until the first PIP */
    bool at_start;          /* begin at the first byte instead of the first PSB */
    bool cycle_acc;         /* RTIT_CTL.Cycle_Acc */
    bool cycles_minus_one;  /* erratum E6: a cycle count that is not 0 is one too small */
    uint8_t tnt_buff;       /* RTIT_TNT_BUFF after the last packet (4.2.11); 0: not known */
    uint8_t filters, stops; /* ranges in use as Filter_Event_ID and TraceStop_Event_ID: 0 to 2 */
    struct ptd_rtit_range filter[2], stop[2];
};

/*
 * As ptd_flow_*(), with the same items but for these differences. config may be NULL: 64-bit.
 *   ENABLED   also where decoding begins in the midst of traced code: a PSB has no address
 *   DISABLED  .from: nothing ran from there on; no address at all: a WRMSR ended tracing unseen
 *   ASYNC     interrupt or exception; a software interrupt is the last instruction of a block
 *   CR3       .value is CR3[39:0]
 *   TSC       of STS, and of MTC behind one: 40 bits or more, never backwards
 *   CBR       the actual ratio, if it is a new one
 *   STOP      .to, if stop ranges are known: the instruction that would have been next
 *   PACKET    .rtit: PCC (.from if its address is known), and MTC without an STS before
 * .cycles of every item: core cycles counted since the start.
 * An error within the 21 packets behind a PSB may be erratum E8: decoding goes on behind them.
 */
struct ptd_rtit_flow *ptd_rtit_flow_new(const void *bytes, size_t len_bytes,
                                        const struct ptd_image *image,
                                        const struct ptd_rtit_config *config);
void ptd_rtit_flow_free(struct ptd_rtit_flow *flow);
int ptd_rtit_flow_next(struct ptd_rtit_flow *flow, struct ptd_item *item);

#ifdef __cplusplus
}
#endif
#endif
