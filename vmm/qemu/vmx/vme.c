/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * INT n in virtual-8086 mode with CR4.VME: a bitmap of the task says which of them go to the 8086
 * program itself (volume 3, "Software Interrupt Handling Methods While in Virtual-8086 Mode").
 *
 * TCG does not have it, and does not enumerate it. Without "unrestricted guest", hypervisors run
 * real mode in virtual-8086 mode, and rest on it.
 */
#include "qemu/osdep.h"
#include "exec/cpu_ldst.h"
#include "tcg/helper-tcg.h"
#include "tcg/seg_helper.h"
#include "intercept.h"

#define TSS_IO_BASE  0x66
#define BITMAP_BYTES 32 /* which end where the I/O bitmap begins */

/* INT3 and INTO, which have one byte, are not redirected. */
static bool is_int_n(CPUX86State *env, uint32_t next_eip)
{
    return next_eip - (uint32_t)env->eip > 1;
}

bool x86_vme_redirects(CPUX86State *env, int vector, bool software, uint32_t next_eip)
{
    const SegmentCache *tr = &env->tr;
    uint32_t at;

    if (!software || !cpu_has_vmx(env) || !(env->eflags & VM_MASK) ||
        !(env->cr[4] & CR4_VME_MASK) || (env->eflags & IOPL_MASK) != IOPL_MASK ||
        !is_int_n(env, next_eip) || tr->limit < TSS_IO_BASE + 1) {
        return false;
    }
    at = cpu_lduw_kernel(env, tr->base + TSS_IO_BASE) + vector / 8;
    if (at < BITMAP_BYTES || at - BITMAP_BYTES > tr->limit) {
        return false;
    }
    return !(cpu_ldub_kernel(env, tr->base + at - BITMAP_BYTES) & 1 << (vector & 7));
}

static void push(CPUX86State *env, uint16_t *sp, uint16_t value)
{
    *sp -= 2;
    cpu_stw_kernel(env, (uint32_t)(env->segs[R_SS].base + *sp), value);
}

/* As real mode does it, with its vectors at 0; nothing changes before all of memory was there. */
void x86_vme_interrupt(CPUX86State *env, int vector, uint32_t next_eip)
{
    const uint16_t offset = cpu_lduw_kernel(env, vector * 4);
    const uint16_t selector = cpu_lduw_kernel(env, vector * 4 + 2);
    uint16_t sp = env->regs[R_ESP];

    push(env, &sp, cpu_compute_eflags(env));
    push(env, &sp, env->segs[R_CS].selector);
    push(env, &sp, next_eip);
    env->regs[R_ESP] = deposit64(env->regs[R_ESP], 0, 16, sp);
    env->eip = offset;
    cpu_x86_load_seg_cache(env, R_CS, selector, selector << 4, UINT16_MAX, env->segs[R_CS].flags);
    env->eflags &= ~(IF_MASK | TF_MASK);
}
