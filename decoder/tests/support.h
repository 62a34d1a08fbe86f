/* SPDX-License-Identifier: BSD-3-Clause */
/* What all unit tests of the decoder share. */
#ifndef PTD_TESTS_SUPPORT_H
#define PTD_TESTS_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

/* The next of a row of numbers (xorshift); the state is not 0. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Adds the suites, runs them, prints the summary. The exit status of the program. */
int run_suites(void (*const *add)(void), size_t count);

/* Says that a test could not run here, and why. */
void report_skip(const char *test, const char *why);

/* The bytes of a file under the folder of real traces; NULL if it is not there. Free them. */
uint8_t *read_trace_file(const char *name, size_t *len_bytes);
/* Path of such a file, in a static buffer. */
const char *trace_path(const char *name);

#endif
