/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of the decoder's unit tests, one file each, and what they share. */
#ifndef PTD_TESTS_SUITES_H
#define PTD_TESTS_SUITES_H

#include <stddef.h>
#include <stdint.h>

/* Each registers its suite. */
void add_packet_suite(void);
void add_ip_suite(void);
void add_insn_suite(void);
void add_image_suite(void);
void add_flow_suite(void);
void add_context_suite(void);
void add_trace_suite(void);
void add_errata_suite(void);
void add_fast_suite(void);
void add_rtit_packet_suite(void);
void add_rtit_flow_suite(void);
void add_perf_suite(void);
void add_perf_flow_suite(void);
void add_time_suite(void);
void add_time_marks_suite(void);
void add_guest_suite(void);
void add_memory_suite(void);
void add_code_log_suite(void);
void add_stream_suite(void);

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
