/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time by the marks of ptd_flow_run(): exactly what time.c makes of all packets. Most of them are
 * told by near.c.
 */
#include "pt_packets.h"
#include "packets/mark.h"
#include "time/near.h"
#include "time/time.h"

/*
 * TNTs and TIPs since the last packet. One TNT says to time what several do, and so does one TIP;
 * and behind a CYC or MTC packet, ptd_time_packet() would do no more than this.
 */
static void tell_branches(struct ptd_time *time, uint32_t what)
{
    if (!(what & (MARK_TNT | MARK_TIP)))
        return;
    if (time->type == PTD_CYC || time->type == PTD_MTC) {
        if ((what & MARK_TIP) && time->cyc_seen && time->base_known &&
            time->base.first > time->ceiling)
            time->ceiling = NEVER;
        time->exact = time->tma_due = false;
        return;
    }
    if (what & MARK_TNT)
        ptd_time_packet(time, &(struct ptd_packet){.type = PTD_TNT, .offset = time->offset});
    if (what & MARK_TIP)
        ptd_time_packet(time, &(struct ptd_packet){.type = PTD_TIP, .offset = time->offset});
}

/* Short TNTs and TIPs, which most of a trace is. Returns which, and where the last one begins. */
static uint32_t pass_branches(struct ptd_packets *packets, const uint8_t *end, const uint8_t **last)
{
    const uint8_t *pos = packets->pos;
    uint32_t what = 0;

    while (pos < end) {
        const uint8_t byte = *pos;
        const unsigned ip = pt_ip_payload_bytes(byte);

        if (pt_is_tnt8(byte)) {
            what |= MARK_TNT;
            *last = pos++;
        } else if ((byte & PT_TIP_MASK) == PT_TIP && ip > 0 && end - pos > ip) {
            what |= MARK_TIP;
            *last = pos;
            pos += 1 + ip;
        } else {
            break;
        }
    }
    packets->pos = pos;
    return what;
}

/*
 * What one TNT and one TIP do to time, several do not do again, but for this: behind a TIP, the
 * time is as exact as in front of it. So the last one is told behind another packet if it is.
 */
void ptd_time_branches(struct ptd_time *time, struct ptd_packets *packets, uint64_t offset)
{
    const uint64_t at = ptd_packets_offset(packets);
    const uint64_t there = (uint64_t)(packets->end - packets->pos);
    const uint64_t ahead = offset > at ? offset - at : 0;
    const uint8_t *const begin = packets->pos, *last = begin;
    const uint32_t what = pass_branches(packets, begin + (ahead < there ? ahead : there), &last);
    uint8_t type, before;

    if (!what)
        return;
    type = before = (*last & PT_TIP_MASK) == PT_TIP ? PTD_TIP : PTD_TNT;
    if (what == (MARK_TNT | MARK_TIP))
        before = type == PTD_TIP ? PTD_TNT : PTD_TIP;
    if (last > begin)
        ptd_time_packet(time, &(struct ptd_packet){.type = before, .offset = at});
    ptd_time_packet(time,
                    &(struct ptd_packet){.type = type, .offset = at + (uint64_t)(last - begin)});
}

/* All packets in front of an offset. Damage may have led to bytes that were never packets. */
static void read_to(struct ptd_time *time, struct ptd_packets *packets, uint64_t offset)
{
    struct ptd_packet packet;
    const uint8_t *last;

    while (ptd_packets_offset(packets) < offset && ptd_time_next(time, packets, &packet)) {
        ptd_time_packet(time, &packet);
        if (!packets->bip_bytes && ptd_packets_offset(packets) < offset)
            tell_branches(time, pass_branches(packets, ptd_mark_place(packets, offset), &last));
    }
    if (ptd_packets_offset(packets) != offset) {
        ptd_time_lost(time);
        (void)ptd_packets_seek(packets, offset);
    }
}

/* A mark whose packet is known: a CYC, or an MTC as its two bytes say. False: it must be read. */
static bool tell_mark(struct ptd_time *time, struct ptd_packets *packets,
                      const struct ptd_mark *mark)
{
    const uint32_t value = mark->what >> MARK_VALUE_SHR;
    struct ptd_packet packet = {.type = PTD_CYC, .offset = mark->offset - 1, .cyc = value};

    if (mark->what & MARK_PACKET) {
        const uint8_t *const begin = ptd_mark_place(packets, mark->offset - value);

        if (value != PT_MTC_LEN || *begin != PT_OPC_MTC)
            return false;
        packet =
            (struct ptd_packet){.type = PTD_MTC, .offset = mark->offset - value, .mtc = begin[1]};
    }
    ptd_time_packet(time, &packet);
    packets->pos = ptd_mark_place(packets, mark->offset);
    return true;
}

/* Any mark. */
static void read_mark(struct ptd_time *time, struct ptd_packets *packets,
                      const struct ptd_mark *mark)
{
    if (!(mark->what & MARK_OTHER)) {
        tell_branches(time, mark->what);
        if (tell_mark(time, packets, mark))
            return;
        packets->pos = ptd_mark_place(packets, mark->offset - (mark->what >> MARK_VALUE_SHR));
    }
    read_to(time, packets, mark->offset);
}

void ptd_time_marks(struct ptd_time *time, struct ptd_packets *packets,
                    const struct ptd_mark *marks, size_t count, struct ptd_time_point *points)
{
    size_t i = 0;

    while (i < count) {
        const size_t near = ptd_near_marks(time, packets, marks + i, count - i, points + i);

        if (near > 0)
            packets->pos = ptd_mark_place(packets, marks[i + near - 1].offset);
        i += near;
        if (i < count) {
            read_mark(time, packets, &marks[i]);
            ptd_time_point(time, &points[i++]);
        }
    }
}
