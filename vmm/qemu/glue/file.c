/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files that captures and the vpt port leave. They hold what a guest did, so they are made for
 * their owner alone, and nobody else can say where they go: not by a link and not by a file that
 * stands there already. Or somebody hands them over as descriptors (QMP's add-fd), and has seen to
 * that.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-types-misc-target.h"
#include "qemu/cutils.h"
#include "vpt-i386.h"

#define FDSETS "/dev/fdset/" /* as QEMU names descriptors elsewhere */

/* ---- By name ---- */

/* Who may put a link or a pipe where a file is to go. */
static bool is_trusted(uid_t owner)
{
    return owner == 0 || owner == geteuid();
}

/* A regular file has to be the user's own, by one name only. */
static bool may_write(const struct stat *status)
{
    if (S_ISREG(status->st_mode)) {
        return status->st_uid == geteuid() && status->st_nlink == 1;
    }
    return S_ISCHR(status->st_mode) || is_trusted(status->st_uid);
}

static bool claim(int fd, const char *name, Error **errp)
{
    struct stat status;

    if (fstat(fd, &status) != 0) {
        error_setg_errno(errp, errno, "%s", name);
        return false;
    }
    if (!may_write(&status)) {
        error_setg(errp, "%s: it is there already, and belongs to somebody else or has other names",
                   name);
        return false;
    }
    if (S_ISREG(status.st_mode)) {
        (void)fchmod(fd, 0600); /* not every file system has modes */
    }
    return true;
}

/* From now on who writes waits, as for a file. */
static bool let_wait(int fd, const char *name, Error **errp)
{
    const int flags = fcntl(fd, F_GETFL);

    if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0) {
        return true;
    }
    error_setg_errno(errp, errno, "%s", name);
    return false;
}

/*
 * What stands there is used, if it may be. Nobody waits for whoever is to read a pipe, or for a
 * line to be taken up: it is QEMU's main loop that would.
 */
static int open_existing(const char *name, Error **errp)
{
    struct stat status;
    int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, fd;

    if (lstat(name, &status) == 0 && S_ISLNK(status.st_mode)) {
        if (!is_trusted(status.st_uid)) {
            error_setg(errp, "%s: it is a link of somebody else", name);
            return -1;
        }
        flags &= ~O_NOFOLLOW;
    }
    fd = open(name, flags);
    if (fd < 0 && errno == ENXIO) {
        error_setg(errp, "%s: nobody reads from it", name);
    } else if (fd < 0) {
        error_setg_errno(errp, errno, "%s", name);
    } else if (!claim(fd, name, errp) || !let_wait(fd, name, errp)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int create(const char *name, Error **errp)
{
    const int fd = open(name, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);

    if (fd >= 0) {
        return fd;
    }
    if (errno == EEXIST) {
        return open_existing(name, errp);
    }
    error_setg_errno(errp, errno, "%s cannot be created", name);
    return -1;
}

/* ---- Handed over ---- */

/* A descriptor of our own: the set may go. */
static int open_fdset(const char *path, Error **errp)
{
    const int theirs = qemu_open(path, O_WRONLY, errp);
    int fd;

    if (theirs < 0) {
        return -1;
    }
    fd = fcntl(theirs, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        error_setg_errno(errp, errno, "%s", path);
    }
    qemu_close(theirs);
    return fd;
}

static int open_handed(const char *name, const VptFileList *handed, Error **errp)
{
    for (; handed; handed = handed->next) {
        if (strcmp(handed->value->name, name) == 0) {
            g_autofree char *path = g_strdup_printf(FDSETS "%" PRId64, handed->value->fdset);

            return open_fdset(path, errp);
        }
    }
    error_setg(errp, "%s was not handed over", name);
    return -1;
}

/* ---- Whole files ---- */

/* A file that was written begins anew; a pipe or a device goes on. */
static bool rewind_file(struct X86VptFile *file, Error **errp)
{
    struct stat status;

    if (fstat(file->fd, &status) == 0 &&
        (!S_ISREG(status.st_mode) ||
         (ftruncate(file->fd, 0) == 0 && lseek(file->fd, 0, SEEK_SET) == 0))) {
        return true;
    }
    error_setg_errno(errp, errno, "%s", file->name);
    return false;
}

bool x86_vpt_file_open(struct X86VptFile *file, const char *name, const VptFileList *handed,
                       Error **errp)
{
    *file = (struct X86VptFile){.fd = -1};
    if (handed) {
        file->fd = open_handed(name, handed, errp);
    } else if (strstart(name, FDSETS, NULL)) {
        file->fd = open_fdset(name, errp);
    } else {
        file->fd = create(name, errp);
    }
    if (file->fd < 0) {
        return false;
    }
    file->name = g_strdup(name);
    if (rewind_file(file, errp)) {
        return true;
    }
    x86_vpt_file_close(file);
    return false;
}

struct X86VptFile x86_vpt_file_steal(struct X86VptFile *file)
{
    const struct X86VptFile stolen = *file;

    *file = (struct X86VptFile){.fd = -1};
    return stolen;
}

bool x86_vpt_file_write(struct X86VptFile *file, const struct iovec *parts, size_t count,
                        Error **errp)
{
    if (!rewind_file(file, errp)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (qemu_write_full(file->fd, parts[i].iov_base, parts[i].iov_len) !=
            (ssize_t)parts[i].iov_len) {
            error_setg_errno(errp, errno, "%s", file->name);
            return false;
        }
    }
    return true;
}

int x86_vpt_file_close(struct X86VptFile *file)
{
    int error = 0;

    if (file->name) {
        error = file->fd >= 0 && close(file->fd) != 0 ? errno : 0;
        g_free(file->name);
    }
    *file = (struct X86VptFile){.fd = -1};
    return error;
}
