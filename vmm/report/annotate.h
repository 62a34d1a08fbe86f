/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The instructions of the functions that have one name, or of all that have any: how often each
 * ran, and how often its branch was taken. It is told blocks as they are seen and counted, and
 * keeps what they are made of, so that code may change, and images come and go.
 *
 * A function may stand at several addresses, as that of a library does in several processes. It is
 * one as long as the code is the same, and the place in its page. Others of the name are functions
 * of their own.
 */
#ifndef VMM_REPORT_ANNOTATE_H
#define VMM_REPORT_ANNOTATE_H

#include "common/table.h"
#include "ptdec.h"
#include "symbols/demangle.h"
#include "symbols/dwarf-file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANNOTATE_ELSEWHERE 0u /* the number of a block that has nothing of the function */

#define ANNOTATE_FUNCTIONS_MAX 1024u      /* of one name */
#define ANNOTATE_ALL_MAX       (1u << 15) /* functions, of all names */
#define ANNOTATE_PLACES_MAX    (1u << 20) /* addresses in address spaces */
#define ANNOTATE_LINES_MAX     (1u << 20) /* instructions, of all functions and versions */
#define ANNOTATE_REFS_MAX      (1u << 24) /* instructions of blocks */
#define ANNOTATE_SWEEP_MAX     (1u << 16) /* instructions of a function that did not run, too */
#define ANNOTATE_VERSIONS_MAX  256u       /* of an instruction */
#define ANNOTATE_FRAMES_MAX    (1u << 20) /* places in sources */

/*
 * The functions and source lines that the code at an address is from, the innermost first, as
 * dwarf_file_frames() tells them. Texts hold as long as the counts do.
 */
typedef size_t (*annotate_frames_fn)(void *owner, const struct ptd_image *image, uint64_t cr3,
                                     uint64_t ip, struct source_frame frames[FRAMES_MAX]);

/* The code of an instruction. */
struct annotate_code {
    uint8_t bytes[15];
    uint8_t size_bytes;
    uint8_t iclass; /* enum ptd_insn_class */
    uint8_t mode;   /* enum ptd_mode */
    uint32_t frame; /* where it is from: the innermost of frames, plus 1; 0: not known */
};

struct annotate_function {
    uint64_t start;                  /* where it was seen first */
    uint64_t places;                 /* addresses at which it ran */
    uint32_t name;                   /* as it is shown, in seen */
    uint32_t first_line, line_count; /* what stood there then */
};

struct annotate {
    /* As it is shown, with or without parameters, or as linkers know it; NULL: all that have one.
     */
    const char *name;
    annotate_frames_fn frames_of; /* NULL: nobody asks for sources */
    void *frames_owner;
    struct shown_names *shown; /* how names are shown; NULL: as they are */
    struct annotate_function *functions;
    size_t function_count, function_room;
    /*
     * Key: address space, start, 0; count: number of the function + 1. And key: 0, start, number of
     * the function + 1, if it ran there anywhere.
     */
    struct table places;
    /* key: function, offset, version; count: how often it ran; cost: the branch was taken */
    struct table lines;
    struct annotate_code *codes; /* of lines */
    size_t code_room;
    struct table frames; /* key: function, file, line and 2^32 times what it is in, plus 1 */
    uint32_t *refs;      /* numbers of lines, by blocks */
    size_t ref_count, ref_room;
    struct table
        blocks; /* key: first line, last line, a sum of all; cost: where in refs; count: how many */
    struct names seen; /* names of all functions that ran */
    bool is_cut;       /* a bound was reached: something is missing */
};

void annotate_begin(struct annotate *annotate, const char *name);
void annotate_free(struct annotate *annotate);

/* The number of a block, as image has its code and names now; UINT32_MAX: no memory. */
uint32_t annotate_see(struct annotate *annotate, const struct ptd_image *image,
                      const struct ptd_item *block);
/* The sources of the code of a line, the innermost first: how many; 0: they are not known. */
size_t annotate_frames(const struct annotate *annotate, const struct annotate_code *code,
                       struct source_frame frames[FRAMES_MAX]);
/* A block ran so often, and each time its last branch was taken or not. */
void annotate_add(struct annotate *annotate, uint32_t block, uint8_t last_class, bool taken,
                  uint64_t count);

#endif
