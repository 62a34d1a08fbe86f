/* SPDX-License-Identifier: BSD-3-Clause */
/* Source lines and inlined functions of instructions, behind what is shown of them. */
#ifndef VMM_VIEW_SOURCE_H
#define VMM_VIEW_SOURCE_H

#include "view/decode.h"

#include <json-c/json.h>

/* " ; program.c:12", or with --inline "; inner a.c:3 < outer b.c:7"; nothing if none is known. */
void source_print(const struct decode_options *options, const struct stream *stream, uint64_t cr3,
                  uint64_t ip);
/* The members "file" and "line", with --inline "frames". */
void source_to_json(const struct decode_options *options, const struct stream *stream, uint64_t cr3,
                    uint64_t ip, json_object *line);

#endif
