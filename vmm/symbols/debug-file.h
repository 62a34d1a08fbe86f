/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file with the debug information of another one: distributions strip programs, and keep what
 * they took out in files of their own. It is found by the build id that both have, or by the name
 * and the check sum in the section .gnu_debuglink.
 */
#ifndef VMM_DEBUG_FILE_H
#define VMM_DEBUG_FILE_H

#include "common/open.h"
#include "symbols/debuginfod.h"

#include <limits.h>

#define DEBUG_FOLDER "/usr/lib/debug"

/* Where such files are looked for. */
struct debug_places {
    const char *folder;        /* NULL: DEBUG_FOLDER, of the machine that the files are from */
    const char *cache;         /* perf's copies of files; NULL: there are none */
    remark_fn remark;          /* NULL: nobody is told */
    struct debuginfod *server; /* NULL: none is asked */
};

/* The name of one that was found. */
struct debug_name {
    char root[PATH_MAX], path[PATH_MAX];
    bool has_root;
};

/* As a name that can be opened again. */
struct file_name debug_name_of(const struct debug_name *name);

/* A descriptor of the debug file of elf, which was opened by the name of; -ENOENT: there is none.
 */
int debug_file_of(const struct debug_places *places, const struct file_name *of, Elf *elf,
                  struct debug_name *found);
/*
 * The file that another one names, with what dwz took out of several: by its build id, at its path,
 * and beside the other one.
 */
int debug_file_beside(const struct debug_places *places, const struct file_name *of,
                      const char *path, const struct elf_id *id);
/* The same of a file that is not here, but whose build id is known. root as in a file_name. */
int debug_file_by_id(const struct debug_places *places, const char *root, const struct elf_id *id,
                     struct debug_name *found);

#endif
