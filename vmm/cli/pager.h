/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pager that text for a terminal goes through.
 */
#ifndef VMM_PAGER_H
#define VMM_PAGER_H

#define NO_PAGER_HELP                                                                              \
    "Prints text to the terminal itself. Without it, text of more than a screen goes through the " \
    "program that VPT_PAGER or else PAGER names; empty or cat: none."

/*
 * If standard output is a terminal, what is printed from here on comes to it through a pager. To be
 * called before anything is printed and before rights are given up: the process that returns is a
 * child of the one that was called, which waits for both and ends with the child's exit code.
 * Without a pager, or where one cannot be started, nothing changes.
 */
void pager_begin(void);

#endif
