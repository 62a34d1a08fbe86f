/* SPDX-License-Identifier: BSD-3-Clause */
/* Guests of a recording that are asked by their QEMU's monitor: whether they have panicked, and for
 * their memory. */
#ifndef VMM_CLI_RECORD_GUESTS_H
#define VMM_CLI_RECORD_GUESTS_H

#include "monitor/monitor.h"
#include "record/vms.h"

#define RECORD_GUESTS_MAX 64u

struct record_guest {
    const char *who;        /* a domain of libvirt, or the socket of QEMU's monitor */
    struct monitor monitor; /* .send NULL: it is not open */
    bool panics, memory;    /* what it is asked for */
};

/* Begins as zeros. */
struct record_guests {
    struct record_guest list[RECORD_GUESTS_MAX];
    unsigned count;
};

/* The guest of this name, added if it is new: a monitor speaks to one at a time. NULL: too many. */
struct record_guest *record_guests_add(struct record_guests *guests, const char *who);
/* Finds out whether all of them can be asked. 0 or an exit code. */
int record_guests_open(struct record_guests *guests);
void record_guests_close(struct record_guests *guests);

/* Asks those that are watched, and says of one that has panicked so. True: there is one. */
bool record_guests_panicked(struct record_guests *guests);

/* Whether any guest's memory is wanted. */
bool record_guests_want_memory(const struct record_guests *guests);
/*
 * Puts the memory of those whose memory is wanted into a folder, and what vpt names finds in it
 * beside that; vms learn where it is, and its names. Of a guest that cannot be had, a line says
 * why. How much room has to be left there: min_free.
 */
void record_guests_memory(struct record_guests *guests, struct vms *vms, const char *folder,
                          uint64_t min_free);

#endif
