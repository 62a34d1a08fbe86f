/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU 7.2 calls otherwise than QEMU 10.0, whose names the other files use. Most of it is that
 * of virtual PT.
 */
#ifndef I386_VMX_COMPAT_H
#define I386_VMX_COMPAT_H

#include "vpt/compat.h"

#if QEMU_VERSION_MAJOR >= 10

/* The MMU mode of fetches. */
static inline int x86_vmx_fetch_index(CPUX86State *env)
{
    return cpu_mmu_index(env_cpu(env), true);
}

/* The block that runs is the last one before requests are looked at. */
static inline void x86_vmx_end_chain(CPUState *cs)
{
    qatomic_set(&cs->neg.icount_decr.u16.high, -1);
}

/*
 * Flags of the next block: one instruction, which no request comes before. It is not chained to
 * another, which would run before requests are looked at.
 */
static inline uint32_t x86_vmx_one_instruction(CPUState *cs)
{
    /* CF_SINGLE_STEP: of a repeated string instruction, one iteration. */
    return cs->tcg_cflags | CF_NO_GOTO_TB | CF_NO_GOTO_PTR | CF_SINGLE_STEP | CF_NOIRQ | 1;
}

#else

static inline int x86_vmx_fetch_index(CPUX86State *env)
{
    return cpu_mmu_index(env, true);
}

static inline void x86_vmx_end_chain(CPUState *cs)
{
    qatomic_set(&cpu_neg(cs)->icount_decr.u16.high, -1);
}

static inline uint32_t x86_vmx_one_instruction(CPUState *cs)
{
    return curr_cflags(cs) | CF_NO_GOTO_TB | CF_NO_GOTO_PTR | CF_LAST_IO | CF_NOIRQ | 1;
}

#endif

#endif
