/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of vpt demux of a perf.data. */
#ifndef VMM_DEMUX_TESTS_HOSTS_H
#define VMM_DEMUX_TESTS_HOSTS_H

#include <CUnit/CUnit.h>

extern CU_TestInfo hosts_tests[];

#endif
