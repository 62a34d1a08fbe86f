/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Giving up rights before foreign files are read: by Landlock all of the file system but what is
 * named here, by seccomp all system calls but those that reading, decoding and printing need: no
 * network, no other programs, no code that is made at run time. Descriptors that are open stay what
 * they are. Where the kernel lacks one of the two, the other is used alone.
 */
#ifndef VMM_SANDBOX_H
#define VMM_SANDBOX_H

#include "common/reason.h"

#include <stdbool.h>
#include <stddef.h>

#define SANDBOX_PLACES_MAX 64u

/* What stays allowed. Names that are not there are left out. */
struct sandbox {
    struct sandbox_place {
        char *path;
        bool may_replace; /* files of this folder may be created, renamed and removed; else: read */
        bool may_write;   /* and written */
    } places[SANDBOX_PLACES_MAX];
    size_t count;
    bool is_all; /* may be read */
};

/* path and what is beneath it may be read; NULL: nothing. */
void sandbox_allow(struct sandbox *sandbox, const char *path);
/* The same of the folder that a file is in. */
void sandbox_allow_beside(struct sandbox *sandbox, const char *file);
/* A file that was opened may take the place of another in its folder, or be removed. */
void sandbox_allow_output(struct sandbox *sandbox, const char *file);
/* Files may be made and written in a folder, whose names are not known before. */
void sandbox_allow_folder(struct sandbox *sandbox, const char *folder);
/* For this thread, and those that it starts, for good. 0, or -errno and the reason. */
int sandbox_enter(struct sandbox *sandbox, struct reason *why);
void sandbox_free(struct sandbox *sandbox);
/* What this kernel and this build have: "Landlock 4, seccomp". */
const char *sandbox_about(char *text, size_t text_bytes);

#endif
