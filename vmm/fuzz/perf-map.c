/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes perf-PID.map: what goes wrong has a reason, and names can be asked for. */
#include <stdlib.h>

#include "trace/perf-map.h"

#define CR3 0x5000u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_image *const image = ptd_image_new();
    struct reason why = {0};

    if (!image)
        abort();
    if (perf_map_add("map", (const char *)bytes, len_bytes, image, CR3, &why) != 0 && !why.text[0])
        abort();
    for (unsigned bit = 0; bit < 64; bit += 4) {
        uint64_t offset;
        const char *const name = ptd_image_symbol(image, CR3, UINT64_C(1) << bit, &offset);

        if (name && name[0] == 0)
            abort();
    }
    ptd_image_free(image);
    return 0;
}
