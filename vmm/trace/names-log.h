/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log of names (docs/trace-files.md): who ran from where in a trace on, and which files the code
 * of an address space was from.
 */
#ifndef VMM_NAMES_LOG_H
#define VMM_NAMES_LOG_H

#include "common/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMES_LOG_BYTES_MAX    (128u << 20)
#define NAMES_LOG_BUILD_ID_MAX 20u

struct names_log;

struct names_log_task {
    uint32_t pid, tid; /* of Linux: the process, and the thread */
    const char *comm;
};

/* From an offset on, an address space has a mapping, or is another one. */
struct names_log_change {
    uint64_t at;
    uint64_t cr3, user_cr3; /* user_cr3 0: none, cr3 is that of user code as well */
    bool is_new;            /* what was mapped in it holds no more, and the rest is not filled */
    uint64_t start, end, offset;
    const char *path; /* NULL: no file */
    uint64_t cache;   /* where the guest's kernel keeps what the file holds; 0: not told */
    uint8_t build_id[NAMES_LOG_BUILD_ID_MAX], build_id_bytes;
};

/*
 * Reads a log; name is for messages. 0; -EBADMSG: a line is wrong; -ENOMEM; and the reason. A last
 * line that was cut off is left out.
 */
int names_log_parse(const char *name, const char *text, size_t len_bytes, struct names_log **log,
                    struct reason *why);
void names_log_free(struct names_log *log);
/*
 * Who ran at an offset of the trace, of whoever has this CR3; any value of which no address bits
 * are set, or PTD_ANY_CR3, is nobody's: whoever runs. False: the log does not tell.
 */
bool names_log_who(const struct names_log *log, uint64_t offset, uint64_t cr3,
                   struct names_log_task *task);
/* Where somebody else runs next, behind an offset; UINT64_MAX: nowhere. */
uint64_t names_log_until(const struct names_log *log, uint64_t offset);
/* What changed, in order, from 0 on. NULL: there is no more. */
const struct names_log_change *names_log_change(const struct names_log *log, size_t index);
/* Whether it tells who ran, anywhere. */
bool names_log_tells(const struct names_log *log);
/* How many looks and lines the capture left out. */
uint64_t names_log_left_out(const struct names_log *log);

#endif
