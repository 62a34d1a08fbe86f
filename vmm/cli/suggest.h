/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "Did you mean": the name that comes nearest to a word that is none.
 */
#ifndef VMM_SUGGEST_H
#define VMM_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *word;
    const char *best; /* NULL: nothing is near */
    size_t distance;  /* of best */
};

void suggest_begin(struct suggestion *suggestion, const char *word);
/* Takes name if it is nearer than all before. */
void suggest_try(struct suggestion *suggestion, const char *name);
/* How many letters must be changed, added, left out or exchanged to make one of the other. */
size_t edit_distance(const char *a, const char *b);

#endif
