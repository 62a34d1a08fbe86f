/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of packet cases, and what they share: traces of code whose every instruction is known
 * (packet-tests-code.S, packet-tests-user.S), the packets that the guest found in its buffer, and
 * the packets that it expects. See packet-tests.c.
 */
#ifndef GUEST_PACKET_TESTS_H
#define GUEST_PACKET_TESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "packets.h"
#include "pt.h"
#include "tracing.h"

/* ---- Groups ------------------------------------------------------------------------------- */

/* packet-tests-psb.c: PSB+ and PSBFreq. */
void test_psb(void);
/* packet-tests-branch.c: near branches, compression of IPs and RETs, BranchEn, DisTNT. */
void test_branches(void);
/* packet-tests-event.c: exceptions, interrupts, far transfers; Event Trace. */
void test_events(void);
/* packet-tests-context.c: user mode, CPL and CR3 filtering. */
void test_contexts(void);
/* packet-tests-filter.c: IP filtering and TraceStop. */
void test_ip_filters(void);
/* packet-tests-time.c: TSC, TMA, CBR, MTC, CYC. */
void test_timing(void);
/* packet-tests-output.c: packets across the bounds of output regions; overflow. */
void test_output(void);
/* packet-tests-insn.c: PTWRITE, TSX, HLT. */
void test_instructions(void);

/* Whether PTWRITE executes where CPUID enumerates it. */
bool ptwrite_works(void);

/* ---- Traced code -------------------------------------------------------------------------- */

/*
 * A body writes `on` to IA32_RTIT_CTL, does what it is for, and writes `off`. What arg0 and arg1
 * are stands beside each one. Its labels: NAME_on is the instruction after the first WRMSR,
 * NAME_off the second WRMSR.
 */
typedef void trace_body(uint64_t on, uint64_t off, uint64_t arg0, uint64_t arg1);

#define BODY(name)                                                                                 \
    extern trace_body name;                                                                        \
    extern const char name##_on[], name##_off[]
#define LABEL(name) extern const char(name)[]

/* ---- What a trace left -------------------------------------------------------------------- */

#define MAX_PACKETS 16384

struct trace {
    uint64_t status;             /* IA32_RTIT_STATUS after it */
    struct pt_position end;      /* of output */
    uint64_t tsc_begin, tsc_end; /* around it */
    const uint8_t *bytes;
    uint64_t len_bytes;
    bool damaged; /* something in it is no packet, or there are too many */
    unsigned count;
    struct packet packets[MAX_PACKETS];
};

/* The last trace. */
extern struct trace trace;

/* Traces a body into the default output with IA32_RTIT_STATUS = 0. ctl: without TraceEn and scheme.
 */
void trace_code(uint64_t ctl, trace_body *body, uint64_t arg0, uint64_t arg1);
/*
 * The same with an output and a STATUS of one's own (setup->body and ->branches do not count); the
 * packets are for the caller to read.
 */
void trace_code_to(const struct trace_setup *setup, trace_body *body, uint64_t arg0, uint64_t arg1);
/* Reads the packets of a trace. */
void trace_read(const uint8_t *bytes, uint64_t len_bytes);
/* MTCEn with the longest period there is, but with MTCFreq no more than this. */
uint64_t ctl_mtc(unsigned slowest);
#define MTC_SLOWEST 15
/* How many packets of a kind, in PSB+ and outside of it. */
unsigned trace_count(enum packet_kind kind);

/* ---- What was expected -------------------------------------------------------------------- */

/*
 * The control flow of a trace: TNT (result by result), TIP, TIP.PGE, TIP.PGD, FUP, PIP, TraceStop,
 * OVF, PTW, CFE, EVD, MODE.TSX, in their order, without PSB+, timing and padding. MODE.Exec counts
 * where it is expected; elsewhere a processor may send one (33.4.2.8), and it has to say 64-bit
 * mode.
 */
void expect_nothing(void); /* begin anew */
void expect_bit(bool taken);
void expect_bits(const char *bits); /* 'T' and 'N' */
void expect_tip(const void *target);
void expect_pge(const void *ip);
void expect_pgd(const void *ip);
void expect_pgd_without_ip(void);
void expect_fup(const void *ip);
void expect_pip(uint64_t cr3);
void expect_mode_exec(bool interrupts);
void expect_mode_tsx(bool in_tx, bool aborted);
void expect_trace_stop(void);
void expect_ptw(uint64_t value, unsigned size_bytes, bool ip);
void expect_cfe(unsigned type, unsigned vector, bool ip);
void expect_evd(unsigned type, uint64_t value);

/* CFE and EVD types (Tables 33-50, 33-51). */
#define CFE_INTR 1
#define CFE_IRET 2
#define CFE_SMI  3
#define CFE_RSM  4
#define EVD_PFA  0

/* Takes packets of this kind out of what check_flow() compares, until expect_nothing(). */
void ignore_packets(enum packet_kind kind);
/* Of PIPs, only those with this CR3 are compared, until expect_nothing(). */
void ignore_other_pips(uint64_t cr3);
/* One case: the control flow is what was expected. Prints both if not. */
void check_flow(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same where the buffer holds only the beginning, or only the end, of what happened. */
void check_flow_begins(const char *format, ...) __attribute__((format(printf, 1, 2)));
void check_flow_ends(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* TIP.PGE at the beginning of a body that is traced from its first to its last instruction... */
#define EXPECT_BEGIN(name) (expect_nothing(), expect_pge(name##_on))
/* ... and what its second WRMSR leaves: Table 33-56 case 3. */
#define EXPECT_END(name) (expect_fup(name##_off), expect_pgd_without_ip())

/* ---- Long traces -------------------------------------------------------------------------- */

#define MAX_LINKS 4096

/*
 * arg0 of chain_body: jumps to and fro between the image and the direct map, of which each costs a
 * TIP with a payload of 6 bytes or more, and at last to `end`.
 */
const uint64_t *chain_make(unsigned links, const char *end);
/*
 * How many links leave len_bytes of trace and hardly more, PSB+ apart; up to MAX_LINKS. Measured by
 * a trace of its own, the first time: processors put as many PADs among packets as they like
 * (33.4.2.20).
 */
unsigned chain_links_of(uint64_t len_bytes);
/* Its TIPs. */
void expect_chain(void);

/* ---- Interrupts --------------------------------------------------------------------------- */

/* Has an interrupt with VECTOR_TIMER wait for RFLAGS.IF = 1; false: it does not come. */
bool interrupt_pend(void);
void interrupt_done(void);

#endif
