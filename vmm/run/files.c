/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run leaves: trace files with their sidecars (docs/trace-files.md).
 */
#include "run/files.h"
#include "common/file.h"
#include "common/json.h"
#include "trace/sidecar.h"
#include "run/run.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What TRACE.json says of one processor's trace. 0 or -errno. */
static int describe(struct json_object **root, const struct run_options *options,
                    const struct vpt_caps *caps, const struct run_result *result, unsigned index)
{
    const struct cpu_result *const cpu = &result->cpus[index];
    const struct sidecar_facts facts = {
        .profile = options->profile,
        .processor = result->cpu_count > 1 ? (int)index : -1,
        .family = (uint8_t)cpu->family,
        .model = (uint8_t)cpu->model,
        .stepping = (uint8_t)cpu->stepping,
        .clocks = {.tsc_den = caps->tsc_den,
                   .tsc_num = caps->tsc_num,
                   .mtc_freq = (uint8_t)cpu->mtc_freq,
                   .max_nonturbo_ratio = (uint8_t)caps->max_nonturbo_ratio},
        .rtit = cpu->is_rtit ? &cpu->rtit : NULL,
        .deferred_tips = cpu->deferred_tips != 0,
    };
    int error;

    *root = sidecar_new(&facts);
    error = sidecar_put_image(*root, options->image, "kernel", NULL);
    for (unsigned i = 0; i < result->process_count && !error; i++) {
        const struct process *const process = &result->processes[i];
        char path[PATH_MAX];

        beside(options->image, process->image, path, sizeof(path));
        error = sidecar_put_image(*root, path, process->name, &process->cr3);
    }
    return error;
}

void cpu_file(const char *name, unsigned index, char *path, size_t path_bytes)
{
    if (index == 0)
        snprintf(path, path_bytes, "%s", name);
    else
        snprintf(path, path_bytes, "%s.%u", name, index);
}

/* ---- Opening ---- */

/* The path of a processor goes here. False: it is not kept. */
static bool path_name(const struct run_options *options, const struct output *trace, unsigned index,
                      char *path, size_t path_bytes)
{
    char file[PATH_MAX];

    if (options->path_out) {
        cpu_file(options->path_out, index, path, path_bytes);
        return true;
    }
    if (!options->keep_path || !trace->is_file)
        return false;
    cpu_file(options->trace_out, index, file, sizeof(file));
    snprintf(path, path_bytes, "%s.path", file);
    return true;
}

static int open_trace(struct cpu_outputs *cpu, const struct run_options *options, unsigned index,
                      struct reason *why)
{
    char file[PATH_MAX], path[PATH_MAX + 8];
    int error;

    cpu_file(options->trace_out, index, file, sizeof(file));
    error = output_open(&cpu->trace, file, why);
    if (error)
        return error;
    if (!cpu->trace.is_file)
        return options->cpus > 1
                   ? reason_set(why, -EINVAL, "%s: no regular file, which several processors need",
                                file)
                   : 0;
    snprintf(path, sizeof(path), "%s.json", file);
    return output_open(&cpu->sidecar, path, why);
}

static int open_cpu(struct cpu_outputs *cpu, const struct run_options *options, unsigned index,
                    struct reason *why)
{
    char path[PATH_MAX + 8];
    int error = options->trace_out ? open_trace(cpu, options, index, why) : 0;

    if (!error && path_name(options, &cpu->trace, index, path, sizeof(path)))
        error = output_open(&cpu->path, path, why);
    return error;
}

int run_files_open(struct run_files *files, const struct run_options *options, struct reason *why)
{
    int error = options->save_to ? output_open(&files->saved, options->save_to, why) : 0;

    for (unsigned i = 0; !error && i < options->cpus; i++)
        error = open_cpu(&files->cpus[i], options, i, why);
    if (error)
        run_files_drop(files);
    return error;
}

void run_files_drop(struct run_files *files)
{
    output_drop(&files->saved);
    for (unsigned i = 0; i < MAX_CPUS; i++) {
        output_drop(&files->cpus[i].trace);
        output_drop(&files->cpus[i].sidecar);
        output_drop(&files->cpus[i].path);
    }
}

/* ---- Writing ---- */

/* All of an output, which is no longer open then. 0 or -errno and why. */
static int fill(struct output *output, const void *data, size_t len, struct reason *why)
{
    int error;

    if (!output->is_open)
        return 0;
    error = output_write(output, data, len, why);
    if (!error)
        return output_close(output, why);
    output_drop(output);
    return error;
}

static int fill_sidecar(struct output *output, json_object *root, struct reason *why)
{
    char *const text = json_text(root, JSON_C_TO_STRING_PRETTY);
    const int error =
        text ? fill(output, text, strlen(text), why) : reason_set(why, -ENOMEM, "no memory");

    free(text);
    return error;
}

static int write_cpu(struct cpu_outputs *outputs, const struct run_options *options,
                     const struct vpt_caps *caps, const struct run_result *result, unsigned index,
                     struct reason *why)
{
    const struct cpu_result *const cpu = &result->cpus[index];
    json_object *root;
    int unknown = describe(&root, options, caps, result, index);
    int error = fill(&outputs->trace, cpu->trace.data, cpu->trace.len, why);

    if (!unknown && outputs->path.is_open)
        unknown = sidecar_put_path(root, outputs->path.path);
    if (!error)
        error = fill(&outputs->path, cpu->path.data, cpu->path.len, why);
    if (!error && unknown)
        error = reason_set(why, unknown, "no memory");
    if (!error)
        error = fill_sidecar(&outputs->sidecar, root, why);
    json_object_put(root);
    return error;
}

int run_files_write(struct run_files *files, const struct run_options *options,
                    const struct vpt_caps *caps, const struct run_result *result,
                    struct reason *why)
{
    int error = 0;

    if (result->saved)
        output_keep(&files->saved);
    for (unsigned i = 0; i < result->cpu_count && !error; i++)
        error = write_cpu(&files->cpus[i], options, caps, result, i, why);
    run_files_drop(files);
    return error;
}
