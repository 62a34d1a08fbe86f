/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x-vpt-hold: whoever captures a guest may look at its memory once more when it has powered off.
 * QEMU would be gone by then. So it can be asked not to end before some time, which has a bound and
 * has to be asked for again and again: if nobody does any more, nobody waits.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-misc-target.h"
#include "qemu/timer.h"
#include "compat.h"
#include "vpt-i386.h"

#define HOLD_MS_MAX 10000

static int64_t until_ns; /* not before this */
static bool is_ending;

static int64_t now_ns(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_REALTIME);
}

VptHold *qmp_x_vpt_hold(uint32_t ms, Error **errp)
{
    VptHold *hold;

    if (ms > HOLD_MS_MAX) {
        error_setg(errp, "no longer than %d ms at once", HOLD_MS_MAX);
        return NULL;
    }
    until_ns = now_ns() + ms * (int64_t)SCALE_MS;
    hold = g_new0(VptHold, 1);
    hold->ending = is_ending;
    return hold;
}

/* What wakes the main loop has nothing to do. */
static void wake(void *opaque)
{
}

/*
 * Commands are served meanwhile. The guest stands still, as it will from now on. Who asks QEMU to
 * end once more, does not wait.
 */
void x86_vpt_hold(void)
{
    QEMUTimer *timer;

    if (now_ns() >= until_ns) {
        return;
    }
    is_ending = true;
    vm_shutdown();
    timer = timer_new_ns(QEMU_CLOCK_REALTIME, wake, NULL);
    while (now_ns() < until_ns && !qemu_shutdown_requested_get()) {
        timer_mod(timer, until_ns);
        main_loop_wait(false);
    }
    timer_free(timer);
}
