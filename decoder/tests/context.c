/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow: events, address spaces and modes, transactions, PSB+, overflow, and packets that are no
 * part of the flow but come with a FUP (SDM 33.3.7, 33.3.8, 33.4.1, 33.4.2.6-33.4.2.30, 33.7).
 */
#include <CUnit/CUnit.h>

#include "golden.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* clang-format off */
static const struct golden event_cases[] = {
    {
        .name = "interrupt between, in front of and behind branches",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x90,                         /* nop */
            /*  2 */ 0x75, 0xfc,                   /* jnz 0 */
            /*  4 */ 0x90,                         /* nop */
            /*  5 */ 0x48, 0xcf),                  /* iretq */
        .trace = BYTES(START(CODE), FUP(CODE + 1), TIP(CODE + 5), TIP(CODE + 1),
                       FUP(CODE + 2), TIP(CODE + 5), TIP(CODE + 2),
                       TNT_T, FUP(CODE), TIP(CODE + 5), TIP(CODE),
                       TNT_N, FUP(CODE + 4), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "async from 1 to 5\n"
                 "block 5 5 1\n"
                 "block 1 1 1\n"
                 "async from 2 to 5\n"
                 "block 5 5 1\n"
                 "block 2 2 1 taken\n"
                 "async from 0 to 5\n"
                 "block 5 5 1\n"
                 "block 0 2 3\n"
                 "disabled from 4\n",
    }, {
        .name = "the FUP waits for the TNT bits: the loop ran three times",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x75, 0xfd,                   /* jnz 0 */
            /*  3 */ 0xf4),                        /* hlt */
        .trace = BYTES(START(CODE), TNT_TTT, FUP(CODE + 1), TIP(CODE + 3)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2 taken\n"
                 "block 0 1 2 taken\n"
                 "block 0 0 1\n"
                 "async from 1 to 3\n",
    }, {
        .name = "INT n has its own IP in the FUP",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xcd, 0x80,                   /* int 80 */
            /*  3 */ 0x90,                         /* nop */
            /*  4 */ 0x48, 0xcf),                  /* iretq */
        .trace = BYTES(START(CODE), FUP(CODE + 1), TIP(CODE + 4), TIP(CODE + 3)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "async from 1 to 4\n"
                 "block 4 4 1\n",
    }, {
        .name = "an event that changes CR3 and mode, with timing between",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x48, 0xcf),                  /* iretq; dec eax, iret */
        .trace = BYTES(START(CODE), FUP(CODE + 1), CYC, PIP(CR3_B), MODE32, MTC, TIP(CODE),
                       MODE64, PIP(CR3_A), TIP(CODE + 1)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet CYC\n"
                 "packet MTC\n"
                 "block 0 0 1\n"
                 "async from 1 to 0\n"
                 "cr3 6000\n"
                 "mode 32\n"
                 "block 0 2 3\n"
                 "cr3 5000\n"
                 "mode 64\n",
    }, {
        .name = "FUP in the middle of an instruction of the way; later it is one",
        .code = BYTES(
            /*  0 */ 0xb8, 0x90, 0x90, 0x90, 0x90, /* mov eax, imm */
            /*  5 */ 0xeb, 0xfa),                  /* jmp 1 */
        .trace = BYTES(START(CODE), FUP(CODE + 2), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 5 2\n"
                 "block 1 1 1\n"
                 "async from 2 to 0\n",
    }, {
        .name = "INIT without SIPI; two FUPs; FUP at the end",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x90),                        /* nop */
        .trace = BYTES(START(CODE), FUP(CODE + 1), PGE(CODE), FUP(CODE), FUP(CODE), START(CODE),
                       FUP(CODE + 1)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled from 1\n"
                 "enabled to 0\n"
                 "error -8 lost 7\n"
                 "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled from 1\n",
    }, {
        .name = "transactions: begin, commit, abort",
        .code = BYTES(
            /*  0 */ 0xc7, 0xf8, 0x04, 0, 0, 0,    /* xbegin a */
            /*  6 */ 0x90,                         /* nop */
            /*  7 */ 0x0f, 0x01, 0xd5,             /* xend */
            /*  a */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), TSX_BEGIN, FUP(CODE), TSX_COMMIT, FUP(CODE + 7), TIP(CODE),
                       TSX_BEGIN, FUP(CODE), TSX_ABORT, FUP(CODE + 7), TIP(CODE + 0xa),
                       TSX_ABORT, FUP(CODE + 0xa), PGD_NO_IP, TSX_BEGIN),
        .items = "psb\n"
                 "enabled to 0\n"
                 "tsx 1\n"
                 "block 0 6 2\n"
                 "tsx 0\n"
                 "block 7 a 2\n"
                 "tsx 1\n"
                 "block 0 6 2\n"
                 "async from 7 to a\n"
                 "tsx 2\n"
                 "disabled from a\n"
                 "tsx 2\n"
                 "tsx 1\n",
    },
};

static const struct golden state_cases[] = {
    {
        .name = "MOV CR3 changes what code is there",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x22, 0xd8,             /* mov cr3, rax */
            /*  4 */ 0x90,                         /* nop */
            /*  5 */ 0xff, 0xe0),                  /* jmp rax */
        .code_b = BYTES(
            /*  0 */ 0x90, 0x90, 0x90, 0x90,       /* nop */
            /*  4 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), PIP(CR3_B), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "cr3 6000\n"
                 "block 4 4 1\n",
    }, {
        .name = "MOV CR3 without PIP (RTIT_CTL.OS was 0), PIP without PacketEn",
        .code = BYTES(
            /*  0 */ 0x0f, 0x22, 0xd8,             /* mov cr3, rax */
            /*  3 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), TIP(CODE + 3), PGD(CODE), PIP_NR(CR3_B)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 3 3 1\n"
                 "block 3 3 1\n"
                 "disabled to 0\n"
                 "cr3 6000 nr\n",
    }, {
        .name = "far branch with PIP and MODE.Exec",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xff, 0x28,                   /* jmp far */
            /*  3 */ 0x40,                         /* inc eax, in 32-bit mode */
            /*  4 */ 0xff, 0xe0),                  /* jmp eax */
        .trace = BYTES(START(CODE), PIP(CR3_B), MODE32, TIP(CODE + 3), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "cr3 6000\n"
                 "mode 32\n"
                 "block 3 4 2\n",
    }, {
        .name = "PIP that no instruction on the way explains",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x74, 0x00),                  /* jz 3 */
        .trace = BYTES(START(CODE), PIP(CR3_B), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 9 from 1\n",
    }, {
        .name = "MODE.Exec by itself: STI and CLI with event tracing",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xfb,                         /* sti */
            /*  2 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), MODE64_IF, FUP(CODE + 1), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "mode 64\n"
                 "block 1 2 2\n",
    }, {
        .name = "16-bit code",
        .code = BYTES(
            /*  0 */ 0xb8, 0x34, 0x12,             /* mov ax, 1234 */
            /*  3 */ 0x75, 0xfb),                  /* jnz 0 */
        .trace = BYTES(SYNC, MODE16, PGE(CODE), TNT_T),
        .items = "psb\n"
                 "mode 16\n"
                 "enabled to 0\n"
                 "block 0 3 2 taken\n",
    }, {
        .name = "VMPTRLD, VM entry, VM exit",
        .code = BYTES(
            /*  0 */ 0x0f, 0xc7, 0x30,             /* vmptrld [rax] */
            /*  3 */ 0x90,                         /* nop */
            /*  4 */ 0x0f, 0x01, 0xc2,             /* vmlaunch */
            /*  7 */ 0xf4,                         /* hlt */
            /*  8 */ 0x0f, 0x01, 0xc3),            /* vmresume */
        .trace = BYTES(START(CODE), VMCS(0x7000), PIP_NR(CR3_B), TIP(CODE + 3), FUP(CODE + 4),
                       PIP(CR3_A), TIP(CODE + 7), FUP(CODE + 7), PGD_NO_IP, VMCS(0x8000)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "vmcs 7000\n"
                 "block 3 4 2\n"
                 "cr3 6000 nr\n"
                 "block 3 3 1\n"
                 "async from 4 to 7\n"
                 "cr3 5000\n"
                 "disabled from 7\n"
                 "vmcs 8000\n",
    }, {
        .name = "VM entry that returns from SMM: VMCS, PIP, TIP",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x01, 0xc3,             /* vmresume */
            /*  4 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), VMCS(0x7000), PIP_NR(CR3_B), TIP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "vmcs 7000\n"
                 "cr3 6000 nr\n"
                 "block 4 4 1\n",
    }, {
        .name = "TraceStop behind a PGD, and with the PGD lost",
        .code = BYTES(
            /*  0 */ 0xeb, 0x10),                  /* jmp 12 */
        .trace = BYTES(START(CODE), PGD(CODE + 0x12), TRACESTOP, PGE(CODE), TRACESTOP, SYNC),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled to 12\n"
                 "stop\n"
                 "enabled to 0\n"
                 "stop\n"
                 "psb\n",
    },
};

static const struct golden psb_cases[] = {
    {
        .name = "PSB+ tells the state once",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x40,                         /* inc eax, in 32-bit mode */
            /*  2 */ 0x75, 0xfc),                  /* jnz 0 */
        .trace = BYTES(PSB, TSC, CYC, PIP_NR(CR3_B), VMCS(0x7000), CBR, TSX_COMMIT, MODE32, FUP(CODE),
                       PSBEND, TNT_T,
                       PSB, MTC, PIP_NR(CR3_B), VMCS(0x7000), TSX_COMMIT, MODE32, FUP(CODE + 1), PAD,
                       PSBEND, TNT_T,
                       PSB, PIP(CR3_B), VMCS(0x8000), TSX_BEGIN, MODE32, FUP(CODE), PSBEND, TNT_N),
        .items = "psb to 0\n"
                 "tsc 1\n"
                 "packet CYC\n"
                 "cr3 6000 nr\n"
                 "vmcs 7000\n"
                 "cbr 1f\n"
                 "tsx 0\n"
                 "mode 32\n"
                 "block 0 2 3 taken\n"
                 "block 0 0 1\n"
                 "psb to 1\n"
                 "packet MTC\n"
                 "block 1 2 2 taken\n"
                 "psb to 0\n"
                 "cr3 6000\n"
                 "vmcs 8000\n"
                 "tsx 1\n"
                 "block 0 2 3\n",
    }, {
        .name = "a CALL in front of the PSB, its uncompressed RET behind",
        .code = BYTES(
            /*  0 */ 0xe8, 0x02, 0x00, 0x00, 0x00, /* call 7 */
            /*  5 */ 0xff, 0xe0,                   /* jmp rax */
            /*  7 */ 0x90,                         /* nop */
            /*  8 */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), PSB, FUP(CODE + 8), PSBEND, TIP(CODE + 5), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 7 7 1\n"
                 "psb to 8\n"
                 "block 8 8 1\n"
                 "block 5 5 1\n",
    }, {
        .name = "PSB+ in a jump to itself, again and again",
        .code = BYTES(
            /*  0 */ 0xeb, 0xfe),                  /* jmp 0 */
        .trace = BYTES(START(CODE), PSB, FUP(CODE), PSBEND, MTC, PSB, FUP(CODE), PSBEND, FUP(CODE),
                       PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "psb to 0\n"
                 "packet MTC\n"
                 "psb to 0\n"
                 "disabled from 0\n",
    }, {
        .name = "a way that does not lead to the PSB+ loses nothing behind it",
        .code = BYTES(
            /*  0 */ 0xff, 0xe0,                   /* jmp rax */
            /*  2 */ 0x74, 0xfc),                  /* jz 0 */
        .trace = BYTES(START(CODE), PSB, FUP(CODE + 2), PSBEND, TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 0 from 0\n"
                 "psb to 2\n"
                 "block 2 2 1 taken\n",
    }, {
        .name = "IPs are compressed against zero behind a PSB",
        .code = BYTES(
            /*  0 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), PSB, 0x3d, 0x00, 0x10, PSBEND, 0x2d, 0x00, 0x10, PAD, 0x4d, 0, 0x10, 0, 0),
        .items = "psb\n"
                 "enabled to 0\n"
                 "psb to 0\n"
                 "block 0 0 1\n"
                 "block 0 0 1\n",
    }, {
        .name = "what cannot be in PSB+, a compound event that a PSB cuts, PSB+ that is cut off",
        .code = BYTES(0x90, 0xff, 0xe0),
        .trace = BYTES(PSB, TNT_T, PSB, FUP(CODE), PSB, FUP(CODE), PSBEND, FUP(CODE), PSB, TSC),
        .items = "psb\n"
                 "error -8 lost 1\n"
                 "psb to 0\n"
                 "error -8 lost 0\n"
                 "psb to 0\n"
                 "error -8 lost 0\n"
                 "psb\n"
                 "tsc 1\n",
    },
};

static const struct golden overflow_cases[] = {
    {
        .name = "OVF, then FUP (both wordings of 33.3.8)",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x90,                         /* nop */
            /*  2 */ 0x74, 0xfc),                  /* jz 0 */
        .trace = BYTES(START(CODE), TNT_T, OVF, FUP(CODE + 1), TNT_T, OVF, CYC, TSC, FUP(CODE), TNT_T,
                       OVF, PIP(CR3_B), FUP(CODE + 1), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 2 3 taken\n"
                 "overflow to 1\n"
                 "block 1 2 2 taken\n"
                 "overflow to 0\n"
                 "packet CYC\n"
                 "tsc 1\n"
                 "block 0 2 3 taken\n"
                 "overflow to 1\n"
                 "cr3 6000\n"
                 "block 1 2 2 taken\n",
    }, {
        .name = "OVF, then TIP.PGE",
        .code = BYTES(0x90, 0x74, 0xfd),
        .trace = BYTES(START(CODE), OVF, MTC, PIP(CR3_B), MODE64, PGE(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow\n"
                 "packet MTC\n"
                 "cr3 6000\n"
                 "mode 64\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "OVF, PSB+, FUP; OVF, PSB+ with the FUP only, then an interrupt",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x74, 0xfd),                  /* jz 0 */
        .trace = BYTES(START(CODE), OVF, PSB, CBR, FUP(CODE), PSBEND, FUP(CODE), TNT_T,
                       OVF, PSB, FUP(CODE), PSBEND, FUP(CODE + 1), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow to 0\n"
                 "psb to 0\n"
                 "cbr 1f\n"
                 "block 0 1 2 taken\n"
                 "overflow to 0\n"
                 "psb to 0\n"
                 "block 0 0 1\n"
                 "async from 1 to 0\n",
    }, {
        .name = "OVF in PSB+ takes the place of PSBEND",
        .code = BYTES(0x90, 0x74, 0xfd),
        .trace = BYTES(START(CODE), PSB, TSC, OVF, FUP(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "psb\n"
                 "tsc 1\n"
                 "overflow to 0\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "OVF cuts an event, and empties the CALL stack",
        .code = BYTES(
            /*  0 */ 0xe8, 0x00, 0x00, 0x00, 0x00, /* call 5 */
            /*  5 */ 0xe8, 0x01, 0x00, 0x00, 0x00, /* call b */
            /*  a */ 0x90,                         /* nop */
            /*  b */ 0xc3),                        /* ret */
        .trace = BYTES(START(CODE), FUP(CODE + 0xb), PIP(CR3_B), OVF, FUP(CODE + 0xb), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 5 5 1\n"
                 "disabled from b\n"
                 "cr3 6000\n"
                 "overflow to b\n"
                 "error -9 lost 0 from b\n",
    },
};

#define PTW(value)     2, 0x12, (value), 0, 0, 0
#define PTW_IP(value)  2, 0x92, (value), 0, 0, 0
#define PWRE           2, 0x22, 0x00, 0x30
#define PWRX           2, 0xa2, 0x33, 0x01, 0, 0, 0
#define MWAIT          2, 0xc2, 0x20, 0, 0, 0, 0, 0, 0, 0
#define EXSTOP         2, 0x62
#define EXSTOP_IP      2, 0xe2
#define BBP            2, 0x63, 0x01
#define BIP            0x0c, 1, 2, 3, 4, 5, 6, 7, 8
#define BEP            2, 0x33
#define BEP_IP         2, 0xb3
#define CFE_INTR       2, 0x13, 0x01, 0x0e
#define CFE_IRET_IP    2, 0x13, 0x82, 0
#define EVD_PFA        2, 0x53, 0, 0, 0, 0, 0, 0, 0, 0, 0

static const struct golden packet_cases[] = {
    {
        .name = "PTWRITE, with and without IP, disabled, and without PacketEn",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xf3, 0x0f, 0xae, 0xe0,       /* ptwrite eax */
            /*  5 */ 0x90,                         /* nop */
            /*  6 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), PTW(7), TIP(CODE), PTW_IP(8), FUP(CODE + 1), TIP(CODE),
                       TIP(CODE), PGD(CODE), PTW(9), PTW_IP(9), FUP(CODE + 1)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "ptwrite 7 from 1\n"
                 "block 5 6 2\n"
                 "block 0 1 2\n"
                 "ptwrite 8 from 1\n"
                 "block 5 6 2\n"
                 "block 0 1 2\n"
                 "block 5 6 2\n"
                 "block 0 1 2\n"
                 "block 5 6 2\n"
                 "disabled to 0\n"
                 "ptwrite 9\n"
                 "ptwrite 9 from 1\n",
    }, {
        .name = "PTW with the IP of another instruction",
        .code = BYTES(
            /*  0 */ 0xf3, 0x0f, 0xae, 0xe0,       /* ptwrite eax */
            /*  4 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), PTW_IP(8), FUP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 20 from 0\n",
    }, {
        .name = "power: MWAIT, PWRE, EXSTOP at its FUP, PWRX",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x01, 0xc9,             /* mwait */
            /*  4 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), MWAIT, PWRE, EXSTOP_IP, FUP(CODE + 1), TSC, CBR, PWRX, TIP(CODE),
                       EXSTOP, PGD_NO_IP, EXSTOP_IP, FUP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet MWAIT\n"
                 "packet PWRE\n"
                 "block 0 0 1\n"
                 "packet EXSTOP from 1\n"
                 "tsc 1\n"
                 "cbr 1f\n"
                 "packet PWRX\n"
                 "block 1 4 2\n"
                 "packet EXSTOP\n"
                 "block 0 4 3\n"
                 "disabled\n"
                 "packet EXSTOP from 0\n",
    }, {
        .name = "a block of register values",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x90,                         /* nop */
            /*  2 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), BBP, BIP, MTC, BIP, BEP_IP, FUP(CODE + 1), TIP(CODE), BBP, BEP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet BBP\n"
                 "packet BIP\n"
                 "packet MTC\n"
                 "packet BIP\n"
                 "block 0 0 1\n"
                 "packet BEP from 1\n"
                 "block 1 2 2\n"
                 "packet BBP\n"
                 "packet BEP\n",
    }, {
        .name = "events: a page fault shares its FUP, IRET has one of its own",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x90,                         /* nop */
            /*  2 */ 0x48, 0xcf),                  /* iretq */
        .trace = BYTES(START(CODE), EVD_PFA, CFE_INTR, FUP(CODE + 1), TIP(CODE + 2),
                       CFE_IRET_IP, FUP(CODE + 2), TIP(CODE + 1)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet EVD\n"
                 "packet CFE\n"
                 "block 0 0 1\n"
                 "async from 1 to 2\n"
                 "packet CFE from 2\n"
                 "block 2 2 1\n",
    }, {
        .name = "event trace without branches; a FUP that was announced and did not come",
        .code = BYTES(0x90),
        .trace = BYTES(SYNC, CFE_IRET_IP, MTC, FUP(CODE), CFE_IRET_IP, CFE_INTR, SYNC, CFE_IRET_IP),
        .items = "psb\n"
                 "packet MTC\n"
                 "packet CFE from 0\n"
                 "packet CFE\n"
                 "error -8 lost 4\n"
                 "psb\n"
                 "packet CFE\n",
    },
};
/* clang-format on */

static void events(void)
{
    check_golden(event_cases, COUNT(event_cases));
}

static void state(void)
{
    check_golden(state_cases, COUNT(state_cases));
}

static void psb(void)
{
    check_golden(psb_cases, COUNT(psb_cases));
}

static void overflow(void)
{
    check_golden(overflow_cases, COUNT(overflow_cases));
}

static void packets(void)
{
    check_golden(packet_cases, COUNT(packet_cases));
}

void add_context_suite(void)
{
    CU_pSuite const suite = CU_add_suite("context", NULL, NULL);

    CU_add_test(suite, "events", events);
    CU_add_test(suite, "CR3, mode, VMX, TraceStop", state);
    CU_add_test(suite, "PSB+", psb);
    CU_add_test(suite, "overflow", overflow);
    CU_add_test(suite, "packets beside the flow", packets);
}
