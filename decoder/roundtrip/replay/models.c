/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processors by family and model, see models.h. Cores newer than all that traces are known of are
 * nearest to the newest one of their line; docs/replay.md has the table for people.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "models.h"

#define MODELS_MAX 18

static const struct row {
    const char *profile;
    bool is_near;
    uint8_t family;
    uint8_t models[MODELS_MAX]; /* up to the first 0 */
} rows[] = {
    {"broadwell", false, 6, {0x4f}},
    {"broadwell", true, 6, {0x3d, 0x47, 0x56}},
    {"skylake", false, 6, {0x5e}},
    /* Skylake to Comet Lake have one core; Cannon Lake is not far from it. */
    {"skylake", true, 6, {0x4e, 0x8e, 0x9e, 0xa5, 0xa6, 0x66}},
    {"cascade-lake", false, 6, {0x55}},
    {"icelake-client", false, 6, {0x7e}},
    /* Ice, Tiger, Rocket Lake, Lakefield. */
    {"icelake-client", true, 6, {0x7d, 0x9d, 0x8a, 0x8c, 0x8d, 0xa7}},
    /* Alder, Raptor, Meteor, Arrow, Lunar, Panther, Wildcat Lake: their P-cores. */
    {"icelake-client",
     true,
     6,
     {0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5, 0xc5, 0xc6, 0xbd, 0xcc, 0xd5}},
    {"icelake-client", true, 0x12, {0x01, 0x03}}, /* Nova Lake */
    /* Ice Lake to Granite Rapids. */
    {"icelake-server", true, 6, {0x6a, 0x6c, 0x8f, 0xcf, 0xad, 0xae}},
    {"icelake-server", true, 0x13, {0x01}}, /* Diamond Rapids */
    /* Goldmont to Tremont. */
    {"goldmont-plus", true, 6, {0x5c, 0x5f, 0x7a, 0x86, 0x96, 0x9c}},
    /* Gracemont and behind it. */
    {"gracemont", true, 6, {0xbe, 0xb6, 0xaf, 0xdd}},
};

static bool is_in(const struct row *row, unsigned family, unsigned model)
{
    if (row->family != family)
        return false;
    for (size_t i = 0; i < MODELS_MAX && row->models[i]; i++)
        if (row->models[i] == model)
            return true;
    return false;
}

struct model_profile model_profile(unsigned family, unsigned model)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (is_in(&rows[i], family, model))
            return (struct model_profile){rows[i].profile, rows[i].is_near};
    return (struct model_profile){NULL, true};
}

/* Of the others no long trace without CYC packets was at hand. */
bool model_knows_pads(const char *profile)
{
    return strcmp(profile, "skylake") == 0;
}
