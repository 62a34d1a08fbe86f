/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ran between two points of the code: how many instructions and how much time it took each
 * time, and in which functions. It is an out_format, like a report. A point is reached when the
 * instruction there runs. Of several FROM in front of a TO, on one processor, the last one counts.
 *
 * Memory does not grow with the length of a trace: sums are kept, and spans by how long they were.
 */
#ifndef VMM_BETWEEN_H
#define VMM_BETWEEN_H

#include "common/table.h"
#include "report/report.h"
#include "view/out.h"

/* Lengths below 256 are told apart, others to one part in 128. */
#define SPREAD_EXACT  256u
#define SPREAD_STEPS  128u
#define SPREAD_FIRST  8u /* the power of two of the first that is not */
#define SPREAD_LEVELS (64u - SPREAD_FIRST)
#define SPREAD_ROOM   (SPREAD_EXACT + SPREAD_LEVELS * SPREAD_STEPS)

#define BETWEEN_BLOCKS_MAX    (1u << 20) /* that are remembered */
#define BETWEEN_FUNCTIONS_MAX (1u << 20) /* that are told apart */

/* How long spans were. Begins as zeros. */
struct spread {
    uint64_t count, total, least, most;
    uint64_t of[SPREAD_ROOM];
};

void spread_add(struct spread *spread, uint64_t length);
/* So many in a hundred were no longer; 0: there are none. */
uint64_t spread_part(const struct spread *spread, unsigned percent);
uint64_t spread_median(const struct spread *spread);

struct between_point {
    const char *text; /* what the user wrote */
    uint64_t address;
    bool is_address; /* else text is a function's name, and the point is where it begins */
    bool is_seen;
};

struct between_function {
    uint64_t insns, spans; /* of spans that ended */
    uint64_t pending;      /* of that span, which may not */
    uint64_t span;
};

struct between {
    struct between_point from, to;
    struct spread insns, times;
    uint64_t unended; /* no TO came, or another FROM before it */
    uint64_t broken;  /* a gap of the trace came before it */
    size_t trace_count, timed_count, ns_count;

    struct names names;
    struct between_function *functions; /* by number in names */
    size_t function_room;
    struct table blocks; /* address space, first and last instruction -> function + 1, points */

    /* Of the trace that is read. */
    struct out_thread thread;
    uint64_t renames;
    bool is_open;
    uint64_t span; /* the number of the last one that began */
    uint64_t span_insns, since;
    uint32_t *ran; /* functions of the span */
    size_t ran_count, ran_room;
};

/* Points are "FROM,TO", which is changed, and must outlive it. False: those are not two points. */
bool between_points(struct between *between, char *points);
void between_free(struct between *between);
/* Of a struct between, as out. */
extern const struct out_format between_format;

/* Prints it to standard output, as options say. 0 or -ENOMEM. */
int between_print(const struct between *between, const struct report_options *options);

#endif
