/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT's packets (RTIT v1.05, chapter 4), their compression and cycle counts, and the way to memory
 * (2.3).
 */
#include "rtit_encoder.h"
#include "guest_memory.h"
#include "little_endian.h"
#include "rtit_packets.h"

#include <string.h>

#define CNTP_MASK    0x3fffffu
#define CNTP_MSB     0x200000u
#define PAGE_BYTES   4096u
#define LINE_BYTES   64u
#define PACKET_MAX   (RTIT_PSB_LEN + RTIT_IP_MAX + RTIT_CCP_MAX)
#define PKT_CNT_BITS 0x3fffu
#define LIP_VALID    (1ull << 32)
#define STOP_ADDRESS 0xc0u

/* ---- Output ---- */

/* Bytes at the current offset, or at a fixed place of its 256-byte block. */
static uint32_t store(struct vpt_rtit *cpu, const uint8_t *bytes, uint32_t len, bool stop)
{
    const uint64_t base = cpu->base_addr & ~(uint64_t)cpu->limit_mask;
    uint32_t offset = cpu->offset & cpu->limit_mask;
    struct vpt_span span;
    uint64_t gpa;

    if (len > cpu->limit_mask + 1 - offset)
        len = cpu->limit_mask + 1 - offset;
    gpa = base + offset;
    if (stop && !(cpu->ctl & VPT_RTIT_CTL_DEST))
        gpa = (gpa & ~0xffull) | STOP_ADDRESS;
    if (len > PAGE_BYTES - gpa % PAGE_BYTES)
        len = PAGE_BYTES - (uint32_t)(gpa % PAGE_BYTES);
    vpt_guest_span(cpu->ops, cpu->owner, gpa, len, VPT_WRITE_OUTPUT, &span);
    if (span.kind == VPT_SPAN_FAULT)
        return 0;
    if (vpt_guest_store(cpu->ops, cpu->owner, gpa, bytes, &span))
        cpu->output_bytes += span.len_bytes;
    else
        cpu->dropped_bytes += span.len_bytes;
    cpu->offset = (offset + span.len_bytes) & cpu->limit_mask;
    return span.len_bytes;
}

void vpt_rtit_drain(struct vpt_rtit *cpu)
{
    uint32_t at = 0, done = 1;

    if (cpu->stalled)
        return;
    while (at < cpu->buf_len && done > 0) {
        const bool stop = at + 1 == cpu->stop_end;
        const uint32_t end = stop || at >= cpu->stop_end ? cpu->buf_len : cpu->stop_end - 1;

        done = store(cpu, cpu->buf + at, stop ? 1 : end - at, stop);
        at += done;
    }
    memmove(cpu->buf, cpu->buf + at, cpu->buf_len - at);
    cpu->buf_len -= at;
    cpu->stop_end = cpu->stop_end > at ? cpu->stop_end - at : 0;
}

void vpt_rtit_stall(struct vpt_rtit *cpu, bool stalled)
{
    cpu->stalled = stalled;
    vpt_rtit_drain(cpu);
}

void vpt_rtit_settle(struct vpt_rtit *cpu)
{
    if (cpu->buf_len >= LINE_BYTES)
        vpt_rtit_drain(cpu);
}

/* ---- Bytes ---- */

/* Nothing without TriggerEn, nothing in an overflow; a full buffer begins one (4.2.5). */
static bool room(struct vpt_rtit *cpu)
{
    if (!vpt_rtit_trigger_en(cpu) || cpu->overflow)
        return false;
    if (cpu->buf_len + PACKET_MAX > VPT_RTIT_BUFFER_BYTES)
        vpt_rtit_drain(cpu);
    if (cpu->buf_len + PACKET_MAX <= VPT_RTIT_BUFFER_BYTES)
        return true;
    cpu->overflow = true;
    cpu->overflow_count++;
    return false;
}

static void append(struct vpt_rtit *cpu, const uint8_t *bytes, uint32_t len)
{
    memcpy(cpu->buf + cpu->buf_len, bytes, len);
    cpu->buf_len += len;
}

static uint32_t monitored_bit(const struct vpt_rtit *cpu)
{
    return 1u << (11 + (cpu->pkt_cnt >> 16 & 3));
}

static void clear_compression(struct vpt_rtit *cpu)
{
    cpu->last_lip = 0;
    cpu->last_call_nlip = 0;
}

void vpt_rtit_psb(struct vpt_rtit *cpu)
{
    static const uint8_t psb[RTIT_PSB_LEN] = {RTIT_PSB};

    if (vpt_rtit_trigger_en(cpu) && !room(cpu)) {
        cpu->psb_late = true; /* an overflow puts it off (4.2.5) */
        return;
    }
    cpu->pkt_cnt &= ~PKT_CNT_BITS;
    cpu->psb_late = false;
    if (!vpt_rtit_trigger_en(cpu))
        return;
    append(cpu, psb, sizeof(psb));
    cpu->packet_count++;
    cpu->pkt_cnt += RTIT_PSB_LEN;
    cpu->psb_sent = true;
    clear_compression(cpu);
}

void vpt_rtit_packet_count_changed(struct vpt_rtit *cpu)
{
    if (cpu->pkt_cnt & PKT_CNT_BITS & monitored_bit(cpu))
        vpt_rtit_psb(cpu);
}

/* Counts the bytes of a packet; the PSB that they bring (3.3.9, E3). */
static void count(struct vpt_rtit *cpu, uint32_t len)
{
    const uint32_t counted = (cpu->pkt_cnt & PKT_CNT_BITS) + len;
    const bool due = counted & monitored_bit(cpu);

    cpu->pkt_cnt = (cpu->pkt_cnt & ~PKT_CNT_BITS) | (counted & PKT_CNT_BITS);
    if (cpu->psb_late || (due && !(cpu->errata & VPT_RTIT_E3)))
        vpt_rtit_psb(cpu);
    else if (due)
        cpu->psb_late = true;
}

/* A packet with the cycle count that follows it in cycle-accurate mode (4.2.14, 4.2.15). */
static void put(struct vpt_rtit *cpu, const uint8_t *bytes, uint32_t len, bool counted)
{
    uint8_t packet[PACKET_MAX];
    const bool dropped = cpu->psb_sent && (cpu->errata & VPT_RTIT_E8);

    if (!room(cpu))
        return;
    cpu->psb_sent = false;
    memcpy(packet, bytes, len);
    if (counted && (cpu->ctl & VPT_RTIT_CTL_CYCLE_ACC)) {
        uint32_t cycles = cpu->cntp;
        unsigned more;

        if ((cpu->errata & VPT_RTIT_E6) && cycles)
            cycles--;
        more = cycles >> 14 ? 2 : cycles >> 6 ? 1 : 0;
        packet[len++] = (uint8_t)((cycles & 0x3f) << 2 | (more + 1));
        if (more > 0)
            packet[len++] = (uint8_t)(cycles >> 6);
        if (more > 1)
            packet[len++] = (uint8_t)(cycles >> 14);
        cpu->cntp = 0;
    }
    if (!dropped)
        append(cpu, packet, len);
    cpu->packet_count++;
    count(cpu, len);
}

/* ---- TNT ---- */

static void emit_tnt(struct vpt_rtit *cpu)
{
    const uint8_t bits = cpu->tnt_buff;

    if (bits <= 1 || !room(cpu))
        return; /* what begins an overflow stays, and stands before its packet (4.2.5) */
    cpu->tnt_buff = 1;
    put(cpu, &bits, 1, bits & RTIT_TNT_FULL);
}

void vpt_rtit_tnt_bit(struct vpt_rtit *cpu, bool taken)
{
    if (cpu->tnt_buff & RTIT_TNT_FULL)
        emit_tnt(cpu); /* software ended the overflow that kept it */
    if (cpu->overflow)
        return;
    cpu->tnt_buff = (uint8_t)(cpu->tnt_buff << 1 | taken) & 0x7f;
    if (cpu->tnt_buff & RTIT_TNT_FULL)
        emit_tnt(cpu);
}

/* ---- IPs ---- */

/* Table 18: CNT in bits 1:0, and RTIT_ZEXT. */
static uint8_t compress(const struct vpt_rtit *cpu, uint64_t lip)
{
    const uint16_t high = (uint16_t)(lip >> 32), low = (uint16_t)(lip >> 16);
    const bool valid = cpu->last_lip & LIP_VALID;
    const bool match_high = valid && high == (uint16_t)(cpu->last_lip >> 16);
    const bool match_low = valid && low == (uint16_t)cpu->last_lip;

    if (high == 0 && low == 0)
        return RTIT_ZEXT | 0;
    if (match_high && match_low)
        return 0;
    if (high == 0)
        return RTIT_ZEXT | 1;
    return match_high ? 1 : 2;
}

void vpt_rtit_ip(struct vpt_rtit *cpu, uint8_t event, uint64_t lip)
{
    uint8_t packet[RTIT_IP_MAX];
    uint8_t how;
    uint32_t len;

    if (!room(cpu))
        return;
    emit_tnt(cpu);
    how = compress(cpu, lip);
    len = 1 + 2 * ((how & 3u) + 1);
    packet[0] = (uint8_t)(RTIT_FUP | event << RTIT_EVENT_SHR | how);
    vpt_put_le(packet + 1, lip, len - 1);
    cpu->last_lip = LIP_VALID | (lip >> 16 & 0xffffffffu);
    put(cpu, packet, len, true);
}

void vpt_rtit_pip(struct vpt_rtit *cpu)
{
    uint8_t packet[RTIT_PIP_LEN] = {(uint8_t)(RTIT_PIP | cpu->ctx.paging)};

    vpt_put_le(packet + 1, cpu->ctx.cr3, RTIT_PIP_LEN - 1);
    if (room(cpu))
        emit_tnt(cpu);
    put(cpu, packet, sizeof(packet), true);
}

bool vpt_rtit_stop(struct vpt_rtit *cpu)
{
    const uint8_t packet = RTIT_STOP;
    uint32_t at;

    if (!room(cpu))
        return false;
    at = cpu->buf_len;
    put(cpu, &packet, 1, false);                        /* TNT_BUFF stays as it is (4.2.11) */
    if (cpu->buf_len > at && cpu->buf[at] == RTIT_STOP) /* erratum E8 may drop it */
        cpu->stop_end = at + 1;
    return true;
}

/* ---- Time ---- */

static unsigned mtc_shift(const struct vpt_rtit *cpu)
{
    return 7 + 2 * (cpu->ctl >> VPT_RTIT_CTL_MTC_RANGE_SHR & 3);
}

/* MTC, STS and PCC: with LESS_PKTS only where everything else is sent too (Table 17). */
static bool time_packets(const struct vpt_rtit *cpu)
{
    return cpu->ctl & VPT_RTIT_CTL_LESS_PKTS ? vpt_rtit_packet_en(cpu) : vpt_rtit_trigger_en(cpu);
}

void vpt_rtit_start_clocks(struct vpt_rtit *cpu)
{
    struct vpt_clocks now;

    cpu->ops->clocks(cpu->owner, &now);
    cpu->cycles = now.cycles;
    cpu->mtc_count = now.tsc >> mtc_shift(cpu);
    cpu->mtc_first = true;
}

static void mtc(struct vpt_rtit *cpu, uint64_t tsc)
{
    const uint64_t now = tsc >> mtc_shift(cpu);
    uint8_t packet[RTIT_MTC_LEN] = {
        (uint8_t)(RTIT_MTC | (cpu->ctl >> VPT_RTIT_CTL_MTC_RANGE_SHR & 3)), (uint8_t)now};

    if (now == cpu->mtc_count)
        return;
    cpu->mtc_count = now;
    if (cpu->mtc_first && (cpu->errata & VPT_RTIT_E7))
        packet[1]--; /* sent at a wrong time: the value is of another */
    cpu->mtc_first = false;
    put(cpu, packet, sizeof(packet), true);
}

void vpt_rtit_look_at_clocks(struct vpt_rtit *cpu, uint64_t nlip)
{
    struct vpt_clocks now;

    cpu->ops->clocks(cpu->owner, &now);
    if (cpu->context_en && (cpu->filter_en || (cpu->ctl & VPT_RTIT_CTL_LESS_PKTS)))
        cpu->cntp = (uint32_t)(cpu->cntp + (now.cycles - cpu->cycles)) & CNTP_MASK;
    cpu->cycles = now.cycles;
    if ((cpu->ctl & VPT_RTIT_CTL_MTC_EN) && time_packets(cpu))
        mtc(cpu, now.tsc);
    if ((cpu->ctl & VPT_RTIT_CTL_CYCLE_ACC) && (cpu->cntp & CNTP_MSB) && cpu->context_en &&
        time_packets(cpu))
        vpt_rtit_ip(cpu, RTIT_EVENT_PCC, nlip);
}

void vpt_rtit_sts(struct vpt_rtit *cpu)
{
    uint8_t packet[RTIT_STS_LEN] = {
        (uint8_t)(RTIT_STS | (cpu->actual_ratio >> 2 & 0xf)),
        (uint8_t)((cpu->actual_ratio & 3) << 6 | (cpu->effective_ratio & 0x3f))};
    struct vpt_clocks now;

    if (!(cpu->ctl & VPT_RTIT_CTL_STS_EN) || !time_packets(cpu))
        return;
    cpu->ops->clocks(cpu->owner, &now);
    vpt_put_le(packet + 2, now.tsc, 5);
    put(cpu, packet, sizeof(packet), true);
}

/* ---- Overflow ---- */

void vpt_rtit_resolve_overflow(struct vpt_rtit *cpu, uint64_t lip)
{
    if (!cpu->overflow || !vpt_rtit_trigger_en(cpu) || !cpu->context_en)
        return;
    vpt_rtit_drain(cpu);
    if (cpu->buf_len > 0)
        return;
    cpu->overflow = false;
    emit_tnt(cpu);
    clear_compression(cpu);
    vpt_rtit_ip(cpu, RTIT_EVENT_OVF, lip);
    if (cpu->errata & VPT_RTIT_E5)
        vpt_rtit_ip(cpu, RTIT_EVENT_TIP, lip);
}
