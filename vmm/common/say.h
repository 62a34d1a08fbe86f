/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the program says of itself: exit codes, and lines on standard error.
 */
#ifndef VMM_SAY_H
#define VMM_SAY_H

#include "common/reason.h"

/* Exit codes of the program (docs/vpt.md). */
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_GUEST_FAILED = 1, /* the guest ended with a status other than 0 */
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_FILE = 3,  /* an image or file is missing or not what it should be */
    EXIT_CODE_HOST = 4,  /* the host lacks something: KVM, the lab's files, memory */
    EXIT_CODE_CRASH = 5, /* triple fault, internal error, or the source lost track */
    EXIT_CODE_TIMEOUT = 6,
    EXIT_CODE_MISMATCH = 7, /* --verify: the decoded path is not the executed one */
    /* Of vpt trace, whose others are the program's: as those of env and timeout. */
    EXIT_CODE_LATE = 124,
    EXIT_CODE_NOT_TRACED = 125,
    EXIT_CODE_NOT_EXECUTABLE = 126,
    EXIT_CODE_NOT_FOUND = 127,
    EXIT_CODE_SIGNAL = 128, /* and the signal's number */
};

/* One line on standard error, "vpt: ...". Returns code. */
int complain(enum exit_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same of what is no failure: a remark_fn (common/reason.h). */
void say_remark(const char *line);
/* What -errno of a function below the subcommands means for the program. */
enum exit_code exit_code_of(int error);

/*
 * Ends what failed with -errno and this reason: says it, unless it is empty since it was said
 * already, or is said by main(). 0 is no failure. An exit code.
 */
int complain_of(int error, const struct reason *why);

/* Says what -errno means for a file; that there is no memory. An exit code. */
int file_error(const char *name, int error);
int no_memory(void);

#endif
