/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of a guest, cut out of the trace of the thread that runs it, or of the processor.
 *
 * The processor's trace goes on through VM entries and exits (SDM 33.5.2.1). What belongs to the
 * host is left out by NR alone, so no code of the host has to be known: no guest runs without a VM
 * entry, and no VM entry comes without a PIP that has NR. An exit becomes the end of tracing, an
 * entry its begin. Of the host's packets, only those of time stay.
 *
 * In a processor's trace there may be other guests. Which one is entered is told by the VMCS
 * pointer, and ours by a piece in which nobody else ran. What is not sure is nobody's.
 */
#ifndef VMM_HOSTPT_CUT_H
#define VMM_HOSTPT_CUT_H

#include "common/bytes.h"
#include "hostpt/piece.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Between the trace's pieces. Zeros at first: then the next PSB has to say who runs. */
struct cut {
    bool begun;     /* the guest's trace has its first PSB */
    uint64_t exits; /* VM exits that are in it */
    bool has_vmcs;  /* the guest's is known: */
    uint64_t vmcs;
    /* ---- Private ---- */
    uint8_t mode_told; /* in it, by the last MODE.Exec */
    uint8_t where, mode;
    bool in_psb, has_fup, has_psb_ip;
    bool has_nr, nr;  /* the PSB+ has a PIP */
    bool has_current; /* VMCS, of a processor's trace */
    uint64_t last_ip, cr3, psb_ip, current;
};

enum cut_end {
    CUT_WHOLE,
    CUT_LOST, /* packets are missing, or no guest could have sent them: the rest is left out */
    CUT_NO_MEMORY,
};

/* What was known of the guest's trace counts no more: it is to begin anew. */
void cut_forget(struct cut *cut);
/*
 * Of a thread, pieces go on from each other: only the first begins with a PSB. What is the guest's
 * is added to its trace. After CUT_LOST, cut_forget() is due.
 */
enum cut_end cut_take(struct cut *cut, const struct pt_piece *of, struct bytes *guest);

#endif
