/* SPDX-License-Identifier: BSD-3-Clause */
/* What is shown of the functions of one name. */
#ifndef VMM_REPORT_ANNOTATE_SHOW_H
#define VMM_REPORT_ANNOTATE_SHOW_H

#include "report/annotate.h"

/* To standard output; all is the number of instructions that ran, everywhere. 0 or -ENOMEM. */
int annotate_show(const struct annotate *annotate, uint64_t all, bool json);

#endif
