/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that comes nearest to a word: by its begin, or by the fewest changes of letters. */
#include "cli/suggest.h"

#include <stdint.h>
#include <string.h>

#define WORD_MAX   64u /* longer ones are near to nothing */
#define PREFIX_MIN 2u

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t edit_distance(const char *a, const char *b)
{
    const size_t len_a = strlen(a), len_b = strlen(b);
    size_t rows[3][WORD_MAX + 1]; /* of the letter of a before the last, the last, and this one */

    if (len_a > WORD_MAX || len_b > WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= len_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= len_a; i++) {
        size_t *const row = rows[i % 3], *const above = rows[(i + 2) % 3];
        const size_t *const before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= len_b; j++) {
            row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[len_a % 3][len_b];
}

void suggest_begin(struct suggestion *suggestion, const char *word)
{
    const size_t len = strlen(word);

    /* A third of its letters may be wrong, and one in any case. */
    *suggestion = (struct suggestion){.word = word, .distance = (len < 6 ? 1 : len / 3) + 1};
}

void suggest_try(struct suggestion *suggestion, const char *name)
{
    const size_t len = strlen(suggestion->word);
    size_t distance = edit_distance(suggestion->word, name);

    if (len >= PREFIX_MIN && strncmp(name, suggestion->word, len) == 0)
        distance = least(distance, 1);
    if (distance < suggestion->distance) {
        suggestion->distance = distance;
        suggestion->best = name;
    }
}
