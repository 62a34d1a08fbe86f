/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCG as a source of events: what translated code and the slow paths of target/i386/tcg call.
 *
 * Every event is told at the end of an instruction that retired, when nothing in it can fault any
 * more, or when a transfer of control has been carried out. Each is the last thing in its
 * translation block, so that restarting a block tells nothing twice.
 */
#include "qemu/osdep.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "hw/i386/apic_internal.h"
#include "compat.h"
#include "vpt-i386.h"

#define VECTOR_DEBUG 1

static inline struct X86Vpt *vpt_of(CPUX86State *env)
{
    return env_archcpu(env)->vpt;
}

void x86_vpt_context(CPUX86State *env, struct vpt_context *ctx)
{
    const uint32_t hflags = env->hflags;
    const bool paging = env->cr[0] & CR0_PG_MASK, pae = env->cr[4] & CR4_PAE_MASK;

    *ctx = (struct vpt_context){
        .cr3 = env->cr[3],
        .cs_base = hflags & HF_CS64_MASK ? 0 : env->segs[R_CS].base,
        .cpl = hflags & HF_CPL_MASK,
        .exec_mode = hflags & HF_CS64_MASK   ? VPT_EXEC_64
                     : hflags & HF_CS32_MASK ? VPT_EXEC_32
                                             : VPT_EXEC_16,
        .pae = paging && pae && !(hflags & HF_LMA_MASK),
        .interrupts = (env->eflags & IF_MASK) != 0,
    };
}

/* ---- hflags ---- */

static uint32_t wanted_by(const struct vpt_cpu *cpu)
{
    return (vpt_trigger_en(cpu) ? HF_VPT_TRIGGER_MASK : 0) |
           (vpt_wants_branches(cpu) ? HF_VPT_BRANCH_MASK : 0) |
           (vpt_wants_jumps(cpu) ? HF_VPT_JUMP_MASK : 0);
}

static inline uint32_t wanted(const struct X86Vpt *vpt)
{
    uint32_t flags = wanted_by(&vpt->guest);

    if (unlikely(vpt->watch)) {
        flags |= wanted_by(vpt->watch);
    }
    return flags;
}

/*
 * Which model alone takes near branches, with nothing else to look at. None: one that is never
 * used, whose tnt_full is 0, so that the code calls.
 */
static void choose_hot(X86CPU *cpu)
{
    struct X86Vpt *vpt = cpu->vpt;
    struct vpt_cpu *model = &vpt->guest;

    if (vpt->watch) {
        model = vpt_wants_branches(&vpt->guest) ? &vpt->full : vpt->watch;
    }
    x86_vpt_neg(cpu)->pinned = (CPUPinned *)(vpt_is_fast(model) ? model : &vpt->full);
}

/* What translated code knows of it. */
QEMU_BUILD_BUG_ON(offsetof(struct vpt_cpu, tnt) != offsetof(CPUPinned, bits));
QEMU_BUILD_BUG_ON(offsetof(struct vpt_cpu, tnt_full) != offsetof(CPUPinned, full));

static inline struct vpt_cpu *hot_of(CPUX86State *env)
{
    return (struct vpt_cpu *)x86_vpt_neg(env_archcpu(env))->pinned;
}

/* Only VMX sends output where it has to wait. */
static inline void look_at_output(CPUX86State *env, const struct X86Vpt *vpt)
{
    if (unlikely(vpt_output_blocked(&vpt->guest)) && vpt->vmx) {
        vpt->vmx->output_waits(env);
    }
}

void x86_vpt_sync(CPUX86State *env)
{
    const struct X86Vpt *vpt = vpt_of(env);
    const bool wanted_any = (env->hflags & HF_VPT_MASK) != 0;

    look_at_output(env, vpt);
    env->hflags = (env->hflags & ~HF_VPT_MASK) | wanted(vpt);
    choose_hot(env_archcpu(env));
    if (unlikely(vpt->in_tcg) && !(env->hflags & HF_VPT_TRIGGER_MASK)) {
        cpu_exit(env_cpu(env)); /* back to KVM */
    }
    if (!wanted_any && (env->hflags & HF_VPT_MASK)) {
        cpu_exit(env_cpu(env)); /* tcg_gen_pin() is of such blocks, and was not of this one */
    }
}

/* After a near branch, whose block may be chained to the next: that one must not run as it is. */
static inline void branch_done(CPUX86State *env, struct X86Vpt *vpt)
{
    const uint32_t flags = wanted(vpt);

    look_at_output(env, vpt);
    choose_hot(vpt->cpu);
    if (unlikely((env->hflags & HF_VPT_MASK) != flags)) {
        env->hflags = (env->hflags & ~HF_VPT_MASK) | flags;
        cpu_exit(env_cpu(env));
    }
}

/* ---- Called by translated code; addresses are linear ---- */

#define TELL(vpt, event, ...)                                                                      \
    do {                                                                                           \
        event(&(vpt)->guest, ##__VA_ARGS__);                                                       \
        if (unlikely((vpt)->watch)) {                                                              \
            event((vpt)->watch, ##__VA_ARGS__);                                                    \
        }                                                                                          \
    } while (0)

/*
 * fast() to the hot model, else event() to all. While the hot one stays fast and its output gets
 * on, nothing that branch_done() looks at changes.
 */
#define TELL_BRANCH(env, fast, event, ...)                                                         \
    do {                                                                                           \
        struct vpt_cpu *const model = hot_of(env);                                                 \
                                                                                                   \
        if (likely(vpt_is_fast(model))) {                                                          \
            fast(model, __VA_ARGS__);                                                              \
            if (likely(vpt_is_fast(model) && !vpt_output_blocked(model))) {                        \
                break;                                                                             \
            }                                                                                      \
        } else {                                                                                   \
            TELL(vpt_of(env), event, __VA_ARGS__);                                                 \
        }                                                                                          \
        branch_done(env, vpt_of(env));                                                             \
    } while (0)

/* The code was not sent here by the hot model unless that one was full. */
static inline void tnt_told(struct vpt_cpu *hot, uint64_t next_ip, bool taken)
{
    vpt_branch_told(hot, next_ip);
}

void helper_vpt_taken(CPUX86State *env, target_ulong target)
{
    TELL_BRANCH(env, tnt_told, vpt_cond_branch, target, true);
}

void helper_vpt_not_taken(CPUX86State *env, target_ulong next)
{
    TELL_BRANCH(env, tnt_told, vpt_cond_branch, next, false);
}

void helper_vpt_jmp(CPUX86State *env, target_ulong target)
{
    struct X86Vpt *vpt = vpt_of(env);

    TELL(vpt, vpt_jmp_direct, target);
    branch_done(env, vpt);
}

void helper_vpt_call(CPUX86State *env, target_ulong target, target_ulong next)
{
    TELL_BRANCH(env, vpt_call_direct, vpt_call_direct, target, next);
}

void helper_vpt_jmp_indirect(CPUX86State *env, target_ulong target)
{
    TELL_BRANCH(env, vpt_jmp_indirect, vpt_jmp_indirect, target);
}

static inline void call_pushed(struct vpt_cpu *hot, uint64_t target, uint64_t next)
{
    vpt_jmp_indirect(hot, target);
}

/* An indirect CALL that the code put on the stack of the hot model. */
void helper_vpt_call_pushed(CPUX86State *env, target_ulong target)
{
    struct vpt_cpu *const hot = hot_of(env);
    const uint64_t next = *vpt_ret_at(hot, vpt_ret_youngest(hot));

    if (unlikely(!vpt_is_fast(hot))) {
        vpt_ret_pop(hot);
    }
    TELL_BRANCH(env, call_pushed, vpt_call_indirect, target, next);
}

void helper_vpt_ret(CPUX86State *env, target_ulong target)
{
    TELL_BRANCH(env, vpt_ret, vpt_ret, target);
}

static void tell_transfer(CPUX86State *env, struct vpt_transfer *transfer)
{
    transfer->target = x86_vpt_linear(env);
    x86_vpt_context(env, &transfer->after);
    TELL(vpt_of(env), vpt_transfer, transfer);
    x86_vpt_look(env_archcpu(env));
    x86_vpt_sync(env);
}

void helper_vpt_far(CPUX86State *env, uint32_t type, target_ulong ip)
{
    struct vpt_transfer transfer = {.type = type, .ip = ip};

    tell_transfer(env, &transfer);
}

void helper_vpt_mov_cr3(CPUX86State *env, target_ulong next)
{
    TELL(vpt_of(env), vpt_mov_cr3, env->cr[3], next);
    x86_vpt_new_space(env_archcpu(env));
    x86_vpt_sync(env);
}

void helper_vpt_interrupt_flag(CPUX86State *env, target_ulong ip)
{
    TELL(vpt_of(env), vpt_interrupt_flag, (env->eflags & IF_MASK) != 0, ip);
}

void helper_vpt_ptwrite(CPUX86State *env, uint64_t value, uint32_t size_bytes, target_ulong ip)
{
    struct X86Vpt *vpt = vpt_of(env);

    TELL(vpt, vpt_ptwrite, value, size_bytes, ip);
    branch_done(env, vpt);
}

/* ---- Called by the slow paths ---- */

static enum vpt_transfer_type exception_type(const CPUX86State *env, int vector)
{
    /* Of exceptions that are not instructions of their own, only some #DB are traps. */
    if (vector == VECTOR_DEBUG && (env->dr[6] & (DR6_BS | DR6_BT))) {
        return VPT_TRAP;
    }
    return VPT_FAULT;
}

void x86_vpt_wake(struct X86Vpt *vpt)
{
    const struct vpt_power_exit exit = {.reason = VPT_WAKE_INTERRUPT};

    vpt->asleep = false;
    TELL(vpt, vpt_power_exit, &exit);
}

void x86_vpt_interrupt(CPUX86State *env, int vector, bool software, bool hardware, uint64_t ip)
{
    struct X86Vpt *vpt = vpt_of(env);
    struct vpt_transfer transfer = {.vector = vector, .ip = ip, .cr2 = env->cr[2]};

    if (vpt->asleep) {
        x86_vpt_wake(vpt);
    }
    if (!(env->hflags & HF_VPT_TRIGGER_MASK)) {
        return;
    }
    transfer.type = hardware   ? VPT_INTERRUPT
                    : software ? VPT_SOFT_INTERRUPT
                               : exception_type(env, vector);
    tell_transfer(env, &transfer);
}

void x86_vpt_sleep(CPUX86State *env, bool mwait, int insn_bytes)
{
    struct X86Vpt *vpt = vpt_of(env);
    struct vpt_power_entry entry = {.ip = x86_vpt_linear(env) - insn_bytes, .mwait = mwait};

    if (!(env->hflags & HF_VPT_TRIGGER_MASK)) {
        return;
    }
    if (mwait) {
        entry.hints = env->regs[R_EAX];
        entry.ext = env->regs[R_ECX] & 3;
    }
    vpt->asleep = true;
    TELL(vpt, vpt_power_entry, &entry);
    x86_vpt_look(env_archcpu(env));
}

void x86_vpt_init_begin(X86CPU *cpu)
{
    cpu->vpt->in_init = true;
    if (kvm_enabled()) {
        x86_vpt_host_elsewhere(cpu);
    }
}

void x86_vpt_init_end(X86CPU *cpu)
{
    struct vpt_transfer transfer = {
        .type = cpu_is_bsp(cpu) ? VPT_INIT : VPT_INIT_WAIT,
        .ip = cpu->vpt->reset_ip,
    };

    cpu->vpt->in_init = false;
    cpu->vpt->asleep = false;
    tell_transfer(&cpu->env, &transfer);
}

bool x86_vpt_waits_for_sipi(X86CPU *cpu)
{
    return cpu->apic_state && APIC_COMMON(cpu->apic_state)->wait_for_sipi;
}

void x86_vpt_sipi(X86CPU *cpu)
{
    const uint8_t vector = cpu->env.segs[R_CS].selector >> 8;
    struct vpt_transfer transfer = {.type = VPT_SIPI, .vector = vector};

    tell_transfer(&cpu->env, &transfer);
}

/* A capture goes on in SMM. It has no packet for the way in; an interrupt is what it is like. */
static void tell_watch(X86CPU *cpu, enum vpt_transfer_type type, uint64_t ip)
{
    struct vpt_transfer transfer = {.type = type, .ip = ip, .target = x86_vpt_linear(&cpu->env)};

    if (cpu->vpt->watch) {
        x86_vpt_context(&cpu->env, &transfer.after);
        vpt_transfer(cpu->vpt->watch, &transfer);
    }
}

void x86_vpt_smi(X86CPU *cpu, uint64_t ip)
{
    CPUX86State *env = &cpu->env;
    struct X86Vpt *vpt = cpu->vpt;

    if (vpt->enabled) {
        vpt->smm_traceen = vpt_smi(&vpt->guest, ip);
    }
    tell_watch(cpu, VPT_INTERRUPT, ip);
    x86_vpt_sync(env);
}

void x86_vpt_rsm(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    struct X86Vpt *vpt = cpu->vpt;
    struct vpt_context ctx;

    if (vpt->enabled) {
        x86_vpt_context(env, &ctx);
        /* False would be a shutdown; SMRAM is out of the reach of software that could cause it. */
        vpt_rsm(&vpt->guest, vpt->smm_traceen, x86_vpt_linear(env), &ctx);
    }
    tell_watch(cpu, VPT_FAR_BRANCH, 0);
    x86_vpt_sync(env);
}
