/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which packets a FUP may belong to, and which packets may stand together, while PacketEn is 1,
 * while it is 0, and behind an overflow (SDM 33.3.8, 33.4.1, 33.4.2.6-33.4.2.30, Tables 33-14,
 * 33-53, 33-55 to 33-59). libipt is asked too, where it knows all packets.
 */
#include <CUnit/CUnit.h>
#include <intel-pt.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "ptdec.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TRACE_BYTES 256
#define TEXT_BYTES  512
#define MOST_INSNS  64

/* clang-format off */
#define CFE(type)     2, 0x13, (type), 0
#define CFE_IP(type)  2, 0x13, 0x80 | (type), 0
#define INTR          1
#define IRET          2
#define RSM           4
#define VMENTRY       7
#define VMEXIT        8
#define EVD(type)     2, 0x53, (type), 1, 0, 0, 0, 0, 0, 0, 0
#define PTW           2, 0x12, 1, 2, 3, 4
#define PTW_IP        2, 0x92, 1, 2, 3, 4
#define EXSTOP        2, 0x62
#define EXSTOP_IP     2, 0xe2
#define MWAIT         2, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0
#define PWRE          2, 0x22, 0, 0x10
#define PWRX          2, 0xa2, 0, 0, 0, 0, 0
#define BBP4          2, 0x63, 0x81
#define BIP           0x04, 1, 2, 3, 4
#define BEP           2, 0x33
#define BEP_IP        2, 0xb3
#define TRIG_IP       0xd9, 0x80, 0x02
#define FUP_NO_IP     0x1d

static const uint8_t code[] = {
    /* 0 */ 0x90,                         /* nop */
    /* 1 */ 0xfb,                         /* sti */
    /* 2 */ 0xf3, 0x0f, 0xae, 0xe0,       /* ptwrite eax */
    /* 6 */ 0x90,                         /* nop */
    /* 7 */ 0x48, 0xcf,                   /* iretq */
    /* 9 */ 0xf4,                         /* hlt */
};

/* What is told in each state; NULL: the processor does not come to send this there. */
struct pairing {
    const char *name;
    struct bytes packets;
    const char *off, *on, *overflowed;
};

static const struct pairing legal[] = {
    {
        "MODE.Exec, FUP: RFLAGS.IF changes", BYTES(MODE64_IF, FUP(CODE + 1)),
        "mode 64\npacket FUP from 1\n",
        "block 0 0 1\nmode 64\n",
        "overflow\nmode 64\npacket FUP from 1\n",
    }, {
        "the same with timing between", BYTES(MODE64_IF, MTC, CYC, PAD, FUP(CODE + 1)),
        "mode 64\npacket MTC\npacket CYC\npacket FUP from 1\n",
        "packet MTC\npacket CYC\nblock 0 0 1\nmode 64\n",
        "overflow\nmode 64\npacket MTC\npacket CYC\npacket FUP from 1\n",
    }, {
        "the same twice", BYTES(MODE64_IF, FUP(CODE + 1), MODE64, FUP(CODE + 6)),
        "mode 64\npacket FUP from 1\nmode 64\npacket FUP from 6\n",
        "block 0 0 1\nmode 64\nblock 1 2 2\nmode 64\n",
        "overflow\nmode 64\npacket FUP from 1\nmode 64\npacket FUP from 6\n",
    }, {
        "interrupt and IRET without BranchEn: a MODE.Exec stands alone",
        BYTES(CFE_IP(INTR), FUP(CODE + 1), MODE64, CFE_IP(IRET), FUP(CODE + 7), MODE64_IF),
        "packet CFE from 1\nmode 64\npacket CFE from 7\nmode 64\n",
        NULL,
        "overflow\npacket CFE from 1\nmode 64\npacket CFE from 7\nmode 64\n",
    }, {
        "MODE.Exec that stands alone, and an EXSTOP with the FUP", BYTES(MODE64, EXSTOP_IP, FUP(CODE + 1)),
        "mode 64\npacket EXSTOP from 1\n",
        NULL,
        "overflow\nmode 64\npacket EXSTOP from 1\n",
    }, {
        "MODE.Exec, TIP.PGE", BYTES(MODE64, TSC, PGE(CODE)),
        "mode 64\ntsc 1\nenabled to 0\n",
        NULL,
        "overflow\nmode 64\ntsc 1\nenabled to 0\n",
    }, {
        "MODE.Exec, PSB+", BYTES(MODE64, SYNC),
        "mode 64\npsb\n",
        NULL,
        "overflow\nmode 64\npsb\n",
    }, {
        "MODE.Exec at the end", BYTES(MODE64),
        "mode 64\n",
        NULL,
        "overflow\nmode 64\n",
    }, {
        "CFE with IP", BYTES(CFE_IP(INTR), FUP(CODE + 1)),
        "packet CFE from 1\n",
        "block 0 0 1\npacket CFE from 1\n",
        "overflow\npacket CFE from 1\n",
    }, {
        "page fault: EVD, CFE with IP", BYTES(EVD(0), CFE_IP(INTR), FUP(CODE + 1)),
        "packet EVD\npacket CFE from 1\n",
        "packet EVD\nblock 0 0 1\npacket CFE from 1\n",
        "overflow\npacket EVD\npacket CFE from 1\n",
    }, {
        "VM exit without BranchEn", BYTES(EVD(2), EVD(1), CFE_IP(VMEXIT), FUP(CODE + 1), PIP(CR3_B)),
        "packet EVD\npacket EVD\npacket CFE from 1\ncr3 6000\n",
        NULL,
        "overflow\npacket EVD\npacket EVD\npacket CFE from 1\ncr3 6000\n",
    }, {
        "VM exit", BYTES(EVD(2), EVD(1), CFE(VMEXIT), FUP(CODE + 1), PIP(CR3_B), TIP(CODE + 6)),
        NULL,
        "packet EVD\npacket EVD\npacket CFE\nblock 0 0 1\nasync from 1 to 6\ncr3 6000\n",
        NULL,
    }, {
        "VM entry without BranchEn", BYTES(CFE_IP(VMENTRY), FUP(CODE + 1), PIP_NR(CR3_B)),
        "packet CFE from 1\ncr3 6000 nr\n",
        NULL,
        "overflow\npacket CFE from 1\ncr3 6000 nr\n",
    }, {
        "CFE without IP", BYTES(CFE(RSM)),
        "packet CFE\n",
        "packet CFE\n",
        "overflow\npacket CFE\n",
    }, {
        "PTW with IP", BYTES(PTW_IP, FUP(CODE + 2)),
        "ptwrite 4030201 from 2\n",
        "block 0 2 3\nptwrite 4030201 from 2\n",
        "overflow\nptwrite 4030201 from 2\n",
    }, {
        "PTW without IP", BYTES(PTW),
        "ptwrite 4030201\n",
        "block 0 2 3\nptwrite 4030201 from 2\n",
        "overflow\nptwrite 4030201\n",
    }, {
        "MWAIT, PWRE, EXSTOP with IP", BYTES(MWAIT, PWRE, EXSTOP_IP, FUP(CODE + 1)),
        "packet MWAIT\npacket PWRE\npacket EXSTOP from 1\n",
        "packet MWAIT\npacket PWRE\nblock 0 0 1\npacket EXSTOP from 1\n",
        "overflow\npacket MWAIT\npacket PWRE\npacket EXSTOP from 1\n",
    }, {
        "PWRE, EXSTOP without IP, and the wake-up", BYTES(PWRE, EXSTOP, TSC, CBR, PWRX),
        "packet PWRE\npacket EXSTOP\ntsc 1\ncbr 1f\npacket PWRX\n",
        "packet PWRE\npacket EXSTOP\ntsc 1\ncbr 1f\npacket PWRX\n",
        "overflow\npacket PWRE\npacket EXSTOP\ntsc 1\ncbr 1f\npacket PWRX\n",
    }, {
        "a block with IP", BYTES(BBP4, BIP, BEP_IP, FUP(CODE + 1)),
        "packet BBP\npacket BIP\npacket BEP from 1\n",
        "packet BBP\npacket BIP\nblock 0 0 1\npacket BEP from 1\n",
        "overflow\npacket BBP\npacket BIP\npacket BEP from 1\n",
    }, {
        "two blocks without IP", BYTES(BBP4, BIP, BBP4, BIP, BEP),
        "packet BBP\npacket BIP\npacket BBP\npacket BIP\npacket BEP\n",
        "packet BBP\npacket BIP\npacket BBP\npacket BIP\npacket BEP\n",
        "overflow\npacket BBP\npacket BIP\npacket BBP\npacket BIP\npacket BEP\n",
    }, {
        "an EXSTOP and its FUP in a block", BYTES(BBP4, EXSTOP_IP, MTC, FUP(CODE + 1), BIP, BEP),
        "packet BBP\npacket MTC\npacket EXSTOP from 1\npacket BIP\npacket BEP\n",
        "packet BBP\npacket MTC\nblock 0 0 1\npacket EXSTOP from 1\npacket BIP\npacket BEP\n",
        "overflow\npacket BBP\npacket MTC\npacket EXSTOP from 1\npacket BIP\npacket BEP\n",
    }, {
        "a block that an overflow cuts off", BYTES(BBP4, BIP, OVF, PGE(CODE)),
        "packet BBP\npacket BIP\noverflow\nenabled to 0\n",
        "packet BBP\npacket BIP\noverflow\nenabled to 0\n",
        "overflow\npacket BBP\npacket BIP\noverflow\nenabled to 0\n",
    }, {
        "TRIG with IP", BYTES(TRIG_IP, FUP(CODE + 1)),
        "packet TRIG from 1\n",
        "block 0 0 1\npacket TRIG from 1\n",
        "overflow\npacket TRIG from 1\n",
    }, {
        "an announced FUP, then an overflow", BYTES(EXSTOP_IP, OVF),
        "packet EXSTOP\noverflow\n",
        "packet EXSTOP\noverflow\n",
        "overflow\npacket EXSTOP\noverflow\n",
    }, {
        "MODE.TSX outside of the filter", BYTES(TSX_BEGIN, PIP(CR3_B), TSX_COMMIT, EXSTOP_IP, FUP(CODE + 1)),
        "tsx 1\ncr3 6000\ntsx 0\npacket EXSTOP from 1\n",
        NULL,
        "overflow\ntsx 1\ncr3 6000\ntsx 0\npacket EXSTOP from 1\n",
    }, {
        "a transaction begins", BYTES(TSX_BEGIN, MTC, FUP(CODE + 1)),
        NULL,
        "packet MTC\nblock 0 0 1\ntsx 1\n",
        "overflow to 1\ntsx 1\npacket MTC\n",
    }, {
        "a transaction aborts", BYTES(TSX_ABORT, FUP(CODE + 1), TIP(CODE + 6)),
        NULL,
        "block 0 0 1\nasync from 1 to 6\ntsx 2\n",
        NULL,
    }, {
        "a transaction aborts, and tracing ends", BYTES(TSX_ABORT, FUP(CODE + 1), PGD_NO_IP),
        NULL,
        "block 0 0 1\ndisabled from 1\ntsx 2\n",
        NULL,
    }, {
        "FUP, TIP", BYTES(FUP(CODE + 1), TIP(CODE + 6)),
        NULL,
        "block 0 0 1\nasync from 1 to 6\n",
        "overflow to 1\nblock 1 2 2\nblock 6 7 2\n",
    }, {
        "FUP, PIP, MODE.Exec, TIP", BYTES(FUP(CODE + 1), PIP(CR3_B), MTC, MODE32, TIP(CODE + 6)),
        NULL,
        "packet MTC\nblock 0 0 1\nasync from 1 to 6\ncr3 6000\nmode 32\n",
        NULL,
    }, {
        "in another order, with a VMCS packet",
        BYTES(FUP(CODE + 1), MODE32, VMCS(0x7000), PIP(CR3_B), TIP(CODE + 6)),
        NULL,
        "block 0 0 1\nasync from 1 to 6\nvmcs 7000\ncr3 6000\nmode 32\n",
        NULL,
    }, {
        "interrupt with the FUP that two packets share", BYTES(CFE(INTR), FUP(CODE + 1), TIP(CODE + 6)),
        NULL,
        "packet CFE\nblock 0 0 1\nasync from 1 to 6\n",
        NULL,
    }, {
        "IRET that sets RFLAGS.IF", BYTES(CFE_IP(IRET), FUP(CODE + 7), MODE64_IF, TIP(CODE + 6)),
        NULL,
        "block 0 2 3\nblock 6 6 1\npacket CFE from 7\nblock 7 7 1\nmode 64\n",
        NULL,
    }, {
        "far transfer with PIP and MODE.Exec", BYTES(PIP(CR3_B), MODE32, TIP(CODE)),
        NULL,
        "block 0 2 3\nblock 6 7 2\ncr3 6000\nmode 32\n",
        NULL,
    }, {
        "INIT, then SIPI", BYTES(FUP(CODE + 1), PGE(CODE)),
        NULL,
        "block 0 0 1\ndisabled from 1\nenabled to 0\n",
        NULL,
    }, {
        "an event that an overflow cuts off", BYTES(FUP(CODE + 1), OVF, FUP(CODE + 6)),
        NULL,
        "block 0 0 1\ndisabled from 1\noverflow to 6\n",
        NULL,
    }, {
        "an event into a TraceStop range, whose TIP.PGD was lost", BYTES(FUP(CODE + 1), TRACESTOP),
        NULL,
        "block 0 0 1\ndisabled from 1\nstop\n",
        NULL,
    },
};

/* NULL: legal there. */
static const struct pairing illegal[] = {
    {
        "a FUP alone", BYTES(FUP(CODE + 1)),
        "error -8 lost 7\n", NULL, NULL,
    }, {
        "a FUP behind MODE.TSX and PIP", BYTES(TSX_BEGIN, PIP(CR3_B), FUP(CODE + 1)),
        "tsx 1\ncr3 6000\nerror -8 lost 7\n", "error -8 lost 15\n", NULL,
    }, {
        "a FUP behind MODE.Exec, but not at once", BYTES(MODE64, PIP(CR3_B), FUP(CODE + 1)),
        "mode 64\ncr3 6000\nerror -8 lost 7\n", "error -8 lost 7\n", NULL,
    }, {
        "a FUP behind MODE.Exec and PSB+", BYTES(MODE64, SYNC, FUP(CODE + 1)),
        "mode 64\npsb\nerror -8 lost 7\n", "error -8 lost 0\npsb\nerror -8 lost 7\n", NULL,
    }, {
        "two FUPs behind MODE.Exec", BYTES(MODE64, FUP(CODE + 1), FUP(CODE + 6)),
        "mode 64\npacket FUP from 1\nerror -8 lost 7\n", NULL, NULL,
    }, {
        "MODE.Exec, FUP without IP", BYTES(MODE64, FUP_NO_IP),
        "mode 64\nerror -8 lost 1\n", "error -8 lost 1\n",
        "overflow\nmode 64\nerror -8 lost 1\n",
    }, {
        "MODE.Exec, TNT", BYTES(MODE64, TNT_T),
        "mode 64\nerror -8 lost 1\n", "error -8 lost 1\n",
        "overflow\nmode 64\nerror -8 lost 1\n",
    }, {
        "MODE.Exec, and an EXSTOP with the FUP", BYTES(MODE64, EXSTOP_IP, FUP(CODE + 1)),
        NULL, "error -8 lost 9\n", NULL,
    }, {
        "MODE.Exec, TraceStop", BYTES(MODE64, TRACESTOP),
        NULL, "error -8 lost 2\n", NULL,
    }, {
        "an announced FUP, and a PIP in front", BYTES(CFE_IP(INTR), PIP(CR3_B), FUP(CODE + 1)),
        "packet CFE\nerror -8 lost 15\n", "packet CFE\nerror -8 lost 15\n",
        "overflow\npacket CFE\nerror -8 lost 15\n",
    }, {
        "an announced FUP, VMCS", BYTES(EXSTOP_IP, VMCS(0x7000)),
        "packet EXSTOP\nerror -8 lost 7\n", "packet EXSTOP\nerror -8 lost 7\n",
        "overflow\npacket EXSTOP\nerror -8 lost 7\n",
    }, {
        "an announced FUP, MODE.Exec", BYTES(PTW_IP, MODE64),
        "ptwrite 4030201\nerror -8 lost 2\n", "ptwrite 4030201\nerror -8 lost 2\n",
        "overflow\nptwrite 4030201\nerror -8 lost 2\n",
    }, {
        "an announced FUP, MODE.TSX", BYTES(BBP4, BEP_IP, TSX_BEGIN),
        "packet BBP\npacket BEP\nerror -8 lost 2\n", "packet BBP\npacket BEP\nerror -8 lost 2\n",
        "overflow\npacket BBP\npacket BEP\nerror -8 lost 2\n",
    }, {
        "an announced FUP, TNT", BYTES(CFE_IP(INTR), TNT_T),
        "packet CFE\nerror -8 lost 1\n", "packet CFE\nerror -8 lost 1\n",
        "overflow\npacket CFE\nerror -8 lost 1\n",
    }, {
        "an announced FUP, TIP", BYTES(TRIG_IP, TIP(CODE)),
        "packet TRIG\nerror -8 lost 7\n", "packet TRIG\nerror -8 lost 7\n",
        "overflow\npacket TRIG\nerror -8 lost 7\n",
    }, {
        "an announced FUP, TIP.PGE", BYTES(CFE_IP(INTR), PGE(CODE)),
        "packet CFE\nerror -8 lost 7\n", "packet CFE\nerror -8 lost 7\n",
        "overflow\npacket CFE\nerror -8 lost 7\n",
    }, {
        "an announced FUP, TIP.PGD", BYTES(CFE_IP(INTR), PGD_NO_IP),
        "packet CFE\nerror -8 lost 1\n", "packet CFE\nerror -8 lost 1\n",
        "overflow\npacket CFE\nerror -8 lost 1\n",
    }, {
        "an announced FUP, TraceStop", BYTES(EXSTOP_IP, TRACESTOP),
        "packet EXSTOP\nerror -8 lost 2\n", "packet EXSTOP\nerror -8 lost 2\n",
        "overflow\npacket EXSTOP\nerror -8 lost 2\n",
    }, {
        "an announced FUP, PSB+", BYTES(EXSTOP_IP, SYNC),
        "packet EXSTOP\nerror -8 lost 0\npsb\n", "packet EXSTOP\nerror -8 lost 0\npsb\n",
        "overflow\npacket EXSTOP\nerror -8 lost 0\npsb\n",
    }, {
        "two announced FUPs", BYTES(EXSTOP_IP, CFE_IP(INTR), FUP(CODE + 1)),
        "packet EXSTOP\nerror -8 lost 11\n", "packet EXSTOP\nerror -8 lost 11\n",
        "overflow\npacket EXSTOP\nerror -8 lost 11\n",
    }, {
        "an announced FUP, PTW", BYTES(EXSTOP_IP, PTW),
        "packet EXSTOP\nerror -8 lost 6\n", "packet EXSTOP\nerror -8 lost 6\n",
        "overflow\npacket EXSTOP\nerror -8 lost 6\n",
    }, {
        "an announced FUP without IP", BYTES(EXSTOP_IP, FUP_NO_IP),
        "packet EXSTOP\nerror -8 lost 1\n", "packet EXSTOP\nerror -8 lost 1\n",
        "overflow\npacket EXSTOP\nerror -8 lost 1\n",
    }, {
        "MODE.TSX, TIP", BYTES(TSX_BEGIN, TIP(CODE + 6)),
        "tsx 1\nerror -8 lost 7\n", "error -8 lost 7\n", "overflow\ntsx 1\nerror -8 lost 7\n",
    }, {
        "MODE.TSX, TIP.PGD", BYTES(TSX_ABORT, PGD_NO_IP),
        "tsx 2\nerror -8 lost 1\n", "error -8 lost 1\n", "overflow\ntsx 2\nerror -8 lost 1\n",
    }, {
        "MODE.TSX twice", BYTES(TSX_BEGIN, TSX_COMMIT),
        NULL, "error -8 lost 2\n", NULL,
    }, {
        "MODE.TSX, and an EXSTOP with the FUP", BYTES(TSX_BEGIN, EXSTOP_IP, FUP(CODE + 1)),
        NULL, "error -8 lost 9\n", NULL,
    }, {
        "a block, TIP", BYTES(BBP4, BIP, TIP(CODE)),
        "packet BBP\npacket BIP\nerror -8 lost 7\n", "packet BBP\npacket BIP\nerror -8 lost 7\n",
        "overflow\npacket BBP\npacket BIP\nerror -8 lost 7\n",
    }, {
        "a block, PIP", BYTES(BBP4, PIP(CR3_B)),
        "packet BBP\nerror -8 lost 8\n", "packet BBP\nerror -8 lost 8\n",
        "overflow\npacket BBP\nerror -8 lost 8\n",
    }, {
        "a block, PTW", BYTES(BBP4, PTW),
        "packet BBP\nerror -8 lost 6\n", "packet BBP\nerror -8 lost 6\n",
        "overflow\npacket BBP\nerror -8 lost 6\n",
    }, {
        "PIP of a far transfer, and a FUP in place of its TIP", BYTES(PIP(CR3_B), FUP(CODE + 6)),
        "cr3 6000\nerror -8 lost 7\n", "block 0 2 3\nerror -8 lost 7\n", NULL,
    }, {
        "PIP of a far transfer, and a TNT in place of its TIP", BYTES(PIP(CR3_B), TNT_T),
        "cr3 6000\nerror -8 lost 1\n", "block 0 2 3\nerror -8 lost 1\n",
        "overflow\ncr3 6000\nerror -8 lost 1\n",
    }, {
        "an event, TNT", BYTES(FUP(CODE + 1), TNT_T),
        "error -8 lost 8\n", "error -8 lost 1\n", NULL,
    }, {
        "an event, FUP", BYTES(FUP(CODE + 1), FUP(CODE + 6)),
        "error -8 lost 14\n", "error -8 lost 7\n", NULL,
    }, {
        "an event, and an EXSTOP with a FUP", BYTES(FUP(CODE + 1), EXSTOP_IP, FUP(CODE + 6)),
        "error -8 lost 16\n", "error -8 lost 9\n", NULL,
    }, {
        "an event, PTW", BYTES(FUP(CODE + 1), PTW),
        "error -8 lost 13\n", "error -8 lost 6\n", NULL,
    }, {
        "an event, PSB+", BYTES(FUP(CODE + 1), SYNC),
        "error -8 lost 7\npsb\n", "error -8 lost 0\npsb\n", NULL,
    },
};

static const uint8_t begin_off[] = {SYNC};
static const uint8_t begin_on[] = {START(CODE)};
static const uint8_t begin_on_ipt[] = {SYNC, MODE64, PGE(CODE)};
static const uint8_t begin_overflowed[] = {START(CODE), OVF};
/* clang-format on */

struct state {
    struct bytes begin;
    const char *items;
};

static const struct state off = {{begin_off, sizeof(begin_off)}, "psb\n"};
static const struct state on = {{begin_on, sizeof(begin_on)}, "psb\nenabled to 0\n"};
static const struct state overflowed = {{begin_overflowed, sizeof(begin_overflowed)},
                                        "psb\nenabled to 0\n"};

/* libipt has to be told the mode. */
static const struct state on_ipt = {{begin_on_ipt, sizeof(begin_on_ipt)}, ""};

/* The packets in a state. */
struct trace {
    uint8_t bytes[TRACE_BYTES];
    size_t len;
};

static void make_trace(const struct state *state, const struct bytes *packets, struct trace *trace)
{
    trace->len = state->begin.len + packets->len;
    memcpy(trace->bytes, state->begin.at, state->begin.len);
    memcpy(trace->bytes + state->begin.len, packets->at, packets->len);
}

static void check_in(const struct state *state, const struct pairing *pairing, const char *items)
{
    char text[TEXT_BYTES], name[TEXT_BYTES];
    struct trace trace;

    if (!items)
        return;
    make_trace(state, &pairing->packets, &trace);
    (void)snprintf(text, sizeof(text), "%s%s", state->items, items);
    (void)snprintf(name, sizeof(name), "%s, %s", pairing->name,
                   state == &off  ? "PacketEn is 0"
                   : state == &on ? "PacketEn is 1"
                                  : "behind an overflow");

    const struct golden golden = {
        .name = name,
        .code = {code, sizeof(code)},
        .trace = {trace.bytes, trace.len},
        .items = text,
    };

    check_golden(&golden, 1);
}

static void check_all(const struct pairing *pairings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_in(&off, &pairings[i], pairings[i].off);
        check_in(&on, &pairings[i], pairings[i].on);
        check_in(&overflowed, &pairings[i], pairings[i].overflowed);
    }
}

static void all_legal(void)
{
    check_all(legal, COUNT(legal));
}

static void all_illegal(void)
{
    check_all(illegal, COUNT(illegal));
}

/* ---- The witness ---- */

struct insns {
    uint64_t ip[MOST_INSNS];
    size_t count;
};

/*
 * Not what it cannot read, nor a MODE.Exec with a FUP, which is newer, nor an event without a TIP,
 * which it takes for an error.
 */
static bool ipt_knows(const struct bytes *packets)
{
    struct ptd_packets reader;
    struct ptd_packet packet;
    bool behind_mode = false;

    ptd_packets_init(&reader, packets->at, packets->len);
    while (ptd_packets_next(&reader, &packet) == PTD_OK) {
        switch ((enum ptd_packet_type)packet.type) {
        case PTD_CFE:
        case PTD_EVD:
        case PTD_BBP:
        case PTD_TRIG:
        case PTD_OVF:
        case PTD_TIP_PGE:
        case PTD_TRACESTOP:
            return false;
        case PTD_FUP:
            if (behind_mode)
                return false;
            break;
        case PTD_TIP:
            behind_mode = false;
            break;
        case PTD_MODE_EXEC:
            behind_mode = true;
            break;
        default:
            break;
        }
    }
    return true;
}

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
                     void *context)
{
    const uint64_t offset = ip - CODE;

    (void)asid;
    (void)context;
    if (offset >= sizeof(code))
        return -pte_nomap;
    if (size > sizeof(code) - offset)
        size = sizeof(code) - offset;
    memcpy(buffer, code + offset, size);
    return (int)size;
}

/* The instructions that libipt finds. Its status at the end. */
static int by_libipt(struct trace *trace, struct insns *insns)
{
    struct pt_insn_decoder *decoder;
    struct pt_config config;
    int status;

    pt_config_init(&config);
    config.begin = trace->bytes;
    config.end = trace->bytes + trace->len;
    decoder = pt_insn_alloc_decoder(&config);
    if (!decoder)
        return -pte_nomem;
    (void)pt_image_set_callback(pt_insn_get_image(decoder), read_code, NULL);
    status = pt_insn_sync_forward(decoder);
    while (status >= 0 && insns->count < MOST_INSNS) {
        struct pt_insn insn = {.iclass = ptic_error};
        struct pt_event event;

        if (status & pts_event_pending) {
            status = pt_insn_event(decoder, &event, sizeof(event));
            continue;
        }
        if (status & pts_eos)
            break;
        status = pt_insn_next(decoder, &insn, sizeof(insn));
        if (insn.iclass != ptic_error)
            insns->ip[insns->count++] = insn.ip;
    }
    pt_insn_free_decoder(decoder);
    return status;
}

static void by_ptdec(const struct trace *trace, const struct ptd_image *image, struct insns *insns)
{
    struct ptd_flow *const flow = ptd_flow_new(trace->bytes, trace->len, image, NULL);
    struct ptd_item item;

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        uint64_t ip = item.ip;
        struct ptd_insn insn;

        while (item.type == PTD_ITEM_BLOCK && insns->count < MOST_INSNS &&
               ptd_block_insn(image, &item, &ip, &insn) == PTD_OK)
            insns->ip[insns->count++] = insn.ip;
    }
    ptd_flow_free(flow);
}

/* libipt finds no fault with what is legal, and the same way; it may go on where no packet says. */
static void witness(void)
{
    struct ptd_image *const image = ptd_image_new();
    unsigned asked = 0;

    (void)ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code), PTD_ANY_CR3);
    for (size_t i = 0; i < COUNT(legal); i++) {
        struct insns want = {.count = 0}, got = {.count = 0};
        struct trace trace;
        int status;

        if (!legal[i].on || !ipt_knows(&legal[i].packets))
            continue;
        make_trace(&on_ipt, &legal[i].packets, &trace);
        by_ptdec(&trace, image, &want);
        status = by_libipt(&trace, &got);
        CU_ASSERT_TRUE(status >= 0 || status == -pte_eos);
        CU_ASSERT_TRUE(want.count <= got.count);
        CU_ASSERT_EQUAL(memcmp(want.ip, got.ip, want.count * sizeof(want.ip[0])), 0);
        if ((status < 0 && status != -pte_eos) || want.count > got.count)
            printf("\n--- %s: libipt: %s, %zu instructions in place of %zu", legal[i].name,
                   pt_errstr(pt_errcode(status)), got.count, want.count);
        asked++;
    }
    CU_ASSERT_TRUE(asked > 10);
    ptd_image_free(image);
}

void add_pairing_suite(void)
{
    CU_pSuite const suite = CU_add_suite("packets that stand together", NULL, NULL);

    CU_add_test(suite, "legal", all_legal);
    CU_add_test(suite, "illegal", all_illegal);
    CU_add_test(suite, "libipt", witness);
}
