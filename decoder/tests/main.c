/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the decoder's unit tests. Real traces are looked for in $VPT_TRACES, or beside the
 * repository. */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>

#include "suites.h"

static unsigned skipped;

void report_skip(const char *test, const char *why)
{
    skipped++;
    printf("\n    SKIPPED: %s: %s", test, why);
}

const char *trace_path(const char *name)
{
    static char path[4096];
    const char *folder = getenv("VPT_TRACES");

    if (!folder || folder[0] == '\0')
        folder = "../shared/traces";
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

uint8_t *read_trace_file(const char *name, size_t *len_bytes)
{
    FILE *const file = fopen(trace_path(name), "rb");
    uint8_t *bytes = NULL;
    long len;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (len = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0 &&
        (bytes = malloc((size_t)len)) != NULL) {
        *len_bytes = (size_t)len;
        if (fread(bytes, 1, *len_bytes, file) != *len_bytes) {
            free(bytes);
            bytes = NULL;
        }
    }
    (void)fclose(file);
    return bytes;
}

int main(void)
{
    unsigned failed;

    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    add_packet_suite();
    add_ip_suite();
    add_insn_suite();
    add_image_suite();
    add_flow_suite();
    add_context_suite();
    add_errata_suite();
    add_trace_suite();
    add_fast_suite();
    add_rtit_packet_suite();
    add_rtit_flow_suite();
    add_perf_suite();
    add_perf_flow_suite();
    add_time_suite();
    add_time_marks_suite();
    add_guest_suite();
    add_memory_suite();
    add_code_log_suite();
    add_stream_suite();
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
    if (skipped)
        printf("%u tests SKIPPED\n", skipped);
    CU_cleanup_registry();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
