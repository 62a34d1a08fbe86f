/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules about what an access of an MSR does: which faults a guest takes, and what user space may
 * set.
 */
#include "guest.h"
#include "rules.h"

#include <inttypes.h>

/* ---- What a guest must not write ---- */

/* A WRMSR that must end this way. */
static struct outcome expect_write(struct guest *guest, uint32_t msr, uint64_t value, int want)
{
    const int end = guest_write(guest, msr, value);

    return outcome(end == want ? AS_SPECIFIED : NOT_SO, "%s", guest_end_name(end));
}

static struct outcome reserved_with_leaf(void)
{
    struct guest guest;
    struct outcome result;

    guest_open(&guest, true, NULL);
    result = expect_write(&guest, MSR_CTL, CTL_RESERVED, GP);
    guest_close(&guest);
    return result;
}

/* As the first processors with Intel PT have it: ToPA, and nothing that needs a second leaf. */
static void without_leaf_14_1(struct kvm_cpuid2 *table)
{
    struct kvm_cpuid_entry2 *entry = vm_cpuid_leaf(table, 0x14, 0);

    if (entry)
        *entry = (struct kvm_cpuid_entry2){
            .function = 0x14, .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX, .ebx = 1, .ecx = 1};
    vm_cpuid_remove(table, 0x14, 1);
}

static struct outcome reserved_without_leaf(void)
{
    struct guest guest;
    struct outcome result;

    guest_open(&guest, true, without_leaf_14_1);
    result = expect_write(&guest, MSR_CTL, CTL_RESERVED, GP);
    guest_close(&guest);
    return result;
}

static struct outcome end_of_trace(void)
{
    struct outcome result = {.verdict = NOT_SO, .did = "the guest cannot trace"};
    struct guest guest;

    guest_open(&guest, true, NULL);
    if (guest_trace(&guest, TRACED, FREE, 0xfff))
        result = expect_write(&guest, MSR_CTL, 0, DONE);
    guest_trace_end(&guest);
    guest_close(&guest);
    return result;
}

static struct outcome write_while_tracing(void)
{
    struct outcome result = {.verdict = NOT_SO, .did = "the guest cannot trace"};
    struct guest guest;

    guest_open(&guest, true, NULL);
    if (guest_trace(&guest, TRACED, FREE, 0xfff))
        result = expect_write(&guest, MSR_OUTPUT_BASE, FREE + 0x1000, GP);
    guest_trace_end(&guest);
    guest_close(&guest);
    return result;
}

static struct outcome cr3_match_low(void)
{
    struct guest guest;
    struct outcome result;

    guest_open(&guest, true, NULL);
    result = expect_write(&guest, MSR_CR3_MATCH, 1, GP);
    guest_close(&guest);
    return result;
}

/* ---- What a guest reads back ---- */

/* What is written, and what is read then. */
static struct outcome ignored_writes(void)
{
    static const struct {
        const char *name;
        uint32_t msr;
        uint64_t written, read;
    } cases[] = {
        {"IA32_RTIT_STATUS", MSR_STATUS, STATUS_ENABLES, 0},
        {"IA32_RTIT_STATUS", MSR_STATUS, STATUS_ENABLES | STATUS_ERROR, STATUS_ERROR},
        {"IA32_RTIT_OUTPUT_MASK_PTRS", MSR_OUTPUT_MASK, 0, 0x7f},
        {"IA32_RTIT_OUTPUT_MASK_PTRS", MSR_OUTPUT_MASK, 0x1000000f80, 0x1000000fff},
    };
    struct outcome result = {.did = "they are"};
    struct guest guest;
    uint64_t value = 0;

    guest_open(&guest, true, NULL);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool done = guest_write(&guest, cases[i].msr, cases[i].written) == DONE &&
                          guest_read(&guest, cases[i].msr, &value) == DONE;

        if ((!done || value != cases[i].read) && result.verdict == AS_SPECIFIED)
            result = done ? outcome(NOT_SO, "%s reads %#" PRIx64 ", not %#" PRIx64, cases[i].name,
                                    value, cases[i].read)
                          : outcome(NOT_SO, "an access of %s faults", cases[i].name);
    }
    guest_close(&guest);
    return result;
}

/* ---- What CPUID says ---- */

static uint32_t leaf_14_ebx;

static void remember_leaf(struct kvm_cpuid2 *table)
{
    const struct kvm_cpuid_entry2 *entry = vm_cpuid_leaf(table, 0x14, 0);

    leaf_14_ebx = entry ? entry->ebx : 0;
}

/* Bits of IA32_RTIT_CTL, and the bit of CPUID.14H.0:EBX that brings each. */
static struct outcome what_is_enumerated(void)
{
    static const struct {
        const char *name;
        unsigned bit;
        uint64_t ctl;
    } features[] = {{"EventEn", 7, CTL_EVENTEN},
                    {"DisTNT", 8, CTL_DISTNT},
                    {"InjectPsbPmiOnEnable", 6, CTL_INJECT}};
    struct outcome result = {.did = "what is enumerated can be set, and nothing else"};
    struct guest guest;

    guest_open(&guest, true, remember_leaf);
    for (unsigned i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        const bool enumerated = leaf_14_ebx >> features[i].bit & 1;
        const int end = guest_write(&guest, MSR_CTL, features[i].ctl);

        if (end != (enumerated ? DONE : GP) && result.verdict == AS_SPECIFIED)
            result = outcome(NOT_SO, "%s is %senumerated, and setting it gives %s",
                             features[i].name, enumerated ? "" : "not ", guest_end_name(end));
        guest_write(&guest, MSR_CTL, 0);
    }
    guest_close(&guest);
    return result;
}

static void without_pt(struct kvm_cpuid2 *table)
{
    struct kvm_cpuid_entry2 *entry = vm_cpuid_leaf(table, 7, 0);

    if (entry)
        entry->ebx &= ~(1u << 25);
    vm_cpuid_remove(table, 0x14, 0);
    vm_cpuid_remove(table, 0x14, 1);
}

static struct outcome hidden(void)
{
    struct outcome result = {.did = "#GP"};
    struct guest guest;
    uint64_t value;
    int end;

    guest_open(&guest, true, without_pt);
    end = guest_read(&guest, MSR_CTL, &value);
    if (end != GP)
        result = outcome(NOT_SO, "RDMSR of IA32_RTIT_CTL reads %#" PRIx64, value);
    end = guest_write(&guest, MSR_OUTPUT_BASE, FREE);
    if (end != GP && result.verdict == AS_SPECIFIED)
        result = outcome(NOT_SO, "WRMSR of IA32_RTIT_OUTPUT_BASE: %s", guest_end_name(end));
    guest_close(&guest);
    return result;
}

/* ---- What user space sets ---- */

static struct outcome restore(void)
{
    const struct kvm_msr_entry saved[] = {
        {.index = MSR_CTL, .data = TRACED},
        {.index = MSR_STATUS, .data = 0},
        {.index = MSR_OUTPUT_BASE, .data = FREE},
        {.index = MSR_OUTPUT_MASK, .data = 0x1000000fff},
        {.index = MSR_CR3_MATCH, .data = 0x1000},
        {.index = MSR_ADDR0_A, .data = 0x1000},
        {.index = MSR_ADDR0_A + 1, .data = 0x1fff},
    };
    const unsigned count = sizeof(saved) / sizeof(saved[0]);
    struct guest guest;
    int taken;

    guest_open(&guest, true, NULL);
    taken = vm_set_msrs(&guest.vm, saved, count);
    guest_trace_end(&guest);
    guest_close(&guest);
    return outcome(taken == (int)count ? AS_SPECIFIED : NOT_SO, "%d of %u MSRs are taken", taken,
                   count);
}

const struct rule access_rules[] = {
    {"K3", "A guest whose CPUID has no leaf 14H.1 cannot set reserved bits of IA32_RTIT_CTL.",
     "33.2.8.2", TEST(reserved_without_leaf)},
    {"K4", "One WRMSR may clear TraceEn and change other bits of IA32_RTIT_CTL.", "33.2.8.2",
     TEST(end_of_trace)},
    {"K5", "A guest can set the bits of IA32_RTIT_CTL that its CPUID enumerates.", "33.3.1",
     TEST(what_is_enumerated)},
    {"K6", "Bits 4:0 of IA32_RTIT_CR3_MATCH are reserved.", "33.2.8.6", TEST(cr3_match_low)},
    {"K10", "User space can set the MSRs of a saved guest in any order, IA32_RTIT_CTL first.",
     "KVM's interface", TEST(restore)},
    {"K11", "A guest whose CPUID has no Intel PT has none of its MSRs.", "33.2.8, 33.5.2.1",
     TEST(hidden)},
    {"K15",
     "Writes of FilterEn, ContextEn and TriggerEn of IA32_RTIT_STATUS, and of bits 6:0 of "
     "IA32_RTIT_OUTPUT_MASK_PTRS, are ignored.",
     "33.2.8.4, 33.2.8.8", TEST(ignored_writes)},
    {"G1", "A guest whose CPUID has leaf 14H.1 cannot set reserved bits of IA32_RTIT_CTL.",
     "33.2.8.2", TEST(reserved_with_leaf)},
    {"G2", "While a guest traces, a WRMSR of another MSR of the trace gives #GP.", "33.2.8.4",
     TEST(write_while_tracing)},
    {.name = NULL},
};
