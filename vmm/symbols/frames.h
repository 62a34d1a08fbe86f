/* SPDX-License-Identifier: BSD-3-Clause */
/* Source lines and inlined functions, as text and as JSON. */
#ifndef VMM_FRAMES_H
#define VMM_FRAMES_H

#include "symbols/demangle.h"
#include "symbols/dwarf-file.h"

#include <stdbool.h>
#include <stddef.h>

struct json_object;

/* What is shown of them. */
struct frames_look {
    bool lines, inlined;
    struct shown_names *shown; /* how names are shown; NULL: as they are */
};

/*
 * " ; program.c:12", or of inlined functions " ; inner a.c:3 < outer b.c:7"; nothing if none is
 * known. outer is the function that the symbol table has there; NULL: none.
 */
void frames_print(const struct frames_look *look, const struct source_frame *frames, size_t count,
                  const char *outer);
/* The members "file" and "line", and of inlined functions "frames". */
void frames_to_json(const struct frames_look *look, const struct source_frame *frames, size_t count,
                    const char *outer, struct json_object *object);

#endif
