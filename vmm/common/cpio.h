/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Archives in the newc format of cpio.
 */
#ifndef VMM_CPIO_H
#define VMM_CPIO_H

#include "common/bytes.h"

/* Appends a file (or, with data NULL and mode a directory, a directory). False: no memory. */
bool cpio_add(struct bytes *archive, const char *name, uint32_t mode, const void *data, size_t len);
bool cpio_end(struct bytes *archive);
/*
 * The next member of an archive, at *pos, which moves on. 1: a member; 0: the end; -EBADMSG. name
 * and data point into the archive.
 */
int cpio_next(const struct bytes *archive, size_t *pos, const char **name, const uint8_t **data,
              size_t *len);

#endif
