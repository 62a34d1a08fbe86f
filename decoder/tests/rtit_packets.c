/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT packets: every one of RTIT v1.05, Figure 2 as bytes and as text; cut off at each length; bad
 * ones; synchronisation; LIPs by Table 18.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec_rtit.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* clang-format off */
static const struct {
    uint8_t size_bytes, bytes[16], type;
    bool cycle_acc;
    const char *text;
} packet_cases[] = {
    {9, {0xc0, 0, 0, 0, 0, 0, 0, 0, 0}, PTD_RTIT_PSB, false, "PSB"},
    /* Figure 4: the stop bit is the highest 1. */
    {1, {0x02}, PTD_RTIT_TNT, false, "TNT N (1)"},
    {1, {0x03}, PTD_RTIT_TNT, false, "TNT T (1)"},
    {1, {0x06}, PTD_RTIT_TNT, false, "TNT TN (2)"},
    {1, {0x0b}, PTD_RTIT_TNT, false, "TNT NTT (3)"},
    {1, {0x3e}, PTD_RTIT_TNT, false, "TNT TTTTN (5)"},
    {1, {0x40}, PTD_RTIT_TNT, false, "TNT NNNNNN (6)"},
    {1, {0x7f}, PTD_RTIT_TNT, false, "TNT TTTTTT (6)"},
    /* Figure 8: event in bits 5:3, Zext in 2, CNT in 1:0. */
    {3, {0x80, 0x34, 0x12}, PTD_RTIT_PGE, false, "FUP.PGE 0x1234 (16 bits)"},
    {5, {0x89, 0x78, 0x56, 0x34, 0x12}, PTD_RTIT_PGD, false, "FUP.PGD 0x12345678 (32 bits)"},
    {7, {0x92, 6, 5, 4, 3, 2, 1}, PTD_RTIT_OVF, false, "FUP.BuffOvf 0x10203040506 (48 bits)"},
    {3, {0x9c, 0x34, 0x12}, PTD_RTIT_PCC, false, "FUP.PCC 0x1234 (16 bits, zero-extended)"},
    {5, {0xb5, 0x78, 0x56, 0x34, 0x12}, PTD_RTIT_TIP, false, "TIP 0x12345678 (32 bits, zero-extended)"},
    {3, {0xb8, 0x34, 0x12}, PTD_RTIT_FAR, false, "FUP.FAR 0x1234 (16 bits)"},
    /* Extended packets, Figures 9 to 12. */
    {1, {0xc1}, PTD_RTIT_STOP, false, "TraceSTOP"},
    {6, {0xc2, 0x00, 0x10, 0x20, 0, 0}, PTD_RTIT_PIP, false, "PIP CR3 0x201000"},
    {6, {0xc3, 0x18, 0x10, 0, 0, 0xfe}, PTD_RTIT_PIP, false, "PIP CR3 0xfe00001018, PG"},
    {2, {0xc4, 0xab}, PTD_RTIT_MTC, false, "MTC 0xab (TSC[14:7])"},
    {2, {0xc7, 0x01}, PTD_RTIT_MTC, false, "MTC 0x1 (TSC[20:13])"},
    {7, {0xd5, 0x4f, 5, 4, 3, 2, 1}, PTD_RTIT_STS, false, "STS TSC 0x102030405, ratio 21, effective 15"},
    {7, {0xdf, 0xff, 0, 0, 0, 0, 0x80}, PTD_RTIT_STS, false, "STS TSC 0x8000000000, ratio 63, effective 63"},
    /* 4.2.14, 4.2.15: counts of one, two and three bytes; none behind a partial TNT, TraceSTOP and PSB. */
    {2, {0x7f, 0x01}, PTD_RTIT_TNT, true, "TNT TTTTTT (6), 0 cycles"},
    {1, {0x3f}, PTD_RTIT_TNT, true, "TNT TTTTT (5)"},
    {1, {0xc1}, PTD_RTIT_STOP, true, "TraceSTOP"},
    {9, {0xc0, 0, 0, 0, 0, 0, 0, 0, 0}, PTD_RTIT_PSB, true, "PSB"},
    {4, {0xb0, 0x34, 0x12, 0xfd}, PTD_RTIT_TIP, true, "TIP 0x1234 (16 bits), 63 cycles"},
    {5, {0x88, 0x34, 0x12, 0x02, 0x01}, PTD_RTIT_PGD, true, "FUP.PGD 0x1234 (16 bits), 64 cycles"},
    {8, {0xc2, 0, 0x10, 0, 0, 0, 0xfe, 0xff}, PTD_RTIT_PIP, true, "PIP CR3 0x1000, 16383 cycles"},
    {5, {0xc5, 0x01, 0x03, 0x00, 0x01}, PTD_RTIT_MTC, true, "MTC 0x1 (TSC[16:9]), 16384 cycles"},
    {10, {0xd0, 0x00, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff}, PTD_RTIT_STS, true, "STS TSC 0x1, ratio 0, effective 0, 4194303 cycles"},
    {10, {0x9a, 6, 5, 4, 3, 2, 1, 0x03, 0x00, 0x80}, PTD_RTIT_PCC, true, "FUP.PCC 0x10203040506 (48 bits), 2097152 cycles"},
};

static const struct {
    int error;
    uint8_t size_bytes, bytes[16];
    bool cycle_acc;
} bad_cases[] = {
    {PTD_E_OPCODE, 1, {0x00}, false},                         /* TNT without a stop bit */
    {PTD_E_OPCODE, 1, {0x01}, false},                         /* TNT without a result */
    {PTD_E_OPCODE, 9, {0xc0, 0, 0, 0, 0, 0, 0, 0, 1}, false},
    {PTD_E_OPCODE, 3, {0xa0, 0, 0}, false},                   /* events 100 and 101 */
    {PTD_E_OPCODE, 3, {0xa8, 0, 0}, false},
    {PTD_E_OPCODE, 8, {0xc8, 0, 0, 0, 0, 0, 0, 0}, false},
    {PTD_E_OPCODE, 8, {0xcf, 0, 0, 0, 0, 0, 0, 0}, false},
    {PTD_E_OPCODE, 8, {0xe0, 0, 0, 0, 0, 0, 0, 0}, false},
    {PTD_E_OPCODE, 8, {0xff, 0, 0, 0, 0, 0, 0, 0}, false},
    {PTD_E_PAYLOAD, 9, {0xb3, 0, 0, 0, 0, 0, 0, 0, 0}, false},  /* CNT 11 */
    {PTD_E_PAYLOAD, 7, {0xb6, 0, 0, 0, 0, 0, 0}, false},        /* no row of Table 18 */
    {PTD_E_PAYLOAD, 4, {0xb0, 0, 0, 0x04}, true},               /* CCNT 00 */
};
/* clang-format on */

/* The bytes in memory of exactly their size: sanitizers and valgrind see what is read behind. */
static int decode(const uint8_t *bytes, size_t len, bool cycle_acc, struct ptd_rtit_packet *packet)
{
    uint8_t *const exact = malloc(len ? len : 1);
    struct ptd_rtit_packets packets;
    int status;

    memcpy(exact, bytes, len);
    ptd_rtit_packets_init(&packets, exact, len, cycle_acc);
    status = ptd_rtit_packets_next(&packets, packet);
    CU_ASSERT_EQUAL(ptd_rtit_packets_offset(&packets), status == PTD_OK ? packet->size_bytes : 0);
    free(exact);
    return status;
}

static void every_packet(void)
{
    for (size_t i = 0; i < COUNT(packet_cases); i++) {
        struct ptd_rtit_packet packet;
        char text[96] = "";

        CU_ASSERT_EQUAL_FATAL(decode(packet_cases[i].bytes, 16, packet_cases[i].cycle_acc, &packet),
                              PTD_OK);
        CU_ASSERT_EQUAL(packet.type, packet_cases[i].type);
        CU_ASSERT_EQUAL(packet.size_bytes, packet_cases[i].size_bytes);
        CU_ASSERT_EQUAL(ptd_rtit_packet_format(&packet, text, sizeof(text)),
                        strlen(packet_cases[i].text));
        CU_ASSERT_STRING_EQUAL(text, packet_cases[i].text);
        if (strcmp(text, packet_cases[i].text) != 0)
            printf("\n  want %s\n  got  %s", packet_cases[i].text, text);
    }
}

static void every_length(void)
{
    struct ptd_rtit_packet packet;

    for (size_t i = 0; i < COUNT(packet_cases); i++) {
        CU_ASSERT_EQUAL(decode(packet_cases[i].bytes, 0, packet_cases[i].cycle_acc, &packet),
                        PTD_END);
        for (size_t len = 1; len < packet_cases[i].size_bytes; len++)
            CU_ASSERT_EQUAL(decode(packet_cases[i].bytes, len, packet_cases[i].cycle_acc, &packet),
                            PTD_E_TRUNCATED);
        CU_ASSERT_EQUAL(decode(packet_cases[i].bytes, packet_cases[i].size_bytes,
                               packet_cases[i].cycle_acc, &packet),
                        PTD_OK);
    }
}

static void bad_packets(void)
{
    for (size_t i = 0; i < COUNT(bad_cases); i++) {
        struct ptd_rtit_packet packet;

        CU_ASSERT_EQUAL(
            decode(bad_cases[i].bytes, bad_cases[i].size_bytes, bad_cases[i].cycle_acc, &packet),
            bad_cases[i].error);
    }
}

static void every_name(void)
{
    for (unsigned type = 0; type < PTD_RTIT_TYPES; type++)
        CU_ASSERT_NOT_EQUAL(ptd_rtit_packet_name((enum ptd_rtit_type)type)[0], '?');
    CU_ASSERT_STRING_EQUAL(ptd_rtit_packet_name(PTD_RTIT_TYPES), "?");
}

static void synchronise(void)
{
    /* Junk, a payload that ends like a PSB begins, a PSB that is cut off, a PSB. */
    static const uint8_t bytes[] = {0xee, 0xb2, 1, 2, 3, 4, 5,    0xc0, 0xc0, 0,    0, 0,
                                    0,    0,    0, 0, 0, 3, 0,    0,    0,    0xc0, 0, 0,
                                    0,    0,    0, 0, 0, 0, 0xc1, 0xc0, 0,    0,    0};
    struct ptd_rtit_packets packets;
    struct ptd_rtit_packet packet;

    ptd_rtit_packets_init(&packets, bytes, sizeof(bytes), false);
    CU_ASSERT_EQUAL(ptd_rtit_packets_sync(&packets), PTD_OK);
    CU_ASSERT_EQUAL(ptd_rtit_packets_offset(&packets), 8);
    CU_ASSERT_EQUAL(ptd_rtit_packets_next(&packets, &packet), PTD_OK);
    CU_ASSERT_EQUAL(packet.type, PTD_RTIT_PSB);
    CU_ASSERT_EQUAL(packet.offset, 8);
    CU_ASSERT_EQUAL(ptd_rtit_packets_sync(&packets), PTD_OK);
    CU_ASSERT_EQUAL(ptd_rtit_packets_offset(&packets), 21);
    CU_ASSERT_EQUAL(ptd_rtit_packets_seek(&packets, 22), PTD_OK);
    CU_ASSERT_EQUAL(ptd_rtit_packets_sync(&packets), PTD_E_NOSYNC);
    CU_ASSERT_EQUAL(ptd_rtit_packets_offset(&packets), sizeof(bytes));
    CU_ASSERT_EQUAL(ptd_rtit_packets_sync(&packets), PTD_E_NOSYNC);
    CU_ASSERT_EQUAL(ptd_rtit_packets_seek(&packets, sizeof(bytes)), PTD_OK);
    CU_ASSERT_EQUAL(ptd_rtit_packets_seek(&packets, sizeof(bytes) + 1), PTD_E_ARG);
}

/* Table 18, from the reader's side; and before any LIP is known. */
static void complete_lips(void)
{
    static const struct {
        uint64_t known, last, payload;
        uint8_t payload_bytes;
        bool zero_extended;
        int status;
        uint64_t lip;
    } cases[] = {
        {0xffffffffffff, 0x112233445566, 0x9abc, 2, false, PTD_OK, 0x112233449abc},
        {0xffffffffffff, 0x112233445566, 0x9abc, 2, true, PTD_OK, 0x9abc},
        {0xffffffffffff, 0x112233445566, 0x789a9abc, 4, false, PTD_OK, 0x1122789a9abc},
        {0xffffffffffff, 0x112233445566, 0x789a9abc, 4, true, PTD_OK, 0x789a9abc},
        {0xffffffffffff, 0x112233445566, 0x7fff789a9abc, 6, false, PTD_OK, 0x7fff789a9abc},
        {0xffffffffffff, 0x112233445566, 0x8000789a9abc, 6, false, PTD_OK, 0xffff8000789a9abc},
        {0xffffffffffff, 0xffff81000000, 0x9abc, 2, false, PTD_OK, 0xffffffff81009abc},
        {0, 0, 0x9abc, 2, false, PTD_END, 0},
        {0, 0, 0x789a9abc, 4, false, PTD_END, 0},
        {0xffffffff, 0x789a9abc, 0x1111, 2, false, PTD_END, 0},
        {0, 0, 0x9abc, 2, true, PTD_OK, 0x9abc},
        {0, 0, 0x789a9abc, 4, true, PTD_OK, 0x789a9abc},
        {0, 0, 0x7fff789a9abc, 6, false, PTD_OK, 0x7fff789a9abc},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct ptd_rtit_packet packet = {.type = PTD_RTIT_TIP,
                                               .lip = {.payload = cases[i].payload,
                                                       .payload_bytes = cases[i].payload_bytes,
                                                       .zero_extended = cases[i].zero_extended}};
        struct ptd_rtit_last_lip last = {.lip = cases[i].last, .known = cases[i].known};
        uint64_t lip = 1;

        CU_ASSERT_EQUAL(ptd_rtit_packet_lip(&packet, &last, &lip), cases[i].status);
        CU_ASSERT_EQUAL(lip, cases[i].status == PTD_OK ? cases[i].lip : 1);
    }
}

/* What is compressed is known in part: the parts add up. */
static void learn_lips(void)
{
    const struct ptd_rtit_packet four = {.lip = {.payload = 0x55556666, .payload_bytes = 4}};
    const struct ptd_rtit_packet six = {.lip = {.payload = 0x111122223333, .payload_bytes = 6}};
    const struct ptd_rtit_packet two = {.lip = {.payload = 0x7777, .payload_bytes = 2}};
    struct ptd_rtit_last_lip last = {0};
    uint64_t lip = 0;

    CU_ASSERT_EQUAL(ptd_rtit_packet_lip(&four, &last, &lip), PTD_END);
    CU_ASSERT_EQUAL(ptd_rtit_packet_lip(&two, &last, &lip), PTD_END);
    CU_ASSERT_EQUAL(ptd_rtit_packet_lip(&six, &last, &lip), PTD_OK);
    CU_ASSERT_EQUAL(ptd_rtit_packet_lip(&two, &last, &lip), PTD_OK);
    CU_ASSERT_EQUAL(lip, 0x111122227777);
    CU_ASSERT_EQUAL(ptd_rtit_packet_lip(&four, &last, &lip), PTD_OK);
    CU_ASSERT_EQUAL(lip, 0x111155556666);
}

void add_rtit_packet_suite(void)
{
    CU_pSuite const suite = CU_add_suite("RTIT packets", NULL, NULL);

    CU_add_test(suite, "every packet", every_packet);
    CU_add_test(suite, "cut off at every length", every_length);
    CU_add_test(suite, "unknown and reserved", bad_packets);
    CU_add_test(suite, "every name", every_name);
    CU_add_test(suite, "synchronisation", synchronise);
    CU_add_test(suite, "Table 18", complete_lips);
    CU_add_test(suite, "LIPs that are known in part", learn_lips);
}
