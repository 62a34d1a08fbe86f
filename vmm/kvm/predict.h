/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Page faults before they happen.
 */
#ifndef VMM_KVM_PREDICT_H
#define VMM_KVM_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvm_regs;
struct vcpu;

#define MAX_MEMOPS 4

/* What an instruction does to memory, so far as it can be told from its bytes. */
struct memops {
    unsigned count;
    bool rep;             /* nothing is accessed when RCX is 0 */
    uint8_t other_vector; /* what it may raise besides #UD, #GP and #PF */
    struct memop {
        int16_t base, index;    /* number of a general register, MEMOP_NONE or MEMOP_RIP */
        uint8_t scale, segment; /* segment: 0, or 'f' or 'g' */
        bool read, write, address32;
        uint32_t size_bytes;
        int64_t disp; /* of RIP-relative operands: to the instruction's own address */
    } op[MAX_MEMOPS];
};
#define MEMOP_NONE (-1)
#define MEMOP_RIP  (-2)

/* False: not an instruction. */
bool memops_decode(const uint8_t *code, size_t len, struct memops *ops);
/* By its number; MEMOP_RIP: RIP. */
uint64_t general_register(const struct kvm_regs *regs, int16_t number);
uint64_t effective_address(struct vcpu *cpu, const struct memop *op);
/* True: executing now would fault; *address and *error_code say how. */
bool predict_page_fault(struct vcpu *cpu, const struct memops *ops, uint64_t *address,
                        uint32_t *error_code);
/* Whether the instruction accesses any of len bytes at address. */
bool memops_touch(struct vcpu *cpu, const struct memops *ops, uint64_t address, uint64_t len);

#endif
