/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our QEMU, of `make qemu` or of the package vpt-qemu: where it is, and what is to be done if it is
 * not there.
 */
#ifndef VMM_CLI_OWN_QEMU_H
#define VMM_CLI_OWN_QEMU_H

#include <stddef.h>

/* $VPT_QEMU, or ours: the installed one, or that in the cache. */
void own_qemu(char *path, size_t bytes);

/* Complains that it cannot be used, for this errno, and says how it is built. */
int no_own_qemu(const char *path, int error);

#endif
