/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMSR and WRMSR of the trace and of the performance counters that its interrupt comes with.
 */
#include "qemu/osdep.h"
#include "vpt-i386.h"

#define COUNTER_MASK ((1ull << 48) - 1)

/*
 * Counters hold what is written to them and do not count: enough for a driver that looks for
 * architectural performance monitoring before it takes a PMI.
 */
static uint64_t *counter(CPUX86State *env, uint32_t msr, uint64_t *mask)
{
    const struct vpt_caps *caps = &env_archcpu(env)->vpt->guest.caps;

    *mask = COUNTER_MASK;
    if (msr - MSR_P6_PERFCTR0 < caps->perf_counters) {
        return &env->msr_gp_counters[msr - MSR_P6_PERFCTR0];
    }
    if (msr - MSR_CORE_PERF_FIXED_CTR0 < MIN(caps->perf_fixed, MAX_FIXED_COUNTERS)) {
        return &env->msr_fixed_counters[msr - MSR_CORE_PERF_FIXED_CTR0];
    }
    if (msr - MSR_P6_EVNTSEL0 < caps->perf_counters) {
        *mask = UINT32_MAX;
        return &env->msr_gp_evtsel[msr - MSR_P6_EVNTSEL0];
    }
    if (msr == MSR_CORE_PERF_FIXED_CTR_CTRL) {
        *mask = (1ull << 4 * caps->perf_fixed) - 1;
        return &env->msr_fixed_ctr_ctrl;
    }
    return NULL;
}

enum x86_vpt_msr x86_vpt_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *value)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    enum vpt_result result;
    const uint64_t *count;
    uint64_t mask;

    if (!vpt->enabled) {
        return X86_VPT_MSR_OTHER;
    }
    if (vpt_msr_owned(msr)) {
        result = vpt_rdmsr(&vpt->guest, msr, value);
        x86_vpt_sync(env);
        return result == VPT_OK ? X86_VPT_MSR_DONE : X86_VPT_MSR_GP;
    }
    if (msr == MSR_PLATFORM_INFO) {
        *value = vpt->guest.caps.max_nonturbo_ratio << 8;
        return X86_VPT_MSR_DONE;
    }
    count = counter(env, msr, &mask);
    if (!count) {
        return X86_VPT_MSR_OTHER;
    }
    *value = *count;
    return X86_VPT_MSR_DONE;
}

enum x86_vpt_msr x86_vpt_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    const uint64_t base = env->segs[R_CS].base;
    struct vpt_context ctx;
    enum vpt_result result;
    uint64_t *count, mask;

    if (!vpt->enabled) {
        return X86_VPT_MSR_OTHER;
    }
    if (vpt_msr_owned(msr)) {
        x86_vpt_context(env, &ctx);
        vpt_set_context(&vpt->guest, &ctx);
        result = vpt_wrmsr(&vpt->guest, msr, value, base + env->eip, base + env->vpt_next_eip);
        x86_vpt_sync(env);
        return result == VPT_OK ? X86_VPT_MSR_DONE : X86_VPT_MSR_GP;
    }
    count = counter(env, msr, &mask);
    if (!count) {
        return X86_VPT_MSR_OTHER;
    }
    if (msr >= MSR_P6_PERFCTR0 && msr < MSR_P6_PERFCTR0 + vpt->guest.caps.perf_counters) {
        value = (int32_t)value; /* without full-width writes, bits 47:32 repeat bit 31 */
        value &= mask;
    } else if (value & ~mask) {
        return X86_VPT_MSR_GP;
    }
    *count = value;
    return X86_VPT_MSR_DONE;
}
