/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/perf-map.h"

#include <errno.h>
#include <string.h>

/* A number of up to 16 hexadecimal digits and a space, where one may have "0x" in front. */
static bool take_number(const char **at, const char *end, uint64_t *value)
{
    const char *const digits = "0123456789abcdef", *digit;
    unsigned count = 0;

    if (end - *at > 2 && (*at)[0] == '0' && ((*at)[1] == 'x' || (*at)[1] == 'X'))
        *at += 2;
    for (*value = 0; *at < end && count <= 16; ++*at, count++) {
        const char letter = **at >= 'A' && **at <= 'F' ? (char)(**at + 'a' - 'A') : **at;

        digit = letter ? strchr(digits, letter) : NULL;
        if (!digit)
            break;
        *value = *value << 4 | (uint64_t)(digit - digits);
    }
    return count >= 1 && count <= 16 && *at < end && *(*at)++ == ' ';
}

/* What a line says. PTD_E_ARG: nothing that there can be. */
static int take_line(const char *line, const char *end, struct ptd_image *image, uint64_t cr3)
{
    char name[PERF_MAP_NAME_MAX];
    uint64_t start, len_bytes;
    size_t len;

    if (!take_number(&line, end, &start) || !take_number(&line, end, &len_bytes) || line == end ||
        start >> 63 || memchr(line, 0, (size_t)(end - line)))
        return PTD_E_ARG;
    len = (size_t)(end - line) < sizeof(name) ? (size_t)(end - line) : sizeof(name) - 1;
    memcpy(name, line, len);
    name[len] = 0;
    return len_bytes ? ptd_image_add_region(image, name, start, len_bytes, NULL, 0, cr3) : PTD_OK;
}

int perf_map_add(const char *name, const char *text, size_t len_bytes, struct ptd_image *image,
                 uint64_t cr3, struct reason *why)
{
    size_t at = 0;
    const char *end;

    for (size_t i = 1; at < len_bytes && (end = memchr(text + at, '\n', len_bytes - at)); i++) {
        const int status =
            i > PERF_MAP_LINES_MAX ? PTD_E_LIMIT : take_line(text + at, end, image, cr3);

        if (status == PTD_E_NOMEM)
            return reason_no_memory(why);
        if (status != PTD_OK)
            return reason_set(
                why, -EBADMSG, "%.300s:%zu: %s; names behind it are not used", name, i,
                status == PTD_E_LIMIT ? "too many lines" : "no address, length and name of code");
        at = (size_t)(end - text) + 1;
    }
    return 0;
}
