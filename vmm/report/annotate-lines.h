/* SPDX-License-Identifier: BSD-3-Clause */
/* How much each source line of a function ran. */
#ifndef VMM_REPORT_ANNOTATE_LINES_H
#define VMM_REPORT_ANNOTATE_LINES_H

#include "report/annotate.h"

struct annotate_line {
    const char *file; /* NULL: what is from no line that is known */
    unsigned line;
    uint64_t insns; /* that ran; never 0 */
};

/*
 * Of a function by its number, those with the most instructions first. To be freed; texts are those
 * of annotate. What is inlined counts where it stands in the source. 0 or -ENOMEM.
 */
int annotate_lines(const struct annotate *annotate, uint64_t function, struct annotate_line **lines,
                   size_t *count);

#endif
