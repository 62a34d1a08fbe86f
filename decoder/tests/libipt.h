/* SPDX-License-Identifier: BSD-3-Clause */
/* An instruction list by libipt: the independent witness. */
#ifndef PTD_TESTS_LIBIPT_H
#define PTD_TESTS_LIBIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct witness;

struct witness_cpu {
    unsigned family, model, stepping;
};

/*
 * bytes must outlive the witness. NULL: libipt does not want it. ctc: TSC/crystal as denominator
 * and numerator, 0 if unknown.
 */
struct witness *witness_new(uint8_t *bytes, size_t len_bytes, const struct witness_cpu *cpu,
                            const uint32_t ctc[2], uint8_t mtc_freq, uint8_t max_nonturbo_ratio);
void witness_free(struct witness *witness);
/* Bytes of a file at vaddr. cr3 UINT64_MAX: every address space. 0 or a negative error of libipt.
 */
int witness_add_file(struct witness *witness, const char *path, uint64_t offset, uint64_t size,
                     uint64_t vaddr, uint64_t cr3);
/* The loadable segments of an ELF file. 0 or a negative number. */
int witness_add_elf(struct witness *witness, const char *path, uint64_t bias, uint64_t cr3);
/*
 * The next instruction: 1 and *ip, *cr3; 0 at the end. A negative error of libipt, and *offset in
 * the trace; the next call goes on at the next PSB.
 */
int witness_next(struct witness *witness, uint64_t *ip, uint64_t *cr3, uint64_t *offset);
const char *witness_strerror(int error);

#endif
