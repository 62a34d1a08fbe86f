/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code log of one virtual processor (docs/trace-files.md): the bytes of its instructions, and
 * of nothing else. Physical pages have numbers of the log's own.
 */
#ifndef VMM_DEMUX_CODE_OUT_H
#define VMM_DEMUX_CODE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/output.h"

struct code_out;

/* What stands at an address, beside what the log has there. */
enum code_news { CODE_SAME, CODE_NEW, CODE_CHANGED };

/* Writes to an open output, which must outlive it. NULL: no memory. */
struct code_out *code_out_new(struct output *output);
void code_out_free(struct code_out *code);
/* The first bytes of the file. 0, or -errno and why. */
int code_out_begin(struct code_out *code, struct reason *why);
/* Bytes of one page, at least one. space is a CR3. */
enum code_news code_out_look(const struct code_out *code, uint64_t space, uint64_t address,
                             const uint8_t *bytes, size_t len);
/*
 * They stand there from an offset of the trace on. Offsets never go backwards. 0, or -errno and
 * why.
 */
int code_out_add(struct code_out *code, uint64_t offset, uint64_t space, uint64_t address,
                 const uint8_t *bytes, size_t len, struct reason *why);
/* The base of CS of 16-bit code that ends at an address. The same. */
int code_out_base(struct code_out *code, uint64_t offset, uint64_t end, uint64_t base,
                  struct reason *why);

#endif
