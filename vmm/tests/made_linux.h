/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a small Linux guest that never ran: page tables, VMCOREINFO, kallsyms, BTF, a few
 * tasks with their mappings and files, a module. Tests and the fuzzer break parts of it.
 */
#ifndef VMM_TESTS_MADE_LINUX_H
#define VMM_TESTS_MADE_LINUX_H

#include "linux/core.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MADE_BYTES (2u << 20)
#define MADE_KERNEL                                                                                \
    UINT64_C(0xffffffff80000000) /* all of memory, for what the kernel is linked to */
#define MADE_DIRECT    UINT64_C(0xffff888000000000) /* all of memory once more */
#define MADE_TEXT      (MADE_KERNEL + 0x100000)     /* _stext */
#define MADE_ENTRY     (MADE_TEXT + 0x20)           /* entry_SYSCALL_64 */
#define MADE_CURRENT   UINT64_C(0x2000)             /* current_task, of each processor */
#define MADE_LONG_NAME 300u                         /* letters of one symbol */

/* What makes kernels different from each other. */
struct made_kind {
    bool has_rb_tree;     /* as in Linux 6.0: no maple tree */
    bool counts_up;       /* kallsyms without CONFIG_KALLSYMS_ABSOLUTE_PERCPU */
    bool has_five_levels; /* LA57 */
};

/* Where things are, for who wants to break them: physical addresses. */
struct made_linux {
    uint8_t *ram; /* MADE_BYTES */
    size_t used;
    uint64_t root, user_root;
    uint64_t vmcoreinfo; /* the page of its note */
    uint64_t btf, btf_bytes;
    uint64_t tasks[3]; /* task_struct of "swapper/0", "init" and "cc"; "cc" has a thread more */
    uint64_t thread;   /* of "cc" */
    uint64_t mm;       /* of "cc"; that of "init" has no mappings */
    uint64_t tree_root, tree_leaf; /* nodes of the maple tree */
    uint64_t maps[3];
    uint64_t file;   /* of the second mapping: /usr/lib/libc.so, which lies on another mount */
    uint64_t dentry; /* of "libc.so" */
    uint64_t module, module_tables;
    uint64_t bpf;
};

/* Makes all of it; made_linux_free() at the end. */
void made_linux(struct made_linux *made, struct made_kind kind);
void made_linux_free(struct made_linux *made);
uint64_t made_get(const struct made_linux *made, uint64_t paddr);
void made_put(struct made_linux *made, uint64_t paddr, uint64_t value);
/* As a dump without a note of VMCOREINFO; core_close() at the end. */
void made_core(const struct made_linux *made, struct core *core);

#endif
