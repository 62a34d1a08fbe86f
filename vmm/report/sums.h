/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ran where: instructions, blocks, calls and time of each function, for each of those who ran
 * it on each processor. A sink of tally.h.
 *
 * A thousand processes that each run a thousand functions of the kernel are a million rows. Where
 * nobody asks who ran which function, functions and those who ran are summed each for themselves.
 */
#ifndef VMM_REPORT_SUMS_H
#define VMM_REPORT_SUMS_H

#include "common/table.h"
#include "report/tally.h"
#include "view/filter.h"
#include "view/out.h"

/* Memory is bounded: what is more than so many of each is summed as one. */
#define SUMS_WHO_MAX  (1u << 16)
#define SUMS_ROWS_MAX (1u << 21)

/* Who ran. Names are numbers in sums.names. */
struct sums_who {
    uint32_t vm; /* UINT32_MAX: the host, or the only machine that there is */
    uint32_t name;
    uint32_t pid, tid; /* 0: not known */
    uint64_t cr3;      /* of one that only its address space tells apart; else 0 */
    bool has_cr3;
    int cpu; /* -1: any */
};

struct sums_row {
    uint32_t function; /* a name; of sums.who_rows: nothing */
    uint32_t file;     /* that it is in, a name; UINT32_MAX: not known */
    uint32_t who;      /* in sums.who; of rows of all who ran: nobody in particular */
    bool in_kernel;
    uint64_t insns, blocks;
    uint64_t calls; /* how often it ran from its first instruction on */
    uint64_t ticks;
    uint32_t fraction; /* of a tick */
};

struct sums_seen;

/* Begins as zeros. */
struct sums {
    /* To be set before the first trace. */
    bool is_of_all;              /* nobody asks who ran which function */
    const struct filter *filter; /* those whom it does not take are in no sum; NULL: it takes all */
    bool is_muted;               /* what comes is in no sum */

    struct names names;
    struct sums_who *who;
    size_t who_count, who_room;
    struct sums_row *who_rows; /* as many: what they ran, if is_of_all */
    size_t who_rows_room;
    struct sums_row *rows;
    size_t row_count, row_room;
    bool is_cut_off; /* there were too many */

    /* Of the trace that is summed. */
    const struct out_thread *thread;
    uint64_t names_at;           /* the time whose names hold */
    uint32_t generation;         /* of names of those who run */
    uint32_t of_kernel, of_user; /* generations of names of functions */
    struct table who_ids;        /* name and VM, pid and tid, CR3 and processor -> number in who */
    struct table row_ids;        /* function, who, file -> number in rows */
    struct table spaces;         /* address space -> number in who (.count), generation (.cost) */
    struct table cells;          /* function, address space, file -> number in rows, generation */
    struct sums_seen *seen;      /* blocks that were seen lately */
    struct table pieces;         /* block number, instructions, the next one plus 1 or 0 */
};

extern const struct tally_sink sums_sink;

/* A trace begins; thread must hold until the next one does. */
void sums_begin(struct sums *sums, const struct out_thread *thread);
/* From this time on, names may be others. The tally was flushed before. */
void sums_rename(struct sums *sums, uint64_t time);
/* From now on, functions of user code may have other names. The tally has forgotten its blocks. */
void sums_rename_functions(struct sums *sums);
/* Who runs in an address space now; UINT32_MAX: no memory. */
uint32_t sums_who(struct sums *sums, uint64_t space);
/* Whether a filter takes somebody, by VM, process, pid and processor. */
bool sums_takes(const struct sums *sums, const struct filter *filter, uint32_t who);
/* The number of somebody, made if need be, and the same of a row; UINT32_MAX: no memory. */
uint32_t sums_number_of(struct sums *sums, const struct sums_who *one);
uint32_t sums_row_at(struct sums *sums, const struct sums_row *like);
/* What stands for somebody, whatever number it has here. */
uint64_t sums_fingerprint_of_who(const struct sums *sums, uint32_t who);
/* What was summed elsewhere, into a row; its names and numbers do not count. */
void sums_add_row(struct sums_row *row, const struct sums_row *more);
/* The name of the function at an address, as a number, and whether it begins there. */
uint32_t sums_function(struct sums *sums, uint64_t space, uint64_t ip, bool *is_entry);
void sums_free(struct sums *sums);

#endif
