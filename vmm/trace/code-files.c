/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files with code, by what they are (device, inode, size and time of the last change) and not by
 * their names, of which a hostile trace can make up any number.
 */
#include "trace/code-files.h"
#include "trace/origins.h"
#include "symbols/complete.h"
#include "trace/jitdump.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Far more executable segments than a program has. */
#define SEGMENTS_MAX 4096u
#define PAGE_BYTES   UINT64_C(4096)
#define KERNEL       "[kernel]" /* what the names of a kallsyms are in */

enum file_kind { KIND_ELF, KIND_KALLSYMS, KIND_JITDUMP };

/* What tells one file from another. */
struct identity {
    uint64_t device, inode, size, seconds, nanoseconds, kind;
};

struct loaded {
    struct identity identity; /* first, for the tree */
    struct code_file file;
    struct code_segment *segments;
    struct ptd_file *content; /* NULL: not loaded */
    struct jitdump *jitdump;  /* the same of such a file */
    char *path;               /* of an ELF file that is loaded */
    uint64_t first, end;      /* the addresses that it is linked for */
    int status;               /* enum ptd_error of the last try */
};

/* A file that is not here. */
struct named {
    struct elf_id id;
    uint64_t len_bytes;
    struct ptd_file *names; /* NULL: nobody knows them */
    uint64_t vaddr;
};

struct code_files {
    uint64_t max_bytes, held_bytes;
    const struct debug_places *places; /* NULL: names are those of each file alone */
    struct sources *sources;           /* NULL: they are not asked for */
    void *loaded, *texts, *named;      /* trees */
    struct table contents;             /* key: that of an ELF file; count: its struct loaded */
    struct origins origins;
    char region[NAME_MAX + 1]; /* what was told last of code that is in no file here */
};

static int by_identity(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct identity));
}

static int by_text(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void free_loaded(void *of)
{
    struct loaded *const loaded = of;

    ptd_file_free(loaded->content);
    jitdump_free(loaded->jitdump);
    free(loaded->segments);
    free(loaded->path);
    free(loaded);
}

static int by_id(const void *left, const void *right)
{
    const struct named *const a = left, *const b = right;
    const int order = memcmp(a->id.bytes, b->id.bytes, ELF_ID_BYTES_MAX);

    if (order || a->id.len != b->id.len)
        return order ? order : a->id.len < b->id.len ? -1 : 1;
    return a->len_bytes < b->len_bytes ? -1 : a->len_bytes > b->len_bytes;
}

static void free_named(void *of)
{
    struct named *const named = of;

    ptd_file_free(named->names);
    free(named);
}

struct code_files *code_files_new(uint64_t max_bytes)
{
    struct code_files *const files = calloc(1, sizeof(*files));

    if (files)
        files->max_bytes = max_bytes;
    return files;
}

void code_files_free(struct code_files *files)
{
    if (!files)
        return;
    tdestroy(files->loaded, free_loaded);
    tdestroy(files->texts, free);
    tdestroy(files->named, free_named);
    sources_free(files->sources);
    table_free(&files->contents);
    origins_free(&files->origins);
    free(files);
}

void code_files_complete(struct code_files *files, const struct debug_places *places)
{
    files->places = places;
}

bool code_files_keep_sources(struct code_files *files)
{
    files->sources = sources_new(files->places);
    return files->sources;
}

size_t code_files_sources(struct code_files *files, const struct ptd_image *image, uint64_t cr3,
                          uint64_t ip, struct source_frame frames[FRAMES_MAX])
{
    uint64_t address, left = files->max_bytes - files->held_bytes;
    const struct ptd_file *const file = ptd_image_origin(image, cr3, ip, &address);
    size_t count = 0;

    if (files->sources && file)
        count = sources_frames(files->sources, file, address, &left, frames);
    files->held_bytes = files->max_bytes - left;
    return count;
}

bool code_files_call(struct code_files *files, const struct ptd_file *names, uint64_t from,
                     const char *path)
{
    return origins_add(&files->origins, names, from, path);
}

/*
 * A mapped file of which no names are known is the name of its code, in brackets. Other names of
 * code that is no file's are those of a kallsyms, if they stand in the kernel's half of addresses.
 */
static const char *file_of_region(struct code_files *files, const char *name, uint64_t ip)
{
    const size_t len = name ? strlen(name) : 0;

    if (len < 3 || len > sizeof(files->region) + 1 || name[0] != '[' || name[len - 1] != ']')
        return name && ip >> 63 ? KERNEL : NULL;
    memcpy(files->region, name + 1, len - 2);
    files->region[len - 2] = 0;
    return files->region;
}

const char *code_files_file_at(struct code_files *files, const struct ptd_image *image,
                               uint64_t cr3, uint64_t ip)
{
    uint64_t address;
    const struct ptd_file *const file = ptd_image_origin(image, cr3, ip, &address);

    return file ? origins_find(&files->origins, file, address)
                : file_of_region(files, ptd_image_symbol(image, cr3, ip, NULL), ip);
}

bool code_files_is_news(struct code_files *files, const char *text)
{
    char *const copy = tfind(text, &files->texts, by_text) ? NULL : strdup(text);

    if (!copy)
        return !tfind(text, &files->texts, by_text);
    if (!tsearch(copy, &files->texts, by_text))
        free(copy);
    return true;
}

static struct loaded *find_loaded(struct code_files *files, const struct identity *identity)
{
    void *const found = tfind(identity, &files->loaded, by_identity);
    struct loaded *loaded;

    if (found)
        return *(struct loaded **)found;
    loaded = calloc(1, sizeof(*loaded));
    if (!loaded)
        return NULL;
    loaded->identity = *identity;
    if (tsearch(loaded, &files->loaded, by_identity))
        return loaded;
    free(loaded);
    return NULL;
}

static int identify(int fd, enum file_kind kind, struct identity *identity)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return -errno;
    *identity = (struct identity){.device = status.st_dev,
                                  .inode = status.st_ino,
                                  .size = (uint64_t)status.st_size,
                                  .seconds = (uint64_t)status.st_mtim.tv_sec,
                                  .nanoseconds = (uint64_t)status.st_mtim.tv_nsec,
                                  .kind = kind};
    return 0;
}

/* ---- What the headers of an ELF file say ---- */

static int find_segments(Elf *elf, size_t count, struct loaded *loaded)
{
    loaded->segments = calloc(count ? count : 1, sizeof(*loaded->segments));
    if (!loaded->segments)
        return -ENOMEM;
    loaded->first = UINT64_MAX;
    for (size_t i = 0; i < count && i < INT_MAX; i++) {
        GElf_Phdr header;

        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
            continue;
        if (header.p_vaddr < loaded->first)
            loaded->first = header.p_vaddr;
        if (header.p_vaddr + header.p_memsz > loaded->end)
            loaded->end = header.p_vaddr + header.p_memsz;
        if (header.p_flags & PF_X && loaded->file.segment_count < SEGMENTS_MAX)
            loaded->segments[loaded->file.segment_count++] =
                (struct code_segment){header.p_vaddr, header.p_offset, header.p_filesz};
    }
    loaded->file.segments = loaded->segments;
    return 0;
}

/* As perf keeps it, which cuts longer ones off. */
static void read_build_id(Elf *elf, struct code_file *file)
{
    struct elf_id id;

    elf_id_of(elf, &id);
    file->build_id_bytes = id.len < PTD_PERF_BUILD_ID_BYTES ? id.len : PTD_PERF_BUILD_ID_BYTES;
    memcpy(file->build_id, id.bytes, file->build_id_bytes);
}

/* 0, -ENOMEM; -ENOEXEC: no ELF file. */
static int read_headers(int fd, struct loaded *loaded)
{
    Elf *elf = NULL;
    size_t count = 0;
    int error = -ENOEXEC;

    if (elf_version(EV_CURRENT) != EV_NONE)
        elf = elf_begin(fd, ELF_C_READ, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF && elf_getphdrnum(elf, &count) == 0) {
        read_build_id(elf, &loaded->file);
        error = find_segments(elf, count, loaded);
    }
    if (elf)
        (void)elf_end(elf);
    return error;
}

/* ---- Modules ---- */

/* A file is known by its content from here on. False: no memory. */
static bool keep_module(struct code_files *files, struct loaded *loaded, const char *path)
{
    struct sum *const sum = table_at(&files->contents, (uintptr_t)loaded->content, 0, 0);

    if (sum)
        sum->count = (uintptr_t)loaded;
    if (!loaded->path)
        loaded->path = strdup(path);
    return sum && loaded->path;
}

bool code_files_module_at(const struct code_files *files, const struct ptd_image *image,
                          uint64_t cr3, uint64_t ip, struct code_module *module)
{
    uint64_t address;
    const struct ptd_file *const file = ptd_image_origin(image, cr3, ip, &address);
    const struct sum *const sum = file ? table_find(&files->contents, (uintptr_t)file, 0, 0) : NULL;
    const struct loaded *loaded;

    if (!sum)
        return false;
    loaded = (const struct loaded *)(uintptr_t)sum->count;
    if (address < loaded->first)
        return false;
    module->path = loaded->path;
    module->base = (ip - address + loaded->first) & ~(PAGE_BYTES - 1);
    module->end = ip - address + loaded->end;
    return true;
}

/* ---- Loading ---- */

static int say(struct reason *why, const struct file_name *name, int error)
{
    const char *const what = error == -ESTALE    ? "not the file that ran: its build id differs"
                             : error == -ENOEXEC ? "not an ELF file of x86"
                             : error == -EFBIG   ? "more code than --max-code allows"
                             : error == -EBADMSG ? ptd_strerror(PTD_E_FORMAT)
                             : error == -EIO     ? ptd_strerror(PTD_E_IO)
                                                 : strerror(-error);

    return blame_file(why, name, what, error);
}

static int error_of(int status, int of_format)
{
    return status == PTD_OK         ? 0
           : status == PTD_E_NOMEM  ? -ENOMEM
           : status == PTD_E_LIMIT  ? -EFBIG
           : status == PTD_E_FORMAT ? of_format
                                    : -EIO;
}

/* What an ELF file holds, and the names that others have of it. An enum ptd_error. */
static int load_elf(const struct code_files *files, int fd, const struct file_name *name,
                    struct ptd_file **content)
{
    const uint64_t left = files->max_bytes - files->held_bytes;
    const int status = ptd_file_new_elf(fd, left, content);

    if (status != PTD_OK || !files->places ||
        (complete_names(files->places, name, fd, left, *content) == 0 &&
         (!files->sources || sources_add(files->sources, *content, name, fd))))
        return status;
    ptd_file_free(*content);
    *content = NULL;
    return PTD_E_NOMEM;
}

/* What the file holds, unless it was loaded before, or cannot be. An enum ptd_error. */
static int load(struct code_files *files, int fd, const struct file_name *name,
                struct loaded *loaded)
{
    if (loaded->content || loaded->status)
        return loaded->status;
    loaded->status =
        loaded->identity.kind == KIND_ELF
            ? load_elf(files, fd, name, &loaded->content)
            : ptd_file_new_kallsyms(fd, files->max_bytes - files->held_bytes, &loaded->content);
    if (loaded->content)
        files->held_bytes += ptd_file_bytes(loaded->content);
    return loaded->status;
}

static bool is_wanted(const struct code_file *file, const struct build_id *wanted)
{
    return !wanted || wanted->bytes == 0 || file->build_id_bytes == 0 ||
           (wanted->bytes == file->build_id_bytes &&
            memcmp(wanted->id, file->build_id, wanted->bytes) == 0);
}

/* What the headers say. 0 or -errno. */
static int look(struct code_files *files, int fd, struct loaded **found)
{
    struct identity identity;
    const int error = identify(fd, KIND_ELF, &identity);

    if (error)
        return error;
    *found = find_loaded(files, &identity);
    if (!*found)
        return -ENOMEM;
    return (*found)->segments ? 0 : read_headers(fd, *found);
}

int code_files_look(struct code_files *files, const struct file_name *name,
                    const struct code_file **file, struct reason *why)
{
    const int fd = open_named(name, why);
    struct loaded *loaded;
    int error;

    if (fd < 0)
        return fd;
    error = look(files, fd, &loaded);
    (void)close(fd);
    if (error)
        return say(why, name, error);
    *file = &loaded->file;
    return 0;
}

int code_files_elf(struct code_files *files, const struct file_name *name,
                   const struct build_id *wanted, const struct code_file **file, struct reason *why)
{
    const int fd = open_named(name, why);
    struct loaded *loaded;
    int error;

    if (fd < 0)
        return fd;
    error = look(files, fd, &loaded);
    if (!error && !is_wanted(&loaded->file, wanted))
        error = -ESTALE;
    if (!error)
        error = error_of(load(files, fd, name, loaded), -ENOEXEC);
    (void)close(fd);
    if (!error && (!origins_add(&files->origins, loaded->content, 0, name->path) ||
                   !keep_module(files, loaded, name->path)))
        error = -ENOMEM;
    if (error)
        return say(why, name, error);
    loaded->file.content = loaded->content;
    *file = &loaded->file;
    return 0;
}

int code_files_add_elf(struct code_files *files, const struct file_name *name, uint64_t bias,
                       uint64_t cr3, struct ptd_image *image, struct reason *why)
{
    const struct code_file *file = NULL;
    const int error = code_files_elf(files, name, NULL, &file, why);

    if (error || !file)
        return error;
    return error_of(ptd_image_add_file(image, file->content, bias, cr3), -ENOEXEC)
               ? say(why, name, -ENOEXEC)
               : 0;
}

static int load_kallsyms(struct code_files *files, int fd, const struct file_name *name,
                         struct loaded **found)
{
    struct identity identity;
    int error = identify(fd, KIND_KALLSYMS, &identity);

    if (error)
        return error;
    *found = find_loaded(files, &identity);
    return *found ? error_of(load(files, fd, name, *found), -EBADMSG) : -ENOMEM;
}

int code_files_add_kallsyms(struct code_files *files, const struct file_name *name, uint64_t cr3,
                            struct ptd_image *image, struct reason *why)
{
    const int fd = open_named(name, why);
    struct loaded *loaded = NULL;
    int error;

    if (fd < 0)
        return fd;
    error = load_kallsyms(files, fd, name, &loaded);
    (void)close(fd);
    if (loaded && loaded->content &&
        (ptd_image_add_file(image, loaded->content, 0, cr3) != PTD_OK ||
         !origins_add(&files->origins, loaded->content, 0, KERNEL)))
        error = -ENOMEM;
    return error ? say(why, name, error) : 0;
}

/* What is known of a file that is not here, by now. NULL: no memory. */
static struct named *find_named(struct code_files *files, const struct elf_id *id,
                                uint64_t len_bytes)
{
    const struct named key = {.id = *id, .len_bytes = len_bytes};
    void *const found = tfind(&key, &files->named, by_id);
    struct named *named;

    if (found)
        return *(struct named **)found;
    named = malloc(sizeof(*named));
    if (!named)
        return NULL;
    *named = key;
    if (!tsearch(named, &files->named, by_id)) {
        free(named);
        return NULL;
    }
    if (names_by_id(files->places, id, len_bytes, files->max_bytes - files->held_bytes,
                    files->sources, &named->names, &named->vaddr) == PTD_OK)
        files->held_bytes += ptd_file_bytes(named->names);
    return named;
}

int code_files_names(struct code_files *files, const struct elf_id *id, uint64_t len_bytes,
                     const struct ptd_file **names, uint64_t *vaddr)
{
    const struct named *const named = files->places ? find_named(files, id, len_bytes) : NULL;

    if (!named || !named->names)
        return -ENOENT;
    *names = named->names;
    *vaddr = named->vaddr;
    return 0;
}

int code_files_jitdump(struct code_files *files, const struct file_name *name,
                       const struct jitdump **dump, struct reason *why)
{
    const int fd = open_named(name, why);
    struct loaded *loaded = NULL;
    struct bytes bytes = {0};
    struct identity identity;
    int error;

    if (fd < 0)
        return fd;
    error = identify(fd, KIND_JITDUMP, &identity);
    (void)close(fd);
    if (!error && !(loaded = find_loaded(files, &identity)))
        error = -ENOMEM;
    if (error)
        return say(why, name, error);
    if (!loaded->jitdump)
        error = code_files_read(files, name, &bytes, why);
    if (!error && !loaded->jitdump)
        error = jitdump_parse(name->path, &bytes, &loaded->jitdump, why);
    *dump = loaded->jitdump;
    return error;
}

int code_files_read(struct code_files *files, const struct file_name *name, struct bytes *bytes,
                    struct reason *why)
{
    const int error = read_named(name, files->max_bytes - files->held_bytes, bytes, why);

    if (error)
        return error == -EFBIG ? say(why, name, error) : error;
    files->held_bytes += bytes->len;
    return 0;
}
