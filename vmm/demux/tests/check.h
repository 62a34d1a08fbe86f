/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world's guests (roundtrip/world.h), and what vpt demux made of them: what ran, by three
 * decoders, and nothing foreign. Each VM has one virtual processor.
 */
#ifndef VMM_DEMUX_TESTS_CHECK_H
#define VMM_DEMUX_TESTS_CHECK_H

#include "common/bytes.h"
#include "demux/tests/agree.h"
#include "roundtrip/world.h"

/* A guest's trace. */
struct made {
    struct bytes trace, code;
    struct decoded ptdec, libipt;
};

/* Of all that a guest executed, what its trace is to have. */
struct wanted {
    bool no_user, no_kernel;
    uint64_t cr3; /* 0: all */
    uint64_t first, last;
};

/* FOLDER/VM.0. Both decoders agree, and find no error in it. */
void read_made(const char *folder, unsigned vm, struct made *made);
void free_made(struct made *made);
size_t count_wanted(const struct world *world, unsigned vm, const struct wanted *wanted);
/* How many are the same from the first one on; from the last one back. */
size_t same_from_start(const struct world *world, unsigned vm, const struct wanted *wanted,
                       const struct decoded *decoded);
size_t same_to_end(const struct world *world, unsigned vm, const struct decoded *decoded);
/* It is exactly what ran. */
void check_ran(const struct world *world, unsigned vm, const struct wanted *wanted,
               const struct made *made);
/*
 * The same by perf. Not of a trace with a CR3 filter, since perf walks on behind the MOV CR3 that
 * ends tracing, nor with a range of addresses, which perf would have to be told. Nor where an
 * address is one thing in one address space and another in another.
 */
void check_perf(const char *folder, unsigned vm, const struct made *made);
/* Its code log has no code but that of what is wanted. */
void check_code(const struct world *world, unsigned vm, const struct wanted *wanted,
                const struct made *made);
/* Nothing foreign is in it; with plants, what is planted is found. */
void check_foreign(const struct world *world, unsigned vm, const struct made *made, bool plants);

#endif
