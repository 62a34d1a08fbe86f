/* SPDX-License-Identifier: BSD-3-Clause */
/* Compression of IPs and of RETs, and deferred TIPs (33.4.2.2, 33.4.2.3, Table 33-18). */
#include "conformance.h"

#include <string.h>

/* ---- IPs ------------------------------------------------------------------------------------ */

/* The IPBytes field of a TIP to next when the last IP was last. */
static unsigned ip_bytes(const char *profile, uint64_t last, uint64_t next)
{
    struct vpt_caps caps = plain_caps(profile);
    struct fake *fake = begin_caps(&caps, TRACED);
    unsigned field;

    vpt_jmp_indirect(&fake->cpu, last);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, next);
    vpt_flush(&fake->cpu);
    CHECK((fake->tap[fake->mark] & 0x1f) == 0x0d, "a TIP");
    field = fake->tap[fake->mark] >> 5;
    end_quietly(fake);
    return field;
}
static void ip_update_16(void)
{
    CHECK(ip_bytes("skylake", 0x7f1234560000, 0x7f123456ffff) == 1, "bits 63:16 are the same");
}
static void ip_update_32(void)
{
    CHECK(ip_bytes("skylake", 0x7f1234560000, 0x7f1234570000) == 2, "bits 63:32 are the same");
    CHECK(ip_bytes("skylake", 0x7f1234560000, 0x7f12f4560000) == 2, "bit 31 differs");
}
static void ip_extended(void)
{
    CHECK(ip_bytes("skylake", 0x7f1234560000, 0x7f1334560000) == 3, "bit 32 differs");
    CHECK(ip_bytes("skylake", 0x7f1234560000, 0xffff800000000000) == 3, "extended from bit 47");
    CHECK(ip_bytes("sapphire-rapids", 0x7f1234560000, 0xffff800000000000) == 3, "57 bits too");
}
static void ip_update_48(void)
{
    CHECK(ip_bytes("sapphire-rapids", 0x00ab123456780000, 0x00abf23456780000) == 4,
          "bits 63:48 are the same and no extension of bit 47");
}
static void ip_full(void)
{
    CHECK(ip_bytes("sapphire-rapids", 0x401000, 0x00ab923456780000) == 6, "all of it");
}
static void ip_suppressed(void)
{
    struct fake *fake = begin("skylake", USER | BRANCHEN);

    transfer(fake, VPT_IRET, at_cpl(3));
    vpt_jmp_indirect(&fake->cpu, 0x7f1234560000);
    fake_mark(fake);
    transfer(fake, VPT_FAR_BRANCH, at_cpl(0));
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_len - fake->mark == 1 && fake->tap[fake->mark] == 0x01, "TIP.PGD alone");
    fake_mark(fake);
    fake_transfer(fake, VPT_IRET, KERNEL, 0x7f1234561111,
                  &(struct vpt_context){.cr3 = 0x1000, .cpl = 3, .exec_mode = VPT_EXEC_64});
    vpt_flush(&fake->cpu);
    CHECK(fake->tap[fake->mark] == (1 << 5 | 0x11), "it leaves LastIP as it was");
    end_quietly(fake);
}
/* Whatever the IPs, no field but these is used, and the reader gets the IPs back. */
static void ip_reserved(void)
{
    static const char *const profiles[] = {"skylake", "sapphire-rapids"};

    for (unsigned i = 0; i < 2; i++) {
        struct fake *fake = begin(profiles[i], TRACED);
        struct reader reader;
        struct packet packet;
        uint64_t seed = 88172645463325252ull, ips[600];
        size_t at = 0;

        for (size_t n = 0; n < 600; n++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            ips[n] = (uint64_t)((int64_t)(seed << (seed & 31)) >> (i ? 7 : 16));
            if (n && seed >> 62)
                ips[n] = ips[n - 1] ^ (seed & (0xffffull << (seed >> 58 & 16)));
            vpt_jmp_indirect(&fake->cpu, ips[n]);
        }
        vpt_flush(&fake->cpu);
        reader_open(&reader, fake->tap, fake->tap_len);
        while (reader_next(&reader, &packet)) {
            CHECK(packet.kind != PACKET_TIP || (packet.ip_bytes != 5 && packet.ip_bytes != 7),
                  "IPBytes %u", packet.ip_bytes);
            if (packet.kind != PACKET_TIP)
                continue;
            CHECK(packet.value == ips[at], "IP %zu: %llx", at, (unsigned long long)packet.value);
            at++;
        }
        CHECK(at == 600 && !reader.bad, "%zu TIPs", at);
        end_quietly(fake);
    }
}

static const struct rule table_18[] = {
    {"000b", "an IP out of context; LastIP stays", TEST(ip_suppressed)},
    {"001b", "two bytes", TEST(ip_update_16)},
    {"010b", "four bytes", TEST(ip_update_32)},
    {"011b", "six bytes, extended from bit 47", TEST(ip_extended)},
    {"100b", "six bytes below LastIP", TEST(ip_update_48)},
    {"101b, 111b", "reserved", TEST(ip_reserved)},
    {"110b", "eight bytes", TEST(ip_full)},
    {0},
};

/* Every IP packet counts as the last one, and every one may be compressed against it. */
static void last_ip_kinds(void)
{
    struct fake *fake = begin_range("skylake", VPT_ADDR_CFG_FILTER, 0, 0x7f1234567fff, TRACED);

    vpt_jmp_indirect(&fake->cpu, 0x7f1234560000);
    fake_mark(fake);
    fake_transfer(fake, VPT_INTERRUPT, 0x7f1234560008, 0x7f1234570000,
                  &(struct vpt_context){.cr3 = 0x1000, .exec_mode = VPT_EXEC_64});
    vpt_jmp_direct(&fake->cpu, 0x7f1234570004);
    vpt_jmp_direct(&fake->cpu, 0x7f12345600ff);
    BYTES(fake, 0x3d, 0x08, 0x00, 0x41, 0x00, 0x00, 0x57, 0x34, 0x51, 0xff, 0x00, 0x56, 0x34);
}
static void last_ip_psb(void)
{
    struct fake *fake = begin("skylake", TRACED);
    struct reader reader;
    struct packet packet;
    bool behind = false;
    unsigned psbs = 0;

    for (unsigned i = 0; i < 3000; i++)
        vpt_jmp_indirect(&fake->cpu, 0x401000 + 16 * (i & 15));
    vpt_flush(&fake->cpu);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (packet.kind == PACKET_PSB) {
            psbs++;
            behind = true;
        } else if (behind && (packet.kind == PACKET_FUP || packet.kind == PACKET_PGE)) {
            CHECK(packet.ip_bytes == 3, "IPBytes %u behind a PSB", packet.ip_bytes);
            behind = false;
        }
    }
    CHECK(psbs > 3 && !reader.bad, "%u PSBs", psbs);
    end_quietly(fake);
}
static void ip_32_bits(void)
{
    struct vpt_caps caps = plain_caps("broadwell");
    struct fake *fake;
    struct reader reader;
    struct packet packet;
    unsigned ips = 0;

    caps.linear_bits = 32;
    fake = begin_caps(&caps, TRACED);
    for (unsigned i = 0; i < 3000; i++)
        vpt_jmp_indirect(&fake->cpu, (uint32_t)(i * 0x9e3779b9u));
    vpt_flush(&fake->cpu);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet))
        if (packet.kind == PACKET_TIP || packet.kind == PACKET_FUP || packet.kind == PACKET_PGE) {
            CHECK(packet.ip_bytes == 1 || packet.ip_bytes == 2, "IPBytes %u", packet.ip_bytes);
            ips++;
        }
    CHECK(ips > 3000 && !reader.bad, "%u IPs", ips);
    end_quietly(fake);
}

static const struct rule section_ip[] = {
    {"LastIP", "FUP, TIP, TIP.PGE and TIP.PGD set it and are compressed by it",
     TEST(last_ip_kinds)},
    {"PSB", "the IP behind a PSB is not compressed", TEST(last_ip_psb)},
    {"32-bit addresses", "no payload has more than 4 bytes", TEST(ip_32_bits)},
    {0},
};

/* ---- RETs ----------------------------------------------------------------------------------- */

#define CALL_NEXT 0x401015ull

static void ret_matches(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    vpt_call_indirect(&fake->cpu, TARGET + 0x100, TARGET + 7);
    vpt_ret(&fake->cpu, TARGET + 7);
    vpt_ret(&fake->cpu, CALL_NEXT);
    SO_FAR(fake, "TIP(402100)");
    END(fake, "TNT(TT)");
    fake = begin("skylake", TRACED | VPT_CTL_DISRETC);
    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    vpt_ret(&fake->cpu, CALL_NEXT);
    END(fake, "TIP(401015)");
    fake = begin("skylake", TRACED);
    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    vpt_ret(&fake->cpu, CALL_NEXT + 1);
    END(fake, "TIP(401016)");
}
static void ret_last_ip(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_call_indirect(&fake->cpu, 0x7f1234560000, CALL_NEXT);
    fake_mark(fake);
    vpt_ret(&fake->cpu, CALL_NEXT);
    vpt_jmp_indirect(&fake->cpu, 0x7f1234560044);
    BYTES(fake, 0x06, 0x2d, 0x44, 0x00); /* TNT(T), TIP with two bytes */
}
static void ret_depth(void)
{
    struct fake *fake = begin("skylake", TRACED);

    for (uint64_t i = 0; i < 65; i++)
        vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT + i);
    for (uint64_t i = 65; i-- > 1;)
        vpt_ret(&fake->cpu, CALL_NEXT + i);
    vpt_flush_branches(&fake->cpu);
    CHECK(!strstr(fake_words(fake, false), "TIP"), "64 RETs are compressed");
    fake_mark(fake);
    vpt_ret(&fake->cpu, CALL_NEXT);
    END(fake, "TIP(401015)");
}
static void ret_zero_length(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    vpt_call_direct(&fake->cpu, TARGET + 5, TARGET + 5);
    vpt_ret(&fake->cpu, CALL_NEXT);
    END(fake, "TNT(T)");
    fake = begin("skylake", TRACED);
    vpt_call_indirect(&fake->cpu, TARGET + 2, TARGET + 2); /* an indirect one counts */
    fake_mark(fake);
    vpt_ret(&fake->cpu, TARGET + 2);
    END(fake, "TNT(T)");
}
/* A PSB, an overflow, and PacketEn = 0 lie between the CALL and the RET. */
static void ret_barriers(void)
{
    const struct vpt_context user = at_cpl(3), kernel = at_cpl(0);
    struct fake *fake = begin("skylake", TRACED);
    const char *words;

    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    fake_noise(fake, 2200);
    CHECK(strstr(fake_words(fake, false), "PSB+"), "a PSB");
    fake_mark(fake);
    vpt_ret(&fake->cpu, CALL_NEXT);
    END(fake, "TIP(401015)");

    fake = begin("skylake", TRACED);
    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 1500);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_direct(&fake->cpu, TARGET + 8);
    words = fake_words(fake, false);
    CHECK(strstr(words, "OVF"), "an overflow");
    fake_mark(fake);
    vpt_ret(&fake->cpu, CALL_NEXT);
    END(fake, "TIP(401015)");

    fake = begin("skylake", OS | BRANCHEN);
    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    fake_transfer(fake, VPT_IRET, TARGET, 0x600000, &user);
    fake_transfer(fake, VPT_INTERRUPT, 0x600000, TARGET, &kernel);
    fake_mark(fake);
    vpt_ret(&fake->cpu, CALL_NEXT);
    END(fake, "TIP(401015)");

    fake = begin("skylake", USER | BRANCHEN); /* the CALL while PacketEn is 0 */
    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    fake_transfer(fake, VPT_IRET, TARGET, 0x600000, &user);
    fake_mark(fake);
    vpt_ret(&fake->cpu, CALL_NEXT);
    END(fake, "TIP(401015)");

    fake = begin("skylake", TRACED); /* TraceEn cleared and set between them */
    vpt_call_direct(&fake->cpu, TARGET, CALL_NEXT);
    fake_stop(fake);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    vpt_ret(&fake->cpu, CALL_NEXT);
    END(fake, "TIP(401015)");
}

static const struct rule section_ret[] = {
    {"match", "compressed if it goes behind its CALL, unless DisRETC", TEST(ret_matches)},
    {"LastIP", "a compressed RET does not set it", TEST(ret_last_ip)},
    {"depth", "the youngest 64 CALLs count", TEST(ret_depth)},
    {"zero length", "a direct CALL of the next instruction does not count", TEST(ret_zero_length)},
    {"barriers", "none is compressed across a PSB, an overflow or PacketEn = 0",
     TEST(ret_barriers)},
    {0},
};

/* ---- Deferred TIPs -------------------------------------------------------------------------- */

static struct fake *deferring(uint64_t ctl)
{
    struct vpt_caps caps = plain_caps("skylake");

    caps.deferred_tips = true;
    return begin_caps(&caps, ctl);
}
static void deferred_ret(void)
{
    struct fake *fake = deferring(TRACED);

    vpt_cond_branch(&fake->cpu, SOURCE, true);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_ret(&fake->cpu, TARGET + 8);
    SO_FAR(fake, "TNT(T) TIP(402000) TIP(402008)");
    end_quietly(fake);
}
static void deferred_full(void)
{
    struct fake *fake = deferring(TRACED);

    for (unsigned i = 0; i < 5; i++) {
        vpt_cond_branch(&fake->cpu, SOURCE, true);
        vpt_jmp_indirect(&fake->cpu, TARGET + i);
    }
    SO_FAR(fake, "");
    vpt_cond_branch(&fake->cpu, SOURCE, false);
    SO_FAR(fake, "TNT(TTTTTN) TIP(402000) TIP(402001) TIP(402002) TIP(402003) TIP(402004)");
    end_quietly(fake);
}
static void deferred_forced(void)
{
    struct fake *fake = deferring(TRACED);

    vpt_cond_branch(&fake->cpu, SOURCE, true);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_mov_cr3(&fake->cpu, 0x5000, TARGET + 3);
    SO_FAR(fake, "TNT(T) TIP(402000) PIP(5000)");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_cond_branch(&fake->cpu, SOURCE, true);
    vpt_set_core_ratio(&fake->cpu, 9);
    END(fake, "TNT(T) TIP(402000) CBR(9)");
}

static const struct rule section_deferred[] = {
    {"RET", "an uncompressed one is not deferred", TEST(deferred_ret)},
    {"full", "a full TNT goes first, then all TIPs", TEST(deferred_full)},
    {"other packets", "they force out the TNT and the TIPs", TEST(deferred_forced)},
    {0},
};

const struct table compression_tables[] = {
    {"33-18", "IP compression", 7, table_18},
    {"33.4.2.2 IP compression", "LastIP", 0, section_ip},
    {"33.4.2.2 RET", "RET compression", 0, section_ret},
    {"33.4.2.3", "Deferred TIPs", 0, section_deferred},
    {0},
};
