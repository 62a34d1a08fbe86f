/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that the program writes, and what they may not be. */
#include "common/output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUTS_MAX 64u /* that a signal removes */
#define HELD_BYTES  65536u
#define TRIES       8 /* if a file comes and goes while it is looked at */

/* ---- Files that are not complete when a signal comes ---- */

static const int ending[] = {SIGHUP, SIGINT, SIGTERM};
static const char *volatile unfinished[OUTPUTS_MAX];

static void remove_unfinished(int number)
{
    for (size_t i = 0; i < OUTPUTS_MAX; i++) {
        if (unfinished[i])
            (void)unlink(unfinished[i]);
    }
    (void)raise(number); /* SA_RESETHAND: now it ends the program */
}

static void watch_signals(void)
{
    const struct sigaction action = {.sa_handler = remove_unfinished, .sa_flags = SA_RESETHAND};
    struct sigaction before;

    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            (void)sigaction(ending[i], &action, NULL);
    }
}

static void begin_watch(const struct output *output)
{
    watch_signals();
    for (size_t i = 0; i < OUTPUTS_MAX; i++) {
        if (!unfinished[i]) {
            unfinished[i] = output->path;
            return;
        }
    }
}

static void end_watch(const struct output *output)
{
    for (size_t i = 0; i < OUTPUTS_MAX; i++) {
        if (unfinished[i] == output->path)
            unfinished[i] = NULL;
    }
}

/* ---- What may be written ---- */

/* The descriptor that a name means; -1: none. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};

    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        const char *const number = path + strlen(folders[i]);
        char *end;
        long fd;

        if (strncmp(path, folders[i], strlen(folders[i])) != 0 || !isdigit((unsigned char)*number))
            continue;
        fd = strtol(number, &end, 10);
        return *end || fd > INT_MAX ? -1 : (int)fd;
    }
    return -1;
}

static int stat_folder(const char *path, struct stat *folder)
{
    char *const copy = strdup(path);
    const int error = !copy ? -ENOMEM : stat(dirname(copy), folder) == 0 ? 0 : -errno;

    free(copy);
    return error;
}

/* A folder in which anybody, or a group whose members are kept apart, may put what is not theirs.
 */
static bool is_open_to_others(const struct stat *folder)
{
    return folder->st_mode & S_IWOTH || (folder->st_mode & S_ISVTX && folder->st_mode & S_IWGRP);
}

/* Whether something that is there may be written. 0 or -errno and why. */
static int check_found(const char *path, const struct stat *found, struct reason *why)
{
    const bool is_file = S_ISREG(found->st_mode);
    struct stat folder;
    int error;

    if (S_ISLNK(found->st_mode))
        return reason_set(why, -ELOOP, "%s: a symbolic link, through which nothing is written",
                          path);
    if (!is_file && !S_ISFIFO(found->st_mode))
        return 0;
    error = stat_folder(path, &folder);
    if (error)
        return reason_set(why, error, "%s: %s", path, strerror(-error));
    if (!is_open_to_others(&folder))
        return 0;
    if (found->st_uid != geteuid() && found->st_uid != folder.st_uid)
        return reason_set(why, -EACCES, "%s: somebody else's, in a folder that others may write",
                          path);
    if (is_file && found->st_nlink > 1)
        return reason_set(why, -EACCES, "%s: has another name, in a folder that others may write",
                          path);
    return 0;
}

/* Opens what is there. The descriptor, -ENOENT: it is there no more, or -errno and why. */
static int open_found(const char *path, struct stat *found, struct reason *why)
{
    struct stat opened;
    int fd, error;

    if (lstat(path, found) != 0)
        return reason_set(why, -errno, "%s: %s", path, strerror(errno));
    error = check_found(path, found, why);
    if (error)
        return error;
    fd = open(path, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return reason_set(why, -errno, "%s: %s", path, strerror(errno));
    if (fstat(fd, &opened) == 0 && opened.st_dev == found->st_dev && opened.st_ino == found->st_ino)
        return fd;
    close(fd);
    return reason_set(why, -ENOENT, "%s: changes while it is opened", path);
}

/* A file that was not there, and that a signal removes as soon as it is. */
static int open_new(struct output *output)
{
    sigset_t held, before;
    int fd, error;

    sigemptyset(&held);
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        sigaddset(&held, ending[i]);
    (void)pthread_sigmask(SIG_BLOCK, &held, &before);
    fd =
        open(output->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    error = errno;
    output->is_new = fd >= 0;
    if (output->is_new)
        begin_watch(output);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return fd;
}

static int open_named(struct output *output, const char *path, struct reason *why)
{
    struct stat found = {0};
    int fd = -ENOENT;

    for (int i = 0; i < TRIES && fd == -ENOENT; i++) {
        fd = open_new(output);
        if (fd < 0 && errno != EEXIST)
            return reason_set(why, -errno, "%s: %s", path, strerror(errno));
        if (fd < 0)
            fd = open_found(path, &found, why);
    }
    output->is_file = output->is_new || S_ISREG(found.st_mode);
    return fd;
}

static int open_given(int given, const char *path, struct reason *why)
{
    const int fd = fcntl(given, F_DUPFD_CLOEXEC, 0);

    return fd < 0 ? reason_set(why, -errno, "%s: %s", path, strerror(errno)) : fd;
}

static void forget(struct output *output)
{
    if (output->is_open)
        close(output->fd);
    free(output->path);
    free(output->rename_to);
    free(output->held);
    *output = (struct output){0};
}

int output_open(struct output *output, const char *path, struct reason *why)
{
    const int given = descriptor_of(path);
    int fd;

    *output = (struct output){.path = strdup(path)};
    if (!output->path)
        return reason_set(why, -ENOMEM, "no memory");
    fd = given >= 0 ? open_given(given, path, why) : open_named(output, path, why);
    if (fd < 0) {
        forget(output);
        return fd;
    }
    output->fd = fd;
    output->is_open = true;
    return 0;
}

/* Whether PATH can take the place of a file of that name: a pipe or device cannot. */
static int check_place(const char *path, bool *is_file, struct reason *why)
{
    struct stat found;
    int error;

    *is_file = true;
    if (descriptor_of(path) >= 0)
        *is_file = false;
    else if (lstat(path, &found) == 0) {
        *is_file = S_ISREG(found.st_mode);
        error = check_found(path, &found, why);
        if (error)
            return error;
        if (S_ISDIR(found.st_mode))
            return reason_set(why, -EISDIR, "%s: %s", path, strerror(EISDIR));
    }
    return 0;
}

int output_open_beside(struct output *output, const char *path, struct reason *why)
{
    char *beside = NULL;
    bool is_file;
    int error;

    *output = (struct output){0};
    error = check_place(path, &is_file, why);
    if (error)
        return error;
    if (!is_file)
        return output_open(output, path, why);
    if (asprintf(&beside, "%s.part", path) < 0)
        return reason_set(why, -ENOMEM, "no memory");
    error = output_open(output, beside, why);
    free(beside);
    if (error)
        return error;
    if (!output->is_file) {
        output_drop(output);
        return reason_set(why, -EEXIST, "%s.part: no regular file", path);
    }
    output->rename_to = strdup(path);
    if (output->rename_to)
        return 0;
    output_drop(output);
    return reason_set(why, -ENOMEM, "no memory");
}

/* ---- Writing ---- */

/* What the file had goes, once. */
static int begin(struct output *output)
{
    if (output->begun)
        return 0;
    output->begun = true;
    return output->is_file && !output->is_new && ftruncate(output->fd, 0) != 0 ? -errno : 0;
}

static int write_all(struct output *output, const char *from, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(output->fd, from, len);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            from += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int write_held(struct output *output)
{
    const size_t len = output->held_bytes;

    output->held_bytes = 0;
    return write_all(output, output->held, len);
}

static int write_or_hold(struct output *output, const void *data, size_t len)
{
    int error = begin(output);

    if (!error && output->held_bytes + len > HELD_BYTES)
        error = write_held(output);
    if (!error && !output->held && len < HELD_BYTES)
        output->held = malloc(HELD_BYTES);
    if (error || !output->held || len > HELD_BYTES)
        return error ? error : write_all(output, data, len);
    if (len > 0)
        memcpy(output->held + output->held_bytes, data, len);
    output->held_bytes += len;
    return 0;
}

static int say(const struct output *output, int error, struct reason *why)
{
    return reason_set(why, error, "%s: cannot be written: %s",
                      output->rename_to ? output->rename_to : output->path, strerror(-error));
}

int output_write(struct output *output, const void *data, size_t len, struct reason *why)
{
    const int error = write_or_hold(output, data, len);

    return error ? say(output, error, why) : 0;
}

int output_close(struct output *output, struct reason *why)
{
    int error = begin(output);

    if (!error)
        error = write_held(output);
    if (close(output->fd) != 0 && !error)
        error = -errno;
    output->is_open = false;
    if (!error && output->rename_to && rename(output->path, output->rename_to) != 0)
        error = -errno;
    end_watch(output);
    if (error)
        (void)say(output, error, why);
    if (error && (output->is_new || output->rename_to))
        (void)unlink(output->path);
    forget(output);
    return error;
}

void output_keep(struct output *output)
{
    if (output->path)
        end_watch(output);
    forget(output);
}

void output_drop(struct output *output)
{
    if (output->path) {
        end_watch(output);
        if (output->is_new || output->rename_to)
            (void)unlink(output->path);
    }
    forget(output);
}
