/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the models ask of the machine: guest memory, clocks, the PMI.
 */
#include "qemu/osdep.h"
#include "exec/address-spaces.h"
#include "exec/memory-internal.h"
#include "exec/ram_addr.h"
#include "hw/i386/apic.h"
#include "hw/i386/apic_internal.h"
#include "compat.h"
#include "vpt-i386.h"

static uint64_t a20(const CPUX86State *env, uint64_t gpa)
{
    return gpa & (uint64_t)(int64_t)env->a20_mask;
}

static bool is_apic_page(X86CPU *cpu, uint64_t gpa)
{
    uint64_t base;

    if (!cpu->apic_state) {
        return false;
    }
    base = cpu_get_apic_base(cpu->apic_state);
    return (base & MSR_IA32_APICBASE_ENABLE) && ((gpa ^ base) & TARGET_PAGE_MASK) == 0;
}

/* Trace output of VMX guests may go through EPT; nothing else of a nested guest gets here. */
static bool to_physical(struct X86Vpt *vpt, uint64_t *address, enum vpt_access access)
{
    return !vpt->vmx || !vpt_output_by_ept(&vpt->guest) ||
           vpt->vmx->by_ept(&vpt->cpu->env, address, access);
}

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct X86Vpt *vpt = owner;
    hwaddr offset, len = len_bytes;
    MemoryRegion *mr;

    *span = (struct vpt_span){.kind = VPT_SPAN_UNBACKED, .len_bytes = len_bytes};
    if (!to_physical(vpt, &gpa, access)) {
        span->kind = VPT_SPAN_FAULT;
        return;
    }
    if (is_apic_page(vpt->cpu, gpa)) {
        span->kind = VPT_SPAN_APIC;
        return;
    }
    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(CPU(vpt->cpu)->as, a20(&vpt->cpu->env, gpa), &offset, &len,
                                 access == VPT_WRITE_OUTPUT, MEMTXATTRS_UNSPECIFIED);
    span->len_bytes = len;
    if (memory_region_is_ram(mr) && !memory_region_is_ram_device(mr)) {
        span->kind = memory_region_is_rom(mr) ? VPT_SPAN_READONLY : VPT_SPAN_RAM;
        span->host = (uint8_t *)memory_region_get_ram_ptr(mr) + offset;
    } else if (memory_region_is_romd(mr)) {
        span->kind = VPT_SPAN_READONLY;
        span->host = (uint8_t *)memory_region_get_ram_ptr(mr) + offset;
    } else if (mr->ops != &unassigned_mem_ops) {
        span->kind = VPT_SPAN_MMIO;
    }
}

/* Code that was translated from these bytes is gone, and migration and displays see them. */
static void tell_write(MemoryRegion *mr, hwaddr offset, hwaddr len)
{
    const ram_addr_t ram = memory_region_get_ram_addr(mr) + offset;
    uint8_t log = memory_region_get_dirty_log_mask(mr);

    if (log) {
        log = cpu_physical_memory_range_includes_clean(ram, len, log);
    }
    if (tcg_enabled() && (log & (1 << DIRTY_MEMORY_CODE))) {
        x86_vpt_invalidate_code(ram, len);
        log &= ~(1 << DIRTY_MEMORY_CODE);
    }
    cpu_physical_memory_set_dirty_range(ram, len, log);
}

bool x86_vpt_exchange(CPUX86State *env, uint64_t address, uint64_t old, uint64_t new)
{
    hwaddr offset, len = sizeof(new);
    MemoryRegion *mr;
    uint64_t *host;

    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(env_cpu(env)->as, a20(env, address), &offset, &len, true,
                                 MEMTXATTRS_UNSPECIFIED);
    if (len < sizeof(new) || !memory_region_is_ram(mr) || memory_region_is_rom(mr)) {
        x86_stq_phys(env_cpu(env), address, new);
        return true;
    }
    host = (uint64_t *)((uint8_t *)memory_region_get_ram_ptr(mr) + offset);
    if (qatomic_cmpxchg(host, cpu_to_le64(old), cpu_to_le64(new)) != cpu_to_le64(old)) {
        return false;
    }
    tell_write(mr, offset, sizeof(new));
    return true;
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct X86Vpt *vpt = owner;
    hwaddr offset, len = len_bytes;
    MemoryRegion *mr;

    if (!to_physical(vpt, &gpa, VPT_WRITE_OUTPUT)) {
        return;
    }
    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(CPU(vpt->cpu)->as, a20(&vpt->cpu->env, gpa), &offset, &len, true,
                                 MEMTXATTRS_UNSPECIFIED);
    if (memory_region_is_ram(mr)) {
        tell_write(mr, offset, len);
    }
}

/*
 * With icount, neither may the clock be read in a block nor an interrupt be raised, because the
 * count includes the whole block that runs. What is traced stands at the end of its block, so that
 * both are exact here.
 */
static void pmi(void *owner)
{
    struct X86Vpt *vpt = owner;
    CPUState *cs = CPU(vpt->cpu);
    const bool locked = bql_locked();
    const bool could = x86_vpt_set_can_do_io(cs, true);

    if (!locked) {
        bql_lock();
    }
    if (vpt->cpu->apic_state) {
        apic_deliver_pmi(vpt->cpu->apic_state);
    }
    if (!locked) {
        bql_unlock();
    }
    x86_vpt_set_can_do_io(cs, could);
}

/*
 * The TSC as what the model sees run reads it. Amid a VM entry or VM exit, the vCPU is on the other
 * side already.
 */
static uint64_t visible_tsc(CPUX86State *env, bool nonroot, uint64_t tsc)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    const bool guest = env->hflags & HF_GUEST_MASK;

    if (guest) {
        vpt->vm_tsc_offset = env->tsc_offset;
        vpt->vm_tsc_multiplier =
            env->vmx_tsc_multiplier ? env->vmx_tsc_multiplier : env->amd_tsc_scale_msr << 16;
    }
    if (guest == nonroot) {
        return cpu_visible_tsc(env, tsc);
    }
    return nonroot ? vpt_guest_tsc(tsc, vpt->vm_tsc_multiplier, vpt->vm_tsc_offset) : tsc;
}

/* Without ratio and offset. */
static uint64_t raw_tsc(CPUX86State *env)
{
    const struct X86Vpt *vpt = env_archcpu(env)->vpt;

    return vpt->has_told_tsc ? vpt->told_tsc - env->tsc_offset : cpu_get_tsc(env);
}

/*
 * The crystal follows the TSC that the guest of KVM has, but for what the guest itself wrote to it,
 * which KVM keeps in IA32_TSC_ADJUST. It does not follow the ratio and offset of an SVM guest.
 */
void x86_vpt_clocks(X86CPU *cpu, const struct vpt_cpu *model, struct vpt_clocks *now)
{
    const bool could = x86_vpt_set_can_do_io(CPU(cpu), true);
    CPUX86State *env = &cpu->env;
    const uint64_t tsc = raw_tsc(env);
    const uint64_t base = kvm_enabled() ? env->tsc_offset - env->tsc_adjust : 0;

    vpt_clocks_from_tsc(&model->caps, tsc + base, now);
    now->tsc = visible_tsc(env, vpt_nonroot(model), tsc);
    x86_vpt_set_can_do_io(CPU(cpu), could);
}

/* For plugins, which cannot read it. With -icount, all of the present block counts. */
uint64_t x86_vpt_plugin_tsc(unsigned vcpu)
{
    CPUState *cs = qemu_get_cpu(vcpu);
    const bool could = x86_vpt_set_can_do_io(cs, true);
    const uint64_t tsc = cpu_get_tsc(&X86_CPU(cs)->env);

    x86_vpt_set_can_do_io(cs, could);
    return tsc;
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    struct X86Vpt *vpt = owner;

    x86_vpt_clocks(vpt->cpu, &vpt->guest, now);
}

const struct vpt_ops x86_vpt_ops = {
    .translate = translate,
    .wrote = wrote,
    .pmi = pmi,
    .clocks = clocks,
};
