/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives stdin to a fuzz target once: reproduces a finding without libFuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int main(void)
{
    uint8_t *bytes = NULL;
    size_t len = 0, room = 0, got;

    do {
        if (len == room) {
            uint8_t *const bigger = realloc(bytes, room = room ? room * 2 : 4096);

            if (!bigger)
                return EXIT_FAILURE;
            bytes = bigger;
        }
        got = fread(bytes + len, 1, room - len, stdin);
        len += got;
    } while (got > 0);
    (void)LLVMFuzzerTestOneInput(bytes, len);
    free(bytes);
    return EXIT_SUCCESS;
}
