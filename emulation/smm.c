/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What clears TraceEn behind the back of the traced software, and sets it again: system management
 * mode (33.2.9.3) and authenticated code modules (33.2.9.6).
 */
#include "enables.h"
#include "events.h"
#include "msr.h"
#include "output.h"
#include "packets.h"
#include "pt_packets.h"

/*
 * A handler runs outside of VMX operation, whatever it interrupted: what it traces of itself has
 * neither PIP.NR nor VMCS packets. Only SMM VM exits (33.6) are told otherwise.
 */
static void leave_vmx(struct vpt_cpu *cpu)
{
    cpu->in_smm = true;
    cpu->smm_vmx_on = cpu->vmx_on;
    cpu->smm_vmx_nonroot = cpu->vmx_nonroot;
    cpu->vmx_on = false;
    cpu->vmx_nonroot = false;
}

/* And RSM goes back to it. */
static void resume_vmx(struct vpt_cpu *cpu)
{
    if (!cpu->in_smm)
        return;
    cpu->in_smm = false;
    cpu->vmx_on = cpu->smm_vmx_on;
    cpu->vmx_nonroot = cpu->smm_vmx_nonroot;
    cpu->smm_vmx_on = false;
    cpu->smm_vmx_nonroot = false;
}

bool vpt_smi(struct vpt_cpu *cpu, uint64_t ip)
{
    const bool traceen = (cpu->ctl & VPT_CTL_TRACEEN) != 0;

    if (cpu->trigger_en && cpu->context_en) {
        vpt_begin_event(cpu);
        vpt_control_flow_event(cpu, PT_CFE_SMI, 0, ip, true, cpu->packet_en);
    }
    if (traceen)
        vpt_trace_disable(cpu, cpu->ctl & ~VPT_CTL_TRACEEN, ip);
    if (!cpu->in_smm)
        leave_vmx(cpu);
    return traceen;
}

bool vpt_rsm(struct vpt_cpu *cpu, bool traceen, uint64_t target, const struct vpt_context *after)
{
    if (cpu->ctl & VPT_CTL_TRACEEN)
        return false;
    if (traceen && !vpt_ctl_ok(cpu, cpu->ctl | VPT_CTL_TRACEEN))
        return false; /* the handler left what cannot be enabled */
    cpu->ctx = *after;
    resume_vmx(cpu);
    if (traceen)
        vpt_trace_enable(cpu, cpu->ctl | VPT_CTL_TRACEEN, target, PT_CFE_RSM);
    return true;
}

void vpt_getsec(struct vpt_cpu *cpu, uint64_t ip)
{
    if (cpu->ctl & VPT_CTL_TRACEEN)
        vpt_trace_disable(cpu, cpu->ctl & ~VPT_CTL_TRACEEN, ip);
}

void vpt_acm_begin(struct vpt_cpu *cpu)
{
    if (!(cpu->ctl & VPT_CTL_TRACEEN))
        return;
    cpu->acm = true;
    cpu->stalled = false;
    /* An overflow is told when the module ends: only then it is known what runs next. */
    if (cpu->trigger_en) {
        vpt_begin_event(cpu);
        vpt_emit_tnt(cpu);
    }
    vpt_flush(cpu);
    cpu->ctl &= ~VPT_CTL_TRACEEN;
    vpt_clear_trigger(cpu);
}

void vpt_acm_end(struct vpt_cpu *cpu, uint64_t next_ip)
{
    const bool paused = cpu->acm && !(cpu->ctl & VPT_CTL_TRACEEN);

    cpu->acm = false;
    if (!paused || !vpt_ctl_ok(cpu, cpu->ctl | VPT_CTL_TRACEEN))
        return;
    cpu->ctl |= VPT_CTL_TRACEEN;
    vpt_ctl_loaded(cpu); /* nor need the rest of RTIT_CTL be what it was */
    if (cpu->status & (VPT_STATUS_ERROR | VPT_STATUS_STOPPED))
        return;
    if (!vpt_output_start(cpu)) /* the module may have moved the output */
        return;
    cpu->trigger_en = true;

    /* No TIP.PGE: the decoder knows of no TIP.PGD either. */
    vpt_resume_enables(cpu);
    vpt_choose_path(cpu);
    vpt_resume_clocks(cpu);
    cpu->cyc_base = cpu->now.cycles; /* 33.3.6.1 */
    vpt_begin_event(cpu);
    vpt_emit_tsc(cpu);
    vpt_emit_cbr(cpu);
    vpt_end_event(cpu, next_ip);
}
