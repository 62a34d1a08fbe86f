/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instructions that look alike. Length and class of an instruction depend on its bytes up to ModRM
 * and SIB; only displacement and immediate stand behind them. Nor do they depend on the registers
 * that an address is made of, and for most opcodes on no register. So what Zydis said of these
 * bytes once holds wherever they begin an instruction again, and need not be found again. What is
 * taken to be the bytes up to SIB is compared with what Zydis found before it is kept; a test
 * compares for which opcodes registers do not matter.
 */
#ifndef PTD_SHAPES_H
#define PTD_SHAPES_H

#include "ptdec.h"

struct shapes;

/* NULL: no memory. */
struct shapes *ptd_shapes_new(void);
void ptd_shapes_free(struct shapes *shapes); /* may be NULL */
/* Exactly ptd_insn_decode(). Not for two threads at once. shapes may be NULL. */
int ptd_shapes_decode(struct shapes *shapes, enum ptd_mode mode, uint64_t ip, const uint8_t *bytes,
                      size_t available_bytes, struct ptd_insn *insn);

struct shapes_passed {
    size_t len_bytes;
    uint8_t last_bytes; /* of the last one */
};

/*
 * Passes over instructions of 64-bit code that mean nothing to a trace, as long as they begin like
 * ones that were decoded; at most so many. How many they are.
 */
unsigned ptd_shapes_pass(struct shapes *shapes, const uint8_t *bytes, size_t len_bytes,
                         unsigned most, struct shapes_passed *passed);

#endif
