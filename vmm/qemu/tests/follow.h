/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code that a log of execlog.c says ran, put into an image as the log goes on: a system that
 * boots, patches itself and starts programs is decoded without a file of it.
 */
#ifndef QEMU_TESTS_FOLLOW_H
#define QEMU_TESTS_FOLLOW_H

#include "log.h"
#include "ptdec.h"

struct follow {
    struct log *log;
    struct ptd_image *image;
    size_t ahead;     /* of the log: what is in front of it is in the image */
    size_t blocked;   /* 1 + number of what still needs the code that comes next to be otherwise */
    uint64_t epoch;   /* one more for each change */
    uint64_t *in;     /* by instruction of the table: the epoch in which it is in the image */
    uint64_t changes; /* instructions that took the place of other code */
    uint64_t kernel_changes; /* of them, in the upper half of all addresses */
};

/* The log has code. 0 or -ENOMEM. */
int follow_open(struct follow *follow, struct log *log, struct ptd_image *image);
void follow_close(struct follow *follow);
/*
 * To be called before a decoder goes on at number pos of the log. What ran before has been put into
 * the image in its order, and what runs next is there too: some more of it, as long as that takes
 * nothing away from what runs in between. False: no memory.
 */
bool follow_to(struct follow *follow, size_t pos);

#endif
