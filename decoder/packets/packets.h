/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes to packets, of all types. */
#ifndef PTD_PACKETS_H
#define PTD_PACKETS_H

#include "ptdec.h"

/* What ptd_packets_next() gives, of any packet: read.c knows common ones by a table. */
int ptd_packets_next_any(struct ptd_packets *packets, struct ptd_packet *packet);

#endif
