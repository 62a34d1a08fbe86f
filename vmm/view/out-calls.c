/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of a trace as a person reads them, indented and with times:
 *
 *        seconds  microseconds  function
 *    8121.000340                main {
 *    8121.000361         0.410    compute();
 *    8121.000803       463.000  } main
 *
 * A function that was left has a closing line, or is closed on its own line if it called no other.
 * One that the trace lost sight of has none.
 */
#include "common/escape.h"
#include "view/calls.h"
#include "view/filter.h"
#include "view/out.h"
#include "ptdec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S   UINT64_C(1000000000)
#define INDENT_MAX 60u
#define TIME_WIDTH 20
#define TOOK_WIDTH 12

struct outline {
    FILE *to;
    struct calls calls;
    struct out_thread thread;
    const struct call_stack *pending; /* of which a function was entered that is not printed yet: */
    size_t pending_depth;             /* the one at this depth */
    char *shown;                      /* whose lines are printed; NULL: nobody's */
    uint64_t shown_cr3;
    uint32_t shown_tid;
    bool blind; /* functions are given up, they do not return */
    bool no_memory;
};

/* ---- Columns ---- */

static void print_head(const struct outline *outline)
{
    fprintf(outline->to, "%*s %*s  function\n", TIME_WIDTH,
            out_has_ns(&outline->thread) ? "seconds"
            : outline->thread.is_tsc     ? "TSC ticks"
                                         : "instructions",
            TOOK_WIDTH, out_has_ns(&outline->thread) ? "microseconds" : "took");
}

static void print_time(const struct outline *outline, uint64_t time)
{
    const uint64_t ns = out_ns(&outline->thread, time);

    if (out_has_ns(&outline->thread))
        fprintf(outline->to, "%*" PRIu64 ".%09" PRIu64 " ", TIME_WIDTH - 10, ns / NS_PER_S,
                ns % NS_PER_S);
    else
        fprintf(outline->to, "%*" PRIu64 " ", TIME_WIDTH, ns);
}

static void print_took(const struct outline *outline, uint64_t from, uint64_t to)
{
    const uint64_t took = out_ns(&outline->thread, to) - out_ns(&outline->thread, from);

    if (out_has_ns(&outline->thread))
        fprintf(outline->to, "%*" PRIu64 ".%03" PRIu64 "  ", TOOK_WIDTH - 4, took / 1000,
                took % 1000);
    else
        fprintf(outline->to, "%*" PRIu64 "  ", TOOK_WIDTH, took);
}

static void print_indent(const struct outline *outline, size_t depth)
{
    const size_t indent = 2 * (depth - 1);

    fprintf(outline->to, "%*s", (int)(indent < INDENT_MAX ? indent : INDENT_MAX), "");
}

static const char *name_of(const struct outline *outline, const struct call_frame *frame)
{
    return outline->calls.names.list[frame->function];
}

/* ---- Lines ---- */

static void print_entry(struct outline *outline)
{
    const struct call_stack *const stack = outline->pending;
    const struct call_frame *const frame =
        stack ? &stack->frames[outline->pending_depth - 1] : NULL;

    if (!frame)
        return;
    outline->pending = NULL;
    print_time(outline, frame->user);
    fprintf(outline->to, "%*s  ", TOOK_WIDTH, "");
    print_indent(outline, outline->pending_depth);
    put_escaped(name_of(outline, frame), outline->to);
    fputs(" {\n", outline->to);
}

/* A line where it is another's turn. */
static void print_who(struct outline *outline, const struct call_stack *stack, uint64_t time)
{
    const struct out_who who = calls_who(&outline->calls, stack, time);
    char cr3[OUT_CR3_ROOM];

    if (outline->shown && outline->shown_tid == who.tid && strcmp(outline->shown, who.comm) == 0 &&
        (stack->is_thread || outline->shown_cr3 == stack->cr3))
        return;
    free(outline->shown);
    outline->shown = strdup(who.comm);
    outline->shown_cr3 = stack->cr3;
    outline->shown_tid = who.tid;
    outline->no_memory = outline->no_memory || !outline->shown;
    fputs("== ", outline->to);
    if (who.vm) {
        fputs("VM ", outline->to);
        put_escaped(who.vm, outline->to);
        fputs(", ", outline->to);
    }
    put_escaped(who.comm, outline->to);
    if (who.pid)
        fprintf(outline->to, ", pid %" PRIu32 ", tid %" PRIu32, who.pid, who.tid);
    fprintf(outline->to, ", CR3 %s\n", out_cr3(stack->cr3, cr3));
}

static void enter(void *owner, struct call_stack *stack, uint64_t time)
{
    struct outline *const outline = owner;

    if (!stack->frames[stack->depth - 1].is_wanted)
        return;
    print_entry(outline);
    print_who(outline, stack, time);
    stack->frames[stack->depth - 1].user = time;
    outline->pending = stack;
    outline->pending_depth = stack->depth;
}

static void leave(void *owner, struct call_stack *stack, uint64_t time)
{
    struct outline *const outline = owner;
    const struct call_frame *const frame = &stack->frames[stack->depth - 1];
    const bool at_once = outline->pending == stack;

    if (!frame->is_wanted)
        return;
    if (outline->blind || !at_once)
        print_entry(outline);
    if (outline->blind)
        return;
    outline->pending = NULL;
    print_who(outline, stack, time);
    print_time(outline, at_once ? frame->user : time);
    print_took(outline, frame->user, time);
    print_indent(outline, stack->depth);
    if (!at_once)
        fputs("} ", outline->to);
    put_escaped(name_of(outline, frame), outline->to);
    fputs(at_once ? "();\n" : "\n", outline->to);
}

static const struct calls_sink sink = {.enter = enter, .leave = leave};

/* What a reader has to know besides the calls. */
static void print_event(struct outline *outline, const struct ptd_item *item, uint64_t time)
{
    char text[128];

    if (item->type == PTD_ITEM_ERROR)
        snprintf(text, sizeof(text), "%s; %" PRIu64 " bytes lost", ptd_strerror(item->error),
                 item->value);
    else if (item->type == PTD_ITEM_OVERFLOW)
        snprintf(text, sizeof(text), "overflow");
    else if (item->type == PTD_ITEM_PTWRITE)
        snprintf(text, sizeof(text), "ptwrite %#" PRIx64, item->value);
    else if (item->type == PTD_ITEM_STOP)
        snprintf(text, sizeof(text), "the trace stops");
    else
        return;
    if (!out_takes_event(&outline->thread, item, time))
        return;
    print_entry(outline);
    print_time(outline, time);
    fprintf(outline->to, "%*s  -- %s\n", TOOK_WIDTH, "", text);
}

/* ---- The format ---- */

static void *calls_open(FILE *to)
{
    struct outline *const outline = calloc(1, sizeof(*outline));

    if (!outline)
        return NULL;
    outline->to = to;
    calls_init(&outline->calls, &sink, outline);
    return outline;
}

static bool begin(void *out, const struct out_thread *thread)
{
    struct outline *const outline = out;

    outline->thread = *thread;
    outline->pending = NULL;
    free(outline->shown);
    outline->shown = NULL;
    print_head(outline);
    calls_begin(&outline->calls, thread);
    return true;
}

static bool item_of(void *out, const struct ptd_item *item, uint64_t time)
{
    struct outline *const outline = out;

    outline->blind = item->type == PTD_ITEM_ERROR || item->type == PTD_ITEM_OVERFLOW;
    calls_item(&outline->calls, item, time);
    print_event(outline, item, time);
    return !outline->no_memory && !outline->calls.no_memory;
}

static bool end(void *out)
{
    struct outline *const outline = out;

    outline->blind = true;
    calls_end(&outline->calls);
    return !outline->no_memory;
}

static bool close_all(void *out)
{
    struct outline *const outline = out;
    const bool done = !outline->no_memory;

    free(outline->shown);
    calls_free(&outline->calls);
    free(outline);
    return done;
}

const struct out_format out_calls = {
    .name = "calls",
    .is_view = true,
    .open = calls_open,
    .begin = begin,
    .item = item_of,
    .end = end,
    .close = close_all,
};
