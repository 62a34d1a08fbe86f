/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a perf.data brings: traces of CPUs or threads, family and model, and which files the traced
 * process had mapped. The files themselves have to be there, as they were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "perf.h"
#include "ptdec_perf.h"

#define NAME_BYTES 4200u

/* The process of a trace: of a CPU's, the one that was recorded. */
static uint32_t process_of(const struct ptd_perf_session *session,
                           const struct ptd_perf_trace *trace)
{
    if (trace->tid >= 0)
        return ptd_perf_pid_of(session, (uint32_t)trace->tid);
    return session->start_count > 0 ? session->starts[0].pid : 0;
}

/* Code that is in no file (the vDSO, what a JIT made) stays unknown, and leaves gaps. */
static void add_maps(struct ptd_image *image, const struct ptd_perf_session *session, uint32_t pid)
{
    for (size_t i = 0; i < session->map_count; i++) {
        const struct ptd_perf_map *const map = &session->maps[i];

        if (map->pid == pid && map->executable && map->len > 0 && map->file && map->file[0] == '/')
            (void)code_add_raw(image, map->file, map->pgoff, map->len, map->start);
    }
}

static void run_trace(const char *path, const struct ptd_perf_session *session,
                      const struct ptd_perf_trace *trace, const struct options *options,
                      perf_trace_fn run)
{
    struct options own = *options;
    char name[NAME_BYTES];

    own.image = ptd_image_new_on(options->image);
    if (!own.image)
        return;
    own.has_image = true;
    if (!own.has_cpu)
        own.has_cpu = sscanf(session->cpuid, "GenuineIntel,%u,%u,%u", &own.family, &own.model,
                             &own.stepping) >= 2;
    add_maps(own.image, session, process_of(session, trace));
    if (trace->cpu >= 0)
        (void)snprintf(name, sizeof(name), "%s, CPU %d", path, trace->cpu);
    else
        (void)snprintf(name, sizeof(name), "%s, thread %d", path, trace->tid);
    run(name, &own, trace->bytes, trace->len_bytes, trace->aux_offset);
    ptd_image_free(own.image);
}

const char *perf_each_trace(const char *path, const uint8_t *bytes, size_t len_bytes,
                            const struct options *options, perf_trace_fn run)
{
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    const char *wrong = NULL;

    if (ptd_perf_session_new(bytes, len_bytes, &session, &fault) != PTD_OK)
        return "its header cannot be read";
    if (!session->has_pt)
        wrong = "there is no Intel PT in it";
    else if (session->trace_count == 0)
        wrong = "it holds no trace";
    for (size_t i = 0; !wrong && i < session->trace_count; i++)
        run_trace(path, session, &session->traces[i], options, run);
    ptd_perf_session_free(session);
    return wrong;
}
