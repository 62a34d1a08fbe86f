/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT as a guest sees it: see rtit.h.
 */
#include "rtit.h"
#include "cpu.h"

bool rtit_present(void)
{
    uint64_t ctl, mask;

    /* Some hypervisors answer unknown MSRs with 0; these bits of the mask are always 1. */
    return rdmsr_safe(MSR_RTIT_OLD_CTL, &ctl) == 0 && rdmsr_safe(MSR_RTIT_LIMIT_MASK, &mask) == 0 &&
           (mask & RTIT_MASK_FORCED) == RTIT_MASK_FORCED;
}
