/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.data in the program: what is said about a file as a whole, and the code of a process from
 * the files that it mapped.
 */
#include "trace/perf-data.h"
#include "common/say.h"
#include "common/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES     4096u
#define EXCLUDE_KERNEL (1u << 5) /* of an attr's flags */
#define ANOTHER_BUILD  1         /* the file is sound, but not the one that ran */

struct loader {
    const struct code_options *options;
    struct ptd_image *image;
    uint64_t cr3;
    char last[PATH_MAX]; /* an ELF file is added once, whatever the number of its maps */
    uint64_t last_bias;
};

/* ---- The file as a whole ---- */

static void warn_lost(const char *path, const struct ptd_perf_session *session)
{
    if (session->truncated)
        complain(EXIT_CODE_OK, "%s: packets were lost %" PRIu64 " times: the buffer was full", path,
                 session->truncated);
    if (session->partial || session->collisions)
        complain(EXIT_CODE_OK, "%s: %" PRIu64 " parts have gaps: something else used Intel PT",
                 path, session->partial + session->collisions);
    if (session->lost_count)
        complain(EXIT_CODE_OK, "%s: %" PRIu64 " records were lost", path, session->lost_count);
    if (session->error)
        complain(EXIT_CODE_OK, "%s: at %#" PRIx64 ": %s; what stands before is used", path,
                 session->fault.offset, session->fault.text);
}

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

char *perf_data_locate(const char *path, struct code_options *options)
{
    struct stat status;
    char *file = NULL;

    options->kcore = NULL;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
        file = strdup(path);
    } else if (!exists(path, "data") && !exists(path, "data.0")) {
        complain(EXIT_CODE_FILE, "%s: a folder, but not one of perf record", path);
        return NULL;
    } else if (exists(path, "data.0")) {
        complain(EXIT_CODE_FILE, "%s: recorded by several threads (--threads), which is not read",
                 path);
        return NULL;
    } else if (exists(path, "kcore_dir") && asprintf(&options->kcore, "%s/kcore_dir", path) < 0) {
        options->kcore = NULL;
    } else if (asprintf(&file, "%s/data", path) < 0) {
        file = NULL;
    }
    if (!file)
        complain(EXIT_CODE_HOST, "no memory for a path");
    return file;
}

struct ptd_perf_session *perf_data_open(const char *path, const struct bytes *file, int *code)
{
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    char names[512];
    const int error = ptd_perf_session_new(file->data, file->len, &session, &fault);

    *code = EXIT_CODE_OK;
    if (error) {
        *code = fault.text[0] ? complain(EXIT_CODE_FILE, "%s: at %#" PRIx64 ": %s", path,
                                         fault.offset, fault.text)
                              : complain(EXIT_CODE_HOST, "%s: %s", path, ptd_strerror(error));
        return NULL;
    }
    ptd_perf_event_names(session, names, sizeof(names));
    if ((!session->has_pt || session->trace_count == 0) && session->error)
        *code = complain(EXIT_CODE_FILE, "%s: at %#" PRIx64 ": %s", path, session->fault.offset,
                         session->fault.text);
    else if (!session->has_pt)
        *code = complain(EXIT_CODE_FILE,
                         "%s: no Intel PT in it; events: %s; %" PRIu64 " records, %" PRIu64
                         " of them samples",
                         path, names, session->record_count, session->sample_count);
    else if (session->trace_count == 0)
        *code =
            complain(EXIT_CODE_FILE, "%s: Intel PT was recorded, but there are no packets", path);
    if (*code) {
        ptd_perf_session_free(session);
        return NULL;
    }
    warn_lost(path, session);
    return session;
}

/* ---- Code ---- */

/* Where the map's code lies against where the file was linked for it. False: not in the file. */
static bool bias_of(Elf *elf, const struct ptd_perf_map *map, bool kernel, uint64_t *bias)
{
    size_t count = 0;

    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count && i < INT_MAX; i++) {
        GElf_Phdr header;

        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD ||
            !(header.p_flags & PF_X))
            continue;
        if (kernel) {
            *bias = map->start - header.p_vaddr;
            return true;
        }
        if (map->pgoff >= (header.p_offset & ~(uint64_t)(PAGE_BYTES - 1)) &&
            map->pgoff < header.p_offset + header.p_filesz) {
            *bias = map->start - map->pgoff + header.p_offset - header.p_vaddr;
            return true;
        }
    }
    return false;
}

/* The build id among the notes of a segment: its length, 0 if it is not there. */
static uint8_t id_in_notes(Elf_Data *data, uint8_t *id)
{
    size_t at = 0, name, desc;
    GElf_Nhdr note;

    while (data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0) {
        const size_t len =
            note.n_descsz < PTD_PERF_BUILD_ID_BYTES ? note.n_descsz : PTD_PERF_BUILD_ID_BYTES;

        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
            memcmp((const char *)data->d_buf + name, "GNU", 4) != 0)
            continue;
        memcpy(id, (const char *)data->d_buf + desc, len);
        return (uint8_t)len;
    }
    return 0;
}

uint8_t perf_data_build_id(Elf *elf, uint8_t *id)
{
    size_t count = 0;
    uint8_t len = 0;

    if (elf_getphdrnum(elf, &count) != 0)
        return 0;
    for (size_t i = 0; len == 0 && i < count && i < INT_MAX; i++) {
        GElf_Phdr header;

        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_NOTE)
            continue;
        len = id_in_notes(elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz,
                                               header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
                          id);
    }
    return len;
}

/* Whether the file is the one that ran, as far as the perf.data and the file say. */
static bool is_same_build(Elf *elf, const struct ptd_perf_map *map)
{
    uint8_t id[PTD_PERF_BUILD_ID_BYTES];
    const uint8_t len = perf_data_build_id(elf, id);

    return len == 0 || map->build_id_bytes == 0 ||
           (len == map->build_id_bytes && memcmp(id, map->build_id, len) == 0);
}

/* A file that is no ELF file: its bytes, as they were mapped. */
static int add_bytes(struct loader *loader, int file, const struct ptd_perf_map *map)
{
    struct stat status;
    uint8_t *bytes;
    ssize_t len;
    int error;

    if (fstat(file, &status) != 0 || map->pgoff >= (uint64_t)status.st_size)
        return PTD_E_FORMAT;
    len = (ssize_t)((uint64_t)status.st_size - map->pgoff);
    if ((uint64_t)len > map->len)
        len = (ssize_t)map->len;
    bytes = malloc((size_t)len + 1);
    if (!bytes)
        return PTD_E_NOMEM;
    len = pread(file, bytes, (size_t)len, (off_t)map->pgoff);
    error = len > 0 ? ptd_image_add_bytes(loader->image, map->file, map->start, bytes, (size_t)len,
                                          loader->cr3)
                    : PTD_E_IO;
    free(bytes);
    return error;
}

static int add_elf(struct loader *loader, const char *path, Elf *elf,
                   const struct ptd_perf_map *map)
{
    const bool kernel = path == loader->options->vmlinux;
    uint64_t bias;
    int error;

    if (!is_same_build(elf, map))
        return ANOTHER_BUILD;
    if (!bias_of(elf, map, kernel, &bias))
        return PTD_E_FORMAT;
    if (strcmp(loader->last, path) == 0 && loader->last_bias == bias)
        return PTD_OK;
    error = ptd_image_add_elf(loader->image, path, bias, loader->cr3);
    if (!error) {
        snprintf(loader->last, sizeof(loader->last), "%s", path);
        loader->last_bias = bias;
    }
    return error;
}

/* PTD_OK, an error, or ANOTHER_BUILD. */
static int add_file(struct loader *loader, const char *path, const struct ptd_perf_map *map)
{
    /* A hostile perf.data may name anything: no FIFO, no device. */
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    int error = PTD_E_IO;

    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        Elf *elf = NULL;

        if (elf_version(EV_CURRENT) != EV_NONE)
            elf = elf_begin(file, ELF_C_READ_MMAP, NULL);
        error = elf && elf_kind(elf) == ELF_K_ELF ? add_elf(loader, path, elf, map)
                                                  : add_bytes(loader, file, map);
        elf_end(elf);
    }
    if (file >= 0)
        close(file);
    return error;
}

/* perf's copy of a file: .build-id/XX/REST/elf, or vdso. */
static int add_cached(struct loader *loader, const struct ptd_perf_map *map, const char *name)
{
    char path[PATH_MAX], id[2 * PTD_PERF_BUILD_ID_BYTES + 1] = "";
    const char *const home = getenv("HOME");
    int len;

    if (map->build_id_bytes == 0 || (!loader->options->cache && !home))
        return PTD_E_IO;
    for (size_t i = 0; i < map->build_id_bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", map->build_id[i]);
    len = snprintf(path, sizeof(path), "%s%s/.build-id/%.2s/%s/%s",
                   loader->options->cache ? loader->options->cache : home,
                   loader->options->cache ? "" : "/.debug", id, id + 2, name);
    return len < (int)sizeof(path) ? add_file(loader, path, map) : PTD_E_IO;
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
        complain(EXIT_CODE_OK,
                 "%s: the kernel's code is not known: --vmlinux, or perf record --kcore", path);
    else if (modules && !options->kcore)
        complain(EXIT_CODE_OK,
                 "%s: the code of %" PRIu64 " modules is not known: perf record --kcore", path,
                 modules);
}

/* 0, or an exit code if decoding cannot go on. */
static int judge(int error, const char *path)
{
    if (error == PTD_E_NOMEM)
        return complain(EXIT_CODE_HOST, "no memory for the code of %s", path);
    if (error == ANOTHER_BUILD)
        complain(EXIT_CODE_OK, "%s: not the file that ran: its build id differs", path);
    else if (error)
        complain(EXIT_CODE_OK, "%s: %s: the code that ran there is not known", path,
                 ptd_strerror(error));
    return 0;
}

static int load_vmlinux(struct loader *loader, const struct ptd_perf_map *map)
{
    const char *const vmlinux = loader->options->vmlinux;
    const int error = add_file(loader, vmlinux, map);

    if (error == PTD_E_IO || error == PTD_E_FORMAT)
        return complain(EXIT_CODE_FILE, "%s: %s", vmlinux, ptd_strerror(error));
    return judge(error, vmlinux);
}

/* All of the running kernel: itself, its modules, what it made while it ran. */
static int load_kcore(const struct loader *loader)
{
    const char *const folder = loader->options->kcore;
    char path[PATH_MAX];
    int error;

    snprintf(path, sizeof(path), "%s/kcore", folder);
    error = ptd_image_add_elf(loader->image, path, 0, loader->cr3);
    if (error)
        return judge(error, path);
    snprintf(path, sizeof(path), "%s/kallsyms", folder);
    error = ptd_image_add_kallsyms(loader->image, path, loader->cr3);
    if (error && error != PTD_E_NOMEM)
        complain(EXIT_CODE_OK, "%s: %s: names of the kernel are missing", path,
                 ptd_strerror(error));
    return error == PTD_E_NOMEM ? judge(error, path) : 0;
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

static int load_map(void *owner, const struct ptd_perf_map *map)
{
    struct loader *const loader = owner;
    char path[PATH_MAX];
    int error;

    if (!map->executable || map->len == 0)
        return 0;
    if (map->pid == UINT32_MAX)
        return load_kernel(loader, map);
    if (strcmp(map->file, "[vdso]") == 0) { /* without a copy it stays unknown, as perf has it */
        error = add_cached(loader, map, "vdso");
        return error == PTD_E_NOMEM ? judge(error, map->file) : 0;
    }
    if (map->file[0] != '/' || map->file[1] == '/') /* //anon, [heap], ... */
        return 0;
    snprintf(path, sizeof(path), "%s%s", loader->options->symfs ? loader->options->symfs : "",
             map->file);
    error = add_file(loader, path, map);
    if (error && error != PTD_E_NOMEM && add_cached(loader, map, "elf") == PTD_OK)
        return 0;
    return judge(error, path);
}

int perf_data_load_code(const struct ptd_perf_session *session, uint32_t pid,
                        const struct code_options *options, struct ptd_image *image, uint64_t cr3)
{
    struct loader loader = {.options = options, .image = image, .cr3 = cr3};

    return ptd_perf_each_map(session, pid, load_map, &loader);
}

int perf_data_load_map(const struct ptd_perf_map *map, const struct code_options *options,
                       struct ptd_image *image, uint64_t cr3)
{
    struct loader loader = {.options = options, .image = image, .cr3 = cr3};

    return load_map(&loader, map);
}
