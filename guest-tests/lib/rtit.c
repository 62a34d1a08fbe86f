/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT as a guest sees it: see rtit.h.
 */
#include "rtit.h"
#include "cpu.h"

bool rtit_present(void)
{
    uint64_t ctl;

    return rdmsr_safe(MSR_RTIT_OLD_CTL, &ctl) == 0;
}
