/* SPDX-License-Identifier: BSD-3-Clause */
/* What packets alone tell of a trace, see survey.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "survey.h"

#define MTC_FREQS  16
#define NEAR_BYTES (16u << 10)

enum { CFE_SWINT = 14, CFE_SYSCALL = 15 };

/* ---- The whole trace ---- */

/* The smallest N for which the MTC is the next change of CTC[N+7:N] behind a TMA. */
static int mtc_freq(uint16_t ctc, uint8_t mtc)
{
    for (int n = 0; n < MTC_FREQS; n++)
        if ((uint8_t)((ctc >> n) + 1) == mtc)
            return n;
    return -1;
}

static void look_at(struct survey *survey, const struct ptd_packet *packet, int *ctc)
{
    survey->counts[packet->type]++;
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TIP_PGD:
        survey->pgd_ip |= packet->ip.ip_bytes != 0;
        survey->ip_64 |= packet->ip.ip_bytes == 6;
        break;
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_FUP:
        survey->ip_64 |= packet->ip.ip_bytes == 6;
        break;
    case PTD_PTW:
        survey->ptw_ip |= packet->ptw.ip;
        break;
    case PTD_CFE:
        survey->cfe = true;
        survey->fred |= packet->cfe.type == CFE_SWINT || packet->cfe.type == CFE_SYSCALL;
        break;
    case PTD_MODE_EXEC:
        survey->interrupts |= packet->mode_exec.interrupts;
        break;
    case PTD_EVD:
        survey->cfe = true;
        break;
    case PTD_MWAIT:
    case PTD_PWRE:
    case PTD_PWRX:
    case PTD_EXSTOP:
        survey->power = true;
        break;
    case PTD_TNT:
        survey->long_tnt |= packet->tnt.is_long;
        break;
    case PTD_TMA:
        *ctc = packet->tma.corrupt ? -1 : packet->tma.ctc;
        break;
    case PTD_MTC:
        if (*ctc >= 0 && survey->mtc_freq < 0)
            survey->mtc_freq = mtc_freq((uint16_t)*ctc, packet->mtc);
        *ctc = -1;
        break;
    default:
        break;
    }
}

void survey_trace(const uint8_t *bytes, size_t len_bytes, uint32_t errata, struct survey *survey)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    int status, ctc = -1;

    memset(survey, 0, sizeof(*survey));
    survey->mtc_freq = -1;
    ptd_packets_init(&packets, bytes, len_bytes);
    ptd_packets_set_errata(&packets, errata);
    if (ptd_packets_sync(&packets) != PTD_OK)
        return;
    while ((status = ptd_packets_next(&packets, &packet)) != PTD_END) {
        if (status == PTD_OK)
            look_at(survey, &packet, &ctc);
        else if (ptd_packets_resync(&packets) != PTD_OK)
            break;
    }
}

/* ---- A PSB+ ---- */

static void add_fact(struct psb_plus *plus, const struct ptd_packet *packet)
{
    uint64_t last_ip = 0;

    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TSC:
        plus->has_tsc = true;
        plus->tsc = packet->tsc;
        break;
    case PTD_TMA:
        plus->has_tma = true;
        plus->ctc = packet->tma.ctc;
        plus->fast = packet->tma.fast;
        break;
    case PTD_CBR:
        plus->has_cbr = true;
        plus->cbr = packet->cbr;
        break;
    case PTD_PIP:
        plus->has_pip = true;
        plus->cr3 = packet->pip.cr3;
        plus->nr = packet->pip.nr;
        break;
    case PTD_VMCS:
        plus->has_vmcs = true;
        plus->vmcs = packet->vmcs;
        break;
    case PTD_MODE_EXEC:
        plus->has_mode = true;
        plus->mode = (uint8_t)survey_mode(packet);
        plus->interrupts = packet->mode_exec.interrupts;
        break;
    case PTD_MODE_TSX:
        plus->has_tsx = true;
        plus->in_tx = packet->mode_tsx.in_tx;
        break;
    case PTD_FUP:
        plus->has_fup = ptd_packet_ip(packet, &last_ip, &plus->fup) == PTD_OK;
        break;
    default:
        break;
    }
}

static bool is_time(const struct ptd_packet *packet)
{
    return packet->type == PTD_PAD || packet->type == PTD_CYC || packet->type == PTD_MTC;
}

static bool pge_follows(struct ptd_packets packets)
{
    struct ptd_packet packet;

    while (ptd_packets_next(&packets, &packet) == PTD_OK)
        if (packet.type != PTD_PAD && packet.type != PTD_MODE_EXEC)
            return packet.type == PTD_TIP_PGE;
    return false;
}

void survey_psb(struct ptd_packets packets, uint64_t offset, struct psb_plus *plus)
{
    struct ptd_packet packet;
    uint64_t waiting = 0;

    memset(plus, 0, sizeof(*plus));
    plus->offset = offset;
    if (ptd_packets_seek(&packets, offset) != PTD_OK ||
        ptd_packets_next(&packets, &packet) != PTD_OK)
        return;
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_PSB || packet.type == PTD_OVF)
            return;
        plus->end = ptd_packets_offset(&packets);
        if (packet.type == PTD_PSBEND) {
            plus->pge_at_once = pge_follows(packets);
            return;
        }
        if (packet.type == PTD_CYC) {
            waiting += packet.cyc;
            continue;
        }
        *(packet.type == PTD_TSC ? &plus->tsc_cycles : &plus->cycles) += waiting;
        waiting = 0;
        add_fact(plus, &packet);
    }
    plus->cycles += waiting; /* the trace ends here */
}

/* ---- What stands ahead ---- */

/* A packet of the group; true: the group ends behind it. */
static bool add_to_group(struct time_group *group, const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TMA:
        group->has_tma = true;
        group->ctc = packet->tma.ctc;
        group->fast = packet->tma.fast;
        return false;
    case PTD_CBR:
        group->has_cbr = true;
        group->cbr = packet->cbr;
        return true;
    case PTD_PAD:
    case PTD_CYC:
        return false;
    default:
        return true;
    }
}

static bool next_is(struct ptd_packets packets, enum ptd_packet_type type)
{
    struct ptd_packet packet;

    while (ptd_packets_next(&packets, &packet) == PTD_OK)
        if (packet.type != PTD_PAD)
            return packet.type == type;
    return false;
}

bool survey_tsc_follows(struct ptd_packets packets, uint64_t offset)
{
    struct ptd_packet packet;

    (void)ptd_packets_seek(&packets, offset);
    (void)ptd_packets_next(&packets, &packet);
    return next_is(packets, PTD_TSC);
}

void survey_time(struct ptd_packets packets, uint64_t offset, struct time_group *group)
{
    struct ptd_packet packet;

    memset(group, 0, sizeof(*group));
    (void)ptd_packets_seek(&packets, offset);
    if (ptd_packets_next(&packets, &packet) != PTD_OK)
        return;
    if (packet.type == PTD_CBR)
        (void)add_to_group(group, &packet);
    while (!group->has_cbr && ptd_packets_next(&packets, &packet) == PTD_OK)
        if (add_to_group(group, &packet))
            break;
    group->end = ptd_packets_offset(&packets);
    group->wakes = group->has_cbr && next_is(packets, PTD_PWRX);
    group->begins = group->has_cbr && pge_follows(packets);
}

/* Looks for the end of the pause. */
static void look_for_end(struct ptd_packets packets, struct ahead *ahead, uint64_t offset)
{
    bool in_psb = false;
    struct ptd_packet packet;

    memset(&ahead->pause, 0, sizeof(ahead->pause));
    ahead->pause.is_known = true;
    ahead->pause.from = offset;
    (void)ptd_packets_seek(&packets, offset);
    while (ptd_packets_next(&packets, &packet) == PTD_OK && packet.type != PTD_TIP_PGE) {
        if (packet.type == PTD_OVF) {
            ahead->pause.has_ovf = true;
            break;
        }
        in_psb = packet.type == PTD_PSB || (in_psb && packet.type != PTD_PSBEND);
        if (packet.type == PTD_PSB)
            ahead->pause.last_psb = packet.offset + 1;
        if (packet.type == PTD_CBR && !in_psb)
            ahead->pause.last_cbr = packet.offset + 1;
        if (packet.type == PTD_MODE_EXEC) {
            ahead->pause.mode = (uint8_t)survey_mode(&packet);
            ahead->pause.interrupts = packet.mode_exec.interrupts;
            ahead->pause.last_mode = packet.offset + 1;
        }
        ahead->pause.has_mode =
            packet.type == PTD_MODE_EXEC || (ahead->pause.has_mode && is_time(&packet));
    }
    ahead->pause.end = ptd_packets_offset(&packets);
}

void survey_pause(struct ptd_packets packets, struct ahead *ahead, uint64_t offset,
                  struct pause *pause)
{
    if (!ahead->pause.is_known || offset < ahead->pause.from || offset >= ahead->pause.end)
        look_for_end(packets, ahead, offset);
    *pause = (struct pause){.has_ovf = ahead->pause.has_ovf,
                            .has_cbr = ahead->pause.last_cbr > offset,
                            .has_psb = ahead->pause.last_psb > offset,
                            .has_mode = ahead->pause.has_mode && ahead->pause.last_mode > offset,
                            .interrupts = ahead->pause.interrupts,
                            .mode = ahead->pause.mode};
    pause->has_mode = pause->has_mode && !pause->has_psb && !pause->has_ovf;
}

bool survey_interrupts(struct ptd_packets packets, uint64_t offset)
{
    struct ptd_packet packet;

    (void)ptd_packets_seek(&packets, offset);
    while (ptd_packets_next(&packets, &packet) == PTD_OK)
        if (packet.type == PTD_MODE_EXEC)
            return packet.mode_exec.interrupts;
    return false;
}

/* Looks for the next packet of a type, or so far that it is not near. */
static void look_for(struct ptd_packets packets, enum ptd_packet_type type, uint64_t offset,
                     struct next *next)
{
    bool in_psb = false;

    memset(next, 0, sizeof(*next));
    next->is_known = true;
    next->from = offset;
    (void)ptd_packets_seek(&packets, offset);
    while (ptd_packets_next(&packets, &next->packet) == PTD_OK &&
           next->packet.offset - offset < 2 * NEAR_BYTES) {
        if (next->packet.type == type) {
            next->end = next->packet.offset;
            next->is_found = true;
            next->in_psb = in_psb;
            return;
        }
        in_psb = next->packet.type == PTD_PSB || (in_psb && next->packet.type != PTD_PSBEND);
    }
    next->end = ptd_packets_offset(&packets);
}

/* Whether the next packet of a type is near; it is in *next. */
static bool is_near(struct ptd_packets packets, enum ptd_packet_type type, uint64_t offset,
                    struct next *next)
{
    const bool looked = next->is_known && offset >= next->from && offset <= next->end &&
                        (next->is_found || next->end - offset >= NEAR_BYTES);

    if (!looked)
        look_for(packets, type, offset, next);
    return next->is_found && next->end - offset < NEAR_BYTES;
}

bool survey_cr3(struct ptd_packets packets, struct ahead *ahead, uint64_t offset, uint64_t *cr3)
{
    if (!is_near(packets, PTD_PIP, offset, &ahead->pip) || !ahead->pip.in_psb)
        return false;
    *cr3 = ahead->pip.packet.pip.cr3;
    return true;
}

bool survey_nr(struct ptd_packets packets, struct ahead *ahead, uint64_t offset)
{
    return is_near(packets, PTD_PIP, offset, &ahead->pip) && ahead->pip.packet.pip.nr;
}

bool survey_vmcs(struct ptd_packets packets, struct ahead *ahead, uint64_t offset, uint64_t *vmcs)
{
    if (!is_near(packets, PTD_VMCS, offset, &ahead->vmcs) || !ahead->vmcs.in_psb)
        return false;
    *vmcs = ahead->vmcs.packet.vmcs;
    return true;
}

uint64_t survey_overflow(struct ptd_packets packets, uint64_t offset)
{
    struct ptd_packet packet;

    (void)ptd_packets_seek(&packets, offset);
    (void)ptd_packets_next(&packets, &packet);
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_PSB)
            return packet.offset;
        if (!is_time(&packet) && packet.type != PTD_FUP)
            return 0;
    }
    return 0;
}

void survey_error(const struct ptd_item *item, char *text, size_t text_bytes)
{
    const int len =
        snprintf(text, text_bytes, "at %#" PRIx64 ": %s", item->offset, ptd_strerror(item->error));

    if (item->has_from && len > 0 && (size_t)len < text_bytes)
        (void)snprintf(text + len, text_bytes - (size_t)len, ": %#" PRIx64, item->from);
}
