/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace in pieces, as options of vpt decode and vpt report say it. */
#ifndef VMM_CLI_SHARDS_H
#define VMM_CLI_SHARDS_H

#include "cli/decode.h"

/* The words of a command as each of its pieces must have them. False: no memory. */
bool shards_take_command(struct shards *shards, int argc, char **argv);
/*
 * Before files are parsed: the piece is opened, or what pieces there are is found, if options ask
 * for either. 0 or an exit code.
 */
int shards_begin(struct parsed *parsed, const char *trace);
/* Whether a trace can be cut, as far as options say; if not, a line says what comes of it. */
bool shards_can_cut(const struct decode_options *options, const struct input *input);
/* Whether all pieces are there that are to be put together. 0 or an exit code. */
int shards_check(const struct shards *shards);
/* The piece is complete, if all went well. An exit code: code, or of what is wrong. */
int shards_end(struct shards *shards, int code);

#endif
