/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace that is read piece by piece: a file, a pipe, or standard input. */
#ifndef VMM_INPUT_H
#define VMM_INPUT_H

#include "common/bytes.h"

#define INPUT_PIECE (256u << 10) /* the most that is read at a time */

struct input {
    const char *name; /* for messages */
    int fd;
    bool is_file;      /* may be read at any offset, and does not keep one waiting */
    bool at_end;       /* of what follows head */
    struct bytes head; /* looked at; so much of it is taken: */
    size_t taken;
    uint8_t *piece;     /* INPUT_PIECE */
    struct bytes whole; /* of input_see_all() */
    bool is_mapped;     /* whole is the file's pages */
};

/* path "-": standard input. 0 or -errno. */
int input_open(struct input *input, const char *path);
void input_close(struct input *input);
/* Looks at the begin. 0 or -errno. */
int input_is_perf_data(struct input *input, bool *is_perf_data);
/* Reads so that input->head has len bytes, or all that there are. 0 or -errno. */
int input_look(struct input *input, size_t len);
/* The next bytes: how many, 0 at the end, or -errno. Valid until the next call. */
int input_take(struct input *input, const uint8_t **bytes);
/* All of it, head included. 0 or -errno. */
int input_take_all(struct input *input, struct bytes *bytes);
/*
 * The same for looking at, up to input_close(): of a file it is its pages, which take no memory
 * that the system could not have back. 0 or -errno.
 */
int input_see_all(struct input *input, struct bytes *bytes);
/* The length of a file in bytes; 0: of a pipe, or not known. */
uint64_t input_size(const struct input *input);
/* What is taken next begins at this offset of a file (input->is_file). 0 or -errno. */
int input_seek(struct input *input, uint64_t offset);

#endif
