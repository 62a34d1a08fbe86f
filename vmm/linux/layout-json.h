/* SPDX-License-Identifier: BSD-3-Clause */
/* The lay-out of a kernel as JSON: what x-vpt-start of our QEMU takes to keep a log of names. */
#ifndef VMM_LINUX_LAYOUT_JSON_H
#define VMM_LINUX_LAYOUT_JSON_H

#include "linux/guest.h"

struct json_object;

/* The member "names" of its arguments, and those of x-vpt-names; to be put. NULL: no memory. */
struct json_object *layout_to_json(const struct linux_guest *guest);

#endif
