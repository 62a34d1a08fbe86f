/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * EPT paging structures, and what their entries hold.
 */
#ifndef GUEST_VMX_EPT_TABLES_H
#define GUEST_VMX_EPT_TABLES_H

#include <stdint.h>

#define EPT_READ       (1ull << 0)
#define EPT_WRITE      (1ull << 1)
#define EPT_EXECUTE    (1ull << 2)
#define EPT_ALL        (EPT_READ | EPT_WRITE | EPT_EXECUTE)
#define EPT_TYPE_SHIFT 3
#define EPT_TYPE_WB    (6ull << EPT_TYPE_SHIFT)
#define EPT_LARGE      (1ull << 7)
#define EPT_ACCESSED   (1ull << 8)
#define EPT_DIRTY      (1ull << 9)
#define EPTP_WB        6ull
#define EPTP_LEVELS_4  (3ull << 3)
#define EPTP_AD        (1ull << 6)

/* An EPTP whose structures map the first 4 GiB one to one, without accessed and dirty flags. */
uint64_t ept_identity(void);
/*
 * The entry that maps an address, at a level: 1 for 4-KiB pages, 2 for 2 MiB, 3 for 1 GiB, 4 for
 * the root. Larger pages above it are split.
 */
uint64_t *ept_entry(uint64_t eptp, uint64_t gpa, unsigned level);

#endif
