/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes from the lab to the outside: a result of a run as an archive.
 */
#ifndef VMM_RECORD_H
#define VMM_RECORD_H

#include "run/run.h"
#include "common/bytes.h"

/* Writes the result as an archive to a file or block device. 0 or -errno. */
int record_write(const char *path, const struct run_result *result);
/* Reads it back from an open file. 0 or -errno. */
int record_read(int fd, struct run_result *result);
/* Its members, in an archive of others. False: no memory. */
bool record_add(struct bytes *archive, const struct run_result *result);
/* Takes a member of an archive. 1: it was the last that is needed; 0; or -errno. */
int record_member(struct run_result *result, const char *name, const uint8_t *data, size_t len);

#endif
