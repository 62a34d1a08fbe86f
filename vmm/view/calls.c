/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call stack behind a flow: CALL and RET, jumps from function to function, interrupts and their
 * ends. A trace may begin anywhere and lose parts; a stack is then what is known of it.
 *
 * Threads of a process share its address space, and the kernel's threads run in anybody's. So where
 * a log of names says which thread runs, each thread has a stack, and elsewhere each address space.
 * The log knows for sure whose user code runs. Of the kernel it may tell a switch some functions
 * late, which the stacks of both threads have to get over.
 */
#include "view/calls.h"
#include "view/filter.h"
#include "common/table.h"
#include "ptdec.h"

#include <stdlib.h>
#include <string.h>

#define UNKNOWN "[unknown]"

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

/* The half of addresses that is the kernel's. */
static bool is_kernel(uint64_t ip)
{
    return ip >> 63;
}

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

/* A function that begins at ip, or is come to there. */
static void enter(struct calls *calls, struct call_stack *stack, const struct call_frame *frame,
                  uint64_t ip)
{
    if (stack->depth == CALLS_DEPTH_MAX) /* calls without returns: something else than calls */
        leave(calls, stack);
    stack->frames[stack->depth] = *frame;
    stack->frames[stack->depth].began = calls->now;
    stack->frames[stack->depth].entered = stack->spent;
    stack->frames[stack->depth].in_kernel = is_kernel(ip);
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

static void on_call(struct calls *calls, struct call_stack *stack, const struct ptd_item *block,
                    bool async)
{
    const struct call_frame frame = {
        .function = function_of(calls, block),
        .call_ip = stack->last.last_ip,
        .return_ip = stack->last.last_ip + stack->last.last_bytes,
        .async = async,
    };

    if (block->ip != frame.return_ip) /* a CALL to the next instruction only reads its address */
        enter(calls, stack, &frame, block->ip);
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
    enter(calls, stack, &frame, block->ip);
}

/* Whether a function begins there, as far as is known: then a RET came to it as a jump does. */
static bool is_entry(const struct calls *calls, const struct ptd_item *block)
{
    uint64_t offset = 0;

    return !ptd_image_symbol(calls->thread.image, block->cr3, block->ip, &offset) || offset == 0;
}

/*
 * A RET into a function whose CALL was not seen: what returned is the last function of which is not
 * known where it returns to, and what was called since has returned before it in a way of its own.
 * No RET leads out of an interrupt or a system call: then another stack came into use.
 */
static void leave_to_unseen(struct calls *calls, struct call_stack *stack)
{
    for (size_t depth = stack->depth; depth-- > 0;) {
        if (stack->frames[depth].return_ip == 0)
            leave_down_to(calls, stack, depth + 1);
        if (stack->frames[depth].return_ip == 0 || stack->frames[depth].async)
            return;
    }
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
    /* A RET that serves as a jump changes no depth. */
    if (stack->depth > 1 && stack->frames[stack->depth - 2].function == function_of(calls, block))
        leave(calls, stack);
    else if (!is_entry(calls, block))
        leave_to_unseen(calls, stack);
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

    enter(calls, stack, &frame, block->ip);
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
    enter(calls, stack, &frame, block->ip);
}

/* ---- Threads ---- */

static void leave_kernel(struct calls *calls, struct call_stack *stack)
{
    while (stack->depth && top(stack)->in_kernel)
        leave(calls, stack);
}

static uint64_t root_of(uint64_t cr3)
{
    return cr3 & ~UINT64_C(0xfff); /* without its PCID */
}

/*
 * Whatever the kernel did for a thread is over where code of its user runs. So is all of a program
 * if the thread is another one's since.
 */
static void on_user(struct calls *calls, struct call_stack *stack, const struct ptd_item *block)
{
    if (stack->user_root && stack->user_root != root_of(block->cr3))
        leave_down_to(calls, stack, 0);
    leave_kernel(calls, stack);
    on_jump(calls, stack, block);
}

/*
 * Another thread runs than before. If it was in this function of the kernel, it goes on there;
 * else what it did since was taken for another's, and nothing is known of its functions there.
 */
static void on_switch(struct calls *calls, struct call_stack *stack, const struct ptd_item *block)
{
    const struct call_frame frame = {.function = function_of(calls, block), .async = true};

    if (!is_kernel(block->ip)) {
        on_user(calls, stack, block);
        return;
    }
    for (size_t depth = stack->depth; depth > 0 && stack->frames[depth - 1].in_kernel; depth--) {
        if (stack->frames[depth - 1].function == frame.function) {
            leave_down_to(calls, stack, depth);
            return;
        }
    }
    leave_kernel(calls, stack);
    enter(calls, stack, &frame, block->ip);
}

static void follow(struct calls *calls, struct call_stack *stack, const struct ptd_item *block)
{
    uint64_t ip = stack->last.last_ip;
    struct ptd_insn insn;

    if (stack->async) {
        on_interrupt(calls, stack, block);
        return;
    }
    if (stack->is_thread && stack->depth && top(stack)->in_kernel && !is_kernel(block->ip)) {
        on_user(calls, stack, block);
        return;
    }
    if (stack->last.insns == 0 || stack->depth == 0) {
        on_begin(calls, stack, block);
        return;
    }
    switch (stack->last.last_class) {
    case PTD_INSN_CALL_DIRECT:
    case PTD_INSN_CALL_INDIRECT:
        on_call(calls, stack, block, false);
        return;
    case PTD_INSN_RET:
        on_return(calls, stack, block);
        return;
    case PTD_INSN_IRET:
        on_far_return(calls, stack, block);
        return;
    case PTD_INSN_FAR:
        if (ptd_block_insn(calls->thread.image, &stack->last, &ip, &insn) != PTD_OK)
            on_jump(calls, stack, block);
        else if (insn.far_return)
            on_far_return(calls, stack, block);
        else
            on_call(calls, stack, block, true);
        return;
    default:
        on_jump(calls, stack, block);
        return;
    }
}

/* ---- Stacks ---- */

static bool is_of(const struct call_stack *stack, uint64_t cr3, const struct out_who *who)
{
    if (stack->is_thread != who->knows_thread)
        return false;
    return who->knows_thread ? stack->who.tid == who->tid : stack->cr3 == cr3;
}

/* The place of a stack; stack_count: there is none. */
static size_t find_stack(const struct calls *calls, uint64_t cr3, const struct out_who *who)
{
    for (size_t i = 0; i < calls->stack_count; i++) {
        if (is_of(calls->stacks[i], cr3, who))
            return i;
    }
    return calls->stack_count;
}

/* All but the frames, which are many, and of which none is left. */
static void begin_again(struct call_stack *stack, uint32_t id)
{
    stack->id = id;
    stack->depth = 0;
    stack->spent = 0;
    stack->named = false;
    stack->last = (struct ptd_item){0};
    stack->async = false;
    stack->async_from = 0;
    stack->user_root = 0;
}

/* Moves a stack to the front, made if need be. NULL: no memory. */
static struct call_stack *stack_of(struct calls *calls, uint64_t cr3, const struct out_who *who)
{
    struct call_stack *found = NULL;
    size_t at = find_stack(calls, cr3, who);

    if (at == calls->stack_count &&
        at == CALLS_STACKS_MAX) { /* the one that was used longest ago */
        at--;
        leave_down_to(calls, calls->stacks[at], 0);
        begin_again(calls->stacks[at], calls->next_id++);
    } else if (at == calls->stack_count) {
        found = calloc(1, sizeof(*found));
        if (!found) {
            calls->no_memory = true;
            return NULL;
        }
        found->id = calls->next_id++;
        calls->stacks[calls->stack_count++] = found;
    }
    found = calls->stacks[at];
    memmove(calls->stacks + 1, calls->stacks, at * sizeof(struct call_stack *));
    calls->stacks[0] = found;
    found->cr3 = cr3;
    found->is_thread = who->knows_thread;
    found->who = *who;
    return found;
}

/* The stack of who runs now, in front of all others. NULL: no memory. */
static struct call_stack *stack_now(struct calls *calls, uint64_t cr3)
{
    const uint64_t changes = calls->thread.changes ? *calls->thread.changes : 0;
    struct out_who who = {0};

    if (calls->stack_count && cr3 == calls->asked_cr3 && changes == calls->asked_changes)
        return calls->stacks[0];
    calls->asked_cr3 = cr3;
    calls->asked_changes = changes;
    if (calls->thread.changes)
        who = out_who(&calls->thread, cr3, calls->now);
    return stack_of(calls, cr3, &who);
}

struct out_who calls_who(const struct calls *calls, const struct call_stack *stack, uint64_t time)
{
    return stack->is_thread ? stack->who : out_who(&calls->thread, stack->cr3, time);
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
    calls->asked_cr3 = 0;
    calls->asked_changes = UINT64_MAX; /* nobody was asked */
}

void calls_end(struct calls *calls)
{
    leave_all(calls);
    for (size_t i = 0; i < calls->stack_count; i++)
        free(calls->stacks[i]);
    calls->stack_count = 0;
}

/* Follows to a block of a stack, which was not the first one before if another's turn ended. */
static void come_to(struct calls *calls, struct call_stack *stack, const struct ptd_item *block,
                    bool is_other)
{
    if (is_other && stack->is_thread && stack->depth)
        on_switch(calls, stack, block);
    else
        follow(calls, stack, block);
}

/*
 * Something happened before an instruction that the last block led to. Gives the stack; NULL: there
 * is none.
 */
static struct call_stack *arrive(struct calls *calls, const struct ptd_item *item)
{
    struct call_stack *const before = calls->stack_count ? calls->stacks[0] : NULL;
    struct call_stack *const stack =
        before && before->is_thread ? stack_now(calls, item->cr3) : before;

    if (!stack || !item->has_from)
        return stack;

    const struct ptd_item block = {.cr3 = stack->cr3, .ip = item->from};

    if (stack->last.insns && !stack->async)
        come_to(calls, stack, &block, stack != before);
    return stack;
}

static void on_block(struct calls *calls, const struct ptd_item *block, uint64_t time)
{
    const struct call_stack *const before = calls->stack_count ? calls->stacks[0] : NULL;
    struct call_stack *const stack = stack_now(calls, block->cr3);

    if (!stack)
        return;
    come_to(calls, stack, block, stack != before);
    stack->last = *block;
    stack->async = false;
    if (!is_kernel(block->ip))
        stack->user_root = root_of(block->cr3);
    stack->spent += time - calls->since;
    if (calls->sink->ran && stack->depth && !calls->no_memory)
        calls->sink->ran(calls->owner, stack, block, calls->since, time);
    calls->since = time;
}

void calls_item(struct calls *calls, const struct ptd_item *item, uint64_t time)
{
    struct call_stack *stack;

    switch (item->type) {
    case PTD_ITEM_BLOCK:
        on_block(calls, item, time);
        break;
    case PTD_ITEM_ASYNC:
        stack = arrive(calls, item);
        if (stack) {
            stack->async = true;
            stack->async_from = item->from;
        }
        break;
    case PTD_ITEM_DISABLED:
        stack = arrive(calls, item);
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
