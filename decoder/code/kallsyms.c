/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the Linux kernel's functions from its kallsyms: lines of an address, a letter, a name,
 * and perhaps a module in brackets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "code/image.h"

#define LINE_BYTES 1024

/* PTD_OK also for what is no function; PTD_E_FORMAT: not a line of kallsyms. */
static int add_line(struct ptd_image *image, char *line, uint64_t cr3)
{
    char *end, *name;
    const uint64_t address = strtoull(line, &end, 16);
    char kind;

    if (end == line || *end != ' ' || !end[1] || end[2] != ' ')
        return PTD_E_FORMAT;
    kind = end[1];
    name = end + 3;
    name[strcspn(name, " \t\n")] = 0;
    /* Without the right to see them, all addresses read as 0. */
    if (!*name || !address || !strchr("tTwW", kind))
        return PTD_OK;
    return ptd_image_add_symbol(image, name, address, 0, UINT64_MAX,
                                kind == 'T'                  ? SYMBOL_GLOBAL
                                : kind == 'w' || kind == 'W' ? SYMBOL_WEAK
                                                             : SYMBOL_LOCAL,
                                cr3);
}

int ptd_image_add_kallsyms(struct ptd_image *image, const char *path, uint64_t cr3)
{
    FILE *const file = fopen(path, "re");
    char line[LINE_BYTES];
    struct stat info;
    int status = PTD_OK;

    if (!file)
        return PTD_E_IO;
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode))
        status = PTD_E_IO;
    while (status == PTD_OK && fgets(line, sizeof(line), file))
        status = strchr(line, '\n') || feof(file) ? add_line(image, line, cr3) : PTD_E_FORMAT;
    if (status == PTD_OK && ferror(file))
        status = PTD_E_IO;
    fclose(file);
    return status;
}
