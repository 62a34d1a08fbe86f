/* SPDX-License-Identifier: BSD-3-Clause */
#include "view/filter.h"

#include <fnmatch.h>

#define HOST    "host"
#define NO_NAME "?"

static bool is_like(const char *pattern, const char *name)
{
    return !pattern || fnmatch(pattern, name, 0) == 0;
}

bool filter_is_set(const struct filter *filter)
{
    return filter->vm || filter->process || filter->symbol || filter->has_pid || filter->has_cpu;
}

bool filter_takes_half(const struct filter *filter, bool is_kernel)
{
    return filter->half != (is_kernel ? FILTER_USER : FILTER_KERNEL);
}

bool filter_takes_processor(const struct filter *filter, int cpu)
{
    return !filter->has_cpu || cpu == filter->cpu;
}

bool filter_takes_who(const struct filter *filter, const struct out_who *who, int cpu)
{
    return (!filter->has_pid || who->pid == filter->pid) && filter_takes_processor(filter, cpu) &&
           is_like(filter->vm, who->vm ? who->vm : HOST) && is_like(filter->process, who->comm);
}

bool filter_takes_symbol(const struct filter *filter, const char *name)
{
    return is_like(filter->symbol, name ? name : NO_NAME);
}

/* ---- Of a thread ---- */

bool out_takes_who(const struct out_thread *thread, uint64_t cr3, uint64_t time)
{
    struct out_who who;

    if (!thread->filter)
        return true;
    if (thread->who || !thread->contexts)
        who = out_who(thread, cr3, time);
    else
        who_of_map(thread->contexts, cr3, 0, &who);
    return filter_takes_who(thread->filter, &who, thread->processor);
}

bool out_takes_at(const struct out_thread *thread, uint64_t cr3, uint64_t ip)
{
    if (!thread->filter || !thread->filter->symbol)
        return true;
    return filter_takes_symbol(
        thread->filter, shown_name(thread->shown, ptd_image_symbol(thread->image, cr3, ip, NULL)));
}

bool out_takes_processor(const struct out_thread *thread)
{
    return !thread->filter || filter_takes_processor(thread->filter, thread->processor);
}

bool out_takes_event(const struct out_thread *thread, const struct ptd_item *item, uint64_t time)
{
    if (!thread->filter)
        return true;
    if (item->type == PTD_ITEM_ERROR || item->type == PTD_ITEM_OVERFLOW)
        return out_takes_processor(thread);
    if (!out_takes_who(thread, item->cr3, time))
        return false;
    return !thread->filter->symbol ||
           (item->has_from && out_takes_at(thread, item->cr3, item->from)) ||
           (item->has_to && out_takes_at(thread, item->cr3, item->to));
}
