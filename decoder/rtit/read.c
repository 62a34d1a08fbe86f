/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The half of the RTIT flow decoder that reads packets: which belong together (RTIT v1.05, Table
 * 19), what they bind to, overflow (4.2.5) and TraceStop (4.2.11).
 */
#include "rtit/read.h"
#include "rtit/time.h"

#define MAX_PSBS 2u /* at a stream boundary there may be more than one (4.2.1) */

static void push_at(struct ptd_rtit_flow *flow, enum ptd_item_type type, uint64_t offset,
                    uint64_t to)
{
    struct ptd_item *const item = ptd_rtit_push(flow, type, offset);

    item->has_to = true;
    item->to = to;
}

/* ---- The iterator ---- */

static int next_packet(struct ptd_rtit_flow *flow, struct ptd_rtit_packet *packet)
{
    const int status = ptd_rtit_packets_next(&flow->packets, packet);

    if (status == PTD_OK && flow->since_psb <= RTIT_PSB_SHADOW)
        flow->since_psb++;
    return status;
}

/* Puts a packet back: something has to be bound before it counts. */
static void unread(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    (void)ptd_rtit_packets_seek(&flow->packets, packet->offset);
}

/* The next packet that belongs to the flow, without reading it. */
static int look_ahead(const struct ptd_rtit_flow *flow, struct ptd_rtit_packet *packet)
{
    struct ptd_rtit_packets packets = flow->packets;
    int status;

    do
        status = ptd_rtit_packets_next(&packets, packet);
    while (status == PTD_OK && (packet->type == PTD_RTIT_PSB || packet->type == PTD_RTIT_MTC ||
                                packet->type == PTD_RTIT_STS || packet->type == PTD_RTIT_PCC));
    return status;
}

static bool comes_next(const struct ptd_rtit_flow *flow, enum ptd_rtit_type type)
{
    struct ptd_rtit_packet packet;

    return look_ahead(flow, &packet) == PTD_OK && packet.type == type;
}

/* Bytes that are no packet. */
static void fail_at_bytes(struct ptd_rtit_flow *flow, int error)
{
    const uint64_t offset = ptd_rtit_packets_offset(&flow->packets);

    (void)ptd_rtit_packets_seek(&flow->packets, offset + 1);
    flow->since_psb = RTIT_PSB_SHADOW + 1;
    flow->time.has_tsc = false;
    ptd_rtit_fail(flow, error, offset);
    (void)ptd_rtit_packets_seek(&flow->packets, flow->trusted_from);
}

static void contradiction(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    ptd_rtit_fail(flow, PTD_E_MISMATCH, packet->offset);
}

/* ---- Branches ---- */

static void read_tnt(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    switch ((enum rtit_state)flow->state) {
    case RTIT_LOST:
        break;
    case RTIT_DISABLED:
        /* Left of a stretch that TraceStop ended, and read there already (4.2.8). */
        if (!comes_next(flow, PTD_RTIT_PGE))
            contradiction(flow, packet);
        break;
    case RTIT_TRACING:
        flow->tnt_bits = packet->tnt.bits;
        flow->tnt_count = packet->tnt.count;
        flow->overflowed = false;
        break;
    }
}

/* Decoding begins here. */
static void begin(struct ptd_rtit_flow *flow, uint64_t offset, uint64_t ip)
{
    push_at(flow, PTD_ITEM_ENABLED, offset, ip);
    ptd_rtit_arrive(flow, ip);
}

static void read_tip(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet, uint64_t lip)
{
    const bool overflowed = flow->overflowed;

    flow->overflowed = false;
    switch ((enum rtit_state)flow->state) {
    case RTIT_LOST:
        if (ptd_rtit_filter_allows(flow, lip)) /* else a FUP.PGD is next */
            begin(flow, packet->offset, lip);
        break;
    case RTIT_DISABLED:
        contradiction(flow, packet);
        break;
    case RTIT_TRACING:
        if (overflowed && lip == flow->ip)
            break; /* erratum E5 */
        flow->bind = (struct rtit_bind){
            .kind = RTIT_BIND_TIP, .offset = packet->offset, .has_to = true, .to = lip};
        break;
    }
}

/* The TIP that belongs to the FUP before it. */
static bool take_tip(struct ptd_rtit_flow *flow, uint64_t *to);

static void read_far(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet, uint64_t lip)
{
    flow->overflowed = false;
    if (flow->state == RTIT_DISABLED)
        contradiction(flow, packet);
    if (flow->state != RTIT_TRACING)
        return;
    flow->bind = (struct rtit_bind){.kind = RTIT_BIND_FAR, .offset = packet->offset, .lip = lip};
    flow->bind.has_to = take_tip(flow, &flow->bind.to);
}

/* ---- Enabling and disabling ---- */

static void read_pge(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet, uint64_t lip)
{
    if (flow->outside) {
        contradiction(flow, packet);
        return;
    }
    if (flow->state == RTIT_TRACING) {
        /* A WRMSR ended tracing and sent nothing, and another began it again (4.2.8). */
        ptd_rtit_push(flow, PTD_ITEM_DISABLED, packet->offset);
        flow->time.doubtful = true;
    }
    ptd_rtit_forget(flow);
    begin(flow, packet->offset, lip);
}

static void read_pgd(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet, uint64_t lip)
{
    uint64_t to = 0;
    bool has_to;

    flow->overflowed = false;
    if (flow->state == RTIT_DISABLED)
        return; /* erratum E2 */
    has_to = comes_next(flow, PTD_RTIT_TIP) && take_tip(flow, &to);
    if (flow->state == RTIT_LOST) {
        flow->state = RTIT_DISABLED;
        return;
    }
    flow->bind = (struct rtit_bind){.kind = RTIT_BIND_PGD,
                                    .offset = packet->offset,
                                    .lip = lip,
                                    .has_to = has_to,
                                    .to = has_to ? to : 0};
}

/* FilterEn may be 0 here (4.2.5): then FUP.PGE tells where tracing goes on. */
static void read_overflow(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet,
                          uint64_t lip)
{
    ptd_rtit_forget(flow);
    flow->has_call = false;
    flow->state = RTIT_DISABLED;
    push_at(flow, PTD_ITEM_OVERFLOW, packet->offset, lip);
    if (ptd_rtit_filter_allows(flow, lip) && !comes_next(flow, PTD_RTIT_PGE)) {
        ptd_rtit_arrive(flow, lip);
        flow->overflowed = true;
    }
}

/* ---- TraceStop ---- */

/* TNT bits that no packet held when tracing ended: now in RTIT_TNT_BUFF, or sent with FUP.PGE. */
static void take_rest(struct ptd_rtit_flow *flow)
{
    struct ptd_rtit_packet packet;
    const uint8_t rest = flow->config.tnt_buff & 0x7f;
    const int status = look_ahead(flow, &packet);

    if (status == PTD_OK && packet.type == PTD_RTIT_TNT) {
        flow->tnt_bits = packet.tnt.bits;
        flow->tnt_count = packet.tnt.count;
    } else if (status == PTD_END && rest > 1) {
        while (rest >> (flow->tnt_count + 1))
            flow->tnt_count++;
        flow->tnt_bits = (uint8_t)(rest & ((1u << flow->tnt_count) - 1));
    }
}

/*
 * TraceStop ends tracing where a stop range is entered. No address tells where that was, and in an
 * overflow nothing does: the packet stands behind FUP.BuffOvf then, or with erratum E4 before it,
 * and tracing goes on.
 */
static void read_stop(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    flow->time.doubtful = true;
    if (flow->state == RTIT_TRACING && !flow->overflowed && !flow->outside &&
        !comes_next(flow, PTD_RTIT_OVF)) {
        flow->bind = (struct rtit_bind){.kind = RTIT_BIND_STOP, .offset = packet->offset};
        take_rest(flow);
        return;
    }
    ptd_rtit_forget(flow);
    if (packet->offset >= flow->trusted_from)
        flow->state = RTIT_DISABLED;
    ptd_rtit_push(flow, PTD_ITEM_STOP, packet->offset);
}

/* ---- Paging ---- */

static void read_pip(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    if (flow->state != RTIT_TRACING) {
        ptd_rtit_set_paging(flow, packet->offset, packet->pip.cr3, packet->pip.paging);
        return;
    }
    flow->bind = (struct rtit_bind){.kind = RTIT_BIND_PIP,
                                    .offset = packet->offset,
                                    .cr3 = packet->pip.cr3,
                                    .paging = packet->pip.paging};
}

/* What comes at any time, and is no part of the flow. */
static bool read_aside(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    ptd_rtit_read_time(flow, packet);
    if (packet->type == PTD_RTIT_PSB) {
        flow->since_psb = 0;
        flow->time.doubtful |= flow->state == RTIT_DISABLED;
        ptd_rtit_push(flow, PTD_ITEM_PSB, packet->offset);
    }
    return packet->type == PTD_RTIT_PSB || packet->type == PTD_RTIT_MTC ||
           packet->type == PTD_RTIT_STS;
}

static bool take_tip(struct ptd_rtit_flow *flow, uint64_t *to)
{
    struct ptd_rtit_packet packet;
    unsigned psbs = 0;

    while (next_packet(flow, &packet) == PTD_OK) {
        if (packet.type == PTD_RTIT_TIP) {
            ptd_rtit_read_time(flow, &packet);
            return ptd_rtit_packet_lip(&packet, &flow->last_lip, to) == PTD_OK;
        }
        if (packet.type != PTD_RTIT_PSB || psbs++ == MAX_PSBS) {
            unread(flow, &packet);
            break;
        }
        (void)read_aside(flow, &packet);
    }
    return false;
}

/* ---- Reading ---- */

static void read_pcc(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet, bool has_lip,
                     uint64_t lip)
{
    struct ptd_item *const item = ptd_rtit_push_packet(flow, packet);

    item->has_from = has_lip;
    item->from = has_lip ? lip : 0;
}

static void read_lip(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet)
{
    uint64_t lip = 0;
    const bool has_lip = packet->offset >= flow->trusted_from &&
                         ptd_rtit_packet_lip(packet, &flow->last_lip, &lip) == PTD_OK;

    if (packet->type == PTD_RTIT_PCC) {
        read_pcc(flow, packet, has_lip, lip);
        return;
    }
    if (!has_lip)
        return; /* the state is LOST, and remains so */
    switch (packet->type) {
    case PTD_RTIT_TIP:
        read_tip(flow, packet, lip);
        break;
    case PTD_RTIT_FAR:
        read_far(flow, packet, lip);
        break;
    case PTD_RTIT_PGE:
        read_pge(flow, packet, lip);
        break;
    case PTD_RTIT_PGD:
        read_pgd(flow, packet, lip);
        break;
    default:
        read_overflow(flow, packet, lip);
        break;
    }
}

static void end(struct ptd_rtit_flow *flow)
{
    flow->ended = true;
    if (flow->state == RTIT_TRACING && !flow->outside)
        take_rest(flow);
}

void ptd_rtit_read(struct ptd_rtit_flow *flow)
{
    struct ptd_rtit_packet packet;
    const int status = next_packet(flow, &packet);

    if (status == PTD_END) {
        end(flow);
        return;
    }
    if (status != PTD_OK) {
        fail_at_bytes(flow, status);
        return;
    }
    if (read_aside(flow, &packet))
        return;
    switch (packet.type) {
    case PTD_RTIT_TNT:
        read_tnt(flow, &packet);
        break;
    case PTD_RTIT_PIP:
        read_pip(flow, &packet);
        break;
    case PTD_RTIT_STOP:
        read_stop(flow, &packet);
        break;
    default:
        read_lip(flow, &packet);
        break;
    }
}
