/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines on standard error. */
#include "common/say.h"
#include "common/escape.h"
#include "common/progress.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int complain(enum exit_code code, const char *format, ...)
{
    char *text = NULL;
    va_list args;

    progress_clear();
    (void)fflush(stdout);
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    fputs("vpt: ", stderr);
    put_escaped(text ? text : "no memory", stderr);
    fputc('\n', stderr);
    free(text);
    return (int)code;
}

void say_remark(const char *line)
{
    (void)complain(EXIT_CODE_OK, "%s", line);
}

enum exit_code exit_code_of(int error)
{
    return error == 0                                ? EXIT_CODE_OK
           : error == -ENOMEM || error == -EREMOTEIO ? EXIT_CODE_HOST
                                                     : EXIT_CODE_FILE;
}

int complain_of(int error, const struct reason *why)
{
    const enum exit_code code = exit_code_of(error);

    return error && *why->text ? complain(code, "%s", why->text) : (int)code;
}

int file_error(const char *name, int error)
{
    return complain(exit_code_of(error), "%s: %s", name, strerror(-error));
}

int no_memory(void)
{
    return complain(EXIT_CODE_HOST, "no memory");
}
