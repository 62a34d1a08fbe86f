/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the decoder's unit tests. */
#include "suites.h"

int main(void)
{
    static void (*const add[])(void) = {
        add_packet_suite,    add_ip_suite,          add_insn_suite,       add_image_suite,
        add_flow_suite,      add_context_suite,     add_errata_suite,     add_trace_suite,
        add_fast_suite,      add_rtit_packet_suite, add_rtit_flow_suite,  add_perf_suite,
        add_perf_flow_suite, add_perf_guests_suite, add_time_marks_suite, add_memory_suite,
        add_code_log_suite,  add_stream_suite,      add_extents_suite,    add_newest_suite,
        add_resync_suite,    add_pairing_suite,     add_coverage_suite,   add_compound_suite,
    };

    return run_suites(add, sizeof(add) / sizeof(add[0]));
}
