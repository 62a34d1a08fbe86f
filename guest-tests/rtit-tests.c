/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT as a guest sees it: its MSRs, and the packets in its own buffer ("Real Time Instruction
 * Trace Programming Reference" v1.05; section and table numbers are of that document).
 *
 * Sections: reading packets, MSRs, traces, what is traced, output.
 */
#include "rtit-tests.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "rtit.h"
#include "string.h"
#include "trap.h"

/* ---- Reading packets (Figure 2) ------------------------------------------------------------- */

enum kind { PSB, TNT, PGE, PGD, OVF, PCC, TIP, FAR, STOP, PIP, MTC, STS, DAMAGED };

static const char *const kind_names[] = {"PSB",     "TNT", "FUP.PGE",    "FUP.PGD",   "FUP.BuffOvf",
                                         "FUP.PCC", "TIP", "FUP.FAR",    "TraceSTOP", "PIP",
                                         "MTC",     "STS", "(no packet)"};

/* value: of TNT the byte, of TIP and FUP the LIP, of PIP CR3 and in bit 63 CR0.PG. */
struct packet {
    enum kind kind;
    uint64_t value;
};

#define MAX_PACKETS 4096
static struct packet packets[MAX_PACKETS];
static unsigned packet_count;

static uint64_t little_endian(const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;

    while (count--)
        value = value << 8 | bytes[count];
    return value;
}

/* How long the packet is; 0: it is none, or cut off. lip: of the one before, and of this. */
static unsigned read_packet(const uint8_t *bytes, unsigned left, uint64_t *lip, struct packet *p)
{
    static const enum kind events[16] = {PGE,     PGD,     OVF,     PCC,     DAMAGED, DAMAGED,
                                         TIP,     FAR,     DAMAGED, DAMAGED, DAMAGED, DAMAGED,
                                         DAMAGED, DAMAGED, DAMAGED, DAMAGED};
    unsigned size = 1;

    p->value = bytes[0];
    if (bytes[0] < 0x80) {
        p->kind = TNT;
        return bytes[0] > 1;
    }
    if (bytes[0] < 0xc0) { /* FUP and TIP: Zext in bit 2, how many 16-bit parts in bits 1:0 */
        const unsigned lip_bytes = 2 * ((bytes[0] & 3) + 1);
        const uint64_t sent = bytes[0] & 4 ? ~0ull >> 16 : (1ull << 8 * lip_bytes) - 1;

        p->kind = events[bytes[0] >> 3 & 7];
        if (lip_bytes > 6 || 1 + lip_bytes > left)
            return 0;
        *lip = (*lip & ~sent) | little_endian(bytes + 1, lip_bytes);
        p->value = (uint64_t)((int64_t)(*lip << 16) >> 16);
        return 1 + lip_bytes;
    }
    if (bytes[0] == 0xc0) {
        p->kind = PSB;
        size = 9;
    } else if (bytes[0] == 0xc1) {
        p->kind = STOP;
    } else if ((bytes[0] & 0xfe) == 0xc2) {
        p->kind = PIP;
        size = 6;
        if (left >= size)
            p->value = little_endian(bytes + 1, 5) | (uint64_t)(bytes[0] & 1) << 63;
    } else if ((bytes[0] & 0xfc) == 0xc4) {
        p->kind = MTC;
        size = 2;
    } else if ((bytes[0] & 0xf0) == 0xd0) {
        p->kind = STS;
        size = 8;
    } else {
        return 0;
    }
    return size <= left ? size : 0;
}

static void read_packets(const uint8_t *bytes, unsigned len)
{
    uint64_t lip = 0;

    packet_count = 0;
    while (len > 0 && packet_count < MAX_PACKETS) {
        struct packet *p = &packets[packet_count++];
        const unsigned size = read_packet(bytes, len, &lip, p);

        if (size == 0) {
            *p = (struct packet){DAMAGED, bytes[0]};
            return;
        }
        bytes += size;
        len -= size;
    }
}

static unsigned count_of(enum kind kind)
{
    unsigned count = 0;

    for (unsigned i = 0; i < packet_count; i++)
        count += packets[i].kind == kind;
    return count;
}

/* ---- MSRs (3.3) ------------------------------------------------------------------------------ */

/* False: this processor has no RTIT. */
static bool test_lock(void)
{
    uint64_t value;
    const unsigned read = rdmsr_safe(MSR_RTIT_OLD_STATUS, &value);
    const unsigned write = wrmsr_safe(MSR_RTIT_OLD_CTL, 0);

    if (!rtit_present()) {
        report_skip("this processor has no RTIT", "RTIT");
        return false;
    }
    report_vector(read, GP_VECTOR, "RTIT_STATUS cannot be read before RTIT_CTL was (3.3.1)");
    report_vector(write, GP_VECTOR, "RTIT_CTL cannot be written before it was read (3.3.1)");
    report_vector(rdmsr_safe(MSR_RTIT_OLD_STATUS, &value), 0,
                  "RTIT_STATUS can be read behind RTIT_CTL (3.3.1)");
    return true;
}

static const struct {
    uint32_t msr;
    const char *name;
    uint64_t reset, writable, forced;
} registers[] = {
    {MSR_RTIT_LIP0, "RTIT_LIP0 (Table 8)", 0, ~0ull, 0},
    {MSR_RTIT_LIP0 + 1, "RTIT_LIP1 (Table 8)", 0, ~0ull, 0},
    {MSR_RTIT_LIP0 + 2, "RTIT_LIP2 (Table 8)", 0, ~0ull, 0},
    {MSR_RTIT_LIP0 + 3, "RTIT_LIP3 (Table 8)", 0, ~0ull, 0},
    {MSR_RTIT_OLD_CTL, "RTIT_CTL (Table 4)", 0, 0xff9f, 0},
    {MSR_RTIT_CNTP, "RTIT_CNTP (Table 5)", 0, 0x3fffff, 0},
    {MSR_RTIT_EVENTS, "RTIT_EVENTS (Table 6)", 0, 0x3f, 0},
    {MSR_RTIT_LAST_LIP, "RTIT_LAST_LIP (Table 9)", 0, 0x1ffffffff, 0},
    {MSR_RTIT_LAST_CALL_NLIP, "RTIT_LAST_CALL_NLIP (Table 16)", 0, 0x1ffffffffffff, 0},
    {MSR_RTIT_BASE_ADDR, "RTIT_BASE_ADDR (Table 12)", 0xfdc00000, 0xfffffffc0, 0},
    {MSR_RTIT_LIMIT_MASK, "RTIT_LIMIT_MASK (Table 13)", 0x7f, 0x3fffff, 0x3f},
    {MSR_RTIT_OFFSET, "RTIT_OFFSET (Table 14)", 0, 0x3fffff, 0},
    {MSR_RTIT_OLD_CR3_MATCH, "RTIT_CR3_MATCH (Table 10)", 0, 0xfffffffe0, 0},
    {MSR_RTIT_PKT_CNT, "RTIT_PKT_CNT (Table 11)", 0x20000, 0x33fff, 0},
};

/* Bits whose write is answered otherwise than it should be. */
static uint64_t wrong_bits(uint32_t msr, uint64_t writable)
{
    uint64_t wrong = 0;

    for (unsigned bit = 0; bit < 64; bit++) {
        const bool taken = wrmsr_safe(msr, 1ull << bit) == 0;

        if (taken != (writable >> bit & 1))
            wrong |= 1ull << bit;
    }
    return wrong;
}

static void test_registers(void)
{
    uint64_t value;

    for (unsigned i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
        value = ~registers[i].reset;
        rdmsr_safe(registers[i].msr, &value);
        report_value(value, registers[i].reset, "%s after reset", registers[i].name);
    }
    for (unsigned i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
        const uint64_t pattern = registers[i].writable & 0x00005555aaaa85e0;

        report_value(wrong_bits(registers[i].msr, registers[i].writable), 0,
                     "%s: reserved bits raise #GP, others do not", registers[i].name);
        wrmsr_safe(registers[i].msr, pattern);
        value = ~pattern;
        rdmsr_safe(registers[i].msr, &value);
        report_value(value, pattern | registers[i].forced, "%s keeps what it is given",
                     registers[i].name);
        wrmsr_safe(registers[i].msr, registers[i].reset);
    }
    wrmsr_safe(MSR_RTIT_LIP0, 0x1234800000001000);
    rdmsr_safe(MSR_RTIT_LIP0, &value);
    report_value(value, 0xffff800000001000, "RTIT_LIP0[63:48] repeat bit 47 (Table 8)");
    report_vector(wrmsr_safe(MSR_RTIT_TNT_BUFF, 0), GP_VECTOR, "RTIT_TNT_BUFF is not 0 (3.3.13)");
    rdmsr_safe(MSR_RTIT_TNT_BUFF, &value);
    report_value(value, 1, "RTIT_TNT_BUFF after reset (3.3.13)");
    report_vector(wrmsr_safe(MSR_RTIT_TNT_BUFF, 0x80), GP_VECTOR,
                  "RTIT_TNT_BUFF[7] is reserved (Table 15)");
    report_vector(rdmsr_safe(0x76a, &value), GP_VECTOR, "there is no MSR 76AH (Table 3)");
}

/* ---- Traces ---------------------------------------------------------------------------------- */

#define BUFFER_BYTES 0x2000u
#define CTL_PLAIN    (RTIT_TRACE_EN | RTIT_OS | RTIT_USER | RTIT_DEST)

static uint64_t buffer_phys;

/* Traces body and reads the packets. Its ranges and events are as they stand. */
static void trace(uint64_t ctl, const uint8_t *body)
{
    memset(phys_to_virt(buffer_phys), 0, BUFFER_BYTES);
    wrmsr(MSR_RTIT_BASE_ADDR, buffer_phys);
    wrmsr(MSR_RTIT_LIMIT_MASK, BUFFER_BYTES - 1);
    wrmsr(MSR_RTIT_OFFSET, 0);
    wrmsr(MSR_RTIT_TNT_BUFF, 1);
    wrmsr(MSR_RTIT_OLD_STATUS, 0); /* FilterEn is as the last trace left it */
    wrmsr(MSR_RTIT_OLD_CTL, ctl);
    traced_run(ctl, body);
    read_packets(phys_to_virt(buffer_phys), (unsigned)rdmsr(MSR_RTIT_OFFSET));
    wrmsr(MSR_RTIT_OLD_CTL, 0);
}

static void print_packets(void)
{
    for (unsigned i = 0; i < packet_count; i++)
        printf("    %s %lx\n", kind_names[packets[i].kind], packets[i].value);
}

/* Whether the packets are these; or begin with them, if more may follow. */
static void check(const struct packet *want, unsigned count, bool more, const char *name)
{
    bool same = packet_count == count || (more && packet_count > count);

    for (unsigned i = 0; i < count && same; i++)
        same = packets[i].kind == want[i].kind &&
               (want[i].kind == PSB || want[i].kind == STOP || packets[i].value == want[i].value);
    report(same, "%s", name);
    if (!same)
        print_packets();
}

#define AT(label) ((uint64_t)(label))
#define CHECK(name, ...)                                                                           \
    do {                                                                                           \
        const struct packet want[] = {__VA_ARGS__};                                                \
        check(want, sizeof(want) / sizeof(want[0]), false, name);                                  \
    } while (0)

/* ---- What is traced ---------------------------------------------------------------------------
 */

#define BEGIN(body)                                                                                \
    {PSB, 0}, {PGE, AT(traced_begin)},                                                             \
    {                                                                                              \
        TIP, AT(body)                                                                              \
    }
#define END                                                                                        \
    {TIP, AT(traced_back)},                                                                        \
    {                                                                                              \
        PGD, AT(traced_end)                                                                        \
    }

static void test_branches(void)
{
    trace(CTL_PLAIN, body_branches);
    CHECK("TNT: six results a packet, the oldest first (4.2.2)", BEGIN(body_branches), {TNT, 0x40},
          {TNT, 0x1b}, END);
    trace(CTL_PLAIN | RTIT_CMPRS_RET, body_branches);
    CHECK("a RET behind its CALL is a TNT bit (4.2.3.2)", BEGIN(body_branches), {TNT, 0x40},
          {TNT, 0x37}, {PGD, AT(traced_end)});
    trace(CTL_PLAIN, body_jump);
    CHECK("TIP: an indirect JMP (4.2.3)", BEGIN(body_jump), {TIP, AT(body_jump_to)}, END);
    trace(CTL_PLAIN, body_call);
    CHECK("TIP: RETs, not compressed (4.2.3)", BEGIN(body_call), {TIP, AT(body_returned)}, END);
    trace(CTL_PLAIN | RTIT_CMPRS_RET, body_call);
    CHECK("only the last CALL compresses a RET (4.2.3.2)", BEGIN(body_call), {TNT, 3}, END);
    trace(CTL_PLAIN | RTIT_CMPRS_RET, body_push);
    CHECK("a RET to elsewhere is a TIP (4.2.3.2)", BEGIN(body_push), {TIP, AT(body_pushed)},
          {TNT, 3}, {PGD, AT(traced_end)});
}

static bool on_invalid_op(struct frame *frame)
{
    if (frame->rip != AT(body_fault_at))
        return false;
    frame->rip = AT(body_fault_next);
    return true;
}

static void test_far(void)
{
    const struct packet want[] = {BEGIN(body_fault), {FAR, AT(body_fault_at)}};
    unsigned last = 0;

    trap_set_handler(VECTOR_INVALID_OP, on_invalid_op);
    trace(CTL_PLAIN, body_fault);
    check(want, sizeof(want) / sizeof(want[0]), true,
          "FUP.FAR of a fault has the faulting address (Table 1)");
    for (unsigned i = 0; i < packet_count; i++) {
        if (packets[i].kind == FAR)
            last = i;
    }
    report(last + 3 < packet_count && packets[last + 1].kind == TIP &&
               packets[last + 1].value == AT(body_fault_next),
           "FUP.FAR and TIP of the IRET lead back (Table 19)");
}

static void test_filters(void)
{
    const uint64_t all = RTIT_EVENTS_OF(RTIT_ID_ON, RTIT_ID_OFF);
    const uint64_t cr3 = read_cr3();

    wrmsr(MSR_RTIT_LIP0, AT(body_range_in));
    wrmsr(MSR_RTIT_LIP0 + 2, AT(body_range_out));
    wrmsr(MSR_RTIT_EVENTS, RTIT_EVENTS_OF(RTIT_ID_RANGE0, RTIT_ID_OFF));
    trace(CTL_PLAIN, body_range);
    CHECK("RANGE0: FUP.PGE and FUP.PGD where code walks in and out (2.4.3)", {PSB, 0},
          {PGE, AT(body_range_in)}, {TNT, 5}, {PGD, AT(body_range_out)});
    wrmsr(MSR_RTIT_EVENTS, RTIT_EVENTS_OF(RTIT_ID_ON, RTIT_ID_RANGE0));
    trace(CTL_PLAIN, body_range);
    CHECK("TraceStop where code walks into its range (4.2.11)", BEGIN(body_range), {STOP, 0});
    report_value(rdmsr(MSR_RTIT_TNT_BUFF), 2, "TNT bits stay in RTIT_TNT_BUFF behind TraceStop");
    wrmsr(MSR_RTIT_EVENTS, RTIT_EVENTS_OF(RTIT_ID_OFF, RTIT_ID_OFF));
    trace(CTL_PLAIN, body_branches);
    CHECK("filter always off: nothing but the PSB (Table 7)", {PSB, 0});
    wrmsr(MSR_RTIT_EVENTS, all);
    trace(CTL_PLAIN & ~RTIT_OS, body_branches);
    CHECK("OS = 0: nothing of CPL 0 (2.4.1)", {PSB, 0});
    wrmsr(MSR_RTIT_OLD_CR3_MATCH, (cr3 ^ 0x1000) & 0xfffffffe0);
    trace(CTL_PLAIN | RTIT_CR3EN, body_branches);
    CHECK("CR3En: nothing of another CR3 (2.4.2)", {PSB, 0});
    wrmsr(MSR_RTIT_OLD_CR3_MATCH, cr3 & 0xfffffffe0);
    trace(CTL_PLAIN | RTIT_CR3EN, body_jump);
    CHECK("CR3En: the CR3 that matches (2.4.2)", BEGIN(body_jump), {TIP, AT(body_jump_to)}, END);
    trace(CTL_PLAIN, body_cr3);
    CHECK("PIP: MOV CR3 (4.2.10)", BEGIN(body_cr3), {PIP, cr3 | 1ull << 63}, END);
    trace(CTL_PLAIN | RTIT_STS_ON_CR3 | RTIT_STS_EN, body_cr3);
    report(count_of(STS) >= 1, "STS_on_CR3: an STS packet with MOV CR3 (4.2.13)");
}

/* ---- Output ------------------------------------------------------------------------------------
 */

static void spray(void)
{
    for (unsigned i = 0; i < 900; i++)
        __asm__ volatile("call body_push" : : : "rax", "memory");
}

static void test_output(void)
{
    const uint8_t *bytes = phys_to_virt(buffer_phys);
    bool clean = true;

    wrmsr(MSR_RTIT_PKT_CNT, 0); /* the monitored bit is 11 */
    trace(CTL_PLAIN, (const uint8_t *)spray);
    report(count_of(PSB) >= 2 && packets[0].kind == PSB,
           "a PSB when RTIT_PKT_CNT reaches the monitored bit (3.3.9)");
    report_value(count_of(DAMAGED), 0, "every byte belongs to a packet (Figure 2)");

    memset(phys_to_virt(buffer_phys), 0, BUFFER_BYTES);
    wrmsr(MSR_RTIT_BASE_ADDR, buffer_phys);
    wrmsr(MSR_RTIT_LIMIT_MASK, 0xff);
    wrmsr(MSR_RTIT_OFFSET, 0);
    wrmsr(MSR_RTIT_OLD_CTL, CTL_PLAIN);
    traced_run(CTL_PLAIN, (const uint8_t *)spray);
    for (unsigned i = 0x100; i < BUFFER_BYTES; i++)
        clean = clean && bytes[i] == 0;
    report(clean, "output wraps at RTIT_LIMIT_MASK (3.3.11)");
    report(rdmsr(MSR_RTIT_OFFSET) < 0x100, "RTIT_OFFSET wraps, too (3.3.12)");
    wrmsr(MSR_RTIT_OLD_CTL, 0);
}

int guest_main(void)
{
    if (!test_lock())
        return report_summary();
    test_registers();
    buffer_phys = phys_alloc(BUFFER_BYTES, BUFFER_BYTES);
    wrmsr(MSR_RTIT_EVENTS, RTIT_EVENTS_OF(RTIT_ID_ON, RTIT_ID_OFF));
    test_branches();
    test_far();
    test_filters();
    test_output();
    return report_summary();
}
