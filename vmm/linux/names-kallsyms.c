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

#define LINE_BYTES (3 * SHOWN_MAX)

struct writer {
    const struct linux_guest *guest;
    struct guest_names *names;
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

/* Whose a name is: NULL: the kernel's. False: it is none that is shown. */
static bool make_line(uint64_t address, char letter, const char *text, const char *owner,
                      char line[LINE_BYTES])
{
    char name[SHOWN_MAX + 1], whose[SHOWN_MAX + 1] = "";

    if (letter <= ' ' || letter >= 0x7f || !text[0])
        return false;
    make_shown(text, name);
    if (owner) {
        make_shown(owner, whose);
        (void)snprintf(line, LINE_BYTES, "%016" PRIx64 " %c %s\t[%.64s]\n", address, letter, name,
                       whose);
    } else {
        (void)snprintf(line, LINE_BYTES, "%016" PRIx64 " %c %s\n", address, letter, name);
    }
    return true;
}

/* ---- A look ---- */

/* Each line is kept once, whatever the number of looks that tell it. */
static int put(struct writer *writer, const struct look_name *name, const char *owner)
{
    struct guest_names *const names = writer->names;
    const size_t before = names->code.count;
    char line[LINE_BYTES];

    if (!make_line(name->address, name->letter, name->text, owner, line))
        return 0;
    if (names->code_bytes > NAMES_CODE_BYTES_MAX) {
        names->is_whole = false;
        return 0;
    }
    if (names_add(&names->code, line) == UINT32_MAX)
        return reason_no_memory(writer->why);
    if (names->code.count > before) {
        names->code_bytes += strlen(line);
        names->has_news = true;
    }
    return 0;
}

static int put_module(struct writer *writer, const struct look_module *module)
{
    struct look_name name;
    int error = 0;

    for (uint32_t i = 0; !error && i < module->symbol_count; i++) {
        if (writer->names->sum.module_symbols == MODULE_SYMBOLS_MAX)
            return 0;
        if (!look_module_name(&writer->guest->kernel, module, i, &name) || !name.letter)
            continue;
        writer->names->sum.module_symbols++;
        error = put(writer, &name, module->name);
    }
    return error;
}

/* A list that breaks off is told of: what stood behind is missing. */
static void remark_broken(const struct writer *writer, const struct look_list *list,
                          const char *what)
{
    if (!list->is_broken)
        return;
    writer->names->is_whole = false;
    remark(writer->tell, "the guest's list of %s breaks off after %u", what, list->count);
}

static int put_modules(struct writer *writer)
{
    struct look_module module;
    struct look_list list;
    int error = 0;

    look_modules_begin(&list, &writer->guest->kernel);
    while (!error && look_modules_next(&list, &module)) {
        writer->names->sum.modules++;
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
        writer->names->sum.bpf++;
        error = put(writer, &name, "bpf");
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
        writer->names->sum.ftrace++;
        error = put(writer, &name, "__builtin__ftrace");
    }
    remark_broken(writer, &list, "ftrace's trampolines");
    return error;
}

int names_look_code(struct guest_names *names, const struct linux_guest *guest, remark_fn tell,
                    struct reason *why)
{
    struct writer writer = {guest, names, tell, why};
    struct names_sum *const sum = &names->sum;
    int error = 0;

    sum->modules = sum->module_symbols = sum->bpf = sum->ftrace = 0;
    if (guest_has(guest, LAYOUT_MODULES))
        error = put_modules(&writer);
    if (!error && guest_has(guest, LAYOUT_BPF))
        error = put_bpf(&writer);
    if (!error && guest_has(guest, LAYOUT_FTRACE))
        error = put_ftrace(&writer);
    if (names->code_bytes > NAMES_CODE_BYTES_MAX)
        remark(tell, "the guest has more names of modules than are believed");
    return error;
}

/* ---- The file ---- */

int names_write_kallsyms(const struct guest_names *names, const struct linux_guest *guest,
                         struct output *output, struct reason *why)
{
    const struct kernel_symbols *const symbols = &guest->symbols;
    char line[LINE_BYTES];
    int error = 0;

    for (size_t i = 0; !error && i < symbols->count; i++)
        if (make_line(symbols->list[i].address, symbols->list[i].letter, kallsyms_name(symbols, i),
                      NULL, line))
            error = output_write(output, line, strlen(line), why);
    for (size_t i = 0; !error && i < names->code.count; i++)
        error = output_write(output, names->code.list[i], strlen(names->code.list[i]), why);
    return error;
}
