/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Archives in the cpio "newc" format: the kernel takes its initial file system in it, several of
 * them one after the other, and results travel out of the lab in it.
 */
#include "common/cpio.h"
#include "common/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HEADER_BYTES 110
#define MAGIC        "070701"
#define TRAILER      "TRAILER!!!"
#define FIELD_BYTES  8
#define FIELD_SIZE   6  /* index of c_filesize */
#define FIELD_NAME   11 /* index of c_namesize */

static bool pad(struct bytes *archive)
{
    static const uint8_t zero[4];

    return bytes_add(archive, zero, -archive->len & 3);
}

bool cpio_add(struct bytes *archive, const char *name, uint32_t mode, const void *data, size_t len)
{
    char header[HEADER_BYTES + 1];
    static uint32_t inode;

    if (len > UINT32_MAX)
        return false;
    snprintf(header, sizeof(header), MAGIC "%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
             ++inode, mode, 0u, 0u, 1u, 0u, (uint32_t)len, 0u, 0u, 0u, 0u,
             (uint32_t)strlen(name) + 1, 0u);
    return bytes_add(archive, header, HEADER_BYTES) && bytes_add(archive, name, strlen(name) + 1) &&
           pad(archive) && bytes_add(archive, data, len) && pad(archive);
}

bool cpio_end(struct bytes *archive)
{
    return cpio_add(archive, TRAILER, 0, NULL, 0);
}

static bool field(const uint8_t *header, unsigned index, size_t *value)
{
    const uint8_t *digits = header + strlen(MAGIC) + index * FIELD_BYTES;

    *value = 0;
    for (unsigned i = 0; i < FIELD_BYTES; i++) {
        const char *hex = "0123456789abcdef";
        const char *digit = digits[i] ? strchr(hex, digits[i] | 0x20) : NULL;

        if (!digit)
            return false;
        *value = *value << 4 | (size_t)(digit - hex);
    }
    return true;
}

int cpio_next(const struct bytes *archive, size_t *pos, const char **name, const uint8_t **data,
              size_t *len)
{
    const uint8_t *header = archive->data + *pos;
    size_t name_len, data_at;

    if (*pos > archive->len || archive->len - *pos < HEADER_BYTES ||
        memcmp(header, MAGIC, strlen(MAGIC)) != 0 || !field(header, FIELD_NAME, &name_len) ||
        !field(header, FIELD_SIZE, len) || name_len == 0)
        return -EBADMSG;
    data_at = (*pos + HEADER_BYTES + name_len + 3) & ~(size_t)3;
    if (data_at > archive->len || *len > archive->len - data_at)
        return -EBADMSG;
    *name = (const char *)header + HEADER_BYTES;
    if ((*name)[name_len - 1] != 0)
        return -EBADMSG;
    *data = archive->data + data_at;
    *pos = (data_at + *len + 3) & ~(size_t)3;
    return strcmp(*name, TRAILER) != 0;
}
