/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the command line. */
#include "cli/commands.h"
#include "common/say.h"

#include <getopt.h>

int bad_option(int option, char *const *argv)
{
    if (option == ':')
        return complain(EXIT_CODE_USAGE, "%s needs a value", argv[optind - 1]);
    return complain(EXIT_CODE_USAGE, "unknown option %s; see vpt %s --help", argv[optind - 1],
                    argv[0]);
}
