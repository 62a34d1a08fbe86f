/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture that stays in memory: the last packets, and the records of code and names that they
 * need.
 *
 * Records cannot be dropped one by one, since what was told once holds on. So they come in
 * generations: a new one begins when as many bytes of packets as the ring holds have come, and
 * tells all anew. The present one and the one before it are kept: together they reach back as
 * far as the packets do.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/lockable.h"
#include "vpt-i386.h"

/* At least so long is a generation, in bytes of packets or of records. */
#define GENERATION_BYTES (4 * MiB)

struct generation {
    uint64_t begin; /* in the trace */
    GByteArray *records;
    GByteArray *names; /* lines */
};

struct X86VptRing {
    QemuMutex lock; /* around all that follows */
    bool closed;
    size_t size;
    uint64_t put; /* bytes since the begin */
    struct generation before, now;
    uint8_t bytes[];
};

struct X86VptRing *x86_vpt_ring_new(uint64_t size, Error **errp)
{
    struct X86VptRing *ring;

    if (size < X86_VPT_RING_MIN || size > X86_VPT_RING_MAX) {
        error_setg(errp, "a ring has %" PRIu64 " to %" PRIu64 " bytes", (uint64_t)X86_VPT_RING_MIN,
                   (uint64_t)X86_VPT_RING_MAX);
        return NULL;
    }
    ring = g_try_malloc0(sizeof(*ring) + size);
    if (!ring) {
        error_setg(errp, "no memory for a ring of %" PRIu64 " bytes", size);
        return NULL;
    }
    qemu_mutex_init(&ring->lock);
    ring->size = size;
    ring->before = (struct generation){0, g_byte_array_new(), g_byte_array_new()};
    ring->now = (struct generation){0, g_byte_array_new(), g_byte_array_new()};
    return ring;
}

void x86_vpt_ring_free(struct X86VptRing *ring)
{
    if (!ring) {
        return;
    }
    g_byte_array_unref(ring->before.records);
    g_byte_array_unref(ring->before.names);
    g_byte_array_unref(ring->now.records);
    g_byte_array_unref(ring->now.names);
    qemu_mutex_destroy(&ring->lock);
    g_free(ring);
}

uint64_t x86_vpt_ring_size(const struct X86VptRing *ring)
{
    return ring->size;
}

/* ---- Of the vCPU ---- */

void x86_vpt_ring_write(struct X86VptRing *ring, const uint8_t *bytes, size_t len)
{
    QEMU_LOCK_GUARD(&ring->lock);

    while (len > 0 && !ring->closed) {
        const size_t at = ring->put % ring->size, part = MIN(len, ring->size - at);

        memcpy(ring->bytes + at, bytes, part);
        ring->put += part;
        bytes += part;
        len -= part;
    }
}

void x86_vpt_ring_add_code(struct X86VptRing *ring, const uint8_t *record, size_t len)
{
    QEMU_LOCK_GUARD(&ring->lock);

    if (!ring->closed) {
        g_byte_array_append(ring->now.records, record, len);
    }
}

void x86_vpt_ring_add_names(struct X86VptRing *ring, const char *line, size_t len)
{
    QEMU_LOCK_GUARD(&ring->lock);

    if (!ring->closed) {
        g_byte_array_append(ring->now.names, (const uint8_t *)line, len);
    }
}

bool x86_vpt_ring_is_due(const struct X86VptRing *ring)
{
    const uint64_t limit = MAX(ring->size, GENERATION_BYTES);

    return ring->put - ring->now.begin >= limit || ring->now.records->len >= limit ||
           ring->now.names->len >= limit;
}

void x86_vpt_ring_turn(struct X86VptRing *ring)
{
    QEMU_LOCK_GUARD(&ring->lock);

    if (!ring->closed) {
        const struct generation old = ring->before;

        ring->before = ring->now;
        g_byte_array_set_size(old.records, 0);
        g_byte_array_set_size(old.names, 0);
        ring->now = (struct generation){ring->put, old.records, old.names};
    }
}

void x86_vpt_ring_close(struct X86VptRing *ring)
{
    QEMU_LOCK_GUARD(&ring->lock);

    ring->closed = true;
}

/* ---- Files ---- */

static bool save_packets(const struct X86VptRing *ring, uint64_t begin, struct X86VptFile *file,
                         Error **errp)
{
    const size_t at = begin % ring->size, len = ring->put - begin, part = MIN(len, ring->size - at);
    const struct iovec parts[] = {
        {(void *)(ring->bytes + at), part},
        {(void *)ring->bytes, len - part},
    };

    return x86_vpt_file_write(file, parts, ARRAY_SIZE(parts), errp);
}

static bool save_code(const struct X86VptRing *ring, uint64_t begin, struct X86VptFile *file,
                      Error **errp)
{
    g_autoptr(GByteArray) log = g_byte_array_new();
    const struct iovec *part;

    g_byte_array_append(log, (const uint8_t *)X86_VPT_CODE_MAGIC, strlen(X86_VPT_CODE_MAGIC));
    x86_vpt_code_copy(log, ring->before.records, begin);
    x86_vpt_code_copy(log, ring->now.records, begin);
    part = &(const struct iovec){log->data, log->len};
    return x86_vpt_file_write(file, part, 1, errp);
}

/* Offsets of names stay as they are: the first line says where the packets begin. */
static bool save_names(const struct X86VptRing *ring, uint64_t begin, struct X86VptFile *file,
                       Error **errp)
{
    char head[80];
    const int len = snprintf(head, sizeof(head), X86_VPT_NAMES_HEAD "%" PRIu64 "}\n", begin);
    const struct iovec parts[] = {
        {head, len},
        {ring->before.names->data, ring->before.names->len},
        {ring->now.names->data, ring->now.names->len},
    };

    return x86_vpt_file_write(file, parts, ARRAY_SIZE(parts), errp);
}

bool x86_vpt_ring_save(struct X86VptRing *ring, struct X86VptFile *trace, struct X86VptFile *code,
                       struct X86VptFile *names, Error **errp)
{
    uint64_t begin;

    QEMU_LOCK_GUARD(&ring->lock);
    begin = ring->put > ring->size ? ring->put - ring->size : 0;
    begin = MAX(begin, ring->before.begin); /* what ran before it is not known any more */
    return save_packets(ring, begin, trace, errp) &&
           (!code || save_code(ring, begin, code, errp)) &&
           (!names || save_names(ring, begin, names, errp));
}
