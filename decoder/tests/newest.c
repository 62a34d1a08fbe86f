/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow of what is newer than chapter 33: which instruction a TRIG packet belongs to, events and
 * returns of FRED, and JMPABS.
 */
#include <CUnit/CUnit.h>
#include <string.h>

#include "golden.h"
#include "ptdec.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* clang-format off */
#define TRIG               0xd9, 0x00, 0x01
#define TRIG_CNT(count)    0xd9, 0x40, 0x1a, (count) & 0xff, (count) >> 8
#define TRIG_IP            0xd9, 0x80, 0x02
#define TRIG_IP_CNT(count) 0xd9, 0xc0, 0x02, (count) & 0xff, (count) >> 8
#define PTW                2, 0x12, 7, 0, 0, 0
#define PTW_IP             2, 0x92, 7, 0, 0, 0
#define CFE(type, vector)  2, 0x13, (type), (vector)

#define BRANCHES BYTES(                                                                            \
            /*  0 */ 0x90,                         /* nop */                                       \
            /*  1 */ 0xeb, 0x01,                   /* jmp 4 */                                     \
            /*  3 */ 0xf4,                         /* hlt */                                       \
            /*  4 */ 0x90,                         /* nop */                                       \
            /*  5 */ 0x90,                         /* nop */                                       \
            /*  6 */ 0x74, 0xf8,                   /* jz 0 */                                      \
            /*  8 */ 0x90,                         /* nop */                                       \
            /*  9 */ 0xff, 0xe0)                   /* jmp rax */

static const struct golden trig_cases[] = {
    {
        .name = "counted from the FUP of a PSB+",
        .code = BRANCHES,
        .trace = BYTES(PSB, MODE64, FUP(CODE), PSBEND, TRIG_CNT(3), TNT_T),
        .items = "psb to 0\n"
                 "mode 64\n"
                 "block 0 1 2\n"
                 "block 4 4 1\n"
                 "packet TRIG from 5\n"
                 "block 5 6 2 taken\n",
    }, {
        .name = "counted from TIP.PGE, TNT bits and TIP",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TRIG_CNT(0), TNT_TN, TRIG_CNT(1), TIP(CODE + 4), TRIG_CNT(2),
                       TNT_T, TRIG_CNT(0)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet TRIG from 0\n"
                 "block 0 1 2\n"
                 "block 4 6 3 taken\n"
                 "block 0 1 2\n"
                 "block 4 6 3\n"
                 "block 8 8 1\n"
                 "packet TRIG from 9\n"
                 "block 9 9 1\n"
                 "block 4 5 2\n"
                 "packet TRIG from 6\n"
                 "block 6 6 1 taken\n"
                 "packet TRIG from 0\n",
    }, {
        .name = "counted from the TRIG before, and two at one place",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TRIG_CNT(1), TRIG_CNT(0), TRIG_CNT(2), TNT_N),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "packet TRIG from 1\n"
                 "packet TRIG from 1\n"
                 "block 1 1 1\n"
                 "block 4 4 1\n"
                 "packet TRIG from 5\n"
                 "block 5 6 2\n",
    }, {
        .name = "counted from the FUPs of MODE.Exec, of an EXSTOP and of an interrupt",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), MODE64_IF, FUP(CODE + 1), TRIG_CNT(1), 2, 0xe2, FUP(CODE + 5),
                       TRIG_CNT(1), TNT_N, FUP(CODE + 8), TIP(CODE + 4), TRIG_CNT(1),
                       TNT_N),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "mode 64\n"
                 "block 1 1 1\n"
                 "packet TRIG from 4\n"
                 "block 4 4 1\n"
                 "packet EXSTOP from 5\n"
                 "block 5 5 1\n"
                 "packet TRIG from 6\n"
                 "block 6 6 1\n"
                 "async from 8 to 4\n"
                 "block 4 4 1\n"
                 "packet TRIG from 5\n"
                 "block 5 6 2\n",
    }, {
        .name = "counted over a PTWRITE whose packet has no IP, and from one that has",
        .code = BYTES(
            /*  0 */ 0x90,                         /* nop */
            /*  1 */ 0xf3, 0x0f, 0xae, 0xe0,       /* ptwrite eax */
            /*  5 */ 0x90,                         /* nop */
            /*  6 */ 0x90,                         /* nop */
            /*  7 */ 0xff, 0xe0),                  /* jmp rax */
        .trace = BYTES(START(CODE), PTW, TRIG_CNT(3), TIP(CODE), PTW_IP, FUP(CODE + 1),
                       TRIG_CNT(2), TIP(CODE), PTW, TRIG_CNT(2)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "ptwrite 7 from 1\n"
                 "block 5 5 1\n"
                 "packet TRIG from 6\n"
                 "block 6 7 2\n"
                 "block 0 1 2\n"
                 "ptwrite 7 from 1\n"
                 "block 5 5 1\n"
                 "packet TRIG from 6\n"
                 "block 6 7 2\n"
                 "block 0 1 2\n"
                 "ptwrite 7 from 1\n"
                 "packet TRIG from 5\n",
    }, {
        .name = "at the instruction that a FUP names, and counted from it",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TRIG_IP, FUP(CODE + 1), TRIG_IP_CNT(0), FUP(CODE + 4),
                       TNT_N, TRIG_IP_CNT(1), FUP(CODE + 8), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 0 1\n"
                 "packet TRIG from 1\n"
                 "block 1 1 1\n"
                 "packet TRIG from 4\n"
                 "block 4 6 3\n"
                 "block 8 8 1\n"
                 "packet TRIG from 9\n"
                 "block 9 9 1\n",
    }, {
        .name = "nothing says where",
        .code = BRANCHES,
        .trace = BYTES(SYNC, TRIG, TRIG_CNT(1), TRIG_IP, FUP(CODE + 4), TRIG_IP_CNT(1),
                       FUP(CODE + 4), PGE(CODE), TRIG, TNT_T),
        .items = "psb\n"
                 "packet TRIG\n"
                 "packet TRIG\n"
                 "packet TRIG from 4\n"
                 "packet TRIG\n"
                 "enabled to 0\n"
                 "packet TRIG\n"
                 "block 0 1 2\n"
                 "block 4 6 3 taken\n",
    }, {
        .name = "what it counts to is behind the walk: no place",
        .code = BYTES(0x90, 0xf3, 0x0f, 0xae, 0xe0, 0x90, 0xff, 0xe0),
        .trace = BYTES(START(CODE), PTW, TRIG_CNT(1), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "ptwrite 7 from 1\n"
                 "packet TRIG\n"
                 "block 5 6 2\n",
    }, {
        .name = "it cannot count over a branch that needs a packet",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), TRIG_CNT(5), TNT_T, SYNC, PGE(CODE + 8), TRIG_CNT(2), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "error -8 lost 6 from 6\n"
                 "psb\n"
                 "enabled to 8\n"
                 "error -8 lost 12 from 9\n",
    }, {
        .name = "counted round an endless loop",
        .code = BYTES(0x90, 0xeb, 0xfd),
        .trace = BYTES(START(CODE), TRIG_CNT(5), FUP(CODE), PGD_NO_IP),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "block 0 1 2\n"
                 "block 0 0 1\n"
                 "packet TRIG from 1\n"
                 "block 1 1 1\n"
                 "disabled from 0\n",
    }, {
        .name = "in front of the FUP of an overflow: neither takes the other's",
        .code = BRANCHES,
        .trace = BYTES(START(CODE), OVF, TRIG_IP, FUP(CODE), FUP(CODE + 8), TRIG_CNT(1), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "overflow to 8\n"
                 "packet TRIG from 0\n"
                 "block 8 8 1\n"
                 "packet TRIG from 9\n"
                 "block 9 9 1\n",
    }, {
        .name = "inside a compound, and among TNT bits that wait for their TIP",
        .code = BYTES(0x90, 0xff, 0xe0),
        .trace = BYTES(START(CODE), MODE64, TRIG_CNT(0), TIP(CODE), SYNC, PGE(CODE), TNT_T, TRIG),
        .items = "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 12\n"
                 "psb\n"
                 "enabled to 0\n"
                 "error -8 lost 3\n",
    },
};

#define FRED BYTES(                                                                                \
            /*  0 */ 0x0f, 0x05,                   /* syscall */                                   \
            /*  2 */ 0xcd, 0x80,                   /* int 80 */                                    \
            /*  4 */ 0x90,                         /* nop */                                       \
            /*  5 */ 0xff, 0xe0,                   /* jmp rax */                                   \
            /*  7 */ 0x90,                         /* nop */                                       \
            /*  8 */ 0xf3, 0x0f, 0x01, 0xca,       /* eretu */                                     \
            /*  c */ 0xf2, 0x0f, 0x01, 0xca)       /* erets */

static const struct golden fred_cases[] = {
    {
        .name = "events of FRED and the ways back",
        .code = FRED,
        .trace = BYTES(START(CODE), CFE(0x0f, 0), TIP(CODE + 7), TIP(CODE + 2), CFE(0x0e, 0x80),
                       FUP(CODE + 2), TIP(CODE + 0xc), TIP(CODE + 4), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet CFE\n"
                 "block 0 0 1\n"
                 "block 7 8 2\n"
                 "packet CFE\n"
                 "async from 2 to c\n"
                 "block c c 1\n"
                 "block 4 5 2\n",
    }, {
        .name = "SYSCALL told as the event that it is for FRED",
        .code = FRED,
        .trace = BYTES(START(CODE), CFE(0x0f, 0), FUP(CODE), TIP(CODE + 7), TIP(CODE + 2)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet CFE\n"
                 "async from 0 to 7\n"
                 "block 7 8 2\n",
    }, {
        .name = "CFE types of FRED with a FUP of their own",
        .code = FRED,
        .trace = BYTES(START(CODE), CFE(0x8f, 0), FUP(CODE), TIP(CODE + 4), CFE(0x8e, 3),
                       FUP(CODE + 5), TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "packet CFE from 0\n"
                 "block 0 0 1\n"
                 "block 4 4 1\n"
                 "packet CFE from 5\n"
                 "block 5 5 1\n",
    }, {
        .name = "ERETU to where nothing is traced, and ERETS with all that a far return may bring",
        .code = FRED,
        .trace = BYTES(START(CODE + 8), PGD_NO_IP, PGE(CODE + 0xc), PIP(CR3_A), MODE32, TIP(CODE)),
        .items = "psb\n"
                 "enabled to 8\n"
                 "block 8 8 1\n"
                 "disabled\n"
                 "enabled to c\n"
                 "block c c 1\n"
                 "cr3 5000\n"
                 "mode 32\n",
    },
};

#define JMPABS BYTES(                                                                              \
            /*  0 */ 0x90,                         /* nop */                                       \
            /*  1 */ 0xd5, 0x00, 0xa1, 0x0c, 0x10, 0, 0, 0, 0, 0, 0, /* jmpabs c */                \
            /*  c */ 0x74, 0xf2,                   /* jz 0 */                                      \
            /*  e */ 0xff, 0xe0)                   /* jmp rax */

static const struct golden jmpabs_cases[] = {
    {
        .name = "JMPABS is told by a TIP",
        .code = JMPABS,
        .trace = BYTES(START(CODE), TIP(CODE + 0xc), TNT_T, TIP(CODE + 0xc), TNT_N, TIP(CODE)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "block c c 1 taken\n"
                 "block 0 1 2\n"
                 "block c c 1\n"
                 "block e e 1\n",
    }, {
        .name = "its TIP may be deferred, and it may leave the filter",
        .code = JMPABS,
        .trace = BYTES(START(CODE), TNT_TN, TIP(CODE + 0xc), TIP(CODE + 0xc), TIP(CODE),
                       PGD(CODE + 0xc)),
        .items = "psb\n"
                 "enabled to 0\n"
                 "block 0 1 2\n"
                 "block c c 1 taken\n"
                 "block 0 1 2\n"
                 "block c c 1\n"
                 "block e e 1\n"
                 "block 0 1 2\n"
                 "disabled to c\n",
    },
};
/* clang-format on */

static void trig(void)
{
    check_golden(trig_cases, COUNT(trig_cases));
}

static void fred(void)
{
    check_golden(fred_cases, COUNT(fred_cases));
}

static void jmpabs(void)
{
    check_golden(jmpabs_cases, COUNT(jmpabs_cases));
}

/* The place of the first TRIG packet; 0: it has none. */
static uint64_t trig_place(const void *trace, size_t len, const struct ptd_image *image,
                           const struct ptd_flow_config *config)
{
    struct ptd_flow *const flow = ptd_flow_new(trace, len, image, config);
    struct ptd_item item = {0};
    bool found = false;

    while (!found && ptd_flow_next(flow, &item) == PTD_OK)
        found = item.type == PTD_ITEM_PACKET && item.packet.type == PTD_TRIG;
    ptd_flow_free(flow);
    CU_ASSERT_TRUE(found);
    return found && item.has_from ? item.from : 0;
}

/* Counts longer than a block can be, and one whose beginning nobody saw. */
static void long_counts(void)
{
    static const uint8_t trace[] = {START(CODE), TRIG_CNT(9000)};
    static const uint8_t middle[] = {TRIG_CNT(1), TIP(CODE)};
    const struct ptd_flow_config config = {
        .mode = PTD_MODE_64, .at_start = true, .has_ip = true, .ip = CODE};
    static uint8_t nops[10000];
    struct ptd_image *const image = ptd_image_new();

    memset(nops, 0x90, sizeof(nops));
    (void)ptd_image_add_bytes(image, "nops", CODE, nops, sizeof(nops), PTD_ANY_CR3);
    CU_ASSERT_EQUAL(trig_place(trace, sizeof(trace), image, NULL), CODE + 9000);
    CU_ASSERT_EQUAL(trig_place(middle, sizeof(middle), image, &config), 0);
    ptd_image_free(image);
}

void add_newest_suite(void)
{
    CU_pSuite const suite = CU_add_suite("newest packets and instructions", NULL, NULL);

    CU_add_test(suite, "TRIG", trig);
    CU_add_test(suite, "long counts of TRIG", long_counts);
    CU_add_test(suite, "FRED", fred);
    CU_add_test(suite, "JMPABS", jmpabs);
}
