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

#endif
