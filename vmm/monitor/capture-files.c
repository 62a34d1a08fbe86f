/* SPDX-License-Identifier: BSD-3-Clause */
#include "monitor/capture-files.h"
#include "common/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CODE_HEAD_BYTES 8

static int no_memory(struct reason *why)
{
    return reason_set(why, -ENOMEM, "no memory");
}

static int monitor_failed(const struct monitor *monitor, struct reason *why)
{
    return reason_set(why, -EREMOTEIO, "%s", monitor->why);
}

/* Takes the name, which may be NULL: there was no memory. */
static int add(struct capture_files *files, char *name, bool optional, struct reason *why)
{
    struct capture_file *const list =
        name ? realloc(files->list, (files->count + 1) * sizeof(*list)) : NULL;
    int error;

    if (!list) {
        free(name);
        return no_memory(why);
    }
    files->list = list;
    list[files->count] = (struct capture_file){.optional = optional, .fdset = -1};
    error = output_open(&list[files->count].output, name, why);
    files->count++;
    free(name);
    return error;
}

static int add_all(struct capture_files *files, const char *file, int64_t vcpu,
                   struct capture_kinds kinds, struct reason *why)
{
    const struct {
        const char *suffix;
        bool wanted, optional;
    } all[] = {{"", true, false},
               {".json", true, false},
               {".map", true, true},
               {".code", kinds.code, false},
               {".names", kinds.names, false}};
    int error = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !error; i++) {
        char *name = NULL;

        if (!all[i].wanted)
            continue;
        if (asprintf(&name, "%s.%" PRId64 "%s", file, vcpu, all[i].suffix) < 0)
            name = NULL;
        error = add(files, name, all[i].optional, why);
    }
    return error;
}

int capture_files_open(struct capture_files *files, struct monitor *monitor, const char *file,
                       struct capture_kinds kinds, struct reason *why)
{
    json_object *const vcpus = monitor_execute(monitor, "query-cpus-fast", NULL);
    int error = 0;

    *files = (struct capture_files){0};
    if (!vcpus)
        return monitor_failed(monitor, why);
    if (!json_object_is_type(vcpus, json_type_array))
        error = reason_set(why, -EREMOTEIO, "QEMU's list of vCPUs is none");
    for (size_t i = 0; !error && i < json_object_array_length(vcpus); i++)
        error = add_all(files, file, json_number(json_object_array_get_idx(vcpus, i), "cpu-index"),
                        kinds, why);
    json_object_put(vcpus);
    if (error)
        capture_files_close(files, monitor, CAPTURE_REFUSED);
    return error;
}

static int hand_over(struct capture_file *file, struct monitor *monitor, json_object *list,
                     struct reason *why)
{
    json_object *const set = monitor_execute_with(monitor, "add-fd", NULL, file->output.fd);
    json_object *const one = json_object_new_object();

    if (!set || !one) {
        json_object_put(set);
        json_object_put(one);
        return set ? no_memory(why) : monitor_failed(monitor, why);
    }
    file->fdset = json_number(set, "fdset-id");
    json_object_put(set);
    json_object_object_add(one, "name", json_object_new_string(file->output.path));
    json_object_object_add(one, "fdset", json_object_new_int64(file->fdset));
    json_object_array_add(list, one);
    return 0;
}

int capture_files_hand_over(struct capture_files *files, struct monitor *monitor,
                            json_object *arguments, struct reason *why)
{
    json_object *const list = json_object_new_array();
    int error = 0;

    for (size_t i = 0; i < files->count && !error; i++)
        error = hand_over(&files->list[i], monitor, list, why);
    json_object_object_add(arguments, "files", list);
    return error;
}

static bool is_empty(const char *name)
{
    struct stat status;

    return lstat(name, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0;
}

void capture_files_close(struct capture_files *files, struct monitor *monitor,
                         enum capture_files_end end)
{
    for (size_t i = 0; i < files->count; i++) {
        struct capture_file *const file = &files->list[i];

        if (file->fdset >= 0 && !monitor->gone) {
            json_object *const arguments = json_object_new_object();

            json_object_object_add(arguments, "fdset-id", json_object_new_int64(file->fdset));
            json_object_put(monitor_execute(monitor, "remove-fd", arguments));
        }
        if (end == CAPTURE_REFUSED ||
            (end == CAPTURE_WRITTEN && file->optional && is_empty(file->output.path)))
            output_drop(&file->output);
        else
            output_keep(&file->output);
    }
    free(files->list);
    *files = (struct capture_files){0};
}

void capture_remove_empty_map(const char *trace)
{
    char *name = NULL;

    if (asprintf(&name, "%s.map", trace) < 0)
        return;
    if (is_empty(name))
        (void)unlink(name);
    free(name);
}

/* How many bytes of a code log (docs/trace-files.md) are whole records. */
static off_t whole_bytes(FILE *log, off_t len_bytes)
{
    uint64_t record[4]; /* offset, space, address, value */
    off_t at = CODE_HEAD_BYTES;

    while (fseeko(log, at, SEEK_SET) == 0 && fread(record, sizeof(record), 1, log) == 1) {
        const uint64_t more = record[1] == UINT64_MAX ? (record[3] + 7) & ~UINT64_C(7) : 0;

        if (more > (uint64_t)(len_bytes - at) - sizeof(record))
            break;
        at += (off_t)(sizeof(record) + more);
    }
    return at;
}

void capture_cut_code(const char *trace)
{
    char *name = NULL;
    struct stat status;
    FILE *log;
    int fd;

    if (asprintf(&name, "%s.code", trace) < 0)
        return;
    fd = open(name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    free(name);
    if (fd < 0)
        return;
    log = fdopen(fd, "rb");
    if (log && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size > CODE_HEAD_BYTES) {
        const off_t whole = whole_bytes(log, status.st_size);

        if (whole < status.st_size && ftruncate(fd, whole) != 0)
            errno = 0; /* a decoder will say what is wrong with it */
    }
    if (log)
        (void)fclose(log);
    else
        (void)close(fd);
}
