/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the lay-out of a Linux kernel: from its symbols, and from its own BTF. */
#ifndef VMM_LINUX_LAYOUT_H
#define VMM_LINUX_LAYOUT_H

#include "linux/kallsyms.h"
#include "linux/look/layout.h"

/* What of a kernel can be told. */
enum layout_part {
    LAYOUT_TASKS,
    LAYOUT_CURRENT, /* which of them runs */
    LAYOUT_MAPS,
    LAYOUT_FILES, /* their names */
    LAYOUT_PAGES, /* what they hold */
    LAYOUT_VDSO,
    LAYOUT_MODULES,
    LAYOUT_BPF,
    LAYOUT_FTRACE,
    LAYOUT_PARTS
};

struct layout_found {
    /* What is lacking for a part: a member or a symbol; "": nothing is. */
    char lacks[LAYOUT_PARTS][64];
};

/*
 * Fills the kernel's layout; its space is set already. What is not found is LOOK_NONE. 0; -EINVAL:
 * the kernel has no BTF, or none that makes sense, so that nothing was found; -ENOMEM; and the
 * reason.
 */
int layout_find(struct look_kernel *kernel, const struct kernel_symbols *symbols,
                struct layout_found *found, struct reason *why);

#endif
