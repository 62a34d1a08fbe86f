/* SPDX-License-Identifier: BSD-3-Clause */
/* What one instruction means to a trace, beyond the public interface. */
#ifndef PTD_INSN_H
#define PTD_INSN_H

#include "ptdec.h"

#define MAX_INSN_BYTES 15u

/* How an instruction is made up, of one that Zydis knows. */
struct insn_parts {
    uint8_t head_bytes; /* in front of displacement and immediate; 0: Zydis does not know it */
    uint8_t rel_bytes;  /* of a direct branch: the distance, at its end */
};

/* ptd_insn_decode(), and of what the instruction is made up. */
int ptd_insn_take_apart(enum ptd_mode mode, uint64_t ip, const void *bytes, size_t available_bytes,
                        struct ptd_insn *insn, struct insn_parts *parts);
/* Where a direct branch goes that ends at next_ip. */
uint64_t ptd_insn_target(enum ptd_mode mode, bool wraps, uint64_t next_ip, int64_t distance);

#endif
