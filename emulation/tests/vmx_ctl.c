/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT_CTL across VMX transitions: the load and clear controls, MSR-load areas, the consistency
 * checks of VM entry, processors that do not trace in VMX operation (33.2.9.4), EPT faults of
 * output, and the plan for each use.
 */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

/* ---- Guest-only tracing --------------------------------------------------------------------- */

static void test_controls(void)
{
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();
    struct vpt_vm_exit exit = vmx_exit();
    const char *words;

    entry.secondary = VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA;
    entry.entry = VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL;
    entry.exit = exit.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    entry.ept = true;
    entry.guest_ctl = BRANCHES | VPT_CTL_EVENTEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN;
    CHECK(!vpt_output_by_ept(&fake->cpu), "root operation");
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    CHECK(fake_read(fake, VPT_MSR_CTL) == entry.guest_ctl, "RTIT_CTL is loaded");
    CHECK(vpt_output_by_ept(&fake->cpu), "guest-physical addresses");
    vpt_jmp_indirect(&fake->cpu, VMX_GUEST + 0x100);
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "VM exit");
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0, "RTIT_CTL is cleared");
    CHECK(!vpt_output_by_ept(&fake->cpu), "root operation again");
    words = fake_words(fake, true);
    CHECK(words_match("PSB PIP(9000) CBR(28) PSBEND MODE(64) PGE(600000) TIP(600100) FUP(600010) "
                      "PGD()",
                      words),
          "Table 33-56 cases 11 and 12, concealed: [%s]", words);
    fake_close(fake);
}

/* Not concealed: CFE and NR show, and still nothing of the host. */
static void test_controls_shown(void)
{
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();
    struct vpt_vm_exit exit = vmx_exit();
    const char *words;

    entry.entry = VPT_ENTRY_LOAD_CTL;
    exit.exit = VPT_EXIT_CLEAR_CTL;
    exit.reason = 10;
    entry.guest_ctl = BRANCHES | VPT_CTL_EVENTEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN;
    vpt_vm_entry(&fake->cpu, &entry);
    vpt_vm_exit(&fake->cpu, &exit);
    words = fake_words(fake, false);
    CHECK(words_match("PSB+ CFE(7,0) MODE(64) PGE(600000) EVD(1,0) EVD(2,a) CFE(8,0) FUP(600010) "
                      "PGD()",
                      words),
          "guest-only tracing with Event Trace: [%s]", words);
    fake_close(fake);
}

/* A guest that does not trace: RTIT_CTL is loaded all the same, and nothing is sent. */
static void test_guest_not_tracing(void)
{
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();
    struct vpt_vm_exit exit = vmx_exit();

    entry.entry = VPT_ENTRY_LOAD_CTL;
    entry.guest_ctl = VPT_CTL_OS | VPT_CTL_TSCEN;
    exit.exit = VPT_EXIT_CLEAR_CTL;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    CHECK(fake_read(fake, VPT_MSR_CTL) == entry.guest_ctl, "RTIT_CTL of the guest");
    vpt_vm_exit(&fake->cpu, &exit);
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0, "RTIT_CTL of the host");
    CHECK(fake_words(fake, false)[0] == '\0', "no packets");
    fake_close(fake);
}

/* ---- MSR-load areas ------------------------------------------------------------------------- */

static void test_lists_guest_only(void)
{
    const struct vpt_msr_load on[] = {{0x1d9, 0x4000}, /* not the model's */
                                      {VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN}};
    const struct vpt_msr_load off[] = {{VPT_MSR_CTL, 0}, {VPT_MSR_CR3_MATCH, 0x5000}};
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();
    struct vpt_vm_exit exit = vmx_exit();
    const char *words;

    entry.loads = on;
    entry.load_count = 2;
    exit.loads = off;
    exit.load_count = 2;
    entry.entry = VPT_ENTRY_CONCEAL;
    entry.secondary = VPT_SECONDARY_CONCEAL;
    exit.exit = VPT_EXIT_CONCEAL;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "VM exit");
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0, "TraceEn");
    CHECK(fake_read(fake, VPT_MSR_CR3_MATCH) == 0x5000, "the rest of the area");
    words = fake_words(fake, false);
    CHECK(words_match("PSB+ MODE(64) PGE(600000) FUP(600010) PGD()", words),
          "33.5.2.2, older processors: [%s]", words);
    fake_close(fake);
}

static void test_lists_host_only(void)
{
    const struct vpt_msr_load off[] = {{VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA}};
    const struct vpt_msr_load on[] = {{VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN}};
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();
    struct vpt_vm_exit exit = vmx_exit();
    const char *words;

    fake_write(fake, VPT_MSR_CTL, on[0].value);
    fake_mark(fake);
    entry.loads = off;
    entry.load_count = 1;
    exit.loads = on;
    exit.load_count = 1;
    entry.entry = VPT_ENTRY_CONCEAL;
    exit.exit = VPT_EXIT_CONCEAL;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS, "VM entry");
    CHECK(!vpt_trigger_en(&fake->cpu), "nothing of the guest");
    vpt_jmp_indirect(&fake->cpu, VMX_GUEST + 0x100);
    CHECK(vpt_vm_exit(&fake->cpu, &exit), "VM exit");
    words = fake_words(fake, false);
    CHECK(words_match("FUP(401013) PGD() CBR(28) MODE(64) PGE(500000)", words),
          "Table 33-56 cases 9 and 10: [%s]", words);
    fake_stop(fake);
    fake_close(fake);
}

/* Not concealed, the new context shows before the area ends tracing. */
static void test_lists_shown(void)
{
    const struct vpt_msr_load off[] = {{VPT_MSR_CTL, 0}};
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();
    const char *words;

    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    entry.loads = off;
    entry.load_count = 1;
    vpt_vm_entry(&fake->cpu, &entry);
    words = fake_words(fake, false);
    CHECK(words_match("FUP(401013) PIP(9000,NR) PGD()", words), "entry: [%s]", words);
    fake_close(fake);
}

/* An MSR of the area that faults: a late failure of the entry, a VMX abort of the exit. */
static void test_lists_fault(void)
{
    const struct vpt_msr_load bad[] = {{VPT_MSR_CTL, 1ull << 18}};
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();
    struct vpt_vm_exit exit = vmx_exit();

    entry.loads = exit.loads = bad;
    entry.load_count = exit.load_count = 1;
    CHECK(vpt_vm_entry_outcome(&fake->cpu, &entry) == VPT_ENTRY_FAILS_LATE, "foreseen");
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_LATE, "VM entry");
    CHECK(!fake->cpu.vmx_nonroot, "back in root operation");
    CHECK(!vpt_vm_exit(&fake->cpu, &exit), "VM exit");
    fake_close(fake);
}

/* ---- Consistency checks --------------------------------------------------------------------- */

static void test_checks(void)
{
    static const struct {
        const char *rule;
        uint32_t secondary, entry, exit;
        bool ept, tracing;
        uint64_t guest_ctl;
        enum vpt_entry result;
    } cases[] = {
        {"load IA32_RTIT_CTL with TraceEn", 0, VPT_ENTRY_LOAD_CTL, 0, false, true, 0,
         VPT_ENTRY_FAILS_EARLY},
        {"load IA32_RTIT_CTL without TraceEn", 0, VPT_ENTRY_LOAD_CTL, 0, false, false, 0,
         VPT_ENTRY_SUCCEEDS},
        {"guest-physical addresses without EPT", VPT_SECONDARY_PT_GPA, VPT_ENTRY_LOAD_CTL,
         VPT_EXIT_CLEAR_CTL, false, false, 0, VPT_ENTRY_FAILS_EARLY},
        {"guest-physical addresses without load", VPT_SECONDARY_PT_GPA, 0, VPT_EXIT_CLEAR_CTL, true,
         false, 0, VPT_ENTRY_FAILS_EARLY},
        {"guest-physical addresses without clear", VPT_SECONDARY_PT_GPA, VPT_ENTRY_LOAD_CTL, 0,
         true, false, 0, VPT_ENTRY_FAILS_EARLY},
        {"guest-physical addresses with all", VPT_SECONDARY_PT_GPA, VPT_ENTRY_LOAD_CTL,
         VPT_EXIT_CLEAR_CTL, true, false, 0, VPT_ENTRY_SUCCEEDS},
        {"reserved bits in the guest's RTIT_CTL", 0, VPT_ENTRY_LOAD_CTL, 0, false, false, 1u << 18,
         VPT_ENTRY_FAILS_LATE},
        {"reserved bits that are not loaded", 0, 0, 0, false, false, 1u << 18, VPT_ENTRY_SUCCEEDS},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = vmx_open("gracemont");
        struct vpt_vm_entry entry = vmx_entry();

        if (cases[i].tracing)
            fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
        entry.secondary = cases[i].secondary;
        entry.entry = cases[i].entry;
        entry.exit = cases[i].exit;
        entry.ept = cases[i].ept;
        entry.guest_ctl = cases[i].guest_ctl;
        CHECK(vpt_vm_entry_outcome(&fake->cpu, &entry) == cases[i].result, "%s: foreseen",
              cases[i].rule);
        CHECK(vpt_vm_entry(&fake->cpu, &entry) == cases[i].result, "%s", cases[i].rule);
        CHECK(fake->cpu.vmx_nonroot == (cases[i].result == VPT_ENTRY_SUCCEEDS), "%s: operation",
              cases[i].rule);
        fake_close(fake);
    }
}

/* 33.2.9.4: no tracing in VMX operation. */
static void test_no_vmx_misc(void)
{
    struct vpt_caps caps = plain_caps("broadwell");
    static const struct {
        uint32_t secondary, entry, exit;
    } conceals[] = {
        {VPT_SECONDARY_CONCEAL, 0, 0}, {0, VPT_ENTRY_CONCEAL, 0}, {0, 0, VPT_EXIT_CONCEAL}};
    struct fake *fake;
    const char *words;

    CHECK(!caps.vmx_misc_pt, "the profile of this test");
    fake = fake_open_caps(&caps);
    fake_start(fake, BRANCHES);
    vpt_vmxon(&fake->cpu, 0x401010);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "VMXON clears TraceEn");
    words = fake_words(fake, false);
    CHECK(words_match("FUP(401010) PGD()", words), "VMXON: [%s]", words);
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, 0, IP_ON, IP_START) == VPT_GP, "WRMSR of RTIT_CTL");
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_CR3_MATCH, 0, IP_ON, IP_START) == VPT_OK, "other MSRs");
    for (size_t i = 0; i < 3; i++) {
        struct vpt_vm_entry entry = vmx_entry();

        entry.secondary = conceals[i].secondary;
        entry.entry = conceals[i].entry;
        entry.exit = conceals[i].exit;
        CHECK(vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_FAILS_EARLY, "33.5.1: control %zu", i);
    }
    const struct vpt_vm_entry plain = vmx_entry();

    CHECK(vpt_vm_entry(&fake->cpu, &plain) == VPT_ENTRY_SUCCEEDS, "and none of them");
    vpt_vmxoff(&fake->cpu);
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, 0, IP_ON, IP_START) == VPT_OK, "after VMXOFF");
    fake_close(fake);

    fake = fake_open("skylake");
    fake_start(fake, BRANCHES);
    vpt_vmxon(&fake->cpu, 0x401010);
    EXPECT(fake, "", "VMXON with IA32_VMX_MISC[14] = 1");
    fake_close(fake);
}

/* ---- EPT faults of output ------------------------------------------------------------------- */

static void test_ept_fault(void)
{
    struct fake *fake = vmx_open("gracemont");
    struct vpt_vm_entry entry = vmx_entry();
    const char *words;
    uint64_t gpa = 0;

    entry.entry = VPT_ENTRY_LOAD_CTL | VPT_ENTRY_CONCEAL;
    entry.exit = VPT_EXIT_CLEAR_CTL;
    entry.secondary = VPT_SECONDARY_PT_GPA | VPT_SECONDARY_CONCEAL;
    entry.ept = true;
    entry.guest_ctl = BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN;
    vpt_vm_entry(&fake->cpu, &entry);
    fake_map(fake, REGION_GPA, 0x1000, VPT_SPAN_FAULT, NULL, false);
    vpt_jmp_indirect(&fake->cpu, VMX_GUEST + 0x100);
    vpt_flush(&fake->cpu);
    CHECK(vpt_output_blocked(&fake->cpu), "output waits");
    CHECK(vpt_output_fault(&fake->cpu, &gpa) == VPT_WRITE_OUTPUT, "a write");
    CHECK(gpa - REGION_GPA < 0x1000, "at %llx", (unsigned long long)gpa);
    fake->maps = 0;
    vpt_flush(&fake->cpu);
    CHECK(!vpt_output_blocked(&fake->cpu), "resolved");
    fake_stop(fake);
    words = fake_words(fake, false);
    CHECK(words_match("PSB+ MODE(64) PGE(600000) TIP(600100) FUP(40fff0) PGD()", words),
          "nothing is lost: [%s]", words);
    fake_close(fake);

    fake = vmx_open("gracemont");
    fake_map(fake, TABLE_GPA, 0x1000, VPT_SPAN_FAULT, NULL, false);
    fake->cpu.fault_access = VPT_WRITE_OUTPUT; /* of an earlier fault */
    vpt_vm_entry(&fake->cpu, &entry);
    vpt_flush(&fake->cpu);
    CHECK(vpt_output_blocked(&fake->cpu) && vpt_output_fault(&fake->cpu, &gpa) == VPT_READ_TABLE &&
              gpa == TABLE_GPA,
          "a read of the table at %llx", (unsigned long long)gpa);
    vpt_reset(&fake->cpu, VPT_RESET_WARM);
    fake->cpu.output_blocked = true;
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x3000);
    CHECK(!vpt_output_blocked(&fake->cpu), "new output MSRs, no old fault");
    fake_close(fake);
}

/* ---- The planner ---------------------------------------------------------------------------- */

/* A processor that may do all of it, and must do nothing. */
static const struct vpt_vmx_caps full = {
    .misc = 1u << 14,
    .secondary = (uint64_t)(VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA) << 32,
    .exit = (uint64_t)(VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL) << 32,
    .entry = (uint64_t)(VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL) << 32,
};

static void test_plan(void)
{
    struct vpt_vmx_plan plan;

    CHECK(!vpt_vmx_plan(&full, VPT_USE_HOST_WIDE, &plan), "host-wide");
    CHECK(plan.secondary_set == 0 && plan.exit_set == 0 && plan.entry_set == 0 &&
              plan.secondary_clear & VPT_SECONDARY_CONCEAL && plan.exit_clear & VPT_EXIT_CONCEAL &&
              plan.entry_clear & VPT_ENTRY_CONCEAL && !plan.msr_lists && !plan.guest_sees_pt,
          "33.5.2.1");
    CHECK(!vpt_vmx_plan(&full, VPT_USE_GUEST_ONLY, &plan), "guest-only");
    CHECK(plan.secondary_set == (VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA) &&
              plan.exit_set == (VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL) &&
              plan.entry_set == (VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL) && !plan.msr_lists &&
              !plan.shadow_topa && plan.guest_sees_pt,
          "33.5.2.2");
    CHECK(!vpt_vmx_plan(&full, VPT_USE_HOST_ONLY, &plan), "host-only");
    CHECK(plan.msr_lists && plan.entry_set == VPT_ENTRY_CONCEAL &&
              plan.entry_clear == VPT_ENTRY_LOAD_CTL,
          "tracing pauses by the MSR-load area");
}

static void test_plan_older(void)
{
    struct vpt_vmx_caps caps = full;
    struct vpt_vmx_plan plan;

    caps.entry = (uint64_t)VPT_ENTRY_CONCEAL << 32;
    CHECK(!vpt_vmx_plan(&caps, VPT_USE_GUEST_ONLY, &plan) && plan.msr_lists && plan.shadow_topa &&
              plan.entry_set == VPT_ENTRY_CONCEAL && plan.exit_set == VPT_EXIT_CONCEAL &&
              plan.secondary_set == VPT_SECONDARY_CONCEAL &&
              plan.secondary_clear == VPT_SECONDARY_PT_GPA &&
              plan.exit_clear == VPT_EXIT_CLEAR_CTL && plan.entry_clear == VPT_ENTRY_LOAD_CTL,
          "33.5.2.2, older processors");
    caps.entry = 0;
    CHECK(!vpt_vmx_plan(&caps, VPT_USE_HOST_ONLY, &plan) && plan.entry_set == 0 &&
              plan.exit_set == 0,
          "host-only, half of the means to conceal");
}

static void test_plan_conceal(void)
{
    struct vpt_vmx_caps caps;
    struct vpt_vmx_plan plan;
    const char *why;

    for (unsigned word = 0; word < 3; word++) {
        caps = full;
        if (word == 0)
            caps.secondary = 0;
        else if (word == 1)
            caps.exit = 0;
        else
            caps.entry = 0;
        CHECK(vpt_vmx_plan(&caps, VPT_USE_GUEST_ONLY, &plan) != NULL, "nothing to conceal with");
    }
    for (unsigned word = 0; word < 3; word++) {
        caps = full;
        if (word == 0)
            caps.secondary |= VPT_SECONDARY_CONCEAL;
        else if (word == 1)
            caps.exit |= VPT_EXIT_CONCEAL;
        else
            caps.entry |= VPT_ENTRY_CONCEAL;
        why = vpt_vmx_plan(&caps, VPT_USE_HOST_WIDE, &plan);
        CHECK(why && strstr(why, "conceal"), "a control that must be 1: %s", why ? why : "no");
    }
}

static void test_plan_refused(void)
{
    struct vpt_vmx_caps caps;
    struct vpt_vmx_plan plan;

    for (unsigned use = 0; use < 3; use++) { /* bits that a use needs to be 0 */
        static const struct {
            uint32_t secondary, exit, entry;
        } fixed[] = {
            {VPT_SECONDARY_PT_GPA, 0, 0}, {0, VPT_EXIT_CLEAR_CTL, 0}, {0, 0, VPT_ENTRY_LOAD_CTL}};

        for (unsigned i = 0; i < 3; i++) {
            caps = full;
            caps.secondary |= fixed[i].secondary;
            caps.exit |= fixed[i].exit;
            caps.entry |= fixed[i].entry;
            CHECK(!vpt_vmx_plan(&caps, (enum vpt_vmx_use)use, &plan) == (use == VPT_USE_GUEST_ONLY),
                  "use %u, control %u is always 1", use, i);
        }
    }
    caps = full; /* guest-only without the means to clear RTIT_CTL, but bound to load it */
    caps.entry |= VPT_ENTRY_LOAD_CTL;
    caps.exit = (uint64_t)VPT_EXIT_CONCEAL << 32;
    CHECK(vpt_vmx_plan(&caps, VPT_USE_GUEST_ONLY, &plan) != NULL, "load, but no clear");
    caps = full;
    caps.misc = 0;
    for (unsigned use = 0; use < 3; use++)
        CHECK(vpt_vmx_plan(&caps, (enum vpt_vmx_use)use, &plan) != NULL, "IA32_VMX_MISC[14] = 0");
}

void suite_vmx_ctl(void)
{
    static const struct test tests[] = {
        {"load and clear", test_controls},
        {"load and clear, not concealed", test_controls_shown},
        {"a guest that does not trace", test_guest_not_tracing},
        {"MSR-load areas, guest-only", test_lists_guest_only},
        {"MSR-load areas, host-only", test_lists_host_only},
        {"MSR-load areas, not concealed", test_lists_shown},
        {"MSR-load areas that fault", test_lists_fault},
        {"consistency checks", test_checks},
        {"no tracing in VMX operation", test_no_vmx_misc},
        {"EPT faults of output", test_ept_fault},
        {"the plan", test_plan},
        {"the plan of older processors", test_plan_older},
        {"the plan, and what conceals", test_plan_conceal},
        {"what cannot be planned", test_plan_refused},
        {NULL, NULL},
    };

    add_suite("RTIT_CTL and VMX (33.5.2)", tests);
}
