/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The traces of all processors, which a recorder of the host has and lends (vpt record --guests):
 * what a processor traced while the calling thread had it, piece by piece. The recorder goes on to
 * record; what is looked at here stands in its rings.
 */
#ifndef VMM_HOSTPT_PROCESSORS_H
#define VMM_HOSTPT_PROCESSORS_H

#include "common/bytes.h"
#include "common/reason.h"
#include "hostpt/event.h"
#include "hostpt/piece.h"

struct processors;

/*
 * By the socket of a recorder. setting: what a guest needs, which it has to record. 0, or -errno
 * and why.
 */
int processors_open(const char *socket, const struct pt_event_setting *setting,
                    struct processors **processors, struct reason *why);
void processors_close(struct processors *processors);
/* Whether the recorder still lends them. */
bool processors_are_lent(const struct processors *processors);
/*
 * A piece begins: the calling thread stays on its processor until the piece ends. What goes wrong
 * is a loss of the piece.
 */
void processors_begin(struct processors *processors);
/* It ends. Its bytes go into *bytes, and are there as long as these. */
void processors_end(struct processors *processors, struct bytes *bytes, struct pt_piece *piece);

#endif
