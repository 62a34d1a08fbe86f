/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Golden tests of the flow decoder: code, packets and expected items in one place. Code stands at
 * CODE; a second piece, if any, stands at the same address in the address space CR3_B.
 */
#ifndef PTD_TESTS_GOLDEN_H
#define PTD_TESTS_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptd_rtit_config;

#define CODE  0x1000u
#define CR3_A 0x5000u
#define CR3_B 0x6000u

struct bytes {
    const uint8_t *at;
    size_t len;
};

#define BYTES(...)                                                                                 \
    {                                                                                              \
        (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})                     \
    }

struct golden {
    const char *name;
    struct bytes code, code_b;
    struct bytes trace;
    const char *items; /* one a line; see golden.c */
    uint8_t mode_bits; /* 0: 64 */
    bool at_start;
    uint8_t resync;                     /* enum ptd_resync */
    uint32_t errata;                    /* PTD_BDM64 and so on */
    bool filtered;                      /* one range: [CODE, CODE + 15] */
    const struct ptd_rtit_config *rtit; /* the trace is one of RTIT */
};

/* Decodes each trace and compares the items. */
void check_golden(const struct golden *cases, size_t count);

/* ---- Packets ---- */

/* clang-format off */
#define PSB         2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82
#define PSBEND      2, 0x23
#define SYNC        PSB, PSBEND                 /* PacketEn is 0 */
#define IP48(ip)    (ip) & 0xff, (ip) >> 8 & 0xff, (ip) >> 16 & 0xff, (ip) >> 24 & 0xff, 0, 0
#define TIP(ip)     0x6d, IP48(ip)
#define PGE(ip)     0x71, IP48(ip)
#define PGD(ip)     0x61, IP48(ip)
#define PGD_NO_IP   0x01
#define FUP(ip)     0x7d, IP48(ip)
#define START(ip)   SYNC, PGE(ip)
#define TNT_N       0x04
#define TNT_T       0x06
#define TNT_NN      0x08
#define TNT_TT      0x0e
#define TNT_TN      0x0c
#define TNT_NT      0x0a
#define TNT_TTT     0x1e
#define CR3_BYTES(cr3, nr) (nr) | ((cr3) >> 4 & 0xfe), (cr3) >> 12 & 0xff, (cr3) >> 20 & 0xff, 0, 0, 0
#define PIP(cr3)    2, 0x43, CR3_BYTES(cr3, 0)
#define PIP_NR(cr3) 2, 0x43, CR3_BYTES(cr3, 1)
#define MODE64      0x99, 0x01
#define MODE64_IF   0x99, 0x05
#define MODE32      0x99, 0x02
#define MODE16      0x99, 0x00
#define TSX_BEGIN   0x99, 0x21
#define TSX_COMMIT  0x99, 0x20
#define TSX_ABORT   0x99, 0x22
#define TRACESTOP   2, 0x83
#define OVF         2, 0xf3
#define VMCS(base)  2, 0xc8, (base) >> 12 & 0xff, (base) >> 20 & 0xff, 0, 0, 0
#define TSC         0x19, 1, 0, 0, 0, 0, 0, 0
#define CBR         2, 0x03, 0x1f, 0
#define MTC         0x59, 0x11
#define CYC         0x0b
#define PAD         0x00
/* clang-format on */

#endif
