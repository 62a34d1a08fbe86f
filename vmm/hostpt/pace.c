/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a guest may run, see pace.h. */
#include "hostpt/pace.h"

#define NS_PER_MS    1000000u
#define FIRST_PER_MS (64u << 10) /* as long as nothing is known */
#define MEMORY_NS    16000000u   /* of running, so long a rate counts */

void pace_ran(struct pace *pace, const struct vpt_cpu *cpu, uint64_t ran_ns)
{
    const uint64_t rate = (cpu->output_bytes - pace->bytes) * NS_PER_MS / (ran_ns ? ran_ns : 1);
    const uint64_t known = pace->bytes_per_ms ? pace->bytes_per_ms : FIRST_PER_MS;
    const uint64_t before = ran_ns < MEMORY_NS ? known - known * ran_ns / MEMORY_NS : 0;

    pace->bytes = cpu->output_bytes;
    pace->bytes_per_ms = rate > before ? rate : before;
    if (!pace->bytes_per_ms)
        pace->bytes_per_ms = 1;
}

uint64_t pace_next_ns(const struct pace *pace, const struct vpt_cpu *cpu)
{
    const uint64_t rate = pace->bytes_per_ms ? pace->bytes_per_ms : FIRST_PER_MS;
    uint64_t ns;

    if (!(cpu->ctl & VPT_CTL_TOPA)) /* a single range has no PMI */
        return PACE_MOST_NS;
    ns = cpu->region_bytes / 2 * NS_PER_MS / rate;
    return ns < PACE_LEAST_NS ? PACE_LEAST_NS : ns > PACE_MOST_NS ? PACE_MOST_NS : ns;
}
