/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What suites came to, in one of several forms: for people, TAP 13, JUnit's XML, one JSON object.
 * Each failure has the rule that it broke beside it (kit/rules.h).
 */
#ifndef VMM_KIT_OUT_H
#define VMM_KIT_OUT_H

#include "kit/suite.h"

#include <stdio.h>

enum kit_format {
    KIT_TEXT,
    KIT_TAP,
    KIT_JUNIT,
    KIT_JSON,
    KIT_FORMATS,
};

/* What a format is called: "text", "tap", "junit", "json". */
extern const char *const kit_format_names[KIT_FORMATS];

struct kit_out {
    FILE *to;
    enum kit_format format;
    bool all; /* of the text: the cases that passed or were skipped, too */

    /* Private. */
    size_t suites;
    size_t counts[KIT_RESULTS];
    bool failed; /* there was no memory for a JSON text */
};

/* A run is begin, each suite when it is at its end, and end. `to` stays the caller's. */
void kit_out_begin(struct kit_out *out, FILE *to, enum kit_format format, bool all);
void kit_out_suite(struct kit_out *out, const struct kit_suite *suite);
/* 0, -ENOMEM, or -EIO: not all could be written. */
int kit_out_end(struct kit_out *out);

#endif
