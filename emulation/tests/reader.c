/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests' own packet reader: layouts from Tables 33-16 to 33-51. */
#include "reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const uint8_t psb_bytes[16] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
                                      0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};

void reader_open(struct reader *reader, const uint8_t *bytes, size_t len_bytes)
{
    memset(reader, 0, sizeof(*reader));
    reader->bytes = bytes;
    reader->len_bytes = len_bytes;
}

static uint64_t little_endian(const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* Table 33-18; the payload's size in bytes, or -1 for a reserved code. */
static int ip_payload_bytes(unsigned ip_bytes)
{
    static const int sizes[8] = {0, 2, 4, 6, 6, -1, 8, -1};

    return sizes[ip_bytes];
}

static uint64_t rebuilt_ip(uint64_t last, unsigned ip_bytes, uint64_t payload)
{
    switch (ip_bytes) {
    case 1:
        return (last & ~0xffffull) | payload;
    case 2:
        return (last & ~0xffffffffull) | payload;
    case 3:
        return (uint64_t)((int64_t)(payload << 16) >> 16);
    case 4:
        return (last & ~0xffffffffffffull) | payload;
    default:
        return payload;
    }
}

static size_t read_ip(struct reader *reader, struct packet *packet, const uint8_t *p, size_t left)
{
    int size = ip_payload_bytes(p[0] >> 5);

    if (size < 0 || left < 1u + (unsigned)size)
        return 0;
    packet->ip_bytes = p[0] >> 5;
    if (size == 0)
        return 1;
    packet->value =
        rebuilt_ip(reader->last_ip, packet->ip_bytes, little_endian(p + 1, (unsigned)size));
    reader->last_ip = packet->value;
    return 1u + (unsigned)size;
}

/* Results stand below the stop bit, which is the highest set bit of the payload (Table 33-16). */
static bool read_tnt(struct packet *packet, uint64_t payload)
{
    unsigned bits = 63;

    if (!payload)
        return false;
    while (!(payload >> bits & 1))
        bits--;
    packet->kind = PACKET_TNT;
    packet->bits = bits;
    packet->value = payload & ~(1ull << bits);
    return bits > 0;
}

static size_t read_cyc(struct packet *packet, const uint8_t *p, size_t left)
{
    unsigned shift = 5;
    size_t n = 1;
    bool more = p[0] & 4;

    packet->kind = PACKET_CYC;
    packet->value = p[0] >> 3;
    while (more) {
        if (n >= left || n >= 15)
            return 0;
        packet->value |= (uint64_t)(p[n] >> 1) << shift;
        shift += 7;
        more = p[n] & 1;
        n++;
    }
    return n;
}

static size_t read_mode(struct packet *packet, const uint8_t *p, size_t left)
{
    if (left < 2 || p[1] >> 5 > 1)
        return 0;
    packet->kind = p[1] >> 5 ? PACKET_TSX : PACKET_EXEC;
    packet->value = p[1] & 0x1f;
    return 2;
}

/* Packets of two opcode bytes with a payload of fixed size. */
static const struct {
    uint8_t opcode;
    uint8_t len_bytes;
    enum packet_kind kind;
} extended[] = {
    {0x03, 4, PACKET_CBR},    {0x43, 8, PACKET_PIP},    {0x73, 7, PACKET_TMA},
    {0xc8, 7, PACKET_VMCS},   {0xf3, 2, PACKET_OVF},    {0x23, 2, PACKET_PSBEND},
    {0x83, 2, PACKET_STOP},   {0x12, 6, PACKET_PTW},    {0x92, 6, PACKET_PTW},
    {0x32, 10, PACKET_PTW},   {0xb2, 10, PACKET_PTW},   {0x13, 4, PACKET_CFE},
    {0x53, 11, PACKET_EVD},   {0xc3, 11, PACKET_MNT},   {0x62, 2, PACKET_EXSTOP},
    {0xe2, 2, PACKET_EXSTOP}, {0xc2, 10, PACKET_MWAIT}, {0x22, 4, PACKET_PWRE},
    {0xa2, 7, PACKET_PWRX},   {0x63, 3, PACKET_BBP},    {0x33, 2, PACKET_BEP},
    {0xb3, 2, PACKET_BEP},
};

/* The fields of one of these; false: a reserved value. */
static bool read_fields(struct reader *reader, struct packet *packet, const uint8_t *p,
                        unsigned len_bytes)
{
    switch (packet->kind) {
    case PACKET_CBR:
        packet->value &= 0xff;
        break;
    case PACKET_PIP:
        packet->flag = packet->value & 1;
        packet->value = packet->value >> 1 << 5;
        break;
    case PACKET_TMA:
        packet->extra = packet->value >> 24 & 0x1ff;
        packet->value &= 0xffff;
        break;
    case PACKET_PTW:
        packet->flag = p[1] & 0x80;
        packet->bits = len_bytes - 2u;
        break;
    case PACKET_CFE:
        packet->flag = p[2] & 0x80;
        packet->value = p[2] & 0x1f;
        packet->extra = p[3];
        break;
    case PACKET_EVD:
        packet->extra = p[2] & 0x3f;
        packet->value = little_endian(p + 3, 8);
        break;
    case PACKET_MNT:
        packet->value = little_endian(p + 3, 8);
        return p[2] == 0x88;
    case PACKET_EXSTOP:
        packet->flag = p[1] & 0x80;
        break;
    case PACKET_MWAIT:
        packet->value = p[2];
        packet->extra = p[6];
        return (p[3] | p[4] | p[5] | p[7] | p[8] | p[9]) == 0 && p[6] < 4;
    case PACKET_PWRE:
        packet->flag = p[2] & 0x80;
        packet->value = p[3];
        return (p[2] & 0x7f) == 0;
    case PACKET_PWRX:
        packet->value = p[2];
        packet->extra = p[3];
        return (p[4] | p[5] | p[6]) == 0 && p[3] < 16;
    case PACKET_BBP:
        packet->flag = p[2] & 0x80;
        packet->value = p[2] & 0x1f;
        reader->item_bytes = packet->flag ? 4 : 8;
        return (p[2] & 0x60) == 0;
    case PACKET_BEP:
        packet->flag = p[1] & 0x80;
        reader->item_bytes = 0;
        break;
    case PACKET_OVF:
        reader->item_bytes = 0;
        break;
    default:
        break;
    }
    return true;
}

static size_t read_extended(struct reader *reader, struct packet *packet, const uint8_t *p,
                            size_t left)
{
    if (left < 2)
        return 0;
    if (p[1] == 0x82) {
        if (left < 16 || memcmp(p, psb_bytes, 16) != 0)
            return 0;
        packet->kind = PACKET_PSB;
        reader->last_ip = 0;
        return 16;
    }
    if (p[1] == 0xa3) {
        if (left < 8 || !read_tnt(packet, little_endian(p + 2, 6)))
            return 0;
        return 8;
    }
    for (size_t i = 0; i < sizeof(extended) / sizeof(extended[0]); i++) {
        if (extended[i].opcode != p[1])
            continue;
        if (left < extended[i].len_bytes)
            return 0;
        packet->kind = extended[i].kind;
        packet->value =
            little_endian(p + 2, extended[i].len_bytes > 10 ? 8 : extended[i].len_bytes - 2u);
        if (!read_fields(reader, packet, p, extended[i].len_bytes))
            return 0;
        return extended[i].len_bytes;
    }
    return 0;
}

/* D9, flags, a bit a trigger, and 16 bits of count if bit 6 of the flags is 1. */
static size_t read_trig(struct packet *packet, const uint8_t *p, size_t left)
{
    const size_t size = left > 1 && p[1] & 0x40 ? 5 : 3;

    if (left < size || p[1] & 0x1f)
        return 0;
    packet->kind = PACKET_TRIG;
    packet->flag = p[1] & 0x80;
    packet->bits = p[1];
    packet->value = p[2];
    packet->extra = size == 5 ? little_endian(p + 3, 2) : 0;
    return size;
}

static size_t read_packet(struct reader *reader, struct packet *packet, const uint8_t *p,
                          size_t left)
{
    switch (p[0]) {
    case 0x00:
        packet->kind = PACKET_PAD;
        return 1;
    case 0x02:
        return read_extended(reader, packet, p, left);
    case 0x19:
        packet->kind = PACKET_TSC;
        packet->value = left < 8 ? 0 : little_endian(p + 1, 7);
        return left < 8 ? 0 : 8;
    case 0x59:
        packet->kind = PACKET_MTC;
        packet->value = left < 2 ? 0 : p[1];
        return left < 2 ? 0 : 2;
    case 0x99:
        return read_mode(packet, p, left);
    case 0xd9:
        return read_trig(packet, p, left);
    default:
        break;
    }
    if (reader->item_bytes && (p[0] & 7) == 4) { /* in a block, this is no TNT (33.4.1.1) */
        packet->kind = PACKET_BIP;
        packet->extra = p[0] >> 3;
        if (left < 1 + reader->item_bytes)
            return 0;
        packet->value = little_endian(p + 1, reader->item_bytes);
        return 1 + reader->item_bytes;
    }
    if ((p[0] & 1) == 0)
        return read_tnt(packet, p[0] >> 1) ? 1 : 0;
    if ((p[0] & 3) == 3)
        return read_cyc(packet, p, left);
    switch (p[0] & 0x1f) {
    case 0x0d:
        packet->kind = PACKET_TIP;
        break;
    case 0x11:
        packet->kind = PACKET_PGE;
        break;
    case 0x01:
        packet->kind = PACKET_PGD;
        break;
    case 0x1d:
        packet->kind = PACKET_FUP;
        break;
    default:
        return 0;
    }
    return read_ip(reader, packet, p, left);
}

bool reader_next(struct reader *reader, struct packet *packet)
{
    size_t left = reader->len_bytes - reader->at;

    if (left == 0 || reader->bad)
        return false;
    memset(packet, 0, sizeof(*packet));
    packet->offset = reader->at;
    packet->len_bytes = read_packet(reader, packet, reader->bytes + reader->at, left);
    if (packet->len_bytes == 0) {
        reader->bad = true;
        return false;
    }
    reader->at += packet->len_bytes;
    return true;
}

/* A bounded string that remembers whether everything fitted. */
struct text {
    char *out;
    size_t size, used;
    bool full;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text->out + text->used, text->size - text->used, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= text->size - text->used)
        text->full = true;
    else
        text->used += (size_t)n;
}

static void put_ip(struct text *text, const char *name, const struct packet *packet)
{
    if (packet->ip_bytes == 0)
        put(text, "%s() ", name);
    else
        put(text, "%s(%" PRIx64 ") ", name, packet->value);
}

static void put_tnt(struct text *text, const struct packet *packet)
{
    put(text, "TNT(");
    for (unsigned i = packet->bits; i-- > 0;)
        put(text, "%c", packet->value >> i & 1 ? 'T' : 'N');
    put(text, ") ");
}

static void put_exec(struct text *text, uint64_t mode)
{
    static const char *const names[4] = {"16", "64", "32", "bad"};

    put(text, "MODE(%s%s) ", names[mode & 3], mode & 4 ? "+IF" : "");
}

/* "TRIG(1a)", "TRIG(1a,3)" with a count, then ">" for others that fired and "+" for a FUP. */
static void put_trig(struct text *text, const struct packet *packet)
{
    put(text, "TRIG(%" PRIx64, packet->value);
    if (packet->bits & 0x40)
        put(text, ",%" PRIu64, packet->extra);
    put(text, ")%s%s ", packet->bits & 0x20 ? ">" : "", packet->flag ? "+" : "");
}

/* Packets that software asks for, and those of events, power, PEBS and triggers. */
static void put_event(struct text *text, const struct packet *packet)
{
    switch (packet->kind) {
    case PACKET_PTW:
        put(text, "PTW%u(%" PRIx64 ")%s ", packet->bits, packet->value, packet->flag ? "+" : "");
        break;
    case PACKET_CFE:
        put(text, "CFE(%" PRIx64 ",%" PRIx64 ")%s ", packet->value, packet->extra,
            packet->flag ? "+" : "");
        break;
    case PACKET_EVD:
        put(text, "EVD(%" PRIx64 ",%" PRIx64 ") ", packet->extra, packet->value);
        break;
    case PACKET_EXSTOP:
        put(text, "EXSTOP%s ", packet->flag ? "+" : "");
        break;
    case PACKET_MWAIT:
        put(text, "MWAIT(%" PRIx64 ",%" PRIx64 ") ", packet->value, packet->extra);
        break;
    case PACKET_PWRE:
        put(text, "PWRE(%s%" PRIx64 ") ", packet->flag ? "HW," : "", packet->value);
        break;
    case PACKET_PWRX:
        put(text, "PWRX(%" PRIx64 ",%" PRIx64 ",%" PRIx64 ") ", packet->value >> 4,
            packet->value & 15, packet->extra);
        break;
    case PACKET_BBP:
        put(text, "BBP(%" PRIx64 ",%u) ", packet->value, packet->flag ? 4 : 8);
        break;
    case PACKET_BIP:
        put(text, "BIP(%" PRIx64 ",%" PRIx64 ") ", packet->extra, packet->value);
        break;
    case PACKET_BEP:
        put(text, "BEP%s ", packet->flag ? "+" : "");
        break;
    case PACKET_TRIG:
        put_trig(text, packet);
        break;
    default:
        break;
    }
}

static void put_time(struct text *text, const struct packet *packet)
{
    switch (packet->kind) {
    case PACKET_CBR:
        put(text, "CBR(%" PRIu64 ") ", packet->value);
        break;
    case PACKET_TSC:
        put(text, "TSC(%" PRIx64 ") ", packet->value);
        break;
    case PACKET_MTC:
        put(text, "MTC(%" PRIx64 ") ", packet->value);
        break;
    case PACKET_TMA:
        put(text, "TMA(%" PRIx64 ",%" PRIx64 ") ", packet->value, packet->extra);
        break;
    case PACKET_CYC:
        put(text, "CYC(%" PRIu64 ") ", packet->value);
        break;
    default:
        break;
    }
}

static void put_packet(struct text *text, const struct packet *packet)
{
    switch (packet->kind) {
    case PACKET_PAD:
        break;
    case PACKET_TNT:
        put_tnt(text, packet);
        break;
    case PACKET_TIP:
        put_ip(text, "TIP", packet);
        break;
    case PACKET_PGE:
        put_ip(text, "PGE", packet);
        break;
    case PACKET_PGD:
        put_ip(text, "PGD", packet);
        break;
    case PACKET_FUP:
        put_ip(text, "FUP", packet);
        break;
    case PACKET_PIP:
        put(text, "PIP(%" PRIx64 "%s) ", packet->value, packet->flag ? ",NR" : "");
        break;
    case PACKET_EXEC:
        put_exec(text, packet->value);
        break;
    case PACKET_TSX:
        put(text, "TSX(%" PRIu64 ") ", packet->value);
        break;
    case PACKET_STOP:
        put(text, "STOP ");
        break;
    case PACKET_CBR:
    case PACKET_TSC:
    case PACKET_MTC:
    case PACKET_TMA:
    case PACKET_CYC:
        put_time(text, packet);
        break;
    case PACKET_VMCS:
        put(text, "VMCS(%" PRIx64 ") ", packet->value << 12);
        break;
    case PACKET_OVF:
        put(text, "OVF ");
        break;
    case PACKET_PSB:
        put(text, "PSB ");
        break;
    case PACKET_PSBEND:
        put(text, "PSBEND ");
        break;
    case PACKET_MNT:
        put(text, "MNT(%" PRIx64 ") ", packet->value);
        break;
    default:
        put_event(text, packet);
        break;
    }
}

bool reader_text(const uint8_t *bytes, size_t len_bytes, size_t from, bool spell_psb, char *out,
                 size_t out_bytes)
{
    struct text text = {out, out_bytes, 0, false};
    struct reader reader;
    struct packet packet, cyc = {0};
    bool in_psb = false, have_cyc = false;

    reader_open(&reader, bytes, len_bytes);
    out[0] = '\0';
    while (reader_next(&reader, &packet)) {
        if (packet.offset < from)
            continue;
        if (packet.kind == PACKET_CYC && have_cyc) {
            cyc.value += packet.value;
            continue;
        }
        if (packet.kind == PACKET_CYC) {
            cyc = packet;
            have_cyc = true;
            continue;
        }
        if (have_cyc)
            put_packet(&text, &cyc);
        have_cyc = false;
        if (packet.kind == PACKET_PSB && !spell_psb) {
            in_psb = true;
            put(&text, "PSB+ ");
        }
        if (packet.kind == PACKET_OVF)
            in_psb = false;
        if (!in_psb)
            put_packet(&text, &packet);
        if (packet.kind == PACKET_PSBEND)
            in_psb = false;
    }
    if (have_cyc)
        put_packet(&text, &cyc);
    if (reader.bad)
        put(&text, "BAD(%zu) ", reader.at);
    if (text.used > 0)
        out[text.used - 1] = '\0';
    return !text.full;
}

static size_t word_len(const char *s)
{
    return strcspn(s, " ");
}

/* Whether word matches one alternative [pattern, pattern + n). */
static bool alternative_matches(const char *pattern, size_t n, const char *word, size_t word_n)
{
    if (n > 0 && pattern[n - 1] == '*')
        return word_n >= n - 1 && memcmp(pattern, word, n - 1) == 0;
    return n == word_n && memcmp(pattern, word, n) == 0;
}

static bool word_matches(const char *pattern, size_t n, const char *word, size_t word_n)
{
    while (n > 0) {
        const char *bar = memchr(pattern, '|', n);
        size_t part = bar ? (size_t)(bar - pattern) : n;

        if (alternative_matches(pattern, part, word, word_n))
            return true;
        if (!bar)
            return false;
        pattern += part + 1;
        n -= part + 1;
    }
    return false;
}

bool words_match(const char *pattern, const char *words)
{
    size_t n, word_n;
    bool optional;

    pattern += strspn(pattern, " ");
    words += strspn(words, " ");
    n = word_len(pattern);
    if (n == 0)
        return *words == '\0';
    word_n = word_len(words);
    optional = pattern[n - 1] == '?';
    if (word_n > 0 && word_matches(pattern, optional ? n - 1 : n, words, word_n) &&
        words_match(pattern + n, words + word_n))
        return true;
    return optional && words_match(pattern + n, words);
}
