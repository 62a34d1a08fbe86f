/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the image: a code log (docs/trace-files.md), the bytes that ran, from when on they stood
 * where they ran. It is replayed along with the trace.
 */
#ifndef PTD_CODE_LOG_H
#define PTD_CODE_LOG_H

#include "ptdec.h"

struct code_log;

/* A copy of bytes is kept. PTD_OK, PTD_E_FORMAT, PTD_E_NOMEM. */
int ptd_code_log_new(const void *bytes, size_t len_bytes, struct code_log **log);
void ptd_code_log_free(struct code_log *log);
/* Forgets everything: a trace is decoded from its start on. */
void ptd_code_log_rewind(struct code_log *log);
/* The offset in the trace of the next record; UINT64_MAX: there is none. */
uint64_t ptd_code_log_next(const struct code_log *log);
/*
 * Takes the records up to this offset, itself included. *changed, unless nothing that was known is
 * now otherwise. PTD_OK or PTD_E_NOMEM.
 */
int ptd_code_log_advance(struct code_log *log, uint64_t offset, bool *changed);
/* How often what was known became otherwise, or was forgotten. */
uint64_t ptd_code_log_changes(const struct code_log *log);
/* The base of CS of 16-bit code that ends at this linear address; 0 if it was not told. */
uint64_t ptd_code_log_base(const struct code_log *log, uint64_t end);
/* As ptd_image_find(). */
int ptd_code_log_find(const struct code_log *log, uint64_t cr3, uint64_t vaddr,
                      const uint8_t **bytes, size_t *len_bytes);

#endif
