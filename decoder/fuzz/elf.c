/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes ELF files as images, with their symbols. Eight bytes are the bias; the rest is the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ptdec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define HEAD_BYTES 8
#define STEP       0x100u
#define STEPS      64u /* that are looked at, from the bias and from each end */

static unsigned look(const struct ptd_image *image, uint64_t vaddr)
{
    const uint8_t *code;
    uint64_t offset = 0;
    size_t code_bytes;
    unsigned sum = 0;

    if (ptd_image_find(image, 0x1000, vaddr, &code, &code_bytes) == PTD_OK) {
        if (code_bytes == 0)
            abort();
        sum = code[0] + code[code_bytes - 1];
    }

    const char *const name = ptd_image_symbol(image, 0x1000, vaddr, &offset);

    if (name && (strlen(name) == 0 || offset > vaddr))
        abort();
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_image *const image = ptd_image_new();
    uint64_t bias;
    char path[64];
    int file;

    if (len_bytes <= HEAD_BYTES || !image) {
        ptd_image_free(image);
        return 0;
    }
    memcpy(&bias, bytes, sizeof(bias));
    len_bytes -= HEAD_BYTES;
    file = memfd_create("elf", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes + HEAD_BYTES, len_bytes) != (ssize_t)len_bytes)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);

    const int status = ptd_image_add_elf(image, path, bias, PTD_ANY_CR3);

    if (status > 0)
        abort();
    for (uint64_t i = 0; i < STEPS; i++) {
        (void)look(image, bias + i * STEP);
        (void)look(image, 0x400000 + bias + i * STEP);
        (void)look(image, 0 - i);
    }
    (void)close(file);
    ptd_image_free(image);
    return 0;
}
