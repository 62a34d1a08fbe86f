/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of the program replay. */
#ifndef REPLAY_OPTIONS_H
#define REPLAY_OPTIONS_H

#include "source.h"

enum retc { RETC_TRY, RETC_ON, RETC_OFF };

struct options;
/* Called for each trace of a file that holds several, with a name and options that have its code.
 */
typedef void (*trace_fn)(const char *name, const struct options *options, const uint8_t *bytes,
                         size_t len_bytes, uint64_t base);

struct options {
    struct ptd_image *image;
    bool has_image;
    bool has_cpu;
    unsigned family, model, stepping;
    const char *profile; /* NULL: what the processor's is */
    bool user_only, kernel_only, nonroot;
    enum retc retc;
    int mtc_freq; /* -1: as the trace has it */
    enum ptd_mode mode;
    uint64_t cr3;
    unsigned filters, stops;
    struct {
        uint64_t first, last;
    } filter[4], stop[4];
    bool is_part; /* one of several traces of a file: it may have nothing to compare */
    int traces;   /* how many; they are argv[1] and so on */
};

/* Traces in argv come to its front. False: wrong, and complained about on stderr; or --help was
 * given, and *exit_code is 0. */
bool options_read(struct options *options, int argc, char **argv, int *exit_code);
void options_free(struct options *options);

#endif
