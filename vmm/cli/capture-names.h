/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the guest that is captured: looked at while the capture runs, and written beside it. */
#ifndef VMM_CAPTURE_NAMES_H
#define VMM_CAPTURE_NAMES_H

#include "cli/names-out.h"

/* Begins as zeros. */
struct capture_names {
    struct guest_names names;
    struct linux_guest guests[2]; /* the kernel as the last look found it, and that of the next */
    unsigned current;
    bool has_guest;
    struct reason why; /* why the last look told nothing, or not all */
};

/* Looks at the guest once more. What fails is no error: there are no names then. */
void capture_names_look(struct capture_names *names, struct monitor *monitor);
/* What QEMU has to be told to keep a log of names, to be put. NULL: it cannot; or no memory. */
struct json_object *capture_names_layout(const struct capture_names *names);
/*
 * Writes what is known to FILE.map and so on, and names the map in the sidecars of traces; or says
 * that there are none. traces: a list of objects, of which each names a trace as "file". 0 or an
 * exit code.
 */
int capture_names_write(struct capture_names *names, const char *file, struct json_object *traces);
void capture_names_free(struct capture_names *names);

#endif
