/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes what is made of an ELF file besides its code: names of the PLT, of MiniDebugInfo and of
 * debug files, lines and inlined functions, and mangled names. Files that it names are looked for
 * in folders that do not exist.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/complete.h"
#include "symbols/demangle.h"

#define BUDGET    (UINT64_C(64) << 20)
#define ADDRESSES 128u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static int file_of(const uint8_t *bytes, size_t len_bytes)
{
    static int fd = -1;

    if (fd < 0)
        fd = memfd_create("symbols", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, len_bytes, 0) != (ssize_t)len_bytes)
        abort();
    return fd;
}

static void see_names(const struct debug_places *places, const struct file_name *name, int fd)
{
    struct ptd_file *file = NULL;

    if (ptd_file_new_elf(fd, BUDGET, &file) != PTD_OK)
        return;
    (void)complete_names(places, name, fd, BUDGET, file);
    if (ptd_file_bytes(file) > BUDGET)
        abort();
    ptd_file_free(file);
}

static void see_frame(const struct source_frame *frame)
{
    char text[DEMANGLED_MAX];

    if (frame->function && demangle(frame->function, text) && strlen(text) >= sizeof(text))
        abort();
    if (frame->file && strlen(frame->file) > BUDGET)
        abort();
}

/* Seeds have their code from 0x1000 on. */
static void see_lines(const struct debug_places *places, const struct file_name *name, int fd)
{
    uint64_t left = BUDGET;
    struct dwarf_file *const file = dwarf_file_open(places, name, fd, &left);
    struct source_frame frames[FRAMES_MAX];

    for (unsigned i = 0; file && i < ADDRESSES; i++) {
        const size_t count = dwarf_file_frames(file, 0x1000 + i, &left, frames);

        if (count > FRAMES_MAX || left > BUDGET)
            abort();
        for (size_t j = 0; j < count; j++)
            see_frame(&frames[j]);
    }
    dwarf_file_close(file);
}

static void see_mangled(const uint8_t *bytes, size_t len_bytes)
{
    char name[256] = "_", text[DEMANGLED_MAX];
    const size_t len = len_bytes < sizeof(name) - 2 ? len_bytes : sizeof(name) - 2;

    memcpy(name + 1, bytes, len);
    (void)demangle(name, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static const struct debug_places places = {.folder = "/nonexistent", .cache = "/nonexistent"};
    static const struct file_name name = {.root = "/nonexistent", .path = "/file"};
    const int fd = file_of(bytes, len_bytes);

    if (len_bytes > 0 && (bytes[0] == 'Z' || bytes[0] == 'R')) {
        see_mangled(bytes, len_bytes);
        return 0;
    }
    see_names(&places, &name, fd);
    see_lines(&places, &name, fd);
    return 0;
}
