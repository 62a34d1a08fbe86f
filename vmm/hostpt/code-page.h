/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of a guest's code, found by its page tables (SDM vol. 3, 4.5 4-level and 5-level paging).
 */
#ifndef VMM_HOSTPT_CODE_PAGE_H
#define VMM_HOSTPT_CODE_PAGE_H

#include "ptdec.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The 4 KiB at a linear address that is a multiple of that, in the address space of a CR3, and
 * whether CPL 3 may run them. The pointer is into what was added to memory. NULL: nobody may run
 * anything there, or it is not in memory.
 */
const uint8_t *code_page(const struct ptd_memory *memory, bool is_la57, uint64_t cr3,
                         uint64_t address, bool *user);

#endif
