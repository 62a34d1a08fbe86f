/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of a trace that --from and --to name, and the PSB to begin at: the index of the trace
 * says which. It is made each time, at the speed of reading the file.
 */
#include "trace/window.h"
#include "common/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define NS_DIGITS 9u

/* "12.5" seconds to nanoseconds; digits behind the ninth are left out. */
static bool parse_seconds(const char *text, uint64_t *ns)
{
    uint64_t value = 0;
    unsigned digits = 0;
    bool fraction = false;

    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text) || (*text == '.' && !fraction); text++) {
        if (*text == '.') {
            fraction = true;
            continue;
        }
        if (digits == NS_DIGITS)
            continue;
        if (value > (UINT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        digits += fraction;
    }
    for (; digits < NS_DIGITS; digits++) {
        if (value > UINT64_MAX / 10)
            return false;
        value *= 10;
    }
    *ns = value;
    return *text == '\0';
}

bool bound_parse(const char *text, struct bound *bound)
{
    static const char tsc[] = "tsc:", time[] = "time:";
    struct bound parsed = {.kind = BOUND_OFFSET};
    bool ok;

    if (strncmp(text, tsc, strlen(tsc)) == 0) {
        parsed.kind = BOUND_TSC;
        ok = parse_number(text + strlen(tsc), &parsed.value);
    } else if (strncmp(text, time, strlen(time)) == 0) {
        parsed.kind = BOUND_TIME;
        ok = parse_seconds(text + strlen(time), &parsed.value);
    } else {
        ok = parse_number(text, &parsed.value);
    }
    if (ok)
        *bound = parsed;
    return ok;
}

bool bound_is_ahead(const struct bound *bound, uint64_t offset, uint64_t tsc)
{
    return bound->kind == BOUND_OFFSET ? offset < bound->value
                                       : bound->kind == BOUND_TSC && tsc < bound->value;
}

bool window_is_valid(const struct window *window)
{
    return window->from.kind == BOUND_NONE || window->from.kind != window->to.kind ||
           window->from.value <= window->to.value;
}

static bool is_time(const struct bound *bound)
{
    return bound->kind == BOUND_TSC || bound->kind == BOUND_TIME;
}

bool window_has_time(const struct window *window)
{
    return is_time(&window->from) || is_time(&window->to);
}

bool window_has_nanoseconds(const struct window *window)
{
    return window->from.kind == BOUND_TIME || window->to.kind == BOUND_TIME;
}

/* A PSB+ tells the state again, but what it tells is news unless one was decoded before. */
static uint64_t one_before(const struct ptd_sync_point *points, size_t count, size_t i)
{
    return i == count || i == 0 ? 0 : points[i - 1].offset;
}

static uint64_t find_begin(const struct bound *from, struct ptd_sync_point *points, size_t count,
                           bool has_vms)
{
    if (from->kind == BOUND_OFFSET)
        return one_before(points, count, ptd_index_at(points, count, from->value));
    for (size_t i = 0; i < count; i++) /* a guest's clock */
        points[i].has_tsc = points[i].has_tsc && !(has_vms && points[i].nr);
    return one_before(points, count, ptd_index_before(points, count, from->value));
}

int index_file(const struct input *input, struct ptd_sync_point **points, size_t *count)
{
    struct stat status;
    void *bytes;
    int error;

    *points = NULL;
    *count = 0;
    if (fstat(input->fd, &status) != 0)
        return -errno;
    if (status.st_size == 0)
        return 0;
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, input->fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    (void)madvise(bytes, (size_t)status.st_size, MADV_SEQUENTIAL);
    error = ptd_index(bytes, (size_t)status.st_size, points, count);
    (void)munmap(bytes, (size_t)status.st_size);
    return error ? -ENOMEM : 0;
}

int window_begin(const struct window *window, const struct input *input, bool has_vms,
                 uint64_t *offset)
{
    struct ptd_sync_point *points = NULL;
    size_t count = 0;
    int error;

    *offset = 0;
    if (window->from.kind == BOUND_NONE || window->from.kind == BOUND_TIME || !input->is_file)
        return 0;
    error = index_file(input, &points, &count);
    if (points)
        *offset = find_begin(&window->from, points, count, has_vms);
    free(points);
    return error;
}
