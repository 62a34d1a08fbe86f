/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which processors send other packets than the SDM says, by family and model. Each erratum's effect
 * stands where it is tolerated: in packets.c, read.c, walk.c and time.c. And which processors are
 * known not to defer TIPs.
 */
#include "ptdec.h"

#define BROADWELL      (PTD_BDM70 | PTD_BDM64)
#define SKYLAKE        (PTD_BDM70 | PTD_SKD007 | PTD_SKD022 | PTD_SKD010 | PTD_SKL014 | PTD_SKL168)
#define SKYLAKE_SERVER (PTD_BDM70 | PTD_SKL014 | PTD_SKD022 | PTD_SKZ84)
#define SAPPHIRE       (PTD_BDM70 | PTD_SKD022 | PTD_SKZ84)
#define ICELAKE        (PTD_BDM70 | PTD_SKL014 | PTD_SKD022)
#define ALDERLAKE      (PTD_BDM70 | PTD_SKD022 | PTD_APL11) /* of both kinds of cores */
#define GOLDMONT       (PTD_APL12 | PTD_APL11)
#define GOLDMONT_PLUS  PTD_APL11

static const struct {
    uint8_t family, model;
    uint16_t errata;
} table[] = {
    {0x06, 0x3d, BROADWELL},
    {0x06, 0x47, BROADWELL},
    {0x06, 0x4f, BROADWELL},
    {0x06, 0x56, BROADWELL},
    /* Skylake, Kaby, Coffee and Comet Lake */
    {0x06, 0x4e, SKYLAKE},
    {0x06, 0x5e, SKYLAKE},
    {0x06, 0x8e, SKYLAKE},
    {0x06, 0x9e, SKYLAKE},
    {0x06, 0xa5, SKYLAKE},
    {0x06, 0xa6, SKYLAKE},
    /* Skylake and Ice Lake servers, then Sapphire Rapids and later */
    {0x06, 0x55, SKYLAKE_SERVER},
    {0x06, 0x6a, SKYLAKE_SERVER},
    {0x06, 0x6c, SKYLAKE_SERVER},
    {0x06, 0x8f, SAPPHIRE},
    {0x06, 0xcf, SAPPHIRE},
    {0x06, 0xad, SAPPHIRE},
    {0x06, 0xae, SAPPHIRE},
    {0x13, 0x01, SAPPHIRE},
    /* Cannon, Ice, Tiger and Rocket Lake */
    {0x06, 0x66, ICELAKE},
    {0x06, 0x7d, ICELAKE},
    {0x06, 0x7e, ICELAKE},
    {0x06, 0x8c, ICELAKE},
    {0x06, 0x8d, ICELAKE},
    {0x06, 0xa7, ICELAKE},
    {0x06, 0xa8, ICELAKE},
    /* Alder and Raptor Lake, and their successors */
    {0x06, 0x97, ALDERLAKE},
    {0x06, 0x9a, ALDERLAKE},
    {0x06, 0xba, ALDERLAKE},
    {0x06, 0xb7, ALDERLAKE},
    {0x06, 0xbf, ALDERLAKE},
    {0x06, 0xc5, ALDERLAKE},
    {0x06, 0xc6, ALDERLAKE},
    {0x06, 0xb5, ALDERLAKE},
    {0x06, 0xaa, ALDERLAKE},
    {0x06, 0xac, ALDERLAKE},
    {0x06, 0xbd, ALDERLAKE},
    {0x06, 0xcc, ALDERLAKE},
    {0x06, 0xd5, ALDERLAKE},
    {0x12, 0x01, ALDERLAKE},
    {0x12, 0x03, ALDERLAKE},
    {0x06, 0x5c, GOLDMONT},
    {0x06, 0x5f, GOLDMONT},
    /* Goldmont Plus, Tremont and later */
    {0x06, 0x7a, GOLDMONT_PLUS},
    {0x06, 0x86, GOLDMONT_PLUS},
    {0x06, 0x96, GOLDMONT_PLUS},
    {0x06, 0x9c, GOLDMONT_PLUS},
    {0x06, 0xb6, GOLDMONT_PLUS},
    {0x06, 0xaf, GOLDMONT_PLUS},
    {0x06, 0xdd, GOLDMONT_PLUS},
};

uint32_t ptd_errata(unsigned family, unsigned model)
{
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].family == family && table[i].model == model)
            return table[i].errata;
    }
    return 0;
}

/*
 * Traces of each of these cores were decoded, and none of their TIPs was deferred (33.4.2.3). No
 * packet and no bit of CPUID tells it.
 */
static bool never_defers(unsigned model)
{
    switch (model) {
    case 0x3d: /* Broadwell */
    case 0x47:
    case 0x4f:
    case 0x56:
    case 0x4e: /* Skylake, Kaby, Coffee and Comet Lake, and the servers */
    case 0x5e:
    case 0x8e:
    case 0x9e:
    case 0xa5:
    case 0xa6:
    case 0x55:
    case 0x7d: /* Ice Lake, and the servers */
    case 0x7e:
    case 0x6a:
    case 0x6c:
        return true;
    default:
        return false;
    }
}

enum ptd_resync ptd_resync_for(unsigned family, unsigned model)
{
    return family == 6 && never_defers(model) ? PTD_RESYNC_IP : PTD_RESYNC_PSB;
}
