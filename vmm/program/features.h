/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program may miss of this machine's processor in the guest's. */
#ifndef VMM_PROGRAM_FEATURES_H
#define VMM_PROGRAM_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Extensions of the instruction set that are in a line "flags" of /proc/cpuinfo and not in another
 * one, with a space between them. False: there are none. What the room has no place for is left
 * out.
 */
bool features_missing(const char *here, const char *there, char *text, size_t text_bytes);
/* The line of this machine. "": it is not known. */
void features_here(char *text, size_t text_bytes);

#endif
