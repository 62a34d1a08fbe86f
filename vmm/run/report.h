/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a traced run showed.
 */
#ifndef VMM_REPORT_H
#define VMM_REPORT_H

#include "common/reason.h"
#include "run/run.h"

/*
 * Decodes the trace, prints what was seen (or one JSON object), and with options->verify compares
 * the decoded path with the executed one. 0, 1: it is not the same; or -errno and why.
 */
int report(const struct run_options *options, const struct run_result *result, struct reason *why);

#endif
