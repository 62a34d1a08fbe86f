/* SPDX-License-Identifier: BSD-3-Clause */
/* Those who read a trace, and what each of them finds in it. */
#ifndef PTD_SAME_PEERS_H
#define PTD_SAME_PEERS_H

#include "roundtrip/same/scene.h"

/* Where a branch led to that an overflow came behind: libptdec does not say. */
#define UNTOLD UINT64_MAX

struct found {
    struct list insns;               /* their addresses */
    struct list blocks, block_insns; /* address, instructions, */
    struct list block_ends;          /* and whether the last of them is a branch */
    struct arrows arrows;
    uint64_t branches; /* instructions that are some */
    uint64_t errors;
    uint64_t first_error; /* its offset, or line */
    char error[120];
};

void found_clear(struct found *found);
void found_free(struct found *found);
void found_error(struct found *found, uint64_t where, const char *what);

/* Each has what it finds of one trace put into *found, which is empty. */
void by_next(const struct scene *scene, const struct trace *trace, struct found *found);
void by_run(const struct scene *scene, const struct trace *trace, struct found *found);
void by_parallel(const struct scene *scene, const struct trace *trace, struct found *found);
void by_libipt_insns(const struct scene *scene, const struct trace *trace, struct found *found);
void by_libipt_blocks(const struct scene *scene, const struct trace *trace, struct found *found);

/* perf takes all traces at once: found[i] is of traces[i]. False: there is no perf. */
bool perf_is_there(void);
/* Writes perf.data and code into folder. */
bool perf_write(const struct scene *scene, const char *folder);
void by_perf_insns(const struct scene *scene, const char *folder, struct found *found);
void by_perf_branches(const struct scene *scene, const char *folder, struct found *found);
/* `vpt decode` on the same perf.data. */
void by_vpt(const struct scene *scene, const char *folder, struct found *found);

#endif
