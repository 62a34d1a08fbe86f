/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of VM entry on the host-state area, each failing with VM-instruction error 8 (volume 3,
 * "Checks on Host Control Registers, MSRs", "... Segment and Descriptor-Table Registers", "...
 * Address-Space Size"; nested_vmx_check_host_state() in Linux's arch/x86/kvm/vmx/nested.c).
 */
#include "console.h"
#include "cpu.h"
#include "tests.h"
#include "vm.h"

#define BAD          .error = ERROR_HOST_STATE
#define RPL_1        1u
#define TI           4u
#define NO_CANONICAL (1ull << 62) /* with 48 bits and with 57 */
#define CR4_PAE      (1u << 5)
#define EFER_LME     (1ull << 8)
#define EFER_LMA     (1ull << 10)

/* Bits of CR0 and CR4 that VMX operation fixes. */
static void test_fixed(unsigned field, unsigned msr_0, unsigned msr_1, const char *name)
{
    const uint64_t ones = rdmsr(msr_0), maybe = rdmsr(msr_1);

    for (unsigned bit = 0; bit < 64; bit++) {
        const bool must = ones >> bit & 1;

        if (!must && maybe >> bit & 1)
            continue;
        vm_reset(&nop_code);
        put(field, must ? get(field) & ~(1ull << bit) : get(field) | 1ull << bit);
        report_value(vm_launch().error, ERROR_HOST_STATE, "host %s: bit %u must be %d here", name,
                     bit, must);
    }
}

static const struct vm_row rows[] = {
    {"host CR3 beyond physical addresses", .changes = {{BEYOND, VMCS_HOST_CR3, 0}}, BAD},
    {"host CR4.PAE = 0 with a 64-bit host", .changes = {{CLEAR, VMCS_HOST_CR4, CR4_PAE}}, BAD},
    {"host IA32_SYSENTER_ESP is not canonical",
     .changes = {{PUT, VMCS_HOST_SYSENTER_ESP, NO_CANONICAL}}, BAD},
    {"host IA32_SYSENTER_EIP is not canonical",
     .changes = {{PUT, VMCS_HOST_SYSENTER_EIP, NO_CANONICAL}}, BAD},
    {"host ES: RPL 1", .changes = {{SET, VMCS_HOST_ES, RPL_1}}, BAD},
    {"host CS: RPL 1", .changes = {{SET, VMCS_HOST_CS, RPL_1}}, BAD},
    {"host SS: RPL 1", .changes = {{SET, VMCS_HOST_SS, RPL_1}}, BAD},
    {"host DS: RPL 1", .changes = {{SET, VMCS_HOST_DS, RPL_1}}, BAD},
    {"host FS: RPL 1", .changes = {{SET, VMCS_HOST_FS, RPL_1}}, BAD},
    {"host GS: RPL 1", .changes = {{SET, VMCS_HOST_GS, RPL_1}}, BAD},
    {"host TR: RPL 1", .changes = {{SET, VMCS_HOST_TR, RPL_1}}, BAD},
    {"host ES: TI", .changes = {{SET, VMCS_HOST_ES, TI}}, BAD},
    {"host CS: TI", .changes = {{SET, VMCS_HOST_CS, TI}}, BAD},
    {"host SS: TI", .changes = {{SET, VMCS_HOST_SS, TI}}, BAD},
    {"host DS: TI", .changes = {{SET, VMCS_HOST_DS, TI}}, BAD},
    {"host FS: TI", .changes = {{SET, VMCS_HOST_FS, TI}}, BAD},
    {"host GS: TI", .changes = {{SET, VMCS_HOST_GS, TI}}, BAD},
    {"host TR: TI", .changes = {{SET, VMCS_HOST_TR, TI}}, BAD},
    {"host CS is 0", .changes = {{PUT, VMCS_HOST_CS, 0}}, BAD},
    {"host TR is 0", .changes = {{PUT, VMCS_HOST_TR, 0}}, BAD},
    {"host FS base is not canonical", .changes = {{PUT, VMCS_HOST_FS_BASE, NO_CANONICAL}}, BAD},
    {"host GS base is not canonical", .changes = {{PUT, VMCS_HOST_GS_BASE, NO_CANONICAL}}, BAD},
    {"host GDTR base is not canonical", .changes = {{PUT, VMCS_HOST_GDTR_BASE, NO_CANONICAL}}, BAD},
    {"host IDTR base is not canonical", .changes = {{PUT, VMCS_HOST_IDTR_BASE, NO_CANONICAL}}, BAD},
    {"host TR base is not canonical", .changes = {{PUT, VMCS_HOST_TR_BASE, NO_CANONICAL}}, BAD},
    {"host RIP is not canonical", .changes = {{PUT, VMCS_HOST_RIP, NO_CANONICAL}}, BAD},
    {"host IA32_PAT: type 2 in byte 0", .on.exit = EXIT_LOAD_PAT,
     .changes = {{PUT, VMCS_HOST_PAT, 0x02}}, BAD},
    {"host IA32_PAT: type 3 in byte 7", .on.exit = EXIT_LOAD_PAT,
     .changes = {{PUT, VMCS_HOST_PAT, 3ull << 56}}, BAD},
    {"host IA32_PAT: type 8 in byte 3", .on.exit = EXIT_LOAD_PAT,
     .changes = {{PUT, VMCS_HOST_PAT, 8ull << 24}}, BAD},
    {"host IA32_PAT as it should be", .on.exit = EXIT_LOAD_PAT, DONE},
    {"host IA32_EFER: a reserved bit", .on.exit = EXIT_LOAD_EFER,
     .changes = {{SET, VMCS_HOST_EFER, 1u << 1}}, BAD},
    {"host IA32_EFER: bit 63", .on.exit = EXIT_LOAD_EFER,
     .changes = {{SET, VMCS_HOST_EFER, 1ull << 63}}, BAD},
    {"host IA32_EFER.LMA = 0 with a 64-bit host", .on.exit = EXIT_LOAD_EFER,
     .changes = {{CLEAR, VMCS_HOST_EFER, EFER_LMA}}, BAD},
    {"host IA32_EFER.LME = 0 with a 64-bit host", .on.exit = EXIT_LOAD_EFER,
     .changes = {{CLEAR, VMCS_HOST_EFER, EFER_LME}}, BAD},
    {"host IA32_EFER as it should be", .on.exit = EXIT_LOAD_EFER, DONE},
    {"host IA32_PERF_GLOBAL_CTRL: bit 63", .on.exit = EXIT_LOAD_PERF,
     .changes = {{PUT, VMCS_HOST_PERF_CTRL, 1ull << 63}}, BAD},
    {"host IA32_PERF_GLOBAL_CTRL as it should be", .on.exit = EXIT_LOAD_PERF, DONE},
    {"a 32-bit host in IA-32e mode", .changes = {{CLEAR, VMCS_EXIT_CONTROLS, EXIT_HOST_64}}, BAD},
};

void test_host_checks(void)
{
    test_fixed(VMCS_HOST_CR0, MSR_VMX_CR0_FIXED0, MSR_VMX_CR0_FIXED1, "CR0");
    test_fixed(VMCS_HOST_CR4, MSR_VMX_CR4_FIXED0, MSR_VMX_CR4_FIXED1, "CR4");
    RUN_ROWS(rows);
}
