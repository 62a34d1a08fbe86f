/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole files.
 */
#ifndef VMM_FILE_H
#define VMM_FILE_H

#include "common/bytes.h"
#include "common/reason.h"

/* Writes bytes to path, by the rules of common/output.h. 0 or -errno. */
int write_file(const char *path, const void *data, size_t len);
/* The same of a text, written beside it first: the file is complete or as it was. And the reason.
 */
int write_text_beside(const char *path, const char *text, struct reason *why);
/* Reads a whole file. 0 or -errno. */
int read_file(const char *path, struct bytes *bytes);
/* The same; -EFBIG: it has more than max_bytes. */
int read_file_within(const char *path, size_t max_bytes, struct bytes *bytes);
/* The last line that is not empty of what a program left in a file. False: there is none. */
bool last_line(int fd, char *text, size_t text_bytes);
/* A folder for its owner alone, unless one is there. 0 or -errno; -ENOTDIR: something else is. */
int ensure_folder(const char *path);
/* The file `name` beside `file`. */
void beside(const char *file, const char *name, char *path, size_t path_bytes);

#endif
