/* SPDX-License-Identifier: BSD-3-Clause */
/* A core dump of a guest, as memory that can be looked at. */
#ifndef VMM_LINUX_CORE_H
#define VMM_LINUX_CORE_H

#include "common/reason.h"
#include "linux/source.h"
#include "linux/vmcoreinfo.h"
#include "ptdec.h"

/* Physical memory that a file holds. */
struct core_range {
    uint64_t paddr, len_bytes;
};

/* Begins as zeros. */
struct core {
    struct ptd_memory *memory;
    struct core_range *ranges;
    size_t range_count;
    char vmcoreinfo[VMCOREINFO_BYTES_MAX]; /* as a note of the file has it */
    size_t vmcoreinfo_bytes;               /* 0: it has none */
};

/*
 * An ELF core of QEMU (dump-guest-memory) or libvirt (virsh dump --memory-only). 0; -EINVAL: it is
 * none of a 64-bit guest; -ENOMEM, -EIO; and the reason. core_close() in any case; fd stays open,
 * and is not needed afterwards.
 */
int core_open(struct core *core, int fd, const char *name, struct reason *why);
void core_close(struct core *core);
/* Its memory, as walks read it; valid as long as core is. */
struct guest_source core_source(const struct core *core);

#endif
