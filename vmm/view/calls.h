/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call stack that is behind a flow.
 */
#ifndef VMM_CALLS_H
#define VMM_CALLS_H

#include "ptdec.h"
#include "common/table.h"
#include "view/out.h"

#include <stdbool.h>
#include <stdint.h>

#define CALLS_DEPTH_MAX  4096u
#define CALLS_STACKS_MAX 256u

/* A function that has begun and not ended, as far as the trace tells. */
struct call_frame {
    uint32_t function; /* in names */
    bool async;        /* by an interrupt, an exception or a system call */
    bool is_wanted;    /* by the thread's filter, when it was entered */
    bool in_kernel;    /* in the half of addresses that is the kernel's */
    uint64_t call_ip;  /* 0: not by a CALL */
    uint64_t return_ip;
    uint64_t began;   /* when it was entered */
    uint64_t entered; /* what the stack had spent then */
    uint64_t user;    /* the format's own */
};

/* A thread has a stack of its own; where nothing tells of threads, an address space has. */
struct call_stack {
    uint64_t cr3; /* of a thread, which may have several, the last one */
    bool is_thread;
    struct out_who who; /* that thread, as it was called last */
    uint64_t user_root; /* the page tables that its user's code had last; 0: it did not run */
    uint32_t id;
    struct call_frame frames[CALLS_DEPTH_MAX];
    size_t depth;
    uint64_t spent;       /* time in the blocks of this stack */
    bool named;           /* the format's own */
    struct ptd_item last; /* the block before, if insns is not 0 */
    bool async;           /* an ASYNC item came after it, */
    uint64_t async_from;  /* at this instruction */
};

/* They are told of all frames, wanted or not, since a stack has them all. */
struct calls_sink {
    /* The top frame of stack is new / is about to go. */
    void (*enter)(void *owner, struct call_stack *stack, uint64_t time);
    void (*leave)(void *owner, struct call_stack *stack, uint64_t time);
    /* The top frame ran this block, from one time to another. */
    void (*ran)(void *owner, struct call_stack *stack, const struct ptd_item *block, uint64_t from,
                uint64_t to);
};

struct calls {
    struct out_thread thread;
    const struct calls_sink *sink; /* members may be NULL */
    void *owner;
    struct names names;
    struct call_stack *stacks[CALLS_STACKS_MAX]; /* the first is in use */
    size_t stack_count;
    uint32_t next_id;
    /* Of which the first stack is: what the names say has not changed since. */
    uint64_t asked_cr3, asked_changes;
    uint64_t now;
    uint64_t since; /* time from here on belongs to the next block */
    bool no_memory;
};

void calls_init(struct calls *calls, const struct calls_sink *sink, void *owner);
/* A new trace begins, at thread->start, with stacks of its own. */
void calls_begin(struct calls *calls, const struct out_thread *thread);
/* The next item; time as clock_at() says. */
void calls_item(struct calls *calls, const struct ptd_item *item, uint64_t time);
/*
 * Who runs, or ran, in a stack. It may be another's turn by then, so that out_who() would not know.
 */
struct out_who calls_who(const struct calls *calls, const struct call_stack *stack, uint64_t time);
/* The trace ends: every function is left. */
void calls_end(struct calls *calls);
void calls_free(struct calls *calls);

#endif
