/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of a capture: opened by vpt, so that they belong to who asked for it, and handed over
 * to QEMU, which writes them.
 */
#ifndef VMM_CAPTURE_FILES_H
#define VMM_CAPTURE_FILES_H

#include "common/output.h"
#include "common/reason.h"
#include "monitor/monitor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capture_file {
    struct output output;
    bool optional; /* nothing may be written to it */
    int64_t fdset; /* where QEMU has it; negative: nowhere */
};

struct capture_files {
    struct capture_file *list;
    size_t count;
};

/* What a capture keeps besides the packets. */
struct capture_kinds {
    bool code, names;
};

/*
 * Opens FILE.N and what stands beside it for each vCPU of the guest (common/output.h). 0, or
 * -errno and why: -EREMOTEIO if it was QEMU that failed.
 */
int capture_files_open(struct capture_files *files, struct monitor *monitor, const char *file,
                       struct capture_kinds kinds, struct reason *why);
/* Hands them over, and adds the member "files" to the arguments of a command. The same. */
int capture_files_hand_over(struct capture_files *files, struct monitor *monitor,
                            struct json_object *arguments, struct reason *why);
/*
 * The command was answered, and QEMU has what it needs. What was created goes again if QEMU
 * refused, and if it has written all that it will, and nothing to this one.
 */
enum capture_files_end { CAPTURE_REFUSED, CAPTURE_BEGUN, CAPTURE_WRITTEN };
void capture_files_close(struct capture_files *files, struct monitor *monitor,
                         enum capture_files_end end);

/*
 * QEMU is gone, and may have been killed amid a record of the code log of a trace, if there is one:
 * what is not whole is cut off.
 */
void capture_cut_code(const char *trace);
/* Removes the map of a trace if nothing was written to it: there were no VMs. */
void capture_remove_empty_map(const char *trace);

#endif
