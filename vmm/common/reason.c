/* SPDX-License-Identifier: BSD-3-Clause */
/* Why something failed, in one line. */
#include "common/reason.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int reason_set(struct reason *why, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return error;
}

void remark(remark_fn tell, const char *format, ...)
{
    char line[2 * sizeof(struct reason)];
    va_list args;

    if (!tell)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    tell(line);
}

int reason_of_file(struct reason *why, int error, const char *name)
{
    return reason_set(why, error, "%s: %s", name, strerror(-error));
}

int reason_no_memory(struct reason *why)
{
    return reason_set(why, -ENOMEM, "no memory");
}
