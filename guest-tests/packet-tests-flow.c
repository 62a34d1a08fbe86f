/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control flow as the guest expects it and as its buffer has it: see packet-tests.h.
 */
#include "packet-tests.h"

#define MAX_STEPS   20000
#define SHOWN_STEPS 24 /* of a list, when a case fails */

/* MODE leaves and bits (33.4.2.8). */
#define MODE_LEAF(value) ((unsigned)(value) >> 5)
#define LEAF_EXEC        0
#define LEAF_TSX         1
#define EXEC_MODE_BITS   3u /* CS.D and CS.L & LMA */
#define EXEC_64          1u
#define EXEC_IF          4u
#define TSX_IN_TX        1u
#define TSX_ABORT        2u

/* One result of a branch, or one packet of control flow. */
struct step {
    uint8_t kind; /* enum packet_kind */
    uint8_t sub;
    bool flag; /* IP packets: there is an IP; PTW, CFE: the IP bit */
    uint64_t value;
};

struct flow {
    unsigned count;
    bool full;
    struct step steps[MAX_STEPS];
};

static struct flow expected, found;
static bool ignored[PACKET_KINDS];
static uint64_t only_cr3; /* 0: PIPs of every CR3 count */

static void add(struct flow *flow, struct step step)
{
    if (flow->count == MAX_STEPS)
        flow->full = true;
    else
        flow->steps[flow->count++] = step;
}

/* ---- Expected ----------------------------------------------------------------------------- */

static void expect_ip(enum packet_kind kind, const void *ip)
{
    add(&expected, (struct step){.kind = kind, .flag = true, .value = (uint64_t)ip});
}

void expect_nothing(void)
{
    expected.count = 0;
    expected.full = false;
    only_cr3 = 0;
    for (unsigned i = 0; i < PACKET_KINDS; i++)
        ignored[i] = false;
}

void ignore_packets(enum packet_kind kind)
{
    ignored[kind] = true;
}

void ignore_other_pips(uint64_t cr3)
{
    only_cr3 = cr3;
}

void expect_bit(bool taken)
{
    add(&expected, (struct step){.kind = PACKET_TNT, .value = taken});
}

void expect_bits(const char *bits)
{
    for (; *bits; bits++)
        expect_bit(*bits == 'T');
}

void expect_tip(const void *target)
{
    expect_ip(PACKET_TIP, target);
}

void expect_pge(const void *ip)
{
    expect_ip(PACKET_TIP_PGE, ip);
}

void expect_pgd(const void *ip)
{
    expect_ip(PACKET_TIP_PGD, ip);
}

void expect_pgd_without_ip(void)
{
    add(&expected, (struct step){.kind = PACKET_TIP_PGD});
}

void expect_fup(const void *ip)
{
    expect_ip(PACKET_FUP, ip);
}

void expect_pip(uint64_t cr3)
{
    add(&expected, (struct step){.kind = PACKET_PIP, .value = cr3 & 0x000ffffffffff000ull});
}

void expect_mode_exec(bool interrupts)
{
    /* RFLAGS.IF is part of the packet where there is Event Trace only. */
    uint64_t value = EXEC_64 | (interrupts && pt_caps()->event ? EXEC_IF : 0);

    add(&expected, (struct step){.kind = PACKET_MODE, .value = value});
}

void expect_mode_tsx(bool in_tx, bool aborted)
{
    uint64_t value = LEAF_TSX << 5 | (in_tx ? TSX_IN_TX : 0) | (aborted ? TSX_ABORT : 0);

    add(&expected, (struct step){.kind = PACKET_MODE, .value = value});
}

void expect_trace_stop(void)
{
    add(&expected, (struct step){.kind = PACKET_TRACESTOP});
}

void expect_ptw(uint64_t value, unsigned size_bytes, bool ip)
{
    add(&expected,
        (struct step){.kind = PACKET_PTW, .sub = (uint8_t)size_bytes, .flag = ip, .value = value});
}

void expect_cfe(unsigned type, unsigned vector, bool ip)
{
    add(&expected,
        (struct step){.kind = PACKET_CFE, .sub = (uint8_t)type, .flag = ip, .value = vector});
}

void expect_evd(unsigned type, uint64_t value)
{
    add(&expected, (struct step){.kind = PACKET_EVD, .sub = (uint8_t)type, .value = value});
}

/* ---- Found -------------------------------------------------------------------------------- */

static void find_packet(const struct packet *packet)
{
    struct step step = {.kind = packet->kind, .sub = (uint8_t)packet->sub, .flag = packet->flag};

    switch (packet->kind) {
    case PACKET_TNT:
        for (unsigned i = packet->bits; i-- > 0;)
            add(&found, (struct step){.kind = PACKET_TNT, .value = packet->value >> i & 1});
        return;
    case PACKET_TIP:
    case PACKET_TIP_PGE:
    case PACKET_TIP_PGD:
    case PACKET_FUP:
        step.sub = 0;
        step.flag = packet_has_ip(packet);
        step.value = packet->ip;
        break;
    case PACKET_PIP: /* NR is a case of its own */
        step.flag = false;
        step.value = packet->value;
        break;
    case PACKET_MODE:
    case PACKET_TRACESTOP:
    case PACKET_OVF:
    case PACKET_PTW:
    case PACKET_CFE:
    case PACKET_EVD:
        step.value = packet->value;
        break;
    default:
        return;
    }
    add(&found, step);
}

static bool counts(const struct packet *packet)
{
    if (packet->kind == PACKET_PIP && only_cr3 && packet->value != only_cr3)
        return false;
    return !packet->in_psb && !ignored[packet->kind];
}

static void find_flow(void)
{
    found.count = 0;
    found.full = false;
    for (unsigned i = 0; i < trace.count; i++)
        if (counts(&trace.packets[i]))
            find_packet(&trace.packets[i]);
}

/* ---- Comparison --------------------------------------------------------------------------- */

static bool same(const struct step *a, const struct step *b)
{
    return a->kind == b->kind && a->sub == b->sub && a->flag == b->flag && a->value == b->value;
}

/* A MODE.Exec that nobody asked for, and that says nothing new. */
static bool is_needless(const struct step *step)
{
    return step->kind == PACKET_MODE && MODE_LEAF(step->value) == LEAF_EXEC &&
           (step->value & EXEC_MODE_BITS) == EXEC_64;
}

/* Drops the MODE.Exec packets of the flow that was found where none is expected. */
static void drop_needless(void)
{
    unsigned kept = 0, at = 0;

    for (unsigned i = 0; i < found.count; i++) {
        bool wanted = at < expected.count && expected.steps[at].kind == PACKET_MODE;

        if (is_needless(&found.steps[i]) && !wanted)
            continue;
        found.steps[kept++] = found.steps[i];
        at++;
    }
    found.count = kept;
}

/* Each run of results and TIPs: the results first, then the TIPs (33.4.2.3). */
static void defer_tips(struct flow *flow)
{
    static struct step tips[MAX_STEPS];
    unsigned at = 0;

    while (at < flow->count) {
        unsigned kept = at, count = 0;

        for (; at < flow->count; at++) {
            if (flow->steps[at].kind == PACKET_TIP)
                tips[count++] = flow->steps[at];
            else if (flow->steps[at].kind == PACKET_TNT)
                flow->steps[kept++] = flow->steps[at];
            else
                break;
        }
        for (unsigned i = 0; i < count; i++)
            flow->steps[kept++] = tips[i];
        at++;
    }
}

/* From step *at to behind the next TIP; the results on the way. */
static unsigned bits_to_tip(const struct flow *flow, unsigned *at)
{
    unsigned bits = 0;

    while (*at < flow->count && flow->steps[*at].kind != PACKET_TIP)
        bits += flow->steps[(*at)++].kind == PACKET_TNT;
    ++*at;
    return bits;
}

/* Whether TIPs come late only, as deferred ones do; none may overtake a result before it. */
static bool tips_are_late(void)
{
    unsigned at_found = 0, at_expected = 0, found_bits = 0, expected_bits = 0;

    while (at_expected < expected.count && at_found < found.count) {
        found_bits += bits_to_tip(&found, &at_found);
        expected_bits += bits_to_tip(&expected, &at_expected);
        if (found_bits < expected_bits)
            return false;
    }
    return true;
}

static bool matches(unsigned first)
{
    if (found.full || expected.full || first + found.count > expected.count)
        return false;
    for (unsigned i = 0; i < found.count; i++)
        if (!same(&found.steps[i], &expected.steps[first + i]))
            return false;
    return true;
}

/* ---- Report ------------------------------------------------------------------------------- */

static const char *step_name(const struct step *step)
{
    static const char *const names[PACKET_KINDS] = {
        [PACKET_TIP] = "TIP",        [PACKET_TIP_PGE] = "TIP.PGE", [PACKET_TIP_PGD] = "TIP.PGD",
        [PACKET_FUP] = "FUP",        [PACKET_PIP] = "PIP",         [PACKET_MODE] = "MODE",
        [PACKET_TRACESTOP] = "STOP", [PACKET_OVF] = "OVF",         [PACKET_PTW] = "PTW",
        [PACKET_CFE] = "CFE",        [PACKET_EVD] = "EVD",
    };

    return names[step->kind];
}

static void show_step(const struct step *step, bool in_tnt)
{
    if (step->kind == PACKET_TNT) {
        printf("%s%c", in_tnt ? "" : " ", step->value ? 'T' : 'N');
        return;
    }
    printf(" %s", step_name(step));
    if (step->kind == PACKET_CFE || step->kind == PACKET_EVD || step->kind == PACKET_PTW)
        printf(".%u", step->sub);
    if (step->flag || step->value)
        printf("(%s%lx)", step->kind >= PACKET_PTW && step->flag ? "ip " : "", step->value);
    else
        printf("()");
}

/* The steps around the first one that differs. */
static void show(const char *what, const struct flow *flow, unsigned from)
{
    printf("    %s:%s", what, from ? " ..." : "");
    for (unsigned i = from; i < flow->count && i < from + SHOWN_STEPS; i++)
        show_step(&flow->steps[i], i > from && flow->steps[i - 1].kind == PACKET_TNT);
    printf("%s\n", flow->count > from + SHOWN_STEPS ? " ..." : "");
}

static void show_difference(unsigned first)
{
    unsigned at = 0;

    while (at < found.count && first + at < expected.count &&
           same(&found.steps[at], &expected.steps[first + at]))
        at++;
    at = at > SHOWN_STEPS / 2 ? at - SHOWN_STEPS / 2 : 0;
    show("got ", &found, at);
    show("want", &expected, first + at);
    if (trace.damaged)
        printf("    the buffer holds bytes that are no packet\n");
}

static void check(bool begins, bool ends, const char *format, va_list *args)
{
    unsigned first = 0;
    bool pass;

    find_flow();
    drop_needless();
    if (ends && !begins && found.count <= expected.count)
        first = expected.count - found.count;
    pass = matches(first);
    if (!pass && begins && ends && tips_are_late()) {
        defer_tips(&found);
        defer_tips(&expected);
        pass = matches(first);
    }
    pass = pass && found.count && (begins != ends || found.count == expected.count);
    /* What the end of the buffer cuts off is no damage. */
    pass = pass && (!trace.damaged || !ends);
    vreport(pass, format, args);
    if (!pass)
        show_difference(first);
}

void check_flow(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    check(true, true, format, &args);
    va_end(args);
}

void check_flow_begins(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    check(true, false, format, &args);
    va_end(args);
}

void check_flow_ends(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    check(false, true, format, &args);
    va_end(args);
}
