/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of unit tests that need both libraries, one file each. */
#ifndef ROUNDTRIP_TESTS_SUITES_H
#define ROUNDTRIP_TESTS_SUITES_H

#include "tests/support.h"

/* Each registers its suite. */
void add_bundle_suite(void);
void add_time_suite(void);
void add_guest_suite(void);
void add_newest_suite(void);
void add_replay_suite(void);
void add_resync_suite(void);
void add_damage_suite(void);

#endif
