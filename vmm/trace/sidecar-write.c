/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TRACE.json as the program writes it (docs/trace-files.md); sidecar.c reads it. What QEMU writes
 * of a capture has the same members.
 */
#include "trace/sidecar.h"
#include "common/json.h"
#include "common/output.h"
#include "trace/rtit-trace.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_int(json_object *object, const char *key, int64_t value)
{
    (void)json_add(object, key, json_object_new_int64(value));
}

static json_object *kind(const struct sidecar_facts *facts)
{
    json_object *const cpu = json_object_new_object();

    add_int(cpu, "family", facts->family);
    add_int(cpu, "model", facts->model);
    add_int(cpu, "stepping", facts->stepping);
    return cpu;
}

static json_object *ratio(const struct ptd_time_config *clocks)
{
    json_object *const list = json_object_new_array();

    if (!list)
        return NULL;
    json_object_array_add(list, json_object_new_int64(clocks->tsc_den));
    json_object_array_add(list, json_object_new_int64(clocks->tsc_num));
    return list;
}

json_object *sidecar_new(const struct sidecar_facts *facts)
{
    json_object *const root = json_object_new_object();

    add_int(root, "vpt", SIDECAR_VERSION);
    (void)json_add(root, "profile", json_object_new_string(facts->profile));
    (void)json_add(root, "cpu", kind(facts));
    if (facts->processor >= 0)
        add_int(root, "processor", facts->processor);
    add_int(root, "mode", 64);
    (void)json_add(root, "tsc_ctc", ratio(&facts->clocks));
    add_int(root, "mtc_freq", facts->clocks.mtc_freq);
    add_int(root, "max_nonturbo_ratio", facts->clocks.max_nonturbo_ratio);
    if (!facts->rtit)
        (void)json_add(root, "deferred_tips", json_object_new_boolean(facts->deferred_tips));
    if (facts->rtit)
        (void)json_add(root, "rtit", rtit_to_json(facts->rtit));
    (void)json_add(root, "images", json_object_new_array());
    return root;
}

int sidecar_put_path(json_object *object, const char *path)
{
    char *const absolute = realpath(path, NULL);
    bool ok;

    if (!absolute && errno == ENOMEM)
        return -ENOMEM;
    ok = json_add(object, "path", json_object_new_string(absolute ? absolute : path));
    free(absolute);
    return ok ? 0 : -ENOMEM;
}

int sidecar_put_image(json_object *root, const char *path, const char *name, const uint64_t *cr3)
{
    json_object *const image = json_object_new_object();
    json_object *images;
    int error = sidecar_put_path(image, path);

    add_int(image, "bias", 0);
    if (!error)
        json_object_object_add(image, "cr3", cr3 ? json_object_new_int64((int64_t)*cr3) : NULL);
    (void)json_add(image, "name", json_object_new_string(name));
    if (!error && (!json_object_object_get_ex(root, "images", &images) ||
                   json_object_array_add(images, image) != 0))
        error = -ENOMEM;
    if (error)
        json_object_put(image);
    return error;
}

static int write_again(const struct sidecar *sidecar, struct reason *why)
{
    char *const text = json_text(sidecar->root, JSON_C_TO_STRING_PRETTY);
    struct output output = {0};
    int error;

    if (!text)
        return reason_no_memory(why);
    error = output_open_beside(&output, sidecar->path, why);
    if (!error)
        error = output_write(&output, text, strlen(text), why);
    if (!error)
        error = output_write(&output, "\n", 1, why);
    if (!error)
        error = output_close(&output, why);
    output_drop(&output);
    free(text);
    return error;
}

int sidecar_name_map(const char *trace, const char *map, struct reason *why)
{
    struct sidecar sidecar;
    int error = sidecar_open(&sidecar, trace);

    if (error)
        *why = sidecar.why;
    else if (!sidecar.is_there)
        error = reason_of_file(why, -ENOENT, sidecar.path);
    else if (!json_add(sidecar.root, "map", json_object_new_string(map)))
        error = reason_no_memory(why);
    if (!error)
        error = write_again(&sidecar, why);
    sidecar_close(&sidecar);
    return error;
}

int sidecar_drop_names(const char *trace, struct reason *why)
{
    struct sidecar sidecar;
    char path[PATH_MAX];
    int error = sidecar_open(&sidecar, trace);

    if (error) {
        *why = sidecar.why;
    } else if (sidecar.is_there && json_object_object_get_ex(sidecar.root, "names", NULL)) {
        json_object_object_del(sidecar.root, "names");
        error = write_again(&sidecar, why);
        if (!error && snprintf(path, sizeof(path), "%s.names", trace) < (int)sizeof(path))
            (void)unlink(path);
    }
    sidecar_close(&sidecar);
    return error;
}
