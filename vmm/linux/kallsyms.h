/* SPDX-License-Identifier: BSD-3-Clause */
/* The symbols of a Linux kernel from the tables that it keeps of itself (kallsyms). */
#ifndef VMM_LINUX_KALLSYMS_H
#define VMM_LINUX_KALLSYMS_H

#include "common/bytes.h"
#include "common/reason.h"
#include "linux/look/memory.h"
#include "linux/vmcoreinfo.h"

struct kernel_symbol {
    uint64_t address;
    uint32_t name; /* where it begins in names */
    char letter;   /* as nm has it */
};

/* In the order of the tables, which is that of addresses. Begins as zeros. */
struct kernel_symbols {
    struct kernel_symbol *list;
    size_t count;
    struct bytes names; /* each ended by a zero */
};

/* All of them. 0, -EINVAL or -ENOMEM, and the reason; kallsyms_free() in any case. */
int kallsyms_read(struct kernel_symbols *symbols, const struct look_space *space,
                  const struct vmcoreinfo *info, struct reason *why);
void kallsyms_free(struct kernel_symbols *symbols);
const char *kallsyms_name(const struct kernel_symbols *symbols, size_t i);
/* The address of a symbol; LOOK_NONE: there is none of that name. */
uint64_t kallsyms_find(const struct kernel_symbols *symbols, const char *name);

#endif
