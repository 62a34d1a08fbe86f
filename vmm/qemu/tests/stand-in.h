/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What writer.c and ring.c use of QEMU and GLib, over POSIX threads and the C library, so that they
 * can be run under ThreadSanitizer without a QEMU. The headers that they name are empty then.
 */
#ifndef VPT_TESTS_STAND_IN_H
#define VPT_TESTS_STAND_IN_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))

#define KiB 1024
#define MiB 1048576
#define GiB 1073741824

/* ---- Threads, as qemu-thread-posix.c has them ---- */

typedef pthread_mutex_t QemuMutex;
typedef pthread_cond_t QemuCond;
typedef pthread_t QemuThread;

#define QEMU_THREAD_JOINABLE 0

#define qatomic_read(p)             __atomic_load_n(p, __ATOMIC_RELAXED)
#define qatomic_set(p, v)           __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define qatomic_load_acquire(p)     __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define qatomic_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

#define qemu_mutex_init(m)    pthread_mutex_init(m, NULL)
#define qemu_mutex_destroy(m) pthread_mutex_destroy(m)
#define qemu_mutex_lock(m)    pthread_mutex_lock(m)
#define qemu_mutex_unlock(m)  pthread_mutex_unlock(m)
#define qemu_cond_init(c)     pthread_cond_init(c, NULL)
#define qemu_cond_destroy(c)  pthread_cond_destroy(c)
#define qemu_cond_wait(c, m)  pthread_cond_wait(c, m)
#define qemu_cond_signal(c)   pthread_cond_signal(c)

#define qemu_thread_create(thread, name, run, argument, mode)                                      \
    pthread_create(thread, NULL, run, argument)
#define qemu_thread_join(thread) pthread_join(*(thread), NULL)

static inline void stand_in_unlock(QemuMutex **lock)
{
    pthread_mutex_unlock(*lock);
}
#define QEMU_LOCK_GUARD(m)                                                                         \
    __attribute__((cleanup(stand_in_unlock))) QemuMutex *stand_in_lock = (m);                      \
    pthread_mutex_lock(stand_in_lock)

/* ---- Errors and files ---- */

typedef struct Error {
    int number;
} Error;

/* Tests look at results; what is said of them is QEMU's. */
#define error_report(...)                   ((void)0)
#define error_setg(errp, ...)               ((void)(errp))
#define error_setg_errno(errp, number, ...) ((void)(errp))

static inline ssize_t qemu_write_full(int fd, const void *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        const ssize_t part = write(fd, (const char *)data + done, len - done);

        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            break;
        }
        done += (size_t)part;
    }
    return (ssize_t)done;
}

/* ---- GLib ---- */

#define g_new0(type, count) ((type *)calloc(count, sizeof(type)))
#define g_malloc            malloc
#define g_try_malloc0(len)  calloc(1, len)
#define g_free              free

typedef struct GByteArray {
    uint8_t *data;
    size_t len;
} GByteArray;
typedef struct GString GString;

static inline GByteArray *g_byte_array_new(void)
{
    return calloc(1, sizeof(GByteArray));
}

static inline void g_byte_array_append(GByteArray *array, const void *data, size_t len)
{
    array->data = realloc(array->data, array->len + len + 1);
    if (!array->data) {
        abort();
    }
    memcpy(array->data + array->len, data, len);
    array->len += len;
}

static inline void g_byte_array_set_size(GByteArray *array, size_t len)
{
    array->len = len;
}

static inline void g_byte_array_unref(GByteArray *array)
{
    free(array->data);
    free(array);
}

static inline void stand_in_unref(GByteArray **array)
{
    g_byte_array_unref(*array);
}
#define g_autoptr(type) __attribute__((cleanup(stand_in_unref))) type *

/* ---- What vpt-i386.h names of QEMU and these files do not use ---- */

typedef struct X86CPU X86CPU;
typedef struct CPUState CPUState;
typedef struct QList QList;
typedef struct VMStateDescription VMStateDescription;
typedef int FeatureWord;
typedef struct TranslationBlock TranslationBlock;

typedef struct CPUX86State {
    struct {
        uint64_t base;
    } segs[2];
    uint64_t eip;
    uint32_t hflags;
} CPUX86State;

#define R_CS         1
#define HF_CS64_MASK 1u

#endif
