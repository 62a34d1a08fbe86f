/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MiniDebugInfo. A few bytes of xz can stand for a thousand times as many: no more is unpacked than
 * the caller has room for.
 */
#include "symbols/mini.h"

#include <errno.h>

#ifdef VPT_LZMA

#include <gelf.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PACKED_MAX  (UINT64_C(16) << 20)
#define MEMORY_MAX  (UINT64_C(128) << 20) /* of the decoder itself */
#define CHUNK_BYTES 65536u

static Elf_Data *find_section(Elf *elf)
{
    Elf_Scn *section = NULL;
    size_t names;

    if (elf_getshdrstrndx(elf, &names) != 0)
        return NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *const name =
            gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

        if (name && strcmp(name, ".gnu_debugdata") == 0 && header.sh_type != SHT_NOBITS &&
            header.sh_size <= PACKED_MAX)
            return elf_rawdata(section, NULL);
    }
    return NULL;
}

static int write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t done = write(fd, bytes, len);

        if (done < 0)
            return -errno;
        bytes += done;
        len -= (size_t)done;
    }
    return 0;
}

/* What comes next goes into the file. 0; 1: that was all; or -errno. */
static int unpack_some(lzma_stream *stream, int fd, uint64_t max_bytes)
{
    uint8_t chunk[CHUNK_BYTES];
    lzma_ret result;

    stream->next_out = chunk;
    stream->avail_out = sizeof(chunk);
    result = lzma_code(stream, LZMA_FINISH);
    if (result == LZMA_MEM_ERROR)
        return -ENOMEM;
    if (result == LZMA_MEMLIMIT_ERROR || stream->total_out > max_bytes)
        return -EFBIG;
    if (result != LZMA_OK && result != LZMA_STREAM_END)
        return -EBADMSG;
    if (write_all(fd, chunk, sizeof(chunk) - stream->avail_out) != 0)
        return -ENOMEM;
    return result == LZMA_STREAM_END;
}

static int unpack(const Elf_Data *packed, int fd, uint64_t max_bytes)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    int result;

    if (lzma_stream_decoder(&stream, MEMORY_MAX, 0) != LZMA_OK)
        return -ENOMEM;
    stream.next_in = packed->d_buf;
    stream.avail_in = packed->d_size;
    do
        result = unpack_some(&stream, fd, max_bytes);
    while (result == 0);
    lzma_end(&stream);
    return result < 0 ? result : 0;
}

bool mini_is_there(void)
{
    return true;
}

int mini_open(Elf *elf, uint64_t max_bytes)
{
    const Elf_Data *const packed = find_section(elf);
    int fd, error;

    if (!packed || !packed->d_buf)
        return -ENOENT;
    fd = memfd_create("debugdata", MFD_CLOEXEC);
    if (fd < 0)
        return -ENOMEM;
    error = unpack(packed, fd, max_bytes);
    if (!error)
        return fd;
    (void)close(fd);
    return error;
}

#else

bool mini_is_there(void)
{
    return false;
}

int mini_open(Elf *elf, uint64_t max_bytes)
{
    (void)elf;
    (void)max_bytes;
    return -ENOENT;
}

#endif
