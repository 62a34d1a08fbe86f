/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A piece of a trace in a file: what it came to, and behind that one line of JSON that says of
 * what. Files of pieces come from anywhere, and are checked against the trace.
 */
#ifndef VMM_VIEW_PIECE_H
#define VMM_VIEW_PIECE_H

#include "common/bytes.h"
#include "common/output.h"

#include <stdint.h>

#define SHARDS_MAX 65536u

struct piece {
    unsigned number, count; /* from 1 on */
    uint64_t trace_bytes;   /* of all */
    uint64_t begin, end;    /* offsets */
    uint64_t trace;         /* what stands for the bytes between them */
    uint64_t modified;      /* when the trace's file was, in ns since 1970; 0: it is not known */
    uint64_t before, behind;
    uint64_t errors;
    uint64_t has_time; /* whether all of the trace tells time, as far as anybody asked: 1 or 0 */
};

/* Where a piece begins: the first PSB behind as many equal parts; 0 for number 1. */
uint64_t shard_begin(const uint8_t *bytes, size_t len, unsigned number, unsigned count);
/* From where decoding comes to what is known there: a PSB in front of it, or 0. */
uint64_t shard_warm(const uint8_t *bytes, size_t len, uint64_t begin);

/* FOLDER/I-of-N, of malloc(); NULL: no memory. */
char *piece_path(const char *folder, unsigned number, unsigned count);
/* The last line. 0, or -errno and the reason, here and below. */
int piece_end(struct output *output, const struct piece *piece, const char *command,
              struct reason *why);

struct piece_file {
    char *path;
    struct bytes bytes;
    size_t payload_bytes; /* of them */
    struct piece piece;
};

/* What stands in a file of this name: its last line is right. */
int piece_parse(struct piece_file *file, const char *command, struct reason *why);
/*
 * What a piece of this command says of itself, of whatever trace. 0; -ENOENT: it is not there;
 * other -errno.
 */
int piece_look(const char *folder, unsigned number, unsigned count, const char *command,
               struct piece *piece);
/*
 * The file of a piece, which must be one of this place of a trace so long, and of this command;
 * -ENOENT: it is not there. To be closed in either case.
 */
int piece_read(const char *folder, const struct piece *wanted, const char *command,
               struct piece_file *file, struct reason *why);
void piece_close(struct piece_file *file);

#endif
