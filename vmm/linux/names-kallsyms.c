/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes names of kernel code, one a line: an address, a letter, a name, and whose it is. */
#include "linux/look/modules.h"
#include "linux/names.h"
#include "common/escape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_MAX          512u       /* bytes of a name: readers of kallsyms have short lines */
#define MODULE_SYMBOLS_MAX (1u << 21) /* of all modules */

struct writer {
    const struct linux_guest *guest;
    struct output *output;
    struct names_sum *sum;
    remark_fn tell;
    struct reason *why;
};

/* A name ends with its line, or at a blank. */
static void make_shown(const char *text, char shown[SHOWN_MAX + 1])
{
    struct escaped room;

    (void)snprintf(shown, SHOWN_MAX + 1, "%s", escaped(text, &room));
    for (char *blank = shown; (blank = strpbrk(blank, " \t"));)
        *blank = '_';
}

static int put(struct writer *writer, uint64_t address, char letter, const char *text,
               const char *owner)
{
    char name[SHOWN_MAX + 1], whose[SHOWN_MAX + 1] = "", line[3 * SHOWN_MAX];
    int len;

    if (letter <= ' ' || letter >= 0x7f || !text[0])
        return 0;
    make_shown(text, name);
    if (owner)
        make_shown(owner, whose);
    len = owner ? snprintf(line, sizeof(line), "%016" PRIx64 " %c %s\t[%.64s]\n", address, letter,
                           name, whose)
                : snprintf(line, sizeof(line), "%016" PRIx64 " %c %s\n", address, letter, name);
    return output_write(writer->output, line, (size_t)len, writer->why);
}

static int put_kernel(struct writer *writer)
{
    const struct kernel_symbols *const symbols = &writer->guest->symbols;
    int error = 0;

    for (size_t i = 0; !error && i < symbols->count; i++)
        error = put(writer, symbols->list[i].address, symbols->list[i].letter,
                    kallsyms_name(symbols, i), NULL);
    writer->sum->symbols = symbols->count;
    return error;
}

static int put_module(struct writer *writer, const struct look_module *module)
{
    struct look_name name;
    int error = 0;

    for (uint32_t i = 0; !error && i < module->symbol_count; i++) {
        if (writer->sum->module_symbols == MODULE_SYMBOLS_MAX)
            return 0;
        if (!look_module_name(&writer->guest->kernel, module, i, &name) || !name.letter)
            continue;
        writer->sum->module_symbols++;
        error = put(writer, name.address, name.letter, name.text, module->name);
    }
    return error;
}

/* A list that breaks off is told of: what stood behind is missing. */
static void remark_broken(const struct writer *writer, const struct look_list *list,
                          const char *what)
{
    if (list->is_broken)
        remark(writer->tell, "the guest's list of %s breaks off after %u", what, list->count);
}

static int put_modules(struct writer *writer)
{
    struct look_module module;
    struct look_list list;
    int error = 0;

    look_modules_begin(&list, &writer->guest->kernel);
    while (!error && look_modules_next(&list, &module)) {
        writer->sum->modules++;
        error = put_module(writer, &module);
    }
    remark_broken(writer, &list, "modules");
    return error;
}

static int put_bpf(struct writer *writer)
{
    struct look_list list;
    struct look_name name;
    int error = 0;

    look_bpf_begin(&list, &writer->guest->kernel);
    while (!error && look_bpf_next(&list, &name)) {
        writer->sum->bpf++;
        error = put(writer, name.address, name.letter, name.text, "bpf");
    }
    remark_broken(writer, &list, "BPF programs");
    return error;
}

static int put_ftrace(struct writer *writer)
{
    struct look_list list;
    struct look_name name;
    int error = 0;

    look_ftrace_begin(&list, &writer->guest->kernel);
    while (!error && look_ftrace_next(&list, &name)) {
        writer->sum->ftrace++;
        error = put(writer, name.address, name.letter, name.text, "__builtin__ftrace");
    }
    remark_broken(writer, &list, "ftrace's trampolines");
    return error;
}

int names_write_kallsyms(const struct linux_guest *guest, struct output *output,
                         struct names_sum *sum, remark_fn tell, struct reason *why)
{
    struct writer writer = {guest, output, sum, tell, why};
    int error = put_kernel(&writer);

    if (!error && guest_has(guest, LAYOUT_MODULES))
        error = put_modules(&writer);
    if (!error && guest_has(guest, LAYOUT_BPF))
        error = put_bpf(&writer);
    if (!error && guest_has(guest, LAYOUT_FTRACE))
        error = put_ftrace(&writer);
    return error;
}
