/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.data in the program: what is said about a file as a whole, and the code of a process from
 * the files that it mapped.
 */
#include "perf-data.h"

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

#define PAGE_BYTES 4096u

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
        *code = complain(EXIT_CODE_FILE, "%s: Intel PT was recorded, but there are no packets%s",
                         path, session->aux_samples ? " outside of samples" : "");
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

static bool note_matches(Elf_Data *data, const struct ptd_perf_map *map, bool *found)
{
    size_t at = 0, name, desc;
    GElf_Nhdr note;

    while (data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0) {
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
            memcmp((const char *)data->d_buf + name, "GNU", 4) != 0)
            continue;
        *found = true;
        return note.n_descsz >= map->build_id_bytes &&
               memcmp((const char *)data->d_buf + desc, map->build_id, map->build_id_bytes) == 0;
    }
    return false;
}

/* Whether the file is the one that ran, as far as the perf.data says. */
static bool is_same_build(Elf *elf, const struct ptd_perf_map *map)
{
    bool found = false;
    size_t count = 0;

    if (map->build_id_bytes == 0 || elf_getphdrnum(elf, &count) != 0)
        return true;
    for (size_t i = 0; i < count && i < INT_MAX; i++) {
        GElf_Phdr header;

        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_NOTE)
            continue;
        if (note_matches(elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz,
                                              header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
                         map, &found))
            return true;
    }
    return !found;
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

    if (!is_same_build(elf, map)) {
        complain(EXIT_CODE_OK, "%s: not the file that ran: its build id differs", path);
        return PTD_OK;
    }
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

static int load_map(void *owner, const struct ptd_perf_map *map)
{
    struct loader *const loader = owner;
    const bool kernel = map->pid == UINT32_MAX;
    char path[PATH_MAX];
    int error;

    if (!map->executable || map->len == 0)
        return 0;
    if (kernel && strncmp(map->file, "[kernel.kallsyms]", 17) == 0) {
        if (!loader->options->vmlinux)
            return 0;
        error = add_file(loader, loader->options->vmlinux, map);
        return error ? complain(EXIT_CODE_FILE, "%s: %s", loader->options->vmlinux,
                                ptd_strerror(error))
                     : 0;
    }
    if (map->file[0] != '/' || map->file[1] == '/') /* [vdso], //anon, ... */
        return 0;
    snprintf(path, sizeof(path), "%s%s", loader->options->symfs ? loader->options->symfs : "",
             map->file);
    error = add_file(loader, path, map);
    if (error == PTD_E_NOMEM)
        return complain(EXIT_CODE_HOST, "no memory for the code of %s", path);
    if (error)
        complain(EXIT_CODE_OK, "%s: %s: the code that ran there is not known", path,
                 ptd_strerror(error));
    return 0;
}

int perf_data_load_code(const struct ptd_perf_session *session, uint32_t pid,
                        const struct code_options *options, struct ptd_image *image, uint64_t cr3)
{
    struct loader loader = {.options = options, .image = image, .cr3 = cr3};

    return ptd_perf_each_map(session, pid, load_map, &loader);
}
