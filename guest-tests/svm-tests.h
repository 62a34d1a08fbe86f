/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SVM guests of a guest that traces itself: what svm-tests.c and the code of its guests share.
 */
#ifndef GUEST_SVM_TESTS_H
#define GUEST_SVM_TESTS_H

#include <stdint.h>

#define GUEST_PARTS  5
#define GUEST_ROUNDS 40
#define GUEST_LONG   3000

/* The guests' code; their stack and first argument are in the VMCB and guest_registers. */
_Noreturn void svm_guest_main(uint64_t seed);
_Noreturn void svm_guest_waits(void);
_Noreturn void svm_guest_faults(void);
_Noreturn void svm_guest_times(void);
uint64_t svm_guest_work(uint64_t seed, unsigned rounds);
void svm_guest_ud(void);
extern const uint8_t svm_guest_ud_ip[], svm_guest_vector[];

/* svm-tests-code.S */
void svm_enter(uint64_t vmcb_phys);
extern const uint8_t svm_vmrun[], svm_behind[];
extern uint64_t guest_registers[14];

#endif
