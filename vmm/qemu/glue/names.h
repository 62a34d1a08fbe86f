/* SPDX-License-Identifier: GPL-2.0-or-later */
/* names.c: who and what a captured vCPU ran, as its guest's memory names it. */
#ifndef TARGET_I386_VPT_NAMES_H
#define TARGET_I386_VPT_NAMES_H

#include "qapi/qapi-types-misc-target.h"
#include "vpt-i386.h"

/* Whose names, and where they go. */
struct X86VptNamesTo {
    CPUState *cs;
    const CPUX86State *env;
    struct X86VptRing *ring; /* NULL: to a file */
    /* Where the trace is now, and its time. */
    uint64_t (*offset)(void *owner);
    uint64_t (*tsc)(void *owner);
    void *owner;
};

struct X86VptNames;
/*
 * kernel NULL: it is not known yet. Takes the descriptor, unless it goes to a ring or it returns
 * NULL. errp is not NULL.
 */
struct X86VptNames *x86_vpt_names_new(const struct X86VptNamesTo *to, const VptNames *kernel,
                                      struct X86VptFile *file, Error **errp);
/* The last line. */
void x86_vpt_names_end(struct X86VptNames *names);
/* Errno: the file could not be written to its end. */
int x86_vpt_names_free(struct X86VptNames *names);
/* Errno of the first write that failed. */
int x86_vpt_names_error(const struct X86VptNames *names);
/* How many looks and lines there were too many. */
uint64_t x86_vpt_names_left_out(const struct X86VptNames *names);

/* From here on it is known where the kernel of the guest keeps who runs. False: that is wrong. */
bool x86_vpt_names_take(struct X86VptNames *names, const VptNames *kernel, Error **errp);
/* Whether it is not known. */
bool x86_vpt_names_wanted(const struct X86VptNames *names);
/* The machine begins anew, and the kernel that was known is gone. */
void x86_vpt_names_reset(struct X86VptNames *names);

/* Another task may run, and the trace was told of what led to it. */
void x86_vpt_names_look(struct X86VptNames *names);
/* CR3 was loaded. */
void x86_vpt_names_new_space(struct X86VptNames *names);
/* A block is about to run at pc that was looked up. */
void x86_vpt_names_code(struct X86VptNames *names, const TranslationBlock *tb, uint64_t pc);
/* All is told anew. */
void x86_vpt_names_anew(struct X86VptNames *names);

#endif
