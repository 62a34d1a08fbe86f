/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's tests: registers the suites, runs them and prints CUnit's summary. */
#include "harness.h"

#include <CUnit/Basic.h>
#include <stdlib.h>

int main(void)
{
    static void (*const suites[])(void) = {
        suite_caps,        suite_msr,          suite_output,
        suite_topa,        suite_memory,       suite_enables,
        suite_packets,     suite_compression,  suite_psb,
        suite_timing,      suite_ptwrite,      suite_events,
        suite_tsx,         suite_power,        suite_pebs,
        suite_smm,         suite_reset_vector, suite_overflow,
        suite_vmx,         suite_vmx_ctl,      suite_vmx_switch,
        suite_guest_trace, suite_xsave,        suite_save,
        suite_corners,     suite_rtit,         suite_rtit_output,
        suite_state,       suite_witness,      suite_witness_packets,
        suite_edges,       suite_rtit_edges,   suite_newest,
        suite_choices,     suite_ahead,        suite_hand,
        suite_waiting,     suite_branches,
    };
    unsigned failures;

    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
        suites[i]();
    CU_basic_set_mode(CU_BRM_VERBOSE);
    if (CU_basic_run_tests() != CUE_SUCCESS)
        return EXIT_FAILURE;
    failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
