/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When an item was, and who ran: the one thread of a trace, one of many by its address space and
 * time, or what a map file says of an address space.
 */
#include "view/out.h"

#include <inttypes.h>

bool out_has_ns(const struct out_thread *thread)
{
    return thread->is_tsc && thread->to_ns;
}

uint64_t out_ns(const struct out_thread *thread, uint64_t time)
{
    return out_has_ns(thread) ? thread->to_ns(thread->to_ns_owner, time) : time;
}

struct out_who out_who(const struct out_thread *thread, uint64_t cr3, uint64_t time)
{
    const uint64_t ns = time != OUT_LAST && out_has_ns(thread) ? out_ns(thread, time) : UINT64_MAX;
    struct out_who who = {.pid = thread->pid, .tid = thread->tid, .comm = thread->comm};

    if (thread->who)
        thread->who(thread->who_owner, cr3, ns, &who);
    else if (thread->comm_at)
        who.comm = thread->comm_at(thread->who_owner, thread, ns);
    return who;
}

const char *out_cr3(uint64_t space, char text[OUT_CR3_ROOM])
{
    const uint64_t cr3 = ptd_space_cr3(space);

    if (cr3 == PTD_ANY_CR3)
        (void)snprintf(text, OUT_CR3_ROOM, "unknown");
    else
        (void)snprintf(text, OUT_CR3_ROOM, "%#" PRIx64, cr3);
    return text;
}

void who_of_map(const void *contexts, uint64_t cr3, uint64_t ns, struct out_who *who)
{
    struct ptd_context context;

    (void)ns;
    ptd_contexts_find(contexts, cr3, 0, &context);
    *who = (struct out_who){.vm = context.vm_name, .cr3 = context.cr3};
    if (context.vm && !who->vm)
        who->vm = "?";
    if (context.pid >= 0 && context.pid <= INT32_MAX)
        who->pid = who->tid = (uint32_t)context.pid;
    who->comm = context.process ? context.process : context.vm ? "guest" : "host";
}
