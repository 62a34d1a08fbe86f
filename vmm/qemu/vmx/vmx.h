/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VMX for TCG: what the rest of target/i386 calls, and what the files of this directory share.
 *
 * HF_GUEST_MASK says that intercepts are active, as with SVM. The places in which TCG asks whether
 * SVM intercepts something ask VMX instead while the processor is in VMX non-root operation.
 */
#ifndef I386_VMX_H
#define I386_VMX_H

#include "cpu.h"
#include "exit-reasons.h"
#include "vmcs.h"

/* In hflags2: what HF_INHIBIT_IRQ_MASK tells of is blocking by MOV SS, not by STI. */
#define HF2_VMX_MOV_SS_MASK (1 << 9)

/* Pending debug exceptions. */
#define VMX_PENDING_BREAKPOINT (1u << 12) /* one of the enabled breakpoints */
#define VMX_PENDING_BS         (1u << 14)
#define DR6_BREAKPOINTS        15u

/* A VM exit on its way: what goes to the exit-information fields. */
struct x86_vmx_exit {
    uint32_t reason;
    uint64_t qualification;
    uint32_t event, event_error;  /* interruption information */
    uint32_t length, instruction; /* of the instruction; its information */
    uint64_t linear, physical;
};

/* X86CPU.vmx: NULL without the feature. */
/* Whose translations they are. All of its bytes are compared. */
struct x86_vmx_tag {
    uint64_t cr0, cr3, cr4, efer, eptp, vpid;
};

struct X86Vmx {
    bool on;                   /* VMX operation */
    bool non_root;             /* with HF_GUEST_MASK: a guest of VMX, not of SVM */
    bool smm_on, smm_non_root; /* what both were before an SMI */
    bool launched;
    uint64_t vmxon, current; /* VMXON region; current VMCS, or VMCS_NONE */
    uint64_t vmcs[VMCS_FIELD_COUNT];
    struct x86_vmx_exit exit;
    struct x86_vmx_tag tags[2]; /* of the hypervisor and its guest, each when it ran last */
    /* The event that is being delivered, for IDT-vectoring information. */
    uint32_t vectoring, vectoring_error, vectoring_length;
    bool halted; /* activity state HLT */
    bool traps;  /* a MTF exit is pending */
    bool int1;   /* it is INT1, the guest's or the VMCS's */
    uint32_t int1_length;
    bool injects;                /* that event comes from the VMCS */
    bool loads_msrs, msr_failed; /* of an MSR area */
    uint64_t pending_debug;      /* causes of a trap that the exit leaves to the next entry */
    uint64_t fault_address;      /* of a page fault that exits, and so leaves CR2 alone */
    /* What a reset leaves. The preemption timer: when it is due, and the clocks when the vCPU
     * began. */
    struct QEMUTimer *timer;
    uint64_t timer_deadline, timer_first_tsc;
    int64_t timer_first_ns;
};

static inline struct X86Vmx *x86_vmx_of(CPUX86State *env)
{
    return env_archcpu(env)->vmx;
}

static inline bool x86_vmx_on(CPUX86State *env)
{
    return x86_vmx_of(env) && x86_vmx_of(env)->on;
}

/* VMX non-root operation. */
static inline bool x86_vmx_guest(CPUX86State *env)
{
    return unlikely(env->hflags & HF_GUEST_MASK) && x86_vmx_of(env) && x86_vmx_of(env)->non_root;
}

static inline bool x86_vmx_blocked_by_mov_ss(CPUX86State *env)
{
    return (env->hflags & HF_INHIBIT_IRQ_MASK) && (env->hflags2 & HF2_VMX_MOV_SS_MASK);
}

/* ---- caps.c ---- */

enum x86_vmx_msr { X86_VMX_MSR_OTHER, X86_VMX_MSR_DONE, X86_VMX_MSR_GP };

enum x86_vmx_msr x86_vmx_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *value);
enum x86_vmx_msr x86_vmx_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value);
/* Whether this capability MSR (not the TRUE one) allows these controls. */
bool x86_vmx_controls_allowed(CPUX86State *env, uint32_t msr, uint32_t value);
/* IA32_VMX_EPT_VPID_CAP. */
uint64_t x86_vmx_ept_caps(CPUX86State *env);
uint64_t x86_vmx_cr4_fixed1(CPUX86State *env);
bool x86_vmx_cr0_allowed(CPUX86State *env, uint64_t cr0, bool unrestricted);
bool x86_vmx_cr4_allowed(CPUX86State *env, uint64_t cr4);

/* ---- cpu.c ---- */

void x86_vmx_realize(X86CPU *cpu);
void x86_vmx_unrealize(X86CPU *cpu);
void x86_vmx_reset(X86CPU *cpu);
extern const VMStateDescription vmstate_x86_vmx;

#endif
