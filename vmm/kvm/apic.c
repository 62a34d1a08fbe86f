/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A local APIC in xAPIC mode, as much of it as processors without devices need: the timer, the
 * performance-monitoring entry, IPIs and the interrupt priorities (SDM vol. 3, chapter 11).
 */
#include "kvm/apic.h"

#include <string.h>

#define REG(offset) ((offset) / 16)

#define ID          0x20
#define VERSION     0x30
#define TPR         0x80
#define EOI         0xb0
#define LDR         0xd0
#define DFR         0xe0
#define SVR         0xf0
#define ISR         0x100
#define TMR         0x180
#define IRR         0x200
#define ESR         0x280
#define ICR         0x300
#define ICR_HIGH    0x310
#define LVT_TIMER   0x320
#define LVT_THERMAL 0x330
#define LVT_PC      0x340
#define LVT_LINT0   0x350
#define LVT_LINT1   0x360
#define LVT_ERROR   0x370
#define TIMER_INIT  0x380
#define TIMER_NOW   0x390
#define TIMER_DIV   0x3e0

#define LVT_MASKED     (1u << 16)
#define LVT_PERIODIC   (1u << 17)
#define SVR_ENABLED    (1u << 8)
#define MODE(lvt)      ((lvt) >> 8 & 7)
#define MODE_FIXED     0u
#define MODE_LOWEST    1u
#define MODE_NMI       4u
#define MODE_INIT      5u
#define MODE_SIPI      6u
#define ICR_LOGICAL    (1u << 11)
#define ICR_ASSERT     (1u << 14)
#define SHORTHAND(icr) ((icr) >> 18 & 3)
#define ID_BROADCAST   0xffu
#define DFR_FLAT       0xfu
#define VERSION_VALUE  0x50014u /* integrated APIC, six LVT entries */

enum shorthand { SHORT_NONE, SHORT_SELF, SHORT_ALL, SHORT_OTHERS };

/* What a reset and a software-disabled APIC do to the local vector table (11.4.7.2). */
static void mask_lvts(struct apic *apic)
{
    static const uint16_t lvts[] = {LVT_TIMER, LVT_THERMAL, LVT_PC,
                                    LVT_LINT0, LVT_LINT1,   LVT_ERROR};

    for (size_t i = 0; i < sizeof(lvts) / sizeof(lvts[0]); i++)
        apic->regs[REG(lvts[i])] |= LVT_MASKED;
}

void apic_reset(struct apic *apic, uint8_t id)
{
    memset(apic, 0, sizeof(*apic));
    mask_lvts(apic);
    apic->regs[REG(ID)] = (uint32_t)id << 24;
    apic->regs[REG(VERSION)] = VERSION_VALUE;
    apic->regs[REG(DFR)] = UINT32_MAX;
    apic->regs[REG(SVR)] = 0xff;
}

static bool enabled(const struct apic *apic)
{
    return (apic->regs[REG(SVR)] & SVR_ENABLED) != 0;
}

static void raise_vector(struct apic *apic, unsigned vector)
{
    if (enabled(apic) && vector >= 16)
        apic->irr[vector / 64] |= 1ull << vector % 64;
}

/* The highest bit of 256, or -1. */
static int highest(const uint64_t bits[4])
{
    for (int i = 3; i >= 0; i--) {
        if (bits[i])
            return 64 * i + 63 - __builtin_clzll(bits[i]);
    }
    return -1;
}

int apic_pending(const struct apic *apic)
{
    const int vector = highest(apic->irr);
    const int in_service = highest(apic->isr);
    const int task = (int)(apic->regs[REG(TPR)] >> 4 & 0xf);

    if (vector < 0 || vector >> 4 <= task)
        return -1;
    if (in_service >= 0 && vector >> 4 <= in_service >> 4)
        return -1;
    return vector;
}

void apic_accept(struct apic *apic, int vector)
{
    apic->irr[vector / 64] &= ~(1ull << vector % 64);
    apic->isr[vector / 64] |= 1ull << vector % 64;
}

/* ---- Timer ---- */

static unsigned divisor(const struct apic *apic)
{
    const uint32_t field = apic->regs[REG(TIMER_DIV)];
    const unsigned code = (field & 3) | (field >> 1 & 4);

    return code == 7 ? 1 : 2u << code;
}

static void timer_start(struct apic *apic, uint64_t now)
{
    const uint64_t count = apic->regs[REG(TIMER_INIT)];
    const uint64_t ticks = count * divisor(apic);

    apic->timer_deadline = ticks ? now + ticks : 0;
    apic->timer_period = apic->regs[REG(LVT_TIMER)] & LVT_PERIODIC ? ticks : 0;
}

void apic_tick(struct apic *apic, uint64_t now)
{
    if (!apic->timer_deadline || now < apic->timer_deadline)
        return;
    if (apic->timer_period)
        apic->timer_deadline = now + apic->timer_period;
    else
        apic->timer_deadline = 0;
    if (!(apic->regs[REG(LVT_TIMER)] & LVT_MASKED))
        raise_vector(apic, apic->regs[REG(LVT_TIMER)] & 0xff);
}

void apic_rebase(struct apic *apic, uint64_t old_now, uint64_t new_now)
{
    if (!apic->timer_deadline)
        return;
    apic->timer_deadline =
        new_now + (apic->timer_deadline > old_now ? apic->timer_deadline - old_now : 1);
}

void apic_pmi(struct apic *apic)
{
    uint32_t *lvt = &apic->regs[REG(LVT_PC)];

    if (*lvt & LVT_MASKED)
        return;
    if (MODE(*lvt) == MODE_NMI)
        apic->nmi_pending = true;
    else if (MODE(*lvt) == MODE_FIXED)
        raise_vector(apic, *lvt & 0xff);
    *lvt |= LVT_MASKED;
}

/* ---- Registers ---- */

static uint32_t bits_register(const uint64_t bits[4], uint32_t offset)
{
    const unsigned word = offset / 16 % 8;

    return (uint32_t)(bits[word / 2] >> 32 * (word % 2));
}

uint32_t apic_read(const struct apic *apic, uint32_t offset, uint64_t now)
{
    if (offset >= 16 * 64 || offset % 16 != 0)
        return 0;
    if (offset >= ISR && offset < TMR)
        return bits_register(apic->isr, offset);
    if (offset >= IRR && offset < ESR)
        return bits_register(apic->irr, offset);
    if (offset == TIMER_NOW) {
        if (!apic->timer_deadline || apic->timer_deadline <= now)
            return 0;
        return (uint32_t)((apic->timer_deadline - now) / divisor(apic));
    }
    return apic->regs[REG(offset)];
}

/* Whether a destination names this APIC (11.6.2). */
static bool addressed(const struct apic *apic, uint32_t icr, uint8_t destination)
{
    const uint8_t logical = (uint8_t)(apic->regs[REG(LDR)] >> 24);

    if (!(icr & ICR_LOGICAL))
        return destination == ID_BROADCAST || destination == apic->regs[REG(ID)] >> 24;
    if (apic->regs[REG(DFR)] >> 28 == DFR_FLAT)
        return (logical & destination) != 0;
    return (destination == ID_BROADCAST || logical >> 4 == destination >> 4) &&
           (logical & destination & 0xf) != 0;
}

static bool is_for(const struct apic *apic, const struct apic *from, uint32_t icr)
{
    switch (SHORTHAND(icr)) {
    case SHORT_SELF:
        return apic == from;
    case SHORT_ALL:
        return true;
    case SHORT_OTHERS:
        return apic != from;
    default:
        return addressed(apic, icr, (uint8_t)(from->regs[REG(ICR_HIGH)] >> 24));
    }
}

bool apic_sends(uint32_t offset)
{
    return offset == ICR;
}

bool apic_receive(struct apic *apic, const struct apic *from)
{
    const uint32_t icr = from->regs[REG(ICR)];

    if (!is_for(apic, from, icr))
        return false;
    switch (MODE(icr)) {
    case MODE_FIXED:
        raise_vector(apic, icr & 0xff);
        break;
    case MODE_LOWEST:
        raise_vector(apic, icr & 0xff);
        return enabled(apic);
    case MODE_NMI:
        apic->nmi_pending = true;
        break;
    case MODE_INIT:
        /* De-assertion means nothing to this kind of APIC; a shorthand with self is invalid. */
        if (!(icr & ICR_ASSERT) || (apic == from && SHORTHAND(icr) != SHORT_NONE))
            break;
        apic->init_pending = true;
        apic->sipi_pending = false;
        break;
    case MODE_SIPI:
        if (apic == from)
            break;
        apic->sipi_pending = true;
        apic->sipi_vector = (uint8_t)icr;
        break;
    default:
        break;
    }
    return false;
}

void apic_write(struct apic *apic, uint32_t offset, uint32_t value, uint64_t now)
{
    int vector;

    switch (offset) {
    case EOI:
        vector = highest(apic->isr);
        if (vector >= 0)
            apic->isr[vector / 64] &= ~(1ull << vector % 64);
        break;
    case ICR:
        apic->regs[REG(ICR)] = value; /* whoever has the other APICs asks them: apic_receive() */
        break;
    case TIMER_INIT:
        apic->regs[REG(TIMER_INIT)] = value;
        timer_start(apic, now);
        break;
    case ID:
    case TPR:
    case LDR:
    case DFR:
    case ICR_HIGH:
    case TIMER_DIV:
        apic->regs[REG(offset)] = value;
        break;
    case SVR:
        apic->regs[REG(SVR)] = value;
        if (!enabled(apic))
            mask_lvts(apic);
        break;
    case LVT_TIMER:
    case LVT_THERMAL:
    case LVT_PC:
    case LVT_LINT0:
    case LVT_LINT1:
    case LVT_ERROR:
        apic->regs[REG(offset)] = value;
        if (!enabled(apic))
            mask_lvts(apic);
        break;
    default:
        break; /* read-only or not there */
    }
}
