/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT flow: Table 19, the filter, RET compression, overflow, TraceStop, PIP, time, errors, and
 * each erratum of appendix E that a decoder meets (RTIT v1.05).
 */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "ptdec_rtit.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* clang-format off */
#define LIP(ip)    (ip) & 0xff, (ip) >> 8 & 0xff   /* with Zext: bits 47:16 are 0 */
#define R_PGE(ip)  0x84, LIP(ip)
#define R_PGD(ip)  0x8c, LIP(ip)
#define R_OVF(ip)  0x94, LIP(ip)
#define R_PCC(ip)  0x9c, LIP(ip)
#define R_TIP(ip)  0xb4, LIP(ip)
#define R_FAR(ip)  0xbc, LIP(ip)
#define R_PSB      0xc0, 0, 0, 0, 0, 0, 0, 0, 0
#define R_START    R_PSB, R_PGE(CODE)
#define R_N        0x02
#define R_T        0x03
#define R_NN       0x04
#define R_NT       0x05
#define R_TN       0x06
#define R_TT       0x07
#define R_STOP     0xc1
#define R_PIP(cr3) 0xc3, (cr3) & 0xff, (cr3) >> 8 & 0xff, 0, 0, 0
#define R_PIP_NOPG(cr3) 0xc2, (cr3) & 0xff, (cr3) >> 8 & 0xff, 0, 0, 0
#define R_MTC(tsc) 0xc4, (tsc)
/* clang-format on */

static const struct ptd_rtit_config plain = {.mode = PTD_MODE_64, .cr3 = CR3_A};
static const struct ptd_rtit_config at_start = {
    .mode = PTD_MODE_64, .cr3 = CR3_A, .at_start = true};
static const struct ptd_rtit_config mode32 = {.mode = PTD_MODE_32, .cr3 = CR3_A};

/* [CODE, CODE + 8) is traced, in a second range from CODE + 32 on. */
static const struct ptd_rtit_config filtered = {
    .mode = PTD_MODE_64,
    .cr3 = CR3_A,
    .filters = 2,
    .filter = {{CODE, CODE + 8}, {CODE + 0x20, CODE + 0x30}},
};

/* clang-format off */
static const struct golden branch_cases[] = {
    {
        .name = "conditional branches; more than one packet; TNT before a TIP",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x74, 0x01,                   /* jz 4 */
            /*  3 */ 0x90,                         /* nop */
            /*  4 */ 0xe2, 0xfa,                   /* loop 0 */
            /*  6 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_START, 0x5f /* NTTTTT */, R_TN, R_TIP(CODE + 3)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "block 3 4 2 taken\n"
                 "block 0 1 2 taken\n"
                 "block 4 4 1 taken\n"
                 "block 0 1 2 taken\n"
                 "block 4 4 1 taken\n"
                 "block 0 1 2 taken\n"
                 "block 4 4 1\n"
                 "block 6 6 1\n",
    }, {
        .name = "indirect branches, RET",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xff, 0xe0,                   /* jmp rax */
            /*  2 */ 0xff, 0xd0,                   /* call rax */
            /*  4 */ 0x90,                         /* nop */
            /*  5 */ 0xc3),                        /* ret */
        .trace = BYTES(R_START, R_TIP(CODE + 2), R_TIP(CODE + 5), R_TIP(CODE + 4), R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 5 5 1\n"
                 "block 4 5 2\n",
    }, {
        .name = "a compressed RET goes behind the last CALL, not behind the one before it",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xe8, 0x01, 0x00, 0x00, 0x00, /* call 6 */
            /*  5 */ 0x90,                         /* nop */
            /*  6 */ 0xff, 0xd0,                   /* call rax */
            /*  8 */ 0xc3,                         /* ret */
            /*  9 */ 0xc3),                        /* ret */
        .trace = BYTES(R_START, R_TIP(CODE + 9), R_TT, R_TIP(CODE + 9)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 6 6 1\n"
                 "block 9 9 1\n"
                 "block 8 8 1\n"
                 "block 8 8 1\n",
    }, {
        .name = "a CALL to the next instruction counts (4.2.3.2)",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xe8, 0x00, 0x00, 0x00, 0x00, /* call 5 */
            /*  5 */ 0xc3),                        /* ret */
        .trace = BYTES(R_START, R_T, R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 5 5 1\n"
                 "block 5 5 1\n",
    }, {
        .name = "RET: compressed without a CALL; not taken",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xc3,                         /* ret */
            /*  1 */ 0xe8, 0x00, 0x00, 0x00, 0x00, /* call 6 */
            /*  6 */ 0xc3),                        /* ret */
        .trace = BYTES(R_PSB, R_TIP(CODE), R_T, R_TIP(CODE + 1), R_PSB, R_PGE(CODE + 1), R_N),
        .items = "psb\n"
                 "enabled to 0\n"
                 "error -9 lost 3\n"
                 "psb\n"
                 "enabled to 1\n"
                 "block 1 1 1\n"
                 "error -8 lost 0\n",
    }, {
        .name = "an overflow makes the last CALL unknown",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xe8, 0x00, 0x00, 0x00, 0x00, /* call 5 */
            /*  5 */ 0xc3),                        /* ret */
        .trace = BYTES(R_START, R_T, R_OVF(CODE + 5), R_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 5 5 1\n"
                 "overflow to 5\n"
                 "error -9 lost 0\n",
    },
};

static const struct golden far_cases[] = {
    {
        .name = "far transfers (Table 19, rows 27 to 33)",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x0f, 0x05,                   /* syscall */
            /*  2 */ 0xcd, 0x80,                   /* int 0x80 */
            /*  4 */ 0x90,                         /* nop */
            /*  5 */ 0x48, 0xcf,                   /* iretq */
            /*  7 */ 0x90),                        /* nop */
        .trace = BYTES(R_START, R_FAR(CODE + 2), R_TIP(CODE + 2), R_FAR(CODE + 4), R_TIP(CODE + 4),
                       R_PGD(CODE + 7), R_TIP(CODE + 0x100), R_PGE(CODE + 4), R_PGD(CODE + 7)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 4 5 2\n"
                 "disabled to 100\n"
                 "enabled to 4\n"
                 "block 4 5 2\n"
                 "disabled\n",
    }, {
        .name = "events in front of an instruction (Table 1)",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xf4,                         /* hlt */
            /*  2 */ 0x0f, 0x05,                   /* syscall */
            /*  4 */ 0x90),                        /* nop */
        .trace = BYTES(R_START, R_FAR(CODE + 1), R_TIP(CODE), R_FAR(CODE + 2), R_TIP(CODE + 2),
                       R_FAR(CODE + 2), R_TIP(CODE), R_PGD(CODE + 1), R_TIP(CODE + 0x200),
                       R_PGE(CODE + 4), R_PGD(CODE + 4)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "async from 1 to 0\n"
                 "block 0 1 2\n"
                 "async from 2 to 2\n"
                 "async from 2 to 0\n"
                 "block 0 0 1\n"
                 "disabled from 1 to 200\n"
                 "enabled to 4\n"
                 "disabled from 4\n",
    }, {
        .name = "TNT before a far transfer; PSB between FUP.FAR and its TIP (3.3.9)",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x74, 0x00,                   /* jz 2 */
            /*  2 */ 0x0f, 0x05),                  /* syscall */
        .trace = BYTES(R_START, R_N, R_FAR(CODE + 4), R_PSB, R_TIP(CODE + 2), R_FAR(CODE + 2),
                       R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "psb\n"
                 "block 2 2 1\n"
                 "async from 2 to 0\n",
    }, {
        .name = "INTO that does nothing, and that traps",
        .rtit = &mode32,
        .code = BYTES(
            /*  0 */ 0xce,                         /* into */
            /*  1 */ 0xff, 0xe0),                  /* jmp eax */
        .trace = BYTES(R_START, R_TIP(CODE), R_FAR(CODE + 1), R_TIP(CODE + 1), R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 1 1 1\n"
                 "block 0 0 1\n"
                 "block 1 1 1\n",
    }, {
        .name = "a far transfer without FUP; FUP at no instruction",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x05,                   /* syscall */
            /*  3 */ 0x66, 0x90,                   /* nop */
            /*  5 */ 0x74, 0x00),                  /* jz 7 */
        .trace = BYTES(R_START, R_TIP(CODE), R_PSB, R_PGE(CODE + 3), R_FAR(CODE + 4), R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 3\n"
                 "psb\n"
                 "enabled to 3\n"
                 "error -8 lost 6\n",
    }, {
        .name = "E1: FUP.FAR inside a far transfer",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x66, 0x66, 0x66, 0x66, 0x0f, 0x05, /* syscall with prefixes */
            /*  7 */ 0x90),                        /* nop */
        .trace = BYTES(R_START, R_FAR(CODE + 6), R_TIP(CODE), R_FAR(CODE + 2), R_TIP(CODE + 1),
                       R_PGD(CODE + 3), R_TIP(CODE + 0x100)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "block 0 1 2\n"
                 "block 1 1 1\n"
                 "disabled to 100\n",
    },
};

static const struct golden filter_cases[] = {
    {
        .name = "direct jumps out and in; walking out (Table 19, rows 3 to 10)",
        .rtit = &filtered,
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xeb, 0x09,                   /* jmp c */
            /*  3 */ 0x90,                         /* nop */
            /*  4 */ 0xeb, 0x00,                   /* jmp 6 */
            /*  6 */ 0x66, 0x90,                   /* nop */
            /*  8 */ 0x90),                        /* nop */
        .trace = BYTES(R_START, R_PGD(CODE + 3), R_PGE(CODE + 3), R_PGD(CODE + 8)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "disabled to c\n"
                 "enabled to 3\n"
                 "block 3 4 2\n"
                 "block 6 6 1\n"
                 "disabled from 8\n",
    }, {
        .name = "conditional branches out: taken, and by walking on (rows 15 and 19)",
        .rtit = &filtered,
        .code = BYTES(
            /*  0 */ 0x74, 0x0c,                   /* jz e */
            /*  2 */ 0x66, 0x66, 0x66, 0x90,       /* nop */
            /*  6 */ 0x74, 0xf8,                   /* jz 0 */
            /*  8 */ 0x90),                        /* nop */
        .trace = BYTES(R_START, R_T, R_PGD(CODE + 2), R_PGE(CODE), 0x0a /* NTN */, R_N,
                       R_PGD(CODE + 8)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1 taken\n"
                 "disabled to e\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 6 2 taken\n"
                 "block 0 0 1\n"
                 "block 2 6 2\n"
                 "disabled from 8\n",
    }, {
        .name = "indirect branches out, and into the other range (rows 21 to 26)",
        .rtit = &filtered,
        .code = BYTES(
            /*  0 */ 0xff, 0xe0,                   /* jmp rax */
            /*  2 */ 0xff, 0xd0,                   /* call rax */
            /*  4 */ 0xc3),                        /* ret */
        .trace = BYTES(R_START, R_TIP(CODE + 2), R_TIP(CODE + 0x40), R_PGD(CODE + 4),
                       R_PGE(CODE + 4), R_T, R_TIP(CODE + 0x20), R_PGD(CODE + 0x20)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "disabled to 40\n"
                 "enabled to 4\n"
                 "block 4 4 1\n"
                 "block 4 4 1\n"
                 "disabled from 20\n",
    }, {
        .name = "a compressed RET out (4.3.2)",
        .rtit = &filtered,
        .code = BYTES(
            /*  0 */ 0xc3,                         /* ret */
            /*  1 */ 0x90,                         /* nop */
            /*  2 */ 0x90,                         /* nop */
            /*  3 */ 0xe8, 0xf8, 0xff, 0xff, 0xff),/* call 0 */
        .trace = BYTES(R_PSB, R_PGE(CODE + 3), R_T, R_PGD(CODE + 1)),
        .items = "psb\n"
                 "enabled to 3\n"
                 "block 3 3 1\n"
                 "block 0 0 1\n"
                 "disabled to 8\n",
    }, {
        .name = "out without FUP.PGD, or with one of another instruction",
        .rtit = &filtered,
        .code = BYTES(
            /*  0 */ 0xeb, 0x0e,                   /* jmp 10 */
            /*  2 */ 0x74, 0x0c),                  /* jz 10 */
        .trace = BYTES(R_START, R_TIP(CODE), R_START, R_PGD(CODE + 3), R_PSB, R_PGE(CODE + 2), R_TN,
                       R_START, R_PGD(CODE + 2), R_PSB, R_PGE(CODE + 2), R_T, R_PGE(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -8 lost 3\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -8 lost 3\n"
                 "psb\n"
                 "enabled to 2\n"
                 "block 2 2 1 taken\n"
                 "error -8 lost 0\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled to 10\n"
                 "psb\n"
                 "enabled to 2\n"
                 "block 2 2 1 taken\n"
                 "error -8 lost 3\n",
    }, {
        .name = "E2: FUP.PGD too many",
        .rtit = &filtered,
        .code = BYTES(
            /*  0 */ 0xeb, 0x0e),                  /* jmp 10 */
        .trace = BYTES(R_START, R_PGD(CODE + 2), R_PGD(CODE + 7), R_PGE(CODE), R_PGD(CODE + 2)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled to 10\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled to 10\n",
    },
};

static const struct ptd_rtit_config stopping = {
    .mode = PTD_MODE_64,
    .cr3 = CR3_A,
    .tnt_buff = 0x06, /* T N */
    .stops = 2,
    .stop = {{CODE + 0x20, CODE + 0x28}, {CODE + 8, CODE + 9}},
};
static const struct ptd_rtit_config stopping_near = {
    .mode = PTD_MODE_64,
    .cr3 = CR3_A,
    .stops = 2,
    .stop = {{CODE + 8, CODE + 9}, {CODE + 5, CODE + 6}},
};
static const struct ptd_rtit_config no_ranges = {
    .mode = PTD_MODE_64, .cr3 = CR3_A, .tnt_buff = 0x06};

/*  0 nop;  1 jz 0;  3 nop;  5 nop;  8 nop;  9 jmp rax;  b jmp b */
#define STOP_CODE                                                                                  \
    BYTES(0x90, 0x74, 0xfd, 0x66, 0x90, 0x66, 0x66, 0x90, 0x90, 0xff, 0xe0, 0xeb, 0xfe)

static const struct golden stop_cases[] = {
    {
        .name = "walked into; the rest of TNT in RTIT_TNT_BUFF (4.2.11)",
        .rtit = &stopping,
        .code = STOP_CODE,
        .trace = BYTES(R_START, R_STOP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2\n"
                 "block 3 5 2\n"
                 "stop to 8\n",
    }, {
        .name = "the nearer of two",
        .rtit = &stopping_near,
        .code = STOP_CODE,
        .trace = BYTES(R_PSB, R_PGE(CODE + 3), R_STOP),
        .items = "psb\n"
                 "enabled to 3\n"
                 "block 3 3 1\n"
                 "stop to 5\n",
    }, {
        .name = "jumped into; the rest of TNT comes with the next FUP.PGE (4.2.8)",
        .rtit = &stopping,
        .code = STOP_CODE,
        .trace = BYTES(R_PSB, R_PGE(CODE + 8), R_TIP(CODE + 0x24), R_STOP, R_START, R_STOP, R_PSB,
                       R_TN, R_PGE(CODE + 3)),
        .items = "psb\n"
                 "enabled to 8\n"
                 "block 8 9 2\n"
                 "stop to 24\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2\n"
                 "block 3 5 2\n"
                 "stop to 8\n"
                 "psb\n"
                 "enabled to 3\n"
                 "error -8 lost 0\n", /* what RTIT_TNT_BUFF has does not fit */
    }, {
        .name = "ranges not known: only what packets tell",
        .rtit = &no_ranges,
        .code = STOP_CODE,
        .trace = BYTES(R_START, R_T, R_STOP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2\n"
                 "stop\n",
    }, {
        .name = "no place can be told: a branch, no code, a loop",
        .rtit = &stopping_near,
        .code = STOP_CODE,
        .trace = BYTES(R_PSB, R_PGE(CODE + 9), R_STOP, R_PSB, R_PGE(CODE + 0xe), R_STOP, R_PSB,
                       R_PGE(CODE + 0xb), R_STOP),
        .items = "psb\n"
                 "enabled to 9\n"
                 "stop\n"
                 "psb\n"
                 "enabled to e\n"
                 "stop\n"
                 "psb\n"
                 "enabled to b\n"
                 "block b b 1\n"
                 "stop\n",
    }, {
        .name = "held pending in an overflow (4.2.5); while PacketEn is 0",
        .rtit = &stopping,
        .code = STOP_CODE,
        .trace = BYTES(R_START, R_OVF(CODE + 3), R_STOP, R_START, R_PGD(CODE), R_STOP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow to 3\n"
                 "stop\n"
                 "psb\n"
                 "enabled to 0\n"
                 "disabled from 0\n"
                 "stop\n",
    }, {
        .name = "E4: in an overflow, and tracing goes on",
        .rtit = &stopping,
        .code = STOP_CODE,
        .trace = BYTES(R_START, R_N, R_STOP, R_OVF(CODE), R_TN, R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "stop\n"
                 "overflow to 0\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2\n"
                 "block 3 9 4\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2\n",
    }, {
        .name = "the end of the trace, and a WRMSR that no packet tells of (4.2.8)",
        .rtit = &no_ranges,
        .code = STOP_CODE,
        .trace = BYTES(R_START, R_T, R_PSB, R_TN, R_PGE(CODE + 1)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "psb\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2\n"
                 "disabled\n"
                 "enabled to 1\n"
                 "block 1 1 1 taken\n"
                 "block 0 1 2\n",
    },
};

static const struct golden overflow_cases[] = {
    {
        .name = "TNT from before it; PacketEn 1, and 0 behind it (4.2.5)",
        .rtit = &plain,
        .code = STOP_CODE,
        .trace = BYTES(R_START, R_T, R_OVF(CODE + 8), R_TIP(CODE), R_OVF(CODE + 3), R_PSB,
                       R_PGE(CODE + 9), R_TIP(CODE + 3)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "overflow to 8\n"
                 "block 8 9 2\n"
                 "overflow to 3\n"
                 "psb\n"
                 "enabled to 9\n"
                 "block 9 9 1\n",
    }, {
        .name = "outside the filter",
        .rtit = &filtered,
        .code = STOP_CODE,
        .trace = BYTES(R_START, R_OVF(CODE + 9), R_PGE(CODE), R_N, R_OVF(CODE + 1), R_T,
                       R_PGD(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow to 9\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "overflow to 1\n"
                 "block 1 1 1 taken\n"
                 "disabled from 0\n",
    }, {
        .name = "it takes the TIP of a FUP.FAR",
        .rtit = &plain,
        .code = BYTES(0x90, 0x90, 0x0f, 0x05),
        .trace = BYTES(R_START, R_FAR(CODE + 1), R_OVF(CODE), R_FAR(CODE + 4), R_OVF(CODE + 1),
                       R_FAR(CODE + 4)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "async from 1\n"
                 "overflow to 0\n"
                 "block 0 2 3\n"
                 "overflow to 1\n"
                 "block 1 2 2\n",
    }, {
        .name = "E5: a TIP with the same LIP behind it, once",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_START, R_OVF(CODE + 1), R_TIP(CODE + 1), R_TIP(CODE), R_TIP(CODE + 1),
                       R_OVF(CODE), R_PSB, R_TIP(CODE), R_TIP(CODE), R_OVF(CODE), R_TIP(CODE + 1)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow to 1\n"
                 "block 1 1 1\n"
                 "block 0 1 2\n"
                 "overflow to 0\n"
                 "psb\n"
                 "block 0 1 2\n"
                 "overflow to 0\n"
                 "block 0 1 2\n",
    },
};

static const struct golden paging_cases[] = {
    {
        .name = "MOV CR3: the code of the new address space from the next instruction on",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x74, 0x00,                   /* jz 2 */
            /*  2 */ 0x0f, 0x22, 0xd8,             /* mov cr3, rax */
            /*  5 */ 0x90,                         /* nop */
            /*  6 */ 0xff, 0xe0),                  /* jmp rax */
        .code_b = BYTES(
            /*  0 */ 0x90, 0x90, 0x90, 0x90, 0x90,
            /*  5 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_START, R_N, R_PIP(CR3_B | 0x18), R_TIP(CODE + 5), R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "cr3 6018\n"
                 "block 5 5 1\n"
                 "block 5 5 1\n",
    }, {
        .name = "rows 41 to 44: PacketEn 0; PacketEn to 0 by MOV CR3",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x22, 0xd8,             /* mov cr3, rax */
            /*  4 */ 0x90),                        /* nop */
        .trace = BYTES(R_PSB, R_PIP(CR3_A), R_PGE(CODE), R_PIP(CR3_A), R_PGD(CODE + 4),
                       R_PIP(CR3_B), R_PGE(CODE)),
        .items = "psb\n"
                 "cr3 5000\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "cr3 5000\n"
                 "disabled from 4\n"
                 "cr3 6000\n"
                 "enabled to 0\n",
    }, {
        .name = "MOV CR0 that changes CR0.PG, and one that does not",
        .rtit = &mode32,
        .code = BYTES(
            /*  0 */ 0x0f, 0x22, 0xc0,             /* mov cr0, eax */
            /*  3 */ 0x90,                         /* nop */
            /*  4 */ 0x0f, 0x22, 0xd8,             /* mov cr3, eax */
            /*  7 */ 0xff, 0xe0),                  /* jmp eax */
        .trace = BYTES(R_START, R_PIP(CR3_A), R_TIP(CODE), R_PIP_NOPG(CR3_A), R_PIP_NOPG(CR3_A),
                       R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 3 4 2\n"
                 "cr3 5000\n"
                 "block 7 7 1\n"
                 "block 0 0 1\n"
                 "cr3 5000\n"
                 "block 3 4 2\n"
                 "cr3 5000\n"
                 "block 7 7 1\n",
    }, {
        .name = "a MOV CR3 that sends nothing (RTIT_CTL.CR3En); PIP without a MOV CR3",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0x0f, 0x22, 0xd8,             /* mov cr3, rax */
            /*  3 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_START, R_TIP(CODE + 3), R_PIP(CR3_B)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 3 3 1\n"
                 "error -8 lost 6\n",
    },
};

static const struct golden sync_cases[] = {
    {
        .name = "begin in the midst: TIP, FUP.FAR, FUP.BuffOvf; TNT and FUP.PCC say nothing",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_PSB, R_NT, R_PCC(CODE + 5), R_TIP(CODE), R_TIP(CODE), 0x01,
                       R_PSB, R_FAR(CODE + 7), R_TIP(CODE), R_TIP(CODE), 0x01,
                       R_PSB, R_T, R_OVF(CODE), R_TIP(CODE + 1)),
        .items = "psb\n"
                 "packet FUP.PCC from 5\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -3 lost 1\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -3 lost 1\n"
                 "psb\n"
                 "overflow to 0\n"
                 "block 0 0 1\n",
    }, {
        .name = "begin where PacketEn goes to 0; a TIP out of the filter",
        .rtit = &filtered,
        .code = BYTES(
            /*  0 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_PSB, R_PGD(CODE + 5), R_TIP(CODE + 0x50), R_PGE(CODE), R_TIP(CODE), 0x01,
                       R_PSB, R_TIP(CODE + 0x50), R_PGD(CODE + 5), R_TN, R_PGE(CODE), R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -3 lost 1\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n",
    }, {
        .name = "LIPs against one from before the PSB (3.3.9): known, and not known",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_START, R_PSB, 0xb0, 0x00, 0x10, 0x01,
                       R_PSB, 0xb0, 0x00, 0x10, 0xb1, 0x00, 0x10, 0, 0, R_TIP(CODE), 0xb0, 0x00, 0x10),
        .items = "psb\n"
                 "enabled to 0\n"
                 "psb\n"
                 "block 0 0 1\n"
                 "error -3 lost 1\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n",
    }, {
        .name = "no PSB",
        .rtit = &plain,
        .code = BYTES(0xff, 0xe0),
        .trace = BYTES(R_PGE(CODE), R_TIP(CODE)),
        .items = "error -5 lost 6\n",
    }, {
        .name = "from the first byte on",
        .rtit = &at_start,
        .code = BYTES(0xff, 0xe0),
        .trace = BYTES(R_PGE(CODE), R_TIP(CODE), 0xb4, 0x00),
        .items = "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -2 lost 2\n",
    }, {
        .name = "no code; an endless loop; a packet while PacketEn is 0",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xeb, 0xfe,                   /* jmp 0 */
            /*  2 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_PSB, R_PGE(CODE + 0x99), R_T, R_START, R_N, R_PSB, R_PGE(CODE + 2),
                       R_PGD(CODE + 2), R_T, R_PSB, R_PGD(CODE + 2), R_FAR(CODE + 2), R_PSB,
                       R_PGD(CODE + 2), R_PCC(CODE)),
        .items = "psb\n"
                 "enabled to 99\n"
                 "error -6 lost 0\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -10 lost 0\n"
                 "psb\n"
                 "enabled to 2\n"
                 "disabled from 2\n"
                 "error -8 lost 1\n"
                 "psb\n"
                 "error -8 lost 3\n"
                 "psb\n"
                 "packet FUP.PCC from 0\n",
    }, {
        .name = "E8: behind the 21 packets that follow a PSB; PIP and FUP.PCC count meanwhile",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_START, R_TIP(CODE), R_N, R_PIP(CR3_B), R_PCC(CODE), R_MTC(1), R_MTC(2),
                       R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE),
                       R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE),
                       R_TIP(CODE), R_STOP, /* 21 */ R_TIP(CODE), R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -8 lost 53\n"
                 "cr3 6000\n"
                 "packet FUP.PCC\n"
                 "packet MTC\n"
                 "stop\n"
                 "enabled to 0\n"
                 "block 0 0 1\n",
    }, {
        .name = "the same error later: the next PSB",
        .rtit = &plain,
        .code = BYTES(
            /*  0 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(R_START, R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE),
                       R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE),
                       R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), R_TIP(CODE),
                       R_TIP(CODE), R_TIP(CODE), R_TIP(CODE), /* 21 */ R_N, R_TIP(CODE),
                       R_TIP(CODE), R_PSB, R_TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\nblock 0 0 1\nblock 0 0 1\nblock 0 0 1\nblock 0 0 1\n"
                 "block 0 0 1\nblock 0 0 1\nblock 0 0 1\nblock 0 0 1\nblock 0 0 1\n"
                 "block 0 0 1\nblock 0 0 1\nblock 0 0 1\nblock 0 0 1\nblock 0 0 1\n"
                 "block 0 0 1\nblock 0 0 1\nblock 0 0 1\nblock 0 0 1\nblock 0 0 1\n"
                 "error -8 lost 6\n"
                 "psb\n"
                 "enabled to 0\n",
    },
};

#define R_STS(tsc, actual) 0xd0 | (actual) >> 2, ((actual) & 3) << 6 | 5, (tsc) & 0xff,            \
    (tsc) >> 8 & 0xff, (tsc) >> 16 & 0xff, (tsc) >> 24 & 0xff, 0

static const struct golden time_cases[] = {
    {
        .name = "STS and MTC (4.2.12, 4.2.13); E7: not the first MTC after enabling",
        .rtit = &plain,
        .code = BYTES(0x90),
        .trace = BYTES(R_START, R_MTC(0x99), R_MTC(0x20), R_STS(0x81234, 17), R_MTC(0x25),
                       R_MTC(0x24), 0xc7, 0x60, R_STS(0xc0001, 17), R_STS(0xc0000, 18), R_STOP,
                       R_START, R_MTC(0x99), R_MTC(0x11), R_PGE(CODE), R_MTC(0x99)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet MTC\n"
                 "tsc 81234\n"
                 "cbr 11\n"
                 "tsc 81280\n" /* 25H << 7, in 80000H to 88000H */
                 "tsc 89200\n" /* once around */
                 "tsc c0000\n" /* 60H << 13 */
                 "tsc c0001\n"
                 "tsc 100000c0000\n" /* 40 bits, once around */
                 "cbr 12\n"
                 "stop\n"
                 "psb\n"
                 "enabled to 0\n"
                 "tsc 100000c0880\n"
                 "disabled\n" /* by a WRMSR that no packet tells of */
                 "enabled to 0\n",
    },
};
/* clang-format on */

static void branches(void)
{
    check_golden(branch_cases, COUNT(branch_cases));
}

static void far_transfers(void)
{
    check_golden(far_cases, COUNT(far_cases));
}

static void filters(void)
{
    check_golden(filter_cases, COUNT(filter_cases));
}

static void stops(void)
{
    check_golden(stop_cases, COUNT(stop_cases));
}

static void overflows(void)
{
    check_golden(overflow_cases, COUNT(overflow_cases));
}

static void paging(void)
{
    check_golden(paging_cases, COUNT(paging_cases));
}

static void synchronisation(void)
{
    check_golden(sync_cases, COUNT(sync_cases));
}

static void time_stamps(void)
{
    check_golden(time_cases, COUNT(time_cases));
}

/* The last item's cycles: jmp rax, three TIPs with counts of 0, 5 and 100, and one more. */
static uint64_t count_cycles(bool minus_one)
{
    static const uint8_t code[] = {0xff, 0xe0};
    static const uint8_t trace[] = {R_PSB, R_PGE(CODE), 0x01, R_TIP(CODE), 0x15, R_TIP(CODE), 0x92,
                                    0x01,  R_FAR(CODE), 0x05, R_TIP(CODE), 0x01, R_MTC(0x1),  0x01};
    const struct ptd_rtit_config config = {
        .mode = PTD_MODE_64, .cycle_acc = true, .cycles_minus_one = minus_one};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_rtit_flow *flow;
    struct ptd_item item = {0};

    (void)ptd_image_add_bytes(image, "code", CODE, code, sizeof(code), PTD_ANY_CR3);
    flow = ptd_rtit_flow_new(trace, sizeof(trace), image, &config);
    while (ptd_rtit_flow_next(flow, &item) == PTD_OK)
        ;
    CU_ASSERT_EQUAL(item.type, PTD_ITEM_ASYNC);
    ptd_rtit_flow_free(flow);
    ptd_image_free(image);
    return item.cycles;
}

static void cycles(void)
{
    CU_ASSERT_EQUAL(count_cycles(false), 0 + 5 + 100 + 1 + 0);
    CU_ASSERT_EQUAL(count_cycles(true), 0 + 6 + 101 + 2 + 0);
}

/* NULL for a configuration is 64-bit code, from the first PSB. */
static void no_config(void)
{
    static const uint8_t code[] = {0x48, 0x90, 0xff, 0xe0}; /* in 32-bit code: dec eax */
    static const uint8_t trace[] = {R_START, R_TIP(CODE)};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_rtit_flow *flow;
    struct ptd_item item = {0};

    (void)ptd_image_add_bytes(image, "code", CODE, code, sizeof(code), PTD_ANY_CR3);
    flow = ptd_rtit_flow_new(trace, sizeof(trace), image, NULL);
    while (ptd_rtit_flow_next(flow, &item) == PTD_OK)
        ;
    CU_ASSERT_EQUAL(item.type, PTD_ITEM_BLOCK);
    CU_ASSERT_EQUAL(item.insns, 2);
    ptd_rtit_flow_free(flow);
    ptd_image_free(image);
    ptd_rtit_flow_free(NULL);
}

void add_rtit_flow_suite(void)
{
    CU_pSuite const suite = CU_add_suite("RTIT flow", NULL, NULL);

    CU_add_test(suite, "near branches", branches);
    CU_add_test(suite, "far transfers and events", far_transfers);
    CU_add_test(suite, "filter", filters);
    CU_add_test(suite, "TraceStop", stops);
    CU_add_test(suite, "overflow", overflows);
    CU_add_test(suite, "paging", paging);
    CU_add_test(suite, "synchronisation and errors", synchronisation);
    CU_add_test(suite, "time", time_stamps);
    CU_add_test(suite, "cycles", cycles);
    CU_add_test(suite, "without configuration", no_config);
}
