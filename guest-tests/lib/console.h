/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text output on the debug console (port E9H), and the report of test cases.
 *
 * A case prints one line and is counted:
 *
 *   PASS: IA32_RTIT_CTL[3] User can be set (Table 33-6)
 *   FAIL: IA32_RTIT_CTL[18] is reserved (Table 33-6) (got no exception, want #GP)
 *   SKIP: IA32_RTIT_CTL[6] FabricEn reaches the transport (no trace transport subsystem)
 *
 * Details of a failure stand behind its line, each on one that begins with four spaces.
 */
#ifndef GUEST_CONSOLE_H
#define GUEST_CONSOLE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From now on all is sent to COM1 (3F8H), too: for machines where nobody listens at port E9H. */
void console_on_serial(void);

/* Conversions: %d %u %x %lu %ld %lx %s %c %%, with width and zero padding. */
void printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void console_write(const char *text, size_t len);

/* A case that holds or not. */
void report(bool pass, const char *format, ...) __attribute__((format(printf, 2, 3)));
void vreport(bool pass, const char *format, va_list *args);
/* A case whose value must be the one wanted. */
void report_value(uint64_t got, uint64_t want, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A case about exceptions: vectors as rdmsr_safe() gives them. */
void report_vector(unsigned got, unsigned want, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A case that cannot be tried here, and why. */
void report_skip(const char *reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the counts. The exit status: 0 if nothing failed. */
int report_summary(void);

#endif
