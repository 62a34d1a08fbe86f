/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hypervisor as somebody else's command: it starts one virtual machine with a guest image, and
 * its standard output and error are the machine's console.
 */
#ifndef VMM_KIT_LAUNCH_H
#define VMM_KIT_LAUNCH_H

#include "common/reason.h"
#include "kit/suite.h"

/* What stands in the command in braces; each is put there as one word of the shell. */
struct kit_machine {
    const char *image;  /* {image}: the path of the guest image */
    const char *append; /* {append}: its command line */
    unsigned cpus;      /* {cpus} */
};

/*
 * The command with these in it, of malloc(). NULL: no memory, or braces around another word, of
 * which why says.
 */
char *kit_command(const char *command, const struct kit_machine *machine, struct reason *why);

/*
 * Runs the command by /bin/sh and reads its console into the suite, to the closing line, to the
 * command's end, or for so many seconds. Then the command and what it started is ended, and the
 * suite as well (kit_suite_end()). 0; -EINTR if a signal asked the program to end; -ENOEXEC if
 * the shell could not run the command and nothing came of it; else another -errno.
 */
int kit_launch(const char *command, unsigned seconds, struct kit_suite *suite, struct reason *why);

/* The same of a console that somebody kept in a file. */
int kit_read_console(const char *path, struct kit_suite *suite, struct reason *why);

#endif
