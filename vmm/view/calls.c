/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call stack behind a flow: CALL and RET, jumps from function to function, interrupts and their
 * ends, per address space. A trace may begin anywhere and lose parts; a stack is then what is known
 * of it.
 */
#include "view/calls.h"
#include "view/filter.h"
#include "common/table.h"
#include "ptdec.h"

#include <stdlib.h>
#include <string.h>

#define INSN_BYTES 15u
#define UNKNOWN    "[unknown]"

void calls_init(struct calls *calls, const struct calls_sink *sink, void *owner)
{
    *calls = (struct calls){.sink = sink, .owner = owner};
}

void calls_free(struct calls *calls)
{
    for (size_t i = 0; i < calls->stack_count; i++)
        free(calls->stacks[i]);
    names_free(&calls->names);
}

/* ---- Frames ---- */

static struct call_frame *top(struct call_stack *stack)
{
    return &stack->frames[stack->depth - 1];
}

static void leave(struct calls *calls, struct call_stack *stack)
{
    if (calls->sink->leave && !calls->no_memory)
        calls->sink->leave(calls->owner, stack, calls->now);
    stack->depth--;
}

static void leave_down_to(struct calls *calls, struct call_stack *stack, size_t depth)
{
    while (stack->depth > depth)
        leave(calls, stack);
}

/* Whether the function of the top frame is, and who runs it now. */
static bool is_wanted(const struct calls *calls, struct call_stack *stack)
{
    const char *name;

    if (!calls->thread.filter || calls->no_memory) /* then the name may be missing */
        return true;
    name = calls->names.list[top(stack)->function];
    return out_takes_who(&calls->thread, stack->cr3, calls->now) &&
           filter_takes_symbol(calls->thread.filter, strcmp(name, UNKNOWN) ? name : NULL);
}

static void enter(struct calls *calls, struct call_stack *stack, const struct call_frame *frame)
{
    if (stack->depth == CALLS_DEPTH_MAX) /* calls without returns: something else than calls */
        leave(calls, stack);
    stack->frames[stack->depth] = *frame;
    stack->frames[stack->depth].entered = stack->spent;
    stack->depth++;
    top(stack)->is_wanted = is_wanted(calls, stack);
    if (calls->sink->enter && !calls->no_memory) /* else the name may be missing */
        calls->sink->enter(calls->owner, stack, calls->now);
}

static uint32_t function_of(struct calls *calls, const struct ptd_item *block)
{
    const char *const name = shown_name(
        calls->thread.shown, ptd_image_symbol(calls->thread.image, block->cr3, block->ip, NULL));
    const uint32_t function = names_add(&calls->names, name ? name : UNKNOWN);

    if (function == UINT32_MAX) {
        calls->no_memory = true;
        return 0;
    }
    return function;
}

/* ---- What leads from a block to the next ---- */

/* The last instruction of a block. False: its code is no longer there. */
static bool last_insn(const struct calls *calls, const struct ptd_item *block,
                      struct ptd_insn *insn)
{
    const uint8_t *bytes;
    size_t len;

    return ptd_image_find(calls->thread.image, block->cr3, block->last_ip, &bytes, &len) ==
               PTD_OK &&
           ptd_insn_decode((enum ptd_mode)block->mode, block->last_ip, bytes,
                           len < INSN_BYTES ? len : INSN_BYTES, insn) == PTD_OK;
}

static void on_call(struct calls *calls, struct call_stack *stack, const struct ptd_item *block,
                    const struct ptd_insn *insn, bool async)
{
    const struct call_frame frame = {
        .function = function_of(calls, block),
        .call_ip = insn->ip,
        .return_ip = insn->ip + insn->size_bytes,
        .async = async,
    };

    if (block->ip != frame.return_ip) /* a CALL to the next instruction only reads its address */
        enter(calls, stack, &frame);
}

/* In the function of the top frame, or by a jump in another that takes its place. */
static void on_jump(struct calls *calls, struct call_stack *stack, const struct ptd_item *block)
{
    struct call_frame frame = {.function = function_of(calls, block)};

    if (stack->depth) {
        if (top(stack)->function == frame.function)
            return;
        frame.return_ip = top(stack)->return_ip;
        frame.call_ip = top(stack)->call_ip;
        frame.async = top(stack)->async;
        leave(calls, stack);
    }
    enter(calls, stack, &frame);
}

static void on_return(struct calls *calls, struct call_stack *stack, const struct ptd_item *block)
{
    for (size_t depth = stack->depth; depth-- > 0;) {
        if (stack->frames[depth].return_ip == block->ip) {
            leave_down_to(calls, stack, depth);
            on_jump(calls, stack, block);
            return;
        }
    }
    /* Its CALL was not seen; a RET that serves as a jump changes no depth. */
    if (stack->depth > 1 && stack->frames[stack->depth - 2].function == function_of(calls, block))
        leave(calls, stack);
    on_jump(calls, stack, block);
}

/* IRET, SYSRET and the like end what the last interrupt or system call began. */
static void on_far_return(struct calls *calls, struct call_stack *stack,
                          const struct ptd_item *block)
{
    for (size_t depth = stack->depth; depth-- > 0;) {
        if (stack->frames[depth].async) {
            leave_down_to(calls, stack, depth);
            break;
        }
    }
    on_jump(calls, stack, block);
}

static void on_interrupt(struct calls *calls, struct call_stack *stack,
                         const struct ptd_item *block)
{
    const struct call_frame frame = {
        .function = function_of(calls, block), .async = true, .return_ip = stack->async_from};

    enter(calls, stack, &frame);
}

/* Tracing begins, or begins again: in a function that is on the stack, or in one that is new. */
static void on_begin(struct calls *calls, struct call_stack *stack, const struct ptd_item *block)
{
    const struct call_frame frame = {.function = function_of(calls, block), .async = true};

    for (size_t depth = stack->depth; depth-- > 0;) {
        if (stack->frames[depth].function == frame.function) {
            leave_down_to(calls, stack, depth + 1);
            return;
        }
    }
    enter(calls, stack, &frame);
}

static void follow(struct calls *calls, struct call_stack *stack, const struct ptd_item *block)
{
    struct ptd_insn insn;

    if (stack->async) {
        on_interrupt(calls, stack, block);
        return;
    }
    if (stack->last.insns == 0 || stack->depth == 0) {
        on_begin(calls, stack, block);
        return;
    }
    switch (stack->last.last_class) {
    case PTD_INSN_CALL_DIRECT:
    case PTD_INSN_CALL_INDIRECT:
        if (last_insn(calls, &stack->last, &insn))
            on_call(calls, stack, block, &insn, false);
        return;
    case PTD_INSN_RET:
        on_return(calls, stack, block);
        return;
    case PTD_INSN_IRET:
        on_far_return(calls, stack, block);
        return;
    case PTD_INSN_FAR:
        if (!last_insn(calls, &stack->last, &insn))
            on_jump(calls, stack, block);
        else if (insn.far_return)
            on_far_return(calls, stack, block);
        else
            on_call(calls, stack, block, &insn, true);
        return;
    default:
        on_jump(calls, stack, block);
        return;
    }
}

/* ---- Stacks ---- */

/* The place of an address space's stack; stack_count: it has none. */
static size_t find_stack(const struct calls *calls, uint64_t cr3)
{
    for (size_t i = 0; i < calls->stack_count; i++) {
        const struct call_stack *const stack = calls->stacks[i];

        if (stack && stack->cr3 == cr3)
            return i;
    }
    return calls->stack_count;
}

/* All but the frames, which are many, and of which none is left. */
static void begin_again(struct call_stack *stack, uint64_t cr3, uint32_t id)
{
    stack->cr3 = cr3;
    stack->id = id;
    stack->depth = 0;
    stack->spent = 0;
    stack->named = false;
    stack->last = (struct ptd_item){0};
    stack->async = false;
    stack->async_from = 0;
}

/* Moves the stack of an address space to the front. NULL: no memory. */
static struct call_stack *stack_of(struct calls *calls, uint64_t cr3)
{
    struct call_stack *found = NULL;
    size_t at = find_stack(calls, cr3);

    if (at == calls->stack_count &&
        at == CALLS_STACKS_MAX) { /* the one that was used longest ago */
        at--;
        leave_down_to(calls, calls->stacks[at], 0);
        begin_again(calls->stacks[at], cr3, calls->next_id++);
    } else if (at == calls->stack_count) {
        found = calloc(1, sizeof(*found));
        if (!found) {
            calls->no_memory = true;
            return NULL;
        }
        found->cr3 = cr3;
        found->id = calls->next_id++;
        calls->stacks[calls->stack_count++] = found;
    }
    found = calls->stacks[at];
    memmove(calls->stacks + 1, calls->stacks, at * sizeof(struct call_stack *));
    calls->stacks[0] = found;
    return found;
}

static void leave_all(struct calls *calls)
{
    for (size_t i = 0; i < calls->stack_count; i++) {
        leave_down_to(calls, calls->stacks[i], 0);
        calls->stacks[i]->last.insns = 0;
        calls->stacks[i]->async = false;
    }
}

/* ---- The flow ---- */

void calls_begin(struct calls *calls, const struct out_thread *thread)
{
    calls->thread = *thread;
    calls->now = thread->start;
    calls->since = thread->start;
    calls->next_id = 0;
}

void calls_end(struct calls *calls)
{
    leave_all(calls);
    for (size_t i = 0; i < calls->stack_count; i++)
        free(calls->stacks[i]);
    calls->stack_count = 0;
}

/* Something happened before the instruction that the last block led to. */
static void arrive(struct calls *calls, struct call_stack *stack, uint64_t ip)
{
    const struct ptd_item block = {.cr3 = stack->cr3, .ip = ip};

    if (stack->last.insns && !stack->async)
        follow(calls, stack, &block);
}

static void on_block(struct calls *calls, const struct ptd_item *block, uint64_t time)
{
    struct call_stack *stack = calls->stack_count ? calls->stacks[0] : NULL;

    if (!stack || stack->cr3 != block->cr3)
        stack = stack_of(calls, block->cr3);
    if (!stack)
        return;
    follow(calls, stack, block);
    stack->last = *block;
    stack->async = false;
    stack->spent += time - calls->since;
    if (calls->sink->ran && stack->depth && !calls->no_memory)
        calls->sink->ran(calls->owner, stack, block, calls->since, time);
    calls->since = time;
}

void calls_item(struct calls *calls, const struct ptd_item *item, uint64_t time)
{
    struct call_stack *const stack = calls->stack_count ? calls->stacks[0] : NULL;

    switch (item->type) {
    case PTD_ITEM_BLOCK:
        on_block(calls, item, time);
        break;
    case PTD_ITEM_ASYNC:
        if (stack) {
            arrive(calls, stack, item->from);
            stack->async = true;
            stack->async_from = item->from;
        }
        break;
    case PTD_ITEM_DISABLED:
        if (stack && item->has_from)
            arrive(calls, stack, item->from);
        if (stack)
            stack->last.insns = 0;
        break;
    case PTD_ITEM_ENABLED:
        calls->since = time;
        break;
    case PTD_ITEM_ERROR:
    case PTD_ITEM_OVERFLOW: /* calls and returns were lost */
        leave_all(calls);
        calls->since = time;
        break;
    default:
        break;
    }
    calls->now = time;
}
