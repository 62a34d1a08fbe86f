/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU 7.2 calls otherwise than QEMU 10.0, whose names the other files use.
 */
#ifndef TARGET_I386_VPT_COMPAT_H
#define TARGET_I386_VPT_COMPAT_H

#include "cpu.h"
#include "exec/exec-all.h"
#include "hw/core/cpu.h"
#include "hw/qdev-properties.h"
#include "qemu/main-loop.h"

#if QEMU_VERSION_MAJOR >= 10

#include "exec/cputlb.h"
#include "exec/tb-flush.h"
#include "qemu/qemu-plugin.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "qobject/qlist.h"
#include "qobject/qnull.h"
#include "qobject/qnum.h"
#include "qobject/qstring.h"
#include "system/cpu-timers.h"
#include "system/hw_accel.h"
#include "system/kvm.h"
#include "system/runstate-action.h"
#include "system/runstate.h"
#include "system/system.h"
#include "system/tcg.h"

#define X86_VPT_HAS(OBJECT, MEMBER) ((void)0) /* what may be missing is there */

#define X86_VPT_PROPERTIES(NAME, ...) static const Property NAME[] = {__VA_ARGS__}

static inline CPUNegativeOffsetState *x86_vpt_neg(X86CPU *cpu)
{
    return &cpu->parent_obj.neg;
}

static inline bool x86_vpt_set_can_do_io(CPUState *cs, bool can)
{
    const bool could = cs->neg.can_do_io;

    cs->neg.can_do_io = can;
    return could;
}

static inline void x86_vpt_invalidate_code(tb_page_addr_t first, hwaddr len)
{
    tb_invalidate_phys_range(first, first + len - 1);
}

#else

#include "qapi/qmp/qdict.h"
#include "qapi/qmp/qjson.h"
#include "qapi/qmp/qlist.h"
#include "qapi/qmp/qnull.h"
#include "qapi/qmp/qnum.h"
#include "qapi/qmp/qstring.h"
#include "sysemu/cpu-timers.h"
#include "sysemu/hw_accel.h"
#include "sysemu/kvm.h"
#include "sysemu/runstate-action.h"
#include "sysemu/runstate.h"
#include "sysemu/sysemu.h"
#include "sysemu/tcg.h"

#define bql_locked qemu_mutex_iothread_locked
#define bql_lock   qemu_mutex_lock_iothread
#define bql_unlock qemu_mutex_unlock_iothread

#define X86_VPT_HAS(OBJECT, MEMBER) ((OBJECT)->has_##MEMBER = true)

#define X86_VPT_PROPERTIES(NAME, ...)                                                              \
    static Property NAME[] = {__VA_ARGS__, DEFINE_PROP_END_OF_LIST()}

static inline CPUNegativeOffsetState *x86_vpt_neg(X86CPU *cpu)
{
    return &cpu->neg;
}

static inline bool x86_vpt_set_can_do_io(CPUState *cs, bool can)
{
    const bool could = cs->can_do_io;

    cs->can_do_io = can;
    return could;
}

static inline void x86_vpt_invalidate_code(tb_page_addr_t first, hwaddr len)
{
    tb_invalidate_phys_range(first, first + len);
}

/* The TSC without ratio and offset: what plugins may call. Their header tells them of it since. */
uint64_t x86_vpt_plugin_tsc(unsigned vcpu);

#endif

#endif
