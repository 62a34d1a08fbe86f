/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMX: every instruction, check of VM entry, exit and event, as tables of rows in vmx/. What the
 * capability MSRs do not enumerate is skipped by name.
 */
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "vmx/tests.h"
#include "vmx/vm.h"

static bool vmx_present(void)
{
    return cpuid_checked(1, 0).ecx >> 5 & 1;
}

int guest_main(void)
{
    if (!vmx_present()) {
        report_skip("no VMX", "virtual machines by VMX");
        return report_summary();
    }
    vm_init();
    test_capabilities();
    test_start();
    test_instructions();
    test_fields();
    test_control_checks();
    test_host_checks();
    test_guest_checks();
    test_segment_checks();
    test_exits();
    test_cr_exits();
    test_bitmaps();
    test_events();
    test_msr_areas();
    test_state();
    test_ept();
    test_translations();
    test_pt();
    test_pt_psb();
    test_pt_guest();
    test_pt_output();
    test_modes();
    test_end();
    return report_summary();
}
