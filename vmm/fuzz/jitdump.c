/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes jitdumps: all that is told of one lies in its file, in order of time. */
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "trace/jitdump.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

/* The bytes of a piece, each of which has to be there, and its name. */
static void check_code(const struct jitdump *dump, const struct jit_code *code,
                       struct ptd_image *image)
{
    const uint8_t *const end = dump->file.data + dump->file.len;

    if (code->len == 0 || code->bytes < dump->file.data || code->bytes > end ||
        code->len > (size_t)(end - code->bytes) || strlen(code->name) == 0)
        abort();
    if (ptd_image_add_bytes(image, code->name, code->start, code->bytes, code->len, PTD_ANY_CR3) !=
        PTD_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_image *const image = ptd_image_new();
    struct bytes file = {0};
    struct jitdump *dump;
    struct reason why = {0};

    if (!image || !bytes_add(&file, bytes, len_bytes))
        abort();
    if (jitdump_parse("dump", &file, &dump, &why) != 0) {
        if (!why.text[0] || dump)
            abort();
    } else {
        for (size_t i = 0; i < dump->count; i++) {
            if (i > 0 && dump->codes[i - 1].time > dump->codes[i].time)
                abort();
            check_code(dump, &dump->codes[i], image);
        }
    }
    if (file.data) /* it was taken over */
        abort();
    jitdump_free(dump);
    ptd_image_free(image);
    return 0;
}
