/* SPDX-License-Identifier: BSD-3-Clause */
/* The files that names of a guest are written to: FILE.map, and what stands beside it. */
#ifndef VMM_NAMES_OUT_H
#define VMM_NAMES_OUT_H

#include "common/sandbox.h"
#include "linux/names.h"

enum { NAMES_MAP, NAMES_KALLSYMS, NAMES_VDSO, NAMES_SYMBOLS, NAMES_OUTPUTS };

/* Begins as zeros. */
struct names_out {
    struct output outputs[NAMES_OUTPUTS];
    char *paths[NAMES_OUTPUTS];
};

/* Opens all of them before the work begins. 0 or an exit code; names_out_free() in any case. */
int names_out_open(struct names_out *out, const char *base);
void names_out_allow(const struct names_out *out, struct sandbox *sandbox);
/*
 * Writes and closes them. core: what the map calls the dump; NULL: there is none. guest: as in
 * names_write(). 0 or an exit code.
 */
int names_out_write(struct names_out *out, struct guest_names *names,
                    const struct linux_guest *guest, const char *core);
/* What was not written goes away. */
void names_out_free(struct names_out *out);

/* The part of a path behind the last slash. */
const char *last_part(const char *path);

#endif
