/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's Intel PT of the calling thread, piece by piece: by an event of its own, or out of what
 * a recorder of the whole host traces. If the recorder ends, the thread goes on with an event of
 * its own.
 */
#ifndef VMM_HOSTPT_THREAD_H
#define VMM_HOSTPT_THREAD_H

#include "common/reason.h"
#include "hostpt/piece.h"
#include "ptdec.h"

#include <stdbool.h>

struct pt_thread;

#define PT_THREAD_PATIENCE_MS 10000u /* of a guest that waits until it has been followed */

/*
 * recorder: its socket; NULL: an event of its own. patience_ms: so long the thread may wait for the
 * hardware when the recorder has ended. 0, or -errno and why.
 */
int pt_thread_open(const char *recorder, unsigned patience_ms, struct pt_thread **thread,
                   struct reason *why);
void pt_thread_close(struct pt_thread *thread);
/* Of what it traces. */
struct ptd_time_config pt_thread_clocks(const struct pt_thread *thread);
/* Whether others may be in what it traces. */
bool pt_thread_is_shared(const struct pt_thread *thread);
/* A piece begins, and ends. 0, or -errno and why. What is in *piece is there until the next one. */
int pt_thread_begin(struct pt_thread *thread, struct reason *why);
int pt_thread_end(struct pt_thread *thread, struct pt_piece *piece, struct reason *why);

#endif
