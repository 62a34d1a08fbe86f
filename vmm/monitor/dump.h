/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a guest as an ELF core, which its QEMU writes: any QEMU does, also a stock one. */
#ifndef VMM_MONITOR_DUMP_H
#define VMM_MONITOR_DUMP_H

#include "common/reason.h"
#include "monitor/monitor.h"

#include <stdint.h>

/* What QEMU calls its guest (-name); "" if it has no name. 0, or -EREMOTEIO and the reason. */
int dump_name(struct monitor *monitor, char *name, size_t name_bytes, struct reason *why);
/* How much memory the guest has. 0: QEMU does not say. */
uint64_t dump_size(struct monitor *monitor);
/*
 * Has all of it written to a new file. The guest stands still meanwhile, and goes on when that is
 * done, whatever becomes of this process. turn, unless it is NULL, hears how far it is, as far as
 * anybody tells. 0, or -errno and the reason; then there is no file.
 */
int dump_write(struct monitor *monitor, const char *path, void (*turn)(uint64_t done, uint64_t all),
               struct reason *why);

#endif
