/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The executed path: what a decoder of the trace has to find (docs/trace-files.md).
 */
#ifndef VMM_PATH_H
#define VMM_PATH_H

#include "common/bytes.h"

#define PATH_CR3_MARK (0x8000ull << 48)

/* Appends an instruction that ran under cr3; *last_cr3 begins as UINT64_MAX. False: no memory. */
bool path_add(struct bytes *path, uint64_t *last_cr3, uint64_t cr3, uint64_t ip);

#endif
