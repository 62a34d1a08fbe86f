/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A local APIC in xAPIC mode (docs/guests.md).
 */
#ifndef VMM_KVM_APIC_H
#define VMM_KVM_APIC_H

#include <stdbool.h>
#include <stdint.h>

#define APIC_BASE 0xfee00000ull

struct apic {
    uint32_t regs[64]; /* by offset / 16 */
    uint64_t irr[4], isr[4];
    bool nmi_pending, init_pending, sipi_pending;
    uint8_t sipi_vector;
    uint64_t timer_deadline; /* in ticks of the clock the owner gives; 0: not armed */
    uint64_t timer_period;
};

/* As after power-up; id: the APIC ID. */
void apic_reset(struct apic *apic, uint8_t id);
/* A 32-bit register. now: the timer's clock. */
uint32_t apic_read(const struct apic *apic, uint32_t offset, uint64_t now);
void apic_write(struct apic *apic, uint32_t offset, uint32_t value, uint64_t now);
/*
 * A write of ICR sent an IPI: apic accepts it if it is for it. True: it was, and an IPI of lowest
 * priority has found its one processor.
 */
bool apic_receive(struct apic *apic, const struct apic *from);
/* Time passed: raises the timer's interrupt if it is due. */
void apic_tick(struct apic *apic, uint64_t now);
/* The performance-monitoring interrupt through LVTPC; its mask bit is set on delivery. */
void apic_pmi(struct apic *apic);
/* Whether a write of this register sends an IPI. */
bool apic_sends(uint32_t offset);
/* The highest-priority vector that may be delivered now, or -1. */
int apic_pending(const struct apic *apic);
/* That vector is being delivered. */
void apic_accept(struct apic *apic, int vector);
/* The clock changes its meaning: pending deadlines keep their distance from now. */
void apic_rebase(struct apic *apic, uint64_t old_now, uint64_t new_now);

#endif
