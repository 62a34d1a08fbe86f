/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guest memory, present or absent.
 */
#ifndef VMM_KVM_MEMORY_H
#define VMM_KVM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE_BYTES 4096ull

struct vmm;
struct vcpu;

/* Guest-physical memory of len bytes at gpa, present or not; NULL if it is not all RAM. */
void *vmm_ram(const struct vmm *vmm, uint64_t gpa, uint64_t len);
int memory_create(struct vmm *vmm);
void memory_destroy(struct vmm *vmm);
/* Whether trace output to gpa meets an EPT violation. */
bool memory_is_absent(const struct vmm *vmm, uint64_t gpa);
/* The absent page at gpa becomes present for a processor's output. */
void memory_populate_page(struct vcpu *cpu, uint64_t gpa);
/* An access of a vCPU to memory that KVM does not have; false: it is none of ours. */
bool memory_access(struct vmm *vmm, uint64_t gpa, uint8_t *data, uint32_t len, bool write);

#endif
