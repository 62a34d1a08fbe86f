/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes TRACE.json: the images, the settings of RTIT and the clocks that it names. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/code-files.h"
#include "trace/sidecar.h"
#include "common/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

/* In memory, and each process has its own. */
static const char *trace_name(void)
{
    static char name[64];

    if (!name[0])
        (void)snprintf(name, sizeof(name), "/dev/shm/vpt-sidecar-%d", (int)getpid());
    return name;
}

static void put(const uint8_t *bytes, size_t len_bytes)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "%s.json", trace_name());
    if (write_file(path, bytes, len_bytes) != 0)
        abort();
}

/* What is wrong with it must be said; what is not, is in range. */
static bool check_settings(struct sidecar *sidecar)
{
    if (sidecar_open(sidecar, trace_name()) != 0) {
        if (!sidecar->why.text[0])
            abort();
        return false;
    }
    if (sidecar->rtit.filters > 2 || sidecar->rtit.stops > 2 || sidecar->rtit.mode > PTD_MODE_64 ||
        ptd_time_check(&sidecar->clocks) != PTD_OK)
        abort();
    return true;
}

static void check_images(struct sidecar *sidecar)
{
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct ptd_image *const image = ptd_image_new();

    if (!image || !files)
        abort();
    if (sidecar_add_images(sidecar, files, image) != 0 && !sidecar->why.text[0])
        abort();
    ptd_image_free(image);
    code_files_free(files);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static struct sidecar sidecar;

    put(bytes, len_bytes);
    if (check_settings(&sidecar))
        check_images(&sidecar);
    sidecar_close(&sidecar);
    return 0;
}
