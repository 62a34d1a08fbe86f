/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets one by one and many at a time. The packets that traces mostly consist of are described by
 * one table, by their first byte: everything but their offset, and which bits of the bytes behind
 * it are payload. All others are left to packets.c.
 */
#include <endian.h>
#include <string.h>

#include "packets/packets.h"
#include "pt_packets.h"

#define LOOK_AHEAD 9u /* the bytes that a packet of the table and its payload can take */

/* clang-format off */

/* Short TNTs (Table 33-16): the stop bit is the highest that is set, bit 0 is not part of it. */
#define TNT_COUNT(b) ((b) & 0x80 ? 6 : (b) & 0x40 ? 5 : (b) & 0x20 ? 4 : (b) & 0x10 ? 3 : (b) & 8 ? 2 : 1)
#define TNT_BITS(b)  ((b) >> 1 & ((1 << TNT_COUNT(b)) - 1))
#define TNT(b)       [b] = {.type = PTD_TNT, .size_bytes = 1, \
                            .tnt = {.bits = TNT_BITS(b), .count = TNT_COUNT(b)}}
#define TNT4(b)      TNT(b), TNT((b) + 2), TNT((b) + 4), TNT((b) + 6)
#define TNT16(b)     TNT4(b), TNT4((b) + 8), TNT4((b) + 16), TNT4((b) + 24)

/* CYCs of one byte (Table 33-33). */
#define CYC(b)       [b] = {.type = PTD_CYC, .size_bytes = 1, .cyc = (b) >> PT_CYC_SHR0}
#define CYC4(b)      CYC(b), CYC((b) + 8), CYC((b) + 16), CYC((b) + 24)

/* Of the 8 bytes behind the first, those that are payload; a shift by 64 would not be valid. */
#define PAYLOAD(bytes) (UINT64_MAX >> 4 * (8 - (bytes)) >> 4 * (8 - (bytes)))

/* IP packets by IPBytes (Table 33-18). */
#define IP(name, opcode, how, bytes) \
    [(opcode) | (how) << PT_IPBYTES_SHR] = {.offset = PAYLOAD(bytes), .type = (name), \
                                            .size_bytes = 1 + (bytes), .ip.ip_bytes = (how)}
#define IPS(name, opcode) \
    IP(name, opcode, PT_IPB_NONE, 0), IP(name, opcode, PT_IPB_UPD16, 2), \
    IP(name, opcode, PT_IPB_UPD32, 4), IP(name, opcode, PT_IPB_SEXT48, 6), \
    IP(name, opcode, PT_IPB_UPD48, 6), IP(name, opcode, PT_IPB_FULL, 8)

/* size_bytes 0: not of this table. In place of an offset, a mask says what is payload. */
static const struct ptd_packet chart[256] = {
    [PT_OPC_PAD] = {.type = PTD_PAD, .size_bytes = 1},
    TNT(0x04), TNT(0x06), TNT4(0x08), TNT4(0x10), TNT4(0x18), TNT16(0x20), TNT16(0x40), TNT16(0x60),
    TNT16(0x80), TNT16(0xa0), TNT16(0xc0), TNT16(0xe0),
    CYC4(0x03), CYC4(0x23), CYC4(0x43), CYC4(0x63), CYC4(0x83), CYC4(0xa3), CYC4(0xc3), CYC4(0xe3),
    IPS(PTD_TIP, PT_TIP), IPS(PTD_TIP_PGE, PT_TIP_PGE), IPS(PTD_TIP_PGD, PT_TIP_PGD),
    IPS(PTD_FUP, PT_FUP),
    [PT_OPC_TSC] = {.offset = PAYLOAD(PT_TSC_LEN - 1), .type = PTD_TSC, .size_bytes = PT_TSC_LEN},
};
/* clang-format on */

/* All members with a payload have it in the same place. */
static inline void add_payload(struct ptd_packet *packet, const struct ptd_packet *row,
                               const uint8_t *pos)
{
    uint64_t payload;

    memcpy(&payload, pos + 1, sizeof(payload));
    packet->ip.payload |= le64toh(payload) & row->offset;
}

/* An IP packet of that size, by its byte alone; CYC packets have both of the lowest bits. */
static inline bool is_ip(uint8_t byte, unsigned ip_bytes)
{
    return (byte & (7u << PT_IPBYTES_SHR | 3u)) == (ip_bytes << PT_IPBYTES_SHR | 1u);
}

/*
 * What is behind a packet of the table. A processor guesses the most frequent sizes as well. That
 * takes branches: the empty asm keeps a compiler from selecting, which would wait for the byte.
 */
static inline const uint8_t *behind(const uint8_t *pos, const struct ptd_packet *row)
{
    const uint8_t *next;

    if (__builtin_expect(is_ip(*pos, PT_IPB_UPD16), 1))
        return pos + 3;
    if (is_ip(*pos, PT_IPB_UPD32)) {
        next = pos + 5;
        __asm__("" : "+r"(next));
        return next;
    }
    return pos + row->size_bytes;
}

/* Takes the packet at *at. False: it is none of the table, and nothing changes. */
static inline bool take(struct ptd_packet *packet, const uint8_t **at, uint64_t offset)
{
    const uint8_t *const pos = *at;
    const struct ptd_packet *const row = &chart[*pos];

    /*
     * As most packets are: what comes next waits for no size, and a processor that guessed wrong
     * knows it by the byte alone.
     */
    if (__builtin_expect(pt_is_tnt8(*pos), 1)) {
        packet->offset = offset;
        packet->type = PTD_TNT;
        packet->size_bytes = 1;
        packet->tnt = row->tnt;
        *at = pos + 1;
        return true;
    }
    if (row->size_bytes == 0)
        return false;
    *packet = *row;
    packet->offset = offset;
    add_payload(packet, row, pos);
    *at = behind(pos, row);
    return true;
}

/* ---- One by one ---- */

int ptd_packets_next(struct ptd_packets *packets, struct ptd_packet *packet)
{
    const uint64_t offset = packets->base + (uint64_t)(packets->pos - packets->begin);

    if (packets->end - packets->pos < (ptrdiff_t)LOOK_AHEAD || packets->bip_bytes ||
        !take(packet, &packets->pos, offset))
        return ptd_packets_next_any(packets, packet);
    return PTD_OK;
}

/* ---- In bulk ---- */

/* Packets of the table, up to another one or where it is not safe to look ahead. */
static size_t read_common(struct ptd_packets *packets, struct ptd_packet *list, size_t room)
{
    /* What makes an offset of an address: one addition a packet. */
    const uint64_t to_offset = packets->base - (uint64_t)(uintptr_t)packets->begin;
    const struct ptd_packet *const first = list;
    const uint8_t *pos = packets->pos;
    bool is_common = true;
    size_t safe;

    /* So many of them are there, whatever they are: no other look at the ends is needed. */
    while (is_common && (safe = (size_t)(packets->end - pos) / LOOK_AHEAD) > 0 && room > 0) {
        const struct ptd_packet *const stop = list + (safe < room ? safe : room);

        room -= (size_t)(stop - list);
        while (list < stop && (is_common = take(list, &pos, to_offset + (uint64_t)(uintptr_t)pos)))
            list++;
    }
    packets->pos = pos;
    return (size_t)(list - first);
}

size_t ptd_packets_read(struct ptd_packets *packets, struct ptd_packet *list, size_t room,
                        int *status)
{
    size_t count = 0;

    *status = PTD_OK;
    while (count < room && *status == PTD_OK) {
        if (!packets->bip_bytes) /* else bytes mean something else */
            count += read_common(packets, list + count, room - count);
        if (count == room)
            break;
        *status = ptd_packets_next(packets, &list[count]);
        count += *status == PTD_OK;
    }
    return count;
}
