/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walk over the regions of a ToPA (33.2.7.2).
 */
#ifndef VPT_TOPA_H
#define VPT_TOPA_H

#include "vpt.h"

/* Reads the ToPA entry at the current table offset. True: a region is loaded. */
bool vpt_topa_load(struct vpt_cpu *cpu);
/* Where the region behind the current one begins. False: there is none, or it cannot be read. */
bool vpt_topa_next_region(struct vpt_cpu *cpu, uint64_t *gpa);
/* The current region was filled: PMI, STOP, next entry (33.2.7.2). */
void vpt_topa_filled(struct vpt_cpu *cpu);
void vpt_topa_pmi(struct vpt_cpu *cpu);

#endif
