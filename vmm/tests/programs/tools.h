/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared library of a program that is traced: functions of several kinds. */
#ifndef VMM_TESTS_TOOLS_H
#define VMM_TESTS_TOOLS_H

#include <stddef.h>

/* Calls itself. */
unsigned tool_fibonacci(unsigned n);
/* Two names of one function. */
unsigned tool_mix(unsigned a, unsigned b);
unsigned tool_stir(unsigned a, unsigned b);
/* Calls back. */
unsigned tool_fold(const unsigned *list, size_t count, unsigned (*fold)(unsigned, unsigned));
/* Sorts by the C library, which calls back in turn. */
void tool_sort(unsigned *list, size_t count);
/* Its code begins with a label that is no function, and has no size. */
unsigned tool_by_label(unsigned n);

#endif
