/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The executed path: what a decoder of the trace has to find (docs/trace-files.md).
 */
#include "run/path.h"
#include "common/bytes.h"

bool path_add(struct bytes *path, uint64_t *last_cr3, uint64_t cr3, uint64_t ip)
{
    const uint64_t frame = cr3 >> 12 & 0xffffffffffull;
    const uint64_t mark = PATH_CR3_MARK | frame;

    if (frame != *last_cr3) {
        if (!bytes_add(path, &mark, sizeof(mark)))
            return false;
        *last_cr3 = frame;
    }
    return bytes_add(path, &ip, sizeof(ip));
}
