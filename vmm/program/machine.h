/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine in which a program of this one runs to be traced: Debian's kernel on our QEMU, with
 * this machine's files, of which QEMU reads what its user may read and writes none.
 */
#ifndef VMM_PROGRAM_MACHINE_H
#define VMM_PROGRAM_MACHINE_H

#include "common/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct machine_options {
    const char *qemu, *kernel_folder; /* as vmm/program/prepare.sh leaves it */
    const char *monitor;              /* the path of QMP's socket; NULL: none */
    const char *profile, *mem;
    unsigned cpus;
    bool has_network;
    bool has_no_vdso; /* code that no file has, which a perf.data does not bring */
};

struct machine {
    pid_t qemu; /* 0: it does not run */
    int wire;   /* our end of it, to be read and written without waiting */
    int initrd, console, errors;
};

/* 0 or -errno; -ENOENT: the kernel is missing. Ended by machine_end() in any case. */
int machine_start(struct machine *machine, const struct machine_options *options,
                  struct reason *why);
/* What is known of a machine that went away by itself. Returns -EIO. */
int machine_blame(struct machine *machine, struct reason *why);
/* In good order if it obeys within some seconds, so that what QEMU writes is whole. */
void machine_end(struct machine *machine);

#endif
