/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers of control that single-stepping cannot follow.
 */
#ifndef VMM_KVM_TRANSFER_H
#define VMM_KVM_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

/*
 * Delivers an interrupt or exception through the IDT: pushes the frame and enters the handler, as
 * the processor would (64-bit mode). error_code < 0: none is pushed. 0 or -errno.
 */
int deliver(struct vcpu *cpu, unsigned vector, int64_t error_code, bool software);
/* The handler of a vector; false: there is no usable gate. */
bool idt_handler(struct vcpu *cpu, unsigned vector, uint64_t *handler);
int do_iret(struct vcpu *cpu);
/* False: it raises #GP. Some processors do not step between STI and the instruction after it. */
bool do_sti(struct vcpu *cpu, uint64_t next_ip);
/* Goes on behind an instruction that does nothing else to registers. */
void do_nop(struct vcpu *cpu, uint64_t next_ip);
void do_syscall(struct vcpu *cpu, uint64_t next_ip);
void do_sysret(struct vcpu *cpu);

#endif
