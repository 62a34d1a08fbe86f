/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources of code, by the files that images were made of. */
#include "symbols/sources.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWERS_MAX 4096u /* a power of two */

struct source {
    const struct ptd_file *file; /* the key */
    char *root, *path;
    bool has_root, by_user, is_open;
    struct stat identity;
    struct dwarf_file *dwarf; /* NULL: nothing is known, or it is not open yet */
};

struct answer {
    const struct ptd_file *file; /* NULL: none */
    uint64_t address;
    size_t count;
    struct source_frame frames[FRAMES_MAX];
};

struct sources {
    const struct debug_places *places;
    void *files; /* a tree */
    struct answer answers[ANSWERS_MAX];
};

static int by_file(const void *left, const void *right)
{
    const struct source *const a = left, *const b = right;

    return a->file < b->file ? -1 : a->file > b->file;
}

static void free_source(void *of)
{
    struct source *const source = of;

    dwarf_file_close(source->dwarf);
    free(source->root);
    free(source->path);
    free(source);
}

struct sources *sources_new(const struct debug_places *places)
{
    struct sources *const sources = calloc(1, sizeof(*sources));

    if (sources)
        sources->places = places;
    return sources;
}

void sources_free(struct sources *sources)
{
    if (sources)
        tdestroy(sources->files, free_source);
    free(sources);
}

bool sources_add(struct sources *sources, const struct ptd_file *file, const struct file_name *name,
                 int fd)
{
    struct source *const source = calloc(1, sizeof(*source));

    if (!source)
        return false;
    *source = (struct source){.file = file,
                              .root = strdup(name->root ? name->root : ""),
                              .path = strdup(name->path),
                              .has_root = name->root != NULL,
                              .by_user = name->by_user};
    if (source->root && source->path && fstat(fd, &source->identity) == 0 &&
        tsearch(source, &sources->files, by_file))
        return true;
    free_source(source);
    return false;
}

static bool is_same(const struct stat *left, const struct stat *right)
{
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino &&
           left->st_size == right->st_size && left->st_mtim.tv_sec == right->st_mtim.tv_sec &&
           left->st_mtim.tv_nsec == right->st_mtim.tv_nsec;
}

static void open_source(const struct sources *sources, struct source *source, uint64_t *left)
{
    const struct file_name name = {.root = source->has_root ? source->root : NULL,
                                   .path = source->path,
                                   .by_user = source->by_user};
    struct stat identity;
    struct reason why;
    const int fd = open_named(&name, &why);

    source->is_open = true;
    if (fd < 0)
        return;
    if (fstat(fd, &identity) == 0 && is_same(&identity, &source->identity))
        source->dwarf = dwarf_file_open(sources->places, &name, fd, left);
    (void)close(fd);
}

static size_t ask(const struct sources *sources, const struct ptd_file *file, uint64_t address,
                  uint64_t *left, struct source_frame frames[FRAMES_MAX])
{
    const struct source key = {.file = file};
    void *const found = tfind(&key, &sources->files, by_file);
    struct source *const source = found ? *(struct source **)found : NULL;

    if (!source)
        return 0;
    if (!source->is_open)
        open_source(sources, source, left);
    return source->dwarf ? dwarf_file_frames(source->dwarf, address, left, frames) : 0;
}

size_t sources_frames(struct sources *sources, const struct ptd_file *file, uint64_t address,
                      uint64_t *left, struct source_frame frames[FRAMES_MAX])
{
    struct answer *const answer =
        &sources->answers[(address ^ address >> 12 ^ (uintptr_t)file >> 6) & (ANSWERS_MAX - 1)];

    if (answer->file != file || answer->address != address) {
        answer->count = ask(sources, file, address, left, answer->frames);
        answer->file = file;
        answer->address = address;
    }
    memcpy(frames, answer->frames, answer->count * sizeof(*frames));
    return answer->count;
}
