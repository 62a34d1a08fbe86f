/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In place of host-pt.c, where QEMU is built without the libraries of the decoder.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "compat-kvm.h"
#include "vpt-i386.h"

bool x86_vpt_host_limit(struct vpt_caps *caps, Error **errp)
{
    if (kvm_state->vpt_host) {
        error_setg(errp,
                   "vpt-source=host-pt: this QEMU has been built without Zydis, libelf or libzstd");
    }
    return !kvm_state->vpt_host;
}

bool x86_vpt_host_open(CPUState *cs, Error **errp)
{
    return true;
}

void x86_vpt_host_close(CPUState *cs)
{
}

void x86_vpt_host_elsewhere(X86CPU *cpu)
{
}

void x86_vpt_host_begin(CPUState *cs)
{
}

void x86_vpt_host_end(CPUState *cs, int run_ret)
{
}
