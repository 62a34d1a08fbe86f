/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of /proc and /sys, below a root that a test may choose. */
#include "record/proc.h"
#include "common/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* False: it is too long. */
static bool make_path(char path[PATH_MAX], const char *root, const char *format, va_list arguments)
{
    const int len = snprintf(path, PATH_MAX, "%s", root);

    if (len < 0 || len >= PATH_MAX)
        return false;
    return vsnprintf(path + len, PATH_MAX - (size_t)len, format, arguments) < PATH_MAX - len;
}

static int read_text(char *text, size_t text_bytes, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t len = 0;
    ssize_t n;

    text[0] = 0;
    if (fd < 0)
        return -errno;
    while (len + 1 < text_bytes && (n = read(fd, text + len, text_bytes - 1 - len)) != 0) {
        if (n > 0) {
            len += (size_t)n;
        } else if (errno != EINTR) {
            const int error = -errno;

            (void)close(fd);
            return error;
        }
    }
    (void)close(fd);
    if (len > 0 && text[len - 1] == '\n')
        len--;
    text[len] = 0;
    return (int)len;
}

int proc_text(char *text, size_t text_bytes, const char *root, const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    bool fits;

    va_start(arguments, format);
    fits = make_path(path, root, format, arguments);
    va_end(arguments);
    return fits ? read_text(text, text_bytes, path) : -ENAMETOOLONG;
}

int proc_number(uint64_t *value, const char *root, const char *format, ...)
{
    char path[PATH_MAX], text[64], *end;
    va_list arguments;
    bool fits, negative;
    uint64_t number;
    int len;

    va_start(arguments, format);
    fits = make_path(path, root, format, arguments);
    va_end(arguments);
    len = fits ? read_text(text, sizeof(text), path) : -ENAMETOOLONG;
    if (len < 0)
        return len;
    negative = text[0] == '-';
    if (text[negative] < '0' || text[negative] > '9')
        return -EINVAL;
    errno = 0;
    number = strtoull(text + negative, &end, 0);
    if (errno || *end)
        return -EINVAL;
    *value = negative ? UINT64_C(0) - number : number;
    return 0;
}

bool proc_exists(const char *root, const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    bool fits;

    va_start(arguments, format);
    fits = make_path(path, root, format, arguments);
    va_end(arguments);
    return fits && access(path, F_OK) == 0;
}

static int compare_ids(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return a < b ? -1 : a > b;
}

/* 0 or -ENOMEM. */
static int add_id(struct proc_ids *ids, size_t *room, const char *name)
{
    uint32_t *grown;

    if (name[0] < '0' || name[0] > '9')
        return 0;
    grown = list_grow(ids->list, ids->count, room, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    ids->list = grown;
    ids->list[ids->count++] = (uint32_t)strtoul(name, NULL, 10);
    return 0;
}

int proc_ids(struct proc_ids *ids, const char *root, const char *format, ...)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    size_t room = 0;
    va_list arguments;
    DIR *folder;
    bool fits;
    int error = 0;

    *ids = (struct proc_ids){0};
    va_start(arguments, format);
    fits = make_path(path, root, format, arguments);
    va_end(arguments);
    folder = fits ? opendir(path) : NULL;
    if (!folder)
        return fits ? -errno : -ENAMETOOLONG;
    while (!error && (entry = readdir(folder)))
        error = add_id(ids, &room, entry->d_name);
    (void)closedir(folder);
    if (error)
        proc_ids_free(ids);
    else if (ids->count)
        qsort(ids->list, ids->count, sizeof(*ids->list), compare_ids);
    return error;
}

void proc_ids_free(struct proc_ids *ids)
{
    free(ids->list);
    *ids = (struct proc_ids){0};
}

unsigned proc_descriptors(const char *root, uint32_t pid, const char *name)
{
    char path[PATH_MAX], target[64];
    const struct dirent *entry;
    unsigned count = 0;
    DIR *folder;

    (void)snprintf(path, sizeof(path), "%s/proc/%u/fd", root, pid);
    folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        const ssize_t len = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

        if (len < 0)
            continue;
        target[len] = 0;
        count += strcmp(target, name) == 0;
    }
    if (folder)
        (void)closedir(folder);
    return count;
}
