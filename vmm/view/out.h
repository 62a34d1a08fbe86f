/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formats of `vpt decode --format`, and what they share: sums by key, names, a clock, and the
 * call stack that is behind a flow.
 */
#ifndef VMM_OUT_H
#define VMM_OUT_H

#include "ptdec.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- table.c: sums by three numbers, and numbers for strings ---- */

struct sum {
    uint64_t key[3];
    uint64_t count, cost;
};

/* In order of their first appearance. Begins as zeros. */
struct table {
    struct sum *sums;
    size_t count, capacity;
    uint32_t *slots; /* index in sums + 1; 0: free */
    size_t slot_count;
};

/* The sum of a key, made if it is not there; valid until the next one is made. NULL: no memory. */
struct sum *table_at(struct table *table, uint64_t a, uint64_t b, uint64_t c);
void table_free(struct table *table);

/* Strings, each with a number from 0 on. Begins as zeros. */
struct names {
    char **list;
    size_t count, capacity;
    uint32_t *slots;
    size_t slot_count;
};

/* The number of a string; UINT32_MAX: no memory. */
uint32_t names_add(struct names *names, const char *name);
void names_free(struct names *names);

/* ---- clock.c: when ---- */

/* Of one trace: TSC if its packets tell of time that passes, else instructions executed so far. */
struct clock {
    bool is_tsc;
    uint64_t insns;
    uint64_t tsc; /* 0: no TSC packet yet */
    struct ptd_time *time;
    struct ptd_packets packets; /* those that time does not know yet */
};

/* config NULL: instructions. bytes must outlive the clock. False: no memory. */
bool clock_open(struct clock *clock, const uint8_t *bytes, size_t len,
                const struct ptd_time_config *config);
void clock_close(struct clock *clock);
/*
 * Of a trace of which only the first bytes are there: is_tsc and tsc, as far as they tell. For
 * clock_at_point() alone; nothing is to be closed. False: more bytes may tell more.
 */
bool clock_begin(struct clock *clock, const uint8_t *bytes, size_t len,
                 const struct ptd_time_config *config);
/* As clock_at(), of an item whose time is known (ptd_stream_next()). */
uint64_t clock_at_point(struct clock *clock, const struct ptd_item *item,
                        const struct ptd_time_point *point);
/* The time at the start of the trace. */
uint64_t clock_start(struct clock *clock);
/* The time at an item; items come in the order of the flow. Of a block: at its end. */
uint64_t clock_at(struct clock *clock, const struct ptd_item *item);

/* ---- calls.c: the call stack ---- */

#define CALLS_DEPTH_MAX  4096u
#define CALLS_STACKS_MAX 64u

/* A function that has begun and not ended, as far as the trace tells. */
struct call_frame {
    uint32_t function; /* in names */
    bool async;        /* by an interrupt, an exception or a system call */
    uint64_t call_ip;  /* 0: not by a CALL */
    uint64_t return_ip;
    uint64_t entered; /* what the stack had spent then */
    uint64_t user;    /* the format's own */
};

/* An address space has a stack of its own. */
struct call_stack {
    uint64_t cr3;
    uint32_t id;
    struct call_frame frames[CALLS_DEPTH_MAX];
    size_t depth;
    uint64_t spent;       /* time in the blocks of this stack */
    bool named;           /* the format's own */
    struct ptd_item last; /* the block before, if insns is not 0 */
    bool async;           /* an ASYNC item came after it, */
    uint64_t async_from;  /* at this instruction */
};

struct calls_sink {
    /* The top frame of stack is new / is about to go. */
    void (*enter)(void *owner, struct call_stack *stack, uint64_t time);
    void (*leave)(void *owner, struct call_stack *stack, uint64_t time);
    /* The top frame ran this block, from one time to another. */
    void (*ran)(void *owner, struct call_stack *stack, const struct ptd_item *block, uint64_t from,
                uint64_t to);
};

struct calls {
    const struct ptd_image *image;
    const struct calls_sink *sink; /* members may be NULL */
    void *owner;
    struct names names;
    struct call_stack *stacks[CALLS_STACKS_MAX]; /* the first is in use */
    size_t stack_count;
    uint32_t next_id;
    uint64_t now;
    uint64_t since; /* time from here on belongs to the next block */
    bool no_memory;
};

void calls_init(struct calls *calls, const struct calls_sink *sink, void *owner);
/* A new trace begins, at this time, with stacks of its own. */
void calls_begin(struct calls *calls, const struct ptd_image *image, uint64_t time);
/* The next item; time as clock_at() says. */
void calls_item(struct calls *calls, const struct ptd_item *item, uint64_t time);
/* The trace ends: every function is left. */
void calls_end(struct calls *calls);
void calls_free(struct calls *calls);

/* ---- out-*.c: the formats ---- */

struct out_who {
    uint32_t pid, tid;
    const char *comm;
};

/* Whose items follow. */
struct out_thread {
    const struct ptd_image *image;
    const char *comm; /* never NULL */
    uint32_t pid, tid;
    int cpu;     /* -1: any */
    bool is_tsc; /* else times are numbers of instructions */
    uint64_t start;
    /* Nanoseconds of a TSC; NULL: not known. */
    uint64_t (*to_ns)(const void *owner, uint64_t tsc);
    const void *to_ns_owner;
    /* Not NULL: several threads ran, and the address space says which. */
    void (*who)(const void *owner, uint64_t cr3, struct out_who *who);
    const void *who_owner;
};

struct out_format {
    const char *name;
    bool merges;             /* traces are shown together, by time, each with an out of its own */
    void *(*open)(FILE *to); /* NULL: no memory */
    /* False: no memory. */
    bool (*begin)(void *out, const struct out_thread *thread);
    bool (*item)(void *out, const struct ptd_item *item, uint64_t time);
    bool (*end)(void *out);
    /* Writes what is left and frees out. */
    bool (*close)(void *out);
};

/* Who ran in an address space: the thread, or one of those in a CPU's trace. */
struct out_who out_who(const struct out_thread *thread, uint64_t cr3);

extern const struct out_format out_perf, out_branches, out_folded, out_chrome, out_callgrind;

#endif
