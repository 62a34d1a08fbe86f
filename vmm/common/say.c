/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines on standard error. */
#include "common/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int complain(enum exit_code code, const char *format, ...)
{
    va_list args;

    (void)fflush(stdout);
    fputs("vpt: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return (int)code;
}

int file_error(const char *name, int error)
{
    return complain(error == -ENOMEM ? EXIT_CODE_HOST : EXIT_CODE_FILE, "%s: %s", name,
                    strerror(-error));
}

int no_memory(void)
{
    return complain(EXIT_CODE_HOST, "no memory");
}
