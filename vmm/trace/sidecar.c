/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TRACE.json (docs/trace-files.md): read once, and checked where it is read. What is not there is
 * not wrong; what is there and cannot be meant is.
 */
#include "trace/sidecar.h"
#include "common/bytes.h"
#include "common/file.h"
#include "common/json.h"
#include "common/open.h"
#include "trace/code-files.h"
#include "trace/names-log.h"
#include "trace/rtit-trace.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define CR3_MAX        0x000fffffffffffffull
#define JSON_BYTES_MAX (8u << 20) /* far more than any has */

static int wrong(struct sidecar *sidecar, const char *what)
{
    return reason_set(&sidecar->why, -EBADMSG, "%.300s: %s", sidecar->path, what);
}

static int wrong_image(struct sidecar *sidecar, size_t index, const char *what)
{
    return reason_set(&sidecar->why, -EBADMSG, "%.300s: images[%zu]: %s", sidecar->path, index,
                      what);
}

/* ---- Members ---- */

/* A whole number up to max into *value, which stays as it is if there is none (or null). */
static bool take_number(json_object *object, const char *key, uint64_t max, uint64_t *value)
{
    json_object *number;

    if (!json_object_object_get_ex(object, key, &number) || !number)
        return true;
    if (!json_object_is_type(number, json_type_int) || json_object_get_int64(number) < 0 ||
        json_object_get_uint64(number) > max)
        return false;
    *value = json_object_get_uint64(number);
    return true;
}

static bool read_cpu(json_object *root, struct sidecar *sidecar)
{
    uint64_t family = 0, model = 0;
    json_object *cpu;

    sidecar->resync = PTD_RESYNC_PSB;
    if (!json_object_object_get_ex(root, "cpu", &cpu))
        return true;
    if (!json_object_is_type(cpu, json_type_object) ||
        !take_number(cpu, "family", UINT16_MAX, &family) ||
        !take_number(cpu, "model", UINT16_MAX, &model))
        return false;
    sidecar->errata = ptd_errata((unsigned)family, (unsigned)model);
    sidecar->resync = ptd_resync_for((unsigned)family, (unsigned)model);
    return true;
}

/* What it says of deferred TIPs counts more than what is known of the processor. */
static bool read_deferred_tips(json_object *root, struct sidecar *sidecar)
{
    json_object *deferred;

    sidecar->defers_tips = false;
    if (!json_object_object_get_ex(root, "deferred_tips", &deferred) || !deferred)
        return true;
    if (!json_object_is_type(deferred, json_type_boolean))
        return false;
    sidecar->defers_tips = json_object_get_boolean(deferred);
    sidecar->resync = sidecar->defers_tips ? PTD_RESYNC_PSB : PTD_RESYNC_IP;
    return true;
}

static bool read_mode(json_object *root, enum ptd_mode *mode)
{
    uint64_t bits = 64;

    if (!take_number(root, "mode", 64, &bits) || (bits != 16 && bits != 32 && bits != 64))
        return false;
    *mode = bits == 16 ? PTD_MODE_16 : bits == 32 ? PTD_MODE_32 : PTD_MODE_64;
    return true;
}

static bool read_clocks(json_object *root, struct ptd_time_config *clocks)
{
    uint64_t mtc_freq = 0, ratio = 0, tsc_ctc[2] = {0};
    json_object *list;

    if (!take_number(root, "mtc_freq", UINT8_MAX, &mtc_freq) ||
        !take_number(root, "max_nonturbo_ratio", UINT8_MAX, &ratio))
        return false;
    if (json_object_object_get_ex(root, "tsc_ctc", &list)) {
        if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) != 2)
            return false;
        for (size_t i = 0; i < 2; i++) {
            json_object *const number = json_object_array_get_idx(list, i);

            if (!json_object_is_type(number, json_type_int) || json_object_get_int64(number) < 0 ||
                json_object_get_uint64(number) > UINT32_MAX)
                return false;
            tsc_ctc[i] = json_object_get_uint64(number);
        }
    }
    *clocks = (struct ptd_time_config){.tsc_den = (uint32_t)tsc_ctc[0],
                                       .tsc_num = (uint32_t)tsc_ctc[1],
                                       .mtc_freq = (uint8_t)mtc_freq,
                                       .max_nonturbo_ratio = (uint8_t)ratio};
    return ptd_time_check(clocks) == PTD_OK;
}

/* Of a run with several processors, or of a capture by QEMU. */
static bool read_processor(json_object *root, int *processor)
{
    uint64_t number = UINT64_MAX;

    if (!take_number(root, "processor", INT32_MAX, &number) ||
        !take_number(root, "vcpu", INT32_MAX, &number))
        return false;
    *processor = number == UINT64_MAX ? -1 : (int)number;
    return true;
}

static int check_version(struct sidecar *sidecar)
{
    uint64_t version = SIDECAR_VERSION;

    if (!take_number(sidecar->root, "vpt", UINT64_MAX, &version) || version != SIDECAR_VERSION)
        return wrong(sidecar, "not of a version that is known");
    return 0;
}

static int read_members(struct sidecar *sidecar)
{
    json_object *images, *rtit;

    if (!json_object_is_type(sidecar->root, json_type_object))
        return wrong(sidecar, "not an object");
    if (check_version(sidecar) != 0)
        return -EBADMSG;
    if (json_object_object_get_ex(sidecar->root, "images", &images)) {
        if (!json_object_is_type(images, json_type_array))
            return wrong(sidecar, "images: not a list");
        sidecar->images = images;
    }
    if (!read_processor(sidecar->root, &sidecar->processor))
        return wrong(sidecar, "processor, vcpu: not the number of a processor");
    if (!read_cpu(sidecar->root, sidecar))
        return wrong(sidecar, "cpu: not a family and a model");
    if (!read_deferred_tips(sidecar->root, sidecar))
        return wrong(sidecar, "deferred_tips: neither true nor false");
    if (!read_mode(sidecar->root, &sidecar->mode))
        return wrong(sidecar, "mode: not 16, 32 or 64");
    if (!read_clocks(sidecar->root, &sidecar->clocks))
        return wrong(sidecar, "tsc_ctc, mtc_freq, max_nonturbo_ratio: not those of a clock");
    sidecar->clocks.errata = sidecar->errata;
    if (json_object_object_get_ex(sidecar->root, "rtit", &rtit)) {
        sidecar->is_rtit = true;
        if (!rtit_from_json(rtit, &sidecar->rtit))
            return wrong(sidecar, "rtit: malformed");
    }
    return 0;
}

/* ---- The file ---- */

int sidecar_open(struct sidecar *sidecar, const char *trace)
{
    const struct file_name name = {.path = sidecar->path, .by_user = true};
    struct bytes text = {0};
    char why[160];
    int error;

    *sidecar = (struct sidecar){.trace = trace, .mode = PTD_MODE_64, .processor = -1};
    if (strcmp(trace, "-") == 0)
        return 0;
    if (snprintf(sidecar->path, sizeof(sidecar->path), "%s.json", trace) >=
        (int)sizeof(sidecar->path))
        return 0; /* no file can have that name */
    error = read_named(&name, JSON_BYTES_MAX, &text, &sidecar->why);
    if (error == 0) {
        sidecar->is_there = true;
        sidecar->root = json_parse((const char *)text.data, text.len, why, sizeof(why));
        error = sidecar->root ? read_members(sidecar) : wrong(sidecar, why);
    } else if (error == -ENOENT || error == -ENOTDIR) {
        sidecar->why = (struct reason){0};
        error = 0;
    }
    bytes_free(&text);
    return error;
}

void sidecar_close(struct sidecar *sidecar)
{
    json_object_put(sidecar->root);
    sidecar->root = NULL;
}

int sidecar_refuse_rtit(const char *trace, const char *what, struct reason *why)
{
    struct sidecar sidecar;
    int error = sidecar_open(&sidecar, trace);

    if (error)
        *why = sidecar.why;
    else if (sidecar.is_rtit)
        error = reason_set(why, -EBADMSG, "%s: %s", trace, what);
    sidecar_close(&sidecar);
    return error;
}

/* ---- Code ---- */

int sidecar_images(struct sidecar *sidecar)
{
    if (!sidecar->is_there && !sidecar->path[0])
        (void)reason_set(&sidecar->why, -ENOENT, "standard input: nothing names its code");
    else if (!sidecar->is_there)
        (void)wrong(sidecar, strerror(ENOENT));
    else if (!sidecar->images)
        (void)wrong(sidecar, "no list of images");
    else
        return (int)json_object_array_length(sidecar->images);
    return -EBADMSG;
}

int sidecar_image(struct sidecar *sidecar, size_t index, struct sidecar_image *image)
{
    json_object *const entry = json_object_array_get_idx(sidecar->images, index);
    json_object *path, *bias;

    if (!json_object_is_type(entry, json_type_object))
        return wrong_image(sidecar, index, "not an object");
    if (!json_object_object_get_ex(entry, "path", &path) ||
        !json_object_is_type(path, json_type_string))
        return wrong_image(sidecar, index, "an image without a path");
    *image = (struct sidecar_image){.cr3 = PTD_ANY_CR3};
    if (!take_number(entry, "cr3", CR3_MAX, &image->cr3))
        return wrong_image(sidecar, index, "cr3: not a value of CR3");
    if (json_object_object_get_ex(entry, "bias", &bias)) { /* may be negative */
        if (!json_object_is_type(bias, json_type_int))
            return wrong_image(sidecar, index, "bias: not a number");
        image->bias = json_object_get_int64(bias) < 0 ? (uint64_t)json_object_get_int64(bias)
                                                      : json_object_get_uint64(bias);
    }
    beside(sidecar->trace, json_object_get_string(path), image->path, sizeof(image->path));
    return 0;
}

/*
 * The content of a file beside the trace that a member names, to be freed; path is its name, or ""
 * if there is no such member. 0 or -errno.
 */
static int read_beside(struct sidecar *sidecar, struct code_files *files, const char *member,
                       char path[PATH_MAX], struct bytes *content)
{
    const struct file_name name = {.path = path};
    json_object *value;

    path[0] = 0;
    if (!sidecar->is_there || !json_object_object_get_ex(sidecar->root, member, &value))
        return 0;
    if (!json_object_is_type(value, json_type_string))
        return reason_set(&sidecar->why, -EBADMSG, "%.300s: %s: not the name of a file",
                          sidecar->path, member);
    beside(sidecar->trace, json_object_get_string(value), path, PATH_MAX);
    return code_files_read(files, &name, content, &sidecar->why);
}

int sidecar_read_code_log(struct sidecar *sidecar, struct code_files *files, struct bytes *log)
{
    char path[PATH_MAX];

    return read_beside(sidecar, files, "code", path, log);
}

int sidecar_add_code_log(struct sidecar *sidecar, struct code_files *files, struct ptd_image *image)
{
    struct bytes log = {0};
    char path[PATH_MAX];
    const struct file_name name = {.path = path};
    int error = read_beside(sidecar, files, "code", path, &log), status;

    if (error || !path[0])
        return error;
    status = ptd_image_add_code_log(image, log.data, log.len);
    bytes_free(&log);
    if (status == PTD_OK)
        return 0;
    return blame_file(&sidecar->why, &name, ptd_strerror(status),
                      status == PTD_E_NOMEM ? -ENOMEM : -EBADMSG);
}

int sidecar_read_names(struct sidecar *sidecar, struct code_files *files, struct names_log **log)
{
    struct bytes text = {0};
    char path[PATH_MAX];
    int error = read_beside(sidecar, files, "names", path, &text);

    *log = NULL;
    if (!error && path[0])
        error = text.len > NAMES_LOG_BYTES_MAX
                    ? reason_set(&sidecar->why, -EFBIG, "%.300s: too long", path)
                    : names_log_parse(path, text.data ? (const char *)text.data : "", text.len, log,
                                      &sidecar->why);
    bytes_free(&text);
    return error;
}

const char *sidecar_code_log(const struct sidecar *sidecar)
{
    json_object *value;

    if (!sidecar->is_there || !json_object_object_get_ex(sidecar->root, "code", &value) ||
        !json_object_is_type(value, json_type_string))
        return NULL;
    return json_object_get_string(value);
}

bool sidecar_map(const char *trace, char path[PATH_MAX])
{
    struct sidecar sidecar;
    json_object *value;
    const char *name = NULL;

    if (sidecar_open(&sidecar, trace) == 0 && sidecar.is_there &&
        json_object_object_get_ex(sidecar.root, "map", &value) &&
        json_object_is_type(value, json_type_string))
        name = json_object_get_string(value);
    if (name && strchr(name, '/')) /* a file elsewhere is none of the trace's */
        name = NULL;
    if (name)
        beside(trace, name, path, PATH_MAX);
    sidecar_close(&sidecar);
    return name != NULL;
}

int sidecar_add_images(struct sidecar *sidecar, struct code_files *files, struct ptd_image *image)
{
    const int count = sidecar_images(sidecar);
    struct sidecar_image entry = {.path = ""};
    const struct file_name name = {.path = entry.path};
    int error = count < 0 ? count : 0;

    for (size_t i = 0; !error && i < (size_t)count; i++) {
        error = sidecar_image(sidecar, i, &entry);
        if (!error)
            error = code_files_add_elf(files, &name, entry.bias, entry.cr3, image, &sidecar->why);
    }
    return error ? error : sidecar_add_code_log(sidecar, files, image);
}
