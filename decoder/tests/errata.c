/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errata: each with a trace that it made, which decodes with it and is an error, or something else,
 * without. Which processor has which, libipt knows, too.
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
                 "error -8 lost 17\n",
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

/* As libipt has it; a newer one may know more models. */
static void test_table(void)
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
        CU_ASSERT_EQUAL(ptd_errata(6, model), errata);
    }
    CU_ASSERT_EQUAL(ptd_errata(15, 0x3d), 0);
    CU_ASSERT_EQUAL(ptd_errata(6, 0xcf), 0);
}

void add_errata_suite(void)
{
    CU_pSuite const suite = CU_add_suite("errata", NULL, NULL);

    CU_add_test(suite, "traces of each erratum", test_traces);
    CU_add_test(suite, "which processor has which", test_table);
}
