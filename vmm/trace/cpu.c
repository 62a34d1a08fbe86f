/* SPDX-License-Identifier: BSD-3-Clause */
/* Processors by family and model, as texts name them. */
#include "trace/cpu.h"
#include "ptdec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INTEL "GenuineIntel,"

bool parse_cpu(const char *text, char separator, struct ptd_flow_config *config)
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
    config->errata = ptd_errata((unsigned)family, (unsigned)model);
    config->resync = (uint8_t)ptd_resync_for((unsigned)family, (unsigned)model);
    return true;
}

void config_of_cpuid(const char *cpuid, struct ptd_flow_config *config)
{
    config->errata = 0;
    config->resync = PTD_RESYNC_PSB;
    if (strncmp(cpuid, INTEL, strlen(INTEL)) == 0)
        (void)parse_cpu(cpuid + strlen(INTEL), ',', config);
}

uint32_t errata_of_cpuid(const char *cpuid)
{
    struct ptd_flow_config config;

    config_of_cpuid(cpuid, &config);
    return config.errata;
}
