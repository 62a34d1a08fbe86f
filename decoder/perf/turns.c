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

#define ANCESTORS 64u /* so many that are looked at; a file may make them go round */

/* ---- The turns of a session ---- */

/* A process has the code of the one that made it, until it has its own. */
bool ptd_perf_turns_has_code(const struct ptd_perf_session *session, const struct perf_order *maps,
                             const struct perf_order *forks, uint32_t pid)
{
    for (unsigned i = 0; i < ANCESTORS; i++) {
        const size_t at = ptd_perf_order_begin(maps, pid, 0);
        const struct perf_entry *const fork = ptd_perf_order_last(forks, pid, UINT64_MAX);

        if (at < maps->count && maps->list[at].key == pid)
            return true;
        if (!fork)
            return false;
        pid = session->forks[fork->at].parent_pid;
    }
    return false;
}

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
    turn.is_coming = at->out;
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

/* Without the record of its begin, a thread that comes counts as one that runs. */
static void find_begins(struct perf_turns *turns)
{
    for (size_t i = 0; i < turns->count; i++) {
        struct perf_turn *const turn = &turns->list[i];

        turn->is_coming = turn->is_coming && i + 1 < turns->count && turn[1].cpu == turn->cpu &&
                          !turn[1].is_coming && turn[1].thread.tid == turn->thread.tid;
    }
}

/* Of a CPU's last turn, which has no end, 0. */
static uint64_t length_of(const struct perf_turns *turns, size_t i)
{
    return i + 1 < turns->count && turns->list[i + 1].cpu == turns->list[i].cpu
               ? turns->list[i + 1].tsc - turns->list[i].tsc
               : 0;
}

/* A part of a time, for which somebody had the CPU. */
struct piece {
    struct ptd_perf_thread thread;
    uint64_t ticks;
};

static bool counts(const struct perf_turns *turns, size_t i, bool space)
{
    return !space || turns->list[i].has_space;
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

/*
 * A tree in an array: the node i has 2i and 2i + 1 below it, the turn i is node count + i. space:
 * of those that have an address space. NULL: no memory.
 */
static size_t *build_tree(const struct perf_turns *turns, bool space)
{
    const size_t count = turns->count;
    size_t *const longest = calloc(2 * count + 1, sizeof(*longest));

    if (!longest)
        return NULL;
    for (size_t i = 0; i < count; i++)
        longest[count + i] = counts(turns, i, space) ? i : count;
    for (size_t i = count; i-- > 1;)
        longest[i] = longer(turns, longest[2 * i], longest[2 * i + 1]);
    return longest;
}

bool ptd_perf_turns_make(struct perf_turns *turns, const struct ptd_perf_session *session,
                         const struct perf_order *switches, const struct perf_order *maps,
                         const struct perf_order *forks)
{
    if (!session->pt.has_time)
        return true;
    for (size_t i = 0; i < switches->count; i++) {
        if (!add_turn(turns, &session->pt, &session->switches[switches->list[i].at]))
            return false;
    }
    keep_order(turns);
    find_begins(turns);
    for (size_t i = 0; i < turns->count; i++) {
        struct perf_turn *const turn = &turns->list[i];

        turn->has_space =
            !turn->is_coming && ptd_perf_turns_has_code(session, maps, forks, turn->thread.pid);
    }
    turns->longest = build_tree(turns, false);
    turns->longest_space = build_tree(turns, true);
    return turns->longest && turns->longest_space;
}

void ptd_perf_turns_free(struct perf_turns *turns)
{
    free(turns->list);
    free(turns->longest);
    free(turns->longest_space);
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
static size_t longest_of(const struct perf_turns *turns, size_t begin, size_t end, bool space)
{
    const size_t *const longest = space ? turns->longest_space : turns->longest;
    size_t best = turns->count;

    for (begin += turns->count, end += turns->count; begin < end; begin /= 2, end /= 2) {
        if (begin & 1)
            best = longer(turns, best, longest[begin++]);
        if (end & 1)
            best = longer(turns, best, longest[--end]);
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

/* Takes the piece if it is longer than the best one. */
static void take(struct piece *best, bool *found, struct ptd_perf_thread thread, uint64_t ticks)
{
    if (*found && ticks <= best->ticks)
        return;
    *best = (struct piece){thread, ticks};
    *found = true;
}

/* False: there is none that counts. */
static bool find_most(const struct perf_cpu_turns *of_cpu, uint64_t from, uint64_t to, bool space,
                      struct ptd_perf_thread *thread)
{
    const struct perf_turns *const turns = of_cpu->turns;
    const uint32_t cpu = turns->list[of_cpu->begin].cpu;
    /* The turn behind the one in which the time begins, and that behind the one in which it ends.
     */
    const size_t at = from < UINT64_MAX ? turns_before(turns, cpu, from + 1) : of_cpu->end;
    const size_t last = turns_before(turns, cpu, to);
    const uint64_t next = at < of_cpu->end ? turns->list[at].tsc : UINT64_MAX;
    struct piece best = {.ticks = 0};
    bool found = false;

    if (at > of_cpu->begin && counts(turns, at - 1, space))
        take(&best, &found, turns->list[at - 1].thread,
             part(turns->list[at - 1].tsc, next, from, to));
    if (at == of_cpu->begin && (!space || of_cpu->first_has_space))
        take(&best, &found, of_cpu->first, part(0, next, from, to));
    if (last > at) {
        const size_t whole = longest_of(turns, at, last - 1, space);

        if (whole < turns->count)
            take(&best, &found, turns->list[whole].thread, length_of(turns, whole));
        if (counts(turns, last - 1, space))
            take(&best, &found, turns->list[last - 1].thread, to - turns->list[last - 1].tsc);
    }
    *thread = best.thread;
    return found;
}

struct ptd_perf_thread ptd_perf_turns_most(const struct perf_cpu_turns *of_cpu, uint64_t from,
                                           uint64_t to)
{
    struct ptd_perf_thread thread = of_cpu->first;

    if (of_cpu->begin < of_cpu->end)
        (void)find_most(of_cpu, from, to, false, &thread);
    return thread;
}

struct ptd_perf_thread ptd_perf_turns_space(const struct perf_cpu_turns *of_cpu, uint64_t from,
                                            uint64_t to)
{
    struct ptd_perf_thread thread = of_cpu->first;

    if (of_cpu->begin < of_cpu->end && find_most(of_cpu, from, to, true, &thread))
        return thread;
    return ptd_perf_turns_most(of_cpu, from, to);
}
