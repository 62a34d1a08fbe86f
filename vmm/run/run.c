/* SPDX-License-Identifier: BSD-3-Clause */
/* A run of a guest. */
#include "run/run.h"

void run_result_free(struct run_result *result)
{
    for (unsigned i = 0; i < MAX_CPUS; i++) {
        bytes_free(&result->cpus[i].trace);
        bytes_free(&result->cpus[i].handed);
        bytes_free(&result->cpus[i].path);
    }
}
