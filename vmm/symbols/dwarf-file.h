/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debug information of one file (DWARF): which line of which source an instruction comes from, and
 * of which function, if that was compiled into another one. Needs libdw.
 */
#ifndef VMM_DWARF_FILE_H
#define VMM_DWARF_FILE_H

#include "common/open.h"
#include "symbols/debug-file.h"

#define FRAMES_MAX 16u

/* A function that an instruction belongs to. Texts are the file's, as long as that is open. */
struct source_frame {
    const char *function; /* as linkers know it; NULL: not known */
    const char *file;     /* NULL: not known */
    unsigned line;        /* 0: not known */
};

struct dwarf_file;

/* Whether this build has it. */
bool dwarf_is_there(void);
/*
 * The debug information of an ELF file, opened by that name, or of its debug file. *left bytes may
 * be kept, and become less; also below. NULL: there is none that can be used, or no memory. fd is
 * not needed afterwards.
 */
struct dwarf_file *dwarf_file_open(const struct debug_places *places, const struct file_name *name,
                                   int fd, uint64_t *left);
void dwarf_file_close(struct dwarf_file *file);
/*
 * The functions that an address belongs to, the innermost first. Each place but that of the first
 * is where the one before it is called. How many; 0: nothing is known of it.
 */
size_t dwarf_file_frames(struct dwarf_file *file, uint64_t address, uint64_t *left,
                         struct source_frame frames[FRAMES_MAX]);

#endif
