/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest on KVM (-accel kvm,vpt=on): it runs on the processor until it is traced, by itself or by
 * a capture, and then TCG executes it in the same process, with all hooks there are. No packet is
 * guessed, and what is not traced costs nothing. With vpt-source=host-pt, that is so for captures
 * only, and KVM goes on with a guest that traces itself (host-pt.c).
 *
 * While TCG executes the vCPU, its registers are "dirty" in KVM's sense: QEMU has the only copy.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/rcu.h"
#include "exec/ramblock.h"
#include "exec/ramlist.h"
#include "hw/boards.h"
#include "hw/i386/x86.h"
#include "sysemu/cpus.h"
#include "sysemu/hw_accel.h"
#include "sysemu/kvm_int.h"
#include "tcg/helper-tcg.h"
#include "tcg/tcg-cpu.h"
#include "tcg/tcg.h"
#include "kvm/kvm_i386.h"
#include "linux/kvm.h"
#include "standard-headers/asm-x86/kvm_para.h"
#include "compat.h"
#include "vpt-i386.h"

/* ---- The CPU model ---- */

uint64_t x86_vpt_common_features(FeatureWord word, uint64_t kvm, uint64_t tcg)
{
    switch (word) {
    case FEAT_KVM: /* no hypercalls, and nothing that KVM would do to memory behind TCG's back */
        return kvm & (1u << KVM_FEATURE_CLOCKSOURCE | 1u << KVM_FEATURE_NOP_IO_DELAY |
                      1u << KVM_FEATURE_CLOCKSOURCE2 | 1u << KVM_FEATURE_CLOCKSOURCE_STABLE_BIT);
    case FEAT_7_0_EBX:
        return (kvm & tcg) | (tcg & CPUID_7_0_EBX_INTEL_PT);
    case FEAT_1_ECX: /* VMs that KVM has begun could not go on */
        return kvm & tcg & ~CPUID_EXT_VMX;
    case FEAT_8000_0001_ECX:
        return kvm & tcg & ~CPUID_EXT3_SVM;
    default:
        return kvm & tcg;
    }
}

static bool read_msr(X86CPU *cpu, uint32_t msr, uint64_t *value)
{
    return x86_vpt_rdmsr(&cpu->env, msr, value) == X86_VPT_MSR_DONE;
}

/* The TSC of what KVM executes, as one that TCG reads, from now until tracing ends. */
void x86_vpt_synchronize(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;

    cpu_synchronize_state(CPU(cpu));
    if (kvm_enabled() && !cpu->vpt->tsc_known) {
        env->tsc_offset = env->tsc - cpu_get_tsc(env);
        cpu->vpt->tsc_known = true;
    }
}

/* Time stands still from the begin of tracing until TCG executes: nothing runs in between. */
void x86_vpt_hold_time(X86CPU *cpu)
{
    cpu->vpt->held_tsc = cpu_get_tsc(&cpu->env) + cpu->env.tsc_offset;
    cpu->vpt->held = true;
}

static void release_time(X86CPU *cpu)
{
    if (cpu->vpt->held) {
        cpu->env.tsc_offset = cpu->vpt->held_tsc - cpu_get_tsc(&cpu->env);
        cpu->vpt->held = false;
    }
}

/* KVM finishes the WRMSR when it is left, which it is if tracing begins. */
static bool write_msr(X86CPU *cpu, uint32_t msr, uint64_t value)
{
    CPUState *cs = CPU(cpu);
    const bool dirty = cs->vcpu_dirty;
    enum x86_vpt_msr result;

    x86_vpt_synchronize(cpu);
    cpu->env.vpt_next_eip = cpu->env.eip + 2; /* 0F 30; prefixes have no meaning */
    result = x86_vpt_wrmsr(&cpu->env, msr, value);
    cs->vcpu_dirty = dirty;
    if (x86_vpt_wants_tcg(cs)) {
        x86_vpt_hold_time(cpu);
        qatomic_set(&cs->exit_request, 1);
    } else {
        cpu->vpt->tsc_known = false;
    }
    return result == X86_VPT_MSR_DONE;
}

static bool filter_msrs(void)
{
    static const struct {
        uint32_t first, count;
    } ranges[] = {
        {VPT_MSR_OUTPUT_BASE, 64}, {MSR_PLATFORM_INFO, 1},        {MSR_P6_PERFCTR0, 8},
        {MSR_P6_EVNTSEL0, 8},      {MSR_CORE_PERF_FIXED_CTR0, 4}, {MSR_CORE_PERF_FIXED_CTR_CTRL, 4},
    };

    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
        if (!kvm_filter_msrs(kvm_state, ranges[i].first, ranges[i].count, read_msr, write_msr)) {
            return false;
        }
    }
    return true;
}

bool x86_vpt_realize_kvm(CPUState *cs, Error **errp)
{
    static bool filtered;

    if (current_machine->smp.max_cpus > 1) {
        error_setg(errp, "vpt=on of KVM is for one vCPU");
    } else if (kvm_irqchip_in_kernel()) {
        error_setg(errp, "vpt=on of KVM needs -machine kernel-irqchip=off");
    } else if (x86_machine_is_smm_enabled(X86_MACHINE(current_machine))) {
        error_setg(errp, "vpt=on of KVM needs -machine smm=off");
    } else if (X86_CPU(cs)->vpt_profile && !filtered && !filter_msrs()) {
        error_setg(errp, "this KVM has no filter of MSRs");
    } else {
        filtered = true;
        x86_tcg_init_ops(CPU_GET_CLASS(cs));
        return true;
    }
    return false;
}

/* ---- From KVM to TCG and back ---- */

/* An event that KVM was about to deliver is TCG's to deliver. */
static void take_event(CPUState *cs, CPUX86State *env)
{
    if (env->interrupt_injected >= 0) {
        cs->exception_index = env->interrupt_injected;
        env->exception_is_int = env->soft_interrupt;
    } else if (env->exception_injected || env->exception_pending) {
        cs->exception_index = env->exception_nr;
        env->exception_is_int = 0;
    } else if (env->nmi_injected || env->nmi_pending) {
        cs->interrupt_request |= CPU_INTERRUPT_NMI;
    }
    env->exception_next_eip = env->eip;
    env->interrupt_injected = -1;
    env->exception_nr = -1;
    env->exception_injected = env->exception_pending = 0;
    env->nmi_injected = env->nmi_pending = 0;
}

/*
 * The pages that TCG has translations of, as they were when KVM took over, by their address: KVM
 * lets the guest write where it likes. There is one vCPU.
 */
static GHashTable *translated;

struct page {
    uint64_t address; /* in ram_addr_t's terms */
    uint8_t bytes[TARGET_PAGE_SIZE];
};

/* NULL: the memory is not there any more. */
static const uint8_t *page_bytes(uint64_t address)
{
    RAMBlock *block;

    RAMBLOCK_FOREACH(block)
    {
        if (address - block->offset < block->used_length) {
            return block->host + (address - block->offset);
        }
    }
    return NULL;
}

static bool keep_page(tb_page_addr_t address)
{
    const uint64_t key = address & TARGET_PAGE_MASK;
    const uint8_t *bytes;
    struct page *page;

    if (address == (tb_page_addr_t)-1 || g_hash_table_contains(translated, &key)) {
        return true;
    }
    bytes = page_bytes(key);
    if (!bytes) {
        return false;
    }
    page = g_new(struct page, 1);
    page->address = key;
    memcpy(page->bytes, bytes, TARGET_PAGE_SIZE);
    g_hash_table_insert(translated, &page->address, page);
    return true;
}

static gboolean keep_pages(gpointer key, gpointer value, gpointer data)
{
    const TranslationBlock *tb = value;
    bool *all = data;

    if (!(tb_cflags(tb) & CF_INVALID)) {
        *all = keep_page(tb_page_addr0(tb)) && keep_page(tb_page_addr1(tb));
    }
    return !*all;
}

static void keep_translations(void)
{
    bool all = true;

    RCU_READ_LOCK_GUARD();
    translated = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
    tcg_tb_foreach(keep_pages, &all);
    if (!all) {
        g_clear_pointer(&translated, g_hash_table_destroy);
    }
}

/* Throws away translations of pages that are others now. False: nobody knows which. */
static bool check_pages(void)
{
    GHashTableIter pages;
    gpointer value;

    RCU_READ_LOCK_GUARD();
    g_hash_table_iter_init(&pages, translated);
    while (g_hash_table_iter_next(&pages, NULL, &value)) {
        const struct page *page = value;
        const uint8_t *bytes = page_bytes(page->address);

        if (!bytes) {
            return false;
        }
        if (memcmp(page->bytes, bytes, TARGET_PAGE_SIZE) != 0) {
            tb_invalidate_phys_range(page->address, page->address + TARGET_PAGE_SIZE);
        }
    }
    return true;
}

static void check_translations(CPUState *cs)
{
    if (!translated || !check_pages()) {
        tb_flush(cs);
    }
    g_clear_pointer(&translated, g_hash_table_destroy);
}

static void set_breakpoints(CPUState *cs, CPUX86State *env)
{
    const target_ulong dr7 = env->dr[7];

    cpu_breakpoint_remove_all(cs, BP_CPU);
    cpu_watchpoint_remove_all(cs, BP_CPU);
    env->dr[7] = dr7 & ~(DR7_GLOBAL_BP_MASK | DR7_LOCAL_BP_MASK);
    cpu_x86_update_dr7(env, dr7);
}

/* What cpu_post_load() does, and what only TCG keeps. */
static void enter_tcg(X86CPU *cpu)
{
    CPUState *cs = CPU(cpu);
    CPUX86State *env = &cpu->env;

    x86_vpt_synchronize(cpu);
    x86_vpt_host_elsewhere(cpu);
    cpu_load_efer(env, env->efer);
    cpu_x86_update_cr4(env, env->cr[4]);
    update_fp_status(env);
    update_mxcsr_status(env);
    set_breakpoints(cs, env);
    take_event(cs, env);
    check_translations(cs);
    tlb_flush(cs);
    cpu->vpt->in_tcg = true;
    x86_vpt_sync(env);
}

static void leave_tcg(X86CPU *cpu)
{
    CPUState *cs = CPU(cpu);
    CPUX86State *env = &cpu->env;

    cpu->vpt->in_tcg = false;
    keep_translations();
    cpu_breakpoint_remove_all(cs, BP_CPU);
    cpu_watchpoint_remove_all(cs, BP_CPU);
    /* cpu_compute_eflags() adds these. */
    env->cc_op = CC_OP_EFLAGS;
    env->cc_src = 0;
    env->df = 1;
    env->tsc_offset = 0;
    cpu->vpt->tsc_known = cpu->vpt->held = false;
}

bool x86_vpt_wants_tcg(CPUState *cs)
{
    X86CPU *cpu = X86_CPU(cs);
    const struct X86Vpt *vpt = cpu->vpt;
    const bool wanted =
        tcg_enabled() && ((vpt_trigger_en(&vpt->guest) && !vpt->host) || vpt->watch);

    if (!wanted && vpt->in_tcg && qemu_cpu_is_self(cs)) {
        leave_tcg(cpu);
    }
    return wanted;
}

static void do_nothing(CPUState *cs, run_on_cpu_data data)
{
}

/* cpu_exec() reads under RCU; who waits for its end makes it return. There is one vCPU. */
static void force_rcu(Notifier *notifier, void *data)
{
    async_run_on_cpu(first_cpu, do_nothing, RUN_ON_CPU_NULL);
}

static void register_thread(void)
{
    static Notifier notifier = {.notify = force_rcu};
    static __thread bool registered;

    if (!registered) {
        tcg_register_thread();
        rcu_add_force_rcu_notifier(&notifier);
        registered = true;
    }
}

int x86_vpt_tcg_exec(CPUState *cs)
{
    X86CPU *cpu = X86_CPU(cs);
    int why;

    register_thread();
    if (!cpu->vpt->in_tcg || !cs->vcpu_dirty) {
        enter_tcg(cpu);
        return EXCP_INTERRUPT; /* tb_flush() would be work that is queued */
    }
    release_time(cpu);
    bql_unlock();
    cpu_exec_start(cs);
    why = cpu_exec(cs);
    cpu_exec_end(cs);
    if (why == EXCP_ATOMIC) {
        cpu_exec_step_atomic(cs);
    }
    bql_lock();
    qatomic_mb_set(&cs->exit_request, 0);
    return why;
}
