/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See host.h.
 */
#include "host.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* BranchEn and TSCEn, as in IA32_RTIT_CTL; bit 0 tells the driver to take BranchEn as it is. */
#define CONFIG 0x2401u

/* The type of the driver's events; 0: there is no driver. */
static uint32_t pt_type(void)
{
    FILE *file = fopen("/sys/bus/event_source/devices/intel_pt/type", "r");
    unsigned type = 0;

    if (!file)
        return 0;
    if (fscanf(file, "%u", &type) != 1)
        type = 0;
    fclose(file);
    return type;
}

int host_event(void)
{
    struct perf_event_attr attr = {
        .type = pt_type(), .size = sizeof(attr), .config = CONFIG, .disabled = 1};

    if (!attr.type) {
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}
