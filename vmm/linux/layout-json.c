/* SPDX-License-Identifier: BSD-3-Clause */
#include "linux/layout-json.h"
#include "common/json.h"
#include "linux/look/numbers.h"

#include <json-c/json.h>

/* What the kernel has not is left out. False: no memory. */
static bool put_numbers(const struct look_kernel *kernel, json_object *into)
{
    struct look_layout layout = kernel->layout;

    for (const struct look_number *number = look_numbers; number->name; number++) {
        const uint64_t value = *look_number_in(&layout, number);

        if (look_number_is_good(number, value) &&
            !json_add(into, number->name, json_object_new_uint64(value)))
            return false;
    }
    return true;
}

json_object *layout_to_json(const struct linux_guest *guest)
{
    const struct look_space *const space = &guest->kernel.space;
    const uint64_t early_root = guest_early_root(guest);
    json_object *const names = json_object_new_object(), *const layout = json_object_new_object();
    bool good = layout && put_numbers(&guest->kernel, layout);

    good = json_add(names, "root", json_object_new_uint64(space->root)) && good;
    good = json_add(names, "ignored", json_object_new_uint64(space->ignored)) && good;
    good = json_add(names, "five-levels", json_object_new_boolean(space->has_five_levels)) && good;
    if (early_root)
        good = json_add(names, "early-root", json_object_new_uint64(early_root)) && good;
    good = json_add(names, "layout", layout) && good;
    if (good)
        return names;
    json_object_put(names);
    return NULL;
}
