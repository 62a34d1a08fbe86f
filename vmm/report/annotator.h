/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces on their way into the counts of functions' instructions, or of blocks: those of whom the
 * options of a report choose.
 */
#ifndef VMM_REPORT_ANNOTATOR_H
#define VMM_REPORT_ANNOTATOR_H

#include "report/annotate.h"
#include "report/drcov.h"
#include "report/report.h"

struct annotator {
    struct report report; /* says who runs; what its tally counts comes here */
    struct annotate lines;
    struct drcov *blocks; /* not NULL: it is told blocks instead of .lines */
    const struct report_options *wanted;
    bool has_sums; /* what is counted goes to the sums of .report, too */
    /* block, address space, number in the sums; count: is wanted, cost: as names are since then */
    struct table cells;
    uint64_t insns; /* of all that is wanted, whatever the function */
};

/* function NULL: all. Both must outlive it. The traces go to .report, by report_format. False: no
 * memory. */
bool annotator_begin(struct annotator *annotator, const char *function,
                     const struct report_options *wanted);
/* The same of all functions, and .report is a whole report, whatever is wanted of the functions. */
bool annotator_begin_report(struct annotator *annotator, const struct report_options *wanted);
void annotator_free(struct annotator *annotator);

#endif
