/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VMM_SCALING_CASES_H
#define VMM_SCALING_CASES_H

#include <stdbool.h>
#include <stddef.h>

#define CASE_ARGUMENTS 8

/* An input of any size, and what is to read it. */
struct scaling_case {
    const char *name;
    unsigned size; /* the smaller one of the two */
    bool in_part;  /* one of those that are always measured */
    /* Writes the input's files; false: that failed. */
    bool (*make)(const char *folder, unsigned size);
    /* Not NULL: reads them by the library. False: not as it should be. */
    bool (*run)(const char *folder);
    /* Else the program's; "@" at the beginning stands for the folder. */
    const char *arguments[CASE_ARGUMENTS];
};

/* A list ends where a name is NULL. */
extern const struct scaling_case code_cases[], trace_cases[], perf_cases[];

#endif
