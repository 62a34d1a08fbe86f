/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The half of the flow decoder that reads packets: which belong together (SDM 33.4.1, Table 33-14),
 * what they bind to, PSB+ (33.3.7), overflow (33.3.8) and going on after errors.
 */
#include <stdlib.h>
#include <string.h>

#include "flow/flow.h"
#include "code/image.h"
#include "pt_packets.h"
#include "whole/stream.h"

/* So much in front of what is read is kept of a trace that comes in pieces, at most. */
#define BACK_MAX (64u << 10)

/* ---- Items ---- */

struct ptd_item *ptd_flow_push(struct ptd_flow *flow, enum ptd_item_type type, uint64_t offset)
{
    struct ptd_item *const item = &flow->items[flow->item_count++];

    memset(item, 0, sizeof(*item));
    item->type = (uint8_t)type;
    item->offset = offset;
    item->cr3 = flow->cr3;
    item->nr = flow->nr;
    item->mode = flow->mode;
    return item;
}

void ptd_flow_push_packet(struct ptd_flow *flow, const struct ptd_packet *packet,
                          const uint64_t *ip)
{
    const bool ptw = packet->type == PTD_PTW;
    struct ptd_item *const item =
        ptd_flow_push(flow, ptw ? PTD_ITEM_PTWRITE : PTD_ITEM_PACKET, packet->offset);

    item->packet = *packet;
    if (ptw)
        item->value = packet->ptw.payload;
    if (ip) {
        item->has_from = true;
        item->from = *ip;
    }
}

static void push_value(struct ptd_flow *flow, enum ptd_item_type type,
                       const struct ptd_packet *packet, uint64_t value)
{
    ptd_flow_push(flow, type, packet->offset)->value = value;
}

/* ---- State ---- */

/* CR3 in the address spaces of the image: whose it is, NR and the VMCS say. */
static void set_space(struct ptd_flow *flow, uint64_t cr3)
{
    flow->cr3 = ptd_image_space(flow->blocks.image, flow->nr, flow->vmcs, cr3);
}

static void set_cr3(struct ptd_flow *flow, uint64_t offset, uint64_t cr3, bool nr)
{
    flow->nr = nr;
    set_space(flow, cr3);
    ptd_flow_push(flow, PTD_ITEM_CR3, offset)->value = cr3;
}

static void set_vmcs(struct ptd_flow *flow, uint64_t offset, uint64_t vmcs)
{
    flow->vmcs = vmcs;
    if (flow->nr)
        set_space(flow, ptd_space_cr3(flow->cr3));
    ptd_flow_push(flow, PTD_ITEM_VMCS, offset)->value = vmcs;
}

static void set_mode(struct ptd_flow *flow, uint64_t offset, uint8_t mode)
{
    flow->mode = mode;
    ptd_flow_push(flow, PTD_ITEM_MODE, offset)->value = mode;
}

static void set_tsx(struct ptd_flow *flow, uint64_t offset, uint8_t tsx)
{
    flow->tsx = tsx;
    ptd_flow_push(flow, PTD_ITEM_TSX, offset)->value = tsx;
}

static uint8_t exec_mode(const struct ptd_packet *packet)
{
    if (packet->mode_exec.csl)
        return PTD_MODE_64;
    return packet->mode_exec.csd ? PTD_MODE_32 : PTD_MODE_16;
}

static uint8_t tsx_state(const struct ptd_packet *packet)
{
    return (uint8_t)(packet->mode_tsx.in_tx | packet->mode_tsx.abort << 1);
}

static void clear_bind(struct ptd_flow *flow)
{
    memset(&flow->bind, 0, sizeof(flow->bind));
}

void ptd_flow_settle(struct ptd_flow *flow)
{
    const struct bind bind = flow->bind;

    clear_bind(flow);
    flow->deferred = false;
    if (bind.has_vmcs)
        set_vmcs(flow, bind.offset, bind.vmcs);
    if (bind.has_cr3)
        set_cr3(flow, bind.offset, bind.cr3, bind.nr);
    if (bind.has_mode)
        set_mode(flow, bind.offset, bind.mode);
    if (bind.has_tsx)
        set_tsx(flow, bind.offset, bind.tsx);
}

/* ---- Errors ---- */

/*
 * Damage may have made a packet out of bytes of which some begin the next PSB: it is looked for
 * from a little before the error on, but not so far that a PSB comes twice.
 */
static uint64_t where_to_look(const struct ptd_flow *flow, uint64_t offset)
{
    const uint64_t before = offset < PT_PSB_LEN ? 0 : offset - (PT_PSB_LEN - 1);

    return before > flow->behind_psb ? before : flow->behind_psb;
}

/* Goes to the next PSB, and tells what was lost on the way there. */
static void search_psb(struct ptd_flow *flow)
{
    struct ptd_packets *const packets = &flow->packets;
    struct ptd_item *const lost = &flow->lost;

    if (flow->more && !ptd_packets_sync_part(packets)) {
        flow->starved = true;
        return;
    }
    flow->searching = false;

    const bool found = ptd_packets_sync(packets) == PTD_OK; /* else it stands at the end */

    if (ptd_packets_offset(packets) > lost->offset)
        lost->value = ptd_packets_offset(packets) - lost->offset;
    if (lost->error != PTD_E_NOSYNC || (!found && lost->value > 0))
        flow->items[flow->item_count++] = *lost;
}

static void begin_search(struct ptd_flow *flow, int error, uint64_t offset)
{
    flow->lost = *ptd_flow_push(flow, PTD_ITEM_ERROR, offset);
    flow->lost.error = error;
    flow->item_count--;
    flow->searching = true;
    search_psb(flow);
}

void ptd_flow_fail(struct ptd_flow *flow, int error, uint64_t offset)
{
    uint64_t from = where_to_look(flow, offset);

    clear_bind(flow);
    flow->tracing = flow->deferred = flow->in_psb = flow->overflowed = false;
    flow->tnt_count = 0;
    flow->ret_count = 0;
    flow->fresh = true;
    flow->in_first_psb = false;
    if (from < flow->packets.base)
        from = flow->packets.base;
    (void)ptd_packets_seek(&flow->packets, from);
    begin_search(flow, error, offset);
}

static void contradiction(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    ptd_flow_fail(flow, PTD_E_MISMATCH, packet->offset);
}

/* Puts a packet back: something has to be bound before it counts. */
static void unread(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    flow->packets.pos = flow->packets.begin + (packet->offset - flow->packets.base);
}

/* ---- PSB+ ---- */

void ptd_flow_enter_psb(struct ptd_flow *flow)
{
    struct ptd_packet packet;
    struct ptd_item *item;

    if (ptd_packets_offset(&flow->packets) >= flow->stop) {
        flow->ended = true;
        return;
    }
    flow->psb_has_ip = ptd_ahead_psb_ip(flow->packets, &flow->psb_ip) == AHEAD_FUP;
    if (flow->psb_has_ip && !flow->tracing && flow_has(flow, PTD_BDM70) &&
        ptd_ahead_enabling_behind_psb(flow->packets))
        flow->psb_has_ip = false;
    if (ptd_packets_next(&flow->packets, &packet) != PTD_OK)
        return;
    flow->behind_psb = packet.offset + 1;
    clear_bind(flow);
    flow->in_psb = true;
    flow->last_ip = 0;
    flow->ret_count = 0; /* 33.4.2.2: a PSB empties the CALL stack */
    item = ptd_flow_push(flow, PTD_ITEM_PSB, packet.offset);
    item->has_to = flow->psb_has_ip;
    item->to = flow->psb_has_ip ? flow->psb_ip : 0;
}

static void read_psb(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    uint64_t ip;

    unread(flow, packet);
    if (!flow->tracing) {
        ptd_flow_enter_psb(flow);
        return;
    }
    switch (ptd_ahead_psb_ip(flow->packets, &ip)) {
    case AHEAD_FUP:
        flow->bind.kind = BIND_PSB;
        flow->bind.ip = ip;
        flow->bind.ready = true;
        flow->bind.offset = packet->offset;
        break;
    case AHEAD_NOTHING: /* it says that PacketEn is 0 */
        contradiction(flow, packet);
        break;
    case AHEAD_LOST:
        flow->tracing = false;
        ptd_flow_enter_psb(flow);
        break;
    }
}

static void end_psb(struct ptd_flow *flow)
{
    if (flow->in_first_psb)
        flow->first_psb_end = ptd_packets_offset(&flow->packets);
    flow->in_first_psb = false;
    flow->in_psb = flow->fresh = false;
    flow->tracing = flow->psb_has_ip;
    if (flow->tracing) {
        flow->ip = flow->psb_ip;
        ptd_flow_reset_loop(flow);
    }
}

static void read_overflow(struct ptd_flow *flow, const struct ptd_packet *packet);

/* Which state a PSB+ tells. */
static uint8_t tells(const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PIP:
        return FLOW_TELLS_CR3;
    case PTD_MODE_EXEC:
        return FLOW_TELLS_MODE;
    case PTD_MODE_TSX:
        return FLOW_TELLS_TSX;
    case PTD_VMCS:
        return FLOW_TELLS_VMCS;
    default:
        return 0;
    }
}

/* Status only (33.3.7): nothing binds, and what is known already is no news. */
static void read_in_psb(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    uint64_t ip;

    if (flow->in_first_psb)
        flow->told |= tells(packet);
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PSBEND:
        end_psb(flow);
        break;
    case PTD_OVF:
        flow->in_psb = flow->in_first_psb = false;
        read_overflow(flow, packet);
        break;
    case PTD_FUP:
        (void)ptd_packet_ip(packet, &flow->last_ip, &ip); /* psb_ip already */
        break;
    case PTD_PIP:
        if (flow->fresh || ptd_space_cr3(flow->cr3) != packet->pip.cr3 ||
            flow->nr != packet->pip.nr)
            set_cr3(flow, packet->offset, packet->pip.cr3, packet->pip.nr);
        break;
    case PTD_VMCS:
        if (flow->fresh || flow->vmcs != packet->vmcs)
            set_vmcs(flow, packet->offset, packet->vmcs);
        break;
    case PTD_MODE_EXEC:
        if (flow->fresh || flow->mode != exec_mode(packet))
            set_mode(flow, packet->offset, exec_mode(packet));
        break;
    case PTD_MODE_TSX:
        if (flow->fresh || flow->tsx != tsx_state(packet))
            set_tsx(flow, packet->offset, tsx_state(packet));
        break;
    case PTD_TSC:
        push_value(flow, PTD_ITEM_TSC, packet, packet->tsc);
        break;
    case PTD_CBR:
        push_value(flow, PTD_ITEM_CBR, packet, packet->cbr);
        break;
    case PTD_PAD:
        break;
    case PTD_MTC:
    case PTD_TMA:
    case PTD_CYC:
    case PTD_MNT:
    case PTD_PWRE:
    case PTD_PWRX:
        ptd_flow_push_packet(flow, packet, NULL);
        break;
    default:
        contradiction(flow, packet);
        break;
    }
}

/* ---- In the stream ---- */

/* An event whose FUP was read and whose destination was not. */
static bool event_is_open(const struct ptd_flow *flow)
{
    return flow->bind.kind == BIND_ASYNC && !flow->bind.ready;
}

/* A packet of several that belong together was read, so a TNT cannot be next. */
static bool compound_is_open(const struct ptd_flow *flow)
{
    const struct bind *const bind = &flow->bind;

    return event_is_open(flow) || bind->has_cr3 || bind->has_vmcs || bind->has_mode ||
           bind->has_tsx || bind->has_packet;
}

/* Notes where a bind begins. */
static struct bind *open_bind(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!compound_is_open(flow))
        flow->bind.offset = packet->offset;
    return &flow->bind;
}

static void make_ready(struct bind *bind, enum bind_kind kind)
{
    bind->kind = (uint8_t)kind;
    bind->ready = true;
}

/* The event has no destination: INIT without SIPI yet, or packets that were lost. */
static void end_event_nowhere(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    flow->bind.end = END_NOWHERE;
    flow->bind.ready = true;
    unread(flow, packet);
}

/* Behind an overflow. */
static void go_on_at(struct ptd_flow *flow, uint64_t ip)
{
    flow->overflowed = false;
    flow->tracing = true;
    flow->ip = ip;
    ptd_flow_reset_loop(flow);
}

/* Behind an OVF that no FUP followed (SKD010): what ran is not known until an IP is. */
static bool is_without_fup(const struct ptd_flow *flow)
{
    return flow->overflowed && !flow->tracing && flow_has(flow, PTD_SKD010);
}

static void read_tnt(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (is_without_fup(flow))
        return;
    if (!flow->tracing || flow->tnt_count > 0 || compound_is_open(flow)) {
        contradiction(flow, packet);
        return;
    }
    flow->tnt_bits = packet->tnt.bits;
    flow->tnt_count = packet->tnt.count;
    flow->overflowed = false;
}

static void read_tip(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);

    if ((!flow->tracing && !is_without_fup(flow)) || bind->has_packet ||
        ptd_packet_ip(packet, &flow->last_ip, &bind->to) != PTD_OK) {
        contradiction(flow, packet);
        return;
    }
    if (!flow->tracing) {
        go_on_at(flow, bind->to);
        return;
    }
    bind->has_to = true;
    bind->end = END_TIP;
    flow->overflowed = false;
    make_ready(bind, event_is_open(flow) ? BIND_ASYNC : BIND_TIP);
}

static void read_pgd(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);

    if (flow->overflowed && !flow->tracing && flow_has(flow, PTD_APL11 | PTD_SKD010)) {
        (void)ptd_packet_ip(packet, &flow->last_ip, &bind->to);
        flow->overflowed = false;
        return;
    }
    if (!flow->tracing || flow->tnt_count > 0 || bind->has_packet) {
        contradiction(flow, packet);
        return;
    }
    bind->has_to = ptd_packet_ip(packet, &flow->last_ip, &bind->to) == PTD_OK;
    bind->end = END_PGD;
    flow->overflowed = false;
    make_ready(bind, event_is_open(flow) ? BIND_ASYNC : BIND_PGD);
}

static void read_pge(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct ptd_item *item;
    uint64_t ip;

    if (event_is_open(flow)) {
        end_event_nowhere(flow, packet);
        return;
    }
    /*
     * Broadwell (erratum BDM70) can send the PSB+ of an enabling late, as if PacketEn were 1
     * already: then the TIP.PGE has the IP of its FUP.
     */
    if (compound_is_open(flow) || ptd_packet_ip(packet, &flow->last_ip, &ip) != PTD_OK ||
        (flow->tracing && flow->ip != ip)) {
        contradiction(flow, packet);
        return;
    }
    flow->ip = ip;
    flow->tracing = true;
    flow->overflowed = false;
    flow->ret_count = 0; /* 33.4.2.2: no compression across PacketEn = 0 */
    ptd_flow_reset_loop(flow);
    item = ptd_flow_push(flow, PTD_ITEM_ENABLED, packet->offset);
    item->has_to = true;
    item->to = flow->ip;
}

/* A FUP that a packet before it announced. */
static void read_announced_fup(struct ptd_flow *flow)
{
    struct bind *const bind = &flow->bind;

    if (!flow->tracing) {
        ptd_flow_push_packet(flow, &bind->packet, &bind->ip);
        clear_bind(flow);
        return;
    }
    bind->has_ip = true;
    make_ready(bind, bind->packet.type == PTD_PTW ? BIND_PTW : BIND_MARK);
}

static void read_fup(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);
    uint64_t ip;

    if (event_is_open(flow) || ptd_packet_ip(packet, &flow->last_ip, &ip) != PTD_OK) {
        contradiction(flow, packet);
        return;
    }
    bind->ip = ip;
    if (bind->has_packet) {
        read_announced_fup(flow);
        return;
    }
    if (flow->overflowed && (!flow->tracing || flow->ip == ip) && !compound_is_open(flow)) {
        if (flow_has(flow, PTD_APL12) && ptd_ahead_enabling(flow->packets))
            flow->overflowed = false;
        else
            go_on_at(flow, ip);
        return;
    }
    if (!flow->tracing) {
        contradiction(flow, packet);
        return;
    }
    /* MODE.Exec and MODE.TSX take it, unless a transaction aborts (33.4.2.8). */
    if (bind->has_mode || (bind->has_tsx && !(bind->tsx & 2)))
        make_ready(bind, BIND_MARK);
    else
        bind->kind = BIND_ASYNC;
}

static void read_pip(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->tracing) {
        set_cr3(flow, packet->offset, packet->pip.cr3, packet->pip.nr);
        return;
    }

    const bool part = compound_is_open(flow);
    struct bind *const bind = open_bind(flow, packet);

    bind->has_cr3 = true;
    bind->cr3 = packet->pip.cr3;
    bind->nr = packet->pip.nr;
    if (!part)
        make_ready(bind, BIND_PIP);
}

static void read_vmcs(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->tracing) {
        set_vmcs(flow, packet->offset, packet->vmcs);
        return;
    }

    const bool part = compound_is_open(flow);
    struct bind *const bind = open_bind(flow, packet);

    bind->has_vmcs = true;
    bind->vmcs = packet->vmcs;
    if (!part)
        make_ready(bind, BIND_VMCS);
}

static void read_mode_exec(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->tracing) {
        set_mode(flow, packet->offset, exec_mode(packet));
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->has_mode = true;
    bind->mode = exec_mode(packet);
}

static void read_mode_tsx(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->tracing) {
        set_tsx(flow, packet->offset, tsx_state(packet));
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->has_tsx = true;
    bind->tsx = tsx_state(packet);
}

/* A packet of its own; with_ip: a FUP that says where follows. */
static void read_other(struct ptd_flow *flow, const struct ptd_packet *packet, bool with_ip)
{
    if (flow->bind.has_packet) {
        contradiction(flow, packet);
        return;
    }
    if (!with_ip) {
        ptd_flow_push_packet(flow, packet, NULL);
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->has_packet = true;
    bind->packet = *packet;
}

static void read_ptw(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (packet->ptw.ip || !flow->tracing) {
        read_other(flow, packet, packet->ptw.ip);
        return;
    }
    if (compound_is_open(flow)) {
        contradiction(flow, packet);
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->packet = *packet;
    make_ready(bind, BIND_PTW);
}

static void read_tracestop(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    ptd_flow_push(flow, PTD_ITEM_STOP, packet->offset);
    clear_bind(flow);
    flow->tracing = false;
}

static void read_overflow(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct ptd_item *item;
    uint64_t ip;

    if (event_is_open(flow)) {
        end_event_nowhere(flow, packet);
        return;
    }
    if (flow->bind.has_packet)
        ptd_flow_push_packet(flow, &flow->bind.packet, NULL);
    clear_bind(flow);
    flow->tracing = false;
    flow->overflowed = true;
    flow->ret_count = 0;
    item = ptd_flow_push(flow, PTD_ITEM_OVERFLOW, packet->offset);
    item->has_to = ptd_ahead_overflow_ip(flow->packets, flow->last_ip, &ip);
    item->to = item->has_to ? ip : 0;
}

static void read_in_stream(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TNT:
        read_tnt(flow, packet);
        break;
    case PTD_TIP:
        read_tip(flow, packet);
        break;
    case PTD_TIP_PGE:
        read_pge(flow, packet);
        break;
    case PTD_TIP_PGD:
        read_pgd(flow, packet);
        break;
    case PTD_FUP:
        read_fup(flow, packet);
        break;
    case PTD_PIP:
        read_pip(flow, packet);
        break;
    case PTD_VMCS:
        read_vmcs(flow, packet);
        break;
    case PTD_MODE_EXEC:
        read_mode_exec(flow, packet);
        break;
    case PTD_MODE_TSX:
        read_mode_tsx(flow, packet);
        break;
    case PTD_TRACESTOP:
        read_tracestop(flow, packet);
        break;
    case PTD_OVF:
        read_overflow(flow, packet);
        break;
    case PTD_PTW:
        read_ptw(flow, packet);
        break;
    case PTD_EXSTOP:
        read_other(flow, packet, packet->exstop_ip);
        break;
    case PTD_BEP:
        read_other(flow, packet, packet->bep_ip);
        break;
    case PTD_CFE:
        read_other(flow, packet, packet->cfe.ip);
        break;
    case PTD_EVD:
    case PTD_MWAIT:
    case PTD_PWRE:
    case PTD_PWRX:
    case PTD_BBP:
    case PTD_BIP:
        read_other(flow, packet, false);
        break;
    default: /* PSB, PSBEND and timing are dealt with before */
        contradiction(flow, packet);
        break;
    }
}

/* Timing packets may stand anywhere. */
static bool read_timing(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PAD:
        return true;
    case PTD_TSC:
        push_value(flow, PTD_ITEM_TSC, packet, packet->tsc);
        return true;
    case PTD_CBR:
        push_value(flow, PTD_ITEM_CBR, packet, packet->cbr);
        return true;
    case PTD_MTC:
    case PTD_TMA:
    case PTD_CYC:
    case PTD_MNT:
        ptd_flow_push_packet(flow, packet, NULL);
        return true;
    default:
        return false;
    }
}

static void read_end(struct ptd_flow *flow)
{
    if (event_is_open(flow)) {
        flow->bind.end = END_NOWHERE;
        flow->bind.ready = true;
        return;
    }
    if (flow->bind.has_packet)
        ptd_flow_push_packet(flow, &flow->bind.packet, NULL);
    clear_bind(flow);
    flow->ended = true;
}

/* Code is known before the packets of whoever runs it. False: no memory. */
static bool follow_log(struct ptd_flow *flow)
{
    bool changed;
    const int status =
        ptd_code_log_advance(flow->code_log, ptd_packets_offset(&flow->packets), &changed);

    if (changed)
        ptd_flow_notice_image(flow);
    return status == PTD_OK;
}

static void read_packet(struct ptd_flow *flow)
{
    struct ptd_packet packet;
    int status;

    if (!ptd_ahead_is_there(flow)) {
        flow->starved = true;
        return;
    }
    if (flow_log_is_due(flow) && !follow_log(flow)) {
        ptd_flow_fail(flow, PTD_E_NOMEM, ptd_packets_offset(&flow->packets));
        return;
    }
    status = ptd_packets_next(&flow->packets, &packet);
    if (status == PTD_END) {
        read_end(flow);
        return;
    }
    if (status != PTD_OK) {
        ptd_flow_fail(flow, status, ptd_packets_offset(&flow->packets));
        return;
    }
    if (flow->in_psb) {
        read_in_psb(flow, &packet);
        return;
    }
    if (read_timing(flow, &packet))
        return;
    if (flow->deferred && packet.type != PTD_TIP) {
        contradiction(flow, &packet);
        return;
    }
    if (packet.type != PTD_PSB) {
        read_in_stream(flow, &packet);
        return;
    }
    /* Every compound event is complete before a PSB (33.3.7). */
    if (compound_is_open(flow))
        contradiction(flow, &packet);
    else
        read_psb(flow, &packet);
}

/* ---- The interface ---- */

struct ptd_flow *ptd_flow_new(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                              const struct ptd_flow_config *config)
{
    struct ptd_flow *const flow = calloc(1, sizeof(*flow));

    if (!flow)
        return NULL;
    ptd_packets_init(&flow->packets, bytes, len_bytes);
    flow->code_log = ptd_image_code_log(image);
    if (flow->code_log)
        ptd_code_log_rewind(flow->code_log);
    ptd_blocks_init(&flow->blocks, image);
    if (config)
        flow->config = *config;
    else
        flow->config.mode = PTD_MODE_64;
    if (flow->config.filters > FILTERS)
        flow->config.filters = FILTERS;
    ptd_packets_set_errata(&flow->packets, flow->config.errata);
    flow->mode = (uint8_t)flow->config.mode;
    flow->cr3 = flow->config.cr3;
    flow->nr = flow->config.nr;
    flow->vmcs = flow->config.vmcs;
    if (flow->nr)
        set_space(flow, flow->config.cr3);
    flow->fresh = true;
    flow->since_mark = MARK_OTHER;
    flow->stop = UINT64_MAX;
    if (!flow->config.at_start)
        begin_search(flow, PTD_E_NOSYNC, 0);
    flow->last_ip = flow->config.last_ip;
    if (flow->config.at_start && flow->config.has_ip)
        go_on_at(flow, flow->config.ip);
    return flow;
}

void ptd_flow_begin_stream(struct ptd_flow *flow, uint64_t offset)
{
    flow->packets.base = flow->lost.offset = offset;
    flow->more = flow->starved = true;
    flow->searching = !flow->config.at_start; /* for the first PSB, still */
}

void ptd_flow_slide(struct ptd_flow *flow, const void *bytes, size_t len_bytes, uint64_t base,
                    bool more)
{
    ptd_packets_slide(&flow->packets, bytes, len_bytes, base);
    flow->more = more;
    flow->starved = false;
}

uint64_t ptd_flow_needs(const struct ptd_flow *flow)
{
    const struct bind *const bind = &flow->bind;
    const uint64_t reads_at = ptd_packets_offset(&flow->packets);
    uint64_t needs = reads_at;

    /* An error may lead back to where a compound began, see ptd_flow_fail(). */
    if ((bind->kind != BIND_NONE || compound_is_open(flow)) && bind->offset < needs)
        needs = bind->offset;
    if (needs + BACK_MAX < reads_at)
        needs = reads_at - BACK_MAX;
    return needs < PT_PSB_LEN ? 0 : needs - PT_PSB_LEN;
}

uint64_t ptd_flow_reads_at(const struct ptd_flow *flow)
{
    return ptd_packets_offset(&flow->packets);
}

struct flow_state ptd_flow_state(const struct ptd_flow *flow)
{
    return (struct flow_state){
        .offset = ptd_packets_offset(&flow->packets),
        .cr3 = flow->cr3,
        .vmcs = flow->vmcs,
        .nr = flow->nr,
        .fresh = flow->fresh,
        .mode = flow->mode,
        .tsx = flow->tsx,
        .overflowed = flow->overflowed,
        .at_mov_cr3 = flow->at_mov_cr3,
    };
}

void ptd_flow_restart(struct ptd_flow *flow, const struct flow_state *state, uint64_t stop)
{
    (void)ptd_packets_seek(&flow->packets, state->offset);
    clear_bind(flow);
    flow->cr3 = state->cr3;
    flow->vmcs = state->vmcs;
    flow->nr = state->nr;
    flow->fresh = state->fresh;
    flow->mode = state->mode;
    flow->tsx = state->tsx;
    flow->overflowed = state->overflowed;
    flow->at_mov_cr3 = state->at_mov_cr3;
    flow->tracing = flow->deferred = flow->in_psb = flow->ended = false;
    flow->tnt_count = flow->ret_count = 0;
    flow->item_next = flow->item_count = 0;
    flow->since_mark = MARK_OTHER;
    flow->stop = stop;
    flow->behind_psb = state->offset;
    flow->in_first_psb = true;
    flow->first_psb_end = 0;
    flow->told = 0;
}

void ptd_flow_free(struct ptd_flow *flow)
{
    if (!flow)
        return;
    ptd_blocks_free(&flow->blocks);
    ptd_graph_free(flow->graph);
    free(flow->targets);
    free(flow);
}

/* Whether the next packet has to be known before another instruction is. */
static bool needs_packet(const struct ptd_flow *flow)
{
    if (!flow->tracing || flow->in_psb)
        return true;
    if (flow->deferred)
        return !flow->bind.ready;
    return flow->tnt_count == 0 && !flow->bind.ready;
}

void ptd_flow_advance(struct ptd_flow *flow)
{
    flow->item_next = flow->item_count = 0;
    flow->since_mark = MARK_OTHER;
    if (flow->searching)
        search_psb(flow);
    else if (needs_packet(flow))
        read_packet(flow);
    else
        ptd_flow_walk(flow);
}

void ptd_flow_notice_image(struct ptd_flow *flow)
{
    ptd_blocks_notice(&flow->blocks);
    ptd_flow_forget_code(flow);
    ptd_flow_reset_loop(flow);
}

int ptd_flow_next_before(struct ptd_flow *flow, uint64_t offset, struct ptd_item *item)
{
    if (ptd_blocks_are_old(&flow->blocks))
        ptd_flow_notice_image(flow);
    while (flow->item_next == flow->item_count) {
        if (flow->ended)
            return PTD_END;
        if (flow->starved)
            return PTD_MORE;
        if (needs_packet(flow) && ptd_packets_offset(&flow->packets) >= offset)
            return 1;
        ptd_flow_advance(flow);
    }
    *item = flow->items[flow->item_next++];
    return PTD_OK;
}

int ptd_flow_next(struct ptd_flow *flow, struct ptd_item *item)
{
    return ptd_flow_next_before(flow, UINT64_MAX, item);
}
