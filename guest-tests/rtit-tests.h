/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code that the RTIT tests trace, and its labels (rtit-tests-code.S).
 */
#ifndef GUEST_RTIT_TESTS_H
#define GUEST_RTIT_TESTS_H

#include <stdint.h>

/*
 * Sets TraceActive of ctl, calls body, clears OS and USER, then TraceActive. The labels stand
 * behind the WRMSR that begins, behind the call, and behind the WRMSR that ends.
 */
void traced_run(uint64_t ctl, const uint8_t *body);
extern const uint8_t traced_begin[], traced_back[], traced_end[];

/* Conditional branches: six not taken, one taken, one not taken, taken twice. */
extern const uint8_t body_branches[];
/* JMP to body_jump_to by register. */
extern const uint8_t body_jump[], body_jump_to[];
/* CALL to body_callee, which returns to body_returned; RET of body_callee is matched. */
extern const uint8_t body_call[], body_callee[], body_returned[];
/* A RET to body_pushed, which is not where its CALL came from. */
extern const uint8_t body_push[], body_pushed[];
/* UD2 at body_fault_at; goes on behind it. */
extern const uint8_t body_fault[], body_fault_at[], body_fault_next[];
/* [body_range_in, body_range_out) is walked into and out of, with a branch in and one behind it. */
extern const uint8_t body_range[], body_range_in[], body_range_out[];
/* MOV CR3 of the same value. */
extern const uint8_t body_cr3[];

#endif
