/* SPDX-License-Identifier: BSD-3-Clause */
/* What a VMM does about tracing, as the sections say it besides their tables (33.5.2, 33.6). */
#include "vmx.h"

#include <string.h>

/* ---- 33.5.2, 33.5.2.1 ----------------------------------------------------------------------- */

static void msrs_stay(void)
{
    static const uint32_t msrs[] = {VPT_MSR_CTL, VPT_MSR_CR3_MATCH, VPT_MSR_ADDR0_A,
                                    VPT_MSR_ADDR0_A + 1, VPT_MSR_OUTPUT_BASE};
    const struct vpt_vm_entry entry = plain_entry();
    const struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = fake_open("gracemont");
    uint64_t before[5];

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x7000);
    fake_write(fake, VPT_MSR_ADDR0_A, 0x1234);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x5678);
    fake_start(fake, TRACED);
    for (size_t i = 0; i < 5; i++)
        before[i] = fake_read(fake, msrs[i]);
    enter(fake, &entry);
    for (size_t i = 0; i < 5; i++)
        CHECK(fake_read(fake, msrs[i]) == before[i], "MSR %x after VM entry", msrs[i]);
    vpt_vm_exit(&fake->cpu, &exit);
    for (size_t i = 0; i < 5; i++)
        CHECK(fake_read(fake, msrs[i]) == before[i], "MSR %x after VM exit", msrs[i]);
    CHECK(vpt_trigger_en(&fake->cpu), "and tracing goes on");
    end_quietly(fake);
}
/* Tracing of root operation only, by MSR-load areas: VM entry clears TraceEn, VM exit sets it. */
static void root_only(void)
{
    static const struct vpt_msr_load off[] = {{VPT_MSR_CTL, TRACED | VPT_CTL_TOPA}};
    static const struct vpt_msr_load on[] = {{VPT_MSR_CTL, TRACING}};
    struct vpt_vm_entry entry = plain_entry();
    struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = root(TRACED);

    entry.entry = VPT_ENTRY_CONCEAL;
    exit.exit = entry.exit = VPT_EXIT_CONCEAL;
    entry.loads = off;
    exit.loads = on;
    entry.load_count = exit.load_count = 1;
    enter(fake, &entry);
    SO_FAR(fake, "FUP(401013) PGD()");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    SO_FAR(fake, "");
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "the VM exit");
    END(fake, "CBR(28) MODE(64) PGE(500000)");
}
static void host_only_plan(void)
{
    struct vpt_vmx_caps caps = flexible();
    struct vpt_vmx_plan plan;

    CHECK(vpt_vmx_plan(&caps, VPT_USE_HOST_ONLY, &plan) == NULL && plan.msr_lists, "areas");
    CHECK(plan.entry_clear & VPT_ENTRY_LOAD_CTL && plan.exit_clear & VPT_EXIT_CLEAR_CTL,
          "in place of the controls");
    CHECK(plan.entry_set == VPT_ENTRY_CONCEAL && plan.exit_set == VPT_EXIT_CONCEAL &&
              !plan.guest_sees_pt,
          "the PIP of the guest is not sent");
    caps.misc = 0;
    CHECK(vpt_vmx_plan(&caps, VPT_USE_HOST_ONLY, &plan) != NULL, "no tracing in VMX operation");
}
static void host_wide_plan(void)
{
    struct vpt_vmx_caps caps = flexible();
    struct vpt_vmx_plan plan;

    CHECK(vpt_vmx_plan(&caps, VPT_USE_HOST_WIDE, &plan) == NULL, "it can");
    CHECK(plan.secondary_clear == (VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA) &&
              plan.exit_clear == (VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL) &&
              plan.entry_clear == (VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL),
          "all controls are clear");
    caps.secondary |= VPT_SECONDARY_CONCEAL;
    CHECK(vpt_vmx_plan(&caps, VPT_USE_HOST_WIDE, &plan) != NULL, "one that is always 1");
    caps = flexible();
    caps.exit |= VPT_EXIT_CONCEAL;
    CHECK(vpt_vmx_plan(&caps, VPT_USE_HOST_WIDE, &plan) != NULL, "one that is always 1");
    caps = flexible();
    caps.entry |= VPT_ENTRY_LOAD_CTL;
    CHECK(vpt_vmx_plan(&caps, VPT_USE_HOST_WIDE, &plan) != NULL, "one that is always 1");
}
static void psb_names_vmcs(void)
{
    struct fake *fake = root(TRACED);
    const struct vpt_vm_entry entry = plain_entry();

    vpt_vmptrld(&fake->cpu, 0x88000);
    for (unsigned i = 0; i < 2; i++) {
        const char *words;

        fake_mark(fake);
        fake_noise(fake, 2200);
        words = strstr(fake_words(fake, true), "PSB ");
        CHECK(words && strstr(words, "VMCS(88000)"), "in root operation, then in the guest");
        enter(fake, &entry);
    }
    end_quietly(fake);
}
static void hidden(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct vpt_cpuid regs = {0, 1u << 25 | 1, 0, 0};

    caps.supported = false;
    CHECK(vpt_cpuid(&caps, 7, 0, &regs) && regs.ebx == 1, "CPUID.7.0:EBX[25]");
    regs = (struct vpt_cpuid){1, 2, 3, 4};
    CHECK(vpt_cpuid(&caps, 0x14, 0, &regs) && !(regs.eax | regs.ebx | regs.ecx | regs.edx),
          "CPUID.14H");
    caps.supported = true;
    regs = (struct vpt_cpuid){0};
    CHECK(vpt_cpuid(&caps, 7, 0, &regs) && regs.ebx == 1u << 25, "not hidden");
    CHECK(!vpt_cpuid(&caps, 7, 1, &regs), "only subleaf 0");
}
static void tsc_as_the_guest_sees_it(void)
{
    struct fake *fake = guest(TRACED | VPT_CTL_TSCEN);

    fake->clocks.tsc = vpt_guest_tsc(0x1000, 3ull << 47, 0x500);
    vpt_set_core_ratio(&fake->cpu, 28);
    END(fake, "TSC(1d00) CBR(28)");
}

static const struct rule vmx_management[] = {
    {"root and non-root operation", "the MSRs stay as they are across transitions",
     TEST(msrs_stay)},
    {"root operation only", "MSR-load areas toggle TraceEn", TEST(root_only)},
    {"root operation only, controls", "areas, because VM entry cannot clear TraceEn otherwise",
     TEST(host_only_plan)},
    {0},
};
static const struct rule vmx_system_wide[] = {
    {"controls", "are clear; where one cannot be, it is said", TEST(host_wide_plan)},
    {"PSB+", "has the VMCS pointer, in root operation and in guests", TEST(psb_names_vmcs)},
    {"guests", "do not see Intel PT in CPUID", TEST(hidden)},
    {"TSC", "packets in a guest have its offset and scale", TEST(tsc_as_the_guest_sees_it)},
    {0},
};

/* ---- 33.5.2.2 ------------------------------------------------------------------------------- */

static struct vpt_vm_entry own_entry(void)
{
    struct vpt_vm_entry entry = plain_entry();

    entry.secondary = VPT_SECONDARY_CONCEAL;
    entry.entry = VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL;
    entry.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    entry.guest_ctl = TRACING | VPT_CTL_EVENTEN;
    return entry;
}
static void by_controls(void)
{
    const struct vpt_vm_entry entry = own_entry();
    struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = root(0);

    exit.exit = entry.exit;
    fake_mark(fake);
    enter(fake, &entry);
    SO_FAR(fake, "PSB+ MODE(64) PGE(402000)");
    vpt_vm_exit(&fake->cpu, &exit);
    SO_FAR(fake, "FUP(402010) PGD()");
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0, "RTIT_CTL is cleared, not TraceEn alone");
    vpt_jmp_indirect(&fake->cpu, HOST + 8);
    transfer(fake, VPT_INTERRUPT, at_cr3(0x5000));
    SO_FAR(fake, "");
    enter(fake, &entry);
    END(fake, "CBR(28) MODE(64) PGE(402000)");
}
static void by_areas(void)
{
    static const struct vpt_msr_load on[] = {{VPT_MSR_CTL, TRACING}};
    static const struct vpt_msr_load off[] = {{VPT_MSR_CTL, TRACED | VPT_CTL_TOPA}};
    struct vpt_vm_entry entry = plain_entry();
    struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = root(0);

    entry.secondary = VPT_SECONDARY_CONCEAL;
    entry.entry = VPT_ENTRY_CONCEAL;
    entry.exit = exit.exit = VPT_EXIT_CONCEAL;
    entry.loads = on;
    exit.loads = off;
    entry.load_count = exit.load_count = 1;
    fake_mark(fake);
    enter(fake, &entry);
    SO_FAR(fake, "PSB+ MODE(64) PGE(402000)");
    CHECK(vpt_vm_exit(&fake->cpu, &exit) && !traceen(fake), "TraceEn is cleared");
    SO_FAR(fake, "FUP(402010) PGD()");
    vpt_jmp_indirect(&fake->cpu, HOST + 8);
    SO_FAR(fake, "");
    fake_close(fake);
}
static void no_trace_of_vmx(void)
{
    const struct vpt_vm_entry entry = own_entry();
    struct vpt_vm_exit exit = plain_exit();
    struct fake *fake = root(0);
    const char *words;

    exit.exit = entry.exit;
    vpt_vmptrld(&fake->cpu, 0x88000);
    fake_mark(fake);
    enter(fake, &entry);
    fake_noise(fake, 2200);
    vpt_mov_cr3(&fake->cpu, 0xa000, TARGET + 3);
    vpt_vm_exit(&fake->cpu, &exit);
    words = fake_words(fake, true);
    CHECK(strstr(words, "PIP(a000)") && !strstr(words, "NR") && !strstr(words, "VMCS") &&
              !strstr(words, "CFE") && !strstr(words, "EVD") && !strstr(words, "PIP(1000)"),
          "the stream of a processor without VMX");
    fake_close(fake);
}
static void guest_only_plan(void)
{
    struct vpt_vmx_caps caps = flexible();
    struct vpt_vmx_plan plan;

    CHECK(vpt_vmx_plan(&caps, VPT_USE_GUEST_ONLY, &plan) == NULL, "it can");
    CHECK(plan.entry_set == (VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL) &&
              plan.exit_set == (VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL) &&
              plan.secondary_set == (VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA),
          "by controls");
    CHECK(!plan.msr_lists && !plan.shadow_topa && plan.guest_sees_pt, "and nothing else");
    caps.secondary &= ~((uint64_t)VPT_SECONDARY_PT_GPA << 32);
    CHECK(vpt_vmx_plan(&caps, VPT_USE_GUEST_ONLY, &plan) == NULL && plan.shadow_topa &&
              plan.secondary_clear == VPT_SECONDARY_PT_GPA,
          "addresses that are not translated");
    caps.entry &= ~((uint64_t)VPT_ENTRY_LOAD_CTL << 32);
    CHECK(vpt_vmx_plan(&caps, VPT_USE_GUEST_ONLY, &plan) == NULL && plan.msr_lists &&
              plan.entry_set == VPT_ENTRY_CONCEAL && plan.exit_set == VPT_EXIT_CONCEAL,
          "an older processor: by MSR-load areas");
    caps.exit &= ~((uint64_t)VPT_EXIT_CONCEAL << 32);
    CHECK(vpt_vmx_plan(&caps, VPT_USE_GUEST_ONLY, &plan) != NULL, "VMX cannot be concealed");
}

static const struct rule vmx_guest_only[] = {
    {"controls", "VM entry loads RTIT_CTL of the guest, VM exit clears it", TEST(by_controls)},
    {"MSR-load areas", "do the same on older processors", TEST(by_areas)},
    {"conceal", "with the controls of Table 33-52 nothing shows that it is a guest",
     TEST(no_trace_of_vmx)},
    {"which", "follows from the capability MSRs", TEST(guest_only_plan)},
    {0},
};

/* ---- 33.5.2.3, 33.5.2.4 --------------------------------------------------------------------- */

#define ONE (1ull << 48) /* the multiplier that changes nothing */

/* The guest's trace has stopped for the exit of a MOV CR3. */
static struct fake *stopped(void)
{
    struct fake *fake = begin("gracemont", OS | BRANCHEN);

    fake_stop(fake);
    fake_mark(fake);
    return fake;
}
static void missing_pip(void)
{
    const struct vpt_context ctx = at_cr3(0x8000);
    struct fake *fake = stopped();
    const uint64_t pointers = fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS);
    const uint64_t count = fake_read(fake, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR;

    CHECK(vpt_insert_pip(&fake->cpu, OS | BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN, &ctx, false),
          "it is asked for");
    CHECK(fake->stores[fake->store_count - 1].gpa == REGION_GPA + (pointers >> 32),
          "behind the guest's packets");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == pointers + (8ull << 32), "8 bytes");
    CHECK(fake_read(fake, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR == count + 8, "which count");
    CHECK(!traceen(fake) && !vpt_trigger_en(&fake->cpu), "the trace stays off");
    fake_write(fake, VPT_MSR_CTL, OS | BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    END(fake, "PIP(8000) CBR(28) MODE(64) PGE(401000)");
    fake = stopped();
    CHECK(vpt_insert_pip(&fake->cpu, OS | VPT_CTL_TOPA | VPT_CTL_TRACEEN, &ctx, true), "asked for");
    SO_FAR(fake, "PIP(8000,NR)");
    fake_close(fake);
}
static void no_missing_pip(void)
{
    const uint64_t ctl = OS | USER | BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN;
    const struct {
        uint64_t ctl, status;
        uint8_t cpl;
    } cases[] = {{ctl & ~OS, 0, 3},
                 {ctl & ~USER, 0, 3},
                 {ctl & ~VPT_CTL_TRACEEN, 0, 0},
                 {ctl | VPT_CTL_CR3FILTER, 0, 0},
                 {ctl, VPT_STATUS_STOPPED, 0},
                 {ctl, VPT_STATUS_ERROR, 0},
                 {ctl | 1 << 18, 0, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vpt_context ctx = at_cpl(cases[i].cpl);
        struct fake *fake = stopped();

        ctx.cr3 = 0x8000;
        fake_write(fake, VPT_MSR_STATUS, fake_read(fake, VPT_MSR_STATUS) | cases[i].status);
        CHECK(!vpt_insert_pip(&fake->cpu, cases[i].ctl, &ctx, false), "case %zu", i);
        CHECK(fake_read(fake, VPT_MSR_CTL) == (OS | BRANCHEN | VPT_CTL_TOPA), "case %zu: CTL", i);
        SO_FAR(fake, "");
        fake_close(fake);
    }
}
static void cr3_match_follows(void)
{
    const uint64_t real = 0x77abc000;

    CHECK(vpt_translate_cr3_match(0x5000, 0x5000, real, false) == real, "it matches");
    CHECK(vpt_translate_cr3_match(0x5000, 0x5fe0, real, false) == real, "11:0 do not count");
    CHECK((vpt_translate_cr3_match(0x5000, 0x6000, real, false) ^ real) >> 12 != 0, "it does not");
    CHECK(vpt_translate_cr3_match(0x5020, 0x503f, real + 0x20, true) == real + 0x20, "PAE");
    CHECK(((vpt_translate_cr3_match(0x5000, 0x5020, real, true) ^ real) & ~0x1full) != 0,
          "PAE: 11:5 count");
    CHECK((vpt_translate_cr3_match(1, 1, real + 7, false) & 0x1f) == 0, "4:0 are reserved");
}
static void guest_tsc(void)
{
    CHECK(vpt_guest_tsc(1000, 0, 0) == 1000, "as it is");
    CHECK(vpt_guest_tsc(1000, 0, (uint64_t)-1) == 999, "the offset is signed");
    CHECK(vpt_guest_tsc(1000, 3 * ONE / 2, 7) == 1507, "scaled, then the offset");
    CHECK(vpt_guest_tsc(1ull << 62, ONE / 4, 0) == 1ull << 60, "without loss on the way");
}
/* A stream with a packet of each kind: its TSCs change, all else stays. */
static struct fake *every_packet(void)
{
    static const struct vpt_block_item item = {3, 0x1919191919191919};
    const struct vpt_block blocks[] = {
        {.type = 4, .count = 1, .items = &item},
        {.type = 1, .four_byte_items = true, .count = 1, .items = &item}};
    const struct vpt_power_entry sleep = {.ip = SOURCE, .mwait = true, .state = 0x21};
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER};
    struct vpt_caps caps = rich_caps();
    struct fake *fake;

    caps.tsx = caps.long_tnt = true;
    caps.psb_align_bytes = 8;
    fake =
        begin_caps(&caps, TRACED | VPT_CTL_CYCEN | VPT_CTL_MTCEN | VPT_CTL_TSCEN | VPT_CTL_EVENTEN |
                              VPT_CTL_PTWEN | VPT_CTL_FUPONPTW | VPT_CTL_PWREVTEN);
    vpt_vmxon(&fake->cpu, 0x400000);
    for (unsigned i = 0; i < 60; i++) {
        fake->clocks.tsc += 0x1919191919;
        fake->clocks.art++;
        fake->clocks.cycles += 1ull << (i % 40);
        vpt_cond_branch(&fake->cpu, 0x401020 + i, i & 1);
        vpt_jmp_indirect(&fake->cpu, 0x1919190000 * i);
        vpt_jmp_indirect(&fake->cpu, 0x0019190000000019 * i);
        transfer(fake, VPT_FAULT, at_cr3(0x1919000 * (i & 1)));
        vpt_tx_begin(&fake->cpu, SOURCE);
        vpt_tx_abort(&fake->cpu, SOURCE, TARGET);
        vpt_vmptrld(&fake->cpu, 0x1919191919000);
        vpt_ptwrite(&fake->cpu, 0x1919191919191919, i & 1 ? 8 : 4, SOURCE);
        vpt_pebs(&fake->cpu, blocks, 2, SOURCE);
        vpt_power_entry(&fake->cpu, &sleep);
        vpt_power_exit(&fake->cpu, &wake);
        vpt_maintenance(&fake->cpu, 0x1919191919191919);
        for (unsigned n = 0; n < i; n++)
            vpt_cond_branch(&fake->cpu, 0x401020 + i, n & 1);
    }
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 2000);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    fake_stop(fake);
    return fake;
}
/* A byte 0CH is a TNT, and an item only in a block, which BEP, OVF and PSB end. */
static void check_block_ends(void)
{
    static const uint8_t psb[] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
                                  0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};
    static const uint8_t bep[] = {0x02, 0x33}, bep_ip[] = {0x02, 0xb3}, ovf[] = {0x02, 0xf3};
    static const struct {
        const uint8_t *bytes;
        size_t count;
    } ends[] = {{bep, 2}, {bep_ip, 2}, {ovf, 2}, {psb, sizeof(psb)}};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        uint8_t trace[64] = {0x02, 0x63, 0x84, 0x0c, 0x19, 0x19, 0x19, 0x19};
        uint8_t *tsc = trace + 8 + ends[i].count + 2;

        memcpy(trace + 8, ends[i].bytes, ends[i].count);
        tsc[-2] = tsc[-1] = 0x0c;
        tsc[0] = 0x19;
        tsc[1] = 7;
        CHECK(vpt_rewrite_tsc(trace, (size_t)(tsc + 8 - trace), 0, 1) == (size_t)(tsc + 8 - trace),
              "end %zu: all of it", i);
        CHECK(tsc[1] == 8 && trace[4] == 0x19 && trace[5] == 0x19, "end %zu: the TSC alone", i);
    }
}
/* The data of an item may look like what ends a block. */
static void check_block_data(void)
{
    static const uint8_t data[] = {0x33, 0xb3, 0xf3, 0x82};

    for (size_t i = 0; i < sizeof(data); i++) {
        uint8_t trace[] = {0x02, 0x63, 0x84, 0x0c, data[i], data[i], data[i], data[i],
                           0x0c, 0x19, 0x19, 0x19, 0x19,    0x02,    0x33,    0x19,
                           7,    0,    0,    0,    0,       0,       0};

        CHECK(vpt_rewrite_tsc(trace, sizeof(trace), 0, 1) == sizeof(trace), "data %x", data[i]);
        CHECK(trace[16] == 8 && trace[9] == 0x19 && trace[10] == 0x19, "data %x: the TSC alone",
              data[i]);
    }
}
/* The upper byte of a TSC is not in the packet, but counts where it is scaled. */
static void tsc_upper_byte(void)
{
    const uint64_t tsc = 0x8123456789abcdef, want = vpt_guest_tsc(tsc, 3 * ONE / 2, 7);
    uint8_t trace[8] = {0x19};

    for (unsigned i = 0; i < 7; i++)
        trace[1 + i] = (uint8_t)(tsc >> (8 * i));
    CHECK(vpt_rewrite_tsc_near(trace, sizeof(trace), 3 * ONE / 2, 7, tsc + 1000) == 8, "all of it");
    for (unsigned i = 0; i < 7; i++)
        CHECK(trace[1 + i] == (uint8_t)(want >> (8 * i)), "byte %u", i);
}
#define X2 "19 19 "
#define X4 X2 X2
#define X8 X4 X4
/* Whatever stands in front of a TSC, and whatever its data: it ends where its format says. */
static void tsc_behind_each(void)
{
    static const char *const packets[] = {"00 ",
                                          "06 ",
                                          "02 a3 " X4 X2,
                                          "0d ",
                                          "2d " X2,
                                          "4d " X4,
                                          "6d " X4 X2,
                                          "8d " X4 X2,
                                          "cd " X8,
                                          "3d " X2,
                                          "31 " X2,
                                          "01 ",
                                          "21 " X2,
                                          "0b ",
                                          "0f 18 ",
                                          "0f 19 18 ",
                                          "99 19 ",
                                          "59 19 ",
                                          "02 43 " X4 X2,
                                          "02 03 " X2,
                                          "02 73 " X4 "19 ",
                                          "02 c8 " X4 "19 ",
                                          "02 f3 ",
                                          "02 23 ",
                                          "02 83 ",
                                          "02 c3 88 " X8,
                                          "02 12 " X4,
                                          "02 92 " X4,
                                          "02 32 " X8,
                                          "02 b2 " X8,
                                          "02 62 ",
                                          "02 e2 ",
                                          "02 c2 " X8,
                                          "02 22 " X2,
                                          "02 a2 " X4 "19 ",
                                          "02 33 ",
                                          "02 b3 ",
                                          "02 13 " X2,
                                          "02 53 " X8 "19 ",
                                          "02 63 19 1c " X8,
                                          "02 63 99 1c " X4};

    for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
        uint8_t trace[32] = {0}, before[32];
        const size_t n = from_hex(packets[i], trace);

        trace[n] = 0x19;
        trace[n + 1] = 7;
        memcpy(before, trace, n);
        CHECK(vpt_rewrite_tsc(trace, n + 8, 0, 1) == n + 8, "behind %s: all of it", packets[i]);
        CHECK(memcmp(trace, before, n) == 0 && trace[n + 1] == 8, "behind %s", packets[i]);
    }
}
static void tsc_packets_modified(void)
{
    struct fake *fake = every_packet();
    uint8_t *changed = fake->ram + 0x100000;
    struct reader old, new;
    struct packet was, is;
    unsigned tscs = 0;

    check_block_ends();
    check_block_data();
    memcpy(changed, fake->tap, fake->tap_len);
    CHECK(vpt_rewrite_tsc(changed, fake->tap_len, 2 * ONE, 0x123) == fake->tap_len, "all of it");
    reader_open(&old, fake->tap, fake->tap_len);
    reader_open(&new, changed, fake->tap_len);
    while (reader_next(&old, &was) && reader_next(&new, &is)) {
        const uint64_t want = was.kind == PACKET_TSC ? 2 * was.value + 0x123 : was.value;

        tscs += was.kind == PACKET_TSC;
        if (!CHECK(is.kind == was.kind && is.len_bytes == was.len_bytes && is.value == want,
                   "the packet at %zu", was.offset))
            break;
    }
    CHECK(tscs > 60 && !old.bad && !new.bad, "%u TSC packets", tscs);
    for (size_t cut = 1; cut < 200; cut++)
        CHECK(vpt_rewrite_tsc(changed, cut, ONE, 0) <= cut, "a stream that is cut off");
    memcpy(fake->shadow + 0x100000, changed, fake->tap_len);
    fake_close(fake);
}
static void ratios_follow(void)
{
    const struct vpt_caps host = plain_caps("skylake");
    struct vpt_caps guest;

    CHECK(vpt_scale_caps(&host, ONE, &guest) &&
              guest.max_nonturbo_ratio == host.max_nonturbo_ratio &&
              (uint64_t)guest.tsc_num * host.tsc_den == (uint64_t)host.tsc_num * guest.tsc_den,
          "by 1");
    CHECK(vpt_scale_caps(&host, ONE / 2, &guest), "by a half");
    CHECK(guest.max_nonturbo_ratio == host.max_nonturbo_ratio / 2, "PLATFORM_INFO[15:8]");
    CHECK((uint64_t)guest.tsc_num * host.tsc_den * 2 == (uint64_t)host.tsc_num * guest.tsc_den,
          "CPUID.15H: EBX / EAX");
    CHECK(guest.crystal_hz == host.crystal_hz, "the crystal is not scaled");
    CHECK(!vpt_scale_caps(&host, 0, &guest) && !vpt_scale_caps(&host, 100 * ONE, &guest) &&
              !vpt_scale_caps(&host, ONE / 1000, &guest),
          "rates that no ratio can say");
}
/* By the guest's ratio the ART of its TSC packets is what MTC and TMA count. */
static void ratios_fit_packets(void)
{
    const struct vpt_caps host = plain_caps("skylake");
    struct vpt_caps guest;

    CHECK(vpt_scale_caps(&host, 3 * ONE / 4, &guest), "by 3/4");
    for (uint64_t tsc = 1000; tsc < 1ull << 40; tsc *= 7) {
        struct vpt_clocks real, seen;

        vpt_clocks_from_tsc(&host, tsc, &real);
        vpt_clocks_from_tsc(&guest, vpt_guest_tsc(tsc, 3 * ONE / 4, 0), &seen);
        CHECK(real.art - seen.art <= 1, "ART at %llx: %llx, %llx", (unsigned long long)tsc,
              (unsigned long long)real.art, (unsigned long long)seen.art);
    }
}

static const struct rule vmx_emulated[] = {
    {"PIP", "is written behind the guest's packets if MOV CR3 exited", TEST(missing_pip)},
    {"no PIP", "where the guest's configuration would give none", TEST(no_missing_pip)},
    {"CR3_MATCH", "matches the real CR3 just where the guest's would match",
     TEST(cr3_match_follows)},
    {"TSC", "scaled, then offset, as RDTSC", TEST(guest_tsc)},
    {"TSC packets, upper byte", "comes from a TSC that is near", TEST(tsc_upper_byte)},
    {"TSC packets", "are modified in the guest's trace, and nothing else is",
     TEST(tsc_packets_modified)},
    {"TSC packets, place", "behind every other packet", TEST(tsc_behind_each)},
    {0},
};
static const struct rule vmx_scaling[] = {
    {"ratios", "maximum non-turbo ratio and CPUID.15H are those of the scaled TSC",
     TEST(ratios_follow)},
    {"packets", "TSC and the crystal clock fit together by them", TEST(ratios_fit_packets)},
    {0},
};

/* ---- 33.5.2.6 ------------------------------------------------------------------------------- */

static void abort_packets(void)
{
    struct fake *fake = guest(TRACED);

    vpt_cond_branch(&fake->cpu, TARGET + 4, true);
    vpt_vmx_abort(&fake->cpu, 0x402010);
    CHECK(fake->cpu.buf_len == 0, "all is written, for nothing runs any more");
    SO_FAR(fake, "TNT(T) FUP(402010)");
    CHECK(!vpt_trigger_en(&fake->cpu) && !fake->cpu.vmx_nonroot, "it is over");
    vpt_jmp_indirect(&fake->cpu, HOST);
    transfer(fake, VPT_INTERRUPT, at_cr3(0x5000));
    vpt_set_core_ratio(&fake->cpu, 9);
    SO_FAR(fake, "");
    vpt_reset(&fake->cpu, VPT_RESET_WARM);
    CHECK(!traceen(fake), "until a reset");
    fake_start(fake, TRACED);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
    fake = guest(USER | BRANCHEN);
    vpt_vmx_abort(&fake->cpu, 0x402010);
    SO_FAR(fake, "");
    fake_close(fake);
}

static const struct rule vmx_abort[] = {
    {"VMX abort", "FUP without TIP, then nothing until a reset", TEST(abort_packets)},
    {0},
};

/* ---- 33.6 ----------------------------------------------------------------------------------- */

static struct vpt_vm_exit smm_exit(enum vpt_smm_exit how)
{
    struct vpt_vm_exit exit = plain_exit();

    exit.smm = how;
    exit.vmcs = 0x77000;
    return exit;
}
static struct vpt_vm_entry smm_return(bool to_root)
{
    struct vpt_vm_entry entry = plain_entry();

    entry.from_smm = true;
    entry.to_root = to_root;
    entry.vmcs = 0x88000;
    return entry;
}
static void smm_keeps_traceen(void)
{
    const struct vpt_vm_exit exit = smm_exit(VPT_SMM_BY_SMI);
    const struct vpt_vm_entry back = smm_return(false);
    struct fake *fake = guest(TRACED);

    vpt_vm_exit(&fake->cpu, &exit);
    CHECK(traceen(fake) && vpt_packet_en(&fake->cpu), "TraceEn stays 1");
    vpt_jmp_indirect(&fake->cpu, HOST + 0x100);
    SO_FAR(fake, "FUP(402010) VMCS(77000) PIP(1000) TIP(500000) TIP(500100)");
    enter(fake, &back);
    END(fake, "VMCS(88000) PIP(9000,NR) TIP(402000)");
}
static void smm_lists(void)
{
    static const struct vpt_msr_load off[] = {{VPT_MSR_CTL, TRACED | VPT_CTL_TOPA}};
    static const struct vpt_msr_load on[] = {{VPT_MSR_CTL, TRACING}};
    struct vpt_vm_exit exit = smm_exit(VPT_SMM_BY_SMI);
    struct vpt_vm_entry back = smm_return(false);
    struct fake *fake = guest(TRACED);

    exit.loads = off;
    exit.load_count = 1;
    vpt_vm_exit(&fake->cpu, &exit);
    CHECK(!traceen(fake), "TraceEn is 0 in the monitor");
    SO_FAR(fake, "FUP(402010) VMCS(77000) PIP(1000) PGD()");
    back.loads = on;
    back.load_count = 1;
    enter(fake, &back);
    END(fake, "CBR(28) MODE(64) PGE(402000)");
}
static void smm_events(void)
{
    const struct vpt_vm_exit exit = smm_exit(VPT_SMM_BY_SMI);
    const struct vpt_vm_entry back = smm_return(false);
    struct fake *fake = guest(EVENTS | BRANCHEN);

    vpt_vm_exit(&fake->cpu, &exit);
    SO_FAR(fake, "CFE(3,0) EVD(1,3) EVD(2,a) CFE(9,0) FUP(402010) VMCS(77000) PIP(1000) "
                 "TIP(500000)");
    enter(fake, &back);
    END(fake, "CFE(4,0) CFE(7,0)+ FUP(401010) VMCS(88000) PIP(9000,NR) TIP(402000)");
    fake = guest(EVENTS);
    vpt_vm_exit(&fake->cpu, &exit);
    SO_FAR(fake, "CFE(3,0)+ FUP(402010) EVD(1,3) EVD(2,a) CFE(9,0)+ FUP(402010) VMCS(77000) "
                 "PIP(1000)");
    enter(fake, &back);
    END(fake, "CFE(4,0) CFE(7,0)+ FUP(401010) VMCS(88000) PIP(9000,NR)");
}
static void smm_vmcall(void)
{
    const struct vpt_vm_exit exit = smm_exit(VPT_SMM_BY_VMCALL);
    const struct vpt_vm_entry back = smm_return(true);
    struct fake *fake = root(EVENTS | BRANCHEN);

    vpt_vm_exit(&fake->cpu, &exit);
    SO_FAR(fake, "FUP(402010) VMCS(77000) PIP(1000) TIP(500000)");
    enter(fake, &back);
    CHECK(!fake->cpu.vmx_nonroot, "back in root operation");
    END(fake, "CFE(4,0) CFE(7,0)+ FUP(401010) VMCS(88000) PIP(9000) TIP(402000)");
}
static void smm_pointer(void)
{
    const struct vpt_vm_exit exit = smm_exit(VPT_SMM_BY_SMI);
    const struct vpt_vm_entry back = smm_return(true);
    struct fake *fake = guest(TRACED);

    vpt_vmptrld(&fake->cpu, 0x99000);
    vpt_vm_exit(&fake->cpu, &exit);
    fake_mark(fake);
    fake_noise(fake, 2200);
    CHECK(strstr(fake_words(fake, true), "VMCS(77000)"), "the SMM-transfer VMCS");
    enter(fake, &back);
    fake_mark(fake);
    fake_noise(fake, 2200);
    CHECK(strstr(fake_words(fake, true), "VMCS(88000)"), "the one that the return names");
    end_quietly(fake);
}

static const struct rule stm[] = {
    {"SMM VM exit", "leaves TraceEn as it is, and is traced as VM exits are",
     TEST(smm_keeps_traceen)},
    {"MSR lists", "may clear TraceEn there and set it on the return", TEST(smm_lists)},
    {"Event Trace", "SMI and VM exit, RSM and VM entry", TEST(smm_events)},
    {"VMCALL", "no CFE for the exit; CFE.RSM for the return", TEST(smm_vmcall)},
    {"VMCS pointer", "the SMM-transfer VMCS, then the one that the return loads",
     TEST(smm_pointer)},
    {0},
};

const struct table vmx_use_tables[] = {
    {"33.5.2", "Packet generation across VMX transitions", 0, vmx_management},
    {"33.5.2.1", "System-wide tracing", 0, vmx_system_wide},
    {"33.5.2.2", "Guest-only tracing", 0, vmx_guest_only},
    {"33.5.2.3", "Emulation of traced state", 0, vmx_emulated},
    {"33.5.2.4", "TSC scaling", 0, vmx_scaling},
    {"33.5.2.6", "VMX abort", 0, vmx_abort},
    {"33.6", "SMM transfer monitor", 0, stm},
    {0},
};
