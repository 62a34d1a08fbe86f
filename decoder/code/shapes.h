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

/*
 * Decodes instructions of 64-bit code one behind the other, as long as they begin like ones that
 * were decoded: up to and with the first that means something to a trace, at most so many. How many
 * they are; if there are any, *last is the last of them.
 */
unsigned ptd_shapes_run(struct shapes *shapes, uint64_t ip, const uint8_t *bytes, size_t len_bytes,
                        unsigned most, struct ptd_insn *last);

#endif
