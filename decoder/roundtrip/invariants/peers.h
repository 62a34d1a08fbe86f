/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether libptdec and libipt read the same packets as the tests' own reader. */
#ifndef PTD_INVARIANTS_PEERS_H
#define PTD_INVARIANTS_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool peers_agree(const uint8_t *bytes, size_t len_bytes);
const char *peers_why(void);
void peers_summary(void);

#endif
