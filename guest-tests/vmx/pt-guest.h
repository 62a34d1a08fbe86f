/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest of indirect jumps whose trace begins with it, and what that trace holds.
 */
#ifndef GUEST_VMX_PT_GUEST_H
#define GUEST_VMX_PT_GUEST_H

#include "pt.h"
#include "tracing.h"
#include "vm.h"

#define CTL_GUEST   (CTL_DEFAULT | CTL_TRACEEN)
#define FEW         3u
#define MANY        3000u /* jumps, whose packets fill more than a page */
#define BY_CONTROLS .exit = EXIT_CLEAR_RTIT_CTL, .entry = ENTRY_LOAD_RTIT_CTL

/* RCX indirect jumps to pt_jumps_target. */
extern const struct code guest_jumps;
extern const uint8_t pt_jumps_target[];

struct guest_seen {
    unsigned psb, begins, ends, jumps, overflows;
    unsigned vmcs, nr; /* what a guest that is to see nothing must not see */
    bool enters, exits, host;
};
extern struct guest_seen guest_seen;

/* A guest of so many jumps, and output into the default buffer. False: it is skipped by name. */
bool guest_begin(const struct controls *on, uint64_t count, const char *name);
/*
 * Its trace: guest_seen is what it holds, and the host gets it to decode. One that ran into the end
 * of its memory may end amid a packet; the host does not get that.
 */
void guest_look(uint64_t phys, uint64_t len_bytes, bool cut);

#endif
