/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of the decoder's unit tests, one file each. */
#ifndef PTD_TESTS_SUITES_H
#define PTD_TESTS_SUITES_H

#include "support.h"

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
void add_perf_guests_suite(void);
void add_time_marks_suite(void);
void add_memory_suite(void);
void add_code_log_suite(void);
void add_stream_suite(void);
void add_extents_suite(void);
void add_newest_suite(void);
void add_resync_suite(void);
void add_pairing_suite(void);
void add_coverage_suite(void);
void add_compound_suite(void);

#endif
