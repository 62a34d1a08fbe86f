/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two traces side by side, the hardware's and the model's: packets, PADs in front of each, contents
 * of PSB+; and a table of how they differ.
 */
#ifndef REPLAY_TALLY_H
#define REPLAY_TALLY_H

#include <stdio.h>

#include "ptdec.h"

#define KIND_BYTES    96
#define EXAMPLE_BYTES 160

struct kind {
    char name[KIND_BYTES], example[EXAMPLE_BYTES];
    uint64_t count;
};

/* A packet that is no PAD. */
struct token {
    struct ptd_packet packet;
    uint64_t pads; /* in front of it */
    uint8_t bytes[16];
};

struct tokens {
    struct token *list;
    size_t count, room;
    uint64_t pads; /* behind the last one */
};

struct tally {
    const uint8_t *trace; /* the hardware's */
    struct ptd_packets hardware;
    struct tokens theirs, ours;
    size_t last_psb; /* in ours; SIZE_MAX: there is none */
    bool in_psb, psb_equal;
    bool begins; /* nothing was compared since tally_begin(): PADs in front belong to what was
                    before */
    /* Sums. */
    uint64_t packets, equal;             /* of the hardware, compared */
    uint64_t extra;                      /* of the model, without one of the hardware */
    uint64_t psbs, psbs_equal;           /* PSB+ */
    uint64_t places, places_equal, pads; /* where PADs may stand; how many the hardware has */
    uint64_t by_type[PTD_PACKET_TYPES], equal_by_type[PTD_PACKET_TYPES];
    struct kind *kinds;
    size_t kind_count, kind_room;
    bool no_memory;
};

void tally_open(struct tally *tally, const uint8_t *trace, size_t len_bytes, uint32_t errata);
void tally_close(struct tally *tally);
/* A piece begins at a packet of the hardware. */
void tally_begin(struct tally *tally, uint64_t offset);
/* The hardware's packets up to an offset, and bytes of the model, are there. */
void tally_theirs(struct tally *tally, uint64_t up_to);
void tally_ours(struct tally *tally, const uint8_t *bytes, size_t len_bytes);
/* All that is there in front of the PSB that the model was told to send just now, belongs together.
 */
void tally_at_psb(struct tally *tally);
/*
 * The piece ends. Unless all: what one side has more is no difference, because of the hardware's it
 * could not be told what it says, and of the model's the piece has no more.
 */
void tally_end(struct tally *tally, bool all);
/* What both have is compared if it is a lot, so that memory does not grow. */
void tally_trim(struct tally *tally);
/* Something else that differs. */
void tally_note(struct tally *tally, const char *name, const char *example);

void tally_print(const struct tally *tally, FILE *file);

#endif
