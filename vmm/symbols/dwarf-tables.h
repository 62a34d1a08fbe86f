/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libdw would take of memory to read a table of debug information, at most. A few bytes of it
 * can stand for many: a line of one byte becomes a record, and each source may name a folder whose
 * name is as long as the file.
 */
#ifndef VMM_DWARF_TABLES_H
#define VMM_DWARF_TABLES_H

#include <elfutils/libdw.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sections of a file that was opened by libdw, as that unpacked them. */
struct dwarf_tables {
    struct dwarf_table {
        const uint8_t *bytes;
        size_t len;
    } abbreviations, lines;
    uint64_t longest; /* of the texts of the file */
    bool is_damaged;  /* texts have no end, which libdw does not look at everywhere */
};

/* All sections of debug information, unpacked; 0: there are none; UINT64_MAX: one is damaged. */
uint64_t dwarf_tables_measure(Elf *elf);
void dwarf_tables_find(Elf *elf, struct dwarf_tables *tables);
/* Whether a text that libdw told begins in a section of texts: it tells one at its end as well. */
bool dwarf_tables_holds(Elf *elf, const char *text);
/* The abbreviations, or the lines, at an offset. UINT64_MAX: they are damaged. */
uint64_t dwarf_tables_abbreviations(const struct dwarf_tables *tables, uint64_t offset);
uint64_t dwarf_tables_lines(const struct dwarf_tables *tables, uint64_t offset);
/* What lines take that were read. */
uint64_t dwarf_tables_kept(size_t lines, Dwarf_Files *files, size_t file_count);
/* Debug information of nothing. NULL: no memory. *elf is ended after it. */
Dwarf *dwarf_tables_nothing(Elf **elf);

#endif
