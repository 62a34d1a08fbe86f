/* SPDX-License-Identifier: BSD-3-Clause */
/* TNT packing, IP compression (Table 33-18), RET compression (33.4.2.2), deferred TIPs. */
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BOTH (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

/* ---- TNT (Table 33-16) ---------------------------------------------------------------------- */

/* Takes branches by the bits of a fixed pattern, and gives the words that must come of them. */
static void expected_tnt(char *words, size_t size, unsigned count, unsigned capacity,
                         uint64_t pattern)
{
    size_t at = 0;

    words[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        if (i % capacity == 0)
            at += (size_t)snprintf(words + at, size - at, "%sTNT(", i ? ") " : "");
        at += (size_t)snprintf(words + at, size - at, "%c", pattern >> i % 61 & 1 ? 'T' : 'N');
    }
    if (count)
        snprintf(words + at, size - at, ")");
}

static void tnt_of(bool long_tnt, unsigned capacity)
{
    const uint64_t patterns[] = {0, ~0ull, 0x123456789abcdef, 0x5555555555555555};

    for (unsigned count = 0; count < 3 * capacity; count++) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fake;
        char words[1024];

        caps.long_tnt = long_tnt;
        fake = fake_open_caps(&caps);
        fake_start(fake, BOTH);
        for (unsigned i = 0; i < count; i++)
            vpt_cond_branch(&fake->cpu, 0x401000, patterns[count % 4] >> i % 61 & 1);
        expected_tnt(words, sizeof(words), count, capacity, patterns[count % 4]);
        EXPECT(fake, words, long_tnt ? "long TNT" : "short TNT");
        fake_close(fake);
    }
}

static void test_short_tnt(void)
{
    tnt_of(false, 6);
}

static void test_long_tnt(void)
{
    tnt_of(true, 47);
}

/* ---- IP compression ------------------------------------------------------------------------- */

/* The fewest payload bytes that rebuild ip from last, by Table 33-18. */
static unsigned fewest_bytes(uint64_t last, uint64_t ip)
{
    if (last >> 16 == ip >> 16)
        return 2;
    if (last >> 32 == ip >> 32)
        return 4;
    if (last >> 48 == ip >> 48 || (uint64_t)((int64_t)(ip << 16) >> 16) == ip)
        return 6;
    return 8;
}

static const uint64_t ips[] = {
    0x401000,
    0x401001,
    0x40ffff,
    0x410000,
    0x1000,
    0,
    0xffffffff,
    0x100000000,
    0x7fffffffffff,
    0x7fffffff0000,
    0x7ffeffffffff,
    0xffff800000000000,
    0xffffffffffffffff,
    0xffffffff81000000,
    0xffffffff81001000,
    0xffffffff91001000,
    0xffff888000000000,
    0xff11000000001000,
    0xff11000000002000,
    0xff11000100002000,
    0xff11100100002000,
    0xff22100100002000,
    0x00ffffffffffff00,
    0x0080000000000000,
};

/* Every pair of addresses, as TIP after TIP: rebuilt right, and no longer than it must be. */
static void test_ip_pairs(void)
{
    const size_t count = sizeof(ips) / sizeof(ips[0]);

    for (unsigned bits = 48; bits <= 57; bits += 9) {
        struct vpt_caps caps = plain_caps("max");

        caps.linear_bits = (uint8_t)bits;
        for (size_t i = 0; i < count; i++) {
            struct fake *fake = fake_open_caps(&caps);
            struct reader reader;
            struct packet packet;
            uint64_t last = 0x401000;
            size_t n = 0;

            fake_start(fake, BOTH);
            for (size_t j = 0; j < count; j++) {
                vpt_jmp_indirect(&fake->cpu, ips[i]);
                vpt_jmp_indirect(&fake->cpu, ips[j]);
            }
            fake_stop(fake);
            reader_open(&reader, fake->tap, fake->tap_len);
            while (reader_next(&reader, &packet)) {
                const uint64_t want = n & 1 ? ips[n / 2 % count] : ips[i];

                if (packet.kind != PACKET_TIP)
                    continue;
                CHECK(packet.value == want, "%" PRIx64 " after %" PRIx64 " reads %" PRIx64, want,
                      last, packet.value);
                CHECK(packet.len_bytes == 1 + fewest_bytes(last, want),
                      "%" PRIx64 " after %" PRIx64 " takes %zu bytes", want, last,
                      packet.len_bytes);
                last = want;
                n++;
            }
            CHECK(!reader.bad && n == 2 * count, "%zu TIPs", n);
            fake_close(fake);
        }
    }
}

/*
 * All numbers of TNT bits in front of a TIP, and up to a packet that is full: the quick way and the
 * general one send the same.
 */
static void test_tnt_and_tip(void)
{
    const size_t count = sizeof(ips) / sizeof(ips[0]);

    for (unsigned capacity = 6; capacity <= 47; capacity += 41) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fakes[2];

        caps.long_tnt = capacity == 47;
        for (unsigned general = 0; general < 2; general++) {
            struct fake *fake = fakes[general] = fake_open_caps(&caps);

            fake_start(fake, BOTH);
            CHECK(fake->cpu.tip_plain, "there is a quick way");
            fake->cpu.tip_plain = !general;
            for (size_t i = 0; i < count * 2 * capacity; i++) {
                for (unsigned bit = 0; bit < i % (2 * capacity); bit++)
                    vpt_cond_branch(&fake->cpu, 0x401000, (i ^ bit) % 3 != 0);
                vpt_jmp_indirect(&fake->cpu, ips[i / (2 * capacity)]);
            }
            CHECK(fake->cpu.tip_plain == !general, "nothing chose the way anew");
            fake_stop(fake);
        }
        CHECK(fakes[0]->tap_len == fakes[1]->tap_len &&
                  memcmp(fakes[0]->tap, fakes[1]->tap, fakes[0]->tap_len) == 0 &&
                  fakes[0]->cpu.packet_count == fakes[1]->cpu.packet_count,
              "TNT of up to %u bits", capacity);
        for (unsigned general = 0; general < 2; general++)
            fake_close(fakes[general]);
    }
}

/* Processors of 32-bit addresses never send more than 32 bits. */
static void test_ip_32(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_context ctx = context_of(0);
    struct fake *fake;
    struct reader reader;
    struct packet packet;

    caps.linear_bits = 32;
    if (vpt_caps_check(&caps))
        return;
    fake = fake_open_caps(&caps);
    ctx.exec_mode = VPT_EXEC_32;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, BOTH | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    for (uint64_t ip = 0xffffffff; ip; ip >>= 1)
        vpt_jmp_indirect(&fake->cpu, ip);
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet))
        CHECK(packet.ip_bytes <= 2, "IPBytes %u on a 32-bit processor", packet.ip_bytes);
    CHECK(!reader.bad, "no packet at %zu", reader.at);
    fake_close(fake);
}

/* A suppressed IP leaves Last IP alone; all four IP packets share one Last IP. */
static void test_last_ip(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3), kernel = context_of(0);
    static const uint8_t want[] = {
        0x2d, 0x34, 0x12,       /* TIP(401234) */
        0x3d, 0x00, 0x20, 0x01, /* FUP(402000), TIP.PGD() */
    };

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    vpt_jmp_indirect(&fake->cpu, 0x401234);
    fake_transfer(fake, VPT_INTERRUPT, 0x402000, 0x7000, &user);
    fake_transfer(fake, VPT_INTERRUPT, 0x7000, 0x403000, &kernel);
    vpt_flush(&fake->cpu);
    CHECK(memcmp(fake->tap + fake->mark, want, sizeof(want)) == 0, "TIP, FUP, TIP.PGD");
    CHECK(memcmp(fake->tap + fake->tap_len - 3, "\x31\x00\x30", 3) == 0,
          "TIP.PGE against the FUP's IP");
    EXPECT(fake, "TIP(401234) FUP(402000) PGD() MODE(64)? PGE(403000)", "one Last IP");
    fake_close(fake);
}

/* ---- RET compression ------------------------------------------------------------------------ */

static uint64_t return_of(unsigned depth)
{
    return 0x401005 + depth * 0x10;
}

static void calls(struct fake *fake, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        vpt_call_direct(&fake->cpu, 0x402000, return_of(i));
}

static void test_ret_simple(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BOTH);
    vpt_call_direct(&fake->cpu, 0x402000, 0x401005);
    vpt_ret(&fake->cpu, 0x401005);
    vpt_call_indirect(&fake->cpu, 0x403000, 0x401007);
    vpt_ret(&fake->cpu, 0x401007);
    vpt_ret(&fake->cpu, 0x401009);
    EXPECT(fake, "TNT(T) TIP(403000) TNT(T) TIP(401009)", "RET compression");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, BOTH | VPT_CTL_DISRETC);
    vpt_call_direct(&fake->cpu, 0x402000, 0x401005);
    vpt_ret(&fake->cpu, 0x401005);
    EXPECT(fake, "TIP(401005)", "DisRETC");
    fake_close(fake);
}

static void test_zero_length_call(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BOTH);
    vpt_call_direct(&fake->cpu, 0x402000, 0x401005);
    vpt_call_direct(&fake->cpu, 0x402005, 0x402005); /* call next; pop */
    vpt_ret(&fake->cpu, 0x401005);
    EXPECT(fake, "TNT(T)", "a zero-length CALL is not pushed");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, BOTH);
    vpt_call_direct(&fake->cpu, 0x401005, 0x401005);
    vpt_ret(&fake->cpu, 0x401005);
    EXPECT(fake, "TIP(401005)", "a zero-length CALL alone");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, BOTH);
    vpt_call_indirect(&fake->cpu, 0x401002, 0x401002);
    vpt_ret(&fake->cpu, 0x401002);
    EXPECT(fake, "TIP(401002) TNT(T)", "only direct CALLs can be of zero length");
    fake_close(fake);
}

/* The youngest 64 entries are kept, however many CALLs there were. */
static void test_depth(void)
{
    for (unsigned depth = 1; depth < 200; depth += depth < 60 || depth > 70 ? 19 : 1) {
        struct fake *fake = fake_open("max");
        struct reader reader;
        struct packet packet;
        unsigned compressed = 0, full = 0, kept = depth < 64 ? depth : 64;

        fake_start(fake, BOTH);
        calls(fake, depth);
        for (unsigned i = depth; i-- > 0;)
            vpt_ret(&fake->cpu, return_of(i));
        fake_stop(fake);
        reader_open(&reader, fake->tap, fake->tap_len);
        while (reader_next(&reader, &packet)) {
            if (packet.kind == PACKET_TNT) {
                CHECK(full == 0, "depth %u: a TNT after a TIP", depth);
                CHECK(packet.value == (1ull << packet.bits) - 1, "depth %u: not taken", depth);
                compressed += packet.bits;
            }
            if (packet.kind == PACKET_TIP) {
                CHECK(packet.value == return_of(depth - 1 - kept - full), "depth %u: TIP %" PRIx64,
                      depth, packet.value);
                full++;
            }
        }
        CHECK(compressed == kept && full == depth - kept, "depth %u: %u compressed, %u not", depth,
              compressed, full);
        fake_close(fake);
    }
}

/* An entry counts once: behind as many RETs as the stack has entries, all of them were used. */
static void test_used_up(void)
{
    for (unsigned depth = 1; depth <= 64; depth++)
        for (unsigned again = 0; again < depth; again++) {
            struct fake *fake = fake_open("max");
            char words[256];

            fake_start(fake, BOTH);
            calls(fake, depth);
            for (unsigned i = depth; i-- > 0;)
                vpt_ret(&fake->cpu, return_of(i));
            expected_tnt(words, sizeof(words), depth, 6, ~0ull);
            (void)snprintf(words + strlen(words), sizeof(words) - strlen(words),
                           " TIP(%" PRIx64 ")", return_of(again));
            vpt_ret(&fake->cpu, return_of(again));
            EXPECT(fake, words, "a RET to what was used");
            fake_close(fake);
        }
}

/* A RET elsewhere is a TIP; the model then forgets the whole stack (33.4.2.2 allows it). */
static void test_mismatch(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BOTH);
    calls(fake, 3);
    vpt_ret(&fake->cpu, 0x409000);
    vpt_ret(&fake->cpu, return_of(1));
    vpt_ret(&fake->cpu, return_of(0));
    calls(fake, 1);
    vpt_ret(&fake->cpu, return_of(0));
    vpt_ret(&fake->cpu, 0x409000);
    EXPECT(fake, "TIP(409000) TIP(401015) TIP(401005) TNT(T) TIP(409000)", "mismatch");
    fake_close(fake);
}

/* Not compressed if the CALL came before the last PSB, an overflow or a time of PacketEn = 0. */
static void test_ret_across_packet_en(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3), kernel = context_of(0);

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    calls(fake, 2);
    fake_transfer(fake, VPT_IRET, 0x402000, 0x7000, &user);
    fake_transfer(fake, VPT_INTERRUPT, 0x7000, 0x403000, &kernel);
    vpt_ret(&fake->cpu, return_of(1));
    vpt_ret(&fake->cpu, return_of(0));
    EXPECT(fake, "PGD() MODE(64)? PGE(403000) TIP(401015) TIP(401005)", "across PacketEn = 0");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    fake_transfer(fake, VPT_IRET, 0x402000, 0x7000, &user);
    vpt_call_direct(&fake->cpu, 0x8000, 0x403005);
    fake_transfer(fake, VPT_INTERRUPT, 0x8000, 0x403000, &kernel);
    vpt_ret(&fake->cpu, 0x403005);
    EXPECT(fake, "PGD() MODE(64)? PGE(403000) TIP(403005)", "the CALL was not traced");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, BOTH);
    calls(fake, 2);
    fake_transfer(fake, VPT_INTERRUPT, 0x402000, 0x403000, &kernel);
    vpt_call_direct(&fake->cpu, 0x404000, 0x403005);
    vpt_ret(&fake->cpu, 0x403005);
    fake_transfer(fake, VPT_IRET, 0x403006, 0x402000, &kernel);
    vpt_ret(&fake->cpu, return_of(1));
    EXPECT(fake, "FUP(402000) TIP(403000) TNT(T) TIP(402000) TNT(T)", "across an interrupt");
    fake_close(fake);
}

static void test_ret_across_trace_en(void)
{
    struct fake *fake = fake_open("max");
    uint64_t ctl;

    fake_start(fake, BOTH);
    ctl = fake_read(fake, VPT_MSR_CTL);
    calls(fake, 2);
    fake_stop(fake);
    fake_write(fake, VPT_MSR_CTL, ctl);
    fake_mark(fake);
    vpt_ret(&fake->cpu, return_of(1));
    EXPECT(fake, "TIP(401015)", "across TraceEn = 0");
    fake_close(fake);
}

static void test_ret_across_psb(void)
{
    struct fake *fake = fake_open("max");
    const char *words;

    fake_start(fake, BOTH);
    calls(fake, 2);
    fake_noise(fake, 2400); /* PSBFreq 0: every 2 KiB */
    vpt_ret(&fake->cpu, return_of(1));
    vpt_ret(&fake->cpu, return_of(0));
    fake_stop(fake);
    words = fake_words(fake, false);
    CHECK(strstr(words, "PSB+") != NULL, "a PSB came");
    CHECK(strstr(words, "TIP(401015) TIP(401005) FUP(40fff0) PGD()") != NULL,
          "RETs after the PSB: [%s]", words);
    fake_close(fake);
}

/* Compressed RETs stand among the branches, in program order (Table 33-16). */
static void test_ret_after_tnt(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BOTH);
    vpt_cond_branch(&fake->cpu, 0x401002, true);
    vpt_call_direct(&fake->cpu, 0x402000, 0x401007);
    vpt_cond_branch(&fake->cpu, 0x402002, false);
    vpt_ret(&fake->cpu, 0x401007);
    vpt_cond_branch(&fake->cpu, 0x401009, true);
    EXPECT(fake, "TNT(TNTT)", "compressed RETs and branches share the TNT buffer");
    fake_close(fake);
}

/* DisTNT (33.3.9): no TNT packets, TIPs stay. */
static void test_dis_tnt(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BOTH | VPT_CTL_DISTNT);
    for (unsigned i = 0; i < 20; i++)
        vpt_cond_branch(&fake->cpu, 0x401002, i & 1);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_call_direct(&fake->cpu, 0x403000, 0x402005);
    vpt_ret(&fake->cpu, 0x402005);
    vpt_ret(&fake->cpu, 0x404000);
    EXPECT(fake, "TIP(402000) TIP(404000)", "DisTNT");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, BOTH | VPT_CTL_DISTNT | VPT_CTL_DISRETC);
    vpt_call_direct(&fake->cpu, 0x403000, 0x402005);
    vpt_ret(&fake->cpu, 0x402005);
    EXPECT(fake, "TIP(402005)", "DisTNT and DisRETC");
    fake_close(fake);
}

/* ---- Deferred TIPs (Table 33-19) ------------------------------------------------------------ */

static void table_33_19(bool deferred, const char *pattern)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_context ctx = context_of(0);
    struct fake *fake;

    caps.deferred_tips = deferred;
    fake = fake_open_caps(&caps);
    fake_start(fake, BOTH);
    vpt_cond_branch(&fake->cpu, 0x1008, false);
    vpt_jmp_indirect(&fake->cpu, 0x1308);
    vpt_cond_branch(&fake->cpu, 0x1310, false);
    vpt_cond_branch(&fake->cpu, 0x1500, true);
    vpt_cond_branch(&fake->cpu, 0x1508, false);
    vpt_jmp_indirect(&fake->cpu, 0x1100);
    vpt_cond_branch(&fake->cpu, 0x1108, false);
    fake_transfer(fake, VPT_INTERRUPT, 0x110c, 0xcc00, &ctx);
    EXPECT(fake, pattern, "Table 33-19");
    fake_close(fake);
}

static void test_deferred(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;

    table_33_19(false, "TNT(N) TIP(1308) TNT(NTN) TIP(1100) TNT(N) FUP(110c) TIP(cc00)");
    caps.deferred_tips = true;
    if (vpt_caps_check(&caps))
        return;
    table_33_19(true, "TNT(NNTNN) TIP(1308) TIP(1100) FUP(110c) TIP(cc00)");

    fake = fake_open_caps(&caps); /* an uncompressed RET is not deferred */
    fake_start(fake, BOTH);
    vpt_cond_branch(&fake->cpu, 0x1008, false);
    vpt_jmp_indirect(&fake->cpu, 0x1308);
    vpt_cond_branch(&fake->cpu, 0x1310, true);
    vpt_ret(&fake->cpu, 0x1500);
    vpt_cond_branch(&fake->cpu, 0x1310, true);
    EXPECT(fake, "TNT(NT) TIP(1308) TIP(1500) TNT(T)", "33.4.2.2: RET forces TIPs out");
    fake_close(fake);
}

/* A deferred TIP belongs to the CS base of its branch, not to that of a later one (33.3.1.1). */
static void test_deferred_rip(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_context ctx = context_of(0), flat = context_of(0);
    struct fake *fake;

    caps.deferred_tips = true;
    caps.leaf14_0_ecx &= ~VPT_CAP_LIP;
    if (vpt_caps_check(&caps))
        return;
    fake = fake_open_caps(&caps);
    ctx.exec_mode = VPT_EXEC_16;
    ctx.cs_base = 0x20000;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, BOTH | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, 0x21020);
    ctx.cs_base = 0x30000;
    fake_transfer(fake, VPT_FAR_BRANCH, 0x21030, 0x31040, &ctx);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x31040, 0x401000, &flat);
    EXPECT(fake, "TIP(1020) TIP(1040) MODE(64) TIP(401000)", "33.3.1.1");
    fake_close(fake);
}

void suite_compression(void)
{
    static const struct test tests[] = {
        {"short TNT", test_short_tnt},
        {"long TNT", test_long_tnt},
        {"IP compression: pairs", test_ip_pairs},
        {"TNT and TIP", test_tnt_and_tip},
        {"IP compression: 32-bit processors", test_ip_32},
        {"IP compression: Last IP", test_last_ip},
        {"RET compression", test_ret_simple},
        {"zero-length CALLs", test_zero_length_call},
        {"64 entries", test_depth},
        {"entries that were used", test_used_up},
        {"mismatch", test_mismatch},
        {"RET across PacketEn = 0", test_ret_across_packet_en},
        {"RET across TraceEn = 0", test_ret_across_trace_en},
        {"RET across PSB", test_ret_across_psb},
        {"RET among branches", test_ret_after_tnt},
        {"DisTNT", test_dis_tnt},
        {"deferred TIPs (Table 33-19)", test_deferred},
        {"deferred TIPs and CS base", test_deferred_rip},
        {NULL, NULL},
    };

    add_suite("compression (33.4.2.1 to 33.4.2.3)", tests);
}
