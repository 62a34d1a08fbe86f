/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debug files from debuginfod servers, which have those of whole distributions. They are asked by a
 * process of its own, debuginfod-find of elfutils, which another one starts that has all rights of
 * the user: whoever parses foreign files has given up the network by then. What it can make that
 * process do is to ask for a build id.
 */
#ifndef VMM_DEBUGINFOD_H
#define VMM_DEBUGINFOD_H

#include "common/reason.h"
#include "symbols/elf-id.h"

#include <limits.h>

struct debuginfod;

/*
 * Starts that process, before rights are given up. urls: servers, as in DEBUGINFOD_URLS. 0, or
 * -errno and the reason.
 */
int debuginfod_start(const char *urls, struct debuginfod **server, struct reason *why);
/* NULL does nothing. */
void debuginfod_stop(struct debuginfod *server);
/* A descriptor of the debug file with a build id, and its path, or -errno. */
int debuginfod_find(struct debuginfod *server, const struct elf_id *id, char path[PATH_MAX]);

#endif
