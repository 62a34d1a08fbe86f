/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner of the model's processor: memory with holes, clocks, and every byte that leaves the
 * internal buffer, in order.
 */
#ifndef PTD_INVARIANTS_OWNER_H
#define PTD_INVARIANTS_OWNER_H

#include "vpt.h"

#define OWNER_RAM   (64u << 10)
#define OWNER_TABLE 0x1000ull /* the ToPA */
#define OWNER_PAGES 0x4000ull /* and what it points to */

struct owner {
    struct vpt_cpu cpu;
    struct vpt_clocks clocks;
    uint8_t ram[OWNER_RAM];

    /* What stands in place of RAM. */
    bool ept_hole;     /* output by EPT faults, but for pages that were asked for before */
    uint16_t granted;  /* these pages, until the next VM exit */
    bool unbacked;     /* nothing answers from half the pages on */
    bool restricted;   /* SMRR has half the pages */
    bool mmio;         /* they are a device */
    unsigned answered; /* how many stores of this event went to where nothing is */
    unsigned faulted;  /* and how many of its accesses met a hole of EPT */

    /* What left the internal buffer in this event, and what stands in it since the last one. */
    uint8_t out[1u << 16];
    uint32_t out_len, before_len;
    uint8_t before[VPT_BUFFER_BYTES];
};

bool owner_open(struct owner *owner, const struct vpt_caps *caps);
void owner_begin(struct owner *owner);
/*
 * The bytes that the event appended: *bytes and *len_bytes. False: bytes that stood in the buffer
 * before have not come out as they were, or not all of them have.
 */
bool owner_end(struct owner *owner, const uint8_t **bytes, size_t *len_bytes);
/* The processor saved, and restored into another. NULL, or what is wrong. */
const char *owner_migrate(struct owner *owner);

#endif
