/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes TRACE.json: the images, the settings of RTIT and the clocks that it names. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../out.h"
#include "../vmm.h"

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

static void check_rtit(void)
{
    struct ptd_rtit_config config = {0};

    if (sidecar_rtit(trace_name(), &config) &&
        (config.filters > 2 || config.stops > 2 || config.mode > PTD_MODE_64))
        abort();
}

/* What is wrong with it must be said. */
static void check_images(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct run_result *const result = calloc(1, sizeof(*result));
    int error;

    if (!image || !result)
        abort();
    error = sidecar_load(trace_name(), image, result);
    if (error > 0 || (error < 0 && !result->why[0]) || result->process_count > MAX_PROCESSES)
        abort();
    free(result);
    ptd_image_free(image);
}

/* Values out of range give no object, but no crash either. */
static void check_clocks(void)
{
    struct ptd_time_config config;

    if (clock_sidecar(trace_name(), &config))
        ptd_time_free(ptd_time_new(&config));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    put(bytes, len_bytes);
    check_rtit();
    check_images();
    check_clocks();
    return 0;
}
