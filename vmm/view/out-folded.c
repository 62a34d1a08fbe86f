/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folded stacks, one a line: "thread;main;compute 1234", as flame graphs are drawn from, with
 * "VM name;" in front of a guest's. The number is the time spent in the last function of the line:
 * instructions, or TSC ticks.
 */
#include "common/escape.h"
#include "view/call-tree.h"
#include "view/calls.h"
#include "view/out.h"
#include "ptdec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX (CALLS_DEPTH_MAX + 2) /* with a thread and a VM */

struct folded {
    FILE *to;
    struct calls calls;
    struct call_tree tree; /* cost: time */
    struct out_thread thread;
};

static void enter(void *owner, struct call_stack *stack, uint64_t time)
{
    struct folded *const folded = owner;
    const uint64_t parent = stack->depth > 1 ? stack->frames[stack->depth - 2].user
                                             : call_tree_root(&folded->tree, stack, time);

    stack->frames[stack->depth - 1].user =
        call_tree_node(&folded->tree, parent, stack->frames[stack->depth - 1].function);
}

static void ran(void *owner, struct call_stack *stack, const struct ptd_item *block, uint64_t from,
                uint64_t to)
{
    struct folded *const folded = owner;
    const struct call_frame *const frame = &stack->frames[stack->depth - 1];
    const uint64_t node = frame->user;

    (void)block;
    if (node && frame->is_wanted)
        folded->tree.nodes.sums[node - 1].cost += to - from;
}

static const struct calls_sink sink = {.enter = enter, .ran = ran};

static void *folded_open(FILE *to)
{
    struct folded *const folded = calloc(1, sizeof(*folded));

    if (!folded)
        return NULL;
    folded->to = to;
    folded->tree.calls = &folded->calls;
    calls_init(&folded->calls, &sink, folded);
    return folded;
}

static bool folded_begin(void *out, const struct out_thread *thread)
{
    struct folded *const folded = out;

    folded->thread = *thread;
    calls_begin(&folded->calls, thread);
    return true;
}

static bool folded_item(void *out, const struct ptd_item *item, uint64_t time)
{
    struct folded *const folded = out;

    calls_item(&folded->calls, item, time);
    return !folded->tree.no_memory && !folded->calls.no_memory;
}

static bool folded_end(void *out)
{
    calls_end(&((struct folded *)out)->calls);
    return true;
}

/* A name without what separates names. */
static void print_name(const struct folded *folded, uint64_t function)
{
    char *const name = folded->calls.names.list[function];

    for (char *c = name; *c; c++) {
        if (*c == ';' || *c == '\n')
            *c = '_';
    }
    put_escaped(name, folded->to);
}

static void print_stack(const struct folded *folded, const struct sum *leaf)
{
    const struct sum *path[DEPTH_MAX];
    size_t depth = 0;

    while (depth < DEPTH_MAX) {
        path[depth++] = leaf;
        if (leaf->key[0] == 0)
            break;
        leaf = &folded->tree.nodes.sums[leaf->key[0] - 1];
    }
    for (size_t i = depth; i-- > 0;) {
        print_name(folded, path[i]->key[1]);
        if (i)
            fputc(';', folded->to);
    }
    fprintf(folded->to, " %" PRIu64 "\n", path[0]->cost);
}

static bool folded_close(void *out)
{
    struct folded *const folded = out;

    for (size_t i = 0; i < folded->tree.nodes.count; i++) {
        if (folded->tree.nodes.sums[i].cost)
            print_stack(folded, &folded->tree.nodes.sums[i]);
    }
    call_tree_free(&folded->tree);
    calls_free(&folded->calls);
    free(folded);
    return true;
}

const struct out_format out_folded = {
    .name = "folded",
    .open = folded_open,
    .begin = folded_begin,
    .item = folded_item,
    .end = folded_end,
    .close = folded_close,
};
