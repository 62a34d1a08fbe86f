/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest that does one thing at a time: an MSR access, a few branches, VMXON. See code.S.
 */
#ifndef KVM_LINUX_GUEST_H
#define KVM_LINUX_GUEST_H

#include "vm.h"

#include <stdbool.h>
#include <stdint.h>

#define MSR_FEATURE_CONTROL 0x3au
#define MSR_VMX_BASIC       0x480u
#define MSR_OUTPUT_BASE     0x560u
#define MSR_OUTPUT_MASK     0x561u
#define MSR_CTL             0x570u
#define MSR_STATUS          0x571u
#define MSR_CR3_MATCH       0x572u
#define MSR_ADDR0_A         0x580u

#define CTL_TRACEEN    (1ull << 0)
#define CTL_OS         (1ull << 2)
#define CTL_TOPA       (1ull << 8)
#define CTL_BRANCHEN   (1ull << 13)
#define CTL_EVENTEN    (1ull << 31)
#define CTL_DISTNT     (1ull << 55)
#define CTL_INJECT     (1ull << 56)
#define CTL_RESERVED   (1ull << 62)
#define TRACED         (CTL_TRACEEN | CTL_OS | CTL_BRANCHEN)
#define STATUS_ENABLES 7ull /* FilterEn, ContextEn, TriggerEn */
#define STATUS_ERROR   (1ull << 4)
#define STATUS_STOPPED (1ull << 5)

#define GUEST_BYTES (16u << 20)
/* Free for output, tables and whatever a case needs. */
#define FREE 0x100000u

/* How a piece of guest code ended: 0 to 31 are exceptions. */
enum {
    DONE = -1,
    FAILED = -2,   /* a VMX instruction */
    NO_ENTRY = -3, /* VM entry failed */
    NO_EMULATION = -4,
    HUNG = -5,
    OTHER = -6,
    GP = 13,
};

struct guest {
    struct vm vm;
    uint64_t entry_reason; /* of NO_ENTRY */
};

/* Pieces of code.S. */
extern const uint8_t guest_rdmsr[], guest_wrmsr[], guest_branches[], guest_vmxon[],
    guest_one_exit[], guest_popcnts[], guest_pmi[], guest_vectors[], guest_code[], guest_code_end[];
/* What runs in SMM, of 16 bits: RDMSR of IA32_RTIT_CTL. */
extern const uint8_t guest_smm[], guest_smm_end[];
/* One that goes where a number leads it, and places in it. */
extern const uint8_t guest_walk[], guest_walk_over[], guest_walk_one[], guest_walk_other[],
    guest_walk_called[];

/* apic: KVM's own interrupt controllers, with the PMI let through. */
void guest_open(struct guest *guest, bool apic, vm_cpuid *cpuid);
void guest_close(struct guest *guest);
/* Runs a piece with these registers; the rest are the VMM's. */
uint64_t guest_address(const uint8_t *piece);
int guest_call(struct guest *guest, const uint8_t *piece, uint64_t rbx, uint64_t rdi);
int guest_write(struct guest *guest, uint32_t msr, uint64_t value);
int guest_read(struct guest *guest, uint32_t msr, uint64_t *value);
/* So many indirect branches. */
int guest_branch(struct guest *guest, uint64_t count);
/* Tracing with these bits begins, with one region of output. False: KVM did not take it. */
bool guest_trace(struct guest *guest, uint64_t ctl, uint64_t base, uint64_t mask);
/* Ends it in a way that every KVM takes. */
void guest_trace_end(struct guest *guest);
uint32_t guest_pmis(const struct guest *guest);
/* In words. */
const char *guest_end_name(int end);

#endif
