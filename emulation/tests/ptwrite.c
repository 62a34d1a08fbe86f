/* SPDX-License-Identifier: BSD-3-Clause */
/* PTWRITE (33.2.2, 33.4.2.21, Table 33-58 by its text: the titles of 33-57 and 33-58 are swapped).
 */
#include "harness.h"

#include <string.h>

#define BOTH (VPT_CTL_OS | VPT_CTL_USER)

static void test_packets(void)
{
    static const struct {
        const char *rule;
        uint64_t ctl;
        uint8_t size_bytes;
        uint64_t value;
        const char *pattern;
    } cases[] = {
        {"rm32", VPT_CTL_PTWEN | VPT_CTL_BRANCHEN, 4, 0x12345678, "PTW4(12345678)"},
        {"rm32, upper half of the operand", VPT_CTL_PTWEN | VPT_CTL_BRANCHEN, 4, 0xaaaaaaaabbbbbbbb,
         "PTW4(bbbbbbbb)"},
        {"rm64", VPT_CTL_PTWEN | VPT_CTL_BRANCHEN, 8, 0x123456789abcdef0, "PTW8(123456789abcdef0)"},
        {"rm64 of 0", VPT_CTL_PTWEN | VPT_CTL_BRANCHEN, 8, 0, "PTW8(0)"},
        {"rm32, FUPonPTW", VPT_CTL_PTWEN | VPT_CTL_FUPONPTW | VPT_CTL_BRANCHEN, 4, 5,
         "PTW4(5)+ FUP(401040)"},
        {"rm64, FUPonPTW", VPT_CTL_PTWEN | VPT_CTL_FUPONPTW | VPT_CTL_BRANCHEN, 8, ~0ull,
         "PTW8(ffffffffffffffff)+ FUP(401040)"},
        {"PTWEn = 0", VPT_CTL_BRANCHEN, 4, 5, ""},
        {"FUPonPTW alone", VPT_CTL_FUPONPTW | VPT_CTL_BRANCHEN, 4, 5, ""},
        {"BranchEn = 0", VPT_CTL_PTWEN, 4, 5, "PTW4(5)"},
        {"BranchEn = 0, FUPonPTW", VPT_CTL_PTWEN | VPT_CTL_FUPONPTW, 4, 5, "PTW4(5)+ FUP(401040)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = fake_open("max");

        fake_start(fake, BOTH | cases[i].ctl);
        vpt_ptwrite(&fake->cpu, cases[i].value, cases[i].size_bytes, 0x401040);
        EXPECT(fake, cases[i].pattern, cases[i].rule);
        fake_close(fake);
    }
}

/* Table 33-40, byte for byte. */
static void test_bytes(void)
{
    static const uint8_t want[] = {
        0x02, 0x92, 0x44, 0x33, 0x22, 0x11,                         /* 4 bytes, IP */
        0x3d, 0x40, 0x10,                                           /* FUP(401040) */
        0x02, 0xb2, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* 8 bytes, IP */
        0x3d, 0x44, 0x10,                                           /* FUP(401044) */
    };
    struct fake *fake = fake_open("goldmont-plus");

    fake_start(fake, BOTH | VPT_CTL_BRANCHEN | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW);
    vpt_ptwrite(&fake->cpu, 0x11223344, 4, 0x401040);
    vpt_ptwrite(&fake->cpu, 0x1122334455667788, 8, 0x401044);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_len - fake->mark == sizeof(want) &&
              memcmp(fake->tap + fake->mark, want, sizeof(want)) == 0,
          "Table 33-40: the bytes differ");
    fake_stop(fake);
    fake_close(fake);
}

/* Order: branches before it are sent before it. */
static void test_order(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, BOTH | VPT_CTL_BRANCHEN | VPT_CTL_PTWEN);
    vpt_cond_branch(&fake->cpu, 0x401020, true);
    vpt_ptwrite(&fake->cpu, 1, 4, 0x401020);
    vpt_cond_branch(&fake->cpu, 0x401030, false);
    vpt_ptwrite(&fake->cpu, 2, 4, 0x401030);
    vpt_ptwrite(&fake->cpu, 3, 4, 0x401034);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    EXPECT(fake, "TNT(T) PTW4(1) TNT(N) PTW4(2) PTW4(3) TIP(402000)", "order");
    fake_close(fake);
}

/* Dependencies: TriggerEn && ContextEn && FilterEn && PTWEn. */
static void test_filters(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3);

    fake_write(fake, VPT_MSR_ADDR0_A, 0x402000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x402fff);
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW |
                         (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    vpt_ptwrite(&fake->cpu, 1, 4, 0x401020);
    vpt_jmp_direct(&fake->cpu, 0x402000);
    vpt_ptwrite(&fake->cpu, 2, 4, 0x402000);
    fake_transfer(fake, VPT_IRET, 0x402004, 0x7000, &user);
    vpt_ptwrite(&fake->cpu, 3, 4, 0x7000);
    EXPECT(fake, "MODE(64)? PGE(402000) PTW4(2)+ FUP(402000) PGD()", "Table 33-58 case 1");
    vpt_ptwrite(&fake->cpu, 4, 4, 0x7000);
    vpt_flush(&fake->cpu);
    CHECK(!strstr(fake_words(fake, false), "PTW4(4)"), "TriggerEn = 0");
    fake_close(fake);
}

/* A PTW that finds the buffer full while output waits is lost, and later ones come again. */
static void test_overflow(void)
{
    struct fake *fake = fake_open("max");
    const char *words;

    fake_start(fake, BOTH | VPT_CTL_PTWEN); /* BranchEn = 0 */
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_FAULT, NULL, false);
    for (unsigned i = 0; i < 1000; i++)
        vpt_ptwrite(&fake->cpu, i, 4, 0x401020);
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    for (unsigned i = 1000; i < 1010; i++)
        vpt_ptwrite(&fake->cpu, i, 4, 0x401020);
    fake_stop(fake);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words != NULL, "33.3.8: no OVF");
    CHECK(words && strstr(words, "PTW4(3f1)"), "33.3.8: nothing came after the overflow");
    fake_close(fake);
}

void suite_ptwrite(void)
{
    static const struct test tests[] = {
        {"Table 33-58", test_packets}, {"bytes (Table 33-40)", test_bytes}, {"order", test_order},
        {"filters", test_filters},     {"overflow", test_overflow},         {NULL, NULL},
    };

    add_suite("PTWRITE (33.4.2.21)", tests);
}
