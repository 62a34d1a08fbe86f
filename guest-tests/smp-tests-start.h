/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an application processor begins (smp-tests-start.S): where its first code is copied to, and
 * how large the stack is that it takes from ap_stacks[] by its APIC ID. Read by C and by the
 * assembler.
 */
#ifndef SMP_TESTS_START_H
#define SMP_TESTS_START_H

#define AP_PAGE        0x70000
#define AP_STACK_BYTES 16384

#ifndef __ASSEMBLER__
#include <stdint.h>

extern const uint8_t ap_code[], ap_code_end[];
/* The image's: stacks, and where such a processor goes. */
extern uint8_t ap_stacks[][AP_STACK_BYTES];
_Noreturn void ap_main(uint32_t id);
#endif

#endif
