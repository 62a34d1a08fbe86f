/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest's packets, see cut.h. */
#include "hostpt/cut.h"
#include "pt_packets.h"
#include "ptdec.h"

#define MODE_64 PT_MODE_EXEC_CSL /* until a MODE.Exec says otherwise */
/* A reader of the guest's trace then has all of what is in front. */
#define PADS_BEHIND (PTD_PACKET_MARGIN + PT_PACKET_MAX)

enum where { UNKNOWN, IN_HOST, ENTERING, IN_GUEST, IN_OTHER };
enum whose { OURS, ANOTHERS, NOT_SURE };

struct piece {
    struct cut *cut;
    struct bytes *guest;
    const struct pt_piece *of;
    const uint8_t *bytes;
    bool has_begun; /* the packet is not in front of the piece */
    bool no_memory;
};

static void put(struct piece *piece, const uint8_t *bytes, size_t len)
{
    if (!bytes_add(piece->guest, bytes, len))
        piece->no_memory = true;
}

static void put_same(struct piece *piece, const struct ptd_packet *packet)
{
    put(piece, piece->bytes + packet->offset, packet->size_bytes);
}

/* ---- Packets of our own ---- */

static void put_ip(struct piece *piece, uint8_t opcode, uint64_t ip)
{
    uint8_t bytes[9] = {(uint8_t)(opcode | PT_IPB_FULL << PT_IPBYTES_SHR)};

    for (unsigned i = 0; i < 8; i++)
        bytes[1 + i] = (uint8_t)(ip >> (8 * i));
    put(piece, bytes, sizeof(bytes));
}

static void put_pip(struct piece *piece, uint64_t cr3, bool nr)
{
    const uint64_t payload = cr3 >> PT_PIP_CR3_SHR << PT_PIP_SHL | (nr ? PT_PIP_NR : 0);
    uint8_t bytes[PT_PIP_LEN] = {PT_OPC_EXT, PT_EXT_PIP};

    for (unsigned i = 0; i < PT_PIP_LEN - 2; i++)
        bytes[2 + i] = (uint8_t)(payload >> (8 * i));
    put(piece, bytes, sizeof(bytes));
}

static void put_mode(struct piece *piece)
{
    const uint8_t bytes[PT_MODE_LEN] = {PT_OPC_MODE, piece->cut->mode};

    put(piece, bytes, sizeof(bytes));
    piece->cut->mode_told = piece->cut->mode;
}

static void put_begin(struct piece *piece)
{
    uint8_t bytes[PT_PSB_LEN + PT_EXT_LEN];

    for (unsigned i = 0; i < sizeof(bytes); i += 2) {
        bytes[i] = PT_OPC_EXT;
        bytes[i + 1] = i < PT_PSB_LEN ? PT_EXT_PSB : PT_EXT_PSBEND;
    }
    put(piece, bytes, sizeof(bytes));
    piece->cut->begun = true;
    piece->cut->mode_told = MODE_64;
}

/* ---- Whose ---- */

void cut_forget(struct cut *cut)
{
    *cut = (struct cut){.has_vmcs = cut->has_vmcs, .vmcs = cut->vmcs};
}

/* The guest that is entered. */
static enum whose whose(const struct piece *piece)
{
    struct cut *const cut = piece->cut;

    if (!piece->of->is_shared)
        return OURS;
    if (!piece->has_begun)
        return ANOTHERS;
    if (piece->of->alone) {
        if (cut->has_current)
            cut->vmcs = cut->current;
        cut->has_vmcs = cut->has_vmcs || cut->has_current;
        return OURS;
    }
    if (!cut->has_vmcs || !cut->has_current)
        return NOT_SURE;
    return cut->current == cut->vmcs ? OURS : ANOTHERS;
}

static void take_vmcs(struct cut *cut, const struct ptd_packet *packet)
{
    cut->has_current = true;
    cut->current = packet->vmcs;
}

/* ---- Transitions ---- */

static bool take_exit(struct piece *piece)
{
    const uint8_t end = PT_TIP_PGD; /* without an IP */

    if (!piece->cut->has_fup)
        return false;
    put(piece, &end, 1);
    put_pip(piece, 0, false);
    piece->cut->exits++;
    piece->cut->where = IN_HOST;
    return true;
}

/* A PIP with NR, in the host. False: nobody knows which guest it is. */
static bool enter(struct piece *piece, const struct ptd_packet *packet)
{
    const enum whose guest = whose(piece);

    piece->cut->where = guest == OURS ? ENTERING : IN_OTHER;
    piece->cut->cr3 = packet->pip.cr3;
    return guest != NOT_SURE;
}

static bool take_pip(struct piece *piece, const struct ptd_packet *packet)
{
    struct cut *const cut = piece->cut;
    const bool nr = packet->pip.nr, in_psb = cut->in_psb;
    const enum where where = (enum where)cut->where;

    if (in_psb) {
        cut->has_nr = true;
        cut->nr = nr;
    }
    switch (where) {
    case UNKNOWN:
        cut->cr3 = packet->pip.cr3;
        return true;
    case IN_OTHER:
        if (!nr && !in_psb)
            cut->where = IN_HOST;
        return nr || !in_psb;
    case IN_GUEST:
        if (nr)
            put_pip(piece, packet->pip.cr3, true);
        else
            return !in_psb && take_exit(piece);
        return true;
    case IN_HOST:
    case ENTERING:
        break;
    }
    if (in_psb)
        return !nr;
    if (nr)
        return enter(piece, packet);
    cut->where = IN_HOST;
    cut->cr3 = packet->pip.cr3;
    return true;
}

static void take_entry(struct piece *piece, uint64_t ip)
{
    struct cut *const cut = piece->cut;

    put_pip(piece, cut->cr3, true);
    if (cut->mode != cut->mode_told)
        put_mode(piece);
    put_ip(piece, PT_TIP_PGE, ip);
    cut->where = IN_GUEST;
    cut->has_fup = false;
}

/* ---- IPs ---- */

static bool take_tip(struct piece *piece, bool has_ip, uint64_t ip)
{
    switch ((enum where)piece->cut->where) {
    case ENTERING:
        if (has_ip)
            take_entry(piece, ip);
        return has_ip;
    case IN_GUEST:
        put_ip(piece, PT_TIP, ip);
        piece->cut->has_fup = false;
        return has_ip;
    case IN_HOST:
    case IN_OTHER:
    case UNKNOWN:
        break;
    }
    return true;
}

static bool take_ip(struct piece *piece, const struct ptd_packet *packet)
{
    struct cut *const cut = piece->cut;
    uint64_t ip = 0;
    const bool has_ip = ptd_packet_ip(packet, &cut->last_ip, &ip) == PTD_OK;

    if (cut->in_psb && has_ip) {
        cut->has_psb_ip = true;
        cut->psb_ip = ip;
    }
    if (packet->type == PTD_TIP)
        return take_tip(piece, has_ip, ip);
    if (packet->type != PTD_FUP) /* tracing begins and ends in the host */
        return cut->where == IN_HOST || cut->where == UNKNOWN;
    if (cut->where != IN_GUEST)
        return true;
    put_ip(piece, PT_FUP, ip);
    cut->has_fup = cut->has_fup || !cut->in_psb;
    return has_ip;
}

/* ---- All packets ---- */

static void take_mode(struct piece *piece, const struct ptd_packet *packet)
{
    piece->cut->mode = piece->bytes[packet->offset + 1];
    if (piece->cut->where == IN_GUEST)
        put_mode(piece);
}

/* A PSB+ has told who runs. */
static void find_out(struct piece *piece)
{
    struct cut *const cut = piece->cut;

    if (!cut->nr)
        cut->where = IN_HOST;
    else if (piece->of->is_shared)
        cut->where = IN_OTHER; /* in front of the piece */
    else if (cut->has_psb_ip)
        take_entry(piece, cut->psb_ip);
}

static void take_psb(struct piece *piece, const struct ptd_packet *packet)
{
    struct cut *const cut = piece->cut;

    cut->in_psb = packet->type == PTD_PSB;
    if (cut->where == IN_GUEST)
        put_same(piece, packet);
    if (cut->in_psb) {
        cut->last_ip = 0;
        cut->has_nr = cut->has_psb_ip = false;
    } else if (cut->where == UNKNOWN && cut->has_nr) {
        find_out(piece);
    }
}

static void take_of_guest(struct piece *piece, const struct ptd_packet *packet)
{
    if (piece->cut->where == IN_GUEST)
        put_same(piece, packet);
}

/* False: nothing is sure from here on. */
static bool take(struct piece *piece, const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PSB:
    case PTD_PSBEND:
        take_psb(piece, packet);
        return true;
    case PTD_TSC:
    case PTD_TMA:
    case PTD_MTC:
    case PTD_CYC:
    case PTD_CBR:
        put_same(piece, packet);
        return true;
    case PTD_PIP:
        return take_pip(piece, packet);
    case PTD_MODE_EXEC:
        take_mode(piece, packet);
        return true;
    case PTD_TNT:
    case PTD_MODE_TSX:
    case PTD_PTW:
        take_of_guest(piece, packet);
        return true;
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_TIP_PGD:
    case PTD_FUP:
        return take_ip(piece, packet);
    case PTD_OVF:
    case PTD_TRACESTOP:
        return false;
    case PTD_VMCS: /* it is the host's */
        take_vmcs(piece->cut, packet);
        return true;
    default: /* others are not enabled */
        return true;
    }
}

/* Of a processor's trace, each piece has what is needed to be known. */
static void begin(struct piece *piece)
{
    struct cut *const cut = piece->cut;

    if (piece->of->is_shared) {
        cut->where = UNKNOWN;
        cut->in_psb = cut->has_fup = cut->has_current = false;
        cut->last_ip = 0;
    }
    if (!cut->begun)
        put_begin(piece);
    if (cut->where == UNKNOWN)
        cut->mode = MODE_64;
}

/* A piece of a processor's trace begins in the host. */
static bool begins_well(struct piece *piece, const struct ptd_packet *packet)
{
    if (piece->has_begun || packet->offset < piece->of->begin)
        return true;
    piece->has_begun = true;
    return piece->cut->where == IN_HOST;
}

/* Many packets of the host are short TNTs, which say nothing here. */
static void pass_tnts(const struct cut *cut, struct ptd_packets *packets)
{
    while (cut->where == IN_HOST && packets->pos < packets->end && !packets->bip_bytes &&
           pt_is_tnt8(*packets->pos))
        packets->pos++;
}

enum cut_end cut_take(struct cut *cut, const struct pt_piece *of, struct bytes *guest)
{
    static const uint8_t pads[PADS_BEHIND];
    struct piece piece = {
        .cut = cut, .guest = guest, .of = of, .bytes = of->bytes, .has_begun = !of->is_shared};
    struct ptd_packets packets;
    struct ptd_packet packet;
    bool sure = true;
    int status;

    begin(&piece);
    ptd_packets_init(&packets, of->bytes, of->len);
    status = cut->where == UNKNOWN ? ptd_packets_sync(&packets) : PTD_OK;
    while (sure && status == PTD_OK && !piece.no_memory) {
        status = ptd_packets_next(&packets, &packet);
        if (status == PTD_OK)
            sure = begins_well(&piece, &packet) && take(&piece, &packet);
        pass_tnts(cut, &packets);
    }
    put(&piece, pads, sizeof(pads));
    if (piece.no_memory)
        return CUT_NO_MEMORY;
    return sure && status == PTD_END && cut->where == IN_HOST ? CUT_WHOLE : CUT_LOST;
}
