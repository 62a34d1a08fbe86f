/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces as the user names them, for the commands that decode them: options that say which part is
 * wanted, and where its code and clocks are.
 */
#ifndef VMM_CLI_DECODE_H
#define VMM_CLI_DECODE_H

#include "cli/options.h"
#include "common/sandbox.h"
#include "symbols/dwarf-file.h"
#include "view/decode.h"
#include "view/filter.h"

#define THREADS_MAX 256u

/* What is being parsed: the options, and the address space of images that follow. */
struct parsed {
    struct decode_options options;
    struct filter filter; /* of the command, which knows where it belongs */
    uint64_t cr3;
    bool no_pager;
    struct shards shards; /* of --shard, and of vpt merge: */
    bool joins;
    char *shards_folder; /* unless an option names it */
    char *cache;         /* the folder of perf's copies, unless an option names it */
};

/*
 * Of a command whose options begin with a struct parsed: which part of a trace, and its code; who
 * is wanted, and those; which functions, and all of these.
 */
extern const struct option_row options_of_traces[], options_of_who[], options_of_filters[];
/* All of these, and which piece of a trace. */
extern const struct option_row options_of_shards[];
/* The last ones of each: where the code of a perf.data is, and the sandbox. */
extern const struct option_row options_of_perf_data[];

/* Before options are parsed. 0 or an exit code; then there is nothing to free. */
int parsed_begin(struct parsed *parsed);
/* Whether sources that were asked for can be told. 0 or an exit code. */
int parsed_check_sources(const struct parsed *parsed);
/* The sources of code of what is decoded: owner is the struct decode_options (code-files.h). */
size_t parsed_frames(void *owner, const struct ptd_image *image, uint64_t cr3, uint64_t ip,
                     struct source_frame frames[FRAMES_MAX]);
/* Decodes them, in the form that options say. 0 or an exit code. */
int parsed_decode(struct parsed *parsed, char **files, size_t count);
void parsed_free(struct parsed *parsed);

/*
 * Does something with the file that an argument stands for, which may be a folder of perf or of
 * vpt record; what else is in that is taken into account. An exit code.
 */
int parsed_locate(struct decode_options *options, const char *file,
                  int (*then)(void *owner, const char *file), void *owner);
/* An option of these that a raw trace has no use for; NULL: none was given. */
const char *parsed_perf_option(const struct decode_options *options);
/* Where perf's copies of files are. False: no memory. */
bool parsed_find_copies(struct parsed *parsed);
/* Where the code of a perf.data is looked for may be read. */
void parsed_allow_perf_data(const struct decode_options *options, struct sandbox *sandbox);

#endif
