/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names that an ELF file does not hold in its symbol tables: of its PLT, and those that were
 * stripped from it, out of a table that it holds compressed or of its debug file.
 */
#ifndef VMM_COMPLETE_H
#define VMM_COMPLETE_H

#include "ptdec.h"
#include "symbols/sources.h"

/*
 * Adds them to file, which was read from fd, opened by that name. 0 or -ENOMEM. What cannot be read
 * is left out; that there are more names than max_bytes or the budget of file allow is remarked.
 */
int complete_names(const struct debug_places *places, const struct file_name *name, int fd,
                   uint64_t max_bytes, struct ptd_file *file);
/*
 * The names of a file that is not here, from its debug file. len_bytes: of its code, as it is
 * mapped. PTD_OK, *file and *vaddr, for which the first byte of the mapping was linked; as
 * ptd_file_new_symbols(), or PTD_E_IO: there is none that fits. sources, unless NULL, learns of it.
 */
int names_by_id(const struct debug_places *places, const struct elf_id *id, uint64_t len_bytes,
                uint64_t max_bytes, struct sources *sources, struct ptd_file **file,
                uint64_t *vaddr);

#endif
