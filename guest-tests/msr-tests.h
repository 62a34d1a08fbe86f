/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of MSR and CPUID cases; see msr-tests.c.
 */
#ifndef GUEST_MSR_TESTS_H
#define GUEST_MSR_TESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "pt.h"
#include "tracing.h"

/* msr-tests-cpuid.c: what CPUID enumerates. */
void test_cpuid(void);
/* msr-tests-ctl.c: IA32_RTIT_CTL. */
void test_ctl(void);
/* msr-tests-regs.c: the other MSRs, and all of them while TraceEn is 1. */
void test_registers(void);
/* msr-tests-perf.c: IA32_PERF_GLOBAL_*, ToPA PMIs. */
void test_perf(void);
/* msr-tests-range.c: single-range output. */
void test_single_range(void);
/* msr-tests-topa.c: ToPA tables, their errors, and what they do. */
void test_topa(void);
/* msr-tests-enables.c: TriggerEn, ContextEn, FilterEn, TraceStop and the packets that show them. */
void test_enables(void);

/* Whether IA32_RTIT_CTL takes this value while TraceEn is 0 (Table 33-6). */
bool ctl_is_legal(uint64_t value);

/* A case per MSR value: the write raises #GP or not, and the register then holds `want`. */
void check_write(uint32_t msr, uint64_t value, bool legal, uint64_t want, const char *what);

#endif
