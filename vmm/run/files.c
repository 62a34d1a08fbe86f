/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run leaves: trace files with their sidecars (docs/trace-files.md).
 */
#include "run/files.h"
#include "common/file.h"
#include "trace/rtit-trace.h"
#include "trace/sidecar.h"
#include "run/run.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static void add_int(json_object *object, const char *key, int64_t value)
{
    json_object_object_add(object, key, json_object_new_int64(value));
}

static void add_image(json_object *images, const char *path, const char *name, const uint64_t *cr3)
{
    json_object *image = json_object_new_object();
    char *absolute = realpath(path, NULL);

    json_object_object_add(image, "path", json_object_new_string(absolute ? absolute : path));
    add_int(image, "bias", 0);
    json_object_object_add(image, "cr3", cr3 ? json_object_new_int64((int64_t)*cr3) : NULL);
    json_object_object_add(image, "name", json_object_new_string(name));
    json_object_array_add(images, image);
    free(absolute);
}

static json_object *sidecar(const struct run_options *options, const struct vpt_caps *caps,
                            const struct run_result *result, unsigned index)
{
    json_object *root = json_object_new_object();
    json_object *images = json_object_new_array();
    json_object *tsc_ctc = json_object_new_array();
    json_object *cpu = json_object_new_object();

    add_int(root, "vpt", SIDECAR_VERSION);
    json_object_object_add(root, "profile", json_object_new_string(options->profile));
    add_int(cpu, "family", 0); /* no processor with errata: the model */
    add_int(cpu, "model", 0);
    add_int(cpu, "stepping", 0);
    json_object_object_add(root, "cpu", cpu);
    if (result->cpu_count > 1)
        add_int(root, "processor", index);
    add_int(root, "mode", 64);
    json_object_array_add(tsc_ctc, json_object_new_int64(caps->tsc_den));
    json_object_array_add(tsc_ctc, json_object_new_int64(caps->tsc_num));
    json_object_object_add(root, "tsc_ctc", tsc_ctc);
    add_int(root, "mtc_freq", result->cpus[index].mtc_freq);
    add_int(root, "max_nonturbo_ratio", caps->max_nonturbo_ratio);
    if (result->cpus[index].is_rtit)
        json_object_object_add(root, "rtit", rtit_to_json(&result->cpus[index].rtit));
    add_image(images, options->image, "kernel", NULL);
    for (unsigned i = 0; i < result->process_count; i++) {
        const struct process *process = &result->processes[i];
        char path[PATH_MAX];

        beside(options->image, process->image, path, sizeof(path));
        add_image(images, path, process->name, &process->cr3);
    }
    json_object_object_add(root, "images", images);
    return root;
}

void cpu_file(const char *name, unsigned index, char *path, size_t path_bytes)
{
    if (index == 0)
        snprintf(path, path_bytes, "%s", name);
    else
        snprintf(path, path_bytes, "%s.%u", name, index);
}

static int cpu_files_write(const char *trace, const struct run_options *options,
                           const struct vpt_caps *caps, const struct run_result *result,
                           unsigned index)
{
    const struct cpu_result *cpu = &result->cpus[index];
    json_object *root = sidecar(options, caps, result, index);
    char file[PATH_MAX], path[PATH_MAX + 8];
    int error;

    cpu_file(trace, index, file, sizeof(file));
    error = write_file(file, cpu->trace.data, cpu->trace.len);
    if (!error && options->keep_path) {
        if (options->path_out)
            cpu_file(options->path_out, index, path, sizeof(path));
        else
            snprintf(path, sizeof(path), "%s.path", file);
        error = write_file(path, cpu->path.data, cpu->path.len);
        char *absolute = realpath(path, NULL);
        json_object_object_add(root, "path", json_object_new_string(absolute ? absolute : path));
        free(absolute);
    }
    snprintf(path, sizeof(path), "%s.json", file);
    if (!error && json_object_to_file_ext(path, root, JSON_C_TO_STRING_PRETTY) != 0)
        error = -EIO;
    json_object_put(root);
    return error;
}

int trace_files_write(const char *trace, const struct run_options *options,
                      const struct vpt_caps *caps, const struct run_result *result)
{
    int error = 0;

    for (unsigned i = 0; i < result->cpu_count && !error; i++)
        error = cpu_files_write(trace, options, caps, result, i);
    return error;
}
