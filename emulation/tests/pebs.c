/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet blocks (33.4.1.1, Tables 33-15 and 33-45 to 33-48), MNT and PAD (33.4.2.19, 33.4.2.20). */
#include "harness.h"

#include <string.h>

#define ITEMS(a) .count = sizeof(a) / sizeof((a)[0]), .items = (a)

static const struct vpt_block_item registers[] = {
    {0x00, 0x246}, {0x01, 0x401010}, {0x11, 0x1122334455667788}};
static const struct vpt_block_item basic[] = {{0, 0x401010}, {2, 0xfedcba9876543210}};
static const struct vpt_block record[] = {
    {.type = 0x04, ITEMS(basic)}, {.type = 0x01, .four_byte_items = true, ITEMS(registers)}};

static void test_record(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_pebs(&fake->cpu, record, 2, 0x401010);
    EXPECT(fake,
           "TNT(T) BBP(4,8) BIP(0,401010) BIP(2,fedcba9876543210) BBP(1,4) BIP(0,246) "
           "BIP(1,401010) BIP(11,55667788) BEP+ FUP(401010)",
           "33.4.2.26 to 33.4.2.28");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, VPT_CTL_USER);
    vpt_pebs(&fake->cpu, record, 1, 0x401010);
    EXPECT(fake, "BBP(4,8) BIP(0,401010) BIP(2,fedcba9876543210) BEP",
           "Table 33-48: ContextEn = 0");
    fake_close(fake);

    fake = fake_open("skylake");
    fake_start(fake, VPT_CTL_OS);
    vpt_pebs(&fake->cpu, record, 2, 0x401010);
    EXPECT(fake, "", "a processor without PEBS output");
    fake_close(fake);
}

/* A block of all 32 items, eight times: more than the internal buffer holds. */
static void test_large_record(void)
{
    struct vpt_block_item items[32];
    struct vpt_block blocks[8];
    struct fake *fake = fake_open("gracemont");
    struct reader reader;
    struct packet packet;
    unsigned begins = 0, found = 0, ends = 0;

    for (unsigned i = 0; i < 32; i++)
        items[i] = (struct vpt_block_item){(uint8_t)i, 0x0101010101010101u * i};
    for (unsigned i = 0; i < 8; i++)
        blocks[i] = (struct vpt_block){.type = (uint8_t)(0x10 - i), ITEMS(items)};
    fake_start(fake, VPT_CTL_OS);
    vpt_pebs(&fake->cpu, blocks, 8, 0x401010);
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        begins += packet.kind == PACKET_BBP;
        ends += packet.kind == PACKET_BEP;
        if (packet.kind == PACKET_BIP) {
            CHECK(packet.extra == found % 32 && packet.value == 0x0101010101010101u * (found % 32),
                  "item %u", found);
            found++;
        }
    }
    CHECK(!reader.bad && begins == 8 && found == 256 && ends == 1, "%u blocks, %u items, %u ends",
          begins, found, ends);
    CHECK(fake->cpu.overflow_count == 0, "%llu overflows",
          (unsigned long long)fake->cpu.overflow_count);
    fake_close(fake);
}

/* 33.4.1.1: an overflow ends the block, and nothing of the record follows. */
static void test_overflow_in_block(void)
{
    struct vpt_block_item items[32] = {{0}};
    struct vpt_block blocks[8];
    struct fake *fake = fake_open("gracemont");
    const char *words, *last;

    for (unsigned i = 0; i < 8; i++)
        blocks[i] = (struct vpt_block){.type = 0x10, ITEMS(items)};
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    vpt_stall(&fake->cpu, true);
    vpt_pebs(&fake->cpu, blocks, 8, 0x401010);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    words = fake_words(fake, false);
    last = strstr(words, "OVF");
    CHECK(last && strncmp(words, "BBP(10,8) BIP(0,0) ", 19) == 0 && !strstr(words, "BEP"),
          "the block is cut: [%s]", words);
    CHECK(last && words_match("OVF FUP(402000) PSB+? TIP(403000)", last), "and goes on: [%s]",
          last ? last : words);
    fake_stop(fake);
    fake_close(fake);
}

static void test_mnt(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, VPT_CTL_USER);
    vpt_maintenance(&fake->cpu, 0x0123456789abcdef);
    EXPECT(fake, "MNT(123456789abcdef)", "Table 33-38: TriggerEn alone");
    vpt_maintenance(&fake->cpu, 1);
    CHECK(!strstr(fake_words(fake, false), "MNT(1)"), "MNT without TriggerEn");
    fake_close(fake);
}

/* PSBs at multiples of 16 bytes, and as few PADs as that takes. */
static void test_pad(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;
    struct reader reader;
    struct packet packet;
    unsigned pads = 0, psbs = 0, in_row = 0;

    caps.psb_align_bytes = 16;
    fake = fake_open_caps(&caps);
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    fake_noise(fake, 20000);
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        in_row = packet.kind == PACKET_PAD ? in_row + 1 : 0;
        pads += packet.kind == PACKET_PAD;
        psbs += packet.kind == PACKET_PSB;
        CHECK(in_row < 16, "too many PADs at %zu", packet.offset);
        CHECK(packet.kind != PACKET_PSB || packet.offset % 16 == 0, "PSB at %zu", packet.offset);
    }
    CHECK(!reader.bad && psbs > 5 && pads > 0, "%u PSBs, %u PADs", psbs, pads);
    fake_close(fake);

    caps.psb_align_bytes = 12;
    CHECK(vpt_caps_check(&caps) != NULL, "an alignment that is no power of two");
}

void suite_pebs(void)
{
    static const struct test tests[] = {
        {"a record", test_record},
        {"a large record", test_large_record},
        {"overflow in a block", test_overflow_in_block},
        {"MNT", test_mnt},
        {"PAD", test_pad},
        {NULL, NULL},
    };

    add_suite("packet blocks, MNT, PAD (33.4.1.1)", tests);
}
