/* SPDX-License-Identifier: BSD-3-Clause */
/* A Linux guest: its kernel found in its memory, and all that is needed to look at it. */
#ifndef VMM_LINUX_GUEST_H
#define VMM_LINUX_GUEST_H

#include "linux/kallsyms.h"
#include "linux/layout.h"
#include "linux/source.h"

/* Begins as zeros, and is not copied: its parts point to each other. */
struct linux_guest {
    struct look_memory memory;
    struct vmcoreinfo info;
    struct look_kernel kernel;
    struct kernel_symbols symbols;
    struct layout_found found;
    struct reason no_layout; /* why nothing but the kernel's symbols can be told; "": it can */
};

/*
 * Finds the kernel in some memory, whose owner must outlive all looks. 0; -EINVAL: there is no
 * Linux of 6.0 or later, or none that can be seen; -ENOMEM, or what reading memory gave; and the
 * reason. guest_close() in any case.
 */
int guest_open(struct linux_guest *guest, const struct guest_source *source, struct reason *why);
void guest_close(struct linux_guest *guest);
/* Whether a processor runs this kernel, as far as its source knows. */
bool guest_runs(const struct linux_guest *guest, const struct guest_source *source);
/* The page tables that it begins with, before it has its own. 0: that is not known. */
uint64_t guest_early_root(const struct linux_guest *guest);
/* Whether a part can be told of it. */
bool guest_has(const struct linux_guest *guest, enum layout_part part);

#endif
