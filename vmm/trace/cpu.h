/* SPDX-License-Identifier: BSD-3-Clause */
/* Processors by family and model, as texts name them. */
#ifndef VMM_TRACE_CPU_H
#define VMM_TRACE_CPU_H

#include <stdbool.h>
#include <stdint.h>

struct ptd_flow_config;

/*
 * "6/85" to the errata of that processor and to where its traces go on after an error; between the
 * numbers stands separator.
 */
bool parse_cpu(const char *text, char separator, struct ptd_flow_config *config);
/* The same of what a perf.data says, "GenuineIntel,6,85,7"; of another maker nothing is known. */
void config_of_cpuid(const char *cpuid, struct ptd_flow_config *config);
uint32_t errata_of_cpuid(const char *cpuid);

#endif
