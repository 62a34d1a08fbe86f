/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the lines of VMCOREINFO: NAME=VALUE, with values in hexadecimal or decimal. */
#include "linux/vmcoreinfo.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_NAME "VMCOREINFO"

struct line {
    const char *name;
    size_t offset; /* in struct vmcoreinfo, of a uint64_t */
    int base;
    bool required;
};

#define LINE(name, member, base, required)                                                         \
    {                                                                                              \
        name, offsetof(struct vmcoreinfo, member), base, required                                  \
    }

static const struct line lines[] = {
    LINE("SYMBOL(swapper_pg_dir)", page_table, 16, true),
    LINE("NUMBER(phys_base)", phys_base, 10, true),
    LINE("NUMBER(sme_mask)", ignored_bits, 10, false),
    LINE("SYMBOL(_stext)", text, 16, true),
    LINE("SYMBOL(kallsyms_names)", names, 16, true),
    LINE("SYMBOL(kallsyms_num_syms)", name_count, 16, true),
    LINE("SYMBOL(kallsyms_token_table)", tokens, 16, true),
    LINE("SYMBOL(kallsyms_token_index)", token_index, 16, true),
    LINE("SYMBOL(kallsyms_offsets)", offsets, 16, true),
    LINE("SYMBOL(kallsyms_relative_base)", relative_base, 16, true),
};

#define LINES (sizeof(lines) / sizeof(lines[0]))

/* The value of a line, ended by its line feed; NULL: there is no such line. */
static const char *value_of(const char *text, const char *name)
{
    const size_t len = strlen(name);

    while (*text) {
        const char *const end = strchr(text, '\n');

        if (strncmp(text, name, len) == 0 && text[len] == '=')
            return text + len + 1;
        if (!end)
            break;
        text = end + 1;
    }
    return NULL;
}

/* Negative numbers count modulo 2^64: phys_base may be one. */
static bool read_line(struct vmcoreinfo *info, const char *text, const struct line *line)
{
    const char *const value = value_of(text, line->name);
    uint64_t *const into = (uint64_t *)(void *)((char *)info + line->offset);
    char *end;

    if (!value)
        return !line->required;
    *into = value[0] == '-' ? (uint64_t)strtoll(value, &end, line->base)
                            : strtoull(value, &end, line->base);
    return end != value && (*end == '\n' || *end == 0);
}

bool vmcoreinfo_parse(struct vmcoreinfo *info, const char *bytes, size_t len_bytes)
{
    char text[VMCOREINFO_BYTES_MAX + 1];
    const char *value;

    *info = (struct vmcoreinfo){0};
    if (len_bytes > VMCOREINFO_BYTES_MAX)
        len_bytes = VMCOREINFO_BYTES_MAX;
    memcpy(text, bytes, len_bytes);
    text[len_bytes] = 0;
    for (size_t i = 0; i < LINES; i++)
        if (!read_line(info, text, &lines[i]))
            return false;
    value = value_of(text, "OSRELEASE");
    if (value)
        (void)strncat(info->release, value,
                      strcspn(value, "\n") < sizeof(info->release) - 1 ? strcspn(value, "\n")
                                                                       : sizeof(info->release) - 1);
    value = value_of(text, "NUMBER(pgtable_l5_enabled)");
    info->has_five_levels = value && value[0] == '1';
    return true;
}

const char *vmcoreinfo_in_page(const uint8_t *page, size_t len_bytes)
{
    const Elf64_Nhdr note = {.n_namesz = sizeof(NOTE_NAME)};

    if (len_bytes <= VMCOREINFO_IN_NOTE + sizeof(VMCOREINFO_BEGIN))
        return NULL;
    if (memcmp(page, VMCOREINFO_BEGIN, sizeof(VMCOREINFO_BEGIN) - 1) == 0)
        return (const char *)page;
    if (memcmp(page, &note.n_namesz, sizeof(note.n_namesz)) == 0 &&
        memcmp(page + sizeof(note), NOTE_NAME, sizeof(NOTE_NAME)) == 0 &&
        memcmp(page + VMCOREINFO_IN_NOTE, VMCOREINFO_BEGIN, sizeof(VMCOREINFO_BEGIN) - 1) == 0)
        return (const char *)page + VMCOREINFO_IN_NOTE;
    return NULL;
}
