/* SPDX-License-Identifier: BSD-3-Clause */
/* State component 8 (33.3.5.2, Table 36-13 of older editions; Tables 33-4 and 33-56 cases 1 to 3).
 */
#include "harness.h"

#include <inttypes.h>
#include <string.h>

#define CTL (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_TOPA)

/* The layout by offsets, as the table has it. */
static void test_layout(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_xsave_area area;
    uint64_t words[16];

    memset(&area, 0xff, sizeof(area));
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x1000);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x2000000ffull);
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x4000);
    for (uint32_t i = 0; i < 4; i++)
        fake_write(fake, VPT_MSR_ADDR0_A + i, 0x5000 + i);
    fake_write(fake, VPT_MSR_CTL, CTL);
    vpt_xsaves(&fake->cpu, &area, IP_OFF);
    CHECK(sizeof(area) == 128, "33.3.5.2: 128 bytes");
    memcpy(words, &area, sizeof(words));
    CHECK(words[0] == CTL, "0H RTIT_CTL");
    CHECK(words[1] == 0x1000, "8H OUTPUT_BASE");
    CHECK(words[2] == 0x2000000ffull, "10H OUTPUT_MASK_PTRS");
    CHECK(words[3] == VPT_STATUS_STOPPED, "18H STATUS");
    CHECK(words[4] == 0x4000, "20H CR3_MATCH");
    for (unsigned i = 0; i < 4; i++)
        CHECK(words[5 + i] == 0x5000 + i, "ADDR register %u", i);
    for (unsigned i = 9; i < 16; i++)
        CHECK(words[i] == 0, "reserved word %u", i);
    fake_close(fake);
}

static void test_save_while_tracing(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_xsave_area area;
    const char *words;

    fake_start(fake, CTL);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_xsaves(&fake->cpu, &area, 0x401020);
    CHECK(area.ctl == (CTL | VPT_CTL_TRACEEN), "TraceEn is saved");
    CHECK(fake_read(fake, VPT_MSR_CTL) == CTL, "and cleared");
    CHECK(area.output_mask_ptrs == fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) &&
              area.output_mask_ptrs >> 32 == fake->tap_len,
          "the pointers are those after the flush");
    words = fake_words(fake, false);
    CHECK(words_match("TNT(T) FUP(401020) PGD()", words), "Table 33-56 case 3: [%s]", words);

    /* Another context, then back: tracing goes on where it was. */
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x3000);
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
    fake_mark(fake);
    CHECK(vpt_xrstors(&fake->cpu, &area, 0x401030, 0x401034) == VPT_OK, "XRSTORS");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == TABLE_GPA, "OUTPUT_BASE");
    EXPECT(fake, "CBR(26) MODE(64) PGE(401034)", "Table 33-56 case 2");
    fake_close(fake);
}

static void test_restore_faults(void)
{
    static const struct {
        const char *what;
        size_t offset;
        uint64_t value;
    } cases[] = {
        {"CTL", offsetof(struct vpt_xsave_area, ctl), 1u << 18},
        {"OUTPUT_BASE", offsetof(struct vpt_xsave_area, output_base), 1ull << 50},
        {"STATUS", offsetof(struct vpt_xsave_area, status), 1u << 3},
        {"CR3_MATCH", offsetof(struct vpt_xsave_area, cr3_match), 1},
        {"ADDR0_A", offsetof(struct vpt_xsave_area, addr), 1ull << 60},
        {"ADDR1_B", offsetof(struct vpt_xsave_area, addr) + 24, 1ull << 60},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = fake_open("skylake");
        struct vpt_xsave_area area = {.ctl = CTL, .output_base = 0x7000};

        memcpy((uint8_t *)&area + cases[i].offset, &cases[i].value, 8);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x2000);
        CHECK(vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_GP, "%s", cases[i].what);
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == 0x2000 && fake_read(fake, VPT_MSR_CTL) == 0,
              "%s: nothing changed", cases[i].what);
        fake_close(fake);
    }
}

static void test_restore_while_tracing(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_xsave_area area = {.ctl = CTL | VPT_CTL_TRACEEN, .output_base = TABLE_GPA};

    fake_start(fake, CTL);
    CHECK(vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_GP, "33.2.8.1: TraceEn is 1");
    EXPECT(fake, "", "nothing happens");
    fake_close(fake);
}

static void test_initial(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x2000);
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_ERROR);
    fake_write(fake, VPT_MSR_CTL, CTL);
    CHECK(vpt_xrstors(&fake->cpu, NULL, IP_ON, IP_START) == VPT_OK, "XSTATE_BV[8] = 0");
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0 && fake_read(fake, VPT_MSR_OUTPUT_BASE) == 0 &&
              fake_read(fake, VPT_MSR_STATUS) == 0 &&
              fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == 0x7f,
          "the initial configuration");
    fake_close(fake);
}

/* Fields for MSRs that a processor lacks hold nothing. */
static void test_missing_msrs(void)
{
    struct fake *fake = fake_open("broadwell");
    struct vpt_xsave_area area = {.ctl = CTL & ~VPT_CTL_TRACEEN};

    CHECK(vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_OK, "all 0");
    area.addr[0][1] = 1;
    CHECK(vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_GP, "ADDR0_B");
    fake_close(fake);

    struct vpt_caps transport = plain_caps("max");

    transport.leaf14_0_ecx = VPT_CAP_FABRIC;
    fake = fake_open_caps(&transport);
    area = (struct vpt_xsave_area){.output_base = 1};
    CHECK(vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_GP, "OUTPUT_BASE");
    area = (struct vpt_xsave_area){.output_mask_ptrs = 0x7f};
    CHECK(vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_OK, "its reset value");
    fake_close(fake);
}

/* 33.2.7.2, Table 33-7: a PMI that came after XSAVES is not lost. */
static void test_preservation(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_xsave_area area;
    struct vpt_context ctx = context_of(0);
    unsigned pmis;

    fake_poke(fake, TABLE_GPA, REGION_GPA | VPT_TOPA_INT);
    fake_poke(fake, TABLE_GPA + 8, (REGION_GPA + 0x1000));
    fake_poke(fake, TABLE_GPA + 16, TABLE_GPA | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, CTL | VPT_CTL_INJECT_PSB_PMI | VPT_CTL_TRACEEN);
    fake_noise(fake, 3900);
    while (fake->pmis == 0)
        fake_noise(fake, 8);
    vpt_xsaves(&fake->cpu, &area, 0x401020);
    CHECK(area.status & VPT_STATUS_PENDTOPAPMI, "PendTopaPMI is saved");
    pmis = fake->pmis;
    fake_write(fake, VPT_MSR_STATUS, 0);
    vpt_xrstors(&fake->cpu, &area, 0x401030, 0x401034);
    CHECK(fake->pmis == pmis + 1, "a PMI when tracing is restored");
    fake_stop(fake);
    fake_close(fake);
}

void suite_xsave(void)
{
    static const struct test tests[] = {
        {"layout", test_layout},
        {"XSAVES while tracing", test_save_while_tracing},
        {"XRSTORS faults", test_restore_faults},
        {"XRSTORS while tracing", test_restore_while_tracing},
        {"initial configuration", test_initial},
        {"MSRs that are not there", test_missing_msrs},
        {"PMI preservation", test_preservation},
        {NULL, NULL},
    };

    add_suite("XSAVES and XRSTORS (33.3.5.2)", tests);
}
