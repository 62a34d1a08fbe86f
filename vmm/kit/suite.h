/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guest image of the tests said on its console: its cases, one by one, and whether it came
 * to its end (guest-tests/lib/console.h says what a console looks like).
 *
 * A console may be that of any hypervisor, and hold anything besides: messages of firmware and of
 * the hypervisor, sequences for terminals. What is no line of a case is kept in small part, to say
 * what was the last of it.
 */
#ifndef VMM_KIT_SUITE_H
#define VMM_KIT_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kit_result {
    KIT_PASS,
    KIT_FAIL,
    KIT_SKIP,
    KIT_RESULTS,
};

struct kit_case {
    enum kit_result result;
    char *name;   /* what must hold, with the rule in it */
    char *reason; /* of a failure: what was got and wanted; of a skip: why; "" if nothing is said */
    char *detail; /* further lines of a failure, each with its newline; "" if there are none */
};

struct kit_suite {
    const char *name;
    struct kit_case *cases; /* `count` of them */
    size_t count, capacity;
    size_t counts[KIT_RESULTS];
    double seconds;

    /* Private. */
    char line[1024]; /* the present one, so far; what is longer is cut off */
    size_t line_bytes;
    char last[256]; /* the last line that was not of a case */
    bool at_end;    /* the closing line has come */
    size_t closing[KIT_RESULTS];
    bool too_many;
};

/* The name stays the caller's. Ended by kit_suite_free(). */
void kit_suite_begin(struct kit_suite *suite, const char *name);
void kit_suite_free(struct kit_suite *suite);

/* Bytes of the console, in any pieces. 0, or -ENOMEM. */
int kit_suite_read(struct kit_suite *suite, const char *bytes, size_t count);

/* Whether the closing line has come: the guest has no more to say. */
bool kit_suite_at_end(const struct kit_suite *suite);

/*
 * The console is at its end. If the closing line has not come, or counts other cases than came,
 * that is a failed case more. `why` says what ended the console otherwise, or is NULL. 0, or
 * -ENOMEM.
 */
int kit_suite_end(struct kit_suite *suite, const char *why);

#endif
