/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TraceEn across VMX transitions when something is in the way: a busy way to memory, an overflow,
 * an EPT fault, an MSR-load area that faults, a guest whose TraceEn is 0 (33.2.8.1, 33.3.8, 33.5.2,
 * Table 33-54).
 */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define TRACING  (BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN)

/* In a guest that traces itself; nothing of the entry is left to look at. */
static struct fake *open_guest(uint64_t ctl)
{
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();

    entry.secondary = VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA;
    entry.entry = VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL;
    entry.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    entry.ept = true;
    entry.guest_ctl = ctl;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    vpt_flush(&fake->cpu);
    fake_mark(fake);
    return fake;
}

/* ---- The end of tracing waits for memory ---------------------------------------------------- */

static void test_stalled(void)
{
    const struct vpt_msr_load off[] = {{VPT_MSR_CTL, 0}};
    struct vpt_vm_exit exit = vmx_exit();
    struct vpt_vm_entry entry = vmx_entry();
    struct fake *fake;

    exit.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    for (unsigned by_area = 0; by_area < 2; by_area++) {
        fake = open_guest(TRACING);
        vpt_stall(&fake->cpu, true);
        vpt_jmp_indirect(&fake->cpu, VMX_GUEST + 0x100);
        if (by_area) {
            exit.exit = VPT_EXIT_CONCEAL;
            exit.loads = off;
            exit.load_count = 1;
        }
        vpt_vm_exit(&fake->cpu, &exit);
        CHECK(words_match("TIP(600100) FUP(600010) PGD()", fake_words(fake, false)),
              "VM exit, by an area %u: [%s]", by_area, fake_words(fake, false));
        fake_close(fake);
    }

    fake = vmx_open("gracemont");
    fake_write(fake, VPT_MSR_CTL, TRACING);
    vpt_flush(&fake->cpu);
    fake_mark(fake);
    vpt_stall(&fake->cpu, true);
    entry.entry = VPT_ENTRY_CONCEAL;
    entry.loads = off;
    entry.load_count = 1;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    CHECK(words_match("FUP(401013) PGD()", fake_words(fake, false)), "VM entry: [%s]",
          fake_words(fake, false));
    fake_close(fake);

    fake = open_guest(TRACING);
    vpt_stall(&fake->cpu, true);
    vpt_jmp_indirect(&fake->cpu, VMX_GUEST + 0x100);
    vpt_vmx_abort(&fake->cpu, VMX_GUEST + 0x10);
    CHECK(words_match("TIP(600100) FUP(600010)?", fake_words(fake, false)), "VMX abort: [%s]",
          fake_words(fake, false));
    fake_close(fake);
}

/* 33.3.8: what was lost is not lost in silence. */
static void test_overflow(void)
{
    struct vpt_vm_exit exit = vmx_exit();
    struct fake *fake = open_guest(TRACING);
    const char *words;

    exit.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 4000);
    CHECK(fake->cpu.overflow, "an overflow");
    vpt_vm_exit(&fake->cpu, &exit);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words && words_match("OVF FUP(600010) PSB+? FUP(600010) PGD()", words),
          "VM exit in an overflow: [%s]", words ? words : "no OVF");
    fake_close(fake);
}

/* What waits for an EPT violation to be resolved stays the guest's, in root operation too. */
static void test_blocked(void)
{
    struct vpt_vm_exit exit = vmx_exit();
    struct vpt_vm_entry entry = vmx_entry();
    struct fake *fake = open_guest(TRACING);

    exit.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    fake_map(fake, REGION_GPA, 0x1000, VPT_SPAN_FAULT, NULL, false);
    vpt_vm_exit(&fake->cpu, &exit);
    CHECK(vpt_output_blocked(&fake->cpu), "output waits");
    CHECK(vpt_output_by_ept(&fake->cpu), "its addresses are guest-physical");
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    CHECK(words_match("FUP(600010) PGD()", fake_words(fake, false)), "and it comes: [%s]",
          fake_words(fake, false));
    CHECK(!vpt_output_by_ept(&fake->cpu), "nothing is left");

    /* The host's own output in the same processor is not the guest's. */
    fake_write(fake, VPT_MSR_CTL, TRACING);
    CHECK(!vpt_output_by_ept(&fake->cpu), "the host traces");
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    CHECK(!vpt_output_by_ept(&fake->cpu), "the control is 0");
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    fake_close(fake);
}

/* The same where a VM entry ends tracing. */
static void test_overflow_at_entry(void)
{
    const struct vpt_msr_load off[] = {{VPT_MSR_CTL, 0}};
    struct vpt_vm_entry entry = vmx_entry();
    struct fake *fake = vmx_open("gracemont");
    const char *words;

    fake_write(fake, VPT_MSR_CTL, TRACING);
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 4000);
    entry.entry = VPT_ENTRY_CONCEAL;
    entry.loads = off;
    entry.load_count = 1;
    vpt_vm_entry(&fake->cpu, &entry);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words && words_match("OVF FUP(401010) PSB+? FUP(401013) PGD()", words), "[%s]",
          words ? words : "no OVF");
    fake_close(fake);
}

/* A failed entry is an event as any other: a PSB that fell due comes after it, as its overflow. */
static void test_failed_entry(void)
{
    static const struct {
        enum vpt_entry outcome;
        const char *words;
    } cases[] = {{VPT_ENTRY_FAILS_EARLY, "OVF FUP(401013) PSB+?"},
                 {VPT_ENTRY_FAILS_LATE, "OVF FUP(500000) PSB+?"}};

    for (size_t i = 0; i < 2; i++) {
        struct vpt_vm_entry entry = vmx_entry();
        struct fake *fake = vmx_open("gracemont");
        const char *words;

        fake_write(fake, VPT_MSR_CTL, TRACING);
        vpt_stall(&fake->cpu, true);
        fake_noise(fake, 4000);
        fake->cpu.stalled = false; /* free again, and nobody looked since */
        entry.outcome = cases[i].outcome;
        entry.host.cr3 = 0x7000;
        vpt_vm_entry(&fake->cpu, &entry);
        vpt_flush(&fake->cpu);
        words = strstr(fake_words(fake, false), "OVF");
        CHECK(words && words_match(cases[i].words, words), "%zu: [%s]", i, words ? words : "none");
        CHECK(fake->cpu.ctx.cr3 == (i ? 0x7000u : 0x1000u), "%zu: the state", i);
        fake_stop(fake);
        fake_close(fake);
    }
}

/* ---- A guest whose TraceEn is 0 ------------------------------------------------------------- */

/* "Clear IA32_RTIT_CTL" clears RTIT_CTL, and nothing else. */
static void test_not_tracing(void)
{
    const uint64_t bytecnt = 0x123ull << VPT_STATUS_BYTECNT_SHR;
    struct vpt_vm_exit exit = vmx_exit();
    struct vpt_vm_entry entry = vmx_entry();
    struct fake *fake = open_guest(TRACING);

    exit.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    fake_write(fake, VPT_MSR_CTL, BRANCHES);
    CHECK(fake_read(fake, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR != 0, "PacketByteCnt");
    fake_write(fake, VPT_MSR_STATUS, bytecnt);
    vpt_vm_exit(&fake->cpu, &exit);
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0, "RTIT_CTL");
    CHECK((fake_read(fake, VPT_MSR_STATUS) & VPT_STATUS_BYTECNT_MASK) == bytecnt,
          "STATUS is the guest's: %llx", (unsigned long long)fake_read(fake, VPT_MSR_STATUS));
    CHECK(!fake->cpu.vmx_nonroot && fake->cpu.ctx.cr3 == 0x1000, "the host's state");
    fake_close(fake);

    for (unsigned tracing = 0; tracing < 2; tracing++) { /* a late failure is like an exit */
        fake = vmx_open("gracemont");
        fake_write(fake, VPT_MSR_CTL, tracing ? TRACING : BRANCHES);
        vpt_flush(&fake->cpu);
        fake_mark(fake);
        entry.exit = VPT_EXIT_CLEAR_CTL;
        entry.outcome = VPT_ENTRY_FAILS_LATE;
        vpt_vm_entry(&fake->cpu, &entry);
        CHECK(fake_read(fake, VPT_MSR_CTL) == 0, "RTIT_CTL");
        CHECK(words_match(tracing ? "FUP(401010) PGD()" : "", fake_words(fake, false)), "[%s]",
              fake_words(fake, false));
        fake_close(fake);
    }
}

/* TraceEn without TriggerEn: there is nothing to send, but RTIT_CTL is cleared. */
static void test_stopped(void)
{
    struct vpt_vm_exit exit = vmx_exit();
    struct fake *fake = open_guest(BRANCHES | VPT_CTL_TOPA);

    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
    fake_write(fake, VPT_MSR_CTL, TRACING);
    exit.exit = VPT_EXIT_CLEAR_CTL;
    vpt_vm_exit(&fake->cpu, &exit);
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0, "RTIT_CTL");
    CHECK(fake_words(fake, false)[0] == '\0', "no packets: [%s]", fake_words(fake, false));
    fake_close(fake);
}

/* The area of an entry clears TraceEn: the FUP of CFE.VMENTRY is not the one of the TIP.PGD. */
static void test_area_clears_at_entry(void)
{
    const struct vpt_msr_load off[] = {{VPT_MSR_CTL, 0}};
    static const struct {
        uint64_t ctl;
        const char *words;
    } cases[] = {
        {BRANCHES | VPT_CTL_EVENTEN, "CFE(7,0)+ FUP(401010) FUP(401013) PIP(9000,NR) PGD()"},
        {VPT_CTL_OS | VPT_CTL_EVENTEN, "CFE(7,0)+ FUP(401010) PIP(9000,NR)"},
        {BRANCHES, "FUP(401013) PIP(9000,NR) PGD()"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vpt_vm_entry entry = vmx_entry();
        struct fake *fake = vmx_open("gracemont");
        const char *words;

        fake_write(fake, VPT_MSR_CTL, cases[i].ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
        vpt_flush(&fake->cpu);
        fake_mark(fake);
        entry.loads = off;
        entry.load_count = 1;
        CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
        words = fake_words(fake, false);
        CHECK(words_match(cases[i].words, words), "Tables 33-50 and 33-56 case 9, %zu: [%s]", i,
              words);
        fake_close(fake);
    }
}

/* The area of an exit sets TraceEn: no CFE, there was no event of this trace. */
static void test_area_sets(void)
{
    const struct vpt_msr_load on[] = {{VPT_MSR_CTL, TRACING | VPT_CTL_EVENTEN}};
    struct vpt_vm_exit exit = vmx_exit();
    struct fake *fake = open_guest(BRANCHES | VPT_CTL_TOPA);

    exit.loads = on;
    exit.load_count = 1;
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "VM exit");
    EXPECT(fake, "PSB+ MODE(64) PGE(500000)", "Table 33-56 case 10");
    fake_close(fake);
}

/* No CFE of an exit that ContextEn is 0 before, if it never becomes 1 (Table 33-56 case 11). */
static void test_untraced_exit(void)
{
    struct vpt_vm_exit exit = vmx_exit();
    struct vpt_context user = context_of(3);
    struct fake *fake = open_guest(VPT_CTL_OS | VPT_CTL_EVENTEN | VPT_CTL_BRANCHEN | VPT_CTL_TOPA |
                                   VPT_CTL_TRACEEN);

    fake_transfer(fake, VPT_FAR_BRANCH, VMX_GUEST, 0x700000, &user);
    vpt_flush(&fake->cpu);
    fake_mark(fake);
    exit.exit = VPT_EXIT_CLEAR_CTL;
    vpt_vm_exit(&fake->cpu, &exit);
    CHECK(fake_words(fake, false)[0] == '\0', "no packets: [%s]", fake_words(fake, false));
    fake_close(fake);
}

/* ---- MSR-load areas that fault -------------------------------------------------------------- */

/* Table 33-54, "VM only": a late failure shows nothing, whatever the area holds before the fault.
 */
static void test_area_fails(void)
{
    const struct vpt_msr_load area[] = {{VPT_MSR_CTL, TRACING}, {VPT_MSR_CTL, 1ull << 18}};
    const struct vpt_msr_load tracing[] = {{VPT_MSR_CTL, TRACING}, {VPT_MSR_CR3_MATCH, 0x5000}};
    const struct vpt_msr_load good[] = {{VPT_MSR_CR3_MATCH, 0x5000},
                                        {VPT_MSR_PERF_GLOBAL_CTRL, 1},
                                        {VPT_MSR_CTL, BRANCHES},
                                        {VPT_MSR_CTL, TRACING}};
    struct vpt_vm_entry entry = vmx_entry();
    struct fake *fake = vmx_open("gracemont");

    entry.loads = area;
    entry.load_count = 2;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_LATE, "a reserved bit");
    entry.loads = tracing;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_LATE, "33.2.8.1: TraceEn is 1");
    entry.entry = VPT_ENTRY_LOAD_CTL;
    entry.guest_ctl = TRACING;
    entry.loads = good;
    entry.load_count = 1;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_LATE,
          "the area comes after \"load IA32_RTIT_CTL\"");
    CHECK(!vpt_trigger_en(&fake->cpu) && !(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN),
          "the host is not traced");
    CHECK(fake_words(fake, false)[0] == '\0', "Table 33-54: [%s]", fake_words(fake, false));
    entry.entry = 0;
    entry.load_count = 4;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "an area without a fault");
    CHECK(fake_read(fake, VPT_MSR_CTL) == TRACING, "RTIT_CTL comes last");
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    fake_close(fake);
}

/* A configuration MSR cannot be loaded while TraceEn is 1, though the area clears it later. */
static void test_area_order(void)
{
    const struct vpt_msr_load area[] = {{VPT_MSR_CR3_MATCH, 0x5000}, {VPT_MSR_CTL, 0}};
    struct vpt_vm_exit exit = vmx_exit();
    struct fake *fake = open_guest(TRACING);
    const char *words;

    exit.loads = area;
    exit.load_count = 2;
    CHECK(!vpt_vm_exit(&fake->cpu, &exit), "33.2.8.1: TraceEn is 1");
    words = fake_words(fake, false);
    CHECK(words_match("FUP(600010)?", words), "33.5.2.6, VMX abort: [%s]", words);
    CHECK(!vpt_trigger_en(&fake->cpu) && !fake->cpu.vmx_nonroot, "shutdown");
    fake_close(fake);

    fake = open_guest(TRACING);
    exit.exit = VPT_EXIT_CLEAR_CTL | VPT_EXIT_CONCEAL;
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "the control comes before the area");
    CHECK(fake_read(fake, VPT_MSR_CR3_MATCH) == 0x5000, "CR3_MATCH");
    fake_close(fake);
}

/* 33.2.9.4: no way to RTIT_CTL in VMX operation, by an area or a control either. */
static void test_no_vmx_misc(void)
{
    static const struct {
        uint32_t secondary, entry, exit;
    } controls[] = {
        {0, VPT_ENTRY_LOAD_CTL, 0}, {0, 0, VPT_EXIT_CLEAR_CTL}, {VPT_SECONDARY_PT_GPA, 0, 0}};
    const struct vpt_msr_load on[] = {{VPT_MSR_CTL, TRACING}};
    struct fake *fake = vmx_open("broadwell");
    struct vpt_vm_entry entry = vmx_entry();

    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
        entry.secondary = controls[i].secondary;
        entry.entry = controls[i].entry;
        entry.exit = controls[i].exit;
        CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_EARLY, "control %zu", i);
    }
    entry = vmx_entry();
    entry.loads = on;
    entry.load_count = 1;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_LATE, "MSR-load area");
    CHECK(!vpt_trigger_en(&fake->cpu), "nothing is traced");
    fake_close(fake);
}

void suite_vmx_switch(void)
{
    static const struct test tests[] = {
        {"a busy way to memory", test_stalled},
        {"overflow", test_overflow},
        {"overflow, VM entry", test_overflow_at_entry},
        {"overflow, failed VM entry", test_failed_entry},
        {"output that waits", test_blocked},
        {"a guest that does not trace", test_not_tracing},
        {"a guest whose trace stopped", test_stopped},
        {"an exit that is not traced", test_untraced_exit},
        {"an area that sets TraceEn", test_area_sets},
        {"an area that faults", test_area_fails},
        {"the order of an area", test_area_order},
        {"no tracing in VMX operation", test_no_vmx_misc},
        {"an area clears TraceEn at VM entry", test_area_clears_at_entry},
        {NULL, NULL},
    };

    add_suite("TraceEn across VMX transitions (33.5.2)", tests);
}
