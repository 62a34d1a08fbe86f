/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errata: each with a trace that it made, which decodes with it and is an error, or something else,
 * without. Which processor has which, libipt knows, too, as far as it is new enough.
 */
#include <CUnit/CUnit.h>
#include <intel-pt.h>

#include "golden.h"
#include "ptdec.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* clang-format off */
#define BRANCHES BYTES(                                                                            \
            /*  0 */ 0x90,                         /* nop */                                       \
            /*  1 */ 0x74, 0xfd,                   /* jz 0 */                                      \
            /*  3 */ 0xff, 0xe0)                   /* jmp rax */

static const struct golden cases[] = {
    {
        .name = "BDM70: PSB+ with a FUP in front of the TIP.PGE of an enabling",
        .errata = PTD_BDM70,
        .code = BRANCHES,
        .trace = BYTES(PSB, MODE64, FUP(CODE + 1), PSBEND, TSC, PGE(CODE), TNT_T),
        .items = "psb\n"
                 "mode 64\n"
                 "tsc 1\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "BDM70: the same, and the TIP.PGD in front of it was lost",
        .errata = PTD_BDM70,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), PSB, MODE64, FUP(CODE), PSBEND, TSC, PGE(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "psb\n"
                 "tsc 1\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "without BDM70, this contradicts itself",
        .code = BRANCHES,
        .trace = BYTES(PSB, MODE64, FUP(CODE + 1), PSBEND, PGE(CODE), TNT_T),
        .items = "psb to 1\n"
                 "mode 64\n"
                 "error -8 lost 8\n",
    }, {
        .name = "BDM64: a TIP to where nothing ran, then the abort",
        .errata = PTD_BDM64,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TSX_BEGIN, FUP(CODE), TNT_N, TIP(0x9000), TSX_ABORT,
                       FUP(CODE + 3), TIP(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "tsx 1\n"
                 "block 0 1 2\n"
                 "block 3 3 1\n"
                 "async from 3 to 0\n"
                 "tsx 2\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "BDM64: a conditional branch told wrong",
        .errata = PTD_BDM64,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TSX_BEGIN, FUP(CODE), TNT_T, TSX_ABORT,
                       FUP(CODE + 3), TIP(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "tsx 1\n"
                 "block 0 1 2 taken\n"
                 "async from 3 to 0\n"
                 "tsx 2\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "without BDM64, there is no way to the abort",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TSX_BEGIN, FUP(CODE), TNT_T, TSX_ABORT, FUP(CODE + 3),
                       TIP(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "tsx 1\n"
                 "block 0 1 2 taken\n"
                 "error -8 lost 17 from 1\n",
    }, {
        .name = "SKD007: the rest of a CYC is an OVF",
        .errata = PTD_SKD007,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TNT_T, 0xff, OVF, FUP(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "packet CYC\n"
                 "overflow to 0\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "SKD007: a whole CYC stays one",
        .errata = PTD_SKD007,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TNT_T, 0xff, 0x02, TNT_T, 0xff, 0x03, 0xf2, TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n"
                 "packet CYC\n"
                 "block 0 1 2 taken\n"
                 "packet CYC\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "SKD010: no FUP behind OVF; tracing goes on at the next TIP",
        .errata = PTD_SKD010,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), OVF, TNT_TT, TIP(CODE + 1), TNT_N, TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow to 1\n"
                 "block 1 1 1\n"
                 "block 3 3 1\n",
    }, {
        .name = "SKD010: no FUP behind OVF, nor a TIP",
        .errata = PTD_SKD010,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), OVF, TNT_TT, PGD_NO_IP, PGE(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "without SKD010, a TNT behind OVF is an error",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), OVF, TNT_TT, TIP(CODE + 1), TNT_N, TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow\n"
                 "error -8 lost 16\n",
    }, {
        .name = "SKD022: VM entry that clears TraceEn has executed",
        .errata = PTD_SKD022,
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x01, 0xc3,             /* vmresume */
            /*  4 */ 0x90),                        /* nop */
        .trace = BYTES(START(CODE), FUP(CODE + 1), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 1 1 1\n"
                 "disabled\n",
    }, {
        .name = "without SKD022, the FUP has the next instruction's IP (Table 33-56 case 9)",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0x0f, 0x01, 0xc2,             /* vmlaunch */
            /*  4 */ 0x90),                        /* nop */
        .trace = BYTES(START(CODE), FUP(CODE + 4), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "disabled\n",
    }, {
        .name = "SKD022 does not concern other instructions",
        .errata = PTD_SKD022,
        .code = BYTES(0x90, 0x0f, 0x30),           /* nop; wrmsr */
        .trace = BYTES(START(CODE), FUP(CODE + 1), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "disabled from 1\n",
    }, {
        .name = "SKL014: a direct branch leaves the filter, and TIP.PGD does not say where to",
        .errata = PTD_SKL014,
        .filtered = true,
        .code = BYTES(
            /*  0 */ 0xeb, 0x01,                   /* jmp 3 */
            /*  2 */ 0x90,                         /* nop */
            /*  3 */ 0xe8, 0x08, 0x00, 0x00, 0x00, /* call 10 */
            /*  8 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "block 3 3 1\n"
                 "disabled to 10\n",
    }, {
        .name = "APL11: TIP.PGD behind OVF",
        .errata = PTD_APL11,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), OVF, PGD(0x7000), MTC, PGE(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow\n"
                 "packet MTC\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "without APL11, this is an error",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), OVF, PGD_NO_IP, PGE(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow\n"
                 "error -8 lost 8\n",
    }, {
        .name = "APL12: a FUP behind OVF, though PacketEn is 0",
        .errata = PTD_APL12,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), OVF, FUP(CODE + 1), PIP(CR3_B), PGE(CODE), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow\n"
                 "cr3 6000\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n",
    }, {
        .name = "APL12: a FUP behind OVF that is right",
        .errata = PTD_APL12,
        .code = BRANCHES,
        .trace = BYTES(START(CODE), OVF, FUP(CODE + 1), TNT_T),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow to 1\n"
                 "block 1 1 1 taken\n",
    }, {
        .name = "SKZ84: TMA and a byte that is no packet",
        .errata = PTD_SKZ84,
        .code = BRANCHES,
        .trace = BYTES(PSB, TSC, 2, 0x73, 0xff, 0xff, 0, 0xff, 1, 0xfd, CBR, PSBEND, PGE(CODE),
                       TNT_T),
        .items = "psb\n"
                 "tsc 1\n"
                 "packet TMA\n"
                 "cbr 1f\n"
                 "enabled to 0\n"
                 "block 0 1 2 taken\n",
    },
};
/* clang-format on */

static void test_traces(void)
{
    check_golden(cases, COUNT(cases));
}

/* ---- Which processor has which ---- */

#define MODELS 16

/* clang-format off */
static const struct {
    uint32_t errata;
    uint8_t family, models[MODELS]; /* 0: no more */
} rows[] = {
    {PTD_BDM70 | PTD_BDM64, 6, {0x3d, 0x47, 0x4f, 0x56}},
    {PTD_BDM70 | PTD_SKD007 | PTD_SKD022 | PTD_SKD010 | PTD_SKL014 | PTD_SKL168, 6,
     {0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6}},
    {PTD_BDM70 | PTD_SKL014 | PTD_SKD022 | PTD_SKZ84, 6, {0x55, 0x6a, 0x6c}},
    {PTD_BDM70 | PTD_SKD022 | PTD_SKZ84, 6, {0x8f, 0xcf, 0xad, 0xae}},
    {PTD_BDM70 | PTD_SKD022 | PTD_SKZ84, 0x13, {0x01}},
    {PTD_BDM70 | PTD_SKL014 | PTD_SKD022, 6, {0x66, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7, 0xa8}},
    {PTD_BDM70 | PTD_SKD022 | PTD_APL11, 6,
     {0x97, 0x9a, 0xba, 0xb7, 0xbf, 0xc5, 0xc6, 0xb5, 0xaa, 0xac, 0xbd, 0xcc, 0xd5}},
    {PTD_BDM70 | PTD_SKD022 | PTD_APL11, 0x12, {0x01, 0x03}},
    {PTD_APL12 | PTD_APL11, 6, {0x5c, 0x5f}},
    {PTD_APL11, 6, {0x7a, 0x86, 0x96, 0x9c, 0xb6, 0xaf, 0xdd}},
};
/* clang-format on */

/* Every processor has the errata of its row, and one that has no row has none. */
static void test_table(void)
{
    for (unsigned family = 0; family < 0x20; family++) {
        for (unsigned model = 1; model < 256; model++) {
            uint32_t errata = 0;

            for (size_t row = 0; row < COUNT(rows); row++)
                for (size_t i = 0; i < MODELS; i++)
                    if (rows[row].family == family && rows[row].models[i] == model)
                        errata = rows[row].errata;
            CU_ASSERT_EQUAL(ptd_errata(family, model), errata);
        }
    }
    CU_ASSERT_EQUAL(ptd_errata(6, 0), 0);
    CU_ASSERT_EQUAL(ptd_errata(6 + 256, 0x3d), 0);
    CU_ASSERT_EQUAL(ptd_errata(6, 0x3d + 256), 0);
}

static bool lost_skl014(unsigned model)
{
    return model == 0x8f || model == 0x97 || model == 0x9a || model == 0xbf;
}

/* The libipt that is here knows fewer models, and SKL014 of some that newer ones have without. */
static void test_libipt(void)
{
    for (unsigned model = 0; model < 256; model++) {
        const struct pt_cpu cpu = {.vendor = pcv_intel, .family = 6, .model = (uint8_t)model};
        struct pt_errata known;
        uint32_t errata;

        if (pt_cpu_errata(&known, &cpu) < 0)
            continue;
        errata = known.bdm64 * PTD_BDM64 | known.bdm70 * PTD_BDM70 | known.skd007 * PTD_SKD007 |
                 known.skd010 * PTD_SKD010 | known.skd022 * PTD_SKD022 | known.skl014 * PTD_SKL014 |
                 known.skl168 * PTD_SKL168 | known.apl11 * PTD_APL11 | known.apl12 * PTD_APL12 |
                 known.skz84 * PTD_SKZ84;
        if (lost_skl014(model))
            errata &= ~PTD_SKL014;
        CU_ASSERT_EQUAL(ptd_errata(6, model), errata);
    }
}

/* ---- Time ---- */

#define TSC_AT(tsc) 0x19, (tsc)&0xff, (tsc) >> 8 & 0xff, 0, 0, 0, 0, 0
#define CYCLES(n)   0x07 | ((n)&0x1f) << 3, ((n) >> 5 & 0x7f) << 1 | 1, (n) >> 12 << 1
#define CBR24       2, 0x03, 24, 0

/* clang-format off */
/* A cycle takes a tick. Of 2030 cycles between two TSC packets, 30 are missing. */
static const uint8_t dropped[] = {
    PSB, TSC_AT(1000), CBR24, FUP(CODE), PSBEND, CYCLES(2000), TIP(CODE),
    PSB, TSC_AT(3030), CBR24, FUP(CODE), PSBEND, CYCLES(40), TIP(CODE), CYCLES(1000), TIP(CODE),
};
/* clang-format on */

/* When the last packet was. */
static struct ptd_time_point time_of_last(uint32_t errata)
{
    const struct ptd_time_config config = {.max_nonturbo_ratio = 24, .errata = errata};
    struct ptd_time *const time = ptd_time_new(&config);
    struct ptd_time_point point = {0};
    struct ptd_packets packets;
    struct ptd_packet packet;

    ptd_packets_init(&packets, dropped, sizeof(dropped));
    while (ptd_time_next(time, &packets, &packet))
        ptd_time_packet(time, &packet);
    ptd_time_point(time, &point);
    ptd_time_free(time);
    return point;
}

static void test_skl168(void)
{
    const struct ptd_time_point with = time_of_last(PTD_SKL168), without = time_of_last(0);

    CU_ASSERT_TRUE(with.earliest <= 4070 && with.latest >= 4070);
    CU_ASSERT_TRUE(with.latest - with.earliest <= 100); /* the CBR packet still counts */
    CU_ASSERT_FALSE(without.earliest <= 4070 && without.latest >= 4070);
}

/* The clock of a stream reads packets of its own. */
static void test_stream_clock(void)
{
    static const uint8_t trace[] = {PSB,  TSC, 2,    0x73, 0xff,   0xff,         0,
                                    0xff, 1,   0xfd, CBR,  PSBEND, TSC_AT(3030), PGE(CODE)};
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .errata = PTD_SKZ84};
    const struct ptd_time_config clocks = {0};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_stream *const stream = ptd_stream_new(image, &config, &clocks);
    struct ptd_time_point point = {0};
    struct ptd_item item = {0};

    CU_ASSERT_EQUAL(ptd_stream_feed(stream, trace, sizeof(trace)), PTD_OK);
    ptd_stream_end(stream);
    while (ptd_stream_next(stream, &item, &point) == PTD_OK)
        continue;
    CU_ASSERT_EQUAL(item.type, PTD_ITEM_ENABLED);
    CU_ASSERT_EQUAL(point.tsc, 3030);
    ptd_stream_free(stream);
    ptd_image_free(image);
}

void add_errata_suite(void)
{
    CU_pSuite const suite = CU_add_suite("errata", NULL, NULL);

    CU_add_test(suite, "traces of each erratum", test_traces);
    CU_add_test(suite, "which processor has which", test_table);
    CU_add_test(suite, "the same of libipt", test_libipt);
    CU_add_test(suite, "SKL168: cycles that are missing", test_skl168);
    CU_add_test(suite, "SKZ84: the clock of a stream", test_stream_clock);
}
