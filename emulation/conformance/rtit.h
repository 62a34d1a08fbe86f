/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules of RTIT share. */
#ifndef VPT_CONFORMANCE_RTIT_H
#define VPT_CONFORMANCE_RTIT_H

#include "tests/rtit_harness.h"
#include "conformance.h"

/* The packets since the mark; then it is over. */
#define END_RTIT(fake, pattern)                                                                    \
    do {                                                                                           \
        RTIT_EXPECT(fake, pattern, "packets");                                                     \
        rtit_close(fake);                                                                          \
    } while (0)

/* A far transfer whose FUP has the address from. */
void far_from(struct rtit_fake *fake, uint64_t from, uint64_t target);
/* Tables 6 and 17: TraceStop. */
void t6_stop(void);

#endif
