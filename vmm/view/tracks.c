/* SPDX-License-Identifier: BSD-3-Clause */
/* What tracks are called, and which is below which. */
#include "view/tracks.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME_ROOM 128u

uint64_t track_at(struct tracks *tracks, uint64_t parent, enum track_kind kind, uint64_t number,
                  const char *name)
{
    const size_t count = tracks->ids.count;
    const struct sum *const sum = table_at(&tracks->ids, parent, kind, number);
    uint64_t track;

    if (!sum) {
        tracks->no_memory = true;
        return 0;
    }
    track = (uint64_t)(sum - tracks->ids.sums) + 1;
    if (tracks->ids.count != count)
        tracks->describe(tracks->owner, track, parent, kind, name);
    return track;
}

/* 0: the host, or the only machine that there is. */
static uint64_t track_of_vm(struct tracks *tracks, const struct out_who *who)
{
    char name[NAME_ROOM];
    uint32_t number;

    if (!who->vm)
        return 0;
    number = names_add(&tracks->vms, who->vm);
    if (number == UINT32_MAX) {
        tracks->no_memory = true;
        return 0;
    }
    (void)snprintf(name, sizeof(name), "VM %s", who->vm);
    return track_at(tracks, 0, TRACK_VM, number, name);
}

uint64_t track_of_cpu(struct tracks *tracks, const struct out_thread *thread)
{
    char name[NAME_ROOM];

    (void)snprintf(name, sizeof(name), "processor %d", thread->cpu);
    return track_at(tracks, 0, TRACK_CPU, (uint64_t)thread->cpu, name);
}

/* "make, pid 812", or of what has no pid "make, CR3 0x1000". */
static void name_process(const struct out_who *who, const char *what, uint32_t number, char *name)
{
    char cr3[OUT_CR3_ROOM];

    if (who->pid == 0 && who->cr3)
        (void)snprintf(name, NAME_ROOM, "%s, CR3 %s", who->comm, out_cr3(who->cr3, cr3));
    else
        (void)snprintf(name, NAME_ROOM, "%s, %s %" PRIu32, who->comm, what, number);
}

uint64_t track_of_thread(struct tracks *tracks, const struct out_who *who)
{
    const bool by_space = who->pid == 0 && who->cr3;
    char name[NAME_ROOM];
    uint64_t process;

    name_process(who, "pid", who->pid, name);
    process = track_at(tracks, track_of_vm(tracks, who), by_space ? TRACK_SPACE : TRACK_PROCESS,
                       by_space ? who->cr3 : who->pid, name);
    if (by_space)
        return process;
    name_process(who, "tid", who->tid, name);
    return track_at(tracks, process, TRACK_THREAD, who->tid, name);
}

uint64_t track_of_stack(struct tracks *tracks, const struct out_thread *thread,
                        const struct call_stack *stack, const struct out_who *who)
{
    const uint64_t parent = track_of_thread(tracks, who);
    char name[NAME_ROOM], cr3[OUT_CR3_ROOM];

    if (!thread->who && stack->id == 0)
        return parent;
    if (stack->is_thread && thread->cpu < 0)
        return parent;
    if (thread->cpu >= 0)
        (void)snprintf(name, sizeof(name), "on processor %d", thread->cpu);
    else
        (void)snprintf(name, sizeof(name), "CR3 %s", out_cr3(stack->cr3, cr3));
    return track_at(tracks, parent, TRACK_STACK, (uint64_t)tracks->sequence << 32 | stack->id,
                    name);
}

void tracks_free(struct tracks *tracks)
{
    names_free(&tracks->vms);
    table_free(&tracks->ids);
}
