/* SPDX-License-Identifier: BSD-3-Clause */
/* Modules, BPF programs and trampolines of a Linux guest. */
#include "linux/look/modules.h"

#include <elf.h>
#include <string.h>

#define STATE_UNFORMED 3u /* of a module: nothing of it counts yet */

static bool read_tables(const struct look_kernel *kernel, uint64_t address,
                        struct look_module *module)
{
    const struct look_layout *const layout = &kernel->layout;
    const struct look_space *const space = &kernel->space;
    uint64_t tables;

    return look_u64(space, address + layout->module_kallsyms, &tables) &&
           look_u64(space, tables + layout->kallsyms_symbols, &module->symbols) &&
           look_u32(space, tables + layout->kallsyms_count, &module->symbol_count) &&
           look_u64(space, tables + layout->kallsyms_texts, &module->texts) &&
           look_u64(space, tables + layout->kallsyms_types, &module->types);
}

void look_modules_begin(struct look_list *list, const struct look_kernel *kernel)
{
    look_list_begin(list, kernel, kernel->layout.modules);
}

bool look_modules_next(struct look_list *list, struct look_module *module)
{
    const struct look_layout *const layout = &list->kernel->layout;
    const struct look_space *const space = &list->kernel->space;
    uint64_t element;

    while (look_list_next(list, &element)) {
        const uint64_t address = element - layout->module_list;
        uint32_t state = STATE_UNFORMED;

        *module = (struct look_module){0};
        if (!look_u32(space, address + layout->module_state, &state) ||
            !look_text(space, address + layout->module_name, module->name, sizeof(module->name))) {
            list->is_broken = true;
            return false;
        }
        if (state == STATE_UNFORMED)
            continue;
        if (!read_tables(list->kernel, address, module) ||
            module->symbol_count > LOOK_MODULE_NAMES_MAX)
            module->symbol_count = 0;
        return true;
    }
    return false;
}

bool look_module_name(const struct look_kernel *kernel, const struct look_module *module,
                      uint32_t number, struct look_name *name)
{
    const struct look_space *const space = &kernel->space;
    Elf64_Sym symbol;
    uint8_t letter;

    if (!look_read(space, module->symbols + (uint64_t)number * sizeof(symbol), &symbol,
                   sizeof(symbol)) ||
        !look_u8(space, module->types + number, &letter) ||
        !look_text(space, module->texts + symbol.st_name, name->text, sizeof(name->text)))
        return false;
    name->address = symbol.st_value;
    name->letter = name->text[0] ? (char)letter : 0;
    return true;
}

/* A list that this kernel does not have is empty. */
static void begin_optional(struct look_list *list, const struct look_kernel *kernel, uint64_t head)
{
    look_list_begin(list, kernel, head);
    if (head == LOOK_NONE)
        list->is_broken = true;
}

void look_bpf_begin(struct look_list *list, const struct look_kernel *kernel)
{
    begin_optional(list, kernel, kernel->layout.bpf_kallsyms);
}

bool look_bpf_next(struct look_list *list, struct look_name *name)
{
    const struct look_layout *const layout = &list->kernel->layout;
    const struct look_space *const space = &list->kernel->space;
    uint64_t element;

    if (!look_list_next(list, &element))
        return false;
    element -= layout->bpf_node;
    name->letter = 't';
    list->is_broken = !look_u64(space, element + layout->bpf_start, &name->address) ||
                      !look_text(space, element + layout->bpf_name, name->text, sizeof(name->text));
    return !list->is_broken;
}

void look_ftrace_begin(struct look_list *list, const struct look_kernel *kernel)
{
    begin_optional(list, kernel, kernel->layout.ftrace_trampolines);
}

bool look_ftrace_next(struct look_list *list, struct look_name *name)
{
    const struct look_layout *const layout = &list->kernel->layout;
    uint64_t element;

    if (!look_list_next(list, &element))
        return false;
    name->letter = 't';
    memcpy(name->text, "ftrace_trampoline", sizeof("ftrace_trampoline"));
    list->is_broken =
        !look_u64(&list->kernel->space, element - layout->ftrace_list + layout->ftrace_trampoline,
                  &name->address);
    return !list->is_broken;
}
