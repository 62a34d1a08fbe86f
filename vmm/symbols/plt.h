/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the entries of a procedure linkage table, "puts@plt": the little jumps by which a
 * program calls what other files define. No symbol names them.
 */
#ifndef VMM_PLT_H
#define VMM_PLT_H

#include "ptdec.h"

#include <libelf.h>

/* Adds them to file, which is of elf. PTD_OK, PTD_E_NOMEM, PTD_E_LIMIT. */
int plt_add_names(Elf *elf, struct ptd_file *file);

#endif
