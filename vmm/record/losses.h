/* SPDX-License-Identifier: BSD-3-Clause */
/* What a perf.data that was just recorded says of itself, without looking at its packets. */
#ifndef VMM_RECORD_LOSSES_H
#define VMM_RECORD_LOSSES_H

#include "common/reason.h"
#include "record/vms.h"

struct losses {
    uint64_t file_bytes, trace_bytes;
    uint64_t full;    /* times that the buffer was full, and packets were lost */
    uint64_t gaps;    /* parts with gaps: somebody else used Intel PT */
    uint64_t records; /* that were lost */
    uint64_t offsets; /* changes of TSC offsets that KVM told of */
    bool is_cut;      /* the file ends early */
};

/* The perf.data of a path; changes of TSC offsets go to vms. 0, or -errno and the reason. */
int losses_read(const char *path, struct vms *vms, struct losses *losses, struct reason *why);

#endif
