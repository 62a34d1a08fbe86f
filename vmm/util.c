/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small things that every part of the program uses.
 */
#include "vmm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int complain(enum exit_code code, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fputs("vpt: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return (int)code;
}

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

void run_result_free(struct run_result *result)
{
    for (unsigned i = 0; i < MAX_CPUS; i++) {
        bytes_free(&result->cpus[i].trace);
        bytes_free(&result->cpus[i].handed);
        bytes_free(&result->cpus[i].path);
    }
}
