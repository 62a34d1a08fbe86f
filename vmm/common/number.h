/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers in texts.
 */
#ifndef VMM_NUMBER_H
#define VMM_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A number as C writes it, and nothing else. */
bool parse_number(const char *text, uint64_t *value);
/* A number of bytes in this base, with a suffix K, M or G, up to max. *end_of: behind it. */
bool parse_bytes(const char *text, int base, uint64_t max, const char **end_of, uint64_t *bytes);
/* "FILE" or "FILE@BIAS": the file, to be freed (NULL: no memory), and the bias, else 0. */
char *split_bias(const char *argument, uint64_t *bias);

#endif
