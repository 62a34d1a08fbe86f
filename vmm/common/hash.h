/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fingerprints: numbers that stand for a state, a text or bytes. They are written to files and
 * compared, by programs of one version, and are no protection against somebody who forges them.
 */
#ifndef VMM_HASH_H
#define VMM_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A number more into a fingerprint, which begins as any number. */
uint64_t hash_more(uint64_t hash, uint64_t value);
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len);
/* NULL differs from "". */
uint64_t hash_text(uint64_t hash, const char *text);

#endif
