/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes map files. What they name is looked for in a folder that does not exist. */
#include <errno.h>
#include <stdlib.h>

#include "trace/code-files.h"
#include "trace/mapfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct ptd_image *const image = ptd_image_new();
    struct ptd_context context;
    struct map map = {0};
    int error;

    if (!image || !files)
        abort();
    error = map_parse("/nonexistent/map", (const char *)bytes, len_bytes, files, image, &map);
    if (error != 0 && error != -EINVAL && error != -ENOMEM)
        abort();
    if (error == -EINVAL && !map.why.text[0])
        abort();
    if (map.contexts)
        ptd_contexts_find(map.contexts, ptd_image_space(image, true, 0x1000, 0x1000), 0, &context);
    ptd_image_free(image);
    map_free(&map);
    code_files_free(files);
    return 0;
}
