/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The run loop: free running while nothing is traced, turns of the source while TriggerEn is 1; the
 * clock, and the end.
 */
#include "kvm/backend.h"
#include "kvm/boot.h"
#include "kvm/host-pt.h"
#include "kvm/kick.h"
#include "kvm/machine.h"
#include "kvm/migrate.h"
#include "kvm/source.h"
#include "kvm/tracer.h"
#include "kvm/turns.h"
#include "common/progress.h"
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_STEPS 4096u
#define PROGRESS_S  0.5

static double seconds(const struct vmm *vmm)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - vmm->start.tv_sec) +
           (double)(now.tv_nsec - vmm->start.tv_nsec) * 1e-9;
}

static bool timed_out(const struct vmm *vmm)
{
    return vmm->options->timeout_s && seconds(vmm) > vmm->options->timeout_s;
}

/* ---- The loop ---- */

static size_t trace_bytes(const struct vmm *vmm)
{
    size_t len = 0;

    for (unsigned i = 0; i < vmm->cpu_count; i++)
        len += vmm->cpus[i].record->trace.len;
    return len;
}

static void progress(struct vmm *vmm, double *last)
{
    const double now = seconds(vmm);

    if (now - *last < PROGRESS_S || vmm->options->record_to)
        return;
    *last = now;
    progress_say("%.0f s, %llu instructions %s, %zu trace bytes", now,
                 (unsigned long long)vmm->steps, vmm->host_pt ? "followed" : "stepped",
                 trace_bytes(vmm));
}

static bool somebody_traces(const struct vmm *vmm)
{
    for (unsigned i = 0; i < vmm->cpu_count; i++) {
        if (tracer_trigger_en(&vmm->cpus[i].tracer))
            return true;
    }
    return false;
}

static void begin(struct vmm *vmm)
{
    vmm->tracing = true;
    vmm->source->begin(vmm);
}

static void end(struct vmm *vmm)
{
    vmm->source->end(vmm);
    vmm->tracing = false;
}

static int run_loop(struct vmm *vmm)
{
    unsigned until_check = 0;
    double last_progress = 0;

    while (!vmm->ended) {
        int error;

        if (until_check-- == 0 || !vmm->stepping) {
            if (timed_out(vmm))
                return vmm_fail(vmm, -ETIMEDOUT, "the guest did not end within %u s (RIP %#llx)",
                                vmm->options->timeout_s, vcpu_regs(&vmm->cpus[vmm->turn])->rip);
            progress(vmm, &last_progress);
            until_check = CHECK_STEPS;
        }
        if (somebody_traces(vmm)) {
            if (!vmm->tracing)
                begin(vmm);
            if (vmm->options->save_to && vmm->steps >= vmm->options->save_after)
                return migrate_out(vmm);
            error = vmm->source->turn(vmm);
        } else {
            if (vmm->tracing)
                end(vmm);
            error = free_turn(vmm, vmm->source->enter_idle);
        }
        if (error || vmm->error)
            return error ? error : vmm->error;
    }
    return 0;
}

static enum run_end end_of(int error)
{
    switch (error) {
    case -ETIMEDOUT:
        return RUN_TIMED_OUT;
    case -EFAULT:
    case -EIO:
        return RUN_CRASHED;
    default:
        return RUN_HOST;
    }
}

static int run(struct vmm *vmm, const struct vpt_caps *caps)
{
    int error = machine_create(vmm, caps);

    if (error)
        return error;
    error = vmm->options->restore ? migrate_in(vmm) : boot_load(vmm);
    if (error) {
        vmm->result->end = RUN_BAD_FILE;
        return error;
    }
    error = vmm->options->restore ? 0 : boot_enter(vmm);
    if (!error && vmm->options->host_pt)
        error = host_pt_create(vmm);
    if (error)
        return error;
    error = kicks_start(vmm);
    if (error)
        return error;
    error = run_loop(vmm);
    kicks_stop(vmm);
    for (unsigned i = 0; i < vmm->cpu_count && !vmm->result->saved; i++)
        tracer_end(&vmm->cpus[i]);
    return error ? error : vmm->error;
}

void kvm_run(const struct run_options *options, const struct vpt_caps *caps,
             struct run_result *result)
{
    struct vmm *vmm = calloc(1, sizeof(*vmm));
    int error;

    if (!vmm) {
        result->end = RUN_HOST;
        snprintf(result->why, sizeof(result->why), "no memory");
        return;
    }
    vmm->options = options;
    vmm->result = result;
    vmm->source = options->host_pt ? &source_host_pt : &source_step;
    vmm->ram_bytes = options->mem_bytes;
    vmm->steps_per_s = options->steps_per_s;
    error = run(vmm, caps);
    if (error && result->end == RUN_DONE)
        result->end = end_of(error);
    for (unsigned i = 0; i < vmm->cpu_count; i++)
        tracer_conclude(&vmm->cpus[i]);
    result->steps = vmm->steps;
    result->seconds = seconds(vmm);
    fflush(stdout);
    host_pt_destroy(vmm);
    machine_destroy(vmm);
    free(vmm);
}
