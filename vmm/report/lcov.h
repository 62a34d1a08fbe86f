/* SPDX-License-Identifier: BSD-3-Clause */
/* How often each source line ran, as lcov and genhtml read it (geninfo(1)). */
#ifndef VMM_REPORT_LCOV_H
#define VMM_REPORT_LCOV_H

#include "report/annotate.h"

/*
 * Of all functions that were counted, to standard output. *lines: how many lines there are; 0: no
 * debug information told any. 0 or -ENOMEM.
 */
int lcov_write(const struct annotate *annotate, size_t *lines);

#endif
