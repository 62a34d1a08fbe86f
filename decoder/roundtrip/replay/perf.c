/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a perf.data brings: traces of CPUs or threads, family and model, and which files the traced
 * process had mapped. The files themselves have to be there, as they were.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "perf.h"
#include "ptdec_perf.h"

#define NAME_BYTES 4200u

/* The process of a trace: of a CPU's, the one that was recorded there. */
static uint32_t process_of(const struct ptd_perf_session *session,
                           const struct ptd_perf_trace *trace)
{
    if (trace->tid >= 0)
        return ptd_perf_pid_of(session, (uint32_t)trace->tid);
    for (size_t i = 0; i < session->start_count; i++)
        if (session->starts[i].cpu == (uint32_t)trace->cpu)
            return session->starts[i].pid;
    return session->start_count > 0 ? session->starts[0].pid : 0;
}

/* A file of the file system, and neither "[vdso]" nor "//anon". */
static bool is_path(const char *file)
{
    return file && file[0] == '/' && file[1] != '/';
}

/* Code that is in no file (the vDSO, what a JIT made) stays unknown, and leaves gaps. */
static int add_map(void *owner, const struct ptd_perf_map *map)
{
    struct ptd_image *const image = owner;

    if (map->executable && map->len > 0 && is_path(map->file) &&
        code_add_raw(image, map->file, map->pgoff, map->len, map->start) != PTD_OK)
        printf("there is no code of %s\n", map->file);
    return 0;
}

/* A buffer that has gaps is several traces. */
static void name_trace(const char *path, const struct ptd_perf_trace *trace, char *name,
                       size_t name_bytes)
{
    char where[32] = "";

    if (trace->aux_offset > 0)
        (void)snprintf(where, sizeof(where), " from %#" PRIx64 " on", trace->aux_offset);
    if (trace->cpu >= 0)
        (void)snprintf(name, name_bytes, "%s, CPU %d%s", path, trace->cpu, where);
    else
        (void)snprintf(name, name_bytes, "%s, thread %d%s", path, trace->tid, where);
}

static void run_trace(const char *path, const struct ptd_perf_session *session,
                      const struct ptd_perf_trace *trace, const struct options *options,
                      trace_fn run)
{
    struct options own = *options;
    struct ptd_perf_whole whole;
    char name[NAME_BYTES];

    if (ptd_perf_whole(session, trace, &whole) != PTD_OK)
        return;
    own.image = ptd_image_new_on(options->image);
    if (!own.image) {
        ptd_perf_whole_free(&whole);
        return;
    }
    own.has_image = true;
    if (!own.has_cpu)
        own.has_cpu = sscanf(session->cpuid, "GenuineIntel,%u,%u,%u", &own.family, &own.model,
                             &own.stepping) >= 2;
    (void)ptd_perf_each_map(session, process_of(session, trace), add_map, own.image);
    name_trace(path, trace, name, sizeof(name));
    run(name, &own, whole.bytes, whole.len_bytes, trace->aux_offset);
    ptd_image_free(own.image);
    ptd_perf_whole_free(&whole);
}

const char *perf_each_trace(const char *path, const uint8_t *bytes, size_t len_bytes,
                            const struct options *options, trace_fn run)
{
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    const char *wrong = NULL;

    if (ptd_perf_session_new(bytes, len_bytes, &session, &fault) != PTD_OK)
        return "its header cannot be read";
    if (session->error != PTD_OK)
        printf("%s: cut short at %#" PRIx64 ": %s\n", path, session->fault.offset,
               session->fault.text);
    if (!session->has_pt)
        wrong = "there is no Intel PT in it";
    else if (session->trace_count == 0)
        wrong = "it holds no trace";
    for (size_t i = 0; !wrong && i < session->trace_count; i++)
        run_trace(path, session, &session->traces[i], options, run);
    ptd_perf_session_free(session);
    return wrong;
}
