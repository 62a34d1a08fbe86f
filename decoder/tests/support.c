/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both programs of unit tests share, those of the decoder and those of both libraries: real
 * traces, looked for in $VPT_TRACES or beside the repository, and tests that could not run.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

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

int run_suites(void (*const *add)(void), size_t count)
{
    unsigned failed;

    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    for (size_t i = 0; i < count; i++)
        add[i]();
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
    if (skipped)
        printf("%u tests SKIPPED\n", skipped);
    CU_cleanup_registry();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
