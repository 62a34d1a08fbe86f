/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The result of a run as an archive: how it leaves the lab.
 */
#include "../vmm.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMBER_MODE (S_IFREG | 0644)

/* The numbers of a result, by name. */
struct number {
    const char *name;
    size_t offset;
};
#define NUMBER(field)                                                                              \
    {                                                                                              \
#field, offsetof(struct run_result, field)                                                 \
    }
static const struct number numbers[] = {
    NUMBER(packets), NUMBER(interrupts), NUMBER(exceptions),
    NUMBER(steps),   NUMBER(pmis),       NUMBER(dropped_bytes),
};

static json_object *to_json(const struct run_result *result)
{
    json_object *root = json_object_new_object();
    json_object *processes = json_object_new_array();

    json_object_object_add(root, "code", json_object_new_int(result->code));
    json_object_object_add(root, "why", json_object_new_string(result->why));
    json_object_object_add(root, "guest_status", json_object_new_int64(result->guest_status));
    json_object_object_add(root, "mtc_freq", json_object_new_int64(result->mtc_freq));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint64_t value;

        memcpy(&value, (const uint8_t *)result + numbers[i].offset, sizeof(value));
        json_object_object_add(root, numbers[i].name, json_object_new_int64((int64_t)value));
    }
    for (unsigned i = 0; i < result->process_count; i++) {
        const struct process *process = &result->processes[i];
        json_object *entry = json_object_new_object();

        json_object_object_add(entry, "cr3", json_object_new_int64((int64_t)process->cr3));
        json_object_object_add(entry, "name", json_object_new_string(process->name));
        json_object_object_add(entry, "image", json_object_new_string(process->image));
        json_object_array_add(processes, entry);
    }
    json_object_object_add(root, "processes", processes);
    if (result->is_rtit)
        json_object_object_add(root, "rtit", rtit_to_json(&result->rtit));
    return root;
}

bool record_add(struct bytes *archive, const struct run_result *result)
{
    json_object *root = to_json(result);
    const char *text = json_object_to_json_string(root);
    const bool ok =
        cpio_add(archive, "result.json", MEMBER_MODE, text, strlen(text)) &&
        cpio_add(archive, "trace", MEMBER_MODE, result->trace.data, result->trace.len) &&
        cpio_add(archive, "handed", MEMBER_MODE, result->handed.data, result->handed.len) &&
        cpio_add(archive, "path", MEMBER_MODE, result->path.data, result->path.len);

    json_object_put(root);
    return ok;
}

int record_write(const char *path, const struct run_result *result)
{
    struct bytes archive = {0};
    int error = -ENOMEM;

    if (record_add(&archive, result) && cpio_end(&archive))
        error = write_file(path, archive.data, archive.len);
    bytes_free(&archive);
    return error;
}

static int64_t int_of(json_object *object, const char *key)
{
    json_object *value;

    return json_object_object_get_ex(object, key, &value) ? json_object_get_int64(value) : 0;
}

static void string_of(json_object *object, const char *key, char *text, size_t text_bytes)
{
    json_object *value;

    if (json_object_object_get_ex(object, key, &value) && value)
        snprintf(text, text_bytes, "%s", json_object_get_string(value));
}

static int from_json(const uint8_t *data, size_t len, struct run_result *result)
{
    json_tokener *tokener = json_tokener_new();
    json_object *root = json_tokener_parse_ex(tokener, (const char *)data, (int)len);
    json_object *processes, *rtit;

    json_tokener_free(tokener);
    if (!json_object_is_type(root, json_type_object)) {
        json_object_put(root);
        return -EBADMSG;
    }
    result->code = (enum exit_code)int_of(root, "code");
    string_of(root, "why", result->why, sizeof(result->why));
    result->guest_status = (uint32_t)int_of(root, "guest_status");
    result->mtc_freq = (unsigned)int_of(root, "mtc_freq");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const uint64_t value = (uint64_t)int_of(root, numbers[i].name);

        memcpy((uint8_t *)result + numbers[i].offset, &value, sizeof(value));
    }
    if (json_object_object_get_ex(root, "processes", &processes) &&
        json_object_is_type(processes, json_type_array)) {
        const size_t count = json_object_array_length(processes);

        for (size_t i = 0; i < count && result->process_count < MAX_PROCESSES; i++) {
            struct process *process = &result->processes[result->process_count++];
            json_object *entry = json_object_array_get_idx(processes, i);

            process->cr3 = (uint64_t)int_of(entry, "cr3");
            string_of(entry, "name", process->name, sizeof(process->name));
            string_of(entry, "image", process->image, sizeof(process->image));
        }
    }
    result->is_rtit = json_object_object_get_ex(root, "rtit", &rtit);
    if (result->is_rtit && !rtit_from_json(rtit, &result->rtit)) {
        json_object_put(root);
        return -EBADMSG;
    }
    json_object_put(root);
    return 0;
}

static int add(struct bytes *bytes, const uint8_t *data, size_t len)
{
    return bytes_add(bytes, data, len) ? 0 : -ENOMEM;
}

int record_member(struct run_result *result, const char *name, const uint8_t *data, size_t len)
{
    int error;

    if (strcmp(name, "trace") == 0)
        return add(&result->trace, data, len);
    if (strcmp(name, "handed") == 0)
        return add(&result->handed, data, len);
    if (strcmp(name, "path") == 0)
        return add(&result->path, data, len);
    if (strcmp(name, "result.json") != 0)
        return 0;
    error = from_json(data, len, result);
    return error ? error : 1;
}

int record_read(int fd, struct run_result *result)
{
    struct bytes archive = {0};
    const char *name;
    const uint8_t *data;
    size_t len, pos = 0;
    struct stat stat;
    int error = 0, more = 0;
    bool complete = false;

    if (fstat(fd, &stat) < 0)
        return -errno;
    archive.len = (size_t)stat.st_size;
    archive.data = mmap(NULL, archive.len, PROT_READ, MAP_SHARED, fd, 0);
    if (archive.data == MAP_FAILED)
        return -errno;
    while (!error && (more = cpio_next(&archive, &pos, &name, &data, &len)) > 0) {
        error = record_member(result, name, data, len);
        complete |= error == 1;
        error = error < 0 ? error : 0;
    }
    munmap(archive.data, archive.len);
    if (!error && !more && !complete)
        return -EBADMSG; /* whoever wrote it did not get far */
    return error ? error : more;
}
