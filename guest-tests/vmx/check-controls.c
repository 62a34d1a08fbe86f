/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first checks of VM entry: controls, each failing with VM-instruction error 7 (volume 3,
 * "Checks on VMX Controls"; the same are in nested_check_vm_execution_controls() and its like in
 * Linux's arch/x86/kvm/vmx/nested.c). A row without an error is the nearest setting that is good.
 */
#include "console.h"
#include "cpu.h"
#include "tests.h"
#include "vm.h"

/* ---- Bits that the capabilities fix ------------------------------------------------------- */

static const struct {
    unsigned field;
    enum control kind;
    const char *name;
} controls[] = {
    {VMCS_PIN_CONTROLS, PIN, "pin-based"},
    {VMCS_PROC_CONTROLS, PROC, "primary processor-based"},
    {VMCS_PROC2_CONTROLS, PROC2, "secondary processor-based"},
    {VMCS_EXIT_CONTROLS, EXIT, "VM-exit"},
    {VMCS_ENTRY_CONTROLS, ENTRY, "VM-entry"},
};

static void test_fixed_bit(unsigned field, unsigned bit, bool must, const char *name)
{
    const uint64_t mask = 1ull << bit;
    struct outcome outcome;

    vm_reset(&nop_code);
    if (field == VMCS_PROC2_CONTROLS)
        put(VMCS_PROC_CONTROLS, get(VMCS_PROC_CONTROLS) | PROC_SECONDARY);
    put(field, must ? get(field) & ~mask : get(field) | mask);
    outcome = vm_launch();
    report(outcome.result == VM_FAIL_VALID && outcome.error == ERROR_CONTROLS,
           "%s controls: bit %u must be %d here (appendix A)", name, bit, must);
}

static void test_fixed_bits(void)
{
    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
        const uint32_t required = control_required(controls[i].kind);
        const uint32_t allowed = control_allowed(controls[i].kind);

        if (!allowed) {
            report_skip("no such controls", "%s controls", controls[i].name);
            continue;
        }
        for (unsigned bit = 0; bit < 32; bit++)
            if ((required >> bit & 1) || !(allowed >> bit & 1))
                test_fixed_bit(controls[i].field, bit, required >> bit & 1, controls[i].name);
    }
}

/* Without "activate secondary controls" the field is not looked at. */
static void test_secondary_off(void)
{
    vm_reset(&nop_code);
    if (!control_allowed(PROC2)) {
        report_skip("no secondary controls", "secondary controls that are not activated");
        return;
    }
    put(VMCS_PROC2_CONTROLS, UINT32_MAX);
    report_value(vm_launch().reason, REASON_VMCALL,
                 "secondary controls that are not activated may be anything");
}

/* ---- Execution and exit controls ---------------------------------------------------------- */

#define BAD        .error = ERROR_CONTROLS
#define MISALIGNED 0x800

static const struct vm_row execution[] = {
    {"CR3-target count above IA32_VMX_MISC[24:16]", .changes = {{PUT, VMCS_CR3_TARGET_COUNT, 512}},
     BAD},
    {"I/O bitmap A is not aligned", .on.proc = PROC_IO_BITMAPS,
     .changes = {{SET, VMCS_IO_BITMAP_A, MISALIGNED}}, BAD},
    {"I/O bitmap A beyond physical addresses", .on.proc = PROC_IO_BITMAPS,
     .changes = {{BEYOND, VMCS_IO_BITMAP_A, 0}}, BAD},
    {"I/O bitmap B is not aligned", .on.proc = PROC_IO_BITMAPS,
     .changes = {{SET, VMCS_IO_BITMAP_B, MISALIGNED}}, BAD},
    {"I/O bitmap B beyond physical addresses", .on.proc = PROC_IO_BITMAPS,
     .changes = {{BEYOND, VMCS_IO_BITMAP_B, 0}}, BAD},
    {"I/O bitmaps that are not in use may stand anywhere",
     .changes = {{SET, VMCS_IO_BITMAP_A, MISALIGNED}, {BEYOND, VMCS_IO_BITMAP_B, 0}}, DONE},
    {"MSR bitmaps are not aligned", .on.proc = PROC_MSR_BITMAPS,
     .changes = {{SET, VMCS_MSR_BITMAPS, MISALIGNED}}, BAD},
    {"MSR bitmaps beyond physical addresses", .on.proc = PROC_MSR_BITMAPS,
     .changes = {{BEYOND, VMCS_MSR_BITMAPS, 0}}, BAD},
    {"TPR shadow: the virtual-APIC page is not aligned", .on.proc = PROC_TPR_SHADOW,
     .changes = {{SET, VMCS_VIRTUAL_APIC, MISALIGNED}}, BAD},
    {"TPR shadow: the virtual-APIC page beyond physical addresses", .on.proc = PROC_TPR_SHADOW,
     .changes = {{BEYOND, VMCS_VIRTUAL_APIC, 0}}, BAD},
    {"TPR shadow: bit 4 of the threshold", .on.proc = PROC_TPR_SHADOW,
     .changes = {{PUT, VMCS_TPR_THRESHOLD, 1u << 4}}, BAD},
    {"TPR shadow: bit 31 of the threshold", .on.proc = PROC_TPR_SHADOW,
     .changes = {{PUT, VMCS_TPR_THRESHOLD, 1u << 31}}, BAD},
    {"TPR shadow: the threshold above the virtual TPR", .on.proc = PROC_TPR_SHADOW,
     .changes = {{PUT, VMCS_TPR_THRESHOLD, 1}}, BAD},
    {"TPR shadow as it should be", .on.proc = PROC_TPR_SHADOW, DONE},
    {"virtualised x2APIC without a TPR shadow", .on.proc2 = PROC2_X2APIC, BAD},
    {"APIC-register virtualisation without a TPR shadow", .on.proc2 = PROC2_APIC_REGISTERS, BAD},
    {"virtual interrupts without a TPR shadow", .on.proc2 = PROC2_VIRTUAL_INTERRUPTS, BAD},
    {"virtual interrupts without external-interrupt exiting", .on.proc = PROC_TPR_SHADOW,
     .on.proc2 = PROC2_VIRTUAL_INTERRUPTS, BAD},
    {"virtualised x2APIC together with APIC accesses", .on.proc = PROC_TPR_SHADOW,
     .on.proc2 = PROC2_X2APIC | PROC2_APIC_ACCESSES, BAD},
    {"the APIC-access page is not aligned", .on.proc2 = PROC2_APIC_ACCESSES,
     .changes = {{PUT, VMCS_APIC_ACCESS, MISALIGNED}}, BAD},
    {"the APIC-access page beyond physical addresses", .on.proc2 = PROC2_APIC_ACCESSES,
     .changes = {{PUT, VMCS_APIC_ACCESS, 0}, {BEYOND, VMCS_APIC_ACCESS, 0}}, BAD},
    {"virtual NMIs without NMI exiting", .on.pin = PIN_VIRTUAL_NMIS, BAD},
    {"NMI-window exiting without virtual NMIs", .on.pin = PIN_NMI, .on.proc = PROC_NMI_WINDOW, BAD},
    {"virtual NMIs with NMI exiting", .on.pin = PIN_NMI | PIN_VIRTUAL_NMIS, DONE},
    {"posted interrupts without virtual interrupts",
     .on = {.pin = PIN_POSTED_INTERRUPTS | PIN_EXTERNAL_INTERRUPT, .exit = EXIT_ACKNOWLEDGE}, BAD},
    {"TSC multiplier 0 (Bochs)", .on = {.proc = PROC_TSC_OFFSETTING, .proc2 = PROC2_TSC_SCALING},
     .changes = {{PUT, VMCS_TSC_MULTIPLIER, 0}}, BAD},
    {"VPID 0", .on.proc2 = PROC2_VPID, .changes = {{PUT, VMCS_VPID, 0}}, BAD},
    {"VPID FFFFH", .on.proc2 = PROC2_VPID, .changes = {{PUT, VMCS_VPID, 0xffff}}, DONE},
    {"EPTP: memory type 1", .on.proc2 = PROC2_EPT,
     .changes = {{CLEAR, VMCS_EPTP, 7}, {SET, VMCS_EPTP, 1}}, BAD},
    {"EPTP: memory type 7", .on.proc2 = PROC2_EPT, .changes = {{SET, VMCS_EPTP, 7}}, BAD},
    {"EPTP: three levels", .on.proc2 = PROC2_EPT,
     .changes = {{CLEAR, VMCS_EPTP, 0x38}, {SET, VMCS_EPTP, 2 << 3}}, BAD},
    {"EPTP: eight levels", .on.proc2 = PROC2_EPT, .changes = {{SET, VMCS_EPTP, 7 << 3}}, BAD},
    {"EPTP: bit 8 is reserved", .on.proc2 = PROC2_EPT, .changes = {{SET, VMCS_EPTP, 1u << 8}}, BAD},
    {"EPTP: bit 11 is reserved", .on.proc2 = PROC2_EPT, .changes = {{SET, VMCS_EPTP, 1u << 11}},
     BAD},
    {"EPTP beyond physical addresses", .on.proc2 = PROC2_EPT, .changes = {{BEYOND, VMCS_EPTP, 0}},
     BAD},
    {"EPT as it should be", .on.proc2 = PROC2_EPT, DONE},
    {"unrestricted guest without EPT", .on.proc2 = PROC2_UNRESTRICTED, BAD},
    {"page-modification log without EPT", .on.proc2 = PROC2_PML, BAD},
    {"mode-based execute control without EPT", .on.proc2 = PROC2_MODE_BASED_EXECUTE, BAD},
    {"PT uses guest physical addresses without EPT", .on.proc2 = PROC2_PT_USES_GPA,
     .on.exit = EXIT_CLEAR_RTIT_CTL, .on.entry = ENTRY_LOAD_RTIT_CTL, BAD},
    {"PT uses guest physical addresses without loading IA32_RTIT_CTL",
     .on.proc2 = PROC2_PT_USES_GPA | PROC2_EPT, .on.exit = EXIT_CLEAR_RTIT_CTL, BAD},
    {"PT uses guest physical addresses without clearing IA32_RTIT_CTL",
     .on.proc2 = PROC2_PT_USES_GPA | PROC2_EPT, .on.entry = ENTRY_LOAD_RTIT_CTL, BAD},
    {"the preemption timer is saved but not activated", .on.exit = EXIT_SAVE_PREEMPTION,
     .off.pin = PIN_PREEMPTION_TIMER, BAD},
    {"the preemption timer is saved and activated",
     .on = {.pin = PIN_PREEMPTION_TIMER, .exit = EXIT_SAVE_PREEMPTION}, DONE},
};

/* ---- MSR areas ---------------------------------------------------------------------------- */

#define UNALIGNED 8 /* entries have 16 bytes */

static const struct vm_row areas[] = {
    {"VM-exit MSR-store area is not aligned",
     .changes = {{PUT, VMCS_EXIT_STORE_COUNT, 1}, {SET, VMCS_EXIT_MSR_STORE, UNALIGNED}}, BAD},
    {"VM-exit MSR-store area beyond physical addresses",
     .changes = {{PUT, VMCS_EXIT_STORE_COUNT, 1}, {BEYOND, VMCS_EXIT_MSR_STORE, 0}}, BAD},
    {"VM-exit MSR-store area that is not aligned, of no entries",
     .changes = {{SET, VMCS_EXIT_MSR_STORE, UNALIGNED}}, DONE},
    {"VM-exit MSR-load area is not aligned",
     .changes = {{PUT, VMCS_EXIT_LOAD_COUNT, 1}, {SET, VMCS_EXIT_MSR_LOAD, UNALIGNED}}, BAD},
    {"VM-exit MSR-load area beyond physical addresses",
     .changes = {{PUT, VMCS_EXIT_LOAD_COUNT, 1}, {BEYOND, VMCS_EXIT_MSR_LOAD, 0}}, BAD},
    {"VM-exit MSR-load area that is not aligned, of no entries",
     .changes = {{SET, VMCS_EXIT_MSR_LOAD, UNALIGNED}}, DONE},
    {"VM-entry MSR-load area is not aligned",
     .changes = {{PUT, VMCS_ENTRY_LOAD_COUNT, 1}, {SET, VMCS_ENTRY_MSR_LOAD, UNALIGNED}}, BAD},
    {"VM-entry MSR-load area beyond physical addresses",
     .changes = {{PUT, VMCS_ENTRY_LOAD_COUNT, 1}, {BEYOND, VMCS_ENTRY_MSR_LOAD, 0}}, BAD},
    {"VM-entry MSR-load area that is not aligned, of no entries",
     .changes = {{SET, VMCS_ENTRY_MSR_LOAD, UNALIGNED}}, DONE},
};

/* An area whose last byte alone is beyond physical addresses. */
static void test_area_end(unsigned address, unsigned count, const char *name)
{
    vm_reset(&nop_code);
    put(address, (1ull << physical_bits()) - 16);
    put(count, 2);
    report_value(vm_launch().error, ERROR_CONTROLS, "%s area: its end beyond physical addresses",
                 name);
}

/* ---- Event injection ---------------------------------------------------------------------- */

#define INJECT(event, length, error_code)                                                          \
    .changes = {{PUT, VMCS_ENTRY_EVENT, EVENT_VALID | (event)},                                    \
                {PUT, VMCS_ENTRY_LENGTH, length},                                                  \
                {PUT, VMCS_ENTRY_ERROR_CODE, error_code}}

static const struct vm_row injection[] = {
    {"injection: type 1 is reserved", INJECT(1u << 8 | 32, 0, 0), BAD},
    {"injection: NMI with vector 3", INJECT(EVENT_NMI | 3, 0, 0), BAD},
    {"injection: exception with vector 32", INJECT(EVENT_EXCEPTION | 32, 0, 0), BAD},
    {"injection: other event with vector 1", INJECT(EVENT_OTHER | 1, 0, 0), BAD},
    {"injection: bit 12 is reserved", INJECT(EVENT_INTERRUPT | 32 | 1u << 12, 0, 0), BAD},
    {"injection: bit 30 is reserved", INJECT(EVENT_EXCEPTION | 6 | 1u << 30, 0, 0), BAD},
    {"injection: an error code with bit 16",
     INJECT(EVENT_EXCEPTION | 13 | EVENT_ERROR_CODE, 0, 1u << 16), BAD},
    {"injection: an error code with bit 31",
     INJECT(EVENT_EXCEPTION | 13 | EVENT_ERROR_CODE, 0, 1u << 31), BAD},
    {"injection: software interrupt of 16 bytes", INJECT(EVENT_SOFTWARE | 32, 16, 0), BAD},
    {"injection: privileged software exception of 16 bytes", INJECT(EVENT_PRIVILEGED | 1, 16, 0),
     BAD},
    {"injection: software exception of 16 bytes", INJECT(EVENT_SOFT_EXCEPTION | 3, 16, 0), BAD},
    {"entry to SMM outside of SMM", .on.entry = ENTRY_TO_SMM, BAD},
    {"end of the dual monitor outside of SMM", .on.entry = ENTRY_NO_DUAL, BAD},
};

/* Which events have an error code is a rule unless IA32_VMX_BASIC[56] lifts it. */
static const struct vm_row error_codes[] = {
    {"injection: an error code of an interrupt",
     INJECT(EVENT_INTERRUPT | 32 | EVENT_ERROR_CODE, 0, 0), BAD},
    {"injection: an error code of a software interrupt",
     INJECT(EVENT_SOFTWARE | 13 | EVENT_ERROR_CODE, 2, 0), BAD},
    {"injection: an error code of INT3", INJECT(EVENT_SOFT_EXCEPTION | 3 | EVENT_ERROR_CODE, 1, 0),
     BAD},
    {"injection: #UD with an error code", INJECT(EVENT_EXCEPTION | 6 | EVENT_ERROR_CODE, 0, 0),
     BAD},
    {"injection: #DF without an error code", INJECT(EVENT_EXCEPTION | 8, 0, 0), BAD},
    {"injection: #TS without an error code", INJECT(EVENT_EXCEPTION | 10, 0, 0), BAD},
    {"injection: #NP without an error code", INJECT(EVENT_EXCEPTION | 11, 0, 0), BAD},
    {"injection: #SS without an error code", INJECT(EVENT_EXCEPTION | 12, 0, 0), BAD},
    {"injection: #GP without an error code", INJECT(EVENT_EXCEPTION | 13, 0, 0), BAD},
    {"injection: #PF without an error code", INJECT(EVENT_EXCEPTION | 14, 0, 0), BAD},
    {"injection: #AC without an error code", INJECT(EVENT_EXCEPTION | 17, 0, 0), BAD},
};

static const struct vm_row zero_length[] = {
    {"injection: software interrupt of no bytes", INJECT(EVENT_SOFTWARE | 32, 0, 0), BAD},
    {"injection: privileged software exception of no bytes", INJECT(EVENT_PRIVILEGED | 1, 0, 0),
     BAD},
    {"injection: software exception of no bytes", INJECT(EVENT_SOFT_EXCEPTION | 3, 0, 0), BAD},
};

static const struct vm_row no_mtf[] = {
    {"injection: a pending MTF exit without the monitor trap flag", INJECT(EVENT_OTHER, 0, 0), BAD},
};

static void test_injection(void)
{
    RUN_ROWS(injection);
    if (vmx_basic() & BASIC_ANY_ERROR_CODE)
        report_skip("IA32_VMX_BASIC[56]", "injection: which events have an error code");
    else
        RUN_ROWS(error_codes);
    if (vmx_misc() & MISC_ZERO_LENGTH)
        report_skip("IA32_VMX_MISC[30]", "injection of an instruction of no bytes");
    else
        RUN_ROWS(zero_length);
    if (control_allowed(PROC) & PROC_MTF)
        report_skip("monitor trap flag", "injection of an MTF exit where there is none");
    else
        RUN_ROWS(no_mtf);
}

void test_control_checks(void)
{
    test_fixed_bits();
    test_secondary_off();
    RUN_ROWS(execution);
    RUN_ROWS(areas);
    test_area_end(VMCS_EXIT_MSR_STORE, VMCS_EXIT_STORE_COUNT, "VM-exit MSR-store");
    test_area_end(VMCS_EXIT_MSR_LOAD, VMCS_EXIT_LOAD_COUNT, "VM-exit MSR-load");
    test_area_end(VMCS_ENTRY_MSR_LOAD, VMCS_ENTRY_LOAD_COUNT, "VM-entry MSR-load");
    test_injection();
}
