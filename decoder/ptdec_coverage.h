/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coverage: which ways a trace went, for fuzzers and for tools that show covered code. A part of
 * libptdec; the conventions are those of ptdec.h.
 *
 * An edge is what the trace itself had to say: a conditional branch, taken or not; a RET; an
 * indirect JMP or CALL; a far transfer other than IRET and its kin. It goes from the address of the
 * branch to the address of the instruction that ran next. Direct jumps and calls are no edges: the
 * edge in front of them leads to them and nowhere else. What interrupts, exceptions, IRET and VM
 * entries lead to is no edge either, because it is another place each time.
 *
 * Edges are counted exactly, each time they are taken, into a map of bytes as AFL has it, into
 * lists, or into both.
 */
#ifndef PTDEC_COVERAGE_H
#define PTDEC_COVERAGE_H

#include "ptdec.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ptd_coverage;

/* What a byte of the map does at 255. */
enum ptd_coverage_counter {
    PTD_COVERAGE_WRAP,       /* goes on at 0, as AFL's and libxdc's do */
    PTD_COVERAGE_NEVER_ZERO, /* goes on at 1, as AFL++'s do */
    PTD_COVERAGE_SATURATE,   /* stays */
};

/*
 * The place of an edge in the map is (mix(to) ^ (mix(from) >> 1)) modulo map_bytes, where mix() is
 * one of these, of 64 bits. Bit by bit they are:
 */
enum ptd_coverage_hash {
    /*
     * x ^= x >> 32; x *= D6E8FEB86659FD93H; x ^= x >> 32; x *= D6E8FEB86659FD93H; x ^= x >> 32.
     * All bits of an address count.
     */
    PTD_COVERAGE_MIX,
    /*
     * x ^= x >> 31; x *= 7FB5D329728EA185H. libxdc's: of user code, a small map tells apart only
     * what is not a multiple of its size away.
     */
    PTD_COVERAGE_LIBXDC,
};

/* Addresses from first to last, both included, where code counts. */
struct ptd_coverage_range {
    uint64_t first, last;
    uint64_t cr3; /* only in this address space (struct ptd_item, .cr3); PTD_ANY_CR3: in all */
};

#define PTD_COVERAGE_MAP_MAX     (UINT32_C(1) << 30) /* bytes */
#define PTD_COVERAGE_ENTRIES_MAX (UINT32_C(1) << 24) /* of each list */

struct ptd_coverage_config {
    uint8_t *map;     /* the caller's, who clears it; NULL: none */
    size_t map_bytes; /* a power of two, at most PTD_COVERAGE_MAP_MAX */
    uint8_t counter;  /* enum ptd_coverage_counter */
    uint8_t hash;     /* enum ptd_coverage_hash */
    /*
     * x of mix() is an address, or with by_space an address ^ mix(CR3): the same code in two
     * address spaces has other places then, and also in two runs that have other values of CR3.
     */
    bool by_space;
    bool lists; /* of edges and blocks, too */
    /*
     * Both ends of an edge must be within these, of a block its first instruction. They are copied.
     * 0: all code counts.
     */
    const struct ptd_coverage_range *ranges;
    size_t range_count;
};

/* PTD_OK; PTD_E_ARG: out of range; PTD_E_NOMEM. *coverage is to be freed. */
int ptd_coverage_new(const struct ptd_coverage_config *config, struct ptd_coverage **coverage);
void ptd_coverage_free(struct ptd_coverage *coverage); /* may be NULL */

/* What was counted, and what could not be. */
struct ptd_coverage_sums {
    uint64_t edges;     /* so often one was taken, that counts */
    uint64_t insns;     /* instructions, whether they count or not */
    uint64_t errors;    /* PTD_ITEM_ERROR: behind each, decoding goes on, and edges are missing */
    uint64_t lost;      /* bytes of the trace that they cost */
    uint64_t overflows; /* PTD_ITEM_OVERFLOW: the processor lost packets, so edges are missing */
    uint64_t left_out;  /* edges and blocks that found a list full */
    int first_error;    /* enum ptd_error of the first of them, else PTD_OK */
    uint64_t error_offset; /* in its trace */
    uint64_t error_ip;     /* of the code that is missing or does not agree; 0: not known */
};

/*
 * Decodes a trace, and counts. What was found out about code stays for the next trace of the same
 * image, as long as nothing is added to that. bytes must stay until the function returns, image
 * until a trace of another image was counted, or ptd_coverage_free(). config is as for
 * ptd_flow_new(), and may be another one for each trace. *sums, if not NULL, are those of this
 * trace. PTD_OK, also if the trace has errors; PTD_E_NOMEM: a part was counted.
 */
int ptd_coverage_trace(struct ptd_coverage *coverage, const struct ptd_image *image,
                       const struct ptd_flow_config *config, const void *bytes, size_t len_bytes,
                       struct ptd_coverage_sums *sums);

/*
 * The same for who decodes: counts what ptd_flow_run() has told, the item included. It is a
 * ptd_run_fn whose context is the struct ptd_coverage. Each run of a flow has to be counted, in
 * order. The map and the sums have it when ptd_coverage_sums() was asked. PTD_OK; PTD_E_NOMEM: a
 * part was counted.
 */
int ptd_coverage_add(void *context, const struct ptd_flow *flow, const struct ptd_run *run);
/* An item that ptd_flow_next() told. image is not looked at. PTD_OK or PTD_E_NOMEM. */
int ptd_coverage_item(struct ptd_coverage *coverage, const struct ptd_image *image,
                      const struct ptd_item *item);
/*
 * The next run is of another flow, or of another trace of ptd_flow_parallel(): steps have other
 * numbers.
 */
void ptd_coverage_restart(struct ptd_coverage *coverage);

/*
 * Of all traces since ptd_coverage_new() or ptd_coverage_clear(). Valid until the next call. What
 * ptd_coverage_add() counted is in the map from here on, which must still be there.
 */
const struct ptd_coverage_sums *ptd_coverage_sums(struct ptd_coverage *coverage);
/* Sums and lists begin anew, and what is not in the map yet is dropped. The map is the caller's. */
void ptd_coverage_clear(struct ptd_coverage *coverage);

/* An edge, or a block of instructions that ran one after the other and stand so in memory. */
struct ptd_coverage_entry {
    uint64_t from;  /* of an edge: the branch. Of a block: its first byte */
    uint64_t to;    /* of an edge: where it went. Of a block: the byte behind its last */
    uint64_t cr3;   /* the address space, as in an item */
    uint64_t count; /* so often it was taken, or ran; at least 1 */
};

/*
 * The lists: *entries, in no order, valid until the next call that has a coverage that is not
 * const. Each edge, and each block, is there once. A block that is cut short by an interrupt is
 * another block. PTD_OK; PTD_E_NOMEM; PTD_E_ARG: lists were not asked for.
 */
int ptd_coverage_edges(struct ptd_coverage *coverage, const struct ptd_coverage_entry **entries,
                       size_t *count);
int ptd_coverage_blocks(struct ptd_coverage *coverage, const struct ptd_coverage_entry **entries,
                        size_t *count);

#ifdef __cplusplus
}
#endif

#endif
