/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What virtual PT costs on this machine's KVM: a WRMSR of a trace MSR against a bare exit of the
 * MSR filter, and single-stepping with the model against bare stepping. Medians of interleaved
 * rounds.
 */
#include "kvm/backend.h"
#include "kvm/boot.h"
#include "kvm/kick.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/step.h"
#include "kvm/tracer.h"
#include "common/file.h"
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define ROUNDS      9
#define EXITS       5000u /* in a round */
#define STEPS       5000u
#define RAM_BYTES   (8u << 20)
#define CODE        0x10000u
#define OUTPUT      0x400000u
#define OUTPUT_MASK 0xfffffu
#define CTL_TRACE   (VPT_CTL_BRANCHEN | VPT_CTL_OS | VPT_CTL_TRACEEN)

/* mov ecx, 572h; mov eax, 1000h; xor edx, edx; 1: wrmsr; jmp 1b */
static const uint8_t code_wrmsr[] = {0xb9, 0x72, 0x05, 0x00, 0x00, 0xb8, 0x00, 0x10,
                                     0x00, 0x00, 0x31, 0xd2, 0x0f, 0x30, 0xeb, 0xfc};
/* 1: inc eax; test al, 1; jz 2f; nop; 2: lea ecx, [rax + 1]; jmp 1b: a branch in three */
static const uint8_t code_branches[] = {0xff, 0xc0, 0xa8, 0x01, 0x74, 0x01,
                                        0x90, 0x8d, 0x48, 0x01, 0xeb, 0xf4};

struct bench {
    struct run_options options;
    struct run_result result;
    struct vmm vmm;
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(values[0]), compare_doubles);
    return values[ROUNDS / 2];
}

/* ---- The machine ---- */

static int start(struct bench *bench, const uint8_t *code, size_t len)
{
    struct vmm *vmm = &bench->vmm;
    struct vpt_caps caps;
    int error;

    memset(bench, 0, sizeof(*bench));
    bench->options = (struct run_options){.image = "", .mem_bytes = RAM_BYTES};
    vmm->options = &bench->options;
    vmm->result = &bench->result;
    vmm->ram_bytes = RAM_BYTES;
    vmm->entry = CODE;
    if (!vpt_profile("icelake-server", &caps))
        return -1;
    error = machine_create(vmm, &caps);
    if (!error)
        error = boot_enter(vmm);
    if (error)
        return error;
    memcpy(vmm->ram + CODE, code, len);
    return machine_complete(&vmm->cpus[0]); /* so that the registers are known */
}

static void stop(struct bench *bench)
{
    machine_destroy(&bench->vmm);
    run_result_free(&bench->result);
}

/* ---- MSR exits ---- */

/* Microseconds for one WRMSR; without the model, the exit is only answered. Negative: it failed. */
static double wrmsr_us(struct vcpu *cpu, bool model)
{
    const double begin = now();

    for (unsigned i = 0; i < EXITS; i++) {
        bool gp;

        if (machine_enter(cpu) != 0 || cpu->run->exit_reason != KVM_EXIT_X86_WRMSR)
            return -1;
        if (!model)
            cpu->run->msr.error = 0;
        else if (machine_handle_exit(cpu, &gp) != 0 || gp)
            return -1;
    }
    return (now() - begin) * 1e6 / EXITS;
}

static bool bench_wrmsr(struct bench *bench, double *with, double *without)
{
    double model[ROUNDS], bare[ROUNDS];

    if (start(bench, code_wrmsr, sizeof(code_wrmsr)) != 0)
        return false;
    (void)wrmsr_us(&bench->vmm.cpus[0], true); /* warms up */
    for (unsigned i = 0; i < ROUNDS; i++) {
        bare[i] = wrmsr_us(&bench->vmm.cpus[0], false);
        model[i] = wrmsr_us(&bench->vmm.cpus[0], true);
        if (bare[i] < 0 || model[i] < 0)
            return false;
    }
    *with = median(model);
    *without = median(bare);
    return true;
}

/* ---- Stepping ---- */

/* Tracing begins, as a guest's WRMSRs would begin it. */
static bool enable(struct vcpu *cpu)
{
    const uint64_t ip = vcpu_regs(cpu)->rip;

    return tracer_wrmsr(cpu, VPT_MSR_OUTPUT_BASE, OUTPUT, ip, ip) == VPT_OK &&
           tracer_wrmsr(cpu, VPT_MSR_OUTPUT_MASK_PTRS, OUTPUT_MASK, ip, ip) == VPT_OK &&
           tracer_wrmsr(cpu, VPT_MSR_CTL, CTL_TRACE, ip, ip) == VPT_OK;
}

/* Steps a second of the whole source of events. Negative: it failed. */
static double steps_with_model(struct vcpu *cpu)
{
    const double begin = now();

    cpu->record->trace.len = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        if (step(cpu) != 0)
            return -1;
    }
    return STEPS / (now() - begin);
}

static double steps_bare(struct vcpu *cpu)
{
    struct kvm_guest_debug debug = {.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP};
    const double begin = now();

    /* Once is enough: nothing in the loop loads RFLAGS. */
    if (ioctl(cpu->fd, KVM_SET_GUEST_DEBUG, &debug) < 0)
        return -1;
    for (unsigned i = 0; i < STEPS; i++) {
        int error;

        do {
            error = machine_enter(cpu);
        } while (error == -EINTR);
        if (error || cpu->run->exit_reason != KVM_EXIT_DEBUG)
            return -1;
    }
    return STEPS / (now() - begin);
}

static bool bench_steps(struct bench *bench, double *with, double *without)
{
    double model[ROUNDS], bare[ROUNDS];

    if (start(bench, code_branches, sizeof(code_branches)) != 0 || !enable(&bench->vmm.cpus[0]))
        return false;
    step_begin(&bench->vmm);
    (void)steps_with_model(&bench->vmm.cpus[0]); /* warms up */
    for (unsigned i = 0; i < ROUNDS; i++) {
        bare[i] = steps_bare(&bench->vmm.cpus[0]);
        model[i] = steps_with_model(&bench->vmm.cpus[0]);
        if (bare[i] < 0 || model[i] < 0)
            return false;
    }
    *with = median(model);
    *without = median(bare);
    return true;
}

/* ---- All of it ---- */

static int write_text(const char *path, const char *text)
{
    return path && write_file(path, text, strlen(text)) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *const json = argc == 3 && strcmp(argv[1], "--json") == 0 ? argv[2] : NULL;
    struct bench *bench = calloc(1, sizeof(*bench));
    double wrmsr_model, wrmsr_bare, step_model, step_bare;
    struct probe probe;
    char text[512];
    bool ok;

    if (!bench || (argc != 1 && !json)) {
        fprintf(stderr, "usage: vmm [--json FILE]\n");
        free(bench);
        return 2;
    }
    kvm_probe(&probe);
    if (!probe.kvm) {
        printf("SKIPPED: %s\n", probe.why);
        free(bench);
        return write_text(json, "{\"skipped\": \"no /dev/kvm\"}\n");
    }
    if (!probe.msr_exits || !probe.step_supervisor) {
        printf("SKIPPED: this KVM lacks MSR exits or stepping\n");
        free(bench);
        return write_text(json, "{\"skipped\": \"this KVM lacks MSR exits or stepping\"}\n");
    }

    ok = bench_wrmsr(bench, &wrmsr_model, &wrmsr_bare);
    if (ok) {
        stop(bench);
        ok = bench_steps(bench, &step_model, &step_bare);
    }
    if (!ok)
        fprintf(stderr, "vmm bench: %s\n",
                bench->result.why[0] ? bench->result.why : "not what was expected of the guest");
    stop(bench);
    free(bench);
    if (!ok)
        return EXIT_FAILURE;

    printf("%-44s %10s %10s %8s\n", "", "model", "bare", "ratio");
    printf("%-44s %10.2f %10.2f %8.3f\n", "WRMSR of a trace MSR, microseconds", wrmsr_model,
           wrmsr_bare, wrmsr_model / wrmsr_bare);
    printf("%-44s %10.0f %10.0f %8.3f\n", "single-step, steps a second", step_model, step_bare,
           step_model / step_bare);
    snprintf(text, sizeof(text),
             "{\"rtit_wrmsr_us\": %.3f, \"filtered_msr_us\": %.3f, \"rtit_vs_filtered\": %.3f, "
             "\"steps_per_s_model\": %.0f, \"steps_per_s_bare\": %.0f, "
             "\"model_vs_bare_steps\": %.3f}\n",
             wrmsr_model, wrmsr_bare, wrmsr_model / wrmsr_bare, step_model, step_bare,
             step_model / step_bare);
    return write_text(json, text);
}
