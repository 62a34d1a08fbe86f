/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a subcommand that reads foreign files gives up before it parses them.
 */
#ifndef VMM_GUARD_H
#define VMM_GUARD_H

#include "common/sandbox.h"

#define NO_SANDBOX_HELP                                                                            \
    "Keeps all rights of the user while foreign files are read. Without it, the program gives up " \
    "what it does not need, where the kernel has Landlock and seccomp."

/* TRACE.json may be read. */
void guard_allow_sidecar(struct sandbox *sandbox, const char *trace);
/* Enters it unless it is off. 0 or an exit code. */
int guard_enter(struct sandbox *sandbox, bool is_off);

#endif
