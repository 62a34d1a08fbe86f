/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guest's end, by the exit port: see docs/guests.md. Memory and traps end the guest, too, so
 * this stands below them.
 */
#ifndef GUEST_EXIT_H
#define GUEST_EXIT_H

#include <stdint.h>

/* Ends the machine with this status. */
_Noreturn void guest_exit(uint32_t status);

#endif
