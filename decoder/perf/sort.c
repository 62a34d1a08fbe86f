/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of what a perf.data tells: what has one key stays in the order of the file. */
#include <stdlib.h>
#include <string.h>

#include "perf/sort.h"
#include "ptdec_perf.h"

bool ptd_perf_sort(void *list, size_t count, size_t element_bytes)
{
    uint8_t *const from = list, *const spare = malloc(count ? count * element_bytes : 1);

    if (!spare)
        return false;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            const size_t middle = begin + width < count ? begin + width : count;
            const size_t end = begin + 2 * width < count ? begin + 2 * width : count;
            size_t left = begin, right = middle;

            for (size_t i = begin; i < end; i++) {
                uint64_t a = 0, b = 0;

                if (left < middle)
                    memcpy(&a, from + left * element_bytes, sizeof(a));
                if (right < end)
                    memcpy(&b, from + right * element_bytes, sizeof(b));

                const bool take_left = left < middle && (right == end || a <= b);
                const size_t source = take_left ? left++ : right++;

                memcpy(spare + i * element_bytes, from + source * element_bytes, element_bytes);
            }
        }
        memcpy(from, spare, count * element_bytes);
    }
    free(spare);
    return true;
}
