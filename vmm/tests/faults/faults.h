/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between what fails calls (faults.c) and the calls that the linker leads there (wraps.c).
 */
#ifndef VMM_TESTS_FAULTS_H
#define VMM_TESTS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether this call, which returns to from, is to fail. */
bool fault_is_due(const void *from, const char *what);

void *__real_malloc(size_t len);
char *__real_strdup(const char *text);
int __real_open(const char *path, int flags, ...);
ssize_t __real_pread(int fd, void *data, size_t len, off_t at);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);

#endif
