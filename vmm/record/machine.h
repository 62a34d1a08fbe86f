/* SPDX-License-Identifier: BSD-3-Clause */
/* What this machine can record of itself and its guests with Intel PT, in sentences. */
#ifndef VMM_RECORD_MACHINE_H
#define VMM_RECORD_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#define FINDINGS_MAX 24

enum finding_state {
    FINDING_GOOD,    /* it can */
    FINDING_LIMIT,   /* it can, with less or otherwise */
    FINDING_BAD,     /* nothing can be recorded */
    FINDING_UNKNOWN, /* it could not be found out */
};

struct finding {
    const char *name; /* of JSON's member */
    enum finding_state state;
    char text[320]; /* one or two sentences */
};

struct findings {
    struct finding list[FINDINGS_MAX];
    size_t count;
};

/*
 * Looks at the machine whose /proc, /sys and /dev are below root ("": this one). Only of this one
 * the PMU is asked whether it is free.
 */
void machine_look(const char *root, struct findings *findings);
/* The first finding that is FINDING_BAD; NULL: a recording can be tried. */
const struct finding *machine_obstacle(const struct findings *findings);
/* "good", "limit", ... */
const char *finding_word(enum finding_state state);

#endif
