/* SPDX-License-Identifier: BSD-3-Clause */
/* What is shown of the functions of one name. */
#ifndef VMM_REPORT_ANNOTATE_SHOW_H
#define VMM_REPORT_ANNOTATE_SHOW_H

#include "report/annotate.h"
#include "symbols/frames.h"

/*
 * To standard output, with sources as look says; all is the number of instructions that ran,
 * everywhere. 0 or -ENOMEM.
 */
int annotate_show(const struct annotate *annotate, uint64_t all, const struct frames_look *look,
                  bool json);

#endif
