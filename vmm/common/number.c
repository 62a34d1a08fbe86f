/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers in texts. */
#include "common/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool parse_number(const char *text, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 0);
    return !errno && end != text && !*end && *text != '-';
}

bool parse_bytes(const char *text, int base, uint64_t max, const char **end_of, uint64_t *bytes)
{
    char *end;
    unsigned shift = 0;

    errno = 0;
    *bytes = strtoull(text, &end, base);
    if (errno || end == text || *text == '-')
        return false;
    if (*end == 'K' || *end == 'k')
        shift = 10;
    else if (*end == 'M' || *end == 'm')
        shift = 20;
    else if (*end == 'G' || *end == 'g')
        shift = 30;
    if (shift)
        end++;
    if (*bytes > max >> shift)
        return false;
    *bytes <<= shift;
    *end_of = end;
    return true;
}

char *split_bias(const char *argument, uint64_t *bias)
{
    char *path = strdup(argument), *at = path ? strrchr(path, '@') : NULL;

    if (at && parse_number(at + 1, bias))
        *at = 0;
    else
        *bias = 0;
    return path;
}
