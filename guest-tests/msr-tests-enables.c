/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The enables as IA32_RTIT_STATUS shows them, filters, TraceStop, and the packets that a guest
 * finds in its own buffer for code that it knows (33.2.5, 33.2.6, 33.2.8.3, 33.4.2).
 */
#include "msr-tests.h"
#include "packets.h"
#include "string.h"

#define FEW_BRANCHES 8
#define PSB_BYTES    16

static struct trace_result result;
static struct packet_counts counts;

/* One trace into the default output, and its packets. */
static void run_setup(struct trace_setup setup)
{
    const uint8_t *bytes;
    uint64_t len;

    trace_default_output(&setup);
    result = trace_run(&setup);
    bytes = trace_default_bytes(&result, &len);
    counts = packets_count(bytes, len);
}

static void run(uint64_t ctl, void (*body)(void))
{
    run_setup((struct trace_setup){.ctl = ctl, .branches = FEW_BRANCHES, .body = body});
}

/* ---- Enables in STATUS -------------------------------------------------------------------- */

static void check_enables(uint64_t want, const char *what, const char *rule)
{
    if (result.vector)
        report_vector(result.vector, 0, "enables: %s: WRMSR of IA32_RTIT_CTL", what);
    else
        report_value(result.live & STATUS_ENABLES, want, "enables: %s (%s)", what, rule);
}

static void test_privilege(void)
{
    const uint64_t all = STATUS_TRIGGEREN | STATUS_CONTEXTEN | STATUS_FILTEREN;

    run(CTL_DEFAULT, NULL);
    check_enables(all, "OS = 1 at CPL 0: TriggerEn, ContextEn, FilterEn", "33.2.6");
    report_value(result.status & STATUS_TRIGGEREN, 0,
                 "enables: TriggerEn is 0 when TraceEn is cleared (33.2.6.2)");
    run(CTL_DEFAULT | CTL_USER, NULL);
    check_enables(all, "OS = User = 1: all set", "33.2.6.3");
    run(CTL_BRANCHEN | CTL_USER, NULL);
    check_enables(all & ~STATUS_CONTEXTEN, "OS = 0 at CPL 0: ContextEn = 0", "33.2.6.3");
    report_value(counts.of[PACKET_TIP] + counts.of[PACKET_TIP_PGE] + counts.of[PACKET_TNT], 0,
                 "packets: none of control flow with ContextEn = 0 (33.2.6.3)");
    run(CTL_BRANCHEN, NULL);
    check_enables(all & ~STATUS_CONTEXTEN, "OS = User = 0: ContextEn = 0", "33.2.6.3");
    run(CTL_OS, NULL);
    check_enables(all, "BranchEn = 0 is not seen in STATUS", "33.2.6.4");
    report_value(counts.of[PACKET_TIP] + counts.of[PACKET_TIP_PGE] + counts.of[PACKET_TNT] +
                     counts.of[PACKET_MODE],
                 0, "packets: none of control flow with BranchEn = 0 (33.2.6.4)");
    report(counts.of[PACKET_PSB] >= 1, "packets: PSB+ with BranchEn = 0 (33.2.6.4)");
}

static void test_cr3_filter(void)
{
    if (!pt_caps()->cr3_filter) {
        report_skip("no CR3 filtering", "enables: CR3Filter (33.2.5.2)");
        return;
    }
    wrmsr(MSR_RTIT_CR3_MATCH, read_cr3() & ~0xfffull);
    run(CTL_DEFAULT | CTL_CR3FILTER, NULL);
    report_value(result.live & STATUS_CONTEXTEN, STATUS_CONTEXTEN,
                 "enables: CR3 matches: ContextEn = 1 (33.2.5.2)");
    wrmsr(MSR_RTIT_CR3_MATCH, (read_cr3() & ~0xfffull) | 0xfe0);
    run(CTL_DEFAULT | CTL_CR3FILTER, NULL);
    report_value(result.live & STATUS_CONTEXTEN, STATUS_CONTEXTEN,
                 "enables: only CR3[63:12] counts outside PAE paging (33.2.5.2)");
    wrmsr(MSR_RTIT_CR3_MATCH, (read_cr3() & ~0xfffull) ^ 0x1000);
    run(CTL_DEFAULT | CTL_CR3FILTER, NULL);
    report_value(result.live & STATUS_CONTEXTEN, 0,
                 "enables: CR3 does not match: ContextEn = 0 (33.2.5.2)");
    report_value(counts.of[PACKET_TIP], 0, "packets: no TIP where CR3 does not match (33.2.5.2)");
    run(CTL_DEFAULT, NULL);
    report_value(result.live & STATUS_CONTEXTEN, STATUS_CONTEXTEN,
                 "enables: CR3_MATCH is ignored without CR3Filter (33.2.5.2)");
    wrmsr(MSR_RTIT_CR3_MATCH, 0);
}

/* ---- Address ranges (33.2.5.3) ------------------------------------------------------------ */

extern char image_end[];

static uint64_t range_cfg(unsigned n, uint64_t cfg)
{
    return cfg << (CTL_ADDR_CFG_SHIFT + 4 * n);
}

static void set_range(unsigned n, uint64_t first, uint64_t last)
{
    wrmsr(MSR_RTIT_ADDR0_A + 2 * n, first);
    wrmsr(MSR_RTIT_ADDR0_A + 2 * n + 1, last);
}

static void test_one_range(unsigned n)
{
    uint64_t spray = (uint64_t)pt_spray;
    /* A page of user addresses, where nothing runs. */
    const uint64_t elsewhere = 0x400000;

    set_range(n, KERNEL_BASE, (uint64_t)image_end);
    run(CTL_DEFAULT | range_cfg(n, ADDR_CFG_FILTER), NULL);
    report_value(result.live & STATUS_FILTEREN, STATUS_FILTEREN,
                 "enables: ADDR%u filter around the code: FilterEn = 1 (33.2.6.5)", n);
    report(counts.of[PACKET_TIP_PGE] > 1,
           "packets: TIP.PGE each time the code comes back to ADDR%u (33.2.5.3)", n);
    set_range(n, elsewhere, elsewhere + 0xfff);
    run(CTL_DEFAULT | range_cfg(n, ADDR_CFG_FILTER), NULL);
    report_value(result.live & STATUS_FILTEREN, 0,
                 "enables: ADDR%u filter elsewhere: FilterEn = 0 (33.2.6.5)", n);
    report_value(counts.of[PACKET_TIP] + counts.of[PACKET_TIP_PGE], 0,
                 "packets: no TIP outside of ADDR%u (33.2.6.5)", n);
    report_value(result.live & STATUS_TRIGGEREN, STATUS_TRIGGEREN,
                 "enables: TriggerEn does not depend on ADDR%u (33.2.6.2)", n);

    run(CTL_DEFAULT | range_cfg(n, ADDR_CFG_TRACESTOP), NULL);
    report_value(result.live & (STATUS_STOPPED | STATUS_FILTEREN), STATUS_FILTEREN,
                 "TraceStop: ADDR%u elsewhere does not stop, nor filter (33.2.5.3)", n);
    set_range(n, spray, spray + 0x3f);
    run(CTL_DEFAULT | range_cfg(n, ADDR_CFG_TRACESTOP), NULL);
    report_value(result.live & (STATUS_STOPPED | STATUS_TRIGGEREN | STATUS_ERROR), STATUS_STOPPED,
                 "TraceStop: branching into ADDR%u: Stopped, TriggerEn = 0 (33.2.5.3)", n);
    report_value(counts.of[PACKET_TRACESTOP], 1, "packets: one TraceStop for ADDR%u (33.2.5.3)", n);
    set_range(n, 0, 0);
}

static void test_ranges(void)
{
    const struct pt_caps *c = pt_caps();
    uint64_t spray = (uint64_t)pt_spray;

    if (!c->ip_filter) {
        report_skip("no IP filtering", "enables: FilterEn, TraceStop (33.2.5.3)");
        return;
    }
    for (unsigned n = 0; n < c->ranges; n++)
        test_one_range(n);
    if (c->ranges < 2)
        return;
    /* Two filters: inside of either one is enough. */
    set_range(0, 0x400000, 0x400fff);
    set_range(1, KERNEL_BASE, (uint64_t)image_end);
    run(CTL_DEFAULT | range_cfg(0, ADDR_CFG_FILTER) | range_cfg(1, ADDR_CFG_FILTER), NULL);
    report_value(result.live & STATUS_FILTEREN, STATUS_FILTEREN,
                 "enables: FilterEn inside the second of two ranges (33.2.5.3)");
    set_range(0, KERNEL_BASE, (uint64_t)image_end);
    set_range(1, spray, spray + 0x3f);
    run(CTL_DEFAULT | range_cfg(0, ADDR_CFG_FILTER) | range_cfg(1, ADDR_CFG_TRACESTOP), NULL);
    report_value(result.live & STATUS_STOPPED, STATUS_STOPPED,
                 "TraceStop: wins where it overlaps a filter (33.2.5.3)");
    set_range(0, 0, 0);
    set_range(1, 0, 0);
}

/* ---- Packets for known code --------------------------------------------------------------- */

#define LOOP_TURNS 100
#define CALLS      50

/* 100 conditional branches: taken 99 times. */
static void loop(void)
{
    __asm__ volatile("movl %0, %%ecx\n"
                     "1: decl %%ecx\n\t"
                     "jnz 1b"
                     :
                     : "i"(LOOP_TURNS)
                     : "ecx", "cc");
}

/* 50 direct calls and their returns, and 50 conditional branches. */
static void calls(void)
{
    __asm__ volatile("movl %0, %%ecx\n"
                     "1: call 2f\n\t"
                     "decl %%ecx\n\t"
                     "jnz 1b\n\t"
                     "jmp 3f\n"
                     "2: ret\n"
                     "3:"
                     :
                     : "i"(CALLS)
                     : "ecx", "cc", "memory");
}

static void reload_cr3(void)
{
    for (unsigned i = 0; i < 4; i++)
        write_cr3(read_cr3());
}

static void nothing(void)
{
}

static void test_control_flow(void)
{
    struct packet_counts empty;

    run(CTL_DEFAULT, nothing);
    empty = counts;
    report(!counts.damaged, "packets: nothing but packets in the buffer (33.4.2)");
    report_value(counts.of[PACKET_TIP_PGE], 1, "packets: TIP.PGE when PacketEn is set (33.2.8.3)");
    report_value(counts.of[PACKET_TIP_PGD], 1,
                 "packets: TIP.PGD when TraceEn is cleared (33.2.8.3)");
    report(counts.of[PACKET_MODE] >= 1, "packets: MODE.Exec before the first TIP.PGE (33.4.2.8)");
    report(counts.of[PACKET_PSB] >= 1 && counts.of[PACKET_PSB] == counts.of[PACKET_PSBEND],
           "packets: a PSB+ begins the trace and is ended (33.2.8.3)");
    report_value(counts.of[PACKET_OVF], 0, "packets: no OVF (33.3.8)");
    report_value(counts.of[PACKET_TSC], 0, "packets: no TSC with TSCEn = 0 (33.4.2.11)");
    report_value(counts.of[PACKET_MTC] + counts.of[PACKET_CYC], 0,
                 "packets: no MTC and no CYC with MTCEn = CYCEn = 0 (33.2.8.2)");

    run(CTL_DEFAULT, loop);
    report_value(counts.tnt_bits - empty.tnt_bits, LOOP_TURNS,
                 "packets: a TNT bit for each conditional branch (33.4.2.1)");
    report_value(counts.of[PACKET_TIP], empty.of[PACKET_TIP],
                 "packets: no TIP for conditional branches (33.4.2.2)");

    run(CTL_DEFAULT, calls);
    report_value(counts.tnt_bits - empty.tnt_bits, 2 * CALLS,
                 "packets: a TNT bit for each compressed RET (33.4.2.2)");
    report_value(counts.of[PACKET_TIP], empty.of[PACKET_TIP],
                 "packets: no TIP for compressed RETs (33.4.2.2)");
    run(CTL_DEFAULT | CTL_DISRETC, nothing);
    empty = counts;
    run(CTL_DEFAULT | CTL_DISRETC, calls);
    report_value(counts.of[PACKET_TIP] - empty.of[PACKET_TIP], CALLS,
                 "packets: a TIP for each RET with DisRETC = 1 (33.2.1.2)");
    report_value(counts.tnt_bits - empty.tnt_bits, CALLS,
                 "packets: no TNT bit for a RET with DisRETC = 1 (33.2.1.2)");

    run(CTL_DEFAULT, NULL);
    report(counts.of[PACKET_TIP] >= FEW_BRANCHES,
           "packets: a TIP for each indirect JMP (33.4.2.2)");
    run(CTL_DEFAULT, reload_cr3);
    report_value(counts.pip_between, 4, "packets: a PIP for each MOV CR3 (33.4.2.7)");
    run(CTL_OS, reload_cr3);
    report_value(counts.pip_between, 4, "packets: PIPs do not need BranchEn (33.2.6.4)");
    run(CTL_USER | CTL_BRANCHEN, reload_cr3);
    report_value(counts.pip_between, 0, "packets: no PIP with OS = 0 (33.2.5.2)");
    run(CTL_DEFAULT | CTL_TSCEN, nothing);
    report(counts.of[PACKET_TSC] >= 1, "packets: a TSC with TSCEn = 1 (33.4.2.11)");
    report(!counts.damaged, "packets: nothing but packets with TSCEn = 1 (33.4.2)");
}

/* ---- PSB and PacketByteCnt (33.2.8.3, Table 33-7, 33.4.2.17) ------------------------------ */

#define PERIODS     4
#define MOST_TRACED 0x8000u /* bytes, fewer than BUFFER_BYTES */

static bool begins_with_psb(void)
{
    uint64_t len;
    const uint8_t *bytes = trace_default_bytes(&result, &len);
    struct packet packet;

    return packet_at(bytes, len, &packet) && packet.kind == PACKET_PSB;
}

static void test_psb_frequency(void)
{
    const struct pt_caps *c = pt_caps();

    for (uint64_t code = 0; code < 4; code++) {
        const uint64_t period = 2048u << code;
        const uint64_t traced = PERIODS * period;
        uint64_t len, want;

        if (code > 0 && !(c->psb_cyc && (c->psb_map >> code & 1))) {
            report_skip("encoding not supported", "PSBFreq = %lu (Table 33-6)", code);
            continue;
        }
        run_setup((struct trace_setup){
            .ctl = CTL_DEFAULT | code << CTL_PSBFREQ_SHIFT,
            .branches = trace_branches(traced < MOST_TRACED ? traced : MOST_TRACED)});
        (void)trace_default_bytes(&result, &len); /* PADs among them */
        want = len / period;
        /* Not precise by definition: half or twice as many will do. */
        report(counts.of[PACKET_PSB] >= want / 2 && counts.of[PACKET_PSB] <= want * 2,
               "PSBFreq = %lu: a PSB for about %lu bytes of packets (Table 33-6)", code, period);
    }
}

static void test_packet_byte_count(void)
{
    if (!pt_caps()->psb_cyc) {
        run(CTL_DEFAULT, NULL);
        report_value(result.status & STATUS_BYTECNT, 0,
                     "PacketByteCnt is reserved and stays 0 (Table 33-7)");
        report(begins_with_psb(), "PSB: always when tracing is enabled (Table 33-11, EBX[1])");
        return;
    }
    run(CTL_DEFAULT, NULL);
    report(result.status & STATUS_BYTECNT, "PacketByteCnt counts packet bytes (Table 33-7)");
    report(begins_with_psb(), "PSB: when tracing is enabled with PacketByteCnt = 0 (33.2.8.3)");
    run_setup((struct trace_setup){
        .ctl = CTL_DEFAULT, .status = 256ull << STATUS_BYTECNT_SHIFT, .branches = FEW_BRANCHES});
    report(!begins_with_psb(), "PSB: not with PacketByteCnt > 0 (Table 33-11, EBX[1])");
    report(result.status >> STATUS_BYTECNT_SHIFT > 256,
           "PacketByteCnt goes on from what software wrote (Table 33-7)");
}

static void test_pend_psb(void)
{
    const uint64_t some_bytes = 256ull << STATUS_BYTECNT_SHIFT;

    if (!pt_caps()->preserve || !pt_caps()->psb_cyc) {
        report_skip("no PSB preservation", "PendPSB (Table 33-7)");
        return;
    }
    run_setup((struct trace_setup){.ctl = CTL_DEFAULT | CTL_INJECT_PSB_PMI,
                                   .status = some_bytes | STATUS_PENDPSB,
                                   .branches = FEW_BRANCHES});
    report(counts.of[PACKET_PSB] >= 1, "PendPSB = 1 when tracing is enabled: a PSB+ (Table 33-7)");
    report_value(result.status & STATUS_PENDPSB, 0, "PendPSB is cleared by the PSB+ (Table 33-7)");
    run_setup((struct trace_setup){
        .ctl = CTL_DEFAULT, .status = some_bytes | STATUS_PENDPSB, .branches = FEW_BRANCHES});
    report(!begins_with_psb(), "PendPSB is ignored without InjectPsbPmiOnEnable (Table 33-6)");
}

void test_enables(void)
{
    if (!pt_memory_output(pt_caps())) {
        report_skip("no output to memory", "enables and packets (33.2.6)");
        return;
    }
    test_privilege();
    test_cr3_filter();
    test_ranges();
    test_control_flow();
    test_psb_frequency();
    test_packet_byte_count();
    test_pend_psb();
    trace_off();
}
