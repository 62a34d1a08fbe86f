/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VM entry, checks of the guest-state area. Rules: kvm nested_vmx_check_guest_state(), and for
 * segments, which processors check for KVM, vmx_guest_state_valid() and what it calls.
 */
#include "qemu/osdep.h"
#include "entry.h"
#include "trace.h"

#define QUALIFICATION_PDPTE 2
#define QUALIFICATION_LINK  4
#define RFLAGS_RESERVED     (~(uint64_t)0x3f7fd7)
#define PENDING_RESERVED    (~(uint64_t)0x1500f)
#define PENDING_BS          (1u << 14)
#define DEBUGCTL_KNOWN      0xdfc3u
#define DEBUGCTL_BTF        2u
#define BLOCKING_STI        1u
#define BLOCKING_MOV_SS     2u
#define BLOCKING_SMI        4u
#define BLOCKING_NMI        8u

enum { ES, CS, SS, DS, FS, GS, LDTR, TR };

struct segment {
    uint64_t selector, base, limit, rights;
};

static struct segment segment(const uint64_t *vmcs, int which)
{
    return (struct segment){
        .selector = vmcs[VMCS_GUEST_ES_SELECTOR + which],
        .base = vmcs[VMCS_GUEST_ES_BASE + which],
        .limit = vmcs[VMCS_GUEST_ES_LIMIT + which],
        .rights = vmcs[VMCS_GUEST_ES_RIGHTS + which],
    };
}

static bool usable(const struct segment *of)
{
    return !(of->rights & VMX_RIGHTS_UNUSABLE);
}
static uint32_t type(const struct segment *of)
{
    return of->rights & 15;
}
static uint32_t dpl(const struct segment *of)
{
    return of->rights >> 5 & 3;
}
static uint32_t rpl(const struct segment *of)
{
    return of->selector & 3;
}

static bool is_virtual_8086(const uint64_t *vmcs)
{
    return vmcs[VMCS_GUEST_RFLAGS] & VM_MASK;
}

static bool long_mode(CPUX86State *env)
{
    return x86_vmx_at_entry(env, VMX_VM_ENTRY_IA32E_MODE);
}

static bool unrestricted(CPUX86State *env)
{
    return x86_vmx_secondary(env, VMX_SECONDARY_EXEC_UNRESTRICTED_GUEST);
}

/* ---- Control registers, debug registers, MSRs ---- */

static bool control_registers(CPUX86State *env, const uint64_t *vmcs)
{
    const uint64_t cr0 = vmcs[VMCS_GUEST_CR0], cr4 = vmcs[VMCS_GUEST_CR4];

    if (!x86_vmx_cr0_allowed(env, cr0, unrestricted(env)) ||
        ((cr0 & CR0_PG_MASK) && !(cr0 & CR0_PE_MASK)) || !x86_vmx_cr4_allowed(env, cr4)) {
        return false;
    }
    if (long_mode(env) && (!(cr0 & CR0_PG_MASK) || !(cr4 & CR4_PAE_MASK))) {
        return false;
    }
    return (long_mode(env) || !(cr4 & CR4_PCIDE_MASK)) &&
           x86_vmx_is_physical(env, vmcs[VMCS_GUEST_CR3], 1);
}

static bool debug_controls(CPUX86State *env, const uint64_t *vmcs)
{
    return !x86_vmx_at_entry(env, VMX_VM_ENTRY_LOAD_DEBUG_CONTROLS) ||
           (!(vmcs[VMCS_GUEST_DEBUGCTL] & ~(uint64_t)DEBUGCTL_KNOWN) &&
            !(vmcs[VMCS_GUEST_DR7] >> 32));
}

static bool msrs(CPUX86State *env, const uint64_t *vmcs)
{
    return x86_vmx_is_canonical(env, vmcs[VMCS_GUEST_SYSENTER_ESP]) &&
           x86_vmx_is_canonical(env, vmcs[VMCS_GUEST_SYSENTER_EIP]) &&
           (!x86_vmx_at_entry(env, VMX_VM_ENTRY_LOAD_IA32_PAT) ||
            x86_vmx_is_pat(vmcs[VMCS_GUEST_PAT])) &&
           (!x86_vmx_at_entry(env, VMX_VM_ENTRY_LOAD_IA32_EFER) ||
            x86_vmx_is_efer(env, vmcs[VMCS_GUEST_EFER], long_mode(env),
                            vmcs[VMCS_GUEST_CR0] & CR0_PG_MASK));
}

/* ---- Segments ---- */

static bool segment_selectors(CPUX86State *env, const uint64_t *vmcs)
{
    const struct segment tr = segment(vmcs, TR), ldtr = segment(vmcs, LDTR);
    const struct segment cs = segment(vmcs, CS), ss = segment(vmcs, SS);

    return !(tr.selector & 4) && (!usable(&ldtr) || !(ldtr.selector & 4)) &&
           (is_virtual_8086(vmcs) || unrestricted(env) || rpl(&ss) == rpl(&cs));
}

static bool segment_bases(CPUX86State *env, const uint64_t *vmcs)
{
    const struct segment ldtr = segment(vmcs, LDTR);

    for (int i = ES; i <= GS; i++) {
        const struct segment of = segment(vmcs, i);

        if (is_virtual_8086(vmcs) && of.base != of.selector << 4) {
            return false;
        }
        if (i <= DS && (i == CS || usable(&of)) && of.base >> 32) {
            return false;
        }
    }
    return x86_vmx_is_canonical(env, vmcs[VMCS_GUEST_TR_BASE]) &&
           x86_vmx_is_canonical(env, vmcs[VMCS_GUEST_FS_BASE]) &&
           x86_vmx_is_canonical(env, vmcs[VMCS_GUEST_GS_BASE]) &&
           (!usable(&ldtr) || x86_vmx_is_canonical(env, ldtr.base));
}

/* G fits the limit; bits that are reserved are 0. */
static bool limit_and_reserved(const struct segment *of)
{
    const bool pages = of->rights & 1 << 15;

    return !(of->rights & 0xfffe0f00) && (!pages || (of->limit & 0xfff) == 0xfff) &&
           (pages || !(of->limit >> 20));
}

static bool virtual_8086_segments(const uint64_t *vmcs)
{
    for (int i = ES; i <= GS; i++) {
        const struct segment of = segment(vmcs, i);

        if (of.limit != 0xffff || of.rights != 0xf3) {
            return false;
        }
    }
    return true;
}

static bool code_type(CPUX86State *env, const struct segment *cs)
{
    return type(cs) == 9 || type(cs) == 11 || type(cs) == 13 || type(cs) == 15 ||
           (unrestricted(env) && type(cs) == 3);
}

static bool code_privilege(const struct segment *cs, const struct segment *ss)
{
    switch (type(cs)) {
    case 3:
        return dpl(cs) == 0;
    case 9:
    case 11:
        return dpl(cs) == dpl(ss);
    default:
        return dpl(cs) <= dpl(ss);
    }
}

static bool code_segment(CPUX86State *env, const uint64_t *vmcs)
{
    const struct segment cs = segment(vmcs, CS), ss = segment(vmcs, SS);
    const uint32_t l_and_db = 3u << 13;

    return usable(&cs) && code_type(env, &cs) && (cs.rights & 0x90) == 0x90 &&
           code_privilege(&cs, &ss) && limit_and_reserved(&cs) &&
           (!long_mode(env) || (cs.rights & l_and_db) != l_and_db);
}

static bool stack_segment(CPUX86State *env, const uint64_t *vmcs)
{
    const struct segment cs = segment(vmcs, CS), ss = segment(vmcs, SS);
    const bool real = !(vmcs[VMCS_GUEST_CR0] & CR0_PE_MASK);

    if ((type(&cs) == 3 || real) && dpl(&ss) != 0) {
        return false;
    }
    if (!unrestricted(env) && dpl(&ss) != rpl(&ss)) {
        return false;
    }
    return !usable(&ss) || ((type(&ss) == 3 || type(&ss) == 7) && (ss.rights & 0x90) == 0x90 &&
                            limit_and_reserved(&ss));
}

static bool data_segment(CPUX86State *env, const struct segment *of)
{
    if (!usable(of)) {
        return true;
    }
    return (of->rights & 1) && (!(of->rights & 8) || (of->rights & 2)) &&
           (of->rights & 0x90) == 0x90 && limit_and_reserved(of) &&
           (unrestricted(env) || type(of) > 11 || dpl(of) >= rpl(of));
}

static bool segments(CPUX86State *env, const uint64_t *vmcs)
{
    if (is_virtual_8086(vmcs)) {
        return virtual_8086_segments(vmcs);
    }
    for (int i = DS; i <= GS; i++) {
        const struct segment of = segment(vmcs, i);

        if (!data_segment(env, &of)) {
            return false;
        }
    }
    {
        const struct segment es = segment(vmcs, ES);

        return data_segment(env, &es) && code_segment(env, vmcs) && stack_segment(env, vmcs);
    }
}

static bool system_segments(CPUX86State *env, const uint64_t *vmcs)
{
    const struct segment tr = segment(vmcs, TR), ldtr = segment(vmcs, LDTR);
    const bool busy = type(&tr) == 11 || (type(&tr) == 3 && !long_mode(env));

    return usable(&tr) && busy && (tr.rights & 0x90) == 0x80 && limit_and_reserved(&tr) &&
           (!usable(&ldtr) ||
            (type(&ldtr) == 2 && (ldtr.rights & 0x90) == 0x80 && limit_and_reserved(&ldtr)));
}

static bool tables(CPUX86State *env, const uint64_t *vmcs)
{
    return x86_vmx_is_canonical(env, vmcs[VMCS_GUEST_GDTR_BASE]) &&
           x86_vmx_is_canonical(env, vmcs[VMCS_GUEST_IDTR_BASE]) &&
           !(vmcs[VMCS_GUEST_GDTR_LIMIT] >> 16) && !(vmcs[VMCS_GUEST_IDTR_LIMIT] >> 16);
}

/* ---- RIP, RFLAGS, and what is not a register ---- */

static bool injects(const uint64_t *vmcs, uint32_t of_type)
{
    const uint32_t event = vmcs[VMCS_ENTRY_EVENT];

    return (event & VMX_EVENT_VALID) && (event >> VMX_EVENT_TYPE_SHIFT & 7) == of_type;
}

static bool rip_and_rflags(CPUX86State *env, const uint64_t *vmcs)
{
    const uint64_t rip = vmcs[VMCS_GUEST_RIP], rflags = vmcs[VMCS_GUEST_RFLAGS];
    const bool wide = long_mode(env) && (vmcs[VMCS_GUEST_CS_RIGHTS] & 1 << 13);

    if (wide ? !x86_vmx_is_canonical(env, rip) : rip >> 32 != 0) {
        return false;
    }
    if ((rflags & RFLAGS_RESERVED) || !(rflags & 2)) {
        return false;
    }
    if ((rflags & VM_MASK) && (long_mode(env) || !(vmcs[VMCS_GUEST_CR0] & CR0_PE_MASK))) {
        return false;
    }
    return (rflags & IF_MASK) || !injects(vmcs, VMX_EVENT_EXTERNAL);
}

static bool event_fits_hlt(const uint64_t *vmcs)
{
    const uint32_t vector = vmcs[VMCS_ENTRY_EVENT] & 0xff;

    return !(vmcs[VMCS_ENTRY_EVENT] & VMX_EVENT_VALID) || injects(vmcs, VMX_EVENT_EXTERNAL) ||
           injects(vmcs, VMX_EVENT_NMI) ||
           (injects(vmcs, VMX_EVENT_EXCEPTION) && (vector == EXCP01_DB || vector == EXCP12_MCHK));
}

static bool activity(CPUX86State *env, const uint64_t *vmcs)
{
    const struct segment ss = segment(vmcs, SS);
    const bool blocked = vmcs[VMCS_GUEST_INTERRUPTIBILITY] & (BLOCKING_STI | BLOCKING_MOV_SS);

    if (vmcs[VMCS_GUEST_ACTIVITY] == 0) {
        return true;
    }
    return vmcs[VMCS_GUEST_ACTIVITY] == 1 &&
           (env->features[FEAT_VMX_MISC] & MSR_VMX_MISC_ACTIVITY_HLT) && dpl(&ss) == 0 &&
           !blocked && event_fits_hlt(vmcs);
}

static bool interruptibility(CPUX86State *env, const uint64_t *vmcs)
{
    const uint64_t blocking = vmcs[VMCS_GUEST_INTERRUPTIBILITY];
    const uint64_t both = BLOCKING_STI | BLOCKING_MOV_SS;

    if (blocking >> 4 || (blocking & both) == both || (blocking & BLOCKING_SMI)) {
        return false;
    }
    if ((blocking & BLOCKING_STI) && !(vmcs[VMCS_GUEST_RFLAGS] & IF_MASK)) {
        return false;
    }
    if ((blocking & both) && injects(vmcs, VMX_EVENT_EXTERNAL)) {
        return false;
    }
    if ((blocking & BLOCKING_MOV_SS) && injects(vmcs, VMX_EVENT_NMI)) {
        return false;
    }
    return !(blocking & BLOCKING_NMI) || !injects(vmcs, VMX_EVENT_NMI) ||
           !x86_vmx_pin(env, VMX_PIN_BASED_VIRTUAL_NMIS);
}

static bool pending_debug(CPUX86State *env, const uint64_t *vmcs)
{
    const uint64_t pending = vmcs[VMCS_GUEST_PENDING_DEBUG];
    const bool blocked = vmcs[VMCS_GUEST_INTERRUPTIBILITY] & (BLOCKING_STI | BLOCKING_MOV_SS);
    const bool steps =
        (vmcs[VMCS_GUEST_RFLAGS] & TF_MASK) && !(vmcs[VMCS_GUEST_DEBUGCTL] & DEBUGCTL_BTF);

    if (pending & PENDING_RESERVED) {
        return false;
    }
    return !(blocked || vmcs[VMCS_GUEST_ACTIVITY] == 1) || steps == !!(pending & PENDING_BS);
}

static bool link_pointer(CPUX86State *env, const uint64_t *vmcs)
{
    const uint64_t link = vmcs[VMCS_LINK_POINTER];

    return link == VMCS_NONE ||
           (x86_vmx_is_physical(env, link, VMCS_BYTES) && link != x86_vmx_of(env)->current &&
            x86_ldl_phys(env_cpu(env), link) == VMCS_REVISION);
}

/* ---- Page-directory-pointer-table entries ---- */

static uint64_t pdpte(CPUX86State *env, const uint64_t *vmcs, int i)
{
    if (x86_vmx_secondary(env, VMX_SECONDARY_EXEC_ENABLE_EPT)) {
        return vmcs[VMCS_GUEST_PDPTE0 + i];
    }
    return x86_ldq_phys(env_cpu(env), (vmcs[VMCS_GUEST_CR3] & 0xffffffe0) + i * 8);
}

static bool pdptes(CPUX86State *env, const uint64_t *vmcs)
{
    if (long_mode(env) || !(vmcs[VMCS_GUEST_CR0] & CR0_PG_MASK) ||
        !(vmcs[VMCS_GUEST_CR4] & CR4_PAE_MASK)) {
        return true;
    }
    for (int i = 0; i < 4; i++) {
        const uint64_t entry = pdpte(env, vmcs, i);

        if ((entry & PG_PRESENT_MASK) &&
            ((entry & 0x1e6) || entry >> env_archcpu(env)->phys_bits)) {
            return false;
        }
    }
    return true;
}

static bool traced(CPUX86State *env, const uint64_t *vmcs)
{
    return x86_vmx_trace_guest(env);
}

bool x86_vmx_check_guest(CPUX86State *env, uint64_t *qualification)
{
    static x86_vmx_check_fn *const checks[] = {
        control_registers, debug_controls,  msrs,   segment_selectors, segment_bases,
        segments,          system_segments, tables, rip_and_rflags,    activity,
        interruptibility,  pending_debug,   traced};
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    *qualification = 0;
    if (!x86_vmx_check_all(env, checks, ARRAY_SIZE(checks))) {
        return false;
    }
    if (!link_pointer(env, vmcs)) {
        *qualification = QUALIFICATION_LINK;
    } else if (!pdptes(env, vmcs)) {
        *qualification = QUALIFICATION_PDPTE;
    } else {
        return true;
    }
    return false;
}
