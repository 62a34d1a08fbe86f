/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest on KVM (-accel kvm,vpt=on): it runs on the processor until it is traced, by itself or by
 * a capture, and then TCG executes it in the same process, with all hooks there are. No packet is
 * guessed, and what is not traced costs nothing. With vpt-source=host-pt, that is so for captures
 * only, and KVM goes on with a guest that traces itself (host-pt.c).
 *
 * All vCPUs are TCG's while one of them is traced: what KVM's vCPUs write, TCG does not see, and it
 * may be code that TCG has translated. Which accelerator has them changes while none of them runs.
 *
 * While TCG executes a vCPU, its registers are "dirty" in KVM's sense: QEMU has the only copy.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/rcu.h"
#include "exec/ramblock.h"
#include "exec/ramlist.h"
#include "hw/boards.h"
#include "hw/i386/x86.h"
#include "tcg/helper-tcg.h"
#include "tcg/tcg-cpu.h"
#include "tcg/tcg.h"
#include "linux/kvm.h"
#include "standard-headers/asm-x86/kvm_para.h"
#include "compat-kvm.h"
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

/* ---- Time ---- */

/* NULL: the vCPU is about to come or to go. */
static struct X86Vpt *vpt_of(CPUState *cs)
{
    return X86_CPU(cs)->vpt;
}

static bool is_alone(void)
{
    return current_machine->smp.max_cpus == 1;
}

/* What to add to TCG's TSC, so that a vCPU reads KVM's, from now until tracing ends. */
static void take_clock(X86CPU *cpu)
{
    struct {
        struct kvm_msrs head;
        struct kvm_msr_entry tsc;
    } msrs = {.head.nmsrs = 1, .tsc.index = MSR_IA32_TSC};

    if (!cpu->vpt->tsc_known) {
        if (kvm_vcpu_ioctl(CPU(cpu), KVM_GET_MSRS, &msrs) != 1) {
            msrs.tsc.data = cpu->env.tsc;
        }
        cpu->env.tsc_offset = msrs.tsc.data - cpu_get_tsc(&cpu->env);
        cpu->vpt->tsc_known = true;
    }
}

void x86_vpt_synchronize(X86CPU *cpu)
{
    cpu_synchronize_state(CPU(cpu));
    take_clock(cpu);
}

/* False: this KVM does not tell. */
static bool kvm_tsc_offset(CPUState *cs, uint64_t *offset)
{
    const struct kvm_device_attr attr = {
        .group = KVM_VCPU_TSC_CTRL, .attr = KVM_VCPU_TSC_OFFSET, .addr = (uintptr_t)offset};

    return kvm_vcpu_ioctl(cs, KVM_GET_DEVICE_ATTR, &attr) == 0;
}

/*
 * The clocks of all vCPUs are taken over at once, and are apart by what KVM says: to look at each
 * of them takes time, and a guest would find that its vCPUs' clocks differ. No vCPU runs.
 */
static void take_clocks(void)
{
    CPUState *cs;
    X86CPU *known = X86_CPU(first_cpu);
    uint64_t base, offset;

    CPU_FOREACH(cs)
    {
        const struct X86Vpt *vpt = vpt_of(cs);

        if (vpt && vpt->tsc_known) { /* its trace has begun */
            known = X86_CPU(cs);
            break;
        }
    }
    take_clock(known);
    if (!kvm_tsc_offset(CPU(known), &offset)) {
        return; /* each by itself, when it is entered */
    }
    base = known->env.tsc_offset - offset;
    CPU_FOREACH(cs)
    {
        if (vpt_of(cs) && kvm_tsc_offset(cs, &offset)) {
            X86_CPU(cs)->env.tsc_offset = base + offset;
            vpt_of(cs)->tsc_known = true;
        }
    }
}

/*
 * Time stands still from the begin of tracing until TCG executes: nothing runs in between. Other
 * vCPUs would run, so with them it goes on.
 */
void x86_vpt_hold_time(X86CPU *cpu)
{
    if (is_alone()) {
        cpu->vpt->held_tsc = cpu_get_tsc(&cpu->env) + cpu->env.tsc_offset;
        cpu->vpt->held = true;
    }
}

static void release_time(X86CPU *cpu)
{
    if (cpu->vpt->held) {
        cpu->env.tsc_offset = cpu->vpt->held_tsc - cpu_get_tsc(&cpu->env);
        cpu->vpt->held = false;
    }
}

/* ---- MSRs ---- */

static bool is_traced(const struct X86Vpt *vpt)
{
    return (vpt_trigger_en(&vpt->guest) && !vpt->host) || vpt->watch;
}

static bool read_msr(X86CPU *cpu, uint32_t msr, uint64_t *value)
{
    return x86_vpt_rdmsr(&cpu->env, msr, value) == X86_VPT_MSR_DONE;
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
    if (is_traced(cpu->vpt)) {
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
        if (!x86_vpt_filter_msrs(ranges[i].first, ranges[i].count, read_msr, write_msr)) {
            return false;
        }
    }
    return true;
}

bool x86_vpt_realize_kvm(CPUState *cs, Error **errp)
{
    static bool filtered;

    if (kvm_irqchip_in_kernel()) {
        error_setg(errp, "vpt=on of KVM needs -machine kernel-irqchip=off");
    } else if (x86_machine_is_smm_enabled(X86_MACHINE(current_machine))) {
        error_setg(errp, "vpt=on of KVM needs -machine smm=off");
    } else if (X86_CPU(cs)->vpt_profile && !filtered && !filter_msrs()) {
        error_setg(errp, "this KVM has no filter of MSRs");
    } else {
        filtered = true;
        x86_tcg_init_ops(CPU_GET_CLASS(cs));
        tcg_init_cpu_beside(cs, !is_alone());
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
 * lets the guest write where it likes.
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
            x86_vpt_invalidate_code(page->address, TARGET_PAGE_SIZE);
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
    tlb_flush(cs);
    cpu->vpt->in_tcg = true;
    x86_vpt_sync(env);
}

static void leave_tcg(X86CPU *cpu)
{
    CPUState *cs = CPU(cpu);
    CPUX86State *env = &cpu->env;

    cpu->vpt->tsc_known = cpu->vpt->held = false;
    env->tsc_offset = 0;
    if (!cpu->vpt->in_tcg) {
        return;
    }
    cpu->vpt->in_tcg = false;
    cpu_breakpoint_remove_all(cs, BP_CPU);
    cpu_watchpoint_remove_all(cs, BP_CPU);
    /* cpu_compute_eflags() adds these. */
    env->cc_op = CC_OP_EFLAGS;
    env->cc_src = 0;
    env->df = 1;
}

static bool tcg_has_them; /* the vCPUs; else KVM has */

static bool is_any_traced(void)
{
    CPUState *cs;

    CPU_FOREACH(cs)
    {
        if (vpt_of(cs) && is_traced(vpt_of(cs))) {
            return true;
        }
    }
    return false;
}

/* No vCPU runs. TCG may take over again what it has. */
static void take_over(CPUState *cs, run_on_cpu_data data)
{
    const bool tcg = is_any_traced(), again = data.host_int;

    if (tcg == tcg_has_them && !again) {
        return; /* another vCPU asked for it as well */
    }
    if (tcg) {
        check_translations(cs);
        take_clocks();
    } else if (tcg_has_them) {
        keep_translations();
        CPU_FOREACH(cs)
        {
            if (vpt_of(cs)) {
                leave_tcg(X86_CPU(cs));
            }
        }
    }
    tcg_has_them = tcg;
}

static void do_nothing(CPUState *cs, run_on_cpu_data data)
{
}

struct vcpu_of_thread {
    Notifier notifier;
    CPUState *cs;
};

/* cpu_exec() reads under RCU; who waits for its end makes it return. */
static void force_rcu(Notifier *notifier, void *data)
{
    async_run_on_cpu(container_of(notifier, struct vcpu_of_thread, notifier)->cs, do_nothing,
                     RUN_ON_CPU_NULL);
}

/* Before TCG's translations are flushed, which gives each thread that is known room for its own. */
static void register_thread(CPUState *cs)
{
    static __thread struct vcpu_of_thread this;

    if (!this.cs) {
        this.cs = cs;
        this.notifier.notify = force_rcu;
        tcg_register_thread();
        rcu_add_force_rcu_notifier(&this.notifier);
    }
}

static int tcg_exec(CPUState *cs)
{
    X86CPU *cpu = X86_CPU(cs);
    int why;

    if (!cpu->vpt->in_tcg) {
        enter_tcg(cpu);
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
    qatomic_set_mb(&cs->exit_request, 0);
    return why;
}

bool x86_vpt_exec(CPUState *cs, int *why)
{
    struct X86Vpt *vpt = vpt_of(cs);
    const bool tcg = is_any_traced();
    /* KVM was given another state, by a reset or the load of a VM. */
    const bool again = tcg && vpt->in_tcg && !cs->vcpu_dirty;

    register_thread(cs);
    if (tcg != tcg_has_them || again) {
        vpt->in_tcg = vpt->in_tcg && !again;
        vpt->tsc_known = vpt->tsc_known && !again;
        async_safe_run_on_cpu(cs, take_over, RUN_ON_CPU_HOST_INT(again));
        *why = EXCP_INTERRUPT;
        return true;
    }
    if (tcg) {
        *why = tcg_exec(cs);
    }
    return tcg;
}
