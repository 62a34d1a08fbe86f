/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Going on behind code that is missing: at the next packet that says an IP, or at the next PSB.
 * Addresses from CODE + 100H on have no code.
 */
#include <CUnit/CUnit.h>

#include <stdio.h>

#include "golden.h"
#include "ptdec.h"
#include "referee.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TIP16(ip)  0x2d, (ip)&0xff, (ip) >> 8 & 0xff
#define FUP16(ip)  0x3d, (ip)&0xff, (ip) >> 8 & 0xff
#define PSB_AT(ip) PSB, FUP(ip), PSBEND
#define PTW_IP     2, 0x92, 1, 2, 3, 4
#define EXSTOP_IP  2, 0xe2
#define RESERVED   2, 0xff
#define MISSING    TIP(CODE + 0x100), TNT_TN

/* clang-format off */
#define JUMPS_AND_RET                                      \
    BYTES(/*  0 */ 0xff, 0xe0,                   /* jmp rax */ \
          /*  2 */ 0x74, 0x00,                   /* jz 4 */    \
          /*  4 */ 0xff, 0xe0,                   /* jmp rax */ \
          /*  6 */ 0xe8, 0x01, 0x00, 0x00, 0x00, /* call c */  \
          /*  b */ 0xc3,                         /* ret */     \
          /*  c */ 0xc3,                         /* ret */     \
          /*  d */ 0xe9, 0xee, 0x00, 0x00, 0x00, /* jmp 100 */ \
          /* 12 */ 0x0f, 0xff)                   /* no instruction */

static const struct golden ip_cases[] = {
    {
        .name = "TNTs are left out up to a TIP",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, TNT_TTT, MTC, TNT_N, TIP(CODE + 2), TNT_N, TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 4 from 100 to 2\n"
                 "block 2 2 1\n"
                 "block 4 4 1\n",
    }, {
        .name = "the same to the next PSB",
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, TNT_TTT, MTC, TNT_N, TIP(CODE + 2), TNT_N, TIP(CODE),
                       PSB_AT(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 19 from 100\n"
                 "psb to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "a TIP that was read already; LastIP goes on",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), TIP(CODE + 0xd), TIP16(CODE + 4), TIP(CODE + 0x100),
                       TIP16(CODE + 0x200), TIP16(CODE + 2), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block d d 1\n"
                 "error -6 lost 0 from 100 to 4\n"
                 "block 4 4 1\n"
                 "error -6 lost 0 from 100 to 200\n"
                 "error -6 lost 0 from 200 to 2\n"
                 "block 2 2 1 taken\n",
    }, {
        .name = "a compressed RET without its CALL ends a piece",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE + 6), TIP(CODE), MISSING, TIP(CODE + 6), TNT_TT, TNT_NN,
                       TIP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 6\n"
                 "block 6 6 1\n"
                 "block c c 1\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100 to 6\n"
                 "block 6 6 1\n"
                 "block c c 1\n"
                 "error -9 lost 1 from b to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "a RET that is not compressed needs no CALL",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, TIP(CODE + 0xb), TIP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100 to b\n"
                 "block b b 1\n"
                 "block 4 4 1\n",
    }, {
        .name = "CR3, VMCS and modes of the gap are known behind it",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, PIP(CR3_B), TNT_N, VMCS(0x7000), TNT_N, MODE64_IF,
                       FUP(CODE + 2), TNT_N, TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 17 from 100 to 2\n"
                 "vmcs 7000\n"
                 "cr3 6000\n"
                 "mode 64\n"
                 "block 2 2 1\n"
                 "block 4 4 1\n",
    }, {
        .name = "a far transfer out of the gap",
        .resync = PTD_RESYNC_IP,
        .code = BYTES(0xff, 0xe0),                         /* jmp rax */
        .code_b = BYTES(0x90, 0x90, 0x74, 0x00),           /* nop; nop; jz */
        .trace = BYTES(START(CODE), MISSING, PIP(CR3_B), MODE32, TIP(CODE + 2), TNT_N),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 8 from 100 to 2\n"
                 "cr3 6000\n"
                 "mode 32\n"
                 "block 2 2 1\n",
    }, {
        .name = "an interrupt of code that is missing",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, FUP(CODE + 0x123), PIP(CR3_B), TIP(CODE + 2), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100 to 123\n"
                 "async from 123 to 2\n"
                 "cr3 6000\n"
                 "block 2 2 1 taken\n",
    }, {
        .name = "tracing ends in the gap, and begins again",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, PGD(CODE + 0x99), PGE(CODE), MISSING,
                       FUP(CODE + 0x100), PGD_NO_IP, PTW_IP, FUP(CODE), PGE(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100\n"
                 "disabled to 99\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100 to 100\n"
                 "disabled from 100\n"
                 "ptwrite 4030201 from 0\n"
                 "enabled to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "the FUP of a PTW or of an EXSTOP is no start",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, PTW_IP, FUP(CODE + 2), TNT_N, EXSTOP_IP,
                       FUP(CODE + 2), TNT_N, TIP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 24 from 100 to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "nor is that of a TRIG, and nobody counts instructions that are missing",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, 0xd9, 0x40, 1, 5, 0, TNT_N, 0xd9, 0x80, 1,
                       FUP(CODE + 2), TNT_N, TIP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 17 from 100 to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "a transaction that aborts in the gap",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, TSX_BEGIN, FUP(CODE + 0x140), TNT_N, TSX_ABORT,
                       FUP(CODE + 0x150), TIP(CODE + 2), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100 to 140\n"
                 "tsx 1\n"
                 "error -6 lost 0 from 140 to 150\n"
                 "async from 150 to 2\n"
                 "tsx 2\n"
                 "block 2 2 1 taken\n",
    }, {
        .name = "BDM64: a TIP inside of a transaction may be wrong",
        .resync = PTD_RESYNC_IP,
        .errata = PTD_BDM64,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, TSX_BEGIN, FUP(CODE + 0x140), TNT_N, TIP(CODE),
                       TSX_ABORT, FUP(CODE + 4), TIP(CODE + 2), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100 to 140\n"
                 "tsx 1\n"
                 "error -6 lost 7 from 140 to 4\n"
                 "async from 4 to 2\n"
                 "tsx 2\n"
                 "block 2 2 1 taken\n",
    }, {
        .name = "a PSB ends a gap",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, TNT_N, PSB_AT(CODE + 0x100), TNT_N,
                       PSB_AT(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 1 from 100\n"
                 "psb to 100\n"
                 "error -6 lost 0 from 100\n"
                 "psb to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "an overflow, a TraceStop and the end of the trace do",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, TNT_N, OVF, FUP(CODE), MISSING, TRACESTOP,
                       PGE(CODE), MISSING, TNT_TTT, TNT_N),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 1 from 100\n"
                 "overflow to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100\n"
                 "stop\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 2 from 100\n",
    }, {
        .name = "what changed is told, also where no IP ends the gap",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, PIP(CR3_B), TNT_N, OVF, FUP(CODE), MISSING,
                       VMCS(0x7000), TRACESTOP, PGE(CODE), MISSING, PIP(CR3_A), TNT_N),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 9 from 100\n"
                 "cr3 6000\n"
                 "overflow to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 7 from 100\n"
                 "vmcs 7000\n"
                 "stop\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 9 from 100\n"
                 "cr3 5000\n",
    }, {
        .name = "an event without an end, in front of an overflow",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, FUP(CODE + 0x110), OVF, FUP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 0 from 100 to 110\n"
                 "disabled from 110\n"
                 "overflow to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "what is no packet leads to the next PSB",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, TNT_N, RESERVED, TIP(CODE + 2), PSB_AT(CODE + 4),
                       TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 10 from 100\n"
                 "psb to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "so do packets that contradict each other",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE), MISSING, MODE64, TNT_N, TIP(CODE + 2), PSB_AT(CODE + 4),
                       TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -6 lost 10 from 100\n"
                 "psb to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "packets and code disagree: only a whole IP counts",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE + 2), TIP16(CODE + 4), TNT_N, MODE64_IF, FUP16(CODE + 4),
                       FUP16(CODE + 4), TIP16(CODE), PGD_NO_IP, TIP(CODE + 2), TNT_T),
        .items = "psb\n"
                 "enabled to 2\n"
                 "error -8 lost 16 from 2 to 2\n"
                 "mode 64\n"
                 "block 2 2 1 taken\n",
    }, {
        .name = "no instruction: a FUP in doubt, and then a TIP",
        .resync = PTD_RESYNC_IP,
        .code = JUMPS_AND_RET,
        .trace = BYTES(START(CODE + 0x12), TNT_N, TIP16(CODE + 2), FUP16(CODE + 4), TIP(CODE + 2),
                       TNT_T, TIP16(CODE + 4), TIP16(CODE)),
        .items = "psb\n"
                 "enabled to 12\n"
                 "error -7 lost 3 from 12 to 2\n"
                 "block 2 2 1 taken\n"
                 "block 4 4 1\n"
                 "block 4 4 1\n",
    },
};

/* TNT bits in front of TIPs that are older (33.4.2.3), as a processor sends them that defers. */
static const struct golden deferred_cases[] = {
    {
        .name = "deferred TIPs around code that is missing: what the PSB leads to is right",
        .code = JUMPS_AND_RET,
        /* jmp 2, jz not taken, jmp 100, a branch there, jmp 2, jz taken, jmp 0 */
        .trace = BYTES(START(CODE), 0x12 /* N, N, T */, TIP(CODE + 2), TIP(CODE + 0x100),
                       TIP(CODE + 2), TIP(CODE), PSB_AT(CODE), TIP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 4 4 1\n"
                 "error -6 lost 14 from 100\n"
                 "psb to 0\n"
                 "block 0 0 1\n"
                 "block 4 4 1\n",
    },
};

#define IN_B          PSB, PIP(CR3_B), MODE64, FUP(CODE), PSBEND
#define JMP           BYTES(0xff, 0xe0)
#define NOP_JMP       BYTES(0x90, 0xff, 0xe0)
#define BEFORE_GAP                  \
                 "psb to 0\n"       \
                 "cr3 6000\n"       \
                 "mode 64\n"        \
                 "block 0 1 2\n"    \
                 "error -6 lost 0 from 100\n"

/* Code of all address spaces is one instruction long, that of CR3_B has two. */
static const struct golden unknown_cases[] = {
    {
        .name = "a PSB+ without PIP: only what is in all address spaces is known",
        .code = JMP, .code_b = NOP_JMP,
        .trace = BYTES(IN_B, MISSING, SYNC, PGE(CODE), TIP(CODE)),
        .items = BEFORE_GAP
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n",
    }, {
        .name = "up to the next PIP",
        .code = JMP, .code_b = NOP_JMP,
        .trace = BYTES(IN_B, MISSING, SYNC, PGE(CODE), TIP(CODE), PGD_NO_IP, PIP(CR3_B),
                       PGE(CODE), TIP(CODE)),
        .items = BEFORE_GAP
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 0 0 1\n"
                 "disabled\n"
                 "cr3 6000\n"
                 "enabled to 0\n"
                 "block 0 1 2\n",
    }, {
        .name = "up to the next PSB+ that has one",
        .code = JMP, .code_b = NOP_JMP,
        .trace = BYTES(IN_B, MISSING, SYNC, PGE(CODE), TIP(CODE), IN_B, TIP(CODE)),
        .items = BEFORE_GAP
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "psb to 0\n"
                 "cr3 6000\n"
                 "block 0 1 2\n",
    }, {
        .name = "a PSB+ with a PIP",
        .code = JMP, .code_b = NOP_JMP,
        .trace = BYTES(IN_B, MISSING, IN_B, TIP(CODE)),
        .items = BEFORE_GAP
                 "psb to 0\n"
                 "cr3 6000\n"
                 "mode 64\n"
                 "block 0 1 2\n",
    }, {
        .name = "a PSB+ that an overflow cuts off",
        .code = JMP, .code_b = NOP_JMP,
        .trace = BYTES(IN_B, MISSING, PSB, OVF, FUP(CODE), TIP(CODE)),
        .items = BEFORE_GAP
                 "psb\n"
                 "overflow to 0\n"
                 "block 0 0 1\n",
    }, {
        .name = "a gap to the next IP: PIPs were read",
        .resync = PTD_RESYNC_IP,
        .code = JMP, .code_b = NOP_JMP,
        .trace = BYTES(IN_B, MISSING, TIP(CODE), TIP(CODE)),
        .items = "psb to 0\n"
                 "cr3 6000\n"
                 "mode 64\n"
                 "block 0 1 2\n"
                 "error -6 lost 0 from 100 to 0\n"
                 "block 0 1 2\n",
    },
};
/* clang-format on */

/* What is told, and in which address space. */
struct told {
    uint8_t type;
    uint64_t space;
};

static void check_told(const struct ptd_image *image, const struct bytes *bytes,
                       const struct told *want, size_t count)
{
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .cr3 = CR3_A};
    const struct referee_trace trace = {
        .bytes = bytes->at, .len_bytes = bytes->len, .image = image, .config = &config};
    struct ptd_flow *const flow = ptd_flow_new(bytes->at, bytes->len, image, &config);
    struct ptd_item item;
    size_t i = 0;

    for (; ptd_flow_next(flow, &item) == PTD_OK; i++) {
        if (i == count || item.type != want[i].type || item.cr3 != want[i].space) {
            printf("\nitem %zu: type %u, space %llx", i, item.type, (unsigned long long)item.cr3);
            CU_FAIL("told in another address space");
            break;
        }
    }
    CU_ASSERT_EQUAL(i, count);
    ptd_flow_free(flow);
    CU_ASSERT_TRUE(referee_run(&trace, PTD_RUN_ROOM).same);
    CU_ASSERT_TRUE(referee_parallel(&trace, 2, 1).same);
    CU_ASSERT_TRUE(referee_stream(&trace, 1, 1, NULL).same);
}

static void next_ip(void)
{
    check_golden(ip_cases, COUNT(ip_cases));
}

static void unknown(void)
{
    check_golden(unknown_cases, COUNT(unknown_cases));
}

static const uint8_t jmp[] = {0xff, 0xe0};

/* What no packet of a trace tells is as the configuration says, behind a gap as well. */
static void configured(void)
{
    static const uint8_t bytes[] = {START(CODE), MISSING, START(CODE), TIP(CODE)};
    static const struct told told[] = {
        {PTD_ITEM_PSB, CR3_A},   {PTD_ITEM_ENABLED, CR3_A}, {PTD_ITEM_BLOCK, CR3_A},
        {PTD_ITEM_ERROR, CR3_A}, {PTD_ITEM_PSB, CR3_A},     {PTD_ITEM_ENABLED, CR3_A},
        {PTD_ITEM_BLOCK, CR3_A},
    };
    struct ptd_image *const image = ptd_image_new();

    (void)ptd_image_add_bytes(image, NULL, CODE, jmp, sizeof(jmp), CR3_A);
    check_told(image, &(struct bytes){bytes, sizeof(bytes)}, told, COUNT(told));
    ptd_image_free(image);
}

/* The address space where an error was is that of the error; then it is not known. */
static void spaces(void)
{
    static const uint8_t bytes[] = {PSB,  PIP(CR3_B), PSBEND,    PGE(CODE),     MISSING,
                                    SYNC, TSC,        PGE(CODE), TIP(CODE + 2), TNT_N};
    static const struct told told[] = {
        {PTD_ITEM_PSB, CR3_A},         {PTD_ITEM_CR3, CR3_B},
        {PTD_ITEM_ENABLED, CR3_B},     {PTD_ITEM_BLOCK, CR3_B},
        {PTD_ITEM_ERROR, CR3_B},       {PTD_ITEM_PSB, PTD_ANY_CR3},
        {PTD_ITEM_TSC, PTD_ANY_CR3},   {PTD_ITEM_ENABLED, PTD_ANY_CR3},
        {PTD_ITEM_BLOCK, PTD_ANY_CR3}, {PTD_ITEM_ERROR, PTD_ANY_CR3},
    };
    struct ptd_image *const image = ptd_image_new();

    (void)ptd_image_add_bytes(image, NULL, CODE, jmp, sizeof(jmp), PTD_ANY_CR3);
    (void)ptd_image_add_bytes(image, NULL, CODE + 2, jmp, sizeof(jmp), CR3_B);
    check_told(image, &(struct bytes){bytes, sizeof(bytes)}, told, COUNT(told));
    ptd_image_free(image);
}

/* Where VMs are told apart, nobody's code runs until it is known whose. */
static void machines(void)
{
    static const uint8_t bytes[] = {
        PSB,  VMCS(0x7000),  PIP_NR(CR3_B), PSBEND,    PGE(CODE), MISSING, /* in the VM */
        SYNC, PGE(CODE),     TIP(CODE),                                    /* nobody knows */
        PSB,  PIP_NR(CR3_B), PSBEND,        PGE(CODE), TIP(CODE),          /* in a VM */
        PSB,  PIP(CR3_A),    PSBEND,        PGE(CODE), TIP(CODE),          /* in the host */
    };
    struct ptd_image *const image = ptd_image_new();
    const unsigned vm = (unsigned)ptd_image_add_vm(image);
    const uint64_t nobody = ptd_space(PTD_VM_UNKNOWN, PTD_ANY_CR3);
    const uint64_t somebody = ptd_space(PTD_VM_UNKNOWN, CR3_B);
    const struct told told[] = {
        {PTD_ITEM_PSB, CR3_A},
        {PTD_ITEM_VMCS, CR3_A},
        {PTD_ITEM_CR3, ptd_space(vm, CR3_B)},
        {PTD_ITEM_ENABLED, ptd_space(vm, CR3_B)},
        {PTD_ITEM_BLOCK, ptd_space(vm, CR3_B)},
        {PTD_ITEM_ERROR, ptd_space(vm, CR3_B)},
        {PTD_ITEM_PSB, nobody},
        {PTD_ITEM_ENABLED, nobody},
        {PTD_ITEM_ERROR, nobody},
        {PTD_ITEM_PSB, nobody},
        {PTD_ITEM_CR3, somebody},
        {PTD_ITEM_ENABLED, somebody},
        {PTD_ITEM_ERROR, somebody},
        {PTD_ITEM_PSB, nobody},
        {PTD_ITEM_CR3, CR3_A},
        {PTD_ITEM_ENABLED, CR3_A},
        {PTD_ITEM_BLOCK, CR3_A},
    };

    (void)ptd_image_bind_vmcs(image, vm, 0x7000);
    (void)ptd_image_add_bytes(image, NULL, CODE, jmp, sizeof(jmp), PTD_ANY_CR3);
    (void)ptd_image_add_bytes(image, NULL, CODE, jmp, sizeof(jmp), ptd_space(vm, PTD_ANY_CR3));
    check_told(image, &(struct bytes){bytes, sizeof(bytes)}, told, COUNT(told));
    ptd_image_free(image);
}

static void deferred(void)
{
    check_golden(deferred_cases, COUNT(deferred_cases));
}

/* Who is known not to defer TIPs. */
static void processors(void)
{
    CU_ASSERT_EQUAL(ptd_resync_for(6, 0x4f), PTD_RESYNC_IP); /* 79 */
    CU_ASSERT_EQUAL(ptd_resync_for(6, 0x55), PTD_RESYNC_IP); /* 85 */
    CU_ASSERT_EQUAL(ptd_resync_for(6, 0x5e), PTD_RESYNC_IP); /* 94 */
    CU_ASSERT_EQUAL(ptd_resync_for(6, 0x7e), PTD_RESYNC_IP); /* 126 */
    CU_ASSERT_EQUAL(ptd_resync_for(6, 0x5c), PTD_RESYNC_PSB);
    CU_ASSERT_EQUAL(ptd_resync_for(0, 0), PTD_RESYNC_PSB);
    CU_ASSERT_EQUAL(ptd_resync_for(15, 0x5e), PTD_RESYNC_PSB);
}

void add_resync_suite(void)
{
    CU_pSuite const suite = CU_add_suite("going on after an error", NULL, NULL);

    CU_add_test(suite, "at the next IP", next_ip);
    CU_add_test(suite, "deferred TIPs", deferred);
    CU_add_test(suite, "what is not known behind a gap", unknown);
    CU_add_test(suite, "CR3 of the configuration", configured);
    CU_add_test(suite, "address spaces that are not known", spaces);
    CU_add_test(suite, "VMs that are not known", machines);
    CU_add_test(suite, "processors", processors);
}
