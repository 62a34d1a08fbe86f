/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The profile format of callgrind: what each function cost by address, whom it called how often,
 * and what that cost. The event is Ir (instructions), or Tsc (ticks).
 */
#include "common/escape.h"
#include "view/calls.h"
#include "view/out.h"
#include "common/table.h"
#include "ptdec.h"

#include <inttypes.h>
#include <stdlib.h>

struct callgrind {
    FILE *to;
    struct calls calls;
    struct table self;       /* key: function, ip */
    struct table calls_made; /* key: caller << 32 | callee, ip of the call, ip of the callee */
    uint64_t total;
    bool is_tsc, no_memory;
};

static void ran(void *owner, struct call_stack *stack, const struct ptd_item *block, uint64_t from,
                uint64_t to)
{
    struct callgrind *const callgrind = owner;
    struct call_frame *const frame = &stack->frames[stack->depth - 1];
    struct sum *sum;

    if (!frame->user)
        frame->user = block->ip; /* where it began */
    if (!frame->is_wanted)
        return;
    sum = table_at(&callgrind->self, frame->function, block->ip, 0);
    if (!sum) {
        callgrind->no_memory = true;
        return;
    }
    sum->cost += to - from;
    callgrind->total += to - from;
}

/* Whether the function of the top frame is on the stack below it too. */
static bool recurses(const struct call_stack *stack)
{
    for (size_t i = 0; i + 1 < stack->depth; i++) {
        if (stack->frames[i].function == stack->frames[stack->depth - 1].function)
            return true;
    }
    return false;
}

/* What a recursive call costs is a part of what the outermost one does, and counts there. */
static void leave(void *owner, struct call_stack *stack, uint64_t time)
{
    struct callgrind *const callgrind = owner;
    const struct call_frame *const frame = &stack->frames[stack->depth - 1];
    const struct call_frame *const caller = frame - 1;
    struct sum *sum;

    (void)time;
    if (stack->depth < 2 || !caller->is_wanted)
        return;
    sum = table_at(&callgrind->calls_made, (uint64_t)caller->function << 32 | frame->function,
                   frame->call_ip ? frame->call_ip : frame->return_ip, frame->user);
    if (!sum) {
        callgrind->no_memory = true;
        return;
    }
    sum->count++;
    if (!recurses(stack))
        sum->cost += stack->spent - frame->entered;
}

static const struct calls_sink sink = {.leave = leave, .ran = ran};

static void *callgrind_open(FILE *to)
{
    struct callgrind *const callgrind = calloc(1, sizeof(*callgrind));

    if (!callgrind)
        return NULL;
    callgrind->to = to;
    calls_init(&callgrind->calls, &sink, callgrind);
    return callgrind;
}

static bool callgrind_begin(void *out, const struct out_thread *thread)
{
    struct callgrind *const callgrind = out;

    callgrind->is_tsc = thread->is_tsc;
    calls_begin(&callgrind->calls, thread);
    return true;
}

static bool callgrind_item(void *out, const struct ptd_item *item, uint64_t time)
{
    struct callgrind *const callgrind = out;

    calls_item(&callgrind->calls, item, time);
    return !callgrind->no_memory && !callgrind->calls.no_memory;
}

static bool callgrind_end(void *out)
{
    calls_end(&((struct callgrind *)out)->calls);
    return true;
}

static int by_key(const void *left, const void *right)
{
    const struct sum *const a = left, *const b = right;

    for (size_t i = 0; i < 3; i++) {
        if (a->key[i] != b->key[i])
            return a->key[i] < b->key[i] ? -1 : 1;
    }
    return 0;
}

/* Sorted: the lookup by key is over. */
static void sort(struct table *table)
{
    if (table->count)
        qsort(table->sums, table->count, sizeof(*table->sums), by_key);
}

/* The line number is always 0: an image has none. */
static void print_function(struct callgrind *callgrind, uint32_t function, size_t *self,
                           size_t *calls)
{
    const struct names *const names = &callgrind->calls.names;
    const bool has_self =
        *self < callgrind->self.count && callgrind->self.sums[*self].key[0] == function;
    const bool has_calls = *calls < callgrind->calls_made.count &&
                           callgrind->calls_made.sums[*calls].key[0] >> 32 == function;
    struct escaped room;

    if (!has_self && !has_calls)
        return;
    fprintf(callgrind->to, "\nfn=(%" PRIu32 ") %s\n", function + 1,
            escaped(names->list[function], &room));
    for (; *self < callgrind->self.count && callgrind->self.sums[*self].key[0] == function;
         ++*self) {
        const struct sum *const sum = &callgrind->self.sums[*self];

        fprintf(callgrind->to, "0x%" PRIx64 " 0 %" PRIu64 "\n", sum->key[1], sum->cost);
    }
    for (; *calls < callgrind->calls_made.count &&
           callgrind->calls_made.sums[*calls].key[0] >> 32 == function;
         ++*calls) {
        const struct sum *const sum = &callgrind->calls_made.sums[*calls];
        const uint32_t callee = (uint32_t)sum->key[0];

        fprintf(callgrind->to,
                "cfn=(%" PRIu32 ") %s\ncalls=%" PRIu64 " 0x%" PRIx64 " 0\n0x%" PRIx64 " 0 %" PRIu64
                "\n",
                callee + 1, escaped(names->list[callee], &room), sum->count, sum->key[2],
                sum->key[1], sum->cost);
    }
}

static bool callgrind_close(void *out)
{
    struct callgrind *const callgrind = out;
    size_t self = 0, calls = 0;

    fprintf(callgrind->to,
            "# callgrind format\nversion: 1\ncreator: vpt\npositions: instr line\nevents: %s\n"
            "summary: %" PRIu64 "\n\nfl=(1) ???\n",
            callgrind->is_tsc ? "Tsc" : "Ir", callgrind->total);
    sort(&callgrind->self);
    sort(&callgrind->calls_made);
    for (uint32_t i = 0; i < callgrind->calls.names.count; i++)
        print_function(callgrind, i, &self, &calls);
    table_free(&callgrind->self);
    table_free(&callgrind->calls_made);
    calls_free(&callgrind->calls);
    free(callgrind);
    return true;
}

const struct out_format out_callgrind = {
    .name = "callgrind",
    .open = callgrind_open,
    .begin = callgrind_begin,
    .item = callgrind_item,
    .end = callgrind_end,
    .close = callgrind_close,
};
