/* SPDX-License-Identifier: BSD-3-Clause */
/* What the guest is before the program begins: drivers, the host's files, a network. */
#ifndef VMM_PROGRAM_AGENT_SETUP_H
#define VMM_PROGRAM_AGENT_SETUP_H

/* Mounts what the kernel has itself, and loads the modules of /modules/order. */
void setup_kernel(void);
/*
 * The host's files become "/": by 9p, which only reads, below a layer in memory. Fails by
 * port_fail().
 */
void setup_files(void);
/* The loopback device; the network as well if there is one. Fails by port_fail(). */
void setup_network(int has_network);

#endif
