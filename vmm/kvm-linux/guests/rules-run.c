/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules about a guest that traces while it runs: what is written, where, and what comes of it.
 */
#include "guest.h"
#include "host.h"
#include "layout.h"
#include "rules.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TABLE  (FREE + 0x10000) /* of ToPA */
#define REGION (FREE + 0x20000)
#define NEXT   (FREE + 0x30000)
#define VMXON  (FREE + 0x40000)
#define HOLE   0x8000000u /* no memory of the guest's */

/* Bits of ToPA entries. */
#define TOPA_END 1u
#define TOPA_INT 4u

#define CR4_VMXE          (1u << 13)
#define FEATURES_WITH_VMX 5u
#define BRANCHES          1000u
#define PATTERN           0xa5
#define MAX_ROOM          128u /* more bytes than two VM entries and exits have */

static const struct outcome cannot_trace = {.verdict = NOT_SO, .did = "the guest cannot trace"};

/* ---- Output ---- */

static struct outcome trace_arrives(void)
{
    static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                    2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
    struct outcome result = cannot_trace;
    struct guest guest;
    uint64_t end;

    guest_open(&guest, true, NULL);
    if (guest_trace(&guest, TRACED, REGION, 0xffff) && guest_branch(&guest, BRANCHES) == DONE) {
        guest_trace_end(&guest);
        end = vm_get_msr(&guest.vm, MSR_OUTPUT_MASK) >> 32;
        result = outcome(end > BRANCHES && memmem(guest.vm.ram + REGION, end, psb, sizeof(psb))
                             ? AS_SPECIFIED
                             : NOT_SO,
                         "%s", end > BRANCHES ? "it does" : "there is none, or too little");
    }
    guest_close(&guest);
    return result;
}

/* A table with a region of 4 KiB that asks for an interrupt, another region, and its end. */
static void put_table(struct guest *guest)
{
    const uint64_t table[] = {REGION | TOPA_INT, NEXT, TABLE | TOPA_END};

    memcpy(guest->vm.ram + TABLE, table, sizeof(table));
}

static struct outcome fill_region(void)
{
    struct outcome result = cannot_trace;
    struct guest guest;

    guest_open(&guest, true, NULL);
    put_table(&guest);
    if (guest_trace(&guest, TRACED | CTL_TOPA, TABLE, 0x7f)) {
        guest_branch(&guest, 3 * BRANCHES);
        guest_call(&guest, guest_one_exit, 0, 0);
        guest_trace_end(&guest);
        result = outcome(guest_pmis(&guest) ? AS_SPECIFIED : NOT_SO, "%s",
                         guest_pmis(&guest) ? "it does" : "it is lost");
    }
    guest_close(&guest);
    return result;
}

static struct outcome pmi_beside_event(void)
{
    const int fd = host_event();
    struct outcome result;

    if (fd < 0)
        return outcome(NOT_TRIED, "the host has no events of its own: %s", strerror(errno));
    result = fill_region();
    close(fd);
    return result;
}

/* The region's last room bytes are left when tracing begins: does the guest learn that it is full?
 */
static bool pmi_lost(struct guest *guest, unsigned room)
{
    const uint32_t before = guest_pmis(guest);
    const uint64_t offset = 4096 - room;

    if (!guest_trace(guest, TRACED | CTL_TOPA, TABLE, offset << 32 | 0x7f))
        return false;
    guest_call(guest, guest_one_exit, 0, 0);
    guest_call(guest, guest_one_exit, 0, 0);
    guest_trace_end(guest);
    guest_call(guest, guest_one_exit, 0, 0);
    return (vm_get_msr(&guest->vm, MSR_OUTPUT_MASK) >> 7 & 0x1ffffff) != 0 &&
           guest_pmis(guest) == before;
}

static struct outcome pmi_of_any_packet(void)
{
    const int fd = host_event();
    unsigned lost = 0;
    struct guest guest;

    if (fd < 0)
        return outcome(NOT_TRIED, "the host has no events of its own: %s", strerror(errno));
    guest_open(&guest, true, NULL);
    put_table(&guest);
    for (unsigned room = 1; room <= MAX_ROOM; room++) {
        lost += pmi_lost(&guest, room);
    }
    guest_close(&guest);
    close(fd);
    if (!lost)
        return outcome(AS_SPECIFIED, "no interrupt is lost");
    return outcome(NOT_SO, "%s interrupts are lost", lost == MAX_ROOM ? "all" : "some");
}

static struct outcome output_to_nowhere(void)
{
    struct outcome result = cannot_trace;
    struct guest guest;
    int end;

    guest_open(&guest, true, NULL);
    if (guest_trace(&guest, TRACED, HOLE, 0xfff)) {
        end = guest_call(&guest, guest_popcnts, BRANCHES, 0);
        result = outcome(end == DONE ? AS_SPECIFIED : NOT_SO, "%s",
                         end == DONE ? "the guest goes on" : guest_end_name(end));
    }
    guest_close(&guest);
    return result;
}

/* ---- System management mode ---- */

/* In SMM a guest has an address space of its own (KVM_CAP_MULTI_ADDRESS_SPACE): the same memory
 * here. */
#define SMM_SLOT (1u << 16)

static void put_smm(struct guest *guest)
{
    const struct kvm_userspace_memory_region memory = {.slot = SMM_SLOT,
                                                       .memory_size = guest->vm.ram_bytes,
                                                       .userspace_addr = (uintptr_t)guest->vm.ram};

    memcpy(guest->vm.ram + SMM_ENTRY, guest_smm, (uintptr_t)guest_smm_end - (uintptr_t)guest_smm);
    if (ioctl(guest->vm.fd, KVM_SET_USER_MEMORY_REGION, &memory) < 0)
        vm_die("KVM_SET_USER_MEMORY_REGION: %s", strerror(errno));
}

/* An SMI comes while the guest traces; its handler reads IA32_RTIT_CTL. */
static struct outcome interrupt_by_smi(struct guest *guest)
{
    struct kvm_regs regs;
    int end;

    if (ioctl(guest->vm.cpu_fd[0], KVM_SMI, 0) < 0)
        return outcome(NOT_TRIED, "KVM has no SMIs: %s", strerror(errno));
    end = guest_branch(guest, BRANCHES);
    if (ioctl(guest->vm.cpu_fd[0], KVM_GET_REGS, &regs) < 0)
        vm_die("KVM_GET_REGS: %s", strerror(errno));
    if (end != DONE || regs.rcx != MSR_CTL)
        return outcome(NOT_TRIED, "SMM is not entered: %s", guest_end_name(end));
    return regs.rax & CTL_TRACEEN ? outcome(NOT_SO, "it goes on, and SMM is traced")
                                  : outcome(AS_SPECIFIED, "it does");
}

static struct outcome smi_ends_trace(void)
{
    struct outcome result = cannot_trace;
    struct guest guest;

    guest_open(&guest, true, NULL);
    put_smm(&guest);
    if (guest_trace(&guest, TRACED, REGION, 0xffff))
        result = interrupt_by_smi(&guest);
    guest_close(&guest);
    return result;
}

/* ---- CPUID that user space made up ---- */

/* Whether the guest traces without an access of the host's that faults. */
static struct outcome host_accesses(struct guest *guest)
{
    const char *warning;

    kernel_forgets();
    if (guest_trace(guest, TRACED, REGION, 0xfff))
        guest_branch(guest, BRANCHES);
    warning = kernel_warned();
    guest_trace_end(guest);
    return warning ? outcome(NOT_SO, "the host's own access faults: %s", warning)
                   : outcome(AS_SPECIFIED, "the host's accesses do not fault");
}

static bool fewer_ranges; /* than CPUID can name */

static void more_ranges(struct kvm_cpuid2 *table)
{
    struct kvm_cpuid_entry2 *entry = vm_cpuid_leaf(table, 0x14, 1);

    fewer_ranges = entry && (entry->eax & 7) < 4;
    if (entry)
        entry->eax = (entry->eax & ~7u) | 4;
}

static struct outcome ranges(void)
{
    struct outcome result;
    struct guest guest;

    guest_open(&guest, true, more_ranges);
    result = fewer_ranges ? host_accesses(&guest)
                          : outcome(NOT_TRIED, "the processor has four ranges itself");
    guest_close(&guest);
    return result;
}

static bool lacks_msrs; /* those that depend on CPUID.14H.0, in the host */

static void look_for_msrs(struct kvm_cpuid2 *table)
{
    const struct kvm_cpuid_entry2 *entry = vm_cpuid_leaf(table, 0x14, 0);

    lacks_msrs = entry && (!(entry->ebx & 1) || !(entry->ecx & 5));
}

static struct outcome what_is_there(void)
{
    struct outcome result;
    struct guest guest;

    guest_open(&guest, true, look_for_msrs);
    result = lacks_msrs ? host_accesses(&guest) : outcome(NOT_TRIED, "the processor has them all");
    guest_close(&guest);
    return result;
}

/* ---- VMX in the guest ---- */

static void allow_vmx(struct guest *guest)
{
    const struct kvm_msr_entry control = {.index = MSR_FEATURE_CONTROL, .data = FEATURES_WITH_VMX};
    const uint64_t basic = vm_get_msr(&guest->vm, MSR_VMX_BASIC);
    const uint32_t revision = basic & 0x7fffffff;
    struct kvm_sregs sregs;

    if (vm_set_msrs(&guest->vm, &control, 1) != 1 ||
        ioctl(guest->vm.cpu_fd[0], KVM_GET_SREGS, &sregs) < 0)
        vm_die("the guest cannot have VMX");
    sregs.cr4 |= CR4_VMXE;
    if (ioctl(guest->vm.cpu_fd[0], KVM_SET_SREGS, &sregs) < 0)
        vm_die("the guest cannot have CR4.VMXE");
    memcpy(guest->vm.ram + VMXON, &revision, sizeof(revision));
    memcpy(guest->vm.ram + VMXON + 8, &(uint64_t){VMXON}, 8);
}

/* Output that nobody asked for goes where the host's own registers point, taken for the guest's. */
static struct outcome vmxon_ends_trace(void)
{
    struct outcome result = cannot_trace;
    unsigned foreign = 0;
    struct guest guest;
    int end;

    guest_open(&guest, true, NULL);
    allow_vmx(&guest);
    memset(guest.vm.ram, PATTERN, 4096);
    if (guest_trace(&guest, TRACED, REGION, 0xffff)) {
        end = guest_call(&guest, guest_vmxon, BRANCHES, VMXON + 8);
        for (unsigned i = 0; i < 4096; i++)
            foreign += guest.vm.ram[i] != PATTERN;
        result = outcome(end == DONE && !foreign ? AS_SPECIFIED : NOT_SO, "%s",
                         end != DONE ? guest_end_name(end)
                         : foreign   ? "it goes on, into memory that the guest did not name"
                                     : "it does");
    }
    guest_close(&guest);
    return result;
}

const struct rule run_rules[] = {
    {"G3", "Output of a guest arrives in its memory, through EPT.", "33.5.2.2",
     TEST(trace_arrives)},
    {"G4", "The interrupt of a full region arrives at the guest.", "33.2.7.2",
     TEST(pmi_beside_event)},
    {"K8",
     "The interrupt of a full region arrives whichever packet filled it, those of VM exits as "
     "well.",
     "33.2.7.2", TEST(pmi_of_any_packet)},
    {"K9", "Output to where the guest has no memory has no effect on the instruction at RIP.",
     "33.5.2.5", TEST(output_to_nowhere)},
    {"K2", "CPUID from user space does not make the host access an MSR that is not there.",
     "KVM's interface", TEST(ranges)},
    {"K12", "The host accesses IA32_RTIT_CR3_MATCH and the MSRs of output if they are there.",
     "33.3.1", TEST(what_is_there)},
    {"K7", "VMXON in the guest ends its trace, as its IA32_VMX_MISC[14] is 0.", "33.5",
     TEST(vmxon_ends_trace)},
    {"K16", "An SMI ends the guest's trace: IA32_RTIT_CTL.TraceEn is 0 in SMM.", "33.2.9.3",
     TEST(smi_ends_trace)},
    {"K14",
     "The interrupt of a full region arrives on a host without performance events of its own.",
     "33.2.7.2", TEST(fill_region)},
    {.name = NULL},
};
