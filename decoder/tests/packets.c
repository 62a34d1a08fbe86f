/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets: every one of SDM 33.4.2 as bytes and as text; cut off at each length; and bad ones. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "suites.h"

#define MAX_BYTES 48

/* clang-format off */
static const struct {
    uint8_t size_bytes, bytes[MAX_BYTES];
    const char *text;
} packet_cases[] = {
    { 1, {0x00}, "PAD"},
    /* Short TNT: the stop bit is the highest set bit. */
    { 1, {0x04}, "TNT N (1)"},
    { 1, {0x06}, "TNT T (1)"},
    { 1, {0x08}, "TNT NN (2)"},
    { 1, {0x1a}, "TNT TNT (3)"},
    { 1, {0x80}, "TNT NNNNNN (6)"},
    { 1, {0xfe}, "TNT TTTTTT (6)"},
    { 1, {0xa4}, "TNT NTNNTN (6)"},
    /* Long TNT. */
    { 8, {0x02, 0xa3, 0x02, 0, 0, 0, 0, 0}, "TNT N (1, long)"},
    { 8, {0x02, 0xa3, 0x0d, 0, 0, 0, 0, 0}, "TNT TNT (3, long)"},
    { 8, {0x02, 0xa3, 0x01, 0x01, 0, 0, 0, 0}, "TNT NNNNNNNT (8, long)"},
    { 8, {0x02, 0xa3, 0x01, 0, 0, 0, 0, 0xc0}, "TNT TNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNT (47, long)"},
    /* IP packets with every IPBytes. */
    { 1, {0x0d}, "TIP (no IP)"},
    { 3, {0x2d, 0x34, 0x12}, "TIP 0x1234 (16 bits)"},
    { 5, {0x4d, 0x78, 0x56, 0x34, 0x12}, "TIP 0x12345678 (32 bits)"},
    { 7, {0x6d, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x82}, "TIP 0x823456789abc (48 bits)"},
    { 7, {0x8d, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x82}, "TIP 0x823456789abc (48 bits, not extended)"},
    { 9, {0xcd, 8, 7, 6, 5, 4, 3, 2, 1}, "TIP 0x102030405060708 (64 bits)"},
    { 1, {0x11}, "TIP.PGE (no IP)"},
    { 3, {0x31, 0x34, 0x12}, "TIP.PGE 0x1234 (16 bits)"},
    { 9, {0xd1, 8, 7, 6, 5, 4, 3, 2, 1}, "TIP.PGE 0x102030405060708 (64 bits)"},
    { 1, {0x01}, "TIP.PGD (no IP)"},
    { 5, {0x41, 0x78, 0x56, 0x34, 0x12}, "TIP.PGD 0x12345678 (32 bits)"},
    { 1, {0x1d}, "FUP (no IP)"},
    { 7, {0x7d, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12}, "FUP 0x123456789abc (48 bits)"},
    /* Context. CR3[51:5] begins at bit 1 of the payload. */
    { 8, {0x02, 0x43, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00}, "PIP CR3 0x100000"},
    { 8, {0x02, 0x43, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00}, "PIP CR3 0x1000, NR"},
    { 8, {0x02, 0x43, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "PIP CR3 0xfffffffffffe0, NR"},
    { 2, {0x99, 0x01}, "MODE.Exec 64-bit"},
    { 2, {0x99, 0x02}, "MODE.Exec 32-bit"},
    { 2, {0x99, 0x00}, "MODE.Exec 16-bit"},
    { 2, {0x99, 0x05}, "MODE.Exec 64-bit, IF"},
    { 2, {0x99, 0x20}, "MODE.TSX no transaction"},
    { 2, {0x99, 0x21}, "MODE.TSX in transaction"},
    { 2, {0x99, 0x22}, "MODE.TSX aborted"},
    { 7, {0x02, 0xc8, 0x01, 0x00, 0x00, 0x00, 0x80}, "VMCS 0x8000000001000"},
    /* Stream. */
    {16, {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82}, "PSB"},
    { 2, {0x02, 0x23}, "PSBEND"},
    { 2, {0x02, 0xf3}, "OVF"},
    { 2, {0x02, 0x83}, "TraceStop"},
    {11, {0x02, 0xc3, 0x88, 8, 7, 6, 5, 4, 3, 2, 1}, "MNT 0x102030405060708"},
    /* Time. Reserved bits are not guaranteed to be 0. */
    { 4, {0x02, 0x03, 0x1f, 0xff}, "CBR 31"},
    { 8, {0x19, 7, 6, 5, 4, 3, 2, 1}, "TSC 0x1020304050607"},
    { 2, {0x59, 0xa5}, "MTC 0xa5"},
    { 7, {0x02, 0x73, 0x34, 0x12, 0xfe, 0x56, 0xff}, "TMA CTC 0x1234, fast 0x156"},
    { 1, {0x03}, "CYC 0"},
    { 1, {0xfb}, "CYC 31"},
    { 2, {0x07, 0x02}, "CYC 32"},
    { 2, {0xff, 0xfe}, "CYC 4095"},
    { 3, {0x07, 0x01, 0x02}, "CYC 4096"},
    {10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0e}, "CYC 18446744073709551615"},
    {15, {0x0f, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, "CYC 1"},
    /* Software and power. */
    { 6, {0x02, 0x12, 0x78, 0x56, 0x34, 0x12}, "PTW 0x12345678 (4 bytes)"},
    { 6, {0x02, 0x92, 0x78, 0x56, 0x34, 0x12}, "PTW 0x12345678 (4 bytes), IP"},
    {10, {0x02, 0x32, 8, 7, 6, 5, 4, 3, 2, 1}, "PTW 0x102030405060708 (8 bytes)"},
    {10, {0x02, 0xb2, 8, 7, 6, 5, 4, 3, 2, 1}, "PTW 0x102030405060708 (8 bytes), IP"},
    { 2, {0x02, 0x62}, "EXSTOP"},
    { 2, {0x02, 0xe2}, "EXSTOP, IP"},
    {10, {0x02, 0xc2, 0x20, 0xff, 0xff, 0xff, 0xfd, 0xff, 0xff, 0xff}, "MWAIT hints 0x20, ext 0x1"},
    { 4, {0x02, 0x22, 0x00, 0x31}, "PWRE state 3, sub-state 1"},
    { 4, {0x02, 0x22, 0xff, 0x60}, "PWRE state 6, sub-state 0, HW"},
    { 7, {0x02, 0xa2, 0x36, 0xf1, 0xff, 0xff, 0xff}, "PWRX last 3, deepest 6, wake reason 0x1"},
    /* Blocks and events. */
    { 3, {0x02, 0x63, 0x01}, "BBP general registers (type 0x1), items of 8 bytes"},
    { 3, {0x02, 0x63, 0x84}, "BBP PEBS basic (type 0x4), items of 4 bytes"},
    { 2, {0x02, 0x33}, "BEP"},
    { 2, {0x02, 0xb3}, "BEP, IP"},
    { 4, {0x02, 0x13, 0x01, 0x0e}, "CFE.INTR vector 14"},
    { 4, {0x02, 0x13, 0x82, 0x00}, "CFE.IRET (type 2), IP"},
    { 4, {0x02, 0x13, 0x0b, 0x00}, "CFE.reserved (type 11)"},
    { 4, {0x02, 0x13, 0xed, 0x00}, "CFE.UIRET (type 13), IP"},
    /* Newer than chapter 33: CFE types of FRED, trigger tracing. Reserved bits count for nothing. */
    { 4, {0x02, 0x13, 0x0e, 0x80}, "CFE.SWINT vector 128"},
    { 4, {0x02, 0x13, 0x8e, 0x03}, "CFE.SWINT vector 3, IP"},
    { 4, {0x02, 0x13, 0x0f, 0x00}, "CFE.SYSCALL (type 15)"},
    { 4, {0x02, 0x13, 0x8f, 0x00}, "CFE.SYSCALL (type 15), IP"},
    { 3, {0xd9, 0x00, 0x01}, "TRIG 0x01"},
    { 3, {0xd9, 0x20, 0xff}, "TRIG 0xff, MULT"},
    { 3, {0xd9, 0x80, 0x10}, "TRIG 0x10, IP"},
    { 3, {0xd9, 0x1f, 0x00}, "TRIG 0x00"},
    { 5, {0xd9, 0x40, 0x1a, 0x03, 0x00}, "TRIG 0x1a, ICNT 3"},
    { 5, {0xd9, 0x40, 0x1a, 0x34, 0x12}, "TRIG 0x1a, ICNT 4660"},
    { 5, {0xd9, 0xc0, 0x80, 0x00, 0x00}, "TRIG 0x80, ICNT 0, IP"},
    { 5, {0xd9, 0xff, 0x80, 0xff, 0xff}, "TRIG 0x80, ICNT 65535, MULT, IP"},
    {11, {0x02, 0x53, 0x00, 8, 7, 6, 5, 4, 3, 2, 1}, "EVD page fault address (type 0): 0x102030405060708"},
    {11, {0x02, 0x53, 0xc2, 0x1e, 0, 0, 0, 0, 0, 0, 0}, "EVD VM-exit reason (type 2): 0x1e"},
};

static const struct {
    uint8_t size_bytes, bytes[MAX_BYTES];
    int status;
} bad_cases[] = {
    {1, {0x05}, PTD_E_OPCODE},
    {1, {0x09}, PTD_E_OPCODE},
    {1, {0xb9}, PTD_E_OPCODE},
    {2, {0x02, 0x00}, PTD_E_OPCODE},
    {2, {0x02, 0xff}, PTD_E_OPCODE},
    {4, {0x02, 0x82, 0x02, 0x83}, PTD_E_OPCODE},                /* not a whole PSB */
    {3, {0x02, 0xc3, 0x89}, PTD_E_OPCODE},                      /* not MNT */
    {9, {0xad, 0, 0, 0, 0, 0, 0, 0, 0}, PTD_E_PAYLOAD},         /* IPBytes 5 */
    {9, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0}, PTD_E_PAYLOAD},         /* IPBytes 7 */
    {8, {0x02, 0xa3, 0, 0, 0, 0, 0, 0}, PTD_E_PAYLOAD},         /* long TNT without stop bit */
    {8, {0x02, 0xa3, 1, 0, 0, 0, 0, 0}, PTD_E_PAYLOAD},         /* long TNT without results */
    {2, {0x02, 0x52}, PTD_E_PAYLOAD},                           /* PTW, PayloadBytes 2 */
    {2, {0x02, 0xf2}, PTD_E_PAYLOAD},                           /* PTW, PayloadBytes 3 */
    {2, {0x99, 0x03}, PTD_E_PAYLOAD},                           /* CS.L and CS.D */
    {2, {0x99, 0x23}, PTD_E_PAYLOAD},                           /* InTX and TXAbort */
    {2, {0x99, 0x40}, PTD_E_PAYLOAD},                           /* MODE leaf 2 */
    {2, {0x99, 0xe0}, PTD_E_PAYLOAD},                           /* MODE leaf 7 */
    {10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x10}, PTD_E_PAYLOAD}, /* CYC bit 64 */
    {16, {0x0f, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, PTD_E_PAYLOAD},          /* CYC too long */
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A copy that ends where its memory ends, so that a sanitizer sees any overread. */
static uint8_t *exact_copy(const uint8_t *bytes, size_t len)
{
    uint8_t *const copy = malloc(len ? len : 1);

    if (copy)
        memcpy(copy, bytes, len);
    return copy;
}

static void every_packet(void)
{
    for (size_t i = 0; i < COUNT(packet_cases); i++) {
        uint8_t *const bytes = exact_copy(packet_cases[i].bytes, packet_cases[i].size_bytes);
        struct ptd_packets packets;
        struct ptd_packet packet;
        char text[128];

        ptd_packets_init(&packets, bytes, packet_cases[i].size_bytes);
        CU_ASSERT_EQUAL_FATAL(ptd_packets_next(&packets, &packet), PTD_OK);
        CU_ASSERT_EQUAL(packet.offset, 0);
        CU_ASSERT_EQUAL(packet.size_bytes, packet_cases[i].size_bytes);
        (void)ptd_packet_format(&packet, text, sizeof(text));
        CU_ASSERT_STRING_EQUAL(text, packet_cases[i].text);
        if (strcmp(text, packet_cases[i].text) != 0)
            printf("\n    got %s, want %s", text, packet_cases[i].text);
        CU_ASSERT_EQUAL(ptd_packets_next(&packets, &packet), PTD_END);
        free(bytes);
    }
}

/* Common packets are read by a table where enough bytes follow, and else as all others. */
static void bytes_behind(void)
{
    for (size_t i = 0; i < COUNT(packet_cases); i++) {
        uint8_t bytes[MAX_BYTES + 16];
        struct ptd_packets packets;
        struct ptd_packet packet;
        char text[128];

        memset(bytes, 0x59, sizeof(bytes));
        memcpy(bytes, packet_cases[i].bytes, packet_cases[i].size_bytes);
        ptd_packets_init(&packets, bytes, packet_cases[i].size_bytes + 16u);
        CU_ASSERT_EQUAL_FATAL(ptd_packets_next(&packets, &packet), PTD_OK);
        CU_ASSERT_EQUAL(ptd_packets_offset(&packets), packet_cases[i].size_bytes);
        (void)ptd_packet_format(&packet, text, sizeof(text));
        CU_ASSERT_STRING_EQUAL(text, packet_cases[i].text);
    }
}

/* The same of all first bytes: eight bytes are too few for the table. */
static void with_and_without_table(void)
{
    uint64_t payload = 0x123456789abcdef1;
    unsigned compared = 0;

    for (unsigned i = 0; i < 256u * 64; i++) {
        uint8_t bytes[16] = {(uint8_t)i};
        char text[128], general_text[128];
        struct ptd_packet packet, general;
        struct ptd_packets packets;
        int status;

        payload = payload * 6364136223846793005u + 1442695040888963407u;
        memcpy(bytes + 1, &payload, sizeof(payload));
        ptd_packets_init(&packets, bytes, 8);
        status = ptd_packets_next(&packets, &general);
        if (status == PTD_E_TRUNCATED)
            continue;
        ptd_packets_init(&packets, bytes, sizeof(bytes));
        CU_ASSERT_EQUAL_FATAL(ptd_packets_next(&packets, &packet), status);
        if (status != PTD_OK)
            continue;
        compared++;
        (void)ptd_packet_format(&packet, text, sizeof(text));
        (void)ptd_packet_format(&general, general_text, sizeof(general_text));
        CU_ASSERT_STRING_EQUAL(text, general_text);
        CU_ASSERT_EQUAL(packet.type, general.type);
        CU_ASSERT_EQUAL(packet.offset, 0);
        CU_ASSERT_EQUAL(packet.size_bytes, general.size_bytes);
        CU_ASSERT_EQUAL(ptd_packets_offset(&packets), general.size_bytes);
    }
    CU_ASSERT(compared > 256u * 32);
}

static void every_length(void)
{
    for (size_t i = 0; i < COUNT(packet_cases); i++) {
        for (size_t len = 1; len < packet_cases[i].size_bytes; len++) {
            uint8_t *const bytes = exact_copy(packet_cases[i].bytes, len);
            struct ptd_packets packets;
            struct ptd_packet packet;

            ptd_packets_init(&packets, bytes, len);
            CU_ASSERT_EQUAL(ptd_packets_next(&packets, &packet), PTD_E_TRUNCATED);
            CU_ASSERT_EQUAL(ptd_packets_offset(&packets), 0);
            free(bytes);
        }
    }
}

static void bad_packets(void)
{
    for (size_t i = 0; i < COUNT(bad_cases); i++) {
        uint8_t *const bytes = exact_copy(bad_cases[i].bytes, bad_cases[i].size_bytes);
        struct ptd_packets packets;
        struct ptd_packet packet;

        ptd_packets_init(&packets, bytes, bad_cases[i].size_bytes);
        CU_ASSERT_EQUAL(ptd_packets_next(&packets, &packet), bad_cases[i].status);
        CU_ASSERT_EQUAL(ptd_packets_offset(&packets), 0);
        free(bytes);
    }
}

/* Any two bytes in front of zeros: a packet or an error, never more than is there. */
static void any_opcode(void)
{
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            const uint8_t bytes[PTD_PACKET_TYPES] = {(uint8_t)first, (uint8_t)second};
            struct ptd_packets packets;
            struct ptd_packet packet;

            ptd_packets_init(&packets, bytes, sizeof(bytes));
            const int status = ptd_packets_next(&packets, &packet);

            if (status == PTD_OK)
                CU_ASSERT_EQUAL(ptd_packets_offset(&packets), packet.size_bytes);
            if (status != PTD_OK)
                CU_ASSERT_TRUE(status == PTD_E_OPCODE || status == PTD_E_PAYLOAD);
        }
    }
}

static void every_name(void)
{
    for (unsigned type = 0; type < PTD_PACKET_TYPES; type++)
        CU_ASSERT_STRING_NOT_EQUAL(ptd_packet_name((enum ptd_packet_type)type), "?");
    CU_ASSERT_STRING_EQUAL(ptd_packet_name(PTD_PACKET_TYPES), "?");
    for (int error = PTD_E_ARG; error <= PTD_OK; error++)
        CU_ASSERT_STRING_NOT_EQUAL(ptd_strerror(error), "unknown error");
    CU_ASSERT_STRING_EQUAL(ptd_strerror(-1000), "unknown error");
}

/* Types of the packets in a row, as text. */
static const char *types_of(const uint8_t *bytes, size_t len)
{
    static char types[256];
    struct ptd_packets packets;
    struct ptd_packet packet;
    int status;

    types[0] = '\0';
    ptd_packets_init(&packets, bytes, len);
    while ((status = ptd_packets_next(&packets, &packet)) == PTD_OK) {
        (void)strncat(types, ptd_packet_name(packet.type), sizeof(types) - strlen(types) - 1);
        (void)strncat(types, " ", sizeof(types) - strlen(types) - 1);
    }
    (void)strncat(types, status == PTD_END ? "end" : "error", sizeof(types) - strlen(types) - 1);
    return types;
}

/* 33.4.1.1: the same bytes are TNTs outside a block, and items inside. */
static void blocks(void)
{
    /* clang-format off */
    static const uint8_t bytes[] = {
        0x0c,                               /* TNT */
        0x02, 0x63, 0x81,                   /* BBP, 4 bytes */
        0x0c, 1, 2, 3, 4,                   /* BIP 1 */
        0x59, 0x01,                         /* MTC may come between */
        0xfc, 1, 2, 3, 4,                   /* BIP 31 */
        0x02, 0x63, 0x01,                   /* BBP ends the block, and begins one: 8 bytes */
        0x04, 1, 2, 3, 4, 5, 6, 7, 8,       /* BIP 0 */
        0x02, 0x33,                         /* BEP */
        0x0c,                               /* TNT */
        0x02, 0x63, 0x01, 0x02, 0xf3, 0x0c, /* OVF ends a block */
    };
    /* clang-format on */
    CU_ASSERT_STRING_EQUAL(types_of(bytes, sizeof(bytes)),
                           "TNT BBP BIP MTC BIP BBP BIP BEP TNT BBP OVF TNT end");
    CU_ASSERT_STRING_EQUAL(types_of(bytes, sizeof(bytes) - 15), "TNT BBP BIP MTC BIP BBP error");
}

#define PSB_BYTES 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82

static void synchronise(void)
{
    static const uint8_t none[] = {2, 0x82, 2, 0x82, 2, 0x82, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    static const uint8_t later[] = {0x05, 0x02, PSB_BYTES, 0x02, 0x23, PSB_BYTES};
    static const uint8_t longer[] = {0x2d, 2, 0x82, PSB_BYTES, 0x02, 0x23};
    static const uint8_t twice[] = {PSB_BYTES, PSB_BYTES};
    struct ptd_packets packets;

    ptd_packets_init(&packets, none, 0);
    CU_ASSERT_EQUAL(ptd_packets_sync(&packets), PTD_E_NOSYNC);
    ptd_packets_init(&packets, none, sizeof(none));
    CU_ASSERT_EQUAL(ptd_packets_sync(&packets), PTD_E_NOSYNC);
    CU_ASSERT_EQUAL(ptd_packets_offset(&packets), sizeof(none));

    ptd_packets_init(&packets, later, sizeof(later));
    CU_ASSERT_EQUAL(ptd_packets_sync(&packets), PTD_OK);
    CU_ASSERT_EQUAL(ptd_packets_offset(&packets), 2);
    CU_ASSERT_EQUAL(ptd_packets_sync(&packets), PTD_OK); /* at or behind */
    CU_ASSERT_EQUAL(ptd_packets_offset(&packets), 2);
    CU_ASSERT_EQUAL(ptd_packets_seek(&packets, 3), PTD_OK);
    CU_ASSERT_EQUAL(ptd_packets_sync(&packets), PTD_OK);
    CU_ASSERT_EQUAL(ptd_packets_offset(&packets), 20);
    CU_ASSERT_EQUAL(ptd_packets_seek(&packets, sizeof(later)), PTD_OK);
    CU_ASSERT_EQUAL(ptd_packets_sync(&packets), PTD_E_NOSYNC);
    CU_ASSERT_EQUAL(ptd_packets_seek(&packets, sizeof(later) + 1), PTD_E_ARG);

    /* The payload of a TIP looks like the beginning of the PSB behind it. */
    ptd_packets_init(&packets, longer, sizeof(longer));
    CU_ASSERT_EQUAL(ptd_packets_sync(&packets), PTD_OK);
    CU_ASSERT_EQUAL(ptd_packets_offset(&packets), 3);
    ptd_packets_init(&packets, twice, sizeof(twice));
    CU_ASSERT_EQUAL(ptd_packets_sync(&packets), PTD_OK);
    CU_ASSERT_EQUAL(ptd_packets_offset(&packets), 0);
}

void add_packet_suite(void)
{
    CU_pSuite const suite = CU_add_suite("packets", NULL, NULL);

    CU_add_test(suite, "every packet", every_packet);
    CU_add_test(suite, "with bytes behind", bytes_behind);
    CU_add_test(suite, "with and without the table", with_and_without_table);
    CU_add_test(suite, "cut off at every length", every_length);
    CU_add_test(suite, "unknown and reserved", bad_packets);
    CU_add_test(suite, "any two bytes", any_opcode);
    CU_add_test(suite, "every name", every_name);
    CU_add_test(suite, "packet blocks", blocks);
    CU_add_test(suite, "synchronisation", synchronise);
}

/* ---- Table 33-18 ---- */

static void reconstruct(void)
{
    static const struct {
        uint64_t last_ip, payload, ip;
        int status;
        uint8_t ip_bytes;
    } cases[] = {
        {0x1122334455667788, 0x1234, 0x1122334455667788, PTD_END, 0},
        {0x1122334455667788, 0x9abc, 0x1122334455669abc, PTD_OK, 1},
        {0x1122334455667788, 0x9abcdef0, 0x112233449abcdef0, PTD_OK, 2},
        {0x1122334455667788, 0x7abcdef01234, 0x00007abcdef01234, PTD_OK, 3},
        {0x1122334455667788, 0x8abcdef01234, 0xffff8abcdef01234, PTD_OK, 3},
        {0x1122334455667788, 0x8abcdef01234, 0x11228abcdef01234, PTD_OK, 4},
        {0x1122334455667788, 0x1234, 0x1122334455667788, PTD_END, 5},
        {0x1122334455667788, 0x8877665544332211, 0x8877665544332211, PTD_OK, 6},
        {0x1122334455667788, 0x1234, 0x1122334455667788, PTD_END, 7},
        {0, 0x9abc, 0x9abc, PTD_OK, 1},
        {0xffffffff81000000, 0x82345678, 0xffffffff82345678, PTD_OK, 2},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct ptd_packet packet = {
            .type = PTD_TIP, .ip = {.payload = cases[i].payload, .ip_bytes = cases[i].ip_bytes}};
        uint64_t last_ip = cases[i].last_ip, ip = 1;

        CU_ASSERT_EQUAL(ptd_packet_ip(&packet, &last_ip, &ip), cases[i].status);
        CU_ASSERT_EQUAL(last_ip, cases[i].ip);
        CU_ASSERT_EQUAL(ip, cases[i].status == PTD_OK ? cases[i].ip : 1);
    }
}

void add_ip_suite(void)
{
    CU_pSuite const suite = CU_add_suite("IP reconstruction", NULL, NULL);

    CU_add_test(suite, "Table 33-18", reconstruct);
}
