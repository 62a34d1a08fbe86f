/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow: branches, RET compression, deferred TIPs, enabling and disabling, and code and packets that
 * do not agree (SDM 33.4.2.1-33.4.2.5).
 */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "ptdec.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* clang-format off */
static const struct golden branch_cases[] = {
    {
        .name = "conditional branches",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x74, 0x01,                   /* jz 4 */
            /*  3 */ 0x90,                         /* nop */
            /*  4 */ 0xe2, 0xfa,                   /* loop 0 */
            /*  6 */ 0xeb, 0xf8),                  /* jmp 0 */
        .trace = BYTES(START(CODE), TNT_TTT, TNT_N, TNT_NN),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "block 4 4 1 taken\n"
                 "block 0 1 2 taken\n"
                 "block 4 4 1\n"
                 "block 6 6 1\n"
                 "block 0 1 2\n"
                 "block 3 4 2\n",
    }, {
        .name = "long TNT",
        .code = BYTES(
            /*  0 */ 0x74, 0x00,                   /* jz 2 */
            /*  2 */ 0x75, 0xfc),                  /* jnz 0 */
        .trace = BYTES(START(CODE), 2, 0xa3, 0x0d, 0, 0, 0, 0, 0), /* T N T */
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1 taken\n"
                 "block 2 2 1\n"
                 "error -6 lost 0 from 4\n",              /* code ends behind the jnz */
    }, {
        .name = "indirect branches; timing packets anywhere",
        .code = BYTES(
            /*  0 */ 0xff, 0xe0,                   /* jmp rax */
            /*  2 */ 0xff, 0xd0,                   /* call rax */
            /*  4 */ 0x90,                         /* nop */
            /*  5 */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), CYC, TIP(CODE + 2), PAD, MTC, TSC, TIP(CODE + 5), CBR, TNT_T,
                       TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet CYC\n"
                 "block 0 0 1\n"
                 "packet MTC\n"
                 "tsc 1\n"
                 "block 2 2 1\n"
                 "cbr 1f\n"
                 "block 5 5 1\n"
                 "block 4 5 2\n",
    }, {
        .name = "every near RET pops, also one that is not compressed",
        .code = BYTES(
            /*  0 */ 0xe8, 0x01, 0x00, 0x00, 0x00, /* call 6 */
            /*  5 */ 0xf4,                         /* hlt */
            /*  6 */ 0xe8, 0x01, 0x00, 0x00, 0x00, /* call c */
            /*  b */ 0xc3,                         /* ret */
            /*  c */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), TIP(CODE + 0xb), TNT_T, FUP(CODE + 5), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 6 6 1\n"
                 "block c c 1\n"
                 "block b b 1\n"
                 "disabled from 5\n",
    }, {
        .name = "a CALL to the next instruction is not on the stack",
        .code = BYTES(
            /*  0 */ 0xe8, 0x01, 0x00, 0x00, 0x00, /* call 6 */
            /*  5 */ 0xf4,                         /* hlt */
            /*  6 */ 0xe8, 0x00, 0x00, 0x00, 0x00, /* call b */
            /*  b */ 0x58,                         /* pop rax */
            /*  c */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), TNT_T, FUP(CODE + 5), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 6 6 1\n"
                 "block b c 2\n"
                 "disabled from 5\n",
    }, {
        .name = "compressed RET without CALL; not taken RET",
        .code = BYTES(
            /*  0 */ 0xe8, 0x00, 0x00, 0x00, 0x00, /* call 5 */
            /*  5 */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), TNT_T, START(CODE), TNT_N),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -9 lost 0 from 5\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -8 lost 0 from 5\n",
    }, {
        .name = "RET in 32-bit mode pops 32 bits",
        .code = BYTES(
            /*  0 */ 0xff, 0xd0,                   /* call rax */
            /*  2 */ 0xf4,                         /* hlt */
            /*  3 */ 0xff, 0x28,                   /* jmp far */
            /*  5 */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), TIP(CODE + 3), MODE32, TIP(CODE + 5), TNT_T,
                       FUP(CODE + 2), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 3 3 1\n"
                 "mode 32\n"
                 "block 5 5 1\n"
                 "disabled from 2\n",
    }, {
        .name = "INTO that does nothing, in 32-bit mode",
        .code = BYTES(
            /*  0 */ 0xce,                         /* into */
            /*  1 */ 0x40,                         /* inc eax */
            /*  2 */ 0xff, 0xe0),                  /* jmp eax */
        .trace = BYTES(START(CODE), TIP(CODE)),
        .mode_bits = 32,
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 1 2 2\n",
    },
};

/* Table 33-19 and more. */
static const struct golden deferred_cases[] = {
    {
        .name = "TIPs behind younger TNT bits",
        .code = BYTES(
            /*  0 */ 0x75, 0x10,                   /* jnz 12 */
            /*  2 */ 0xff, 0xe2,                   /* jmp rdx */
            /*  4 */ 0x75, 0x0c,                   /* jnz 12 */
            /*  6 */ 0x75, 0x02,                   /* jnz a */
            /*  8 */ 0x90, 0x90,
            /*  a */ 0x7f, 0x06,                   /* jg 12 */
            /*  c */ 0x41, 0xff, 0xe7,             /* jmp r15 */
            /*  f */ 0x7f, 0x01,                   /* jg 12 */
            /* 11 */ 0x90,
            /* 12 */ 0x90),
        /* N | N T N | N, then an interrupt */
        .trace = BYTES(START(CODE), 0x48, TIP(CODE + 4), TIP(CODE + 0xf), FUP(CODE + 0x11),
                       TIP(CODE + 0x12)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 4 4 1\n"
                 "block 6 6 1 taken\n"
                 "block a a 1\n"
                 "block c c 1\n"
                 "block f f 1\n"
                 "async from 11 to 12\n",
    }, {
        .name = "not deferred",
        .code = BYTES(
            /*  0 */ 0x75, 0x02,                   /* jnz 4 */
            /*  2 */ 0xff, 0xe2,                   /* jmp rdx */
            /*  4 */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), TNT_N, TIP(CODE), TNT_N, TIP(CODE), TNT_T, TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 0 0 1 taken\n"
                 "block 4 4 1\n",
    }, {
        .name = "a deferred call, with timing between, and a compressed RET",
        .code = BYTES(
            /*  0 */ 0xff, 0xd0,                   /* call rax */
            /*  2 */ 0x75, 0xfc,                   /* jnz 0 */
            /*  4 */ 0x90,                         /* nop */
            /*  5 */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), TNT_TT, MTC, TIP(CODE + 4), TIP(CODE + 5), TNT_T, FUP(CODE + 2),
                       PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet MTC\n"
                 "block 0 0 1\n"
                 "block 4 5 2\n"
                 "block 2 2 1 taken\n"
                 "block 0 0 1\n"
                 "block 5 5 1\n"
                 "disabled from 2\n",
    }, {
        .name = "no TIP behind the TNT bits",
        .code = BYTES(
            /*  0 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), TNT_TT, TNT_TT, PAD, SYNC),
        .items = "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 2\n"
                 "psb\n",
    },
};

static const struct golden disable_cases[] = {
    {
        .name = "direct jump out of the filter range: only the one that goes there",
        .code = BYTES(
            /*  0 */ 0xeb, 0x00,                   /* jmp 2 */
            /*  2 */ 0xe9, 0xf9, 0x0f, 0x00, 0x00),/* jmp 1000 */
        .trace = BYTES(START(CODE), PGD(CODE + 0x1000), PGE(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "disabled to 1000\n"
                 "enabled to 0\n",
    }, {
        .name = "conditional branch out of it: no payload, and taken",
        .code = BYTES(
            /*  0 */ 0x74, 0x00,                   /* jz 2 */
            /*  2 */ 0xeb, 0x00,                   /* jmp 4 */
            /*  4 */ 0x74, 0x70),                  /* jz 76 */
        .trace = BYTES(START(CODE), TNT_N, PGD_NO_IP, START(CODE), TNT_N, PGD(CODE + 0x76),
                       START(CODE + 4), PGD(CODE + 6), START(CODE + 4), PGD(CODE + 7)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 4 4 1 taken\n"
                 "disabled to 76\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 4 4 1 taken\n"
                 "disabled to 76\n"
                 "psb\n"
                 "enabled to 4\n"
                 "block 4 4 1\n"
                 "disabled to 6\n"
                 "psb\n"
                 "enabled to 4\n"
                 "error -8 lost 7 from 4\n",
    }, {
        .name = "RET, indirect jump, SYSCALL",
        .code = BYTES(
            /*  0 */ 0xc3,                         /* ret */
            /*  1 */ 0xff, 0xe0,                   /* jmp rax */
            /*  3 */ 0x90,                         /* nop */
            /*  4 */ 0x0f, 0x05),                  /* syscall */
        .trace = BYTES(START(CODE), PGD(CODE + 0x1000), PGE(CODE + 1), PGD(CODE + 0x2000),
                       PGE(CODE + 3), PGD_NO_IP, PGE(CODE + 6)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled to 1000\n"
                 "enabled to 1\n"
                 "block 1 1 1\n"
                 "disabled to 2000\n"
                 "enabled to 3\n"
                 "block 3 4 2\n"
                 "disabled\n"
                 "enabled to 6\n",
    }, {
        .name = "MOV CR3 leaves the CR3 filter: no PIP",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x22, 0xd8,             /* mov cr3, rax */
            /*  4 */ 0x0f, 0x05),                  /* syscall */
        .trace = BYTES(START(CODE), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "disabled\n",
    }, {
        .name = "PIP says that the context stayed: the PGD is another instruction's",
        .code = BYTES(
            /*  0 */ 0x0f, 0x22, 0xd8,             /* mov cr3, rax */
            /*  3 */ 0x0f, 0x01, 0xf8,             /* swapgs */
            /*  6 */ 0x48, 0x0f, 0x07),            /* sysret */
        .trace = BYTES(START(CODE), PIP(CR3_B), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "cr3 6000\n"
                 "block 3 6 2\n"
                 "disabled\n",
    }, {
        .name = "MOV CR3 makes a TraceStop range act",
        .code = BYTES(
            /*  0 */ 0x0f, 0x22, 0xd8,             /* mov cr3, rax */
            /*  3 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), PIP(CR3_B), PGD(CODE + 3), TRACESTOP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "cr3 6000\n"
                 "disabled to 3\n"
                 "stop\n",
    }, {
        .name = "WRMSR that clears TraceEn, in the middle of a block",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x30,                   /* wrmsr */
            /*  3 */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), FUP(CODE + 1), PGD_NO_IP, SYNC),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled from 1\n"
                 "psb\n",
    }, {
        .name = "packets that need PacketEn without it",
        .code = BYTES(0x90),
        .trace = BYTES(SYNC, TNT_T, SYNC, TIP(CODE), SYNC, PGD_NO_IP, SYNC, FUP(CODE), START(CODE),
                       PGE(CODE + 8)),
        .items = "psb\n"
                 "error -8 lost 1\n"
                 "psb\n"
                 "error -8 lost 7\n"
                 "psb\n"
                 "error -8 lost 1\n"
                 "psb\n"
                 "error -8 lost 7\n"
                 "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 7\n",
    }, {
        .name = "the buffer begins where tracing was enabled again",
        .code = BYTES(0x90, 0xc3),
        .trace = BYTES(CBR, MODE64, PGE(CODE), TIP(CODE), SYNC),
        .at_start = true,
        .items = "cbr 1f\n"
                 "mode 64\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "error -8 lost 0\n"               /* PSB+ says that PacketEn is 0 */
                 "psb\n",
    }, {
        .name = "Broadwell: PSB+ as if PacketEn were 1, then TIP.PGE",
        .code = BYTES(0x90, 0xff, 0xe0),
        .trace = BYTES(PSB, FUP(CODE), PSBEND, PGE(CODE), TIP(CODE + 1), TIP(CODE)),
        .items = "psb to 0\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "block 1 1 1\n",
    },
};

static const struct golden wrong_cases[] = {
    {
        .name = "a jump to itself never comes to the FUP",
        .code = BYTES(
            /*  0 */ 0xeb, 0xfe),                  /* jmp 0 */
        .trace = BYTES(START(CODE), FUP(CODE + 1), TIP(CODE), SYNC),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -10 lost 14 from 0\n"
                 "psb\n",
    }, {
        .name = "a jump to itself that is interrupted",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xeb, 0xfe),                  /* jmp 1 */
        .trace = BYTES(START(CODE), FUP(CODE + 1), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "async from 1 to 0\n",
    }, {
        .name = "a circle of jumps, entered from outside",
        .code = BYTES(
            /*  0 */ 0xeb, 0x00,                   /* jmp 2 */
            /*  2 */ 0xeb, 0x00,                   /* jmp 4 */
            /*  4 */ 0xeb, 0xfc),                  /* jmp 2 */
        .trace = BYTES(START(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 2 2 1\n"
                 "block 4 4 1\n"
                 "error -10 lost 0 from 2\n",
    }, {
        .name = "TIP where a TNT is due, TNT where a TIP is due, an INT without FUP",
        .code = BYTES(
            /*  0 */ 0x74, 0x00,                   /* jz 2 */
            /*  2 */ 0xff, 0xe0,                   /* jmp rax */
            /*  4 */ 0xcd, 0x80),                  /* int 80 */
        .trace = BYTES(START(CODE), TIP(CODE), START(CODE + 2), TNT_T, START(CODE + 4), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 7 from 0\n"
                 "psb\n"
                 "enabled to 2\n"
                 "error -8 lost 0\n"
                 "psb\n"
                 "enabled to 4\n"
                 "error -8 lost 0 from 4\n",
    }, {
        .name = "a place without code, and no instruction",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x06),                        /* not in 64-bit mode */
        .trace = BYTES(START(CODE + 0x100), TNT_T, PAD, START(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 100\n"
                 "error -6 lost 1 from 100\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "error -7 lost 0 from 1\n",
    }, {
        .name = "a fault where no code is known",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x90),                        /* nop */
        .trace = BYTES(START(CODE), FUP(CODE + 2), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "async from 2 to 0\n",
    }, {
        .name = "bytes that are no packet; a packet that is cut off",
        .code = BYTES(0x74, 0x00, 0x74, 0xfc),
        .trace = BYTES(START(CODE), TNT_T, 0x05, 0xff, SYNC, PGE(CODE), TNT_T, 0x6d, 0x00),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1 taken\n"
                 "error -3 lost 2\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1 taken\n"
                 "error -2 lost 2\n",
    }, {
        .name = "no PSB at all",
        .code = BYTES(0x90),
        .trace = BYTES(PGE(CODE), TNT_T),
        .items = "error -5 lost 8\n",
    }, {
        .name = "what is in front of the first PSB does not count",
        .code = BYTES(0x90),
        .trace = BYTES(0x05, 0x05, START(CODE)),
        .items = "psb\n"
                 "enabled to 0\n",
    },
};
/* clang-format on */

static void branches(void)
{
    check_golden(branch_cases, COUNT(branch_cases));
}

static void deferred(void)
{
    check_golden(deferred_cases, COUNT(deferred_cases));
}

static void disabling(void)
{
    check_golden(disable_cases, COUNT(disable_cases));
}

static void wrong(void)
{
    check_golden(wrong_cases, COUNT(wrong_cases));
}

/* 33.4.2.2: the youngest 64 CALLs are kept. */
static void deep_recursion(void)
{
    /* clang-format off */
    static const uint8_t code[] = {
        0x74, 0x05,                         /* 0 jz 7 */
        0xe8, 0xf9, 0xff, 0xff, 0xff,       /* 2 call 0 */
        0xc3,                               /* 7 ret */
    };
    static const uint8_t start[] = {START(CODE)};
    /* clang-format on */
    uint8_t trace[sizeof(start) + 256];
    size_t len = sizeof(start);
    struct ptd_image *const image = ptd_image_new();
    struct ptd_item item = {0};
    unsigned rets = 0;

    memcpy(trace, start, sizeof(start));
    for (unsigned i = 0; i < 70; i++)
        trace[len++] = TNT_N; /* deeper */
    for (unsigned i = 0; i < 70; i++)
        trace[len++] = TNT_T; /* the first ends the recursion, the others are RETs */
    (void)ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code), PTD_ANY_CR3);

    struct ptd_flow *const flow = ptd_flow_new(trace, len, image, NULL);

    while (ptd_flow_next(flow, &item) == PTD_OK && item.type != PTD_ITEM_ERROR)
        if (item.type == PTD_ITEM_BLOCK && item.last_class == PTD_INSN_RET)
            rets++;
    CU_ASSERT_EQUAL(rets, 64);
    CU_ASSERT_EQUAL(item.type, PTD_ITEM_ERROR);
    CU_ASSERT_EQUAL(item.error, PTD_E_RETSTACK);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* An instruction may stand in two pieces of code that were added one by one. */
static void split_code(void)
{
    static const uint8_t trace[] = {START(CODE), TIP(CODE)};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_item item;
    unsigned insns = 0;

    (void)ptd_image_add_bytes(image, NULL, CODE, "\x90\xff", 2, PTD_ANY_CR3);
    (void)ptd_image_add_bytes(image, NULL, CODE + 2, "\xe0", 1, PTD_ANY_CR3);

    struct ptd_flow *const flow = ptd_flow_new(trace, sizeof(trace), image, NULL);

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        CU_ASSERT_NOT_EQUAL(item.type, PTD_ITEM_ERROR);
        if (item.type == PTD_ITEM_BLOCK)
            insns += item.insns;
    }
    CU_ASSERT_EQUAL(insns, 2);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* Code is replaced at a TSC packet, as a JIT compiler would; in bulk, too. */
static const uint8_t old_code[] = {0x90, 0x74, 0xfd, 0xc3};       /* nop; jz 0; ret */
static const uint8_t new_code[] = {0x90, 0x90, 0x90, 0x74, 0xfb}; /* 3 nop; jz 0 */
static const uint8_t jit_trace[] = {START(CODE), TNT_TT, TSC, TNT_TTT};

static struct ptd_image *jit_image(void)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_EQUAL_FATAL(
        ptd_image_add_bytes(image, "old", CODE, old_code, sizeof(old_code), PTD_ANY_CR3), PTD_OK);
    return image;
}

static void replace_code(struct ptd_image *image)
{
    CU_ASSERT_EQUAL(
        ptd_image_add_bytes(image, "new", CODE, new_code, sizeof(new_code), PTD_ANY_CR3), PTD_OK);
}

static void new_code_by_items(void)
{
    struct ptd_image *const image = jit_image();
    struct ptd_flow *const flow = ptd_flow_new(jit_trace, sizeof(jit_trace), image, NULL);
    unsigned insns = 0, blocks = 0;
    struct ptd_item item;

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        CU_ASSERT_NOT_EQUAL(item.type, PTD_ITEM_ERROR);
        if (item.type == PTD_ITEM_TSC)
            replace_code(image);
        if (item.type != PTD_ITEM_BLOCK)
            continue;
        CU_ASSERT_EQUAL(item.insns, blocks < 2 ? 2 : 4);
        blocks++;
        insns += item.insns;
    }
    CU_ASSERT_EQUAL(blocks, 5);
    CU_ASSERT_EQUAL(insns, 2 * 2 + 3 * 4);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* The same at each offset: what the packets in front tell comes first, and nothing else. */
static void new_code_by_offset(void)
{
    const size_t last_tnt = sizeof(jit_trace) - 1, first_tnt = last_tnt - 8 - 1;

    for (size_t offset = 0; offset <= sizeof(jit_trace); offset++) {
        struct ptd_image *const image = jit_image();
        struct ptd_flow *const flow = ptd_flow_new(jit_trace, sizeof(jit_trace), image, NULL);
        unsigned old_blocks = 0, new_blocks = 0, pauses = 0;
        uint64_t until = offset;
        struct ptd_item item;
        int status;

        while ((status = ptd_flow_next_before(flow, until, &item)) != PTD_END) {
            if (status == 1) {
                CU_ASSERT_EQUAL(pauses++, 0);
                replace_code(image);
                until = UINT64_MAX;
                continue;
            }
            CU_ASSERT_NOT_EQUAL(item.type, PTD_ITEM_ERROR);
            old_blocks += item.type == PTD_ITEM_BLOCK && item.insns == 2;
            new_blocks += item.type == PTD_ITEM_BLOCK && item.insns == 4;
        }
        CU_ASSERT_EQUAL(old_blocks, offset <= first_tnt ? 0 : offset <= last_tnt ? 2 : 5);
        CU_ASSERT_EQUAL(old_blocks + new_blocks, 5);
        ptd_flow_free(flow);
        ptd_image_free(image);
    }
}

static void new_code_in_bulk(void)
{
    struct ptd_image *const image = jit_image();
    struct ptd_flow *const flow = ptd_flow_new(jit_trace, sizeof(jit_trace), image, NULL);
    uint32_t steps[PTD_RUN_ROOM];
    struct ptd_run run = {.steps = steps, .room = PTD_RUN_ROOM};
    unsigned insns = 0;

    while (ptd_flow_run(flow, &run) == PTD_OK) {
        for (size_t i = 0; i < run.count; i++) {
            struct ptd_item block;

            for (size_t n = 0; ptd_step_block(flow, steps[i], n, &block) == PTD_OK; n++)
                insns += block.insns;
        }
        if (run.has_item && run.item.type == PTD_ITEM_BLOCK)
            insns += run.item.insns;
        if (run.has_item && run.item.type == PTD_ITEM_TSC)
            replace_code(image);
    }
    CU_ASSERT_EQUAL(insns, 2 * 2 + 3 * 4);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* ---- What items say besides ---- */

/* clang-format off */
static const uint8_t target_code[] = {
    /*  0 */ 0x74, 0x02,                   /* jz 4 */
    /*  2 */ 0xeb, 0x02,                   /* jmp 6 */
    /*  4 */ 0xff, 0xe0,                   /* jmp rax */
    /*  6 */ 0xe8, 0x01, 0x00, 0x00, 0x00, /* call c */
    /*  b */ 0x90,                         /* nop */
    /*  c */ 0xc3,                         /* ret */
};
static const uint8_t target_trace[] = {
    PSB, MODE64, PIP(CR3_A), FUP(CODE), PSBEND, TNT_TN, TIP(CODE), FUP(CODE + 2), TIP(CODE + 0xc),
    MODE64, TIP(CODE + 6), TNT_T, OVF, FUP(CODE + 4), PGD_NO_IP, PSB, MODE64, PSBEND};
/* clang-format on */

/* Each block's last branch; the last one left tracing without an address. */
static void targets(void)
{
    static const struct {
        uint64_t last_ip, to;
        bool has_to;
    } want[] = {
        {0, 4, true},   {4, 0, true},     {0, 2, true},  {0xc, 6, true},
        {6, 0xc, true}, {0xc, 0xb, true}, {4, 0, false},
    };
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow *const flow = ptd_flow_new(target_trace, sizeof(target_trace), image, NULL);
    struct ptd_item item;
    size_t blocks = 0;

    (void)ptd_image_add_bytes(image, NULL, CODE, target_code, sizeof(target_code), PTD_ANY_CR3);
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        CU_ASSERT_NOT_EQUAL(item.type, PTD_ITEM_ERROR);
        if (item.type != PTD_ITEM_BLOCK || blocks == COUNT(want))
            continue;
        CU_ASSERT_EQUAL(item.last_ip, CODE + want[blocks].last_ip);
        CU_ASSERT_EQUAL(item.has_to, want[blocks].has_to);
        CU_ASSERT_EQUAL(item.to, want[blocks].has_to ? CODE + want[blocks].to : 0);
        blocks++;
    }
    CU_ASSERT_EQUAL(blocks, COUNT(want));
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* Status from a PSB+ is marked, what happens in the stream is not. */
static void marks_of_psb(void)
{
    /* clang-format off */
    static const uint8_t trace[] = {PSB, TSC, PIP(CR3_A), MODE32, VMCS(0x7000), CBR, PSBEND, TSC,
                                    PIP(CR3_B), MODE64, CBR, PSB, MTC, OVF, PIP(CR3_A), 0x02, 0xff};
    /* clang-format on */
    static const struct {
        uint8_t type;
        bool in_psb;
    } want[] = {
        {PTD_ITEM_PSB, true},       {PTD_ITEM_TSC, true},  {PTD_ITEM_CR3, true},
        {PTD_ITEM_MODE, true},      {PTD_ITEM_VMCS, true}, {PTD_ITEM_CBR, true},
        {PTD_ITEM_TSC, false},      {PTD_ITEM_CR3, false}, {PTD_ITEM_MODE, false},
        {PTD_ITEM_CBR, false},      {PTD_ITEM_PSB, true},  {PTD_ITEM_PACKET, true},
        {PTD_ITEM_OVERFLOW, false}, {PTD_ITEM_CR3, false}, {PTD_ITEM_ERROR, false},
    };
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow *const flow = ptd_flow_new(trace, sizeof(trace), image, NULL);
    struct ptd_item item;
    size_t items = 0;

    while (ptd_flow_next(flow, &item) == PTD_OK && items < COUNT(want)) {
        CU_ASSERT_EQUAL(item.type, want[items].type);
        CU_ASSERT_EQUAL(item.in_psb, want[items].in_psb);
        items++;
    }
    CU_ASSERT_EQUAL(items, COUNT(want));
    ptd_flow_free(flow);
    ptd_image_free(image);
}

static void nothing(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow *const flow = ptd_flow_new("", 0, image, NULL);
    struct ptd_item item;

    CU_ASSERT_EQUAL(ptd_flow_next(flow, &item), PTD_END);
    CU_ASSERT_EQUAL(ptd_flow_next(flow, &item), PTD_END);
    ptd_flow_free(flow);
    ptd_flow_free(NULL);
    ptd_image_free(image);
}

void add_flow_suite(void)
{
    CU_pSuite const suite = CU_add_suite("flow", NULL, NULL);

    CU_add_test(suite, "branches and RET compression", branches);
    CU_add_test(suite, "deferred TIPs", deferred);
    CU_add_test(suite, "enabling and disabling", disabling);
    CU_add_test(suite, "contradictions", wrong);
    CU_add_test(suite, "CALL stack of 64", deep_recursion);
    CU_add_test(suite, "an instruction in two segments", split_code);
    CU_add_test(suite, "code that changes", new_code_by_items);
    CU_add_test(suite, "code that changes at an offset", new_code_by_offset);
    CU_add_test(suite, "code that changes, in bulk", new_code_in_bulk);
    CU_add_test(suite, "where blocks go", targets);
    CU_add_test(suite, "what comes from a PSB+", marks_of_psb);
    CU_add_test(suite, "an empty trace", nothing);
}
