/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A growing array of bytes.
 */
#ifndef VMM_BYTES_H
#define VMM_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *data;
    size_t len, capacity;
};
/* False: no memory; nothing changed. */
bool bytes_add(struct bytes *bytes, const void *data, size_t len);
void bytes_free(struct bytes *bytes);

#endif
