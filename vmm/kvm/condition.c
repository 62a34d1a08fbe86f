/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a conditional branch was taken, from the registers that it left: where its target is the
 * next instruction, RIP does not tell.
 */
#include "kvm/condition.h"

#include <linux/kvm.h>

#define FLAG_CF (1u << 0)
#define FLAG_PF (1u << 2)
#define FLAG_ZF (1u << 6)
#define FLAG_SF (1u << 7)
#define FLAG_OF (1u << 11)

#define ADDRESS_SIZE 0x67
#define LOOPNE       0xe0
#define LOOPE        0xe1
#define LOOP         0xe2
#define JRCXZ        0xe3

/* Condition codes (SDM vol. 1, appendix B): 3 bits name the condition, the lowest one inverts it.
 */
static bool holds(uint8_t code, uint64_t flags)
{
    const bool less = !(flags & FLAG_SF) != !(flags & FLAG_OF);
    bool result = false;

    switch (code >> 1 & 7) {
    case 0:
        result = flags & FLAG_OF;
        break;
    case 1:
        result = flags & FLAG_CF;
        break;
    case 2:
        result = flags & FLAG_ZF;
        break;
    case 3:
        result = flags & (FLAG_CF | FLAG_ZF);
        break;
    case 4:
        result = flags & FLAG_SF;
        break;
    case 5:
        result = flags & FLAG_PF;
        break;
    case 6:
        result = less;
        break;
    default:
        result = less || (flags & FLAG_ZF);
        break;
    }
    return result != (code & 1);
}

bool condition_held(const struct kvm_regs *regs, const uint8_t *code, unsigned len_bytes)
{
    uint64_t count = regs->rcx;
    unsigned at = 0;

    for (; at + 2 < len_bytes && (code[at] < 0x70 || code[at] > 0x7f) && code[at] != 0x0f; at++)
        if (code[at] == ADDRESS_SIZE)
            count = (uint32_t)count;
    switch (code[at]) {
    case LOOPNE:
        return count && !(regs->rflags & FLAG_ZF);
    case LOOPE:
        return count && (regs->rflags & FLAG_ZF);
    case LOOP:
        return count;
    case JRCXZ:
        return !count;
    case 0x0f:
        return holds(code[at + 1], regs->rflags);
    default:
        return holds(code[at], regs->rflags);
    }
}
