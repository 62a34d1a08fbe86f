/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest's end of the wire (wire.h). */
#ifndef VMM_PROGRAM_AGENT_PORT_H
#define VMM_PROGRAM_AGENT_PORT_H

#include "program/wire.h"

#include <stdbool.h>
#include <stddef.h>

extern int port;

/* Finds and opens the port; waits for it for some seconds. False: it is not there. */
bool port_open(void);
/* Writes a frame. What cannot be written has nobody to be told of: then the guest ends. */
void port_send(enum wire_type type, const void *bytes, size_t len);
/* The same of two parts. */
void port_send_parts(enum wire_type type, const void *first, size_t first_len, const void *second,
                     size_t second_len);
/* Reads a frame of at most `room` bytes. The host's end is gone: then the guest ends. */
struct wire_head port_read(void *bytes, size_t room);
/* FAILED, with errno. Does not return. */
void port_fail(const char *what) __attribute__((noreturn));
/* Ends the guest. */
void power_off(void) __attribute__((noreturn));

#endif
