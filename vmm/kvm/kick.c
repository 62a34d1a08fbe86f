/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kick: a timer's signal makes KVM_RUN return every millisecond, so that the APICs' timers and
 * the time-out are looked at.
 */
#include "kvm/kick.h"
#include "kvm/machine.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KICK_SIGNAL    SIGRTMIN
#define KICK_PERIOD_NS 1000000

/* The signal handler's way to the vCPU that runs; one does at a time. */
static struct kvm_run *volatile kicked_run;

static void kick(int sig)
{
    (void)sig;
    if (kicked_run)
        kicked_run->immediate_exit = 1;
}

void kick_next(struct kvm_run *run)
{
    kicked_run = run;
}

void kick_after(struct vmm *vmm, uint64_t ns)
{
    const struct itimerspec when = {.it_value.tv_nsec = (long)ns,
                                    .it_interval.tv_nsec = KICK_PERIOD_NS};

    (void)timer_settime(vmm->kick_timer, 0, &when, NULL);
}

int kicks_start(struct vmm *vmm)
{
    /* SA_RESTART spares the console's writes; KVM_RUN returns all the same. */
    struct sigaction action = {.sa_handler = kick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = KICK_SIGNAL};
    struct itimerspec period = {.it_value.tv_nsec = KICK_PERIOD_NS,
                                .it_interval.tv_nsec = KICK_PERIOD_NS};

    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    kick_next(vmm->cpus[0].run);
    if (sigaction(KICK_SIGNAL, &action, NULL) < 0 ||
        timer_create(CLOCK_MONOTONIC, &event, &vmm->kick_timer) < 0 ||
        timer_settime(vmm->kick_timer, 0, &period, NULL) < 0)
        return vmm_fail(vmm, -errno, "cannot start a timer: %s", strerror(errno));
    return 0;
}

void kicks_stop(struct vmm *vmm)
{
    timer_delete(vmm->kick_timer);
    kick_next(NULL);
}
