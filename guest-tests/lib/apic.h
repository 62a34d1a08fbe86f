/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local APIC in xAPIC mode: timer, performance-monitoring entry, end of interrupt.
 */
#ifndef GUEST_APIC_H
#define GUEST_APIC_H

#include <stdbool.h>
#include <stdint.h>

#define APIC_PHYS 0xfee00000ull

/* Switches the APIC on, with every local interrupt masked, and shuts up a PC's 8259s. */
void apic_init(void);
void apic_eoi(void);

/* Interrupts with VECTOR_TIMER every `ticks` of the timer, from now on. */
void apic_timer_start(uint32_t ticks);
/* One such interrupt. */
void apic_timer_once(uint32_t ticks);
void apic_timer_stop(void);

enum pmi_mode { PMI_MASKED, PMI_VECTOR, PMI_NMI };
/* How the PMI arrives. Also unmasks it after one was taken: the APIC masks LVTPC by itself then. */
void apic_set_pmi(enum pmi_mode mode);
bool apic_pmi_masked(void);
/* Whether an interrupt with this vector waits (IRR). */
bool apic_pending(unsigned vector);

/* Interrupts between processors: bits of ICR's low half, beside a vector. */
#define ICR_FIXED  (0u << 8)
#define ICR_NMI    (4u << 8)
#define ICR_INIT   (5u << 8)
#define ICR_SIPI   (6u << 8) /* the vector is the number of a page below 1 MiB */
#define ICR_BUSY   (1u << 12)
#define ICR_ASSERT (1u << 14)
#define ICR_SELF   (1u << 18) /* in place of an address: fixed interrupts only */
#define ICR_OTHERS (3u << 18)
/* Sends one; to is an APIC ID. */
void apic_send(unsigned to, uint32_t icr);
unsigned apic_id(void);
/* Addresses it, and says where the low half is, whose write sends: for who does that amid a VM. */
volatile uint32_t *apic_icr(unsigned to);

#endif
