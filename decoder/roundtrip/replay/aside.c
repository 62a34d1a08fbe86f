/* SPDX-License-Identifier: BSD-3-Clause */
/* Event Trace, power events, PEBS and triggers, see aside.h. */
#include <string.h>

#include "aside.h"

#define PAGE_FAULT 14

/* CFE.Type (Table 33-50; the last two are newer) and EVD.Type (Table 33-51). */
enum cfe {
    CFE_INTR = 1,
    CFE_IRET = 2,
    CFE_SIPI = 5,
    CFE_INIT = 6,
    CFE_VMEXIT_INTR = 9,
    CFE_SHUTDOWN = 10,
    CFE_UINTR = 12,
    CFE_UIRET = 13,
    CFE_SWINT = 14,
    CFE_SYSCALL = 15
};
enum evd { EVD_PFA, EVD_VMXQ, EVD_VMXR };

void aside_forget(struct aside *aside)
{
    aside->cfe.is_open = aside->has_pfa = false;
    aside->qualification = aside->reason = 0;
    aside->sleeps = aside->in_record = false;
    aside->wake_ratio = 0;
    memset(&aside->entry, 0, sizeof(aside->entry));
}

/* ---- Event Trace ---- */

static void take_cfe(struct aside *aside, struct rig *rig, const struct ptd_item *item)
{
    const struct ptd_packet *const packet = &item->packet;

    if (packet->cfe.type == CFE_SHUTDOWN) {
        vpt_shutdown(&rig->cpu, item->from);
        return;
    }
    aside->cfe.is_open = true;
    aside->cfe.type = packet->cfe.type;
    aside->cfe.vector = packet->cfe.vector;
    aside->cfe.has_ip = item->has_from;
    aside->cfe.ip = item->from;
}

static void take_evd(struct aside *aside, const struct ptd_packet *packet)
{
    switch (packet->evd.type) {
    case EVD_PFA:
        aside->has_pfa = true;
        aside->pfa = packet->evd.payload;
        break;
    case EVD_VMXQ:
        aside->qualification = packet->evd.payload;
        break;
    case EVD_VMXR:
        aside->reason = packet->evd.payload;
        break;
    default:
        break;
    }
}

/* What is an interrupt or a far branch by its packets may be something else. */
static enum vpt_transfer_type type_of(const struct aside *aside, enum vpt_transfer_type type)
{
    switch (aside->cfe.type) {
    case CFE_INTR:
        return aside->has_pfa && aside->cfe.vector == PAGE_FAULT ? VPT_FAULT : VPT_INTERRUPT;
    case CFE_IRET:
        return VPT_IRET;
    case CFE_UIRET:
        return VPT_UIRET;
    case CFE_SIPI:
        return VPT_SIPI;
    case CFE_INIT:
        return VPT_INIT;
    case CFE_UINTR:
        return VPT_UINTR;
    case CFE_SWINT:
        return VPT_FRED_SOFT_INTERRUPT;
    case CFE_SYSCALL:
        return VPT_FRED_SYSCALL;
    default:
        return type;
    }
}

void aside_name(struct aside *aside, struct vpt_transfer *transfer)
{
    if (!aside->cfe.is_open)
        return;
    transfer->type = type_of(aside, transfer->type);
    transfer->vector = aside->cfe.vector;
    transfer->cr2 = aside->pfa;
    if (aside->cfe.has_ip)
        transfer->ip = aside->cfe.ip;
    aside->cfe.is_open = aside->has_pfa = false;
}

void aside_name_exit(struct aside *aside, struct vpt_vm_exit *exit)
{
    exit->by_event = aside->cfe.is_open && aside->cfe.type == CFE_VMEXIT_INTR;
    exit->vector = aside->cfe.vector;
    exit->qualification = aside->qualification;
    exit->reason = (uint32_t)aside->reason;
    aside->cfe.is_open = false;
    aside->qualification = aside->reason = 0;
}

bool aside_unseen(const struct aside *aside, const struct ptd_packet *next)
{
    return aside->cfe.is_open && next->type == PTD_CFE;
}

/* ---- Power events ---- */

/* Whether the PWRE at an offset has its EXSTOP: the processor did not sleep before. */
static bool has_exstop(struct ptd_packets packets, uint64_t offset)
{
    struct ptd_packet packet;

    (void)ptd_packets_seek(&packets, offset);
    (void)ptd_packets_next(&packets, &packet);
    while (ptd_packets_next(&packets, &packet) == PTD_OK)
        if (packet.type != PTD_PAD && packet.type != PTD_CYC)
            return packet.type == PTD_EXSTOP;
    return false;
}

static void tell_entry(struct aside *aside, struct rig *rig, uint64_t ip)
{
    aside->entry.ip = ip;
    vpt_power_entry(&rig->cpu, &aside->entry);
    memset(&aside->entry, 0, sizeof(aside->entry));
    aside->sleeps = false;
}

static void take_pwre(struct aside *aside, struct rig *rig, const struct ptd_packets *packets,
                      const struct ptd_packet *packet, uint64_t ip)
{
    aside->entry.hw = packet->pwre.hw;
    aside->entry.state = (uint8_t)(packet->pwre.state << 4 | packet->pwre.sub_state);
    aside->sleeps = true;
    if (!has_exstop(*packets, packet->offset))
        tell_entry(aside, rig, ip);
}

static void take_exstop(struct aside *aside, struct rig *rig, uint64_t ip)
{
    if (aside->sleeps)
        tell_entry(aside, rig, ip);
    else
        vpt_exec_stop(&rig->cpu, ip);
}

static void take_pwrx(struct aside *aside, struct rig *rig, const struct ptd_packet *packet)
{
    const struct vpt_power_exit wake = {.last_core_state = packet->pwrx.last,
                                        .deepest_core_state = packet->pwrx.deepest,
                                        .reason = packet->pwrx.wake_reason,
                                        .core_ratio = aside->wake_ratio};

    aside->wake_ratio = 0;
    rig_catch_up(rig);
    vpt_power_exit(&rig->cpu, &wake);
}

/* ---- PEBS ---- */

static void take_bbp(struct aside *aside, const struct ptd_packet *packet)
{
    struct vpt_block *block;

    if (!aside->in_record) {
        aside->in_record = true;
        aside->too_large = false;
        aside->blocks = aside->items = 0;
    }
    aside->too_large |= aside->blocks == ASIDE_BLOCKS;
    if (aside->too_large)
        return;
    block = &aside->block[aside->blocks++];
    block->type = packet->bbp.type;
    block->four_byte_items = packet->bbp.item_bytes == 4;
    block->count = 0;
    block->items = &aside->item[aside->items];
}

static void take_bip(struct aside *aside, const struct ptd_packet *packet)
{
    aside->too_large |= aside->items == ASIDE_ITEMS;
    if (!aside->in_record || aside->too_large)
        return;
    aside->item[aside->items++] =
        (struct vpt_block_item){.id = packet->bip.id, .value = packet->bip.payload};
    aside->block[aside->blocks - 1].count++;
}

static void take_bep(struct aside *aside, struct rig *rig, uint64_t ip)
{
    if (aside->in_record && !aside->too_large)
        vpt_pebs(&rig->cpu, aside->block, aside->blocks, ip);
    aside->in_record = false;
}

/* ---- All ---- */

static void take_trig(struct rig *rig, const struct ptd_packet *packet, uint64_t ip)
{
    const struct vpt_trigger trigger = {.fired = packet->trig.fired,
                                        .more = packet->trig.more,
                                        .attributed = packet->trig.has_icnt,
                                        .ip = ip,
                                        .insns = packet->trig.icnt};

    vpt_trigger(&rig->cpu, &trigger);
}

void aside_take(struct aside *aside, struct rig *rig, const struct ptd_packets *packets,
                const struct ptd_item *item, uint64_t ip)
{
    const struct ptd_packet *const packet = &item->packet;

    if (item->has_from)
        ip = item->from;
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_CFE:
        take_cfe(aside, rig, item);
        break;
    case PTD_EVD:
        take_evd(aside, packet);
        break;
    case PTD_MWAIT:
        aside->entry.mwait = true;
        aside->entry.hints = packet->mwait.hints;
        aside->entry.ext = packet->mwait.ext;
        break;
    case PTD_PWRE:
        take_pwre(aside, rig, packets, packet, ip);
        break;
    case PTD_EXSTOP:
        take_exstop(aside, rig, ip);
        break;
    case PTD_PWRX:
        take_pwrx(aside, rig, packet);
        break;
    case PTD_BBP:
        take_bbp(aside, packet);
        break;
    case PTD_BIP:
        take_bip(aside, packet);
        break;
    case PTD_BEP:
        take_bep(aside, rig, ip);
        break;
    case PTD_TRIG:
        take_trig(rig, packet, ip);
        break;
    default:
        break;
    }
}
