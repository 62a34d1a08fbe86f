/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the Linux kernel's functions from its kallsyms: lines of an address, a letter, a name,
 * and perhaps a module in brackets.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code/file.h"
#include "code/image.h"

#define LINE_BYTES 1023

/* PTD_OK also for what is no function; PTD_E_FORMAT: not a line of kallsyms. */
static int add_line(struct ptd_file *file, char *line)
{
    char *end, *name;
    const uint64_t address = strtoull(line, &end, 16);
    char kind;

    if (end == line || *end != ' ' || !end[1] || end[2] != ' ')
        return PTD_E_FORMAT;
    kind = end[1];
    name = end + 3;
    name[strcspn(name, " \t\n")] = 0;
    /* Without the right to see them, all addresses read as 0. */
    if (!*name || !address || !strchr("tTwW", kind))
        return PTD_OK;
    return ptd_file_add_symbol(file, &(struct symbol){.first = address,
                                                      .last = UINT64_MAX,
                                                      .name = name,
                                                      .rank = kind == 'T' ? SYMBOL_GLOBAL
                                                              : kind == 'w' || kind == 'W'
                                                                  ? SYMBOL_WEAK
                                                                  : SYMBOL_LOCAL});
}

static int add_lines(struct ptd_file *file, char *text, const char *end)
{
    int status = PTD_OK;

    while (status == PTD_OK && text < end) {
        char *const line = text;
        char *const newline = memchr(line, '\n', (size_t)(end - line));

        text = newline ? newline + 1 : (char *)end;
        if (newline)
            *newline = 0;
        status = text - line > LINE_BYTES ? PTD_E_FORMAT : add_line(file, line);
    }
    return status;
}

static int read_text(struct ptd_file *file, int fd)
{
    struct file_texts *texts;
    struct stat info;
    uint8_t *bytes;
    int status;

    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return PTD_E_IO;
    status = ptd_file_grow(file);
    if (status == PTD_OK)
        status = ptd_file_read(file, fd, 0, (uint64_t)info.st_size, &bytes);
    if (status != PTD_OK)
        return status;
    texts = &file->texts[file->texts_count++];
    *texts = (struct file_texts){.bytes = (char *)bytes, .len_bytes = (size_t)info.st_size};
    return add_lines(file, texts->bytes, texts->bytes + texts->len_bytes);
}

int ptd_file_new_kallsyms(int fd, uint64_t max_bytes, struct ptd_file **file)
{
    struct ptd_file *const made = ptd_file_new(max_bytes);
    const int status = made ? read_text(made, fd) : PTD_E_NOMEM;

    if (status == PTD_OK || status == PTD_E_FORMAT)
        *file = made;
    else
        ptd_file_free(made);
    return status;
}

int ptd_image_add_kallsyms(struct ptd_image *image, const char *path, uint64_t cr3)
{
    /* Nobody waits for the writer of a FIFO. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct ptd_file *file;
    int status, added;

    if (fd < 0)
        return PTD_E_IO;
    status = ptd_file_new_kallsyms(fd, UINT64_MAX, &file);
    (void)close(fd);
    if (status != PTD_OK && status != PTD_E_FORMAT)
        return status;
    added = ptd_image_take_file(image, file, 0, cr3);
    return added == PTD_OK ? status : added;
}
