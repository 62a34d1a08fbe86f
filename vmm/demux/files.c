/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of virtual processors, see files.h. */
#include "demux/files.h"
#include "common/json.h"
#include "trace/sidecar.h"

#include <errno.h>
#include <json-c/json.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEEDS_TIME (VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN)

static unsigned next_index(const struct demux_files *files, unsigned vm)
{
    unsigned index = 0;

    for (size_t i = 0; i < files->count; i++)
        index += files->all[i]->vm == vm;
    return index;
}

/* The names and outputs of it, with the code log's first bytes. 0 or -errno. */
static int open_outputs(struct demux_files *files, struct demux_file *file)
{
    struct reason *const why = &files->why;
    char *code_path = NULL;
    int error;

    if (asprintf(&file->path, "%s/%u.%u", files->out, file->vm, file->index) < 0) {
        file->path = NULL;
        return reason_no_memory(why);
    }
    error = output_open(&file->trace, file->path, why);
    if (!error && !file->trace.is_file)
        error = reason_set(why, -EINVAL, "%s: no regular file", file->path);
    if (!error && asprintf(&code_path, "%s.code", file->path) < 0)
        return reason_no_memory(why);
    if (!error)
        error = output_open(&file->code, code_path, why);
    free(code_path);
    return error;
}

/* The guest's clocks. Without them nothing tells the time. */
static int set_clocks(struct demux_files *files, const struct ptd_time_vm *time,
                      struct tenant_config *config)
{
    struct vpt_caps scaled;

    if (!time)
        config->ctl &= ~NEEDS_TIME;
    if (!time || time->multiplier == 0)
        return 0;
    if (!vpt_scale_caps(&config->caps, time->multiplier, &scaled))
        return reason_set(&files->why, -EINVAL, "a VM's TSC has a rate that no processor has");
    config->caps = scaled;
    return 0;
}

static int open_tenant(struct demux_files *files, const struct ptd_time_vm *time,
                       struct demux_file *file)
{
    struct tenant_config config = files->config;
    int error = set_clocks(files, time, &config);
    struct code_out *code;

    if (error)
        return error;
    code = code_out_new(&file->code);
    if (!code)
        return reason_no_memory(&files->why);
    file->tenant.code = code;
    error = code_out_begin(code, &files->why);
    if (!error && !tenant_open(&file->tenant, &config, &file->trace, code, &files->why))
        error = reason_set(&files->why, -EINVAL,
                           "the processor '%s' has not what RTIT_CTL %#llx asks for",
                           files->profile, (unsigned long long)config.ctl);
    return error;
}

int demux_files_add(struct demux_files *files, unsigned vm, unsigned index,
                    const struct ptd_time_vm *time, struct tenant **tenant)
{
    struct demux_file *file;
    int error;

    if (files->count == DEMUX_TENANTS_MAX)
        return reason_set(&files->why, -E2BIG, "more than %u virtual processors",
                          DEMUX_TENANTS_MAX);
    file = calloc(1, sizeof(*file));
    if (!file)
        return reason_no_memory(&files->why);
    file->vm = vm;
    file->index = index;
    files->all[files->count++] = file;
    error = open_outputs(files, file);
    if (!error)
        error = open_tenant(files, time, file);
    if (!error)
        *tenant = &file->tenant;
    return error;
}

/* Of a guest without offset and multiplier, the TSC would be the host's, or is not known. */
static const struct ptd_time_vm *time_of(const struct demux_files *files, uint64_t vmcs)
{
    for (size_t i = 0; i < files->time_count; i++) {
        const struct ptd_time_vm *const time = &files->times[i];

        if (time->vmcs == vmcs)
            return time->offset || time->multiplier ? time : NULL;
    }
    return NULL;
}

int demux_files_found(void *owner, unsigned vm, uint64_t vmcs, const struct ptd_time_vm **time,
                      struct tenant **tenant)
{
    struct demux_files *const files = owner;

    if (files->vm && files->vm != vm)
        return 0;
    *time = time_of(files, vmcs);
    return demux_files_add(files, vm, next_index(files, vm), *time, tenant);
}

/* ---- TRACE.json ---- */

static json_object *describe(const struct demux_files *files, const struct demux_file *file)
{
    const struct vpt_caps *const caps = &file->tenant.cpu.caps;
    const struct sidecar_facts facts = {
        .profile = files->profile,
        .processor = (int)file->index,
        .family = caps->choices.family,
        .model = caps->choices.model,
        .stepping = caps->choices.stepping,
        .clocks = {.tsc_den = caps->tsc_den,
                   .tsc_num = caps->tsc_num,
                   .mtc_freq = (uint8_t)(file->tenant.ctl >> VPT_CTL_MTCFREQ_SHR & 15),
                   .max_nonturbo_ratio = caps->max_nonturbo_ratio},
        .deferred_tips = caps->deferred_tips,
    };
    json_object *const root = sidecar_new(&facts);
    char *const path = strdup(file->code.path);
    const bool ok = path && json_add(root, "code", json_object_new_string(basename(path)));

    free(path);
    if (ok)
        return root;
    json_object_put(root);
    return NULL;
}

/* A file of this text. 0, or -errno and why. */
static int write_text(const char *path, const char *text, struct reason *why)
{
    struct output output = {0};
    int error = output_open(&output, path, why);

    if (!error)
        error = output_write(&output, text, strlen(text), why);
    if (!error)
        error = output_write(&output, "\n", 1, why);
    if (!error)
        error = output_close(&output, why);
    output_drop(&output);
    return error;
}

static int write_sidecar(struct demux_files *files, const struct demux_file *file)
{
    json_object *const root = describe(files, file);
    char *const text = root ? json_text(root, JSON_C_TO_STRING_PRETTY) : NULL;
    char *path = NULL;
    int error;

    if (!text || asprintf(&path, "%s.json", file->path) < 0)
        error = reason_no_memory(&files->why);
    else
        error = write_text(path, text, &files->why);
    free(path);
    free(text);
    json_object_put(root);
    return error;
}

int demux_files_write(struct demux_files *files)
{
    int error = 0;

    for (size_t i = 0; !error && i < files->count; i++)
        error = tenant_close(&files->all[i]->tenant);
    for (size_t i = 0; !error && i < files->count; i++) {
        struct demux_file *const file = files->all[i];

        error = write_sidecar(files, file);
        if (!error)
            error = output_close(&file->code, &files->why);
        if (!error)
            error = output_close(&file->trace, &files->why);
    }
    return error;
}

void demux_files_free(struct demux_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        struct demux_file *const file = files->all[i];

        output_drop(&file->trace);
        output_drop(&file->code);
        code_out_free(file->tenant.code);
        free(file->path);
        free(file);
    }
    files->count = 0;
}
