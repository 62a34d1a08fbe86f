/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread had a CPU for the longest part of a time. The turns that threads took are those of
 * the file's context switches, by CPU and then by time; over them stands a tree of the longest
 * ones, so that neither many turns in a time nor many times make an answer slow.
 */
#include <stdlib.h>

#include "perf/turns.h"
#include "base/array.h"
#include "perf/order.h"
#include "ptdec_perf.h"

/* ---- The turns of a session ---- */

static bool add_turn(struct perf_turns *turns, const struct ptd_perf_pt *pt,
                     const struct ptd_perf_switch *at)
{
    struct perf_turn turn = {
        .cpu = at->cpu,
        .tsc = ptd_perf_tsc_of_time(pt, at->time),
        .thread = {at->tid, at->pid},
    };

    if (at->out && !at->has_other)
        return true; /* who comes next says so itself */
    if (at->out)
        turn.thread = (struct ptd_perf_thread){at->other_tid, at->other_pid};
    if (!array_grow((void **)&turns->list, &turns->room, turns->count, sizeof(turn)))
        return false;
    turns->list[turns->count++] = turn;
    return true;
}

/* Where the conversion of times is wrong, their order is not. */
static void keep_order(struct perf_turns *turns)
{
    for (size_t i = 1; i < turns->count; i++) {
        struct perf_turn *const turn = &turns->list[i];

        if (turn->cpu == turn[-1].cpu && turn->tsc < turn[-1].tsc)
            turn->tsc = turn[-1].tsc;
    }
}

/* Of a CPU's last turn, which has no end, 0. */
static uint64_t length_of(const struct perf_turns *turns, size_t i)
{
    return i + 1 < turns->count && turns->list[i + 1].cpu == turns->list[i].cpu
               ? turns->list[i + 1].tsc - turns->list[i].tsc
               : 0;
}

/* The longer one; the earlier one of two that are as long. count: none. */
static size_t longer(const struct perf_turns *turns, size_t a, size_t b)
{
    if (a == turns->count || b == turns->count)
        return a == turns->count ? b : a;
    if (length_of(turns, a) != length_of(turns, b))
        return length_of(turns, a) > length_of(turns, b) ? a : b;
    return a < b ? a : b;
}

/* A tree in an array: the node i has 2i and 2i + 1 below it, the turn i is node count + i. */
static bool build_tree(struct perf_turns *turns)
{
    const size_t count = turns->count;

    turns->longest = calloc(2 * count + 1, sizeof(*turns->longest));
    if (!turns->longest)
        return false;
    for (size_t i = 0; i < count; i++)
        turns->longest[count + i] = i;
    for (size_t i = count; i-- > 1;)
        turns->longest[i] = longer(turns, turns->longest[2 * i], turns->longest[2 * i + 1]);
    return true;
}

bool ptd_perf_turns_make(struct perf_turns *turns, const struct ptd_perf_session *session,
                         const struct perf_order *switches)
{
    if (!session->pt.has_time)
        return true;
    for (size_t i = 0; i < switches->count; i++) {
        if (!add_turn(turns, &session->pt, &session->switches[switches->list[i].at]))
            return false;
    }
    keep_order(turns);
    return build_tree(turns);
}

void ptd_perf_turns_free(struct perf_turns *turns)
{
    free(turns->list);
    free(turns->longest);
}

/* ---- Searches ---- */

/* How many of all turns are in front of those of a CPU that begin at or behind a TSC. */
static size_t turns_before(const struct perf_turns *turns, uint64_t cpu, uint64_t tsc)
{
    size_t low = 0, high = turns->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct perf_turn *const turn = &turns->list[middle];

        if (turn->cpu < cpu || (turn->cpu == cpu && turn->tsc < tsc))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct perf_cpu_turns ptd_perf_turns_of(const struct perf_turns *turns, uint32_t cpu)
{
    return (struct perf_cpu_turns){
        .turns = turns,
        .begin = turns_before(turns, cpu, 0),
        .end = turns_before(turns, (uint64_t)cpu + 1, 0),
    };
}

/* The longest of the turns from begin on, in front of end. count: there is none. */
static size_t longest_of(const struct perf_turns *turns, size_t begin, size_t end)
{
    size_t best = turns->count;

    for (begin += turns->count, end += turns->count; begin < end; begin /= 2, end /= 2) {
        if (begin & 1)
            best = longer(turns, best, turns->longest[begin++]);
        if (end & 1)
            best = longer(turns, best, turns->longest[--end]);
    }
    return best;
}

/* How much of a time before a turn, or in it up to the next one, is from one TSC to another. */
static uint64_t part(uint64_t begin, uint64_t end, uint64_t from, uint64_t to)
{
    begin = begin > from ? begin : from;
    end = end < to ? end : to;
    return end > begin ? end - begin : 0;
}

struct ptd_perf_thread ptd_perf_turns_most(const struct perf_cpu_turns *of_cpu, uint64_t from,
                                           uint64_t to)
{
    const struct perf_turns *const turns = of_cpu->turns;
    size_t at, last, best;
    struct ptd_perf_thread thread;
    uint64_t most;

    if (of_cpu->begin == of_cpu->end)
        return of_cpu->first;
    /* at: the turn behind the one in which the time begins; last: the one in which it ends. */
    at = from < UINT64_MAX ? turns_before(turns, turns->list[of_cpu->begin].cpu, from + 1)
                           : of_cpu->end;
    last = turns_before(turns, turns->list[of_cpu->begin].cpu, to);
    thread = at > of_cpu->begin ? turns->list[at - 1].thread : of_cpu->first;
    most = part(at > of_cpu->begin ? turns->list[at - 1].tsc : 0,
                at < of_cpu->end ? turns->list[at].tsc : UINT64_MAX, from, to);
    if (last <= at)
        return thread;
    last--;
    best = longest_of(turns, at, last);
    if (best != turns->count && length_of(turns, best) > most) {
        most = length_of(turns, best);
        thread = turns->list[best].thread;
    }
    return to - turns->list[last].tsc > most ? turns->list[last].thread : thread;
}
