/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files to be read whose names come from a trace, or from what stands beside it: found beneath a
 * root, whatever the name says, and regular files only.
 */
#ifndef VMM_OPEN_H
#define VMM_OPEN_H

#include "common/bytes.h"
#include "common/reason.h"

/*
 * Opens a file to read. root: the folder that is the "/" of name, which "..", and symlinks inside,
 * do not leave; NULL: the name means what it means to the process. FIFOs, devices, folders and links
 * of /proc to what a process has open are refused; nobody waits for them. A descriptor, or -errno
 * and the reason, with the name.
 */
int open_named(const char *root, const char *name, struct reason *why);
/* What it does where the kernel has no openat2(): it follows no link and no "..". */
int open_named_strictly(const char *root, const char *name);
/* Reads a whole file of at most max_bytes, opened as above. 0 or -errno and the reason. */
int read_named(const char *root, const char *name, size_t max_bytes, struct bytes *bytes,
               struct reason *why);

#endif
