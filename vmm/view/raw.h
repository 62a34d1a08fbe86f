/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw traces, each with its TRACE.json. */
#ifndef VMM_RAW_H
#define VMM_RAW_H

#include "view/decode.h"

/* A trace that is about to be decoded. */
struct raw {
    struct sidecar sidecar;
    struct named named;
    struct stream stream;
};

/*
 * What TRACE.json of name says goes into *options, code into its image, and makes a stream of the
 * input. 0, or -errno and *why, which outlives it. To be closed in either case.
 */
int raw_open(struct decode_options *options, const char *name, struct input *input, struct raw *raw,
             struct reason *why);
void raw_close(struct raw *raw);

/*
 * The traces of several processors: merged by time, or one after the other in a format that has a
 * state of its own for each. 0, or -errno and *why.
 */
int decode_raws(struct decode_options *options, struct input *inputs, size_t count,
                struct reason *why);

#endif
