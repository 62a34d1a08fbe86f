/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whom and what of a trace the user wants to see: by names, which may have * and ? in them, and by
 * numbers. It is of what is shown alone: call stacks and clocks are those of the whole trace.
 */
#ifndef VMM_FILTER_H
#define VMM_FILTER_H

#include "view/out.h"

enum filter_half { FILTER_BOTH, FILTER_USER, FILTER_KERNEL };

struct filter {
    const char *vm, *process, *symbol; /* NULL: any. "host" is the host, and no VM */
    bool has_pid, has_cpu;
    uint32_t pid;
    int cpu;
    enum filter_half half; /* of addresses; only sums of code look at it */
};

/* Whether it leaves out anything. */
bool filter_is_set(const struct filter *filter);
/* Whether it takes somebody, who ran on this processor; -1: not known which. */
bool filter_takes_who(const struct filter *filter, const struct out_who *who, int cpu);
bool filter_takes_half(const struct filter *filter, bool is_kernel);
bool filter_takes_processor(const struct filter *filter, int cpu);
/* Whether it takes a function; NULL: one without a name, which is "?". */
bool filter_takes_symbol(const struct filter *filter, const char *name);

/* ---- The same of a thread's filter; without one, everything is taken ---- */

/* Who ran in an address space at a time. */
bool out_takes_who(const struct out_thread *thread, uint64_t cr3, uint64_t time);
/* The function at an address. */
bool out_takes_at(const struct out_thread *thread, uint64_t cr3, uint64_t ip);
bool out_takes_processor(const struct out_thread *thread);
/* An item that is no block. What was lost concerns all who ran on the processor. */
bool out_takes_event(const struct out_thread *thread, const struct ptd_item *item, uint64_t time);

#endif
