/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tracks of a time line: VMs, processors, processes, threads and call stacks, each below
 * another. A track is told apart by its parent, its kind and a number of that kind, since all
 * guests have a process 1.
 */
#ifndef VMM_TRACKS_H
#define VMM_TRACKS_H

#include "common/table.h"
#include "view/calls.h"
#include "view/out.h"

enum track_kind {
    TRACK_VM,
    TRACK_CPU,
    TRACK_PROCESS,
    TRACK_SPACE, /* a process without a pid */
    TRACK_THREAD,
    TRACK_STACK,
    TRACK_COUNTER,
    TRACK_EXITS,
};

/* Begins as zeros, but for describe and owner. Tracks have numbers from 1 on; 0: none. */
struct tracks {
    /* A track is new. */
    void (*describe)(void *owner, uint64_t track, uint64_t parent, enum track_kind kind,
                     const char *name);
    void *owner;
    struct table ids;
    struct names vms;
    uint32_t sequence; /* of the trace that is read */
    bool no_memory;
};

/* Each gives a track, made if need be; 0: no memory, which is kept. */
uint64_t track_at(struct tracks *tracks, uint64_t parent, enum track_kind kind, uint64_t number,
                  const char *name);
uint64_t track_of_cpu(struct tracks *tracks, const struct out_thread *thread);
uint64_t track_of_thread(struct tracks *tracks, const struct out_who *who);
/*
 * Each call stack has a track, so that calls nest: that of the thread if there is no other; else
 * one below it. A thread that moved has a stack on each processor.
 */
uint64_t track_of_stack(struct tracks *tracks, const struct out_thread *thread,
                        const struct call_stack *stack, const struct out_who *who);
void tracks_free(struct tracks *tracks);

#endif
