/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vpt port.
 */
#ifndef VMM_KVM_NOTES_H
#define VMM_KVM_NOTES_H

#include <stdint.h>

struct vcpu;

#define NOTE_MAGIC 0x30545056u
void note_received(struct vcpu *cpu, uint32_t gpa);

#endif
