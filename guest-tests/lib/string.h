/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The few memory and string functions that guest code and the compiler need.
 */
#ifndef GUEST_STRING_H
#define GUEST_STRING_H

#include <stddef.h>

void *memset(void *to, int byte, size_t len);
void *memcpy(void *to, const void *from, size_t len);
void *memmove(void *to, const void *from, size_t len);
int memcmp(const void *a, const void *b, size_t len);
size_t strlen(const char *s);
int strncmp(const char *a, const char *b, size_t len);
/* Copies what fits of from, zero-terminated, into size bytes. */
void strcopy(char *to, const char *from, size_t size);

#endif
