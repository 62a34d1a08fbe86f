/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of marks of CYC and MTC packets, told fast. */
#ifndef PTD_NEAR_H
#define PTD_NEAR_H

#include "time/timing.h"

/*
 * Tells the times of the first marks, as ptd_time_packet() and ptd_time_point() would, as far as
 * all is as usual. Returns how many; packets is not moved.
 */
size_t ptd_near_marks(struct ptd_time *time, const struct ptd_packets *packets,
                      const struct ptd_mark *marks, size_t count, struct ptd_time_point *points);

#endif
