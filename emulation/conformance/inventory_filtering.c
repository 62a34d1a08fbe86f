/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory of 33.1 to 33.2.6: what is traced, filtering, enables. */
#include "inventory.h"

static const struct demand cpl[] = {
    {"1.1", "packets at CPL 0 only, above 0 only, or at every CPL", RULE(filtering, cpl_both)},
    {"2.1", "no IP or other state of a filtered CPL is seen", RULE(filtering, cpl_secret)},
    {"2.2", "SYSCALL out of a trace of CPL 3: no target", RULE(filtering, cpl_secret)},
    {"3.1", "CPL in real-address and virtual-8086 mode", NONE(OWNER)},
    {"3.2", "filter so that these modes are traced", NONE(SOFTWARE)},
    {"4.1", "a CPL that is not enabled clears ContextEn", RULE(filtering, cpl_none)},
    {0},
};

const struct section filtering_sections[] = {
    {"33.2.5.1", "Filtering by CPL", 6, cpl},
    {0},
};
