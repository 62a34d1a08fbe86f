/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace that is read piece by piece: a file, a pipe, or standard input.
 */
#include "trace/input.h"
#include "common/bytes.h"

#include "ptdec_perf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERF_MAGIC_BYTES 8u

int input_open(struct input *input, const char *path)
{
    struct stat status;

    *input = (struct input){.name = path, .fd = STDIN_FILENO};
    if (strcmp(path, "-") == 0)
        input->name = "standard input";
    else
        input->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0 || fstat(input->fd, &status) != 0)
        return -errno;
    input->is_file = S_ISREG(status.st_mode) && lseek(input->fd, 0, SEEK_CUR) == 0;
    input->piece = malloc(INPUT_PIECE);
    return input->piece ? 0 : -ENOMEM;
}

void input_close(struct input *input)
{
    if (input->fd > STDIN_FILENO)
        (void)close(input->fd);
    bytes_free(&input->head);
    free(input->piece);
    if (input->is_mapped)
        (void)munmap(input->whole.data, input->whole.len);
    else
        bytes_free(&input->whole);
    *input = (struct input){.fd = -1};
}

/* A piece from the file. */
static int read_piece(struct input *input)
{
    ssize_t n;

    if (input->at_end)
        return 0;
    if (!input->is_file) /* what was printed shall not wait for what comes */
        (void)fflush(stdout);
    do
        n = read(input->fd, input->piece, INPUT_PIECE);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    input->at_end = n == 0;
    return (int)n;
}

int input_look(struct input *input, size_t len)
{
    int n = 1;

    while (input->head.len < len && (n = read_piece(input)) > 0)
        if (!bytes_add(&input->head, input->piece, (size_t)n))
            return -ENOMEM;
    return n < 0 ? n : 0;
}

int input_is_perf_data(struct input *input, bool *is_perf_data)
{
    const int error = input_look(input, PERF_MAGIC_BYTES);

    *is_perf_data = !error && ptd_perf_detect(input->head.data, input->head.len);
    return error;
}

int input_take(struct input *input, const uint8_t **bytes)
{
    const size_t left = input->head.len - input->taken;
    const size_t n = left < INPUT_PIECE ? left : INPUT_PIECE;

    if (n == 0) {
        bytes_free(&input->head);
        input->taken = 0;
        *bytes = input->piece;
        return read_piece(input);
    }
    *bytes = input->head.data + input->taken;
    input->taken += n;
    return (int)n;
}

int input_take_all(struct input *input, struct bytes *bytes)
{
    const int error = input_look(input, SIZE_MAX);

    if (error)
        return error;
    *bytes = input->head;
    input->head = (struct bytes){0};
    return 0;
}

int input_see_all(struct input *input, struct bytes *bytes)
{
    const uint64_t size = input_size(input);
    void *const pages = size > 0 && size <= SIZE_MAX
                            ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, input->fd, 0)
                            : MAP_FAILED;
    int error = 0;

    input->is_mapped = pages != MAP_FAILED;
    if (input->is_mapped)
        input->whole = (struct bytes){.data = pages, .len = (size_t)size};
    else
        error = input_take_all(input, &input->whole);
    *bytes = input->whole;
    return error;
}

int input_seek(struct input *input, uint64_t offset)
{
    if (lseek(input->fd, (off_t)offset, SEEK_SET) < 0)
        return -errno;
    bytes_free(&input->head);
    input->taken = 0;
    input->at_end = false;
    return 0;
}

uint64_t input_size(const struct input *input)
{
    struct stat status;

    return input->is_file && fstat(input->fd, &status) == 0 ? (uint64_t)status.st_size : 0;
}
