/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes down who and what a Linux guest's memory names: a map file (docs/decoder.md), and the
 * names of its kernel in the form of /proc/kallsyms. What the guest says is shown as text of others
 * is (common/escape.h), and how much of it is believed has a bound.
 */
#ifndef VMM_LINUX_NAMES_H
#define VMM_LINUX_NAMES_H

#include "common/output.h"
#include "linux/guest.h"

#define NAMES_BYTES_MAX (256u << 20) /* of the map, while it is made */

/* How many there were. */
struct names_sum {
    uint64_t symbols, modules, module_symbols, bpf, ftrace;
    uint64_t processes, threads, files, build_ids, file_symbols, vdso_bytes;
};

/* What the map says of the files beside it: their names, as they stand there. */
struct names_files {
    const char *core, *kallsyms, *vdso, *symbols;
};

/* The kernel's names, and those of its modules and of BPF. 0, or -errno and the reason. */
int names_write_kallsyms(const struct linux_guest *guest, struct output *output,
                         struct names_sum *sum, remark_fn tell, struct reason *why);
/*
 * The map. vdso takes the code that the kernel gives to its processes, and symbols an ELF file with
 * the names of functions in mapped files; each stays empty if there are none. 0, or -errno and the
 * reason; none is closed.
 */
struct names_outputs {
    struct output *map, *vdso, *symbols;
};

int names_write_map(const struct linux_guest *guest, const struct names_files *files,
                    const struct names_outputs *outputs, struct names_sum *sum, remark_fn tell,
                    struct reason *why);

#endif
