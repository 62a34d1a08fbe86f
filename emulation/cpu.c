/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A logical processor: creation, reset (33.2.8.1, 33.3.4) and its state outside tracing.
 */
#include "enables.h"
#include "processor.h"

#include <string.h>

bool vpt_init(struct vpt_cpu *cpu, const struct vpt_caps *caps, const struct vpt_ops *ops,
              void *owner)
{
    if (vpt_caps_check(caps) || !ops->translate || !ops->clocks)
        return false;
    memset(cpu, 0, sizeof(*cpu));
    cpu->caps = *caps;
    cpu->ops = ops;
    cpu->owner = owner;
    cpu->core_ratio = caps->max_nonturbo_ratio;
    for (unsigned i = 0; i < VPT_RET_STACK; i++)
        cpu->ret_stack[i] = VPT_RET_NONE;
    vpt_reset(cpu, VPT_RESET_COLD);
    return true;
}

void vpt_reset(struct vpt_cpu *cpu, enum vpt_reset kind)
{
    const bool keep = kind == VPT_RESET_WARM && vpt_cap(cpu, VPT_CAP_IPFILTER);

    cpu->trigger_en = false; /* not a PSB+ that is put off */
    vpt_clear_trigger(cpu);
    cpu->context_en = false;
    cpu->filter_en = false;
    cpu->overflow = false;
    cpu->boundary_due = false;
    cpu->psb_again = false;
    cpu->line_group = 0;
    cpu->stalled = false;
    cpu->in_tx = false;
    cpu->asleep = false;
    cpu->wait_for_sipi = false;
    cpu->acm = false;
    cpu->branch_told = false;
    cpu->vmx_on = false;
    cpu->vmx_nonroot = false;
    cpu->vmx_secondary = 0;
    cpu->in_smm = false;
    cpu->smm_vmx_on = false;
    cpu->smm_vmx_nonroot = false;
    cpu->vmcs = UINT64_MAX;
    cpu->output_blocked = false;
    cpu->output_ept = false;
    cpu->waiting_ctl = 0;
    cpu->tnt = 1;
    cpu->tnt_full = 1 << 6;
    cpu->deferred_count = 0;
    cpu->waiting_bytes = 0;
    cpu->buf_len = 0;
    cpu->last_ip = 0;
    cpu->mode_sent = VPT_MODE_UNSENT;
    cpu->ctx = (struct vpt_context){.exec_mode = VPT_EXEC_16};
    cpu->perf_global_status = 0; /* no Intel PT MSRs, so that EBX[2] does not keep them */
    cpu->perf_global_ctrl = 0;
    if (keep) {
        cpu->ctl &= ~VPT_CTL_TRACEEN;
        return;
    }
    cpu->ctl = 0;
    cpu->status = 0;
    cpu->cr3_match = 0;
    cpu->output_base = 0;
    cpu->output_mask_ptrs = 0x7f;
    memset(cpu->addr, 0, sizeof(cpu->addr));
}

void vpt_set_context(struct vpt_cpu *cpu, const struct vpt_context *ctx)
{
    if (!cpu->trigger_en)
        cpu->ctx = *ctx;
}
