/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is anything in a guest's trace that is not this guest's? All packets and all of the code log are
 * looked at, and compared with what is known of the guest from elsewhere.
 */
#ifndef VMM_DEMUX_TESTS_SCAN_H
#define VMM_DEMUX_TESTS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one virtual processor did. */
struct truth;

struct truth *truth_new(void); /* NULL: no memory */
void truth_free(struct truth *truth);
/* An instruction that it executed. False: no memory. */
bool truth_add_insn(struct truth *truth, uint64_t cr3, uint64_t ip, const uint8_t *bytes,
                    size_t len);
/* Another address that it was at. */
bool truth_add_ip(struct truth *truth, uint64_t ip);
/* Whether it was at an address. */
bool truth_has_ip(const struct truth *truth, uint64_t ip);
/* It ran in this time of its TSC, both ends included. */
bool truth_add_time(struct truth *truth, uint64_t from, uint64_t to);

enum foreign { FOREIGN_IP, FOREIGN_CR3, FOREIGN_VMCS, FOREIGN_NR, FOREIGN_TIME, FOREIGN_KINDS };

struct scan {
    uint64_t packets, code_bytes;
    uint64_t foreign[FOREIGN_KINDS];
    uint64_t other;  /* bytes that are no packet, packets and records that no guest may have */
    char first[160]; /* of all, in words */
};

uint64_t scan_sum(const struct scan *scan);
void scan_trace(const struct truth *truth, const uint8_t *bytes, size_t len, struct scan *scan);
void scan_code(const struct truth *truth, const uint8_t *bytes, size_t len, struct scan *scan);
/*
 * A copy of the trace with one packet more, which tells this; to be freed. value is an address, a
 * CR3 (FOREIGN_NR too), a VMCS pointer or a TSC. NULL: no memory, or no place for it.
 */
uint8_t *scan_plant(enum foreign what, uint64_t value, const uint8_t *bytes, size_t len,
                    size_t *planted_len);
const char *scan_word(enum foreign what);

#endif
