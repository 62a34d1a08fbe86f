/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets of this machine, which have a path.
 */
#ifndef VMM_LOCAL_H
#define VMM_LOCAL_H

/*
 * A socket of a type (SOCK_STREAM, ...), connected to the one at a path. The descriptor, or -errno;
 * -ENAMETOOLONG: no socket can have such a path.
 */
int local_connect(const char *path, int type);
/* The same, which others may connect to, and its owner alone; so many may wait. */
int local_listen(const char *path, int type, int waiting);

#endif
