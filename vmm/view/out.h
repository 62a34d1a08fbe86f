/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formats of `vpt decode --format`.
 */
#ifndef VMM_OUT_H
#define VMM_OUT_H

#include "ptdec.h"
#include "symbols/demangle.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct filter;

struct out_who {
    uint32_t pid, tid;
    bool knows_thread; /* tid is the thread's that ran, whatever its address space */
    const char *comm;
    const char *vm; /* NULL: the host, or the only machine that there is */
    uint64_t cr3;   /* of a process that only its address space tells apart; else 0 */
};

/* Whose items follow. */
struct out_thread {
    const struct ptd_image *image;
    struct shown_names *shown; /* how names of functions are shown; NULL: as they are */
    const char *comm;          /* never NULL */
    uint32_t pid, tid;
    int cpu;       /* -1: any */
    int processor; /* the same, also where a format does not show it */
    bool is_tsc;   /* else times are numbers of instructions */
    uint64_t start;
    /* Nanoseconds of a TSC; NULL: not known. */
    uint64_t (*to_ns)(const void *owner, uint64_t tsc);
    const void *to_ns_owner;
    /* Not NULL: several threads ran, and the address space says which. ns as below. */
    void (*who)(const void *owner, uint64_t cr3, uint64_t ns, struct out_who *who);
    /* The name that the one thread has at a time; UINT64_MAX: its last. NULL: comm at all times. */
    const char *(*comm_at)(const void *owner, const struct out_thread *thread, uint64_t ns);
    /* When the names that hold at a time change next; UINT64_MAX: never. NULL: they do not. */
    uint64_t (*names_until)(const void *owner, uint64_t ns);
    const void *who_owner;
    /* Core cycles that CYC packets counted up to the item; NULL: not known. */
    const uint64_t *cycles;
    /*
     * Names are said by a log, place by place, and a map knows less: another number of changes than
     * at the item before is another name of something. NULL: they are not.
     */
    const uint64_t *changes;
    /* The same of functions in user code, which may have other names because the code changed. */
    const uint64_t *renames;
    /* The name of the file that code is from; NULL: not known, or nobody to ask. */
    const char *(*file_at)(void *owner, const struct ptd_image *image, uint64_t cr3, uint64_t ip);
    void *files;
    /* What is wanted of it (view/filter.h); NULL: everything. */
    const struct filter *filter;
    /* For who_of_map() where .who is NULL, since a view has its own way to say it; or NULL. */
    const struct ptd_contexts *contexts;
};

struct json_object;

/* How sums of parts of a trace are made one (docs/shards.md). False: no memory. */
struct out_shards {
    /* A trace goes on somewhere else: what is known of where it was is forgotten. */
    bool (*restart)(void *out);
    /* From here on, what comes is in the sums, or in none: then only what depends on it is noted.
     */
    bool (*mute)(void *out, bool is_muted);
    /* What stands for all of the past that what comes next depends on. */
    uint64_t (*fingerprint)(const void *out);
    /* The sums, and those of others into these: NULL, no memory; 0, or -errno: they are none. */
    struct json_object *(*save)(const void *out);
    int (*load)(void *out, struct json_object *sums);
};

struct out_format {
    const char *name;
    const char *lacks;       /* not NULL: the library that this build has not, and nothing else */
    bool is_binary;          /* nothing for a terminal */
    bool is_view;            /* for people: each trace of a perf.data is announced */
    bool is_by_processor;    /* the processor of a trace counts, also if it is the only one */
    bool is_timeless;        /* the time of items does not matter */
    bool merges;             /* traces are shown together, by time, each with an out of its own */
    void *(*open)(FILE *to); /* NULL: no memory */
    /* False: no memory. */
    bool (*begin)(void *out, const struct out_thread *thread);
    bool (*item)(void *out, const struct ptd_item *item, uint64_t time);
    /* What names hold now, ends here: struct out_thread, .changes, .renames. NULL: no matter. */
    bool (*names_end)(void *out);
    /*
     * Not NULL: of a whole trace it takes what comes in bulk, the item included. points are the
     * times of marks; NULL: there are none. False: no memory.
     */
    bool (*run)(void *out, const struct ptd_flow *flow, const struct ptd_run *run,
                const struct ptd_time_point *points);
    bool takes_compounds; /* of .run, steps may be compound ones */
    bool (*end)(void *out);
    const struct out_shards *shards; /* NULL: a trace cannot be taken in parts */
    /* Writes what is left and frees out. */
    bool (*close)(void *out);
};

/* Whether something tells the nanoseconds of a time. */
bool out_has_ns(const struct out_thread *thread);
/* A time in nanoseconds; else as it is. */
uint64_t out_ns(const struct out_thread *thread, uint64_t time);

#define OUT_LAST UINT64_MAX /* a time */

/*
 * Who ran in an address space: the thread, or one of those in a CPU's trace. time is that of the
 * item, for names change; OUT_LAST: the last name.
 */
struct out_who out_who(const struct out_thread *thread, uint64_t cr3, uint64_t time);
/* CR3 of an address space in words: behind a gap it may not be known. Gives text back. */
#define OUT_CR3_ROOM 24
const char *out_cr3(uint64_t space, char text[OUT_CR3_ROOM]);
/* Who ran as a map file tells it: a function for struct out_thread, whose owner is the contexts. */
void who_of_map(const void *contexts, uint64_t cr3, uint64_t ns, struct out_who *who);

extern const struct out_format out_calls, out_perf, out_branches, out_folded, out_chrome,
    out_perfetto, out_callgrind;

#endif
