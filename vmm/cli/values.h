/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of options that several commands have. 0, or an exit code: then what is wrong was said.
 */
#ifndef VMM_VALUES_H
#define VMM_VALUES_H

#include "trace/window.h"

#include <stdbool.h>
#include <stdint.h>

/* A number as C writes it. */
int option_number(const char *option, const char *text, uint64_t *value);
/* --from and --to: a place in a trace. */
int option_bound(const char *option, const char *text, struct bound *bound);
/* --to may not be in front of --from. */
int check_window(const struct window *window);
/* Says that a trace has nothing at --from or behind it, if that is so. */
void note_window(const struct window *window, bool is_reached, const char *name);

#endif
