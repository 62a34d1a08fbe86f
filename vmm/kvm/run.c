/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The run loop: free running while nothing is traced, stepping while TriggerEn is 1; interrupts,
 * the clock, and the end.
 */
#include "kvm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KICK_SIGNAL    SIGRTMIN
#define KICK_PERIOD_NS 1000000 /* APIC timer and time-out are looked at so often */
#define CHECK_STEPS    4096u
#define NAP_NS         1000000 /* of a halted guest */

/* The signal handler's way to the vCPU; one machine runs at a time. */
static struct kvm_run *volatile kicked_run;

static void kick(int sig)
{
    (void)sig;
    if (kicked_run)
        kicked_run->immediate_exit = 1;
}

int kicks_start(struct vmm *vmm)
{
    /* SA_RESTART spares the console's writes; KVM_RUN returns all the same. */
    struct sigaction action = {.sa_handler = kick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = KICK_SIGNAL};
    struct itimerspec period = {.it_value.tv_nsec = KICK_PERIOD_NS,
                                .it_interval.tv_nsec = KICK_PERIOD_NS};

    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    kicked_run = vmm->run;
    if (sigaction(KICK_SIGNAL, &action, NULL) < 0 ||
        timer_create(CLOCK_MONOTONIC, &event, &vmm->kick_timer) < 0 ||
        timer_settime(vmm->kick_timer, 0, &period, NULL) < 0)
        return vmm_fail(vmm, -errno, "cannot start a timer: %s", strerror(errno));
    return 0;
}

void kicks_stop(struct vmm *vmm)
{
    timer_delete(vmm->kick_timer);
    kicked_run = NULL;
}

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

/* ---- Free running ---- */

/* Hands KVM what the APIC has for the processor. */
static int inject(struct vmm *vmm)
{
    struct kvm_run *run = vmm->run;
    int vector;

    if (vmm->apic.nmi_pending) {
        vmm->apic.nmi_pending = false;
        vmm->halted = false;
        vmm->result->interrupts++;
        if (ioctl(vmm->vcpu_fd, KVM_NMI, 0) < 0)
            return vmm_fail(vmm, -errno, "KVM_NMI: %s", strerror(errno));
    }
    vector = apic_pending(&vmm->apic);
    run->request_interrupt_window = 0;
    if (vector < 0)
        return 0;
    if (!run->ready_for_interrupt_injection || !run->if_flag) {
        run->request_interrupt_window = 1;
        return 0;
    }
    struct kvm_interrupt irq = {.irq = (uint32_t)vector};
    if (ioctl(vmm->vcpu_fd, KVM_INTERRUPT, &irq) < 0)
        return vmm_fail(vmm, -errno, "KVM_INTERRUPT: %s", strerror(errno));
    apic_accept(&vmm->apic, vector);
    vmm->halted = false;
    vmm->result->interrupts++;
    return 0;
}

static int run_free(struct vmm *vmm)
{
    bool gp;
    int error;

    apic_tick(&vmm->apic, vmm_apic_now(vmm));
    error = inject(vmm);
    if (error)
        return error;
    if (vmm->halted) {
        const struct timespec nap = {.tv_nsec = NAP_NS};

        if (!vmm->apic.timer_deadline && apic_pending(&vmm->apic) < 0)
            return vmm_fail(vmm, -EIO, "the guest halted at %#llx and nothing can wake it",
                            vmm_regs(vmm)->rip);
        if (apic_pending(&vmm->apic) < 0) {
            nanosleep(&nap, NULL);
            return 0;
        }
    }
    error = machine_enter(vmm);
    if (error)
        return error == -EINTR ? 0 : error;
    return machine_handle_exit(vmm, &gp);
}

/* ---- Both ---- */

static void progress(struct vmm *vmm, double *last)
{
    const double now = seconds(vmm);

    if (now - *last < 2.0 || !isatty(STDERR_FILENO) || vmm->options->record_to)
        return;
    *last = now;
    fprintf(stderr, "\r%.0f s, %llu instructions stepped, %zu trace bytes ", now,
            (unsigned long long)vmm->steps, vmm->result->trace.len);
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
                                vmm->options->timeout_s, vmm_regs(vmm)->rip);
            progress(vmm, &last_progress);
            until_check = CHECK_STEPS;
        }
        if (vmm_trigger_en(vmm)) {
            if (!vmm->stepping)
                step_begin(vmm);
            if (vmm->options->save_to && vmm->steps >= vmm->options->save_after)
                return migrate_out(vmm);
            error = step(vmm);
        } else {
            if (vmm->stepping)
                step_end(vmm);
            error = run_free(vmm);
        }
        if (error)
            return error;
    }
    return 0;
}

static enum exit_code code_of(int error)
{
    switch (error) {
    case 0:
        return EXIT_CODE_OK;
    case -ETIMEDOUT:
        return EXIT_CODE_TIMEOUT;
    case -EFAULT:
    case -EIO:
        return EXIT_CODE_CRASH;
    default:
        return EXIT_CODE_HOST;
    }
}

static int run(struct vmm *vmm, const struct vpt_caps *caps)
{
    int error = machine_create(vmm, caps);

    if (error)
        return error;
    error = vmm->options->restore ? migrate_in(vmm) : boot_load(vmm);
    if (error) {
        vmm->result->code = EXIT_CODE_FILE;
        return error;
    }
    error = vmm->options->restore ? 0 : boot_enter(vmm);
    if (error)
        return error;
    error = kicks_start(vmm);
    if (error)
        return error;
    error = run_loop(vmm);
    kicks_stop(vmm);
    if (!vmm->result->saved)
        vpt_flush(&vmm->model);
    if (caps->rtit)
        rtit_end(vmm);
    return error;
}

void kvm_run(const struct run_options *options, const struct vpt_caps *caps,
             struct run_result *result)
{
    struct vmm *vmm = calloc(1, sizeof(*vmm));
    int error;

    if (!vmm) {
        result->code = EXIT_CODE_HOST;
        snprintf(result->why, sizeof(result->why), "no memory");
        return;
    }
    vmm->options = options;
    vmm->result = result;
    vmm->ram_bytes = options->mem_bytes;
    vmm->steps_per_s = options->steps_per_s;
    error = run(vmm, caps);
    if (error && result->code == EXIT_CODE_OK)
        result->code = code_of(error);
    if (!error && result->guest_status != 0)
        result->code = EXIT_CODE_GUEST_FAILED;
    result->packets = vmm->model.packet_count + vmm->rtit.packet_count;
    result->dropped_bytes = vmm->model.dropped_bytes + vmm->rtit.dropped_bytes;
    result->mtc_freq = vmm->model.ctl >> VPT_CTL_MTCFREQ_SHR & 0xf;
    result->steps = vmm->steps;
    result->seconds = seconds(vmm);
    fflush(stdout);
    machine_destroy(vmm);
    free(vmm);
}
