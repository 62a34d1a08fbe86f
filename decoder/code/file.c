/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is kept of a file with code or names. It is read once, whatever the number of images and
 * address spaces that it is added to, and it is known what it costs.
 */
#include "code/file.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "code/image.h"

struct ptd_file *ptd_file_new(uint64_t max_bytes)
{
    struct ptd_file *const file = calloc(1, sizeof(*file));

    if (file)
        file->max_bytes = max_bytes;
    return file;
}

void ptd_file_free(struct ptd_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->part_count; i++)
        free(file->parts[i].bytes);
    for (size_t i = 0; i < file->texts_count; i++)
        free(file->texts[i].bytes);
    free(file->parts);
    free(file->texts);
    ptd_symbols_free(&file->symbols);
    free(file);
}

uint64_t ptd_file_bytes(const struct ptd_file *file)
{
    return file->held_bytes;
}

int ptd_file_hold(struct ptd_file *file, uint64_t len_bytes)
{
    if (len_bytes > file->max_bytes - file->held_bytes)
        return PTD_E_LIMIT;
    file->held_bytes += len_bytes;
    return PTD_OK;
}

static int read_fully(int fd, uint8_t *bytes, size_t len_bytes, uint64_t offset)
{
    while (len_bytes > 0) {
        const ssize_t got = pread(fd, bytes, len_bytes, (off_t)offset);

        if (got <= 0)
            return PTD_E_IO;
        bytes += got;
        offset += (uint64_t)got;
        len_bytes -= (size_t)got;
    }
    return PTD_OK;
}

int ptd_file_read(struct ptd_file *file, int fd, uint64_t offset, uint64_t len_bytes,
                  uint8_t **bytes)
{
    int status = ptd_file_hold(file, len_bytes);

    if (status != PTD_OK)
        return status;
    *bytes = malloc(len_bytes + 1);
    if (!*bytes)
        return PTD_E_NOMEM;
    (*bytes)[len_bytes] = 0;
    status = read_fully(fd, *bytes, len_bytes, offset);
    if (status != PTD_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

int ptd_file_grow(struct ptd_file *file)
{
    return array_grow((void **)&file->parts, &file->part_room, file->part_count,
                      sizeof(*file->parts)) &&
                   array_grow((void **)&file->texts, &file->texts_room, file->texts_count,
                              sizeof(*file->texts))
               ? PTD_OK
               : PTD_E_NOMEM;
}

int ptd_file_add_symbol(struct ptd_file *file, const struct symbol *symbol)
{
    int status;

    if (!ptd_symbols_wants(&file->symbols, symbol))
        return PTD_OK;
    status = ptd_file_hold(file, sizeof(struct extent));
    if (status != PTD_OK)
        return status;
    return ptd_symbols_add(&file->symbols, symbol) ? PTD_OK : PTD_E_NOMEM;
}

/* Room for the texts of names, which the file keeps. */
static int hold_texts(struct ptd_file *file, const struct ptd_name *names, size_t count,
                      char **texts)
{
    size_t len_bytes = 0;
    int status;

    for (size_t i = 0; i < count; i++)
        len_bytes += strlen(names[i].name) + 1;
    status = ptd_file_hold(file, len_bytes);
    if (status != PTD_OK)
        return status;
    *texts = malloc(len_bytes + 1);
    if (!*texts || ptd_file_grow(file) != PTD_OK) {
        free(*texts);
        return PTD_E_NOMEM;
    }
    file->texts[file->texts_count++] = (struct file_texts){NO_SECTION, *texts, len_bytes};
    return PTD_OK;
}

int ptd_file_add_names(struct ptd_file *file, const struct ptd_name *names, size_t count)
{
    char *text = NULL;
    int status = hold_texts(file, names, count, &text);

    for (size_t i = 0; status == PTD_OK && i < count; i++) {
        const size_t room = strlen(names[i].name) + 1;
        const uint64_t first = names[i].vaddr, beyond = names[i].len_bytes - 1;
        const struct symbol symbol = {.first = first,
                                      .last =
                                          beyond > UINT64_MAX - first ? UINT64_MAX : first + beyond,
                                      .name = memcpy(text, names[i].name, room),
                                      .rank = SYMBOL_LOCAL,
                                      .is_sized = true};

        status = ptd_file_add_symbol(file, &symbol);
        text += room;
    }
    return status;
}

int ptd_image_add_file(struct ptd_image *image, const struct ptd_file *file, uint64_t bias,
                       uint64_t cr3)
{
    int status = PTD_OK;

    if (file->part_count == 0)
        return ptd_image_add_symbols(image, &file->symbols, cr3);
    for (size_t i = 0; status == PTD_OK && i < file->part_count; i++)
        status = ptd_image_add_shared(image, file->parts[i].vaddr + bias, file->parts[i].bytes,
                                      file->parts[i].len_bytes, &file->symbols, bias, cr3);
    return status == PTD_E_ARG ? PTD_E_FORMAT : status;
}

int ptd_image_add_region(struct ptd_image *image, const char *name, uint64_t vaddr,
                         uint64_t len_bytes, const struct ptd_file *symbols, uint64_t bias,
                         uint64_t cr3)
{
    return ptd_image_name_region(image, name, vaddr, len_bytes, symbols ? &symbols->symbols : NULL,
                                 bias, cr3);
}

const struct ptd_file *ptd_image_origin(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr,
                                        uint64_t *address)
{
    const struct symbols *const symbols = ptd_image_symbols_at(image, cr3, vaddr, address);

    return symbols ? (const struct ptd_file *)((const char *)symbols -
                                               offsetof(struct ptd_file, symbols))
                   : NULL;
}

int ptd_image_take_file(struct ptd_image *image, struct ptd_file *file, uint64_t bias, uint64_t cr3)
{
    const int status = ptd_image_own_file(image, file);

    if (status == PTD_OK)
        return ptd_image_add_file(image, file, bias, cr3);
    ptd_file_free(file);
    return status;
}
