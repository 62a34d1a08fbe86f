/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The same as compat.h, of KVM: for the files that are built with it only.
 */
#ifndef TARGET_I386_VPT_COMPAT_KVM_H
#define TARGET_I386_VPT_COMPAT_KVM_H

#include "compat.h"

#if QEMU_VERSION_MAJOR >= 10

#include "system/cpus.h"
#include "system/kvm_int.h"
#include "tcg/startup.h"
#include "kvm/kvm_i386.h"

static inline bool x86_vpt_filter_msrs(uint32_t first, uint32_t count, QEMURDMSRHandler *read,
                                       QEMUWRMSRHandler *write)
{
    return kvm_filter_msrs(kvm_state, first, count, read, write) == 0;
}

#else

#include "sysemu/cpus.h"
#include "sysemu/kvm_int.h"
#include "kvm/kvm_i386.h"

#define qatomic_set_mb qatomic_mb_set

static inline bool x86_vpt_filter_msrs(uint32_t first, uint32_t count, QEMURDMSRHandler *read,
                                       QEMUWRMSRHandler *write)
{
    return kvm_filter_msrs(kvm_state, first, count, read, write);
}

#endif

#endif
