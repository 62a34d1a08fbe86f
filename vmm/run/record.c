/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The result of a run as an archive: how it leaves the lab.
 */
#include "run/record.h"
#include "common/bytes.h"
#include "common/file.h"
#include "common/json.h"
#include "common/cpio.h"
#include "run/run.h"
#include "trace/rtit-trace.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMBER_MODE (S_IFREG | 0644)

/* The numbers of a processor's result, by name. */
struct number {
    const char *name;
    size_t offset;
};
#define NUMBER(field)                                                                              \
    {                                                                                              \
#field, offsetof(struct cpu_result, field)                                                 \
    }
static const struct number numbers[] = {
    NUMBER(packets),       NUMBER(interrupts),    NUMBER(exceptions), NUMBER(pmis),
    NUMBER(dropped_bytes), NUMBER(output_faults), NUMBER(family),     NUMBER(model),
    NUMBER(stepping),      NUMBER(deferred_tips),
};

static json_object *cpu_to_json(const struct cpu_result *cpu)
{
    json_object *entry = json_object_new_object();

    json_object_object_add(entry, "mtc_freq", json_object_new_int64(cpu->mtc_freq));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint64_t value;

        memcpy(&value, (const uint8_t *)cpu + numbers[i].offset, sizeof(value));
        json_object_object_add(entry, numbers[i].name, json_object_new_int64((int64_t)value));
    }
    if (cpu->is_rtit)
        json_object_object_add(entry, "rtit", rtit_to_json(&cpu->rtit));
    return entry;
}

static json_object *to_json(const struct run_result *result)
{
    json_object *root = json_object_new_object();
    json_object *processes = json_object_new_array();
    json_object *cpus = json_object_new_array();

    json_object_object_add(root, "end", json_object_new_int(result->end));
    json_object_object_add(root, "why", json_object_new_string(result->why));
    json_object_object_add(root, "guest_status", json_object_new_int64(result->guest_status));
    json_object_object_add(root, "saved", json_object_new_boolean(result->saved));
    json_object_object_add(root, "steps", json_object_new_int64((int64_t)result->steps));
    for (unsigned i = 0; i < result->cpu_count; i++)
        json_object_array_add(cpus, cpu_to_json(&result->cpus[i]));
    json_object_object_add(root, "cpus", cpus);
    for (unsigned i = 0; i < result->process_count; i++) {
        const struct process *process = &result->processes[i];
        json_object *entry = json_object_new_object();

        json_object_object_add(entry, "cr3", json_object_new_int64((int64_t)process->cr3));
        json_object_object_add(entry, "name", json_object_new_string(process->name));
        json_object_object_add(entry, "image", json_object_new_string(process->image));
        json_object_array_add(processes, entry);
    }
    json_object_object_add(root, "processes", processes);
    return root;
}

/* The bytes of a processor's result: members NAME.N of the archive. */
static const struct {
    const char *name;
    size_t offset;
} streams[] = {
    {"trace", offsetof(struct cpu_result, trace)},
    {"handed", offsetof(struct cpu_result, handed)},
    {"path", offsetof(struct cpu_result, path)},
};
#define STREAMS (sizeof(streams) / sizeof(streams[0]))

static bool add_streams(struct bytes *archive, const struct cpu_result *cpu, unsigned index)
{
    for (size_t i = 0; i < STREAMS; i++) {
        const struct bytes *stream =
            (const struct bytes *)(const void *)((const uint8_t *)cpu + streams[i].offset);
        char name[32];

        snprintf(name, sizeof(name), "%s.%u", streams[i].name, index);
        if (!cpio_add(archive, name, MEMBER_MODE, stream->data, stream->len))
            return false;
    }
    return true;
}

bool record_add(struct bytes *archive, const struct run_result *result)
{
    json_object *root = to_json(result);
    const char *text = json_object_to_json_string(root);
    bool ok = cpio_add(archive, "result.json", MEMBER_MODE, text, strlen(text));

    for (unsigned i = 0; i < result->cpu_count; i++)
        ok = ok && add_streams(archive, &result->cpus[i], i);
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

static void string_of(json_object *object, const char *key, char *text, size_t text_bytes)
{
    json_object *value;

    if (json_object_object_get_ex(object, key, &value) && value)
        snprintf(text, text_bytes, "%s", json_object_get_string(value));
}

/* False: malformed. */
static bool cpus_from_json(json_object *root, struct run_result *result)
{
    json_object *cpus, *rtit;
    size_t count;

    if (!json_object_object_get_ex(root, "cpus", &cpus) ||
        !json_object_is_type(cpus, json_type_array))
        return true;
    count = json_object_array_length(cpus);
    result->cpu_count = (unsigned)(count < MAX_CPUS ? count : MAX_CPUS);
    for (unsigned i = 0; i < result->cpu_count; i++) {
        json_object *entry = json_object_array_get_idx(cpus, i);
        struct cpu_result *cpu = &result->cpus[i];

        cpu->mtc_freq = (unsigned)json_number(entry, "mtc_freq");
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
            const uint64_t value = (uint64_t)json_number(entry, numbers[k].name);

            memcpy((uint8_t *)cpu + numbers[k].offset, &value, sizeof(value));
        }
        cpu->is_rtit = json_object_object_get_ex(entry, "rtit", &rtit);
        if (cpu->is_rtit && !rtit_from_json(rtit, &cpu->rtit))
            return false;
    }
    return true;
}

static int from_json(const uint8_t *data, size_t len, struct run_result *result)
{
    json_tokener *tokener = json_tokener_new();
    json_object *root = json_tokener_parse_ex(tokener, (const char *)data, (int)len);
    json_object *processes;

    json_tokener_free(tokener);
    if (!json_object_is_type(root, json_type_object)) {
        json_object_put(root);
        return -EBADMSG;
    }
    result->end = (enum run_end)json_number(root, "end");
    string_of(root, "why", result->why, sizeof(result->why));
    result->guest_status = (uint32_t)json_number(root, "guest_status");
    result->saved = json_number(root, "saved") != 0;
    result->steps = (uint64_t)json_number(root, "steps");
    if (!cpus_from_json(root, result)) {
        json_object_put(root);
        return -EBADMSG;
    }
    if (json_object_object_get_ex(root, "processes", &processes) &&
        json_object_is_type(processes, json_type_array)) {
        const size_t count = json_object_array_length(processes);

        for (size_t i = 0; i < count && result->process_count < MAX_PROCESSES; i++) {
            struct process *process = &result->processes[result->process_count++];
            json_object *entry = json_object_array_get_idx(processes, i);

            process->cr3 = (uint64_t)json_number(entry, "cr3");
            string_of(entry, "name", process->name, sizeof(process->name));
            string_of(entry, "image", process->image, sizeof(process->image));
        }
    }
    json_object_put(root);
    return 0;
}

/* The stream that a member's name means; NULL: none. */
static struct bytes *stream_of(struct run_result *result, const char *name)
{
    char candidate[32];

    for (unsigned i = 0; i < MAX_CPUS; i++) {
        for (size_t k = 0; k < STREAMS; k++) {
            snprintf(candidate, sizeof(candidate), "%s.%u", streams[k].name, i);
            if (strcmp(name, candidate) == 0)
                return (struct bytes *)(void *)((uint8_t *)&result->cpus[i] + streams[k].offset);
        }
    }
    return NULL;
}

int record_member(struct run_result *result, const char *name, const uint8_t *data, size_t len)
{
    struct bytes *stream = stream_of(result, name);
    int error;

    if (stream)
        return bytes_add(stream, data, len) ? 0 : -ENOMEM;
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
