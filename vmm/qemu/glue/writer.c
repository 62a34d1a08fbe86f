/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file written by a thread of its own: a vCPU leaves packets in a ring and goes on. It waits only
 * while the ring is full, so that nothing is lost where the file is slow.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/thread.h"
#include "vpt-i386.h"

#define RING_BYTES  X86_VPT_WRITER_BYTES
#define CHUNK_BYTES (1u << 16) /* the thread is woken for so many; divides RING_BYTES */

struct X86VptWriter {
    struct X86VptFile file;
    QemuThread thread;
    QemuMutex lock;
    QemuCond more, room;
    uint8_t *ring;
    bool closing; /* written under the lock */
    /* Of the thread; others may read them. */
    int error;        /* errno of the first write that failed */
    uint64_t written; /* bytes since the begin */
    uint8_t apart[64];
    /* Of who puts; the thread may read the first. */
    uint64_t put;  /* bytes since the begin */
    uint64_t seen; /* of written */
};

/* ---- The thread ---- */

static bool has_work(const struct X86VptWriter *writer)
{
    return writer->closing || qatomic_load_acquire(&writer->put) - writer->written >= CHUNK_BYTES;
}

/* What comes later is dropped. */
static void fail(struct X86VptWriter *writer, int error)
{
    if (!writer->error) {
        error_report("vpt capture: %s: %s", writer->file.name, strerror(error));
        qatomic_set(&writer->error, error);
    }
}

static void *work(void *opaque)
{
    struct X86VptWriter *writer = opaque;

    qemu_mutex_lock(&writer->lock);
    for (;;) {
        const size_t at = writer->written % RING_BYTES;
        size_t len;

        while (!has_work(writer)) {
            qemu_cond_wait(&writer->more, &writer->lock);
        }
        len = MIN(qatomic_load_acquire(&writer->put) - writer->written,
                  CHUNK_BYTES - at % CHUNK_BYTES);
        if (len == 0) {
            break; /* the end, and all is written */
        }
        qemu_mutex_unlock(&writer->lock);
        if (!writer->error &&
            qemu_write_full(writer->file.fd, writer->ring + at, len) != (ssize_t)len) {
            fail(writer, errno);
        }
        qemu_mutex_lock(&writer->lock);
        qatomic_store_release(&writer->written, writer->written + len);
        qemu_cond_signal(&writer->room);
    }
    qemu_mutex_unlock(&writer->lock);
    return NULL;
}

/* ---- Who puts ---- */

/* False: nobody takes it any more. */
static bool wait_for_room(struct X86VptWriter *writer)
{
    bool open;

    qemu_mutex_lock(&writer->lock);
    while (writer->put - writer->written == RING_BYTES && !writer->closing) {
        qemu_cond_wait(&writer->room, &writer->lock);
    }
    open = !writer->closing;
    qemu_mutex_unlock(&writer->lock);
    return open;
}

static void wake(struct X86VptWriter *writer)
{
    qemu_mutex_lock(&writer->lock);
    qemu_cond_signal(&writer->more);
    qemu_mutex_unlock(&writer->lock);
}

void x86_vpt_write(struct X86VptWriter *writer, const uint8_t *bytes, size_t len)
{
    /* Who ends it may not wait for the vCPU, which must not put more than the thread can write. */
    while (len > 0 && !qatomic_read(&writer->closing)) {
        const uint64_t put = writer->put;
        const size_t at = put % RING_BYTES;
        size_t part;

        if (put + len - writer->seen > RING_BYTES) {
            writer->seen = qatomic_load_acquire(&writer->written);
        }
        part = MIN(MIN(len, RING_BYTES - (put - writer->seen)), RING_BYTES - at);
        if (part == 0) {
            if (!wait_for_room(writer)) {
                return;
            }
            continue;
        }
        memcpy(writer->ring + at, bytes, part);
        qatomic_store_release(&writer->put, put + part);
        if (put / CHUNK_BYTES != (put + part) / CHUNK_BYTES) {
            wake(writer);
        }
        bytes += part;
        len -= part;
    }
}

/* ---- Begin and end ---- */

struct X86VptWriter *x86_vpt_writer_new(struct X86VptFile *file)
{
    struct X86VptWriter *writer = g_new0(struct X86VptWriter, 1);

    writer->file = x86_vpt_file_steal(file);
    writer->ring = g_malloc(RING_BYTES);
    qemu_mutex_init(&writer->lock);
    qemu_cond_init(&writer->more);
    qemu_cond_init(&writer->room);
    qemu_thread_create(&writer->thread, "vpt-writer", work, writer, QEMU_THREAD_JOINABLE);
    return writer;
}

int x86_vpt_write_error(const struct X86VptWriter *writer)
{
    return qatomic_read(&writer->error);
}

int x86_vpt_writer_end(struct X86VptWriter *writer)
{
    int error;

    if (writer->file.fd < 0) {
        return writer->error;
    }
    qemu_mutex_lock(&writer->lock);
    qatomic_set(&writer->closing, true);
    qemu_cond_signal(&writer->more);
    qemu_cond_signal(&writer->room);
    qemu_mutex_unlock(&writer->lock);
    qemu_thread_join(&writer->thread);
    error = close(writer->file.fd) != 0 ? errno : 0;
    writer->file.fd = -1;
    if (error) {
        fail(writer, error);
    }
    return writer->error;
}

void x86_vpt_writer_free(struct X86VptWriter *writer)
{
    if (!writer) {
        return;
    }
    (void)x86_vpt_writer_end(writer);
    qemu_cond_destroy(&writer->more);
    qemu_cond_destroy(&writer->room);
    qemu_mutex_destroy(&writer->lock);
    g_free(writer->ring);
    x86_vpt_file_close(&writer->file);
    g_free(writer);
}
