/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files to be read whose names come from a trace, or from what stands beside it: found beneath a
 * root, whatever the name says, and regular files only.
 */
#ifndef VMM_OPEN_H
#define VMM_OPEN_H

#include "common/bytes.h"
#include "common/reason.h"

/* The name of a file, and who says it. */
struct file_name {
    const char *root; /* the folder that is the "/" of it; NULL: that of the process */
    const char *path;
    bool by_user; /* and not by a trace: it may be a link of any kind */
};

/*
 * Opens a regular file to read. FIFOs, devices and folders are refused, and nobody waits for them.
 * Unless the user said the name, ".." and symlinks do not leave the root, and links of /proc to
 * what a process has open lead nowhere. A descriptor, or -errno and the reason, with the name.
 */
int open_named(const struct file_name *name, struct reason *why);
/* How it does so where the kernel has no openat2(): it follows no link and no "..". Or -errno. */
int open_named_strictly(const struct file_name *name);
/* Reads a whole file of at most max_bytes, opened as above. 0, or -errno and the reason. */
int read_named(const struct file_name *name, size_t max_bytes, struct bytes *bytes,
               struct reason *why);
/* "NAME: what", with the root in front. Returns error. */
int blame_file(struct reason *why, const struct file_name *name, const char *what, int error);

#endif
