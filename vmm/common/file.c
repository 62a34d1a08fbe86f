/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole files. */
#include "common/file.h"
#include "common/bytes.h"
#include "common/output.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int write_file(const char *path, const void *data, size_t len)
{
    struct output output;
    struct reason why = {0};
    int error = output_open(&output, path, &why);

    if (error)
        return error;
    error = output_write(&output, data, len, &why);
    if (!error)
        return output_close(&output, &why);
    output_drop(&output);
    return error;
}

int read_file_within(const char *path, size_t max_bytes, struct bytes *bytes)
{
    FILE *file = fopen(path, "rbe");
    char buffer[65536];
    size_t n;
    int error = 0;

    if (!file)
        return -errno;
    errno = EIO;
    while (!error && (n = fread(buffer, 1, sizeof(buffer), file)) > 0)
        error = n > max_bytes - bytes->len ? -EFBIG : bytes_add(bytes, buffer, n) ? 0 : -ENOMEM;
    if (ferror(file))
        error = -errno;
    fclose(file);
    return error;
}

int read_file(const char *path, struct bytes *bytes)
{
    return read_file_within(path, SIZE_MAX, bytes);
}

void beside(const char *file, const char *name, char *path, size_t path_bytes)
{
    char *copy = strdup(file);

    if (name[0] == '/' || !copy)
        snprintf(path, path_bytes, "%s", name);
    else
        snprintf(path, path_bytes, "%s/%s", dirname(copy), name);
    free(copy);
}

bool last_line(int fd, char *text, size_t text_bytes)
{
    const off_t end = lseek(fd, 0, SEEK_END);
    const off_t from = end > (off_t)text_bytes - 1 ? end - (off_t)text_bytes + 1 : 0;
    ssize_t n = pread(fd, text, text_bytes - 1, from);
    char *line;

    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    if (n <= 0)
        return false;
    text[n] = '\0';
    line = strrchr(text, '\n');
    if (line)
        memmove(text, line + 1, strlen(line));
    return true;
}

int write_text_beside(const char *path, const char *text, struct reason *why)
{
    struct output output = {0};
    int error = output_open_beside(&output, path, why);

    if (!error)
        error = output_write(&output, text, strlen(text), why);
    if (!error)
        return output_close(&output, why);
    output_drop(&output);
    return error;
}

int ensure_folder(const char *path)
{
    struct stat status;

    if (mkdir(path, S_IRWXU) == 0)
        return 0;
    if (errno != EEXIST || stat(path, &status) != 0)
        return -errno;
    return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}
