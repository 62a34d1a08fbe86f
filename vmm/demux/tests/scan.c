/* SPDX-License-Identifier: BSD-3-Clause */
/* What is foreign in a trace, see scan.h. It shares nothing with what makes such traces. */
#include "demux/tests/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"

#define MAGIC_BYTES    8u
#define RECORD_BYTES   32u
#define PAGE_BYTES     4096u
#define SPACE_PHYSICAL UINT64_MAX
#define SPACE_SEGMENT  (UINT64_MAX - 1)
#define CR3_ADDRESS    0x000ffffffffff000u
#define PSB_BYTES      16u

/* A set of pairs. A byte of code has its address space, the address and the value. */
struct set {
    struct key {
        uint64_t a, b;
        bool used;
    } * keys;
    size_t count, room; /* a power of two */
};

struct truth {
    struct set ips, cr3s, code;
    struct span {
        uint64_t from, to;
    } * times;
    size_t time_count, time_room;
};

/* ---- Sets ---- */

static struct key *slot(const struct set *set, uint64_t a, uint64_t b)
{
    for (size_t i = (size_t)((a ^ b << 1) * 0x9e3779b97f4a7c15u >> 17);; i++) {
        struct key *const key = &set->keys[i & (set->room - 1)];

        if (!key->used || (key->a == a && key->b == b))
            return key;
    }
}

static bool has(const struct set *set, uint64_t a, uint64_t b)
{
    return set->room > 0 && slot(set, a, b)->used;
}

static bool add(struct set *set, uint64_t a, uint64_t b)
{
    struct key *key;

    if (2 * set->count >= set->room) {
        const struct set old = *set;

        set->room = old.room ? 2 * old.room : 1024;
        set->keys = calloc(set->room, sizeof(*set->keys));
        if (!set->keys) {
            *set = old;
            return false;
        }
        for (size_t i = 0; i < old.room; i++)
            if (old.keys[i].used)
                *slot(set, old.keys[i].a, old.keys[i].b) = old.keys[i];
        free(old.keys);
    }
    key = slot(set, a, b);
    set->count += !key->used;
    *key = (struct key){a, b, true};
    return true;
}

/* ---- What is known ---- */

struct truth *truth_new(void)
{
    return calloc(1, sizeof(struct truth));
}

void truth_free(struct truth *truth)
{
    if (!truth)
        return;
    free(truth->ips.keys);
    free(truth->cr3s.keys);
    free(truth->code.keys);
    free(truth->times);
    free(truth);
}

static uint64_t code_key(uint64_t cr3, uint8_t byte)
{
    return (cr3 & CR3_ADDRESS) | byte;
}

bool truth_add_insn(struct truth *truth, uint64_t cr3, uint64_t ip, const uint8_t *bytes,
                    size_t len)
{
    bool ok = truth_add_ip(truth, ip) && add(&truth->cr3s, cr3, 0);

    for (size_t i = 0; ok && i < len; i++)
        ok = add(&truth->code, ip + i, code_key(cr3, bytes[i]));
    return ok;
}

bool truth_add_ip(struct truth *truth, uint64_t ip)
{
    return add(&truth->ips, ip, 0);
}

bool truth_has_ip(const struct truth *truth, uint64_t ip)
{
    return has(&truth->ips, ip, 0);
}

bool truth_add_time(struct truth *truth, uint64_t from, uint64_t to)
{
    if (truth->time_count == truth->time_room) {
        const size_t room = truth->time_room ? 2 * truth->time_room : 64;
        struct span *const more = reallocarray(truth->times, room, sizeof(*more));

        if (!more)
            return false;
        truth->times = more;
        truth->time_room = room;
    }
    truth->times[truth->time_count++] = (struct span){from, to};
    return true;
}

static bool is_its_time(const struct truth *truth, uint64_t tsc)
{
    const uint64_t mask = (UINT64_C(1) << 56) - 1;

    for (size_t i = 0; i < truth->time_count; i++)
        if (((tsc - truth->times[i].from) & mask) <= truth->times[i].to - truth->times[i].from)
            return true;
    return false;
}

/* ---- Packets ---- */

const char *scan_word(enum foreign what)
{
    static const char *const words[] = {"ip", "cr3", "vmcs", "nr", "time"};

    return what < FOREIGN_KINDS ? words[what] : NULL;
}

uint64_t scan_sum(const struct scan *scan)
{
    uint64_t sum = scan->other;

    for (unsigned i = 0; i < FOREIGN_KINDS; i++)
        sum += scan->foreign[i];
    return sum;
}

static void found(struct scan *scan, uint64_t *count, const char *what, uint64_t value,
                  uint64_t offset)
{
    if (scan_sum(scan) == 0)
        snprintf(scan->first, sizeof(scan->first), "%s %#" PRIx64 " at offset %#" PRIx64, what,
                 value, offset);
    ++*count;
}

static void foreign(struct scan *scan, enum foreign what, uint64_t value, uint64_t offset)
{
    found(scan, &scan->foreign[what], scan_word(what), value, offset);
}

static void scan_packet(const struct truth *truth, const struct ptd_packet *packet,
                        uint64_t *last_ip, struct scan *scan)
{
    uint64_t ip;

    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PSB:
        *last_ip = 0;
        break;
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_TIP_PGD:
    case PTD_FUP:
        if (ptd_packet_ip(packet, last_ip, &ip) == PTD_OK && !truth_has_ip(truth, ip))
            foreign(scan, FOREIGN_IP, ip, packet->offset);
        break;
    case PTD_PIP:
        if (packet->pip.nr)
            foreign(scan, FOREIGN_NR, packet->pip.cr3, packet->offset);
        else if (!has(&truth->cr3s, packet->pip.cr3, 0))
            foreign(scan, FOREIGN_CR3, packet->pip.cr3, packet->offset);
        break;
    case PTD_VMCS:
        foreign(scan, FOREIGN_VMCS, packet->vmcs, packet->offset);
        break;
    case PTD_TSC:
        if (!is_its_time(truth, packet->tsc))
            foreign(scan, FOREIGN_TIME, packet->tsc, packet->offset);
        break;
    case PTD_PAD:
    case PTD_PSBEND:
    case PTD_TNT:
    case PTD_MODE_EXEC:
    case PTD_MODE_TSX:
    case PTD_TRACESTOP:
    case PTD_CBR:
    case PTD_MTC:
    case PTD_TMA:
    case PTD_OVF:
    case PTD_PTW:
        break;
    default:
        found(scan, &scan->other, ptd_packet_name((enum ptd_packet_type)packet->type), 0,
              packet->offset);
        break;
    }
}

void scan_trace(const struct truth *truth, const uint8_t *bytes, size_t len, struct scan *scan)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    uint64_t last_ip = 0;
    int status;

    ptd_packets_init(&packets, bytes, len);
    while ((status = ptd_packets_next(&packets, &packet)) == PTD_OK) {
        scan->packets++;
        scan_packet(truth, &packet, &last_ip, scan);
    }
    if (status != PTD_END)
        found(scan, &scan->other, "no packet", 0, ptd_packets_offset(&packets));
}

/* ---- Code ---- */

/* Where the log says that its physical pages are, by their numbers. */
struct place {
    uint64_t space, address;
};

static uint64_t word(const uint8_t *bytes)
{
    uint64_t value = 0;

    for (unsigned i = 8; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

/* Bytes at a physical address: they stand where the guest ran them. */
static void scan_bytes(const struct truth *truth, const struct place *place, uint64_t in_page,
                       const uint8_t *bytes, uint64_t len, struct scan *scan)
{
    for (uint64_t i = 0; i < len; i++) {
        scan->code_bytes++;
        if (!has(&truth->code, place->address + in_page + i, code_key(place->space, bytes[i])))
            found(scan, &scan->other, "code", place->address + in_page + i, 0);
    }
}

void scan_code(const struct truth *truth, const uint8_t *bytes, size_t len, struct scan *scan)
{
    const size_t room = len / RECORD_BYTES + 2; /* a page has a record of its own */
    struct place *const places = calloc(room, sizeof(*places));
    size_t count = 1, at = MAGIC_BYTES;

    while (places && at + RECORD_BYTES <= len) {
        const uint64_t space = word(bytes + at + 8), address = word(bytes + at + 16),
                       value = word(bytes + at + 24), number = address / PAGE_BYTES;

        at += RECORD_BYTES;
        if (space == SPACE_SEGMENT)
            continue;
        if (space != SPACE_PHYSICAL) {
            if (value / PAGE_BYTES != count) /* numbers are given in turn, and are no addresses */
                found(scan, &scan->other, "physical page", value, at);
            places[count++] = (struct place){space, address};
        } else if (number < count && value <= len - at) {
            scan_bytes(truth, &places[number], address % PAGE_BYTES, bytes + at, value, scan);
            at += (value + 7) / 8 * 8;
        } else {
            found(scan, &scan->other, "record", address, at);
            break;
        }
    }
    if (!places || at != len)
        found(scan, &scan->other, "end of the code log", len, at);
    free(places);
}

/* ---- Something foreign, to see whether it is found ---- */

static size_t make_packet(enum foreign what, uint64_t value, uint8_t packet[8])
{
    size_t header = 2, len = 8;

    switch (what) {
    case FOREIGN_IP: /* FUP with 6 bytes */
        packet[0] = 0x7d;
        header = 1;
        len = 7;
        break;
    case FOREIGN_VMCS:
        packet[0] = 0x02;
        packet[1] = 0xc8;
        value >>= 12;
        len = 7;
        break;
    case FOREIGN_TIME:
        packet[0] = 0x19;
        header = 1;
        break;
    default: /* PIP */
        packet[0] = 0x02;
        packet[1] = 0x43;
        value = value >> 5 << 1 | (what == FOREIGN_NR);
        break;
    }
    for (size_t i = header; i < len; i++, value >>= 8)
        packet[i] = (uint8_t)value;
    return len;
}

uint8_t *scan_plant(enum foreign what, uint64_t value, const uint8_t *bytes, size_t len,
                    size_t *planted_len)
{
    uint8_t packet[8];
    const size_t packet_len = make_packet(what, value, packet);
    uint8_t *const planted = malloc(len + packet_len);
    struct ptd_packets packets;
    size_t at;

    /* In front of the second PSB, behind which IPs begin anew. */
    ptd_packets_init(&packets, bytes, len);
    (void)ptd_packets_seek(&packets, len > PSB_BYTES ? PSB_BYTES : 0);
    if (!planted || ptd_packets_sync(&packets) != PTD_OK) {
        free(planted);
        return NULL;
    }
    at = (size_t)ptd_packets_offset(&packets);
    memcpy(planted, bytes, at);
    memcpy(planted + at, packet, packet_len);
    memcpy(planted + at + packet_len, bytes + at, len - at);
    *planted_len = len + packet_len;
    return planted;
}
