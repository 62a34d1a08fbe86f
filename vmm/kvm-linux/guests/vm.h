/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plainest VM on <linux/kvm.h>: memory, processors with all that KVM supports, and its
 * interrupt controllers. Nothing stands between the guest and KVM's own Intel PT.
 *
 * What goes wrong that a test cannot be about ends the program with a line on stderr.
 */
#ifndef KVM_LINUX_VM_H
#define KVM_LINUX_VM_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

#define VM_MAX_CPUS 4

/* Where the VM's tables stand; the rest of the memory is the guest's. */
#define VM_TABLES_END 0x10000u
#define VM_INFO       0x8000u /* the PVH boot information */

/* Changes what the guest's CPUID says. */
typedef void vm_cpuid(struct kvm_cpuid2 *table);

struct vm {
    int kvm_fd, fd;
    unsigned cpu_count;
    int cpu_fd[VM_MAX_CPUS];
    struct kvm_run *run[VM_MAX_CPUS];
    uint8_t *ram;
    uint64_t ram_bytes;
};

_Noreturn void vm_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* cpuid: NULL, or what is asked before each processor gets its CPUID. apic: KVM's own controllers.
 */
void vm_open(struct vm *vm, uint64_t ram_bytes, unsigned cpus, bool apic, vm_cpuid *cpuid);
void vm_close(struct vm *vm);
/* The first processor begins at ip in 64-bit mode, with the first 4 GiB mapped one to one. */
void vm_start(struct vm *vm, uint64_t ip);
/* The entry of a leaf; NULL: there is none. */
struct kvm_cpuid_entry2 *vm_cpuid_leaf(struct kvm_cpuid2 *table, uint32_t leaf, uint32_t subleaf);
/* Takes a leaf out of the table. */
void vm_cpuid_remove(struct kvm_cpuid2 *table, uint32_t leaf, uint32_t subleaf);
/* One KVM_RUN; false: a signal came. */
bool vm_run(struct vm *vm, unsigned cpu);
/* The MSRs as user space sets and gets them. How many of them KVM took. */
int vm_set_msrs(struct vm *vm, const struct kvm_msr_entry *entries, unsigned count);
uint64_t vm_get_msr(struct vm *vm, uint32_t msr);

#endif
