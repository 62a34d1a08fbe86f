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
    /* A guest that boots while it is captured. */
    bool is_late;     /* its kernel was not there when the capture began */
    bool is_wanted;   /* it is looked for, */
    int64_t since_ms; /* or is known, since then */
    int64_t next_ms;  /* when it is looked at again */
};

/*
 * Looks at the guest once more, and for functions of the files that the logs of traces tell.
 * traces: a list of objects, of which each names a trace as "file"; or NULL. 0 or -errno, and why:
 * there are no names then, or not all. -EINVAL: no kernel is found.
 */
int capture_names_look(struct capture_names *names, struct monitor *monitor,
                       struct json_object *traces);
/* What QEMU has to be told to keep a log of names, to be put. NULL: it cannot; or no memory. */
struct json_object *capture_names_layout(const struct capture_names *names);
/*
 * Whether it is time for a look amid a capture: only at a guest that boots meanwhile. is_wanted:
 * QEMU does not know yet where the guest's kernel is. now_ms: of a clock that only goes on.
 */
bool capture_names_is_due(struct capture_names *names, bool is_wanted, int64_t now_ms);
/* That look; tells QEMU of the kernel if that is wanted. Returns whether it still is. */
bool capture_names_turn(struct capture_names *names, struct monitor *monitor,
                        struct json_object *traces, int64_t (*now_ms)(void));
/*
 * Writes what is known to FILE.map and so on, and names the map in the sidecars of traces; or says
 * that there are none. traces: as above. 0 or an exit code.
 */
int capture_names_write(struct capture_names *names, const char *file, struct json_object *traces);
void capture_names_free(struct capture_names *names);

#endif
