/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VM entry: its checks, and the state that it loads. */
#ifndef I386_VMX_ENTRY_H
#define I386_VMX_ENTRY_H

#include "vmx.h"

/* An error: VM entry fails, and the next instruction follows. 0: EIP is the guest's, or the host's
 * after a failure that ends as a VM exit does. */
/* length: of VMLAUNCH or VMRESUME. */
enum vmx_error x86_vmx_enter(CPUX86State *env, int length);

/* One rule, or a few of one field: true if the VMCS is as it says. */
typedef bool x86_vmx_check_fn(CPUX86State *env, const uint64_t *vmcs);
bool x86_vmx_check_all(CPUX86State *env, x86_vmx_check_fn *const *checks, size_t count);

/* check-controls.c, check-host.c, check-guest.c: as the current VMCS has them. */
bool x86_vmx_check_controls(CPUX86State *env);
bool x86_vmx_check_host(CPUX86State *env);
/* *qualification: of the exit, if not. */
bool x86_vmx_check_guest(CPUX86State *env, uint64_t *qualification);
bool x86_vmx_eptp_allowed(CPUX86State *env, uint64_t eptp);

/* ---- state.c: what entries and exits share ---- */

/* Whether a control is set; secondary controls count only where they are activated. */
bool x86_vmx_has(CPUX86State *env, enum vmcs_field controls, uint32_t bits);

static inline bool x86_vmx_pin(CPUX86State *env, uint32_t bits)
{
    return x86_vmx_has(env, VMCS_PIN_CONTROLS, bits);
}
static inline bool x86_vmx_primary(CPUX86State *env, uint32_t bits)
{
    return x86_vmx_has(env, VMCS_PRIMARY_CONTROLS, bits);
}
static inline bool x86_vmx_secondary(CPUX86State *env, uint32_t bits)
{
    return x86_vmx_has(env, VMCS_SECONDARY_CONTROLS, bits);
}
static inline bool x86_vmx_at_exit(CPUX86State *env, uint32_t bits)
{
    return x86_vmx_has(env, VMCS_EXIT_CONTROLS, bits);
}
static inline bool x86_vmx_at_entry(CPUX86State *env, uint32_t bits)
{
    return x86_vmx_has(env, VMCS_ENTRY_CONTROLS, bits);
}

/* Access rights: bits 7:0 and 15:12 as in a descriptor; bit 16: unusable. */
#define VMX_RIGHTS_UNUSABLE (1u << 16)

/* entry.c: non-root operation of the current VMCS, again. */
void x86_vmx_resume_guest(CPUX86State *env);
/* entry.c: the TSC as what runs now reads it. */
void x86_vmx_scale_tsc(CPUX86State *env);

void x86_vmx_load_guest(CPUX86State *env);
void x86_vmx_save_guest(CPUX86State *env);
void x86_vmx_load_host(CPUX86State *env);
struct x86_vmx_trace_loads;
/* The number of the first entry that cannot be loaded or stored, from 1; 0: all were. *trace: those
 * that are left to the trace. */
uint32_t x86_vmx_load_msrs(CPUX86State *env, uint64_t area, uint32_t count,
                           struct x86_vmx_trace_loads *trace);
uint32_t x86_vmx_store_msrs(CPUX86State *env, uint64_t area, uint32_t count);

bool x86_vmx_is_canonical(CPUX86State *env, uint64_t address);
bool x86_vmx_is_pat(uint64_t pat);
/* Of an EFER field: reserved bits, LMA, and LME where paging is on. */
bool x86_vmx_is_efer(CPUX86State *env, uint64_t efer, bool long_mode, bool paging);
/* An address of memory that a VMCS names: aligned, within physical addresses. */
bool x86_vmx_is_physical(CPUX86State *env, uint64_t address, uint64_t alignment);

#endif
