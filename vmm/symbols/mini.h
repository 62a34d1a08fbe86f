/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MiniDebugInfo: the section .gnu_debugdata, an ELF file with a symbol table, compressed by xz,
 * that some distributions leave in what they strip. Needs liblzma; without it, there are none.
 */
#ifndef VMM_MINI_H
#define VMM_MINI_H

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether this build has it. */
bool mini_is_there(void);
/*
 * A descriptor of that file, in memory, of at most max_bytes. -ENOENT: elf holds none; -EBADMSG: it
 * is damaged; -EFBIG; -ENOMEM.
 */
int mini_open(Elf *elf, uint64_t max_bytes);

#endif
