/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Translations that TCG keeps over VM entries and VM exits. A guest has MMU modes of its own, so
 * that neither it nor the hypervisor finds those of the other. With a VPID, they are good when the
 * same guest is entered again, with the control registers that it had; so are the hypervisor's.
 */
#include "qemu/osdep.h"
#include "compat.h"
#include "entry.h"
#include "intercept.h"
#include "tlb.h"

#define MODES       ((1u << MMU_PHYS_IDX) - 1)
#define MODES_HOST  (MODES << MMU_HOST)
#define MODES_GUEST (MODES | 1u << MMU_NESTED_IDX)
#define CR0_BITS    (CR0_PG_MASK | CR0_WP_MASK | CR0_PE_MASK)

static struct x86_vmx_tag tag_of(CPUX86State *env, bool guest)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    const bool ept = guest && x86_vmx_secondary(env, VMX_SECONDARY_EXEC_ENABLE_EPT);
    const bool tagged = guest && x86_vmx_secondary(env, VMX_SECONDARY_EXEC_ENABLE_VPID);

    return (struct x86_vmx_tag){
        .cr0 = env->cr[0] & CR0_BITS,
        .cr3 = env->cr[3],
        .cr4 = env->cr[4],
        .efer = env->efer,
        .eptp = ept ? vmcs[VMCS_EPT_POINTER] : 0,
        .vpid = tagged ? vmcs[VMCS_VPID] : 0,
    };
}

void x86_vmx_tlb_leave(CPUX86State *env, bool guest)
{
    x86_vmx_of(env)->tags[guest] = tag_of(env, guest);
}

void x86_vmx_tlb_enter(CPUX86State *env, bool guest)
{
    const struct x86_vmx_tag now = tag_of(env, guest), *then = &x86_vmx_of(env)->tags[guest];
    const bool kept = x86_vmx_secondary(env, VMX_SECONDARY_EXEC_ENABLE_VPID);

    if (!kept || memcmp(&now, then, sizeof(now)) != 0) {
        tlb_flush_by_mmuidx(env_cpu(env), guest ? MODES_GUEST : MODES_HOST);
    } else if (now.cr3 == x86_vmx_of(env)->tags[!guest].cr3) {
        /* A capture tells pages by CR3, and only those of blocks that are looked up. */
        tcg_flush_jmp_cache(env_cpu(env));
    }
}

/* The hypervisor has VPID 0 and no EPT: neither INVEPT nor INVVPID names what is its own. */
void x86_vmx_tlb_forget(CPUX86State *env)
{
    tlb_flush_by_mmuidx(env_cpu(env), MODES_GUEST);
}

/*
 * MOV CR3 invalidates translations of whoever executes it, and none of guest-physical addresses:
 * INVEPT does that.
 */
void x86_vmx_load_cr3(CPUX86State *env, uint64_t cr3)
{
    env->cr[3] = cr3;
    if (env->cr[0] & CR0_PG_MASK) {
        tlb_flush_by_mmuidx(env_cpu(env), x86_vmx_guest(env) ? MODES : MODES_HOST);
    }
}
