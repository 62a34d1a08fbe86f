/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of vmx-tests, in the order in which they run. Each leaves the processor in VMX
 * operation as it found it.
 */
#ifndef GUEST_VMX_TESTS_H
#define GUEST_VMX_TESTS_H

void test_capabilities(void);
/* Begins outside of VMX operation, ends in it. */
void test_start(void);
void test_instructions(void);
void test_fields(void);
void test_control_checks(void);
void test_host_checks(void);
void test_guest_checks(void);
void test_segment_checks(void);
void test_exits(void);
void test_cr_exits(void);
void test_bitmaps(void);
void test_events(void);
void test_msr_areas(void);
void test_state(void);
void test_ept(void);
void test_translations(void);
void test_pt(void);
void test_pt_psb(void);
void test_pt_guest(void);
void test_pt_output(void);
void test_modes(void);
/* Leaves VMX operation. */
void test_end(void);

#endif
