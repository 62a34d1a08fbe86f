/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which processors send other packets than the SDM says, by family and model. Each erratum's effect
 * stands where it is tolerated: in packets.c, read.c and walk.c.
 */
#include "ptdec.h"

#define FAMILY_6 6u

#define SKYLAKE (PTD_BDM70 | PTD_SKD007 | PTD_SKD022 | PTD_SKD010 | PTD_SKL014 | PTD_SKL168)
#define ICELAKE (PTD_BDM70 | PTD_SKD022 | PTD_SKL014)

static const struct {
    uint8_t model;
    uint16_t errata;
} table[] = {
    /* Broadwell */
    {0x3d, PTD_BDM70 | PTD_BDM64},
    {0x47, PTD_BDM70 | PTD_BDM64},
    {0x4f, PTD_BDM70 | PTD_BDM64},
    {0x56, PTD_BDM70 | PTD_BDM64},
    /* Skylake, Kaby, Coffee and Comet Lake */
    {0x4e, SKYLAKE},
    {0x5e, SKYLAKE},
    {0x8e, SKYLAKE},
    {0x9e, SKYLAKE},
    {0xa5, SKYLAKE},
    {0xa6, SKYLAKE},
    /* Skylake, Ice Lake and Sapphire Rapids servers */
    {0x55, ICELAKE | PTD_SKZ84},
    {0x6a, ICELAKE | PTD_SKZ84},
    {0x6c, ICELAKE | PTD_SKZ84},
    {0x8f, ICELAKE | PTD_SKZ84},
    /* Cannon, Ice, Tiger and Rocket Lake */
    {0x66, ICELAKE},
    {0x7d, ICELAKE},
    {0x7e, ICELAKE},
    {0x8c, ICELAKE},
    {0x8d, ICELAKE},
    {0xa7, ICELAKE},
    {0xa8, ICELAKE},
    /* Alder and Raptor Lake: of both kinds of cores */
    {0x97, ICELAKE | PTD_APL11},
    {0x9a, ICELAKE | PTD_APL11},
    {0xbf, ICELAKE | PTD_APL11},
    /* Goldmont, then Goldmont Plus and Tremont */
    {0x5c, PTD_APL12 | PTD_APL11},
    {0x5f, PTD_APL12 | PTD_APL11},
    {0x7a, PTD_APL11},
    {0x86, PTD_APL11},
    {0x96, PTD_APL11},
    {0x9c, PTD_APL11},
};

uint32_t ptd_errata(unsigned family, unsigned model)
{
    if (family != FAMILY_6)
        return 0;
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].model == model)
            return table[i].errata;
    }
    return 0;
}
