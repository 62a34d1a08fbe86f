/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local APIC in xAPIC mode: see apic.h.
 */
#include "apic.h"
#include "cpu.h"
#include "memory.h"
#include "trap.h"

enum apic_register {
    APIC_ID = 0x020,
    APIC_TPR = 0x080,
    APIC_EOI = 0x0b0,
    APIC_SVR = 0x0f0,
    APIC_IRR = 0x200,
    APIC_ICR = 0x300,
    APIC_ICR_HIGH = 0x310,
    APIC_LVT_TIMER = 0x320,
    APIC_LVT_PC = 0x340,
    APIC_LVT_LINT0 = 0x350,
    APIC_LVT_LINT1 = 0x360,
    APIC_LVT_ERROR = 0x370,
    APIC_TIMER_INITIAL = 0x380,
    APIC_TIMER_DIVIDE = 0x3e0,
};

#define SVR_ENABLE     (1u << 8)
#define LVT_NMI        (4u << 8)
#define LVT_MASKED     (1u << 16)
#define LVT_PERIODIC   (1u << 17)
#define DIVIDE_BY_1    0xbu
#define PIC_MASTER     0x21
#define PIC_SLAVE      0xa1
#define PIC_ALL_MASKED 0xff

static volatile uint32_t *apic_register(unsigned offset)
{
    return phys_to_virt(APIC_PHYS + offset);
}

static void apic_write(unsigned offset, uint32_t value)
{
    *apic_register(offset) = value;
}

static uint32_t apic_read(unsigned offset)
{
    return *apic_register(offset);
}

void apic_init(void)
{
    outb(PIC_MASTER, PIC_ALL_MASKED);
    outb(PIC_SLAVE, PIC_ALL_MASKED);
    apic_write(APIC_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
    apic_write(APIC_TPR, 0);
    apic_write(APIC_LVT_TIMER, LVT_MASKED);
    apic_write(APIC_LVT_PC, LVT_MASKED);
    apic_write(APIC_LVT_LINT0, LVT_MASKED);
    apic_write(APIC_LVT_LINT1, LVT_MASKED);
    apic_write(APIC_LVT_ERROR, LVT_MASKED);
}

void apic_eoi(void)
{
    apic_write(APIC_EOI, 0);
}

static void start_timer(uint32_t mode, uint32_t ticks)
{
    apic_write(APIC_TIMER_DIVIDE, DIVIDE_BY_1);
    apic_write(APIC_LVT_TIMER, mode | VECTOR_TIMER);
    apic_write(APIC_TIMER_INITIAL, ticks);
}

void apic_timer_start(uint32_t ticks)
{
    start_timer(LVT_PERIODIC, ticks);
}

void apic_timer_once(uint32_t ticks)
{
    start_timer(0, ticks);
}

void apic_timer_stop(void)
{
    apic_write(APIC_LVT_TIMER, LVT_MASKED);
    apic_write(APIC_TIMER_INITIAL, 0);
}

void apic_set_pmi(enum pmi_mode mode)
{
    switch (mode) {
    case PMI_MASKED:
        apic_write(APIC_LVT_PC, LVT_MASKED);
        break;
    case PMI_VECTOR:
        apic_write(APIC_LVT_PC, VECTOR_PMI);
        break;
    case PMI_NMI:
        apic_write(APIC_LVT_PC, LVT_NMI);
        break;
    }
}

bool apic_pmi_masked(void)
{
    return apic_read(APIC_LVT_PC) & LVT_MASKED;
}

bool apic_pending(unsigned vector)
{
    return apic_read(APIC_IRR + vector / 32 * 0x10) >> vector % 32 & 1;
}

volatile uint32_t *apic_icr(unsigned to)
{
    apic_write(APIC_ICR_HIGH, to << 24);
    return apic_register(APIC_ICR);
}

void apic_send(unsigned to, uint32_t icr)
{
    *apic_icr(to) = icr;
}

unsigned apic_id(void)
{
    return apic_read(APIC_ID) >> 24;
}
