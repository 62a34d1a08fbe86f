/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing array of bytes. */
#include "common/bytes.h"

#include <stdlib.h>
#include <string.h>

bool bytes_add(struct bytes *bytes, const void *data, size_t len)
{
    if (len == 0)
        return true;
    if (len > bytes->capacity - bytes->len) {
        size_t capacity = bytes->capacity ? bytes->capacity : 4096;
        uint8_t *grown;

        while (capacity - bytes->len < len) {
            if (capacity > SIZE_MAX / 2)
                return false;
            capacity *= 2;
        }
        grown = realloc(bytes->data, capacity);
        if (!grown)
            return false;
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    return true;
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}
