/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: which thread had a CPU, and when. */
#ifndef PTD_PERF_TURNS_H
#define PTD_PERF_TURNS_H

#include "perf/order.h"
#include "ptdec_perf.h"

/* From this TSC on, the thread runs on the CPU. */
struct perf_turn {
    uint64_t tsc;
    uint32_t cpu;
    struct ptd_perf_thread thread;
    bool is_coming; /* the thread before has stopped, and this one begins with the next turn */
    bool has_space; /* all the while the address space is its own: kernel threads have none */
};

/* By CPU and then by time. Begins as zeros. */
struct perf_turns {
    struct perf_turn *list;
    size_t count, room;
    size_t *longest;       /* of all */
    size_t *longest_space; /* of those that have an address space */
};

/* Those of a CPU, and who ran in front of them. */
struct perf_cpu_turns {
    const struct perf_turns *turns;
    size_t begin, end;
    struct ptd_perf_thread first;
    bool first_has_space;
};

/* switches: those of the session by CPU; maps and forks: by process. False: no memory. */
bool ptd_perf_turns_make(struct perf_turns *turns, const struct ptd_perf_session *session,
                         const struct perf_order *switches, const struct perf_order *maps,
                         const struct perf_order *forks);
void ptd_perf_turns_free(struct perf_turns *turns);
/* .first is left to the caller. */
struct perf_cpu_turns ptd_perf_turns_of(const struct perf_turns *turns, uint32_t cpu);
/* Who had the CPU for the most of a time; the first of those who had it as long. */
struct ptd_perf_thread ptd_perf_turns_most(const struct perf_cpu_turns *of_cpu, uint64_t from,
                                           uint64_t to);
/*
 * The same among threads that have an address space, if there is one: whose it is, if that did not
 * change in this time. Kernel threads run in that of whoever ran before. What is between two
 * threads counts for neither: the MOV CR3 is anywhere in it.
 */
struct ptd_perf_thread ptd_perf_turns_space(const struct perf_cpu_turns *of_cpu, uint64_t from,
                                            uint64_t to);
/* Whether a process has code; tasks of the kernel have none. maps and forks: as above. */
bool ptd_perf_turns_has_code(const struct ptd_perf_session *session, const struct perf_order *maps,
                             const struct perf_order *forks, uint32_t pid);

#endif
