/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that the program writes. This is the one place that creates them, and these are its rules:
 *
 * - A file is created for its owner alone (0600), as what a trace tells is nobody else's.
 * - Nothing is written through a symbolic link: it may be planted. /dev/stdout, /dev/stderr,
 *   /dev/fd/N and /proc/self/fd/N are no such links, but descriptors that were given.
 * - Where others may write the folder (/tmp), a file or pipe that is there already has to be our
 *   own, or the folder's owner's, and a file has to have no other name.
 * - Pipes, terminals and devices that the user names are written as they are.
 *
 * An output is opened before the work begins whose result it takes. A file that is there keeps its
 * bytes until the first are written; one that is not there is created, and goes away if the output
 * is dropped, or if a signal ends the program.
 */
#ifndef VMM_OUTPUT_H
#define VMM_OUTPUT_H

#include "common/reason.h"

#include <stdbool.h>
#include <stddef.h>

/* Begins as zeros, which is an output that is not open. */
struct output {
    char *path;      /* of the file that is written */
    char *rename_to; /* NULL: path is its name already */
    int fd;
    bool is_open;
    bool is_file; /* a regular file with a name: other files can stand beside it */
    bool is_new;  /* was not there before */
    bool begun;   /* the bytes that were there are gone */
    char *held;   /* bytes that are written together; NULL: none so far */
    size_t held_bytes;
};

/* 0 or -errno and why; then it is not open. */
int output_open(struct output *output, const char *path, struct reason *why);
/*
 * The same, but what is written stands in a file beside it, PATH.part, until the output is closed:
 * PATH is complete or as it was. A pipe or device is written at once.
 */
int output_open_beside(struct output *output, const char *path, struct reason *why);
/* 0 or -errno and why. */
int output_write(struct output *output, const void *data, size_t len, struct reason *why);
/* The output is complete. 0 or -errno and why; in either case it is no longer open. */
int output_close(struct output *output, struct reason *why);
/* Somebody else has written the file: it stays as it is. */
void output_keep(struct output *output);
/* The output is not wanted: what was not there before goes away. Also of one that is not open. */
void output_drop(struct output *output);

#endif
