/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens files whose names are not to be trusted. */
#include "common/open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRIES_MAX  1000u
#define READ_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

static int open_folder(const char *root)
{
    const int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* The next part of a name, which moves behind it. False: there is none. */
static bool next_part(const char **name, char *part, size_t part_bytes, int *error)
{
    size_t len;

    *name += strspn(*name, "/");
    len = strcspn(*name, "/");
    *error = len >= part_bytes ? -ENAMETOOLONG : 0;
    if (len == 0 || *error)
        return false;
    memcpy(part, *name, len);
    part[len] = 0;
    *name += len;
    return true;
}

/* Whether it is a regular file; fd is closed unless it is. 0 or -errno. */
static int check_regular(int fd)
{
    struct stat status;

    if (fd < 0)
        return fd;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return 0;
    (void)close(fd);
    return -EINVAL;
}

/* From folder, which is closed. */
static int open_parts(int folder, const char *name)
{
    char part[NAME_MAX + 1];
    int error = 0;

    while (next_part(&name, part, sizeof(part), &error)) {
        const bool is_last = name[strspn(name, "/")] == 0;
        int next;

        if (strcmp(part, "..") == 0)
            next = -ELOOP;
        else
            next = openat(folder, part,
                          O_NOFOLLOW | (is_last ? READ_FLAGS : O_PATH | O_DIRECTORY | O_CLOEXEC));
        error = next == -1 ? -errno : next < 0 ? next : 0;
        (void)close(folder);
        if (error)
            return error;
        folder = next;
        if (is_last) {
            error = check_regular(folder);
            return error ? error : folder;
        }
    }
    (void)close(folder);
    return error ? error : -ENOENT;
}

int open_named_strictly(const struct file_name *name)
{
    const int folder = open_folder(name->root ? name->root : name->path[0] == '/' ? "/" : ".");

    return folder < 0 ? folder : open_parts(folder, name->path);
}

static int open_by_kernel(int folder, const char *name, bool in_root, uint64_t flags)
{
    const struct open_how how = {
        .flags = flags, .resolve = RESOLVE_NO_MAGICLINKS | (in_root ? RESOLVE_IN_ROOT : 0)};
    long fd = -1;

    /* With a "..", it gives up where anything at all was renamed or mounted meanwhile. */
    for (unsigned tries = 0; fd < 0 && (tries == 0 || errno == EAGAIN) && tries < TRIES_MAX;
         tries++)
        fd = syscall(SYS_openat2, folder, name, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

/* Looks before it opens: to open a device can have an effect of its own. */
static int look_and_open(int folder, const char *name, bool in_root)
{
    int fd = open_by_kernel(folder, name, in_root, O_PATH | O_CLOEXEC), error;

    error = check_regular(fd);
    if (error)
        return error;
    (void)close(fd);
    fd = open_by_kernel(folder, name, in_root, READ_FLAGS);
    error = check_regular(fd);
    return error ? error : fd;
}

int blame_file(struct reason *why, const struct file_name *name, const char *what, int error)
{
    return reason_set(why, error, "%.200s%.240s: %s", name->root ? name->root : "", name->path,
                      what);
}

static int open_of_user(const char *path)
{
    const int fd = open(path, READ_FLAGS);
    int error;

    if (fd < 0)
        return -errno;
    error = check_regular(fd);
    return error ? error : fd;
}

static int open_of_trace(const struct file_name *name)
{
    const int folder = name->root ? open_folder(name->root) : AT_FDCWD;
    int fd;

    if (name->root && folder < 0)
        return folder;
    fd = look_and_open(folder, name->path, name->root != NULL);
    if (name->root)
        (void)close(folder);
    return fd == -ENOSYS ? open_named_strictly(name) : fd;
}

int open_named(const struct file_name *name, struct reason *why)
{
    const int fd = name->by_user ? open_of_user(name->path) : open_of_trace(name);

    if (fd >= 0)
        return fd;
    return blame_file(why, name, fd == -EINVAL ? "not a regular file" : strerror(-fd), fd);
}

static int read_all(int fd, size_t max_bytes, struct bytes *bytes)
{
    char buffer[65536];
    ssize_t n;

    for (;;) {
        n = read(fd, buffer, sizeof(buffer));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        if ((size_t)n > max_bytes - bytes->len)
            return -EFBIG;
        if (!bytes_add(bytes, buffer, (size_t)n))
            return -ENOMEM;
    }
}

int read_named(const struct file_name *name, size_t max_bytes, struct bytes *bytes,
               struct reason *why)
{
    const int fd = open_named(name, why);
    int error;

    if (fd < 0)
        return fd;
    *bytes = (struct bytes){0};
    error = read_all(fd, max_bytes, bytes);
    (void)close(fd);
    if (!error)
        return 0;
    bytes_free(bytes);
    return blame_file(why, name, strerror(-error), error);
}
