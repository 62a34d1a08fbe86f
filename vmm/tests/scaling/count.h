/* SPDX-License-Identifier: BSD-3-Clause */
/* How many instructions a program executes: a measure that no other load of a machine changes. */
#ifndef VMM_SCALING_COUNT_H
#define VMM_SCALING_COUNT_H

#include <stdbool.h>
#include <stdint.h>

/* What counts here; NULL: nothing can. */
const char *count_how(void);
/* Runs a program without its output. False: it did not end by itself, or nothing was counted. */
bool count_instructions(char *const argv[], uint64_t *count);

#endif
