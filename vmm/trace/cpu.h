/* SPDX-License-Identifier: BSD-3-Clause */
/* Processors by family and model, as texts name them. */
#ifndef VMM_TRACE_CPU_H
#define VMM_TRACE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* "6/85" to the errata of that processor; between the numbers stands separator. */
bool parse_cpu(const char *text, char separator, uint32_t *errata);
/* The same of what a perf.data says, "GenuineIntel,6,85,7"; 0: of another maker. */
uint32_t errata_of_cpuid(const char *cpuid);

#endif
