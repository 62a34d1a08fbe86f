/* SPDX-License-Identifier: BSD-3-Clause */
/* Jitdumps for tests, record by record, as perf's document has them. */
#ifndef VMM_TESTS_MADE_JITDUMP_H
#define VMM_TESTS_MADE_JITDUMP_H

#include "common/bytes.h"

#define MADE_JITDUMP_HEAD 40u /* bytes */

/* flags 1: times are ticks of the TSC. */
void made_jitdump_head(struct bytes *file, uint32_t pid, uint64_t flags);
void made_jitdump_load(struct bytes *file, uint64_t time, uint64_t address, const char *name,
                       uint64_t index, const void *code, uint64_t len);
void made_jitdump_move(struct bytes *file, uint64_t time, uint64_t from, uint64_t to,
                       uint64_t index);
/* A record of another kind, with something in it. */
void made_jitdump_other(struct bytes *file, uint32_t id);

#endif
