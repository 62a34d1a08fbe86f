/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of VM entry on the guest-state area, without segments: each is a VM exit with reason 33
 * and bit 31 (volume 3, "Checks on the Guest State Area"; nested_vmx_check_guest_state() in Linux's
 * arch/x86/kvm/vmx/nested.c has a part of them).
 */
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "tests.h"
#include "vm.h"

#define FAILED       (REASON_ENTRY_FAILED | REASON_GUEST_STATE)
#define BAD          .reason = FAILED
#define NO_CANONICAL (1ull << 62) /* with 48 bits and with 57 */
#define CR0_PE       (1u << 0)
#define CR0_PG       (1u << 31)
#define CR4_PAE      (1u << 5)
#define CR4_PCIDE    (1u << 17)
#define EFER_LME     (1ull << 8)
#define EFER_LMA     (1ull << 10)
#define RFLAGS_TF    (1u << 8)
#define RFLAGS_IF    (1u << 9)
#define RFLAGS_VM    (1u << 17)
#define PENDING_BS   (1u << 14)
#define DEBUGCTL_BTF (1u << 1)

static void test_fixed(unsigned field, unsigned msr_0, unsigned msr_1, const char *name)
{
    const uint64_t ones = rdmsr(msr_0), maybe = rdmsr(msr_1);

    for (unsigned bit = 0; bit < 64; bit++) {
        const bool must = ones >> bit & 1;

        if (!must && maybe >> bit & 1)
            continue;
        vm_reset(&nop_code);
        put(field, must ? get(field) & ~(1ull << bit) : get(field) | 1ull << bit);
        report_value(vm_launch().reason, FAILED, "guest %s: bit %u must be %d here", name, bit,
                     must);
    }
}

static const struct vm_row registers[] = {
    {"guest CR0.PG without PE, unrestricted", .on.proc2 = PROC2_EPT | PROC2_UNRESTRICTED,
     .changes = {{CLEAR, VMCS_GUEST_CR0, CR0_PE}}, BAD},
    {"64-bit guest with CR0.PG = 0, unrestricted", .on.proc2 = PROC2_EPT | PROC2_UNRESTRICTED,
     .changes = {{CLEAR, VMCS_GUEST_CR0, CR0_PG}}, BAD},
    {"64-bit guest with CR4.PAE = 0", .changes = {{CLEAR, VMCS_GUEST_CR4, CR4_PAE}}, BAD},
    {"guest CR3 beyond physical addresses", .changes = {{BEYOND, VMCS_GUEST_CR3, 0}}, BAD},
    {"guest DR7: bit 32", .on.entry = ENTRY_LOAD_DEBUG,
     .changes = {{SET, VMCS_GUEST_DR7, 1ull << 32}}, BAD},
    {"guest DR7: bit 63", .on.entry = ENTRY_LOAD_DEBUG,
     .changes = {{SET, VMCS_GUEST_DR7, 1ull << 63}}, BAD},
    {"guest IA32_DEBUGCTL: bit 63", .on.entry = ENTRY_LOAD_DEBUG,
     .changes = {{PUT, VMCS_GUEST_DEBUGCTL, 1ull << 63}}, BAD},
    {"guest IA32_DEBUGCTL: bit 5", .on.entry = ENTRY_LOAD_DEBUG,
     .changes = {{PUT, VMCS_GUEST_DEBUGCTL, 1ull << 5}}, BAD},
    {"guest IA32_SYSENTER_ESP is not canonical",
     .changes = {{PUT, VMCS_GUEST_SYSENTER_ESP, NO_CANONICAL}}, BAD},
    {"guest IA32_SYSENTER_EIP is not canonical",
     .changes = {{PUT, VMCS_GUEST_SYSENTER_EIP, NO_CANONICAL}}, BAD},
    {"guest IA32_PAT: type 2 in byte 0", .on.entry = ENTRY_LOAD_PAT,
     .changes = {{PUT, VMCS_GUEST_PAT, 0x02}}, BAD},
    {"guest IA32_PAT: type 3 in byte 7", .on.entry = ENTRY_LOAD_PAT,
     .changes = {{PUT, VMCS_GUEST_PAT, 3ull << 56}}, BAD},
    {"guest IA32_PAT as it should be", .on.entry = ENTRY_LOAD_PAT, DONE},
    {"guest IA32_EFER: a reserved bit", .on.entry = ENTRY_LOAD_EFER,
     .changes = {{SET, VMCS_GUEST_EFER, 1u << 1}}, BAD},
    {"guest IA32_EFER.LMA = 0 in a 64-bit guest", .on.entry = ENTRY_LOAD_EFER,
     .changes = {{CLEAR, VMCS_GUEST_EFER, EFER_LMA}}, BAD},
    {"guest IA32_EFER.LME = 0 in a 64-bit guest", .on.entry = ENTRY_LOAD_EFER,
     .changes = {{CLEAR, VMCS_GUEST_EFER, EFER_LME}}, BAD},
    {"guest IA32_EFER as it should be", .on.entry = ENTRY_LOAD_EFER, DONE},
    {"guest IA32_PERF_GLOBAL_CTRL: bit 63", .on.entry = ENTRY_LOAD_PERF,
     .changes = {{PUT, VMCS_GUEST_PERF_CTRL, 1ull << 63}}, BAD},
    {"guest IA32_BNDCFGS: bit 2 is reserved", .on.entry = ENTRY_LOAD_BNDCFGS,
     .changes = {{PUT, VMCS_GUEST_BNDCFGS, 1u << 2}}, BAD},
    {"guest IA32_BNDCFGS is not canonical", .on.entry = ENTRY_LOAD_BNDCFGS,
     .changes = {{PUT, VMCS_GUEST_BNDCFGS, NO_CANONICAL}}, BAD},
    {"guest GDTR base is not canonical", .changes = {{PUT, VMCS_GUEST_GDTR_BASE, NO_CANONICAL}},
     BAD},
    {"guest IDTR base is not canonical", .changes = {{PUT, VMCS_GUEST_IDTR_BASE, NO_CANONICAL}},
     BAD},
    {"guest GDTR limit: bit 16", .changes = {{SET, VMCS_GUEST_GDTR_LIMIT, 1u << 16}}, BAD},
    {"guest IDTR limit: bit 31", .changes = {{SET, VMCS_GUEST_IDTR_LIMIT, 1u << 31}}, BAD},
    {"guest RIP is not canonical", .changes = {{PUT, VMCS_GUEST_RIP, NO_CANONICAL}}, BAD,
     .at = AT_ANY},
    {"guest RFLAGS: bit 1 is 0", .changes = {{CLEAR, VMCS_GUEST_RFLAGS, 1u << 1}}, BAD},
    {"guest RFLAGS: bit 3", .changes = {{SET, VMCS_GUEST_RFLAGS, 1u << 3}}, BAD},
    {"guest RFLAGS: bit 5", .changes = {{SET, VMCS_GUEST_RFLAGS, 1u << 5}}, BAD},
    {"guest RFLAGS: bit 15", .changes = {{SET, VMCS_GUEST_RFLAGS, 1u << 15}}, BAD},
    {"guest RFLAGS: bit 22", .changes = {{SET, VMCS_GUEST_RFLAGS, 1u << 22}}, BAD},
    {"guest RFLAGS: bit 63", .changes = {{SET, VMCS_GUEST_RFLAGS, 1ull << 63}}, BAD},
    {"guest RFLAGS.VM in a 64-bit guest", .changes = {{SET, VMCS_GUEST_RFLAGS, RFLAGS_VM}}, BAD},
    {"guest RFLAGS.IF = 0 with an injected interrupt",
     .changes = {{PUT, VMCS_ENTRY_EVENT, EVENT_VALID | EVENT_INTERRUPT | 32}}, BAD},
    {"32-bit guest with CR4.PCIDE", .off.entry = ENTRY_IA32E,
     .changes = {{SET, VMCS_GUEST_CR4, CR4_PCIDE}, {CLEAR, VMCS_GUEST_CS_RIGHTS, 1u << 13}}, BAD},
};

/* ---- Non-register state ------------------------------------------------------------------- */

#define DPL_3 0x60u
#define INJECTED(to)                                                                               \
    {                                                                                              \
        PUT, VMCS_ENTRY_EVENT, EVENT_VALID | (to)                                                  \
    }
#define INTERRUPTS                                                                                 \
    {                                                                                              \
        SET, VMCS_GUEST_RFLAGS, RFLAGS_IF                                                          \
    }

static const struct vm_row other[] = {
    {"activity state 4 is reserved", .changes = {{PUT, VMCS_ACTIVITY, 4}}, BAD},
    {"activity state: bit 31", .changes = {{PUT, VMCS_ACTIVITY, 1u << 31}}, BAD},
    {"HLT with blocking by STI", .need_misc = MISC_ACTIVITY_HLT,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_HLT},
                 {PUT, VMCS_INTERRUPTIBILITY, BLOCKING_STI},
                 INTERRUPTS},
     BAD},
    {"HLT with blocking by MOV SS", .need_misc = MISC_ACTIVITY_HLT,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_HLT}, {PUT, VMCS_INTERRUPTIBILITY, BLOCKING_MOV_SS}},
     BAD},
    {"HLT with an injected #GP", .need_misc = MISC_ACTIVITY_HLT,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_HLT},
                 INJECTED(EVENT_EXCEPTION | EVENT_ERROR_CODE | 13)},
     BAD},
    {"HLT with an injected software interrupt", .need_misc = MISC_ACTIVITY_HLT,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_HLT},
                 INJECTED(EVENT_SOFTWARE | 32),
                 {PUT, VMCS_ENTRY_LENGTH, 2}},
     BAD},
    {"shutdown with an injected interrupt", .need_misc = MISC_ACTIVITY_SHUTDOWN,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_SHUTDOWN},
                 INJECTED(EVENT_INTERRUPT | 32),
                 INTERRUPTS},
     BAD},
    {"shutdown with an injected #UD", .need_misc = MISC_ACTIVITY_SHUTDOWN,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_SHUTDOWN}, INJECTED(EVENT_EXCEPTION | 6)}, BAD},
    {"wait for SIPI with an injected NMI", .need_misc = MISC_ACTIVITY_SIPI,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_SIPI}, INJECTED(EVENT_NMI | 2)}, BAD},
    {"interruptibility: bit 5", .changes = {{PUT, VMCS_INTERRUPTIBILITY, 1u << 5}}, BAD},
    {"interruptibility: bit 31", .changes = {{PUT, VMCS_INTERRUPTIBILITY, 1u << 31}}, BAD},
    {"blocking by STI and by MOV SS",
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_STI | BLOCKING_MOV_SS}, INTERRUPTS}, BAD},
    {"blocking by STI with RFLAGS.IF = 0", .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_STI}},
     BAD},
    {"blocking by SMI outside of SMM", .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_SMI}},
     BAD},
    {"blocking by STI with an injected interrupt",
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_STI},
                 INTERRUPTS,
                 INJECTED(EVENT_INTERRUPT | 32)},
     BAD},
    {"blocking by MOV SS with an injected interrupt",
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_MOV_SS},
                 INTERRUPTS,
                 INJECTED(EVENT_INTERRUPT | 32)},
     BAD},
    {"blocking by MOV SS with an injected NMI",
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_MOV_SS}, INJECTED(EVENT_NMI | 2)}, BAD},
    {"blocking by NMI with an injected NMI, virtual NMIs", .on.pin = PIN_NMI | PIN_VIRTUAL_NMIS,
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_NMI}, INJECTED(EVENT_NMI | 2)}, BAD},
    {"blocking by NMI as it should be", .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_NMI}},
     DONE},
    {"pending debug exceptions: bit 4", .changes = {{PUT, VMCS_PENDING_DEBUG, 1u << 4}}, BAD},
    {"pending debug exceptions: bit 11", .changes = {{PUT, VMCS_PENDING_DEBUG, 1u << 11}}, BAD},
    {"pending debug exceptions: bit 13", .changes = {{PUT, VMCS_PENDING_DEBUG, 1u << 13}}, BAD},
    {"pending debug exceptions: bit 63", .changes = {{PUT, VMCS_PENDING_DEBUG, 1ull << 63}}, BAD},
    {"blocking by MOV SS with TF: BS is not pending",
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_MOV_SS},
                 {SET, VMCS_GUEST_RFLAGS, RFLAGS_TF}},
     BAD},
    {"blocking by MOV SS without TF: BS is pending",
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_MOV_SS},
                 {PUT, VMCS_PENDING_DEBUG, PENDING_BS}},
     BAD},
    {"blocking by STI with TF: BS is not pending",
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_STI},
                 {SET, VMCS_GUEST_RFLAGS, RFLAGS_TF | RFLAGS_IF}},
     BAD},
    {"HLT with TF: BS is not pending", .need_misc = MISC_ACTIVITY_HLT,
     .changes = {{PUT, VMCS_ACTIVITY, ACTIVITY_HLT}, {SET, VMCS_GUEST_RFLAGS, RFLAGS_TF}}, BAD},
    {"blocking by MOV SS with TF and BTF: BS is pending", .on.entry = ENTRY_LOAD_DEBUG,
     .changes = {{PUT, VMCS_INTERRUPTIBILITY, BLOCKING_MOV_SS},
                 {SET, VMCS_GUEST_RFLAGS, RFLAGS_TF},
                 {PUT, VMCS_GUEST_DEBUGCTL, DEBUGCTL_BTF},
                 {PUT, VMCS_PENDING_DEBUG, PENDING_BS}},
     BAD},
};

/* An activity state that IA32_VMX_MISC does not have is as bad as one that nobody has. */
static const struct {
    const char *name;
    uint64_t bit;
    unsigned state;
} activities[] = {
    {"HLT", MISC_ACTIVITY_HLT, ACTIVITY_HLT},
    {"shutdown", MISC_ACTIVITY_SHUTDOWN, ACTIVITY_SHUTDOWN},
    {"wait for SIPI", MISC_ACTIVITY_SIPI, ACTIVITY_SIPI},
};

static void test_activities(void)
{
    for (size_t i = 0; i < sizeof(activities) / sizeof(activities[0]); i++) {
        if (vmx_misc() & activities[i].bit) {
            report_skip("it exists", "activity state %s where there is none", activities[i].name);
            continue;
        }
        vm_reset(&nop_code);
        put(VMCS_ACTIVITY, activities[i].state);
        report_value(vm_launch().reason, FAILED, "activity state %s, which is not enumerated",
                     activities[i].name);
    }
}

/* ---- VMCS link pointer -------------------------------------------------------------------- */

#define QUALIFY_LINK 4u

static void test_link(uint64_t pointer, const char *name)
{
    struct outcome outcome;

    vm_reset(&nop_code);
    put(VMCS_LINK_POINTER, pointer);
    outcome = vm_launch();
    report(outcome.reason == FAILED && outcome.qualification == QUALIFY_LINK,
           "VMCS link pointer %s: qualification 4", name);
}

static void test_links(void)
{
    test_link(vm_pages.other_vmcs + 0x800, "that is not aligned");
    test_link(vm_pages.other_vmcs | 1ull << physical_bits(), "beyond physical addresses");
    test_link(vm_pages.virtual_apic, "to a region with another revision");
    vm_reset(&nop_code);
    put(VMCS_LINK_POINTER, vm_pages.other_vmcs);
    report_value(vm_launch().reason, REASON_VMCALL, "VMCS link pointer to a VMCS");
}

void test_guest_checks(void)
{
    test_fixed(VMCS_GUEST_CR0, MSR_VMX_CR0_FIXED0, MSR_VMX_CR0_FIXED1, "CR0");
    test_fixed(VMCS_GUEST_CR4, MSR_VMX_CR4_FIXED0, MSR_VMX_CR4_FIXED1, "CR4");
    RUN_ROWS(registers);
    RUN_ROWS(other);
    test_activities();
    test_links();
}
