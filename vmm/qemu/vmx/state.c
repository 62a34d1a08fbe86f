/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What VM entries and VM exits do with the state of guest and host: the guest-state and host-state
 * areas, and the MSR areas.
 */
#include "qemu/osdep.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "tcg/helper-tcg.h"
#include "entry.h"
#include "intercept.h"
#include "trace.h"

#define CC_MASK         (CC_O | CC_S | CC_Z | CC_A | CC_P | CC_C)
#define MSR_X2APIC      0x800
#define MSR_SMM_CTL     0x9b
#define MSR_SMBASE      0x9e
#define MSR_UCODE       0x79
#define RIGHTS_FLAGS    0xf0ffu
#define RIGHTS_BUSY     2u /* a loaded TSS is; TCG sets that in memory only */
#define RIGHTS_ACCESSED 1u /* a loaded segment is; TCG does not set that for code */
#define BLOCKING_STI    1u
#define BLOCKING_MOV_SS 2u
#define BLOCKING_NMI    8u
#define ACTIVITY_HLT    1

bool x86_vmx_has(CPUX86State *env, enum vmcs_field controls, uint32_t bits)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    if (controls == VMCS_SECONDARY_CONTROLS &&
        !(vmcs[VMCS_PRIMARY_CONTROLS] & VMX_CPU_BASED_ACTIVATE_SECONDARY_CONTROLS)) {
        return false;
    }
    return vmcs[controls] & bits;
}

bool x86_vmx_is_canonical(CPUX86State *env, uint64_t address)
{
    const int bits = env->features[FEAT_7_0_ECX] & CPUID_7_0_ECX_LA57 ? 57 : 48;

    return (uint64_t)sextract64(address, 0, bits) == address;
}

bool x86_vmx_is_physical(CPUX86State *env, uint64_t address, uint64_t alignment)
{
    return !(address & (alignment - 1)) && !(address >> env_archcpu(env)->phys_bits);
}

bool x86_vmx_is_pat(uint64_t pat)
{
    for (int i = 0; i < 8; i++) {
        const uint8_t type = pat >> (8 * i);

        if (type > 7 || type == 2 || type == 3) {
            return false;
        }
    }
    return true;
}

bool x86_vmx_is_efer(CPUX86State *env, uint64_t efer, bool long_mode, bool paging)
{
    const uint64_t known = MSR_EFER_SCE | MSR_EFER_LME | MSR_EFER_LMA | MSR_EFER_NXE;

    return !(efer & ~known) && long_mode == !!(efer & MSR_EFER_LMA) &&
           (!paging || long_mode == !!(efer & MSR_EFER_LME));
}

/* ---- Segments ---- */

static uint32_t rights_of(const SegmentCache *segment)
{
    if (!(segment->flags & DESC_P_MASK)) {
        return VMX_RIGHTS_UNUSABLE | (segment->flags >> 8 & 0x60);
    }
    return (segment->flags >> 8 & RIGHTS_FLAGS) |
           (segment->flags & DESC_S_MASK ? RIGHTS_ACCESSED : 0);
}

static uint32_t flags_of(uint32_t rights)
{
    if (rights & VMX_RIGHTS_UNUSABLE) {
        return (rights & 0x60) << 8;
    }
    return (rights & RIGHTS_FLAGS) << 8;
}

/* The fields of segments are in the order of R_ES to R_GS, LDTR, TR. */
enum { SEGMENT_LDTR = 6, SEGMENT_TR = 7, SEGMENTS };

static SegmentCache *segment_of(CPUX86State *env, int which)
{
    switch (which) {
    case SEGMENT_LDTR:
        return &env->ldt;
    case SEGMENT_TR:
        return &env->tr;
    default:
        return &env->segs[which];
    }
}

static void save_segments(CPUX86State *env)
{
    uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    for (int i = 0; i < SEGMENTS; i++) {
        const SegmentCache *segment = segment_of(env, i);

        vmcs[VMCS_GUEST_ES_SELECTOR + i] = segment->selector & 0xffff;
        vmcs[VMCS_GUEST_ES_BASE + i] = segment->base;
        vmcs[VMCS_GUEST_ES_LIMIT + i] = segment->limit;
        vmcs[VMCS_GUEST_ES_RIGHTS + i] = rights_of(segment);
    }
    vmcs[VMCS_GUEST_TR_RIGHTS] |= RIGHTS_BUSY;
    vmcs[VMCS_GUEST_GDTR_BASE] = env->gdt.base;
    vmcs[VMCS_GUEST_GDTR_LIMIT] = env->gdt.limit;
    vmcs[VMCS_GUEST_IDTR_BASE] = env->idt.base;
    vmcs[VMCS_GUEST_IDTR_LIMIT] = env->idt.limit;
}

static void load_table(SegmentCache *table, uint64_t base, uint32_t limit)
{
    table->base = base;
    table->limit = limit;
}

static void load_segments(CPUX86State *env)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    for (int i = 0; i < SEGMENTS; i++) {
        const SegmentCache load = {
            .selector = vmcs[VMCS_GUEST_ES_SELECTOR + i],
            .base = vmcs[VMCS_GUEST_ES_BASE + i],
            .limit = vmcs[VMCS_GUEST_ES_LIMIT + i],
            .flags = flags_of(vmcs[VMCS_GUEST_ES_RIGHTS + i]),
        };

        if (i < SEGMENT_LDTR) {
            cpu_x86_load_seg_cache(env, i, load.selector, load.base, load.limit, load.flags);
        } else {
            *segment_of(env, i) = load;
        }
    }
    load_table(&env->gdt, vmcs[VMCS_GUEST_GDTR_BASE], vmcs[VMCS_GUEST_GDTR_LIMIT]);
    load_table(&env->idt, vmcs[VMCS_GUEST_IDTR_BASE], vmcs[VMCS_GUEST_IDTR_LIMIT]);
}

/* ---- Control registers ---- */

/*
 * EFER and CR0 change together: TCG derives LMA from a change of PG. Bits whose change would flush
 * all translations are there before; tlb.c knows which of them are good.
 */
static void load_control(CPUX86State *env, uint64_t cr0, uint64_t cr3, uint64_t cr4, uint64_t efer)
{
    const uint64_t kept = CR0_CD_MASK | CR0_NW_MASK;
    const uint64_t flushing = CR0_PG_MASK | CR0_WP_MASK | CR0_PE_MASK;

    env->efer &= ~(uint64_t)(MSR_EFER_LME | MSR_EFER_LMA);
    env->cr[0] = (env->cr[0] & ~flushing) | (cr0 & flushing);
    cpu_x86_update_cr0(env, (cr0 & ~kept) | (env->cr[0] & kept));
    env->cr[4] = cr4;
    cpu_x86_update_cr4(env, cr4);
    env->cr[3] = cr3;
    cpu_load_efer(env, efer);
}

static uint64_t efer_with_mode(uint64_t efer, bool long_mode)
{
    efer &= ~(uint64_t)(MSR_EFER_LME | MSR_EFER_LMA);
    if (long_mode) {
        efer |= MSR_EFER_LMA | MSR_EFER_LME;
    }
    return efer;
}

static void set_flags(CPUX86State *env, uint64_t rflags)
{
    env->eflags = 0;
    cpu_load_eflags(env, rflags, ~(CC_MASK | DF_MASK));
}

/* ---- The guest ---- */

static uint64_t guest_efer(CPUX86State *env)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    const bool long_mode = x86_vmx_at_entry(env, VMX_VM_ENTRY_IA32E_MODE);

    if (x86_vmx_at_entry(env, VMX_VM_ENTRY_LOAD_IA32_EFER)) {
        return vmcs[VMCS_GUEST_EFER];
    }
    return efer_with_mode(env->efer, long_mode);
}

static void load_interruptibility(CPUX86State *env)
{
    const uint32_t blocking = x86_vmx_of(env)->vmcs[VMCS_GUEST_INTERRUPTIBILITY];

    env->hflags &= ~HF_INHIBIT_IRQ_MASK;
    if (blocking & (BLOCKING_STI | BLOCKING_MOV_SS)) {
        env->hflags |= HF_INHIBIT_IRQ_MASK;
    }
    env->hflags2 &= ~(HF2_NMI_MASK | HF2_VMX_MOV_SS_MASK);
    if (blocking & BLOCKING_MOV_SS) {
        env->hflags2 |= HF2_VMX_MOV_SS_MASK;
    }
    if (blocking & BLOCKING_NMI) {
        env->hflags2 |= HF2_NMI_MASK;
    }
}

void x86_vmx_load_guest(CPUX86State *env)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    load_control(env, vmcs[VMCS_GUEST_CR0], vmcs[VMCS_GUEST_CR3], vmcs[VMCS_GUEST_CR4],
                 guest_efer(env));
    if (x86_vmx_at_entry(env, VMX_VM_ENTRY_LOAD_DEBUG_CONTROLS)) {
        helper_set_dr(env, 7, vmcs[VMCS_GUEST_DR7]);
    }
    if (x86_vmx_at_entry(env, VMX_VM_ENTRY_LOAD_IA32_PAT)) {
        env->pat = vmcs[VMCS_GUEST_PAT];
    }
    env->sysenter_cs = vmcs[VMCS_GUEST_SYSENTER_CS];
    env->sysenter_esp = vmcs[VMCS_GUEST_SYSENTER_ESP];
    env->sysenter_eip = vmcs[VMCS_GUEST_SYSENTER_EIP];
    set_flags(env, vmcs[VMCS_GUEST_RFLAGS]);
    load_segments(env);
    env->regs[R_ESP] = vmcs[VMCS_GUEST_RSP];
    env->eip = vmcs[VMCS_GUEST_RIP];
    load_interruptibility(env);
}

static uint32_t interruptibility(CPUX86State *env)
{
    const uint32_t shadow = env->hflags2 & HF2_VMX_MOV_SS_MASK ? BLOCKING_MOV_SS : BLOCKING_STI;

    return (env->hflags & HF_INHIBIT_IRQ_MASK ? shadow : 0) |
           (env->hflags2 & HF2_NMI_MASK ? BLOCKING_NMI : 0);
}

/*
 * Where a trap of RFLAGS.TF is held back, VM entry wants to see it: TCG has none there. If the exit
 * is that trap, behind STI, it is not pending any more.
 */
static uint64_t pending_debug(CPUX86State *env)
{
    const struct X86Vmx *vmx = x86_vmx_of(env);
    const bool is_trap = vmx->exit.event && (vmx->exit.event & 0xff) == EXCP01_DB;
    const bool held = ((env->hflags & HF_INHIBIT_IRQ_MASK) && !is_trap) || vmx->halted;

    return vmx->pending_debug | (held && (env->eflags & TF_MASK) ? VMX_PENDING_BS : 0);
}

/* With EPT, a guest with PAE paging has its PDPTEs in the VMCS; those that it cannot read are 0. */
static void save_pdptes(CPUX86State *env)
{
    const bool pae =
        (env->cr[0] & CR0_PG_MASK) && (env->cr[4] & CR4_PAE_MASK) && !(env->hflags & HF_LMA_MASK);
    const uint64_t table = env->cr[3] & 0xffffffe0;
    uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    if (!pae || !(env->hflags2 & HF2_NPT_MASK)) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        struct x86_ept to;
        const bool found = x86_ept_walk(env, table + i * 8, MMU_DATA_LOAD, &to);

        vmcs[VMCS_GUEST_PDPTE0 + i] = found ? x86_ldq_phys(env_cpu(env), to.physical) : 0;
    }
}

void x86_vmx_save_guest(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    uint64_t *vmcs = vmx->vmcs;

    vmcs[VMCS_GUEST_CR0] = env->cr[0];
    vmcs[VMCS_GUEST_CR3] = env->cr[3];
    vmcs[VMCS_GUEST_CR4] = env->cr[4];
    if (x86_vmx_at_exit(env, VMX_VM_EXIT_SAVE_DEBUG_CONTROLS)) {
        vmcs[VMCS_GUEST_DR7] = env->dr[7];
    }
    if (x86_vmx_at_exit(env, VMX_VM_EXIT_SAVE_IA32_PAT)) {
        vmcs[VMCS_GUEST_PAT] = env->pat;
    }
    if (x86_vmx_at_exit(env, VMX_VM_EXIT_SAVE_IA32_EFER)) {
        vmcs[VMCS_GUEST_EFER] = env->efer;
    }
    if (env->features[FEAT_VMX_MISC] & MSR_VMX_MISC_STORE_LMA) {
        vmcs[VMCS_ENTRY_CONTROLS] &= ~(uint64_t)VMX_VM_ENTRY_IA32E_MODE;
        vmcs[VMCS_ENTRY_CONTROLS] |= env->efer & MSR_EFER_LMA ? VMX_VM_ENTRY_IA32E_MODE : 0;
    }
    vmcs[VMCS_GUEST_SYSENTER_CS] = env->sysenter_cs;
    vmcs[VMCS_GUEST_SYSENTER_ESP] = env->sysenter_esp;
    vmcs[VMCS_GUEST_SYSENTER_EIP] = env->sysenter_eip;
    save_segments(env);
    vmcs[VMCS_GUEST_RSP] = env->regs[R_ESP];
    vmcs[VMCS_GUEST_RIP] = env->eip;
    vmcs[VMCS_GUEST_RFLAGS] = cpu_compute_eflags(env);
    vmcs[VMCS_GUEST_INTERRUPTIBILITY] = interruptibility(env);
    vmcs[VMCS_GUEST_ACTIVITY] = vmx->halted ? ACTIVITY_HLT : 0;
    vmcs[VMCS_GUEST_PENDING_DEBUG] = pending_debug(env);
    save_pdptes(env);
    vmcs[VMCS_GUEST_RTIT_CTL] = x86_vmx_trace_ctl(env);
}

/* ---- The host ---- */

static uint64_t host_efer(CPUX86State *env)
{
    const bool long_mode = x86_vmx_at_exit(env, VMX_VM_EXIT_HOST_ADDR_SPACE_SIZE);

    if (x86_vmx_at_exit(env, VMX_VM_EXIT_LOAD_IA32_EFER)) {
        return x86_vmx_of(env)->vmcs[VMCS_HOST_EFER];
    }
    return efer_with_mode(env->efer, long_mode);
}

static void load_host_code(CPUX86State *env, uint64_t selector)
{
    const bool long_mode = x86_vmx_at_exit(env, VMX_VM_EXIT_HOST_ADDR_SPACE_SIZE);

    cpu_x86_load_seg_cache(env, R_CS, selector, 0, UINT32_MAX,
                           DESC_G_MASK | DESC_P_MASK | DESC_S_MASK | DESC_CS_MASK | DESC_R_MASK |
                               DESC_A_MASK | (long_mode ? DESC_L_MASK : DESC_B_MASK));
}

static void load_host_data(CPUX86State *env, int segment, uint64_t selector, uint64_t base)
{
    const uint32_t flags =
        DESC_G_MASK | DESC_B_MASK | DESC_P_MASK | DESC_S_MASK | DESC_W_MASK | DESC_A_MASK;

    cpu_x86_load_seg_cache(env, segment, selector, base, UINT32_MAX, selector ? flags : 0);
}

static void load_host_segments(CPUX86State *env)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    load_host_code(env, vmcs[VMCS_HOST_CS_SELECTOR]);
    load_host_data(env, R_SS, vmcs[VMCS_HOST_SS_SELECTOR], 0);
    load_host_data(env, R_DS, vmcs[VMCS_HOST_DS_SELECTOR], 0);
    load_host_data(env, R_ES, vmcs[VMCS_HOST_ES_SELECTOR], 0);
    load_host_data(env, R_FS, vmcs[VMCS_HOST_FS_SELECTOR], vmcs[VMCS_HOST_FS_BASE]);
    load_host_data(env, R_GS, vmcs[VMCS_HOST_GS_SELECTOR], vmcs[VMCS_HOST_GS_BASE]);
    env->tr = (SegmentCache){
        .selector = vmcs[VMCS_HOST_TR_SELECTOR],
        .base = vmcs[VMCS_HOST_TR_BASE],
        .limit = 0x67,
        .flags = DESC_P_MASK | 11 << DESC_TYPE_SHIFT,
    };
    env->ldt = (SegmentCache){0};
    load_table(&env->gdt, vmcs[VMCS_HOST_GDTR_BASE], 0xffff);
    load_table(&env->idt, vmcs[VMCS_HOST_IDTR_BASE], 0xffff);
}

void x86_vmx_load_host(CPUX86State *env)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    load_control(env, vmcs[VMCS_HOST_CR0], vmcs[VMCS_HOST_CR3], vmcs[VMCS_HOST_CR4],
                 host_efer(env));
    helper_set_dr(env, 7, DR7_FIXED_1);
    if (x86_vmx_at_exit(env, VMX_VM_EXIT_LOAD_IA32_PAT)) {
        env->pat = vmcs[VMCS_HOST_PAT];
    }
    env->sysenter_cs = vmcs[VMCS_HOST_SYSENTER_CS];
    env->sysenter_esp = vmcs[VMCS_HOST_SYSENTER_ESP];
    env->sysenter_eip = vmcs[VMCS_HOST_SYSENTER_EIP];
    set_flags(env, 0);
    load_host_segments(env);
    env->regs[R_ESP] = vmcs[VMCS_HOST_RSP];
    env->eip = vmcs[VMCS_HOST_RIP];
}

/* ---- MSR areas: index, 32 bits that are 0, value ---- */

struct msr_entry {
    uint64_t index, value;
};

static struct msr_entry entry_at(CPUX86State *env, uint64_t area, uint32_t i)
{
    CPUState *cs = env_cpu(env);

    return (struct msr_entry){
        .index = x86_ldq_phys(cs, area + i * 16ull),
        .value = x86_ldq_phys(cs, area + i * 16ull + 8),
    };
}

/* MSRs that the areas must not name (kvm: nested_vmx_load_msr_check() and its like). */
static bool is_excluded(uint64_t index, bool load)
{
    return index > UINT32_MAX || index >> 8 == MSR_X2APIC >> 8 || index == MSR_IA32_UCODE_REV ||
           index == MSR_UCODE ||
           (load ? index == MSR_FSBASE || index == MSR_GSBASE || index == MSR_SMM_CTL
                 : index == MSR_SMBASE);
}

static bool is_address_msr(uint32_t msr)
{
    return msr == MSR_IA32_SYSENTER_ESP || msr == MSR_IA32_SYSENTER_EIP || msr == MSR_LSTAR ||
           msr == MSR_CSTAR || msr == MSR_KERNELGSBASE || msr == MSR_FSBASE || msr == MSR_GSBASE;
}

/* As WRMSR does it; false: it faults. */
static bool write_msr(CPUX86State *env, const struct msr_entry *entry)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const uint64_t rax = env->regs[R_EAX], rcx = env->regs[R_ECX], rdx = env->regs[R_EDX];

    if (is_address_msr(entry->index) && !x86_vmx_is_canonical(env, entry->value)) {
        return false;
    }
    env->regs[R_ECX] = entry->index;
    env->regs[R_EAX] = (uint32_t)entry->value;
    env->regs[R_EDX] = entry->value >> 32;
    vmx->loads_msrs = true;
    vmx->msr_failed = false;
    helper_wrmsr(env);
    vmx->loads_msrs = false;
    env->regs[R_EAX] = rax;
    env->regs[R_ECX] = rcx;
    env->regs[R_EDX] = rdx;
    return !vmx->msr_failed;
}

static bool read_msr(CPUX86State *env, struct msr_entry *entry)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const uint64_t rax = env->regs[R_EAX], rcx = env->regs[R_ECX], rdx = env->regs[R_EDX];

    env->regs[R_ECX] = entry->index;
    vmx->loads_msrs = true;
    vmx->msr_failed = false;
    helper_rdmsr(env);
    vmx->loads_msrs = false;
    entry->value = (uint32_t)env->regs[R_EAX] | env->regs[R_EDX] << 32;
    env->regs[R_EAX] = rax;
    env->regs[R_ECX] = rcx;
    env->regs[R_EDX] = rdx;
    return !vmx->msr_failed;
}

/* False: the processor would not load it. What the trace is to load, it loads later. */
static bool load_entry(CPUX86State *env, const struct msr_entry *entry, uint32_t number,
                       struct x86_vmx_trace_loads *trace)
{
    if (number > X86_VMX_AREA_MAX || is_excluded(entry->index, true)) {
        return false;
    }
    if (!x86_vmx_trace_owns(env, entry->index)) {
        return write_msr(env, entry);
    }
    trace->number[trace->count] = number;
    trace->load[trace->count++] = (struct vpt_msr_load){.msr = entry->index, .value = entry->value};
    return true;
}

uint32_t x86_vmx_load_msrs(CPUX86State *env, uint64_t area, uint32_t count,
                           struct x86_vmx_trace_loads *trace)
{
    trace->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct msr_entry entry = entry_at(env, area, i);

        if (!load_entry(env, &entry, i + 1, trace)) {
            return i + 1;
        }
    }
    return 0;
}

uint32_t x86_vmx_store_msrs(CPUX86State *env, uint64_t area, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct msr_entry entry = entry_at(env, area, i);

        if (i == X86_VMX_AREA_MAX || is_excluded(entry.index, false) || !read_msr(env, &entry)) {
            return i + 1;
        }
        x86_stq_phys(env_cpu(env), area + i * 16ull + 8, entry.value);
    }
    return 0;
}
