/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log of names, followed as a trace is shown: who runs at each place, and what the files are
 * called that its code is from.
 */
#ifndef VMM_NAMED_H
#define VMM_NAMED_H

#include "trace/mapfile.h"
#include "trace/names-log.h"
#include "view/out.h"

/* Begins as zeros. */
struct named {
    struct names_log *log;
    struct ptd_image *image; /* of the trace */
    const struct map *map;   /* for what the log does not tell */
    uint64_t offset;         /* what is shown stands there */
    size_t next;             /* change */
    uint64_t until;          /* where somebody else runs next */
    /* How often something else was told, and something else of functions: for struct out_thread. */
    uint64_t changes, renames;
};

/* Takes the log; the map outlives it, and may be empty. */
void named_open(struct named *named, struct names_log *log, struct ptd_image *image,
                const struct map *map);
void named_close(struct named *named);
/* What comes next stands there: all changes up to there hold. False: no memory. */
bool named_go_to(struct named *named, uint64_t offset);
/* From where on something holds that does not yet; UINT64_MAX: nothing more is told. */
uint64_t named_next(const struct named *named);
/* A function for struct out_thread; the owner is the struct named. */
void named_who(const void *owner, uint64_t cr3, uint64_t ns, struct out_who *who);

#endif
