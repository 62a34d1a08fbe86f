/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that can be made to fail. Each has the name that the linker gives to what stands in the
 * way of a call (--wrap), and goes on to the function itself if no fault is due.
 */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define DUE(what) fault_is_due(__builtin_return_address(0), what)

/* RESULT NAME(ARGUMENTS) fails with ERROR and FAILED. */
#define WRAP(result, name, parameters, arguments, error, failure)                                  \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters                                                                \
    {                                                                                              \
        if (DUE(#name)) {                                                                          \
            errno = error;                                                                         \
            return failure;                                                                        \
        }                                                                                          \
        return __real_##name arguments;                                                            \
    }

WRAP(void *, malloc, (size_t len), (len), ENOMEM, NULL)
WRAP(void *, calloc, (size_t count, size_t len), (count, len), ENOMEM, NULL)
WRAP(void *, realloc, (void *old, size_t len), (old, len), ENOMEM, NULL)
WRAP(void *, reallocarray, (void *old, size_t count, size_t len), (old, count, len), ENOMEM, NULL)
WRAP(void *, aligned_alloc, (size_t to, size_t len), (to, len), ENOMEM, NULL)
WRAP(char *, strdup, (const char *text), (text), ENOMEM, NULL)
WRAP(char *, strndup, (const char *text, size_t len), (text, len), ENOMEM, NULL)
WRAP(char *, realpath, (const char *path, char *to), (path, to), ENOMEM, NULL)
WRAP(void *, mmap, (void *at, size_t len, int prot, int flags, int fd, off_t offset),
     (at, len, prot, flags, fd, offset), ENOMEM, MAP_FAILED)
WRAP(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *how, void *(*start)(void *), void *argument),
     (thread, how, start, argument), EAGAIN, EAGAIN)

WRAP(FILE *, fopen, (const char *path, const char *how), (path, how), EMFILE, NULL)
WRAP(FILE *, fdopen, (int fd, const char *how), (fd, how), ENOMEM, NULL)
WRAP(FILE *, open_memstream, (char **data, size_t *len), (data, len), ENOMEM, NULL)
WRAP(int, fstat, (int fd, struct stat *to), (fd, to), EIO, -1)
WRAP(int, stat, (const char *path, struct stat *to), (path, to), EIO, -1)
WRAP(int, ftruncate, (int fd, off_t len), (fd, len), EIO, -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), EIO, -1)
WRAP(ssize_t, read, (int fd, void *data, size_t len), (fd, data, len), EIO, -1)
WRAP(ssize_t, pread, (int fd, void *data, size_t len, off_t at), (fd, data, len, at), EIO, -1)
WRAP(ssize_t, write, (int fd, const void *data, size_t len), (fd, data, len), ENOSPC, -1)
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t len, off_t at), (fd, data, len, at), ENOSPC,
     -1)

/* ---- Those with a variable number of arguments ---- */

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    mode_t mode = 0;

    if (DUE("open")) {
        errno = EMFILE;
        return -1;
    }
    va_start(arguments, flags);
    if (flags & O_CREAT)
        mode = va_arg(arguments, mode_t);
    va_end(arguments);
    return __real_open(path, flags, mode);
}

int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list arguments;
    int len;

    if (DUE("asprintf")) {
        *text = (char *)1; /* nobody may look at it: its value is undefined */
        return -1;
    }
    va_start(arguments, format);
    len = vasprintf(text, format, arguments);
    va_end(arguments);
    return len;
}

/* ---- Streams, which remember that they failed ---- */

static void fail_stream(FILE *stream, int error)
{
    errno = error;
    stream->_flags |= _IO_ERR_SEEN;
}

size_t __real_fread(void *data, size_t size, size_t count, FILE *from);
size_t __wrap_fread(void *data, size_t size, size_t count, FILE *from);
size_t __wrap_fread(void *data, size_t size, size_t count, FILE *from)
{
    if (DUE("fread")) {
        fail_stream(from, EIO);
        return 0;
    }
    return __real_fread(data, size, count, from);
}

char *__real_fgets(char *data, int len, FILE *from);
char *__wrap_fgets(char *data, int len, FILE *from);
char *__wrap_fgets(char *data, int len, FILE *from)
{
    if (DUE("fgets")) {
        fail_stream(from, EIO);
        return NULL;
    }
    return __real_fgets(data, len, from);
}

size_t __real_fwrite(const void *data, size_t size, size_t count, FILE *to);
size_t __wrap_fwrite(const void *data, size_t size, size_t count, FILE *to);
size_t __wrap_fwrite(const void *data, size_t size, size_t count, FILE *to)
{
    if (to != stderr && DUE("fwrite")) {
        fail_stream(to, ENOSPC);
        return 0;
    }
    return __real_fwrite(data, size, count, to);
}

int __real_fflush(FILE *stream);
int __wrap_fflush(FILE *stream);
int __wrap_fflush(FILE *stream)
{
    if (stream && DUE("fflush")) {
        fail_stream(stream, ENOSPC);
        return EOF;
    }
    return __real_fflush(stream);
}

int __real_fclose(FILE *stream);
int __wrap_fclose(FILE *stream);
int __wrap_fclose(FILE *stream)
{
    const bool is_due = DUE("fclose");
    const int result = __real_fclose(stream);

    if (is_due)
        errno = ENOSPC;
    return is_due ? EOF : result;
}
