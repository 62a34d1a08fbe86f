/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page without data: what is made of vmm/page/, as a part of the program.
 */
#ifndef VMM_REPORT_PAGE_TEMPLATE_H
#define VMM_REPORT_PAGE_TEMPLATE_H

#include <stdint.h>

extern const char page_template[];
extern const uint64_t page_template_bytes; /* 0: it could not be made */

#endif
