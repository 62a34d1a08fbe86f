/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names as people write them. A linker knows a function of C++ or Rust by a name that holds its
 * types, "_ZNSt6vectorIiE4backEv". Needs libiberty; without it, names stay as they are.
 */
#ifndef VMM_DEMANGLE_H
#define VMM_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

#define MANGLED_MAX   4096u /* bytes of a name that is tried */
#define DEMANGLED_MAX 768u  /* bytes of what it may become, and a zero */

/* Whether this build has it. */
bool demangle_is_there(void);
/*
 * What stands for a mangled name of C++ (the Itanium ABI) or of Rust, in text. False: it is none,
 * or what it stands for is longer.
 */
bool demangle(const char *name, char text[DEMANGLED_MAX]);

/*
 * Names as they are shown. Each is demangled once; at most 2^14 are kept, then they are forgotten
 * and made anew.
 */
struct shown_names;

/* NULL: no memory. */
struct shown_names *shown_names_new(void);
void shown_names_free(struct shown_names *names);
/* name itself, or what it stands for until the next call. names may be NULL, and so may name. */
const char *shown_name(struct shown_names *names, const char *name);

#endif
