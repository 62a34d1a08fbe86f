/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals to a command that goes on until it is told to end: SIGINT, SIGTERM and SIGHUP end it, and
 * where it keeps a ring, SIGUSR2 writes that.
 */
#ifndef VMM_CLI_SIGNALS_H
#define VMM_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

extern volatile sig_atomic_t signals_end;  /* the command is to end */
extern volatile sig_atomic_t signals_save; /* the ring is to be written; who does sets it to 0 */

/* Begins to listen. `ring`: to SIGUSR2, too. */
void signals_listen(bool ring);

#endif
