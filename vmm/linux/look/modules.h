/* SPDX-License-Identifier: BSD-3-Clause */
/* Code that came after the kernel: modules, BPF programs, trampolines of ftrace. */
#ifndef LOOK_MODULES_H
#define LOOK_MODULES_H

#include "linux/look/list.h"

#define LOOK_MODULE_BYTES     64u  /* more than MODULE_NAME_LEN */
#define LOOK_NAME_BYTES       512u /* KSYM_NAME_LEN since Linux 6.1 */
#define LOOK_MODULE_NAMES_MAX (1u << 20)

struct look_module {
    char name[LOOK_MODULE_BYTES];
    uint64_t symbols, texts, types; /* tables: Elf64_Sym, names, and a letter for each symbol */
    uint32_t symbol_count;
};

/* A name of code, as /proc/kallsyms has it; letter 0: it is not shown there. */
struct look_name {
    uint64_t address;
    char letter;
    char text[LOOK_NAME_BYTES];
};

/* All modules that are loaded. */
void look_modules_begin(struct look_list *list, const struct look_kernel *kernel);
bool look_modules_next(struct look_list *list, struct look_module *module);
/* The symbol of that number. False: it cannot be read. */
bool look_module_name(const struct look_kernel *kernel, const struct look_module *module,
                      uint32_t number, struct look_name *name);

/* All BPF programs and their trampolines. */
void look_bpf_begin(struct look_list *list, const struct look_kernel *kernel);
bool look_bpf_next(struct look_list *list, struct look_name *name);
/* All trampolines of ftrace. */
void look_ftrace_begin(struct look_list *list, const struct look_kernel *kernel);
bool look_ftrace_next(struct look_list *list, struct look_name *name);

#endif
