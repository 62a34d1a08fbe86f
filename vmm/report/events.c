/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events among the items of a trace. Event Trace (SDM 33.2.4.3) says the reason of a VM exit in
 * front of it, and the vector of an interrupt; else NR of a PIP shows that a VM was left or
 * entered. Reasons are those of the SDM, volume 3, appendix C.
 */
#include "report/events.h"
#include "common/hash.h"
#include "common/list.h"
#include "pt_packets.h"

#include <stdlib.h>

#define BASIC_REASON 0xffffu

static const char *const reasons[] = {
    [0] = "exception or NMI",
    [1] = "external interrupt",
    [2] = "triple fault",
    [3] = "INIT",
    [4] = "SIPI",
    [7] = "interrupt window",
    [8] = "NMI window",
    [9] = "task switch",
    [10] = "CPUID",
    [12] = "HLT",
    [13] = "INVD",
    [14] = "INVLPG",
    [15] = "RDPMC",
    [16] = "RDTSC",
    [18] = "VMCALL",
    [28] = "control register",
    [29] = "debug register",
    [30] = "I/O",
    [31] = "RDMSR",
    [32] = "WRMSR",
    [33] = "invalid guest state",
    [34] = "MSR loading",
    [36] = "MWAIT",
    [37] = "monitor trap flag",
    [39] = "MONITOR",
    [40] = "PAUSE",
    [43] = "TPR below threshold",
    [44] = "APIC access",
    [45] = "virtualized EOI",
    [46] = "GDTR or IDTR",
    [47] = "LDTR or TR",
    [48] = "EPT violation",
    [49] = "EPT misconfiguration",
    [50] = "INVEPT",
    [51] = "RDTSCP",
    [52] = "preemption timer",
    [53] = "INVVPID",
    [54] = "WBINVD",
    [55] = "XSETBV",
    [56] = "APIC write",
    [57] = "RDRAND",
    [58] = "INVPCID",
    [59] = "VMFUNC",
    [61] = "RDSEED",
    [62] = "page-modification log full",
    [63] = "XSAVES",
    [64] = "XRSTORS",
};

const char *exit_reason_name(uint32_t reason)
{
    return reason < sizeof(reasons) / sizeof(reasons[0]) ? reasons[reason] : NULL;
}

void events_begin(struct events *events)
{
    events->in_guest = events->is_out = false;
    events->last_space = PTD_ANY_CR3;
    events->reason = NO_REASON;
    events->vector = NO_VECTOR;
}

void events_free(struct events *events)
{
    free(events->list);
    table_free(&events->ids);
}

struct event *events_at(struct events *events, const struct event *like)
{
    const uint64_t what = (uint64_t)like->vector << 32 | like->what;
    const bool has_room =
        events->count < EVENTS_MAX || table_find(&events->ids, like->kind, what, like->who);
    struct sum *const sum =
        table_at(&events->ids, like->kind, has_room ? what : 0, has_room ? like->who : 0);
    struct event *grown;

    if (!sum)
        return NULL;
    if (sum->count > 0)
        return &events->list[sum->count - 1];
    grown = list_grow(events->list, events->count, &events->room, sizeof(*grown));
    if (!grown)
        return NULL;
    events->list = grown;
    events->list[events->count++] = *like;
    sum->count = events->count;
    return &events->list[sum->count - 1];
}

/* Counts one. NULL: no memory. */
static struct event *count_one(struct events *events, const struct sums *sums,
                               const struct event *like)
{
    struct event *const event = like->who == UINT32_MAX ? NULL : events_at(events, like);

    if (event && !sums->is_muted)
        event->count++;
    return event;
}

/* ---- VM exits ---- */

static bool leave_vm(struct events *events, struct sums *sums, const struct tally *tally,
                     uint64_t space)
{
    const struct event like = {.kind = EVENT_EXIT,
                               .what = events->reason,
                               .vector = events->vector,
                               .who = sums_who(sums, space)};
    const struct event *const event = count_one(events, sums, &like);

    if (!event)
        return false;
    events->is_out = true;
    events->exit = (size_t)(event - events->list);
    events->exit_ticks = tally_now(tally);
    events->exit_insns = tally_insns(tally);
    events->reason = NO_REASON;
    events->vector = NO_VECTOR;
    return true;
}

static void enter_vm(struct events *events, const struct sums *sums, const struct tally *tally)
{
    struct event *const event = &events->list[events->exit];

    if (!events->is_out)
        return;
    events->is_out = false;
    if (sums->is_muted)
        return;
    event->insns += tally_insns(tally) - events->exit_insns;
    if (events->exit_ticks != PTD_TIME_UNKNOWN)
        event->ticks += tally_now(tally) - events->exit_ticks;
}

/* A PIP: what a PSB+ says is no change. */
static bool see_space(struct events *events, struct sums *sums, const struct tally *tally,
                      const struct ptd_item *item)
{
    const bool leaves = events->in_guest && !item->nr && !item->in_psb;
    const bool enters = !events->in_guest && item->nr && !item->in_psb;

    events->in_guest = item->nr;
    if (enters)
        enter_vm(events, sums, tally);
    return !leaves || events->is_out || leave_vm(events, sums, tally, events->last_space);
}

uint64_t events_fingerprint(const struct events *events, const struct sums *sums,
                            const struct tally *tally)
{
    uint64_t hash = (uint64_t)events->in_guest << 1 | events->is_out;
    const struct event *const exit = &events->list[events->exit];

    hash = hash_more(hash_more(hash, events->last_space),
                     (uint64_t)events->reason << 32 | events->vector);
    if (!events->is_out)
        return hash;
    hash = hash_more(hash_more(hash, events->exit_ticks), tally_insns(tally) - events->exit_insns);
    hash = hash_more(hash, (uint64_t)exit->what << 32 | exit->vector);
    return hash_more(hash, sums_fingerprint_of_who(sums, exit->who));
}

/* ---- Packets of Event Trace ---- */

static bool see_cfe(struct events *events, struct sums *sums, const struct tally *tally,
                    const struct ptd_item *item)
{
    switch (item->packet.cfe.type) {
    case PT_CFE_VMEXIT_INTR:
        events->vector = item->packet.cfe.vector;
        return leave_vm(events, sums, tally, item->cr3);
    case PT_CFE_VMEXIT:
        return leave_vm(events, sums, tally, item->cr3);
    case PT_CFE_VMENTRY:
        enter_vm(events, sums, tally);
        break;
    case PT_CFE_INTR:
    case PT_CFE_SWINT:
        events->vector = item->packet.cfe.vector;
        break;
    default:
        break;
    }
    return true;
}

static bool see_packet(struct events *events, struct sums *sums, const struct tally *tally,
                       const struct ptd_item *item)
{
    if (item->packet.type == PTD_CFE)
        return see_cfe(events, sums, tally, item);
    if (item->packet.type == PTD_EVD && item->packet.evd.type == PT_EVD_VMXR)
        events->reason = (uint32_t)(item->packet.evd.payload & BASIC_REASON);
    return true;
}

/* ---- Others ---- */

static bool see_interrupt(struct events *events, struct sums *sums, const struct ptd_item *item)
{
    bool is_entry;
    struct event like = {.kind = EVENT_INTERRUPT,
                         .what = sums_function(sums, item->cr3, item->to, &is_entry),
                         .vector = events->vector,
                         .who = sums_who(sums, item->cr3)};

    events->vector = NO_VECTOR;
    return like.what != UINT32_MAX && count_one(events, sums, &like);
}

static bool see_error(struct events *events, struct sums *sums, const struct ptd_item *item)
{
    const struct event like = {.kind = EVENT_ERROR,
                               .what = (uint32_t)-item->error,
                               .vector = NO_VECTOR,
                               .who = sums_who(sums, item->cr3),
                               .has_address = item->has_from,
                               .address = item->from};
    struct event *const event = count_one(events, sums, &like);

    if (event && !sums->is_muted)
        event->bytes += item->value;
    events_begin(events);
    return event;
}

static bool see_overflow(struct events *events, struct sums *sums, const struct ptd_item *item)
{
    return count_one(events, sums,
                     &(struct event){.kind = EVENT_OVERFLOW,
                                     .vector = NO_VECTOR,
                                     .who = sums_who(sums, item->cr3)});
}

bool events_item(struct events *events, struct sums *sums, const struct tally *tally,
                 const struct ptd_item *item)
{
    bool is_good = true;

    switch (item->type) {
    case PTD_ITEM_ASYNC:
        is_good = see_interrupt(events, sums, item);
        break;
    case PTD_ITEM_CR3:
        is_good = see_space(events, sums, tally, item);
        break;
    case PTD_ITEM_PACKET:
        is_good = see_packet(events, sums, tally, item);
        break;
    case PTD_ITEM_OVERFLOW:
        is_good = see_overflow(events, sums, item);
        break;
    case PTD_ITEM_ERROR:
        is_good = see_error(events, sums, item);
        break;
    default:
        break;
    }
    events->last_space = item->cr3;
    return is_good;
}
