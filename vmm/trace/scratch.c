/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of long traces in a file without a name. It is one file, opened while it may be, in which
 * each copy has a part far from the others, so that it can grow.
 */
#include "trace/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONG_BYTES ((size_t)32 << 20) /* from which a copy is in the file */
#define PART_BYTES (UINT64_C(1) << 35)
#define PARTS_MAX  256u /* 8 TiB: no file of ext4 is longer than 16 */

struct part {
    uint8_t *bytes; /* NULL: it is free */
    size_t len;
};

struct scratch {
    struct ptd_perf_store store;
    int fd; /* -1: there is no such file */
    struct part parts[PARTS_MAX];
    struct bytes seen;
    remark_fn tell;
    bool has_told;
};

static const char *folder(void)
{
    const char *const named = getenv("TMPDIR");

    return named && named[0] ? named : "/var/tmp";
}

static int open_file(void)
{
    char path[PATH_MAX];
    int fd = open(folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR) ||
        snprintf(path, sizeof(path), "%s/vpt-XXXXXX", folder()) >= (int)sizeof(path))
        return fd;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

/* ---- Parts of the file ---- */

static uint64_t begin_of(const struct scratch *scratch, const struct part *part)
{
    return (uint64_t)(part - scratch->parts) * PART_BYTES;
}

static struct part *part_of(struct scratch *scratch, const void *bytes)
{
    for (unsigned i = 0; bytes && i < PARTS_MAX; i++)
        if (scratch->parts[i].bytes == bytes)
            return &scratch->parts[i];
    return NULL;
}

static struct part *free_part(struct scratch *scratch)
{
    for (unsigned i = 0; scratch->fd >= 0 && i < PARTS_MAX; i++)
        if (!scratch->parts[i].bytes)
            return &scratch->parts[i];
    return NULL;
}

/* The room is there before it is written, since nobody could be told then. */
static bool grow(struct scratch *scratch, struct part *part, size_t len)
{
    const uint64_t begin = begin_of(scratch, part);
    void *bytes;

    if (len > PART_BYTES ||
        fallocate(scratch->fd, 0, (off_t)(begin + part->len), (off_t)(len - part->len)) != 0)
        return false;
    bytes = part->bytes
                ? mremap(part->bytes, part->len, len, MREMAP_MAYMOVE)
                : mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, scratch->fd, (off_t)begin);
    if (bytes == MAP_FAILED)
        return false;
    part->bytes = bytes;
    part->len = len;
    return true;
}

static void give_back(struct scratch *scratch, struct part *part)
{
    (void)munmap(part->bytes, part->len);
    (void)fallocate(scratch->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)begin_of(scratch, part), (off_t)part->len);
    *part = (struct part){0};
}

/* ---- The store ---- */

static void tell_once(struct scratch *scratch, size_t bytes)
{
    if (scratch->has_told)
        return;
    scratch->has_told = true;
    remark(scratch->tell, "%s: no room for %zu MiB of a trace, which stand in memory", folder(),
           bytes >> 20);
}

/* To memory, where it was in the file. */
static void *move_out(struct scratch *scratch, struct part *part, size_t bytes)
{
    void *const moved = malloc(bytes);

    if (!moved)
        return NULL;
    memcpy(moved, part->bytes, part->len < bytes ? part->len : bytes);
    give_back(scratch, part);
    return moved;
}

/* To the file, where it was in memory. NULL: that cannot be. */
static void *move_in(struct scratch *scratch, void *old, size_t old_bytes, size_t bytes)
{
    struct part *const part = free_part(scratch);

    if (!part || !grow(scratch, part, bytes))
        return NULL;
    if (old)
        memcpy(part->bytes, old, old_bytes);
    free(old);
    return part->bytes;
}

static void *resize(void *owner, void *bytes, size_t old_bytes, size_t new_bytes)
{
    struct scratch *const scratch = owner;
    struct part *const part = part_of(scratch, bytes);
    void *moved;

    if (new_bytes == 0 && part)
        give_back(scratch, part);
    else if (new_bytes == 0)
        free(bytes);
    if (new_bytes == 0)
        return NULL;
    if (part && (new_bytes <= part->len || grow(scratch, part, new_bytes)))
        return part->bytes;
    if (!part && new_bytes < LONG_BYTES)
        return realloc(bytes, new_bytes);
    moved = part ? NULL : move_in(scratch, bytes, old_bytes, new_bytes);
    if (moved)
        return moved;
    tell_once(scratch, new_bytes);
    return part ? move_out(scratch, part, new_bytes) : realloc(bytes, new_bytes);
}

/* ---- What has been looked at ---- */

static void passed(void *owner)
{
    struct scratch *const scratch = owner;

    for (unsigned i = 0; i < PARTS_MAX; i++)
        if (scratch->parts[i].bytes)
            (void)madvise(scratch->parts[i].bytes, scratch->parts[i].len, MADV_DONTNEED);
    if (scratch->seen.data)
        (void)madvise(scratch->seen.data, scratch->seen.len, MADV_DONTNEED);
}

void scratch_pass(struct scratch *scratch, uint64_t from, uint64_t to)
{
    if (scratch && from / PTD_PERF_PASS_BYTES != to / PTD_PERF_PASS_BYTES)
        passed(scratch);
}

int scratch_see(struct scratch *scratch, struct input *input, struct bytes *bytes)
{
    const int error = input_see_all(input, bytes);

    if (!error && scratch && input->is_mapped)
        scratch->seen = *bytes;
    return error;
}

const struct ptd_perf_store *scratch_store(struct scratch *scratch, remark_fn tell)
{
    scratch->tell = tell;
    return &scratch->store;
}

struct scratch *scratch_new(void)
{
    struct scratch *const scratch = calloc(1, sizeof(*scratch));

    if (!scratch)
        return NULL;
    (void)signal(SIGXFSZ, SIG_IGN); /* a limit is an error then, and the copy stays in memory */
    scratch->fd = open_file();
    scratch->store = (struct ptd_perf_store){.resize = resize, .passed = passed, .owner = scratch};
    return scratch;
}

void scratch_free(struct scratch *scratch)
{
    if (!scratch)
        return;
    if (scratch->fd >= 0)
        (void)close(scratch->fd);
    free(scratch);
}
