/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet blocks (33.4.1.1, Table 33-47). */
#include "conformance.h"

#include <string.h>

#define ITEMS 32u

/* A record of one block with these items; every one must come back with its type, ID and value. */
static void items_of(uint8_t type, unsigned count)
{
    struct vpt_block_item items[ITEMS];
    const struct vpt_block block = {.type = type, .count = count, .items = items};
    struct fake *fake = begin("max", TRACED);
    struct reader reader;
    struct packet packet;
    unsigned found = 0;

    for (unsigned i = 0; i < count; i++)
        items[i] = (struct vpt_block_item){(uint8_t)i, 0x0123456789abcdefull * (i + 1)};
    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
    vpt_flush(&fake->cpu);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (packet.kind == PACKET_BBP)
            CHECK(packet.value == type && !packet.flag, "type %x", (unsigned)packet.value);
        if (packet.kind != PACKET_BIP)
            continue;
        CHECK(packet.extra == found && packet.value == 0x0123456789abcdefull * (found + 1),
              "item %u", found);
        found++;
    }
    CHECK(found == count && !reader.bad, "%u items", found);
    end_quietly(fake);
}
static void items_registers(void)
{
    items_of(0x01, 18);
}
static void items_basic(void)
{
    items_of(0x04, 3);
}
static void items_memory(void)
{
    items_of(0x05, 4);
}
static void items_lbr(void)
{
    items_of(0x08, 32);
    items_of(0x09, 32);
    items_of(0x0a, 32);
}
static void items_xmm(void)
{
    items_of(0x10, 32);
}

static const struct rule table_47[] = {
    {"general-purpose registers", "type 01H, 18 items", TEST(items_registers)},
    {"PEBS basic", "type 04H, 3 items", TEST(items_basic)},
    {"PEBS memory", "type 05H, 4 items", TEST(items_memory)},
    {"LBR", "types 08H to 0AH, 32 items each", TEST(items_lbr)},
    {"XMM", "type 10H, 32 items", TEST(items_xmm)},
    {0},
};

static void block_structure(void)
{
    static const struct vpt_block_item items[] = {{3, 0x55}, {9, 0x1122334466}};
    const struct vpt_block blocks[] = {
        {.type = 4, .count = 2, .items = items},
        {.type = 1, .four_byte_items = true, .count = 2, .items = items},
        {.type = 5, .count = 0}};
    struct fake *fake = begin("max", TRACED);

    vpt_pebs(&fake->cpu, blocks, 3, SOURCE);
    END(fake, "BBP(4,8) BIP(3,55) BIP(9,1122334466) BBP(1,4) BIP(3,55) BIP(9,22334466) BBP(5,8) "
              "BEP+ FUP(401010)");
    fake = begin("max", OS | BRANCHEN);
    transfer(fake, VPT_IRET, at_cpl(3));
    fake_mark(fake);
    vpt_pebs(&fake->cpu, blocks, 1, SOURCE);
    END(fake, "BBP(4,8) BIP(3,55) BIP(9,1122334466) BEP");
}
/* An overflow comes in a block: no item and no BEP of it follows. */
static void block_overflow(void)
{
    struct vpt_block_item items[ITEMS];
    const struct vpt_block block = {.type = 0x10, .count = ITEMS, .items = items};
    struct fake *fake = begin("max", TRACED);
    struct reader reader;
    struct packet packet;
    bool inside = false, cut = false;

    for (unsigned i = 0; i < ITEMS; i++)
        items[i] = (struct vpt_block_item){(uint8_t)i, i};
    vpt_stall(&fake->cpu, true);
    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
    vpt_flush(&fake->cpu);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        CHECK(inside || (packet.kind != PACKET_BIP && packet.kind != PACKET_BEP),
              "a part of a block behind the overflow");
        if (packet.kind == PACKET_OVF)
            cut |= inside;
        if (packet.kind == PACKET_BBP)
            inside = true;
        else if (packet.kind == PACKET_BEP || packet.kind == PACKET_OVF)
            inside = false;
    }
    CHECK(cut && !reader.bad && !inside, "an overflow in a block");
    end_quietly(fake);
}

static const struct rule section_blocks[] = {
    {"structure", "BBP, items of its size, BBP or BEP; with the IP in context",
     TEST(block_structure)},
    {"overflow", "OVF ends the block, and nothing of it follows", TEST(block_overflow)},
    {0},
};

const struct table block_tables[] = {
    {"33.4.1.1", "Packet blocks", 0, section_blocks},
    {"33-47", "Block items", 5, table_47},
    {0},
};
