/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file written by a thread of its own: a vCPU leaves packets in chunks of memory and goes on. It
 * waits only while all chunks are full, so that nothing is lost where the file is slow.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/thread.h"
#include "vpt-i386.h"

#define CHUNK_BYTES (1u << 18)
#define CHUNKS      (X86_VPT_WRITER_BYTES / CHUNK_BYTES)

struct X86VptWriter {
    struct X86VptFile file;
    QemuThread thread;
    QemuMutex lock;
    QemuCond more, room;
    uint8_t *memory;
    bool closing; /* written under the lock */
    /*
     * Chunks that wait for no file, under the lock. The last one that became free is the first to
     * be filled again: it is in the processor's caches, and memory that a fast file does not need
     * is never touched.
     */
    unsigned free_count;
    uint16_t free[CHUNKS];
    /* Which chunk holds the bytes from n * CHUNK_BYTES on, at n % CHUNKS, for the bytes put. */
    uint16_t chunk[CHUNKS];
    /* Of the thread; others may read them. */
    int error;        /* errno of the first write that failed */
    uint64_t written; /* bytes since the begin */
    uint8_t apart[64];
    uint64_t put; /* bytes since the begin: of who puts; the thread may read it */
};

static uint16_t *chunk_at(struct X86VptWriter *writer, uint64_t byte)
{
    return &writer->chunk[byte / CHUNK_BYTES % CHUNKS];
}

static uint8_t *memory_at(struct X86VptWriter *writer, uint64_t byte)
{
    return writer->memory + (size_t)*chunk_at(writer, byte) * CHUNK_BYTES + byte % CHUNK_BYTES;
}

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
        const uint64_t from = writer->written;
        size_t len;

        while (!has_work(writer)) {
            qemu_cond_wait(&writer->more, &writer->lock);
        }
        len = MIN(qatomic_load_acquire(&writer->put) - from, CHUNK_BYTES - from % CHUNK_BYTES);
        if (len == 0) {
            break; /* the end, and all is written */
        }
        qemu_mutex_unlock(&writer->lock);
        if (!writer->error &&
            qemu_write_full(writer->file.fd, memory_at(writer, from), len) != (ssize_t)len) {
            fail(writer, errno);
        }
        qemu_mutex_lock(&writer->lock);
        writer->written = from + len;
        if (writer->written % CHUNK_BYTES == 0) {
            writer->free[writer->free_count++] = *chunk_at(writer, from);
            qemu_cond_signal(&writer->room);
        }
    }
    qemu_mutex_unlock(&writer->lock);
    return NULL;
}

/* ---- Who puts ---- */

/* Where the next byte begins a chunk. False: nobody takes it any more. */
static bool begin_chunk(struct X86VptWriter *writer)
{
    bool open;

    qemu_mutex_lock(&writer->lock);
    while (writer->free_count == 0 && !writer->closing) {
        qemu_cond_wait(&writer->room, &writer->lock);
    }
    open = !writer->closing;
    if (open) {
        *chunk_at(writer, writer->put) = writer->free[--writer->free_count];
    }
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
        const size_t part = MIN(len, CHUNK_BYTES - put % CHUNK_BYTES);

        if (put % CHUNK_BYTES == 0 && !begin_chunk(writer)) {
            return;
        }
        memcpy(memory_at(writer, put), bytes, part);
        qatomic_store_release(&writer->put, put + part);
        if ((put + part) % CHUNK_BYTES == 0) {
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
    writer->memory = g_malloc(X86_VPT_WRITER_BYTES);
    for (writer->free_count = 0; writer->free_count < CHUNKS; writer->free_count++) {
        writer->free[writer->free_count] = CHUNKS - 1 - writer->free_count;
    }
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
    g_free(writer->memory);
    x86_vpt_file_close(&writer->file);
    g_free(writer);
}
