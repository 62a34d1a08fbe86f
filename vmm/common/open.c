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
        if (is_last)
            return folder;
    }
    (void)close(folder);
    return error ? error : -ENOENT;
}

int open_named_strictly(const char *root, const char *name)
{
    const int folder = open_folder(root || name[0] == '/' ? (root ? root : "/") : ".");

    return folder < 0 ? folder : open_parts(folder, name);
}

static int open_by_kernel(const char *root, const char *name)
{
    const struct open_how how = {.flags = READ_FLAGS,
                                 .resolve = RESOLVE_NO_MAGICLINKS | (root ? RESOLVE_IN_ROOT : 0)};
    const int folder = root ? open_folder(root) : AT_FDCWD;
    long fd;

    if (root && folder < 0)
        return folder;
    fd = syscall(SYS_openat2, folder, name, &how, sizeof(how));
    fd = fd < 0 ? -errno : fd;
    if (root)
        (void)close(folder);
    return (int)fd;
}

static int refuse(struct reason *why, const char *root, const char *name, const char *what,
                  int error)
{
    return reason_set(why, error, "%.200s%.240s: %s", root ? root : "", name, what);
}

int open_named(const char *root, const char *name, struct reason *why)
{
    struct stat status;
    int fd = open_by_kernel(root, name);

    if (fd == -ENOSYS)
        fd = open_named_strictly(root, name);
    if (fd == -ENXIO) /* a socket */
        return refuse(why, root, name, "not a regular file", -EINVAL);
    if (fd < 0)
        return refuse(why, root, name, strerror(-fd), fd);
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;
    (void)close(fd);
    return refuse(why, root, name, "not a regular file", -EINVAL);
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

int read_named(const char *root, const char *name, size_t max_bytes, struct bytes *bytes,
               struct reason *why)
{
    const int fd = open_named(root, name, why);
    int error;

    if (fd < 0)
        return fd;
    *bytes = (struct bytes){0};
    error = read_all(fd, max_bytes, bytes);
    (void)close(fd);
    if (error) {
        bytes_free(bytes);
        return refuse(why, root, name, strerror(-error), error);
    }
    return 0;
}
