/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace of a real program, in the files that record.c made, see traces.sh. */
#ifndef PTD_BENCH_TRACE_H
#define PTD_BENCH_TRACE_H

#include "ptdec.h"
#include "truth.h"

#define MOST_TRACES 16 /* that a program is given */

/* One execution is traced without time, as perf does it by default, and with every cycle. */
enum trace_kind { PLAIN, MTC, CYC, KINDS };

struct section {
    uint64_t address, offset, len_bytes; /* offset: in code */
};

struct trace {
    const char *prefix, *name; /* name: the last part of prefix */
    uint8_t *bytes;            /* of one of the kinds at a time */
    size_t len_bytes;
    const char *suffix; /* of the file that bytes are of */
    uint8_t *code;
    struct section *sections; /* by address; they do not overlap */
    size_t section_count;
    struct ptd_image *image; /* of all sections */
    struct truth truth;
    double native_s; /* that as many instructions of such a program take without QEMU */
};

/*
 * Each reads files of trace->prefix, which the caller has set in a trace that is 0 otherwise.
 * False: one of them is not there, which stderr says, or does not hold what it should.
 */

/* The code, and the trace without time. */
bool trace_load(struct trace *trace);
/* The bytes of a kind instead of those that are there. */
bool trace_load_kind(struct trace *trace, enum trace_kind kind);
/* What ran, and how long such a program runs, which may be longer or shorter than the trace. */
bool trace_load_truth(struct trace *trace);

void trace_unload(struct trace *trace);

#endif
