/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three readers, of which none knows another: the tests' own, libptdec's and libipt's. They must
 * find the same packets at the same places, with the same fields. The flow of libptdec must find no
 * contradiction among them, whatever the settings are.
 *
 * libipt 2.0.5 knows neither CFE and EVD nor blocks: of a trace that has some, it is asked for what
 * stands in front of the first. It has no field for RFLAGS.IF, and reads PWRE.HW from another bit
 * than Table 33-43 has it in.
 */
#include "roundtrip/invariants/peers.h"

#include "ptdec.h"
#include "tests/reader.h"

#include <intel-pt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What readers say of a packet, in one form. */
struct said {
    size_t offset, len_bytes;
    enum packet_kind kind;
    uint64_t value, extra;
    bool flag;
};

static uint64_t compared[2]; /* packets of libptdec, of libipt */
static char why[256];

const char *peers_why(void)
{
    return why;
}

void peers_summary(void)
{
    printf("%" PRIu64 " packets read by libptdec as well, %" PRIu64 " by libipt\n", compared[0],
           compared[1]);
}

static bool same(const char *who, const struct said *own, const struct said *other)
{
    if (own->offset == other->offset && own->len_bytes == other->len_bytes &&
        own->kind == other->kind && own->value == other->value && own->extra == other->extra &&
        own->flag == other->flag)
        return true;
    snprintf(
        why, sizeof(why),
        "%s reads byte %zu (%zu): kind %d (%" PRIx64 ",%" PRIx64 ",%d), the tests' reader byte "
        "%zu (%zu): kind %d (%" PRIx64 ",%" PRIx64 ",%d)",
        who, other->offset, other->len_bytes, other->kind, other->value, other->extra, other->flag,
        own->offset, own->len_bytes, own->kind, own->value, own->extra, own->flag);
    return false;
}

/* ---- The tests' own ------------------------------------------------------------------------- */

static bool is_ip(enum packet_kind kind)
{
    return kind == PACKET_TIP || kind == PACKET_PGE || kind == PACKET_PGD || kind == PACKET_FUP;
}

static uint64_t raw_payload(const uint8_t *bytes, const struct packet *packet)
{
    uint64_t value = 0;

    for (size_t i = packet->len_bytes; i-- > 1;)
        value = value << 8 | bytes[packet->offset + i];
    return value;
}

static bool by_reader(struct reader *reader, struct said *said)
{
    struct packet packet;

    if (!reader_next(reader, &packet))
        return false;
    *said = (struct said){
        .offset = packet.offset,
        .len_bytes = packet.len_bytes,
        .kind = packet.kind,
        .value = packet.value,
        .extra = packet.extra,
        .flag = packet.flag,
    };
    if (is_ip(packet.kind)) {
        said->value = raw_payload(reader->bytes, &packet);
        said->extra = packet.ip_bytes;
    } else if (packet.kind == PACKET_TNT || packet.kind == PACKET_PTW) {
        said->extra = packet.bits;
    }
    return true;
}

/* ---- libptdec ------------------------------------------------------------------------------- */

static const enum packet_kind ptdec_kinds[PTD_PACKET_TYPES] = {
    [PTD_PAD] = PACKET_PAD,        [PTD_PSB] = PACKET_PSB,      [PTD_PSBEND] = PACKET_PSBEND,
    [PTD_TNT] = PACKET_TNT,        [PTD_TIP] = PACKET_TIP,      [PTD_TIP_PGE] = PACKET_PGE,
    [PTD_TIP_PGD] = PACKET_PGD,    [PTD_FUP] = PACKET_FUP,      [PTD_PIP] = PACKET_PIP,
    [PTD_MODE_EXEC] = PACKET_EXEC, [PTD_MODE_TSX] = PACKET_TSX, [PTD_TRACESTOP] = PACKET_STOP,
    [PTD_CBR] = PACKET_CBR,        [PTD_TSC] = PACKET_TSC,      [PTD_MTC] = PACKET_MTC,
    [PTD_TMA] = PACKET_TMA,        [PTD_CYC] = PACKET_CYC,      [PTD_VMCS] = PACKET_VMCS,
    [PTD_OVF] = PACKET_OVF,        [PTD_MNT] = PACKET_MNT,      [PTD_PTW] = PACKET_PTW,
    [PTD_EXSTOP] = PACKET_EXSTOP,  [PTD_MWAIT] = PACKET_MWAIT,  [PTD_PWRE] = PACKET_PWRE,
    [PTD_PWRX] = PACKET_PWRX,      [PTD_BBP] = PACKET_BBP,      [PTD_BIP] = PACKET_BIP,
    [PTD_BEP] = PACKET_BEP,        [PTD_CFE] = PACKET_CFE,      [PTD_EVD] = PACKET_EVD,
};

static void ptdec_state(const struct ptd_packet *packet, struct said *said)
{
    switch (packet->type) {
    case PTD_TNT:
        said->value = packet->tnt.bits;
        said->extra = packet->tnt.count;
        break;
    case PTD_PIP:
        said->value = packet->pip.cr3;
        said->flag = packet->pip.nr;
        break;
    case PTD_MODE_EXEC:
        said->value = (uint64_t)packet->mode_exec.csl | (uint64_t)packet->mode_exec.csd << 1 |
                      (uint64_t)packet->mode_exec.interrupts << 2;
        break;
    case PTD_MODE_TSX:
        said->value = (uint64_t)packet->mode_tsx.in_tx | (uint64_t)packet->mode_tsx.abort << 1;
        break;
    case PTD_VMCS:
        said->value = packet->vmcs >> 12;
        break;
    case PTD_TSC:
        said->value = packet->tsc;
        break;
    case PTD_MTC:
        said->value = packet->mtc;
        break;
    case PTD_TMA:
        said->value = packet->tma.ctc;
        said->extra = packet->tma.fast;
        break;
    case PTD_CYC:
        said->value = packet->cyc;
        break;
    case PTD_CBR:
        said->value = packet->cbr;
        break;
    case PTD_MNT:
        said->value = packet->mnt;
        break;
    default:
        break;
    }
}

static void ptdec_event(const struct ptd_packet *packet, struct said *said)
{
    switch (packet->type) {
    case PTD_PTW:
        said->value = packet->ptw.payload;
        said->extra = packet->ptw.payload_bytes;
        said->flag = packet->ptw.ip;
        break;
    case PTD_EXSTOP:
        said->flag = packet->exstop_ip;
        break;
    case PTD_MWAIT:
        said->value = packet->mwait.hints;
        said->extra = packet->mwait.ext;
        break;
    case PTD_PWRE:
        said->value = (uint64_t)packet->pwre.state << 4 | packet->pwre.sub_state;
        said->flag = packet->pwre.hw;
        break;
    case PTD_BBP:
        said->value = packet->bbp.type;
        said->flag = packet->bbp.item_bytes == 4;
        break;
    case PTD_BIP:
        said->value = packet->bip.payload;
        said->extra = packet->bip.id;
        break;
    case PTD_BEP:
        said->flag = packet->bep_ip;
        break;
    case PTD_CFE:
        said->value = packet->cfe.type;
        said->extra = packet->cfe.vector;
        said->flag = packet->cfe.ip;
        break;
    case PTD_EVD:
        said->value = packet->evd.payload;
        said->extra = packet->evd.type;
        break;
    default:
        break;
    }
}

static struct said by_ptdec(const struct ptd_packet *packet)
{
    struct said said = {
        .offset = packet->offset,
        .len_bytes = packet->size_bytes,
        .kind = ptdec_kinds[packet->type],
    };

    if (is_ip(said.kind)) {
        said.value = packet->ip.payload;
        said.extra = packet->ip.ip_bytes;
    } else if (packet->type == PTD_PWRX) {
        said.value = (uint64_t)packet->pwrx.last << 4 | packet->pwrx.deepest;
        said.extra = packet->pwrx.wake_reason;
    } else {
        ptdec_state(packet, &said);
        ptdec_event(packet, &said);
    }
    return said;
}

static bool ptdec_agrees(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    struct reader reader;
    struct said own;

    reader_open(&reader, bytes, len_bytes);
    ptd_packets_init(&packets, bytes, len_bytes);
    while (by_reader(&reader, &own)) {
        const int error = ptd_packets_next(&packets, &packet);
        struct said other;

        if (error != PTD_OK) {
            snprintf(why, sizeof(why), "libptdec at byte %zu of %zu: %s", own.offset, len_bytes,
                     ptd_strerror(error));
            return false;
        }
        other = by_ptdec(&packet);
        if (own.kind == PACKET_PSB || own.kind == PACKET_PAD)
            own.value = other.value = 0;
        if (!same("libptdec", &own, &other))
            return false;
        compared[0]++;
    }
    return true;
}

/*
 * Its flow, without any code: which packets may stand together does not depend on that. Where
 * PacketEn is 0, as without BranchEn, nothing is left out; elsewhere the begins are looked at.
 */
static bool ptdec_flows(const uint8_t *bytes, size_t len_bytes)
{
    const struct ptd_flow_config config = {
        .mode = PTD_MODE_64, .errata = PTD_BDM70, .resync = PTD_RESYNC_IP};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow *const flow = ptd_flow_new(bytes, len_bytes, image, &config);
    struct ptd_item item;
    bool flows = image && flow;

    while (flows && ptd_flow_next(flow, &item) == PTD_OK) {
        flows = item.type != PTD_ITEM_ERROR || item.error != PTD_E_MISMATCH || item.has_from;
        if (!flows)
            snprintf(why, sizeof(why), "libptdec's flow at byte %" PRIu64 " of %zu: %s",
                     item.offset, len_bytes, ptd_strerror(item.error));
    }
    ptd_flow_free(flow);
    ptd_image_free(image);
    return flows;
}

/* ---- libipt --------------------------------------------------------------------------------- */

/* Those of one value, and where they are alike: what is not in here is not compared. */
static bool ipt_state(const struct pt_packet *packet, struct said *said)
{
    switch (packet->type) {
    case ppt_fup:
    case ppt_tip:
    case ppt_tip_pge:
    case ppt_tip_pgd:
        said->value = packet->payload.ip.ip;
        said->extra = packet->payload.ip.ipc;
        return true;
    case ppt_tnt_8:
    case ppt_tnt_64:
        said->value = packet->payload.tnt.payload;
        said->extra = packet->payload.tnt.bit_size;
        return true;
    case ppt_pip:
        said->value = packet->payload.pip.cr3;
        said->flag = packet->payload.pip.nr;
        return true;
    case ppt_vmcs:
        said->value = packet->payload.vmcs.base >> 12;
        return true;
    case ppt_cbr:
        said->value = packet->payload.cbr.ratio;
        return true;
    case ppt_tsc:
        said->value = packet->payload.tsc.tsc;
        return true;
    case ppt_tma:
        said->value = packet->payload.tma.ctc;
        said->extra = packet->payload.tma.fc;
        return true;
    case ppt_mtc:
        said->value = packet->payload.mtc.ctc;
        return true;
    case ppt_cyc:
        said->value = packet->payload.cyc.value;
        return true;
    case ppt_ptw:
        said->value = packet->payload.ptw.payload;
        said->extra = packet->payload.ptw.plc ? 8 : 4;
        said->flag = packet->payload.ptw.ip;
        return true;
    case ppt_exstop:
        said->flag = packet->payload.exstop.ip;
        return true;
    default:
        return false;
    }
}

static const enum packet_kind ipt_kinds[] = {
    [ppt_pad] = PACKET_PAD,     [ppt_psb] = PACKET_PSB,   [ppt_psbend] = PACKET_PSBEND,
    [ppt_fup] = PACKET_FUP,     [ppt_tip] = PACKET_TIP,   [ppt_tip_pge] = PACKET_PGE,
    [ppt_tip_pgd] = PACKET_PGD, [ppt_tnt_8] = PACKET_TNT, [ppt_tnt_64] = PACKET_TNT,
    [ppt_mode] = PACKET_EXEC,   [ppt_pip] = PACKET_PIP,   [ppt_vmcs] = PACKET_VMCS,
    [ppt_cbr] = PACKET_CBR,     [ppt_tsc] = PACKET_TSC,   [ppt_tma] = PACKET_TMA,
    [ppt_mtc] = PACKET_MTC,     [ppt_cyc] = PACKET_CYC,   [ppt_stop] = PACKET_STOP,
    [ppt_ovf] = PACKET_OVF,     [ppt_mnt] = PACKET_MNT,   [ppt_exstop] = PACKET_EXSTOP,
    [ppt_mwait] = PACKET_MWAIT, [ppt_pwre] = PACKET_PWRE, [ppt_pwrx] = PACKET_PWRX,
    [ppt_ptw] = PACKET_PTW,
};

static struct said by_ipt(const struct pt_packet *packet, const struct said *own)
{
    struct said said = {
        .offset = own->offset, /* it has read that far */
        .len_bytes = packet->size,
        .kind = ipt_kinds[packet->type],
    };

    if (packet->type == ppt_mode && packet->payload.mode.leaf == pt_mol_tsx)
        said.kind = PACKET_TSX;
    if (!ipt_state(packet, &said)) {
        said.value = own->value;
        said.extra = own->extra;
        said.flag = own->flag;
    }
    return said;
}

static bool ipt_knows(enum packet_kind kind)
{
    return kind != PACKET_CFE && kind != PACKET_EVD && kind != PACKET_BBP && kind != PACKET_BIP &&
           kind != PACKET_BEP;
}

/* decoder stands at the first packet. */
static bool ipt_follows(struct pt_packet_decoder *decoder, struct reader *reader)
{
    struct pt_packet packet;
    struct said own;

    while (by_reader(reader, &own) && ipt_knows(own.kind)) {
        const int status = pt_pkt_next(decoder, &packet, sizeof(packet));
        struct said other;

        if (status < 0 || packet.type <= ppt_unknown) {
            snprintf(why, sizeof(why), "libipt at byte %zu: %s", own.offset,
                     pt_errstr(pt_errcode(status)));
            return false;
        }
        other = by_ipt(&packet, &own);
        if (!same("libipt", &own, &other))
            return false;
        compared[1]++;
    }
    return true;
}

static bool ipt_agrees(const uint8_t *bytes, size_t len_bytes)
{
    struct pt_packet_decoder *decoder;
    struct pt_config config;
    struct reader reader;
    bool agrees;

    pt_config_init(&config);
    config.begin = (uint8_t *)(uintptr_t)bytes;
    config.end = config.begin + len_bytes;
    decoder = pt_pkt_alloc_decoder(&config);
    if (!decoder || pt_pkt_sync_set(decoder, 0) < 0) {
        pt_pkt_free_decoder(decoder);
        snprintf(why, sizeof(why), "libipt cannot begin");
        return false;
    }
    reader_open(&reader, bytes, len_bytes);
    agrees = ipt_follows(decoder, &reader);
    pt_pkt_free_decoder(decoder);
    return agrees;
}

bool peers_agree(const uint8_t *bytes, size_t len_bytes)
{
    return len_bytes == 0 || (ptdec_agrees(bytes, len_bytes) && ptdec_flows(bytes, len_bytes) &&
                              ipt_agrees(bytes, len_bytes));
}
