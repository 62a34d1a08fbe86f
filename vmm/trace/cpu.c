/* SPDX-License-Identifier: BSD-3-Clause */
/* Processors by family and model, as texts name them. */
#include "trace/cpu.h"
#include "ptdec.h"

#include <stdlib.h>
#include <string.h>

#define INTEL "GenuineIntel,"

bool parse_cpu(const char *text, char separator, uint32_t *errata)
{
    char *end;
    const unsigned long family = strtoul(text, &end, 0);
    unsigned long model;

    if (end == text || *end != separator)
        return false;
    text = end + 1;
    model = strtoul(text, &end, 0);
    if (end == text || (*end && *end != separator) || family > UINT8_MAX || model > UINT8_MAX)
        return false;
    *errata = ptd_errata((unsigned)family, (unsigned)model);
    return true;
}

uint32_t errata_of_cpuid(const char *cpuid)
{
    uint32_t errata = 0;

    if (strncmp(cpuid, INTEL, strlen(INTEL)) == 0)
        (void)parse_cpu(cpuid + strlen(INTEL), ',', &errata);
    return errata;
}
