/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.data in the program: what is said about a file as a whole, and the code of a process from
 * the files that it mapped.
 */
#include "trace/perf-data.h"
#include "common/bytes.h"
#include "common/open.h"
#include "trace/code-files.h"
#include "trace/jitdump.h"
#include "trace/perf-map.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES     4096u
#define EXCLUDE_KERNEL (1u << 5) /* of an attr's flags */

struct loader {
    const struct code_options *options;
    struct ptd_image *image;
    uint64_t cr3;
    struct reason *why;
    const struct code_file *last; /* is added once, whatever the number of its maps in a row */
    uint64_t last_bias;
};

/* ---- The file as a whole ---- */

static void warn_lost(const char *path, const struct ptd_perf_session *session, remark_fn tell)
{
    if (session->truncated)
        remark(tell, "%s: packets were lost %" PRIu64 " times: the buffer was full", path,
               session->truncated);
    if (session->partial || session->collisions)
        remark(tell, "%s: %" PRIu64 " parts have gaps: something else used Intel PT", path,
               session->partial + session->collisions);
    if (session->lost_count)
        remark(tell, "%s: %" PRIu64 " records were lost", path, session->lost_count);
    if (session->error)
        remark(tell, "%s: at %#" PRIx64 ": %s; what stands before is used", path,
               session->fault.offset, session->fault.text);
}

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

void perf_data_place_free(struct perf_data_place *place)
{
    free(place->file);
    free(place->kcore);
    free(place->files);
    free(place->map);
    *place = (struct perf_data_place){0};
}

/* Of what is there, its path; else NULL. False: no memory. */
static bool find(const char *folder, const char *name, char **path)
{
    *path = NULL;
    return !exists(folder, name) || asprintf(path, "%s/%s", folder, name) >= 0;
}

/* A folder of perf record. */
static int locate_folder(const char *path, struct perf_data_place *place, struct reason *why)
{
    if (exists(path, "data.0"))
        return reason_set(why, -EISDIR,
                          "%s: recorded by several threads (--threads), which is not read", path);
    if (!exists(path, "data"))
        return reason_set(why, -EISDIR, "%s: a folder, but not one of perf record or vpt record",
                          path);
    return find(path, "kcore_dir", &place->kcore) && find(path, "data", &place->file)
               ? 0
               : reason_no_memory(why);
}

static bool is_folder(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* One of vpt record, with perf's in it; or one of perf. */
static int locate(const char *path, struct perf_data_place *place, struct reason *why)
{
    char inside[PATH_MAX];

    if (is_folder(path) && exists(path, "perf.data") &&
        snprintf(inside, sizeof(inside), "%s/perf.data", path) < (int)sizeof(inside)) {
        if (!find(path, "files", &place->files) || !find(path, "map", &place->map))
            return reason_no_memory(why);
        path = inside;
    }
    if (is_folder(path))
        return locate_folder(path, place, why);
    place->file = strdup(path);
    return place->file ? 0 : reason_no_memory(why);
}

int perf_data_locate(const char *path, struct perf_data_place *place, struct reason *why)
{
    int error;

    *place = (struct perf_data_place){0};
    error = locate(path, place, why);
    if (error)
        perf_data_place_free(place);
    return error;
}

/* The reason is at a place in the file. */
static int fault_at(struct reason *why, const char *path, const struct ptd_perf_fault *fault)
{
    return reason_set(why, -EBADMSG, "%s: at %#" PRIx64 ": %s", path, fault->offset, fault->text);
}

static int check_session(const char *path, const struct ptd_perf_session *session,
                         struct reason *why)
{
    char names[512];

    ptd_perf_event_names(session, names, sizeof(names));
    if (session->has_pt && session->trace_count > 0)
        return 0;
    if (session->error)
        return fault_at(why, path, &session->fault);
    if (session->has_pt)
        return reason_set(why, -ENODATA, "%s: Intel PT was recorded, but there are no packets",
                          path);
    return reason_set(why, -ENODATA,
                      "%s: no Intel PT in it; events: %s; %" PRIu64 " records, %" PRIu64
                      " of them samples",
                      path, names, session->record_count, session->sample_count);
}

int perf_data_open(const char *path, const struct bytes *file, struct scratch *scratch,
                   remark_fn tell, struct ptd_perf_session **session, struct reason *why)
{
    struct ptd_perf_fault fault;
    int error = ptd_perf_session_new(file->data, file->len, session, &fault);

    if (error && fault.text[0])
        return fault_at(why, path, &fault);
    if (error)
        return reason_set(why, -ENOMEM, "%s: %s", path, ptd_strerror(error));
    (*session)->store = scratch ? scratch_store(scratch, tell) : NULL;
    error = check_session(path, *session, why);
    if (error)
        ptd_perf_session_free(*session);
    else
        warn_lost(path, *session, tell);
    return error;
}

/* ---- Code ---- */

/* Where the map's code lies against where the file was linked for it. False: not in the file. */
static bool bias_of(const struct code_file *file, const struct ptd_perf_map *map, bool kernel,
                    uint64_t *bias)
{
    for (size_t i = 0; i < file->segment_count; i++) {
        const struct code_segment *const segment = &file->segments[i];

        if (kernel) {
            *bias = map->start - segment->vaddr;
            return true;
        }
        if (map->pgoff >= (segment->offset & ~(uint64_t)(PAGE_BYTES - 1)) &&
            map->pgoff < segment->offset + segment->len_bytes) {
            *bias = map->start - map->pgoff + segment->offset - segment->vaddr;
            return true;
        }
    }
    return false;
}

/* Whether the user has said that this file, or its folder, holds plain code. */
static bool is_raw(const struct code_options *options, const char *file)
{
    const size_t len = options->raw ? strlen(options->raw) : 0;

    return len > 0 && strncmp(file, options->raw, len) == 0 &&
           (file[len] == 0 || file[len] == '/' || file[len - 1] == '/');
}

/* The bytes that were mapped, whatever they are. 0, or -errno and the reason. */
static int add_raw(const struct loader *loader, const struct file_name *name,
                   const struct ptd_perf_map *map)
{
    struct bytes bytes;
    uint64_t len;
    int error = code_files_read(loader->options->files, name, &bytes, loader->why), status;

    if (error)
        return error;
    len = map->pgoff < bytes.len ? bytes.len - map->pgoff : 0;
    if (len > map->len)
        len = map->len;
    status = len ? ptd_image_add_bytes(loader->image, map->file, map->start,
                                       bytes.data + map->pgoff, len, loader->cr3)
                 : PTD_E_FORMAT;
    bytes_free(&bytes);
    if (status == PTD_E_NOMEM)
        return blame_file(loader->why, name, "no memory", -ENOMEM);
    return status ? blame_file(loader->why, name, "no code at the place that was mapped", -EBADMSG)
                  : 0;
}

/* 0, or -errno and the reason. */
static int add_file(struct loader *loader, const struct file_name *name,
                    const struct ptd_perf_map *map)
{
    const struct build_id wanted = {map->build_id, map->build_id_bytes};
    const struct code_file *file;
    uint64_t bias;
    int error = code_files_elf(loader->options->files, name, &wanted, &file, loader->why), status;

    if (error == -ENOEXEC && is_raw(loader->options, map->file))
        return add_raw(loader, name, map);
    if (error)
        return error;
    if (!bias_of(file, map, map->pid == UINT32_MAX, &bias))
        return blame_file(loader->why, name, "no code at the place that was mapped", -EBADMSG);
    if (loader->last && loader->last == file && loader->last_bias == bias)
        return 0;
    status = ptd_image_add_file(loader->image, file->content, bias, loader->cr3);
    if (status == PTD_E_NOMEM)
        return blame_file(loader->why, name, "no memory", -ENOMEM);
    if (status != PTD_OK)
        return blame_file(loader->why, name, ptd_strerror(status), -EBADMSG);
    loader->last = file;
    loader->last_bias = bias;
    return 0;
}

/* perf's copy of a file: .build-id/XX/REST/elf, or vdso. */
static int add_cached(struct loader *loader, const struct ptd_perf_map *map, const char *what)
{
    char root[PATH_MAX], path[128], id[2 * PTD_PERF_BUILD_ID_BYTES + 1] = "";
    const char *const cache = loader->options->cache, *const home = getenv("HOME");
    const struct file_name name = {.root = root, .path = path};

    if (map->build_id_bytes == 0 || (!cache && !home))
        return -ENOENT;
    for (size_t i = 0; i < map->build_id_bytes; i++)
        (void)snprintf(id + 2 * i, 3, "%02x", map->build_id[i]);
    if (snprintf(root, sizeof(root), "%s%s", cache ? cache : home, cache ? "" : "/.debug") >=
        (int)sizeof(root))
        return -ENAMETOOLONG;
    (void)snprintf(path, sizeof(path), "/.build-id/%.2s/%s/%s", id, id + 2, what);
    return add_file(loader, &name, map);
}

static bool is_kernel(const struct ptd_perf_map *map)
{
    return strncmp(map->file, "[kernel.kallsyms]", 17) == 0;
}

void perf_data_warn_kernel(const char *path, const struct ptd_perf_session *session,
                           const struct code_options *options)
{
    uint64_t kernels = 0, modules = 0;

    for (size_t i = 0; i < session->event_count; i++) {
        if (session->events[i].type == session->pt.pmu_type &&
            session->events[i].flags & EXCLUDE_KERNEL)
            return;
    }
    for (size_t i = 0; i < session->map_count; i++) {
        kernels += session->maps[i].pid == UINT32_MAX && is_kernel(&session->maps[i]);
        modules += session->maps[i].pid == UINT32_MAX && !is_kernel(&session->maps[i]);
    }
    if (kernels && !options->vmlinux && !options->kcore)
        remark(options->remark,
               "%s: the kernel's code is not known: --vmlinux, or perf record --kcore", path);
    else if (modules && !options->kcore)
        remark(options->remark,
               "%s: the code of %" PRIu64 " modules is not known: perf record --kcore", path,
               modules);
}

/* What is missing is told once, and decoding goes on. 0 or -ENOMEM. */
static int judge(const struct loader *loader, int error)
{
    const char *const why = loader->why->text;

    if (error == -ENOMEM)
        return error;
    if (error && code_files_is_news(loader->options->files, why))
        remark(loader->options->remark,
               error == -ESTALE ? "%s"
                                : "%s: the code that ran there is "
                                  "not known",
               why);
    return 0;
}

static int load_vmlinux(struct loader *loader, const struct ptd_perf_map *map)
{
    const struct file_name name = {.path = loader->options->vmlinux, .by_user = true};
    const int error = add_file(loader, &name, map);

    return error == -ESTALE ? judge(loader, error) : error;
}

/* All of the running kernel: itself, its modules, what it made while it ran. */
static int load_kcore(const struct loader *loader)
{
    struct code_files *const files = loader->options->files;
    const struct file_name core = {.root = loader->options->kcore, .path = "/kcore"};
    const struct file_name names = {.root = loader->options->kcore, .path = "/kallsyms"};
    int error = code_files_add_elf(files, &core, 0, loader->cr3, loader->image, loader->why);

    if (error)
        return judge(loader, error);
    error = code_files_add_kallsyms(files, &names, loader->cr3, loader->image, loader->why);
    if (error && error != -ENOMEM && code_files_is_news(files, loader->why->text))
        remark(loader->options->remark, "%s: names of the kernel are missing", loader->why->text);
    return error == -ENOMEM ? error : 0;
}

/* Of its modules, only kcore has the code: their files are not linked. */
static int load_kernel(struct loader *loader, const struct ptd_perf_map *map)
{
    if (!is_kernel(map))
        return 0;
    if (loader->options->vmlinux)
        return load_vmlinux(loader, map);
    return loader->options->kcore ? load_kcore(loader) : 0;
}

/* The number in "/jit-NUMBER.dump", the last part of a path. False: it is no such path. */
static bool is_jitdump(const char *path, uint32_t *pid)
{
    const char *const last = strrchr(path, '/');
    char same[32];

    if (!last || strncmp(last, "/jit-", 5) != 0)
        return false;
    *pid = (uint32_t)strtoul(last + 5, NULL, 10);
    (void)snprintf(same, sizeof(same), "/jit-%" PRIu32 ".dump", *pid);
    return strcmp(last, same) == 0;
}

static int load_map(void *owner, const struct ptd_perf_map *map)
{
    struct loader *const loader = owner;
    const struct file_name name = {.root = loader->options->symfs, .path = map->file};
    struct reason of_file;
    uint32_t pid;
    int error;

    if (!map->executable || map->len == 0 || is_jitdump(map->file, &pid))
        return 0;
    if (map->pid == UINT32_MAX)
        return load_kernel(loader, map);
    if (strcmp(map->file, "[vdso]") == 0) { /* without a copy it stays unknown, as perf has it */
        error = add_cached(loader, map, "vdso");
        return error == -ENOMEM ? error : 0;
    }
    if (map->file[0] != '/' || map->file[1] == '/') /* //anon, [heap], ... */
        return 0;
    error = add_file(loader, &name, map);
    if (!error || error == -ENOMEM)
        return error;
    of_file = *loader->why;
    if (add_cached(loader, map, "elf") == 0)
        return 0;
    *loader->why = of_file;
    return judge(loader, error);
}

/* ---- Code that a process made ---- */

struct jitdump_wanted {
    uint32_t pid;
    const struct ptd_perf_map *map; /* NULL: not found */
};

static int find_jitdump(void *owner, const struct ptd_perf_map *map)
{
    struct jitdump_wanted *const wanted = owner;
    uint32_t pid;

    if (map->executable && map->file[0] == '/' && map->file[1] != '/' &&
        is_jitdump(map->file, &pid) && pid == wanted->pid)
        wanted->map = map;
    return wanted->map != NULL;
}

int perf_data_jitdump(const struct ptd_perf_session *session, uint32_t pid,
                      const struct code_options *options, const struct jitdump **dump,
                      struct reason *why)
{
    const struct loader loader = {.options = options, .why = why};
    struct jitdump_wanted wanted = {.pid = pid};
    struct file_name name = {.root = options->symfs};
    int error;

    *dump = NULL;
    if (pid != UINT32_MAX)
        (void)ptd_perf_each_map(session, pid, find_jitdump, &wanted);
    if (!wanted.map)
        return 0;
    name.path = wanted.map->file;
    error = code_files_jitdump(options->files, &name, dump, why);
    if (!error && (*dump)->pid != pid)
        error = blame_file(why, &name, "the jitdump of another process", -ESTALE);
    if (error)
        *dump = NULL;
    else if ((*dump)->is_cut && code_files_is_news(options->files, name.path))
        remark(options->remark, "%s: too much code in it: not all is known", name.path);
    return judge(&loader, error);
}

/* All of it, the last one of each place. 0 or -ENOMEM. */
static int load_jitdump(const struct loader *loader, const struct ptd_perf_session *session,
                        uint32_t pid)
{
    const struct jitdump *dump;
    int error = perf_data_jitdump(session, pid, loader->options, &dump, loader->why);

    for (size_t i = 0; !error && dump && i < dump->count; i++) {
        const struct jit_code *const code = &dump->codes[i];

        if (ptd_image_add_bytes(loader->image, code->name, code->start, code->bytes, code->len,
                                loader->cr3) == PTD_E_NOMEM)
            error = reason_no_memory(loader->why);
    }
    return error;
}

/* Names alone, if the user says where they are. Most processes have none. 0 or -ENOMEM. */
static int load_names(const struct loader *loader, uint32_t pid)
{
    char path[32];
    const struct file_name name = {.root = loader->options->jit_maps, .path = path};
    struct bytes text = {0};
    int error;

    if (!loader->options->jit_maps || pid == UINT32_MAX)
        return 0;
    (void)snprintf(path, sizeof(path), "/perf-%" PRIu32 ".map", pid);
    error = code_files_read(loader->options->files, &name, &text, loader->why);
    if (!error)
        error = perf_map_add(path + 1, (const char *)text.data, text.len, loader->image,
                             loader->cr3, loader->why);
    bytes_free(&text);
    if (error && error != -ENOMEM && error != -ENOENT &&
        code_files_is_news(loader->options->files, loader->why->text))
        remark(loader->options->remark, "%s", loader->why->text);
    return error == -ENOMEM ? error : 0;
}

int perf_data_load_code(const struct ptd_perf_session *session, uint32_t pid,
                        const struct code_options *options, struct ptd_image *image, uint64_t cr3,
                        struct reason *why)
{
    struct loader loader = {.options = options, .image = image, .cr3 = cr3, .why = why};
    int error = ptd_perf_each_map(session, pid, load_map, &loader);

    if (!error)
        error = load_jitdump(&loader, session, pid);
    return error ? error : load_names(&loader, pid);
}

int perf_data_load_map(const struct ptd_perf_map *map, const struct code_options *options,
                       struct ptd_image *image, uint64_t cr3, struct reason *why)
{
    struct loader loader = {.options = options, .image = image, .cr3 = cr3, .why = why};

    return load_map(&loader, map);
}
